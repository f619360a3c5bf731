//! tf-snmp-collector, which asks physical devices for their state (docs/upstream/analytics.md#snmp-collector-and-topology).

use tf_agent_api::{
    launch::{Identity, Launch, OnChange, Unusable},
    node,
};
use tf_api::contract::MemberStatus;
use tf_config_files::{Ini, Settings as _, Unrepresentable};
use tf_contrail::{
    daemon::{self, Daemon, LOGS, path, python},
    vnc_api,
};
use tf_plan::{
    build::{
        configuration::Files,
        pod::{DaemonContainer, mount},
    },
    images::Builtin,
    not_ready::NotReady,
};

use super::reader;
use crate::{config::DEFAULTS, snmp::Cluster};

/// The container.
pub const CONTAINER: Builtin =
    Builtin { name: "analytics-snmp-collector", image: "analytics-snmp-collector", default: true };
/// The configuration.
const FILE: &str = "tf-snmp-collector.conf";
/// Devices beside those of the config API. The daemon wants the file, and nothing needs what is in it.
const DEVICES: &str = "device.ini";

/// The SNMP collector.
///
/// # Errors
/// When a value cannot be expressed in a file.
pub fn daemon(cluster: &Cluster<'_>, container: DaemonContainer) -> Result<Daemon, NotReady> {
    let mut container = DaemonContainer {
        ports: vec![("snmp", cluster.snmp_port()), (node::AGENT_PORT, cluster.agents.port)],
        mounts: vec![mount(LOGS, &cluster.around.log_dir)],
        speaks_for_pod: true,
        ..python(container)
    };
    container.env.push(("SNMPCONFPATH".into(), node::RUN_DIR.into()));
    let mut files = Files::secret_of_each(FILE, cluster.members, |member| file(cluster, member))?;
    files.shared(DEVICES, "");
    Ok(Daemon::new(container, launch(cluster)?, files))
}

fn launch(cluster: &Cluster<'_>) -> Result<Launch, Unusable> {
    let argv = ["tf-snmp-collector", "-c", &path(FILE), "--device-config-file", &path(DEVICES)];
    let files = [FILE, vnc_api::FILE];
    let launch = daemon::launch(argv.map(str::to_owned).to_vec(), files, cluster.around.external_tls());
    let mut launch = reader(launch, cluster.snmp_port(), cluster.around.level)?;
    launch.files.insert(DEVICES.into(), OnChange::Restart);
    launch.agent = cluster.agents.api()?;
    // It never reads them again (docs/upstream/daemons.md#certificates).
    launch.identity = Some(Identity { at_start: true, ..cluster.agents.certificate() });
    Ok(launch)
}

/// [`FILE`], which holds passwords.
fn file(cluster: &Cluster<'_>, member: &MemberStatus) -> Result<String, Unrepresentable> {
    let spec = &cluster.cr.spec.service_configuration;
    let mut file = Ini::python(FILE);
    let name = spec.snmp_collector_log_file_name.as_deref().unwrap_or("contrail-snmp-collector.log");
    let defaults = file.section(DEFAULTS);
    cluster.common(defaults, member, cluster.snmp_port(), name);
    defaults
        .set("scan_frequency", spec.snmp_collector_scan_frequency.unwrap_or(600))
        .set("fast_scan_frequency", spec.snmp_collector_fast_scan_frequency.unwrap_or(60));
    cluster.sections(&mut file, member);
    file.render()
}
