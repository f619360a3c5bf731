//! contrail-dns, to which agents send the names of their machines (docs/upstream/control.md#contrail-dns), and what the daemon writes for the name server.
//!
//! contrail-dns writes the whole configuration of contrail-named when it starts and whenever virtual DNS changes (upstream
//! `named_config.cc`), so nothing of it is rendered here. The name server waits for the file.

use k8s_openapi::api::core::v1::Volume;
use tf_api::{contract::MemberStatus, ports};
use tf_config_files::{Ini, Settings as _, Unrepresentable};
use tf_contrail::daemon::{Daemon, LOG_DIR, native};
use tf_plan::{
    build::{
        configuration::Files,
        pod::{DaemonContainer, mount},
        storage::memory_dir,
    },
    images::Builtin,
    not_ready::NotReady,
};

use super::launch;
use crate::{
    cluster::{Cluster, DEFAULT},
    key::Key,
};

/// The container.
pub const CONTAINER: Builtin = Builtin { name: "dns", image: "controller-control-dns", default: true };
/// Name of the endpoint of introspection, and of its port.
pub const INTROSPECT: &str = "dns-introspect";
/// Name of the file.
const FILE: &str = "contrail-dns.conf";
/// Directory of what it writes, shared with the name server. Helpers of the daemon look for each other there, so it cannot be chosen.
pub const DIR: &str = "/etc/contrail/dns";
/// Volume of [`DIR`].
const ZONES: &str = "zones";

/// contrail-dns.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn daemon(cluster: &Cluster<'_>, container: DaemonContainer) -> Result<Daemon, NotReady> {
    let introspect = cluster.spec.dns_introspect_port;
    let container = DaemonContainer {
        ports: vec![(INTROSPECT, introspect), ("dns-xmpp", ports::DNS_XMPP)],
        ..with_zones(container)
    };
    let mut files = Files::default();
    for (address, member) in cluster.addressed() {
        if let Some(key) = cluster.key {
            files.member_secret(FILE, address, cluster.dns(&member, key)?);
        }
    }
    let launch = launch("contrail-dns", FILE, introspect, cluster)?;
    Ok(cluster.on_members(Daemon { volumes: volumes(), ..Daemon::new(container, launch, files) }))
}

/// A container with [`DIR`].
pub fn with_zones(container: DaemonContainer) -> DaemonContainer {
    let mut container = native(container);
    container.mounts.push(mount(ZONES, DIR));
    container
}

/// The volume of [`DIR`]. In memory, because what is written there holds the key.
pub fn volumes() -> Vec<Volume> {
    vec![memory_dir(ZONES)]
}

impl Cluster<'_> {
    /// Name of the name server's configuration, below [`DIR`].
    pub fn named_file(&self, key: &Key) -> String {
        format!("contrail-named-{}.conf", key.tag(self.spec.dns_port))
    }

    /// [`FILE`], which holds passwords and the key.
    fn dns(&self, member: &MemberStatus, key: &Key) -> Result<String, Unrepresentable> {
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
