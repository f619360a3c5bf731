//! The `[CONFIGDB]` section: how daemons that follow the configuration find its database and the message bus (docs/upstream/files.md#configdb).
//! Control, DNS and collectors have the same client, and the daemons of alarms and SNMP took its names over, but for those of certificates.

use tf_api::contract::MemberStatus;
use tf_config_files::{Section, Separator, Settings as _};

use super::{Cassandra, Rabbitmq};

/// Name of the section.
pub const SECTION: &str = "CONFIGDB";

/// Fills the section for the client in C++ of this member.
pub fn fill(section: &mut Section, cassandra: &Cassandra, rabbitmq: &Rabbitmq, member: &MemberStatus) {
    database(section, cassandra);
    bus(section, rabbitmq, member, Separator::Blank, "rabbitmq_ssl");
}

/// The database.
pub fn database(section: &mut Section, cassandra: &Cassandra) {
    section.list("config_db_server_list", Separator::Blank, &cassandra.servers).set("config_db_use_ssl", cassandra.tls);
    if cassandra.tls {
        section.set("config_db_ca_certs", cassandra.external_tls.trust());
    }
    if let Some(login) = &cassandra.login {
        section.set("config_db_username", &login.user).set("config_db_password", &login.password);
    }
}

/// The message bus, as a member's daemons find it. Certificates are named by options that begin with `prefix`.
pub fn bus(section: &mut Section, rabbitmq: &Rabbitmq, member: &MemberStatus, separator: Separator, prefix: &str) {
    section
        .list("rabbitmq_server_list", separator, rabbitmq.servers_for(member))
        .set_credential("rabbitmq_user", &rabbitmq.login.user)
        .set_credential("rabbitmq_password", &rabbitmq.login.password)
        .set_vhost("rabbitmq_vhost", &rabbitmq.vhost)
        .set("rabbitmq_use_ssl", rabbitmq.tls);
    if rabbitmq.tls {
        section
            .set(&format!("{prefix}_keyfile"), rabbitmq.external_tls.key())
            .set(&format!("{prefix}_certfile"), rabbitmq.external_tls.certificate())
            .set(&format!("{prefix}_ca_certs"), rabbitmq.external_tls.trust());
    }
}
