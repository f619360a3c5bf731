//! Files of the schema transformer and the service monitor: clients of the API and of the stores, of which one member's is
//! at work and the others wait (docs/upstream/config.md#elected-daemons).
//!
//! `[SECURITY]` is left out: neither uses what it says (docs/upstream/observed.md#options-that-are-not-read).

use tf_api::{contract::MemberStatus, kinds::SESSION_TIMEOUT_DEFAULT};
use tf_config_files::{Ini, Separator::Blank, Settings as _, Unrepresentable, url};
use tf_contrail::sandesh;

use super::{Cluster, DEFAULTS};
use crate::services;

/// The configuration of the schema transformer.
pub const SCHEMA_FILE: &str = "contrail-schema.conf";
/// The configuration of the service monitor.
pub const SVC_MONITOR_FILE: &str = "contrail-svc-monitor.conf";

impl Cluster<'_> {
    /// [`SCHEMA_FILE`], which holds passwords.
    ///
    /// # Errors
    /// When a value cannot be expressed in the file.
    pub fn schema(&self, member: &MemberStatus) -> Result<String, Unrepresentable> {
        let mut file = Ini::python(SCHEMA_FILE);
        let defaults = file.section(DEFAULTS);
        defaults
            .set("host_ip", &member.address)
            // Seconds of its session, 120 by itself, and how often it lets its client of ZooKeeper work (upstream `to_bgp.py`).
            .set("zk_timeout", SESSION_TIMEOUT_DEFAULT.as_secs());
        self.common(defaults, self.spec.schema_introspect_port.get());
        self.api_client(defaults);
        self.stores(defaults, member);
        self.sections(&mut file);
        file.render()
    }

    /// [`SVC_MONITOR_FILE`], which holds passwords.
    ///
    /// # Errors
    /// When a value cannot be expressed in the file.
    pub fn svc_monitor(&self, member: &MemberStatus) -> Result<String, Unrepresentable> {
        let analytics = services::analytics_api(self.services.analytics.as_ref());
        let mut file = Ini::python(SVC_MONITOR_FILE);
        let defaults = file.section(DEFAULTS);
        defaults.set("host_ip", &member.address);
        self.common(defaults, self.spec.svc_monitor_introspect_port.get());
        self.api_client(defaults);
        self.stores(defaults, member);
        if let Some((.., true)) = analytics {
            let foreign = sandesh::foreign(self.services.analytics.as_ref());
            defaults
                .set("analytics_api_ssl_enable", true)
                .set("analytics_api_insecure_enable", false)
                .set("analytics_api_ssl_certfile", foreign.certificate())
                .set("analytics_api_ssl_keyfile", foreign.key())
                .set("analytics_api_ssl_ca_cert", foreign.trust());
        }
        let scheduler = file.section("SCHEDULER");
        scheduler.set("aaa_mode", self.aaa_mode().as_str());
        if let Some((hosts, port, _)) = analytics {
            let servers = hosts.iter().map(|host| url::authority(host, port));
            scheduler.list("analytics_server_list", Blank, servers);
        }
        self.sections(&mut file);
        file.render()
    }
}
