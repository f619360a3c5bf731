//! `contrail-control.conf` (docs/upstream/control.md#contrail-control).

use tf_api::{contract::MemberStatus, ports};
use tf_config_files::{Ini, Settings as _, Unrepresentable};

use super::{Cluster, DEFAULT};

/// Name of the file.
pub const FILE: &str = "contrail-control.conf";

impl Cluster<'_> {
    /// [`FILE`], which holds passwords.
    ///
    /// # Errors
    /// When a value cannot be expressed in the file.
    pub fn control(&self, member: &MemberStatus) -> Result<String, Unrepresentable> {
        let mut file = Ini::boost(FILE);
        let defaults = file.section(DEFAULT);
        self.common(defaults, member, ports::CONTROL_INTROSPECT, "contrail-control.log");
        defaults
            .set("bgp_port", self.spec.bgp_port)
            .set("xmpp_server_port", self.spec.xmpp_port)
            .set("xmpp_auth_enable", true);
        Self::xmpp(defaults);
        self.sections(&mut file, member);
        file.render()
    }
}
