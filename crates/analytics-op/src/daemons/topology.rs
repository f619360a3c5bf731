//! tf-topology, which computes how physical devices are connected (docs/upstream/analytics.md#snmp-collector-and-topology).

use tf_agent_api::launch::{Launch, Unusable};
use tf_api::contract::MemberStatus;
use tf_config_files::{Ini, Separator::Blank, Settings as _, Unrepresentable};
use tf_contrail::daemon::{self, Daemon, LOGS, path, python};
use tf_plan::{
    build::{
        configuration::Files,
        pod::{DaemonContainer, mount},
    },
    images::Builtin,
    keystone,
    not_ready::NotReady,
};

use super::{client, reader};
use crate::{config::DEFAULTS, services::API, snmp::Cluster};

/// The container.
pub const CONTAINER: Builtin =
    Builtin { name: "analytics-snmp-topology", image: "analytics-snmp-topology", default: true };
/// The configuration.
const FILE: &str = "tf-topology.conf";

/// The topology daemon.
///
/// # Errors
/// When a value cannot be expressed in a file.
pub fn daemon(cluster: &Cluster<'_>, container: DaemonContainer) -> Result<Daemon, NotReady> {
    let container = DaemonContainer {
        ports: vec![("topology", cluster.topology_port())],
        mounts: vec![mount(LOGS, &cluster.around.log_dir)],
        ..python(container)
    };
    let files = Files::secret_of_each(FILE, cluster.members, |member| file(cluster, member))?;
    Ok(Daemon::new(container, launch(cluster)?, files))
}

fn launch(cluster: &Cluster<'_>) -> Result<Launch, Unusable> {
    let own: Vec<&str> = [FILE].into_iter().chain(cluster.login().map(|_| keystone::FILE)).collect();
    let named = own.iter().flat_map(|file| ["-c".into(), path(file)]);
    let argv = ["tf-topology".to_owned()].into_iter().chain(named).collect();
    let files = own.iter().copied().chain(client(cluster.around.keystone.as_ref()));
    reader(daemon::launch(argv, files, cluster.around.external_tls()), cluster.topology_port(), cluster.around.level)
}

/// [`FILE`], which holds passwords.
fn file(cluster: &Cluster<'_>, member: &MemberStatus) -> Result<String, Unrepresentable> {
    let spec = &cluster.cr.spec.service_configuration;
    let mut file = Ini::python(FILE);
    let name = spec.topology_log_file_name.as_deref().unwrap_or("contrail-topology.log");
    let defaults = file.section(DEFAULTS);
    cluster.common(defaults, member, cluster.topology_port(), name);
    let frequency = spec.topology_scan_frequency.or(spec.topology_snmp_frequency).unwrap_or(600);
    defaults.set("scan_frequency", frequency);
    if !cluster.asks_its_node() {
        defaults.list("analytics_api", Blank, cluster.around.analytics.authorities(API));
    }
    cluster.sections(&mut file, member);
    file.render()
}
