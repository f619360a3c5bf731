//! The `[SANDESH]` section: TLS of the introspect port and of the connection to the collectors, the same for every daemon
//! (docs/upstream/files.md#sandesh).

use std::collections::BTreeSet;

use tf_agent_api::{
    launch::{Connections, Level, Tell, Unusable, port},
    node,
};
use tf_api::{common::LogLevel, schema::Port};
use tf_config_files::{Section, Settings as _};
use tf_plan::{
    connection::Connection,
    external_tls::{ExternalTls, Service},
    member_set::sys_log_level,
};

use crate::services::{COLLECTOR, Rabbitmq};

/// Name of the section.
pub const SECTION: &str = "SANDESH";

/// Fills the section. TLS to collectors is what they speak; where none are known, what those of the cluster do. Introspect asks for no client
/// certificate, as with the Go tf-operator: probes and people have none. So only collectors are checked against the authorities, and may be of
/// another one, and the first pair is what they alone are shown (upstream `sandesh_client.cc`, `sandesh_http.cc`, and `sandesh_session.py`).
pub fn fill(section: &mut Section, collectors: Option<&Connection>) {
    let external_tls = external_tls(collectors);
    section
        .set("introspect_ssl_enable", true)
        .set("introspect_ssl_insecure", true)
        .set("sandesh_ssl_enable", collector_tls(collectors))
        .set("sandesh_keyfile", external_tls.key())
        .set("sandesh_certfile", external_tls.certificate())
        .set("sandesh_server_keyfile", node::CERTIFICATE_KEY)
        .set("sandesh_server_certfile", node::CERTIFICATE)
        .set("sandesh_ca_cert", external_tls.trust());
}

/// What TLS to collectors needs, as far as it is not the cluster's own. Their API has the same.
pub fn external_tls(collectors: Option<&Connection>) -> ExternalTls {
    collectors.map(|connection| ExternalTls::of(Service::Analytics, connection)).unwrap_or_default()
}

fn collector_tls(collectors: Option<&Connection>) -> bool {
    let listed = collectors.filter(|connection| connection.endpoints.contains_key(COLLECTOR));
    listed.is_none_or(|connection| connection.tls(COLLECTOR))
}

/// The connections that a daemon lists at its introspect port. Without collectors nothing is lacking but what goes to them
/// (docs/upstream/daemons.md#without-collectors).
///
/// # Errors
/// When the port is 0.
pub fn connections(introspect: Port) -> Result<Connections, Unusable> {
    let port = port("connections.port", introspect)?;
    Ok(Connections {
        port,
        tls: true,
        optional: optional(),
        patience: None,
        servers: BTreeSet::new(),
        workers: Vec::new(),
    })
}

/// The connection to RabbitMQ, by type and name (docs/upstream/daemons.md#expected-connections).
pub const BUS: &str = "Database:RabbitMQ";

/// The same of a daemon that does not notice a server of RabbitMQ that falls silent: the schema transformer, the service monitor, the device manager
/// and kube-manager ask for no heartbeats (upstream passes 0). Servers of other certificates than the cluster's are not asked.
///
/// # Errors
/// When the port is 0.
pub fn connections_of_client(introspect: Port, rabbitmq: &Rabbitmq) -> Result<Connections, Unusable> {
    let is_own = rabbitmq.tls && rabbitmq.external_tls.ca.is_none() && rabbitmq.external_tls.pair.is_none();
    let servers = is_own.then(|| BUS.to_owned()).into_iter().collect();
    Ok(Connections { servers, ..connections(introspect)? })
}

/// Types of connections that daemons do their work without: collectors, to which they report (docs/upstream/daemons.md#without-collectors).
pub fn optional() -> BTreeSet<String> {
    ["Collector".to_owned()].into()
}

/// How a daemon that starts with the level of its file gets another one at its introspect port.
///
/// # Errors
/// When the port is 0.
pub fn level(level: LogLevel, introspect: Port) -> Result<Level, Unusable> {
    level_of(sys_log_level(level), introspect, true)
}

/// The same for a level as the daemons name it. `tls`: whether the port speaks TLS.
///
/// # Errors
/// When the port is 0.
pub fn level_of(level: &str, introspect: Port, tls: bool) -> Result<Level, Unusable> {
    Ok(Level {
        value: level.to_owned(),
        lines: ["log_level = ".to_owned()].into(),
        tell: Tell::Introspection { port: port("level.port", introspect)?, tls },
    })
}
