//! The service monitor: a client of the API and of the stores, of which one member's is at work and the others wait (docs/upstream/config.md#elected-daemons).
//!
//! `[SECURITY]` is left out: it does not use what that says (docs/upstream/observed.md#options-that-are-not-read).

use tf_api::contract::MemberStatus;
use tf_config_files::{Ini, Separator::Blank, Settings as _, Unrepresentable, url};
use tf_contrail::{
    daemon::{Daemon, python},
    sandesh,
};
use tf_plan::{
    build::{configuration::Files, pod::DaemonContainer},
    images::Builtin,
    not_ready::NotReady,
};

use super::client;
use crate::{
    cluster::{Cluster, DEFAULTS},
    services,
};

/// The container.
pub const CONTAINER: Builtin = Builtin { name: "servicemonitor", image: "controller-config-svcmonitor", default: true };
/// The configuration.
const FILE: &str = "contrail-svc-monitor.conf";

/// The service monitor.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn daemon(cluster: &Cluster<'_>, container: DaemonContainer) -> Result<Daemon, NotReady> {
    let introspect = cluster.spec.svc_monitor_introspect_port;
    let container = DaemonContainer { ports: vec![("svc-monitor", introspect)], ..python(container) };
    let files = Files::secret_of_each(FILE, cluster.members, |member| cluster.svc_monitor(member))?;
    Ok(Daemon::new(container, client("contrail-svc-monitor", FILE, introspect, cluster)?, files))
}

impl Cluster<'_> {
    /// [`FILE`], which holds passwords.
    fn svc_monitor(&self, member: &MemberStatus) -> Result<String, Unrepresentable> {
        let analytics = services::analytics_api(self.services.analytics.as_ref());
        let mut file = Ini::python(FILE);
        let defaults = file.section(DEFAULTS);
        defaults.set("host_ip", &member.address);
        self.common(defaults, self.spec.svc_monitor_introspect_port.get());
        self.api_client(defaults);
        self.stores(defaults, member);
        if let Some((.., true)) = analytics {
            let external_tls = sandesh::external_tls(self.services.analytics.as_ref());
            defaults
                .set("analytics_api_ssl_enable", true)
                .set("analytics_api_insecure_enable", false)
                .set("analytics_api_ssl_certfile", external_tls.certificate())
                .set("analytics_api_ssl_keyfile", external_tls.key())
                .set("analytics_api_ssl_ca_cert", external_tls.trust());
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
