//! How the node agent runs the daemons of a node: command lines (docs/upstream/vrouter.md#agent-file, docs/upstream/config.md#command-lines), the
//! files that they read, when they serve.

use std::collections::BTreeSet;

use tf_agent_api::{
    launch::{Cni, Identity, Launch, Lists, OnChange, PATIENCE, Probe, Settings, port},
    node,
};
use tf_api::ports;
use tf_contrail::{
    nodemanager::{self, NodeType},
    sandesh, vnc_api,
};
use tf_plan::{component::Agents, keystone, not_ready::NotReady};

use crate::{
    config::{agent, clients, cni, qos},
    dpdk,
    parameters::{Name, Parameters},
    pods::Pods,
    services::Services,
};

/// The interface without which the agent ends at once. The kernel module makes it, on behalf of the image's own procedure
/// (docs/upstream/vrouter.md#vhost0).
const VHOST0: &str = "/sys/class/net/vhost0";

/// The launch file of a container's daemon.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn file(
    daemon: &str,
    parameters: &Parameters,
    services: &Services,
    agents: &Agents,
    pods: &Pods,
) -> Result<String, NotReady> {
    let launch = match daemon {
        name if name == nodemanager::CONTAINER.name => node_manager(services),
        dpdk::FORWARDER => dpdk::launch(&pods.forward_options),
        _ => Launch {
            vhost0: pods.vhost0_options(parameters)?,
            ..vrouter_agent(parameters, services, agents, &pods.cni_targets)?
        },
    };
    Ok(launch.render()?)
}

/// The agent. Only a restart makes it read all of its file. Of a SIGHUP it takes lists of servers (upstream `agent.cc`, `ReconfigSignalHandler`), and keeps
/// its connections to those that stay: a control node that comes or goes interrupts nobody. Where no control node is known it cannot be `Functional`, and serves as far as it can.
///
/// An agent without a control node forwards nothing, so no CNI configuration has pods wait for it then; one that is on the node already stays.
fn vrouter_agent(
    parameters: &Parameters,
    services: &Services,
    agents: &Agents,
    cni_targets: &[String],
) -> Result<Launch, NotReady> {
    let argv =
        vec!["contrail-vrouter-agent".into(), "--config_file".into(), format!("{}/{}", node::RUN_DIR, agent::FILE)];
    let mut awaits = node::TLS_FILES.map(str::to_owned).to_vec();
    awaits.push(VHOST0.into());
    let mut launch = Launch { awaits, ..Launch::new(argv) };
    launch.files.insert(agent::FILE.into(), OnChange::Restart);
    let collectors = services.collectors_foreign(parameters).files();
    launch.files.extend(collectors.into_iter().map(|file| (file.name, OnChange::Restart)));
    // Programs that the agent starts read them when they begin.
    for file in [vnc_api::FILE, clients::LOAD_BALANCER_FILE] {
        launch.files.insert(file.into(), OnChange::Nothing);
    }
    if parameters.has_keystones_authority() {
        launch.files.insert(keystone::CA.into(), OnChange::Nothing);
    }
    let config = services.config_foreign(parameters).files();
    launch.files.extend(config.into_iter().map(|file| (file.name, OnChange::Nothing)));
    let (introspect, tls) = (agent::introspect_port(parameters)?, agent::introspect_tls(parameters)?);
    let level = parameters.get(Name::LogLevel).filter(|level| level.starts_with("SYS_"));
    launch.level = level.map(|level| sandesh::level_of(level, introspect, tls)).transpose()?;
    let functional = !services.xmpp_servers(parameters)?.is_empty();
    let introspection = port("ready.port", introspect)?;
    launch.ready =
        Probe::NodeStatus { port: introspection, tls, optional: BTreeSet::new(), functional, elected: false };
    if functional && !cni_targets.is_empty() {
        launch.cni = Some(Cni {
            source: format!("{}/{}", node::CNI_DIR, cni::FILE),
            targets: cni_targets.to_vec(),
            port: port("cni.port", ports::AGENT_PORT_API)?,
        });
    }
    launch.files.insert(node::SYSCTL_FILE.into(), OnChange::Nothing);
    let stated = !parameters.items(Name::ContrailSysctlTuning).is_empty();
    launch.settings = Some(Settings { file: node::SYSCTL_FILE.into(), stated });
    launch.queues = qos::queues(parameters)?;
    launch.lists = Some(Lists::of(&["servers", "collectors"]));
    launch.patience = Some(PATIENCE);
    launch.agent = agents.api()?;
    // It never reads them again (docs/upstream/daemons.md#certificates).
    launch.identity = Some(Identity { at_start: true, ..agents.certificate() });
    Ok(launch)
}

/// It ends where `vhost0` is not up (docs/upstream/config.md#node-manager), so it waits for it, too.
fn node_manager(services: &Services) -> Launch {
    let mut launch = nodemanager::launch(NodeType::Vrouter, services.analytics.as_ref());
    launch.awaits.push(VHOST0.into());
    launch
}
