//! `contrail-dns.conf` (docs/upstream/control.md#contrail-dns), and what the daemon writes for the name server.
//!
//! contrail-dns writes the whole configuration of contrail-named when it starts and whenever virtual DNS changes (upstream
//! `named_config.cc`), so nothing of it is rendered here. The name server waits for the file.

use tf_api::contract::MemberStatus;
use tf_config_files::{Ini, Settings as _, Unrepresentable};

use super::{Cluster, DEFAULT, LOG_DIR};
use crate::key::Key;

/// Name of the file.
pub const FILE: &str = "contrail-dns.conf";
/// Directory of what it writes, shared with the name server. Helpers of the daemon look for each other there, so it cannot be chosen.
pub const DIR: &str = "/etc/contrail/dns";

impl Cluster<'_> {
    /// Name of the name server's configuration, below [`DIR`].
    pub fn named_file(&self, key: &Key) -> String {
        format!("contrail-named-{}.conf", key.tag(self.spec.dns_port))
    }

    /// [`FILE`], which holds passwords and the key.
    ///
    /// # Errors
    /// When a value cannot be expressed in the file.
    pub fn dns(&self, member: &MemberStatus, key: &Key) -> Result<String, Unrepresentable> {
        let mut file = Ini::boost(FILE);
        let defaults = file.section(DEFAULT);
        self.common(defaults, member, self.spec.dns_introspect_port, "contrail-dns.log");
        defaults
            .set("dns_server_port", self.spec.dns_port)
            .set("named_config_directory", DIR)
            .set("named_config_file", self.named_file(key))
            .set("named_log_file", format!("{LOG_DIR}/contrail-named.log"))
            .set("rndc_config_file", format!("contrail-rndc-{}.conf", key.tag(self.spec.dns_port)))
            .set("rndc_secret", key.expose())
            .set("xmpp_dns_auth_enable", true);
        Self::xmpp(defaults);
        self.sections(&mut file, member);
        file.render()
    }
}
