//! The containers of a member: what each runs, may do, and sees.

use k8s_openapi::api::core::v1::Volume;
use tf_api::{AnalyticsConfiguration, schema::Port};
use tf_plan::{
    build::{
        identity::Identity,
        pod::{Daemon, mount},
        storage::{self, host_path},
    },
    images::{Builtin, Chosen},
    node,
    nodemanager::{self, COLLECTOR as COLLECTOR_ENDPOINT, NodeType},
};

use crate::{config::LOG_DIR, services};

/// The API; this name and those of the other containers are the Go tf-operator's.
pub const API: &str = "analyticsapi";
/// The collector.
pub const COLLECTOR: &str = "collector";
/// What a member can run.
pub const CONTAINERS: [Builtin; 3] = [
    Builtin { name: API, image: "analytics-api", default: true },
    Builtin { name: COLLECTOR, image: "analytics-collector", default: true },
    nodemanager::CONTAINER,
];

/// Volume of logs.
pub const LOGS: &str = "logs";
/// Names of resources whose directories the Go tf-operator left on nodes.
const LEGACY: [&str; 1] = ["analytics1"];

/// A container; `agent` is the port of the pod's node agent.
pub fn daemon(chosen: &Chosen, spec: &AnalyticsConfiguration, agent: Port) -> Daemon {
    if chosen.name == nodemanager::CONTAINER.name {
        return nodemanager::daemon(chosen, NodeType::Analytics, LOGS);
    }
    let mut daemon = Daemon {
        mounts: vec![mount(LOGS, LOG_DIR)],
        ..Daemon::new(chosen.name, chosen.image.clone(), chosen.command.clone())
    };
    if chosen.name == API {
        // Files are written as UTF-8, and not every image says so.
        daemon.env.push(("PYTHONUTF8".into(), "1".into()));
        daemon.ports = vec![
            (services::API, spec.analytics_port),
            ("introspect", spec.analytics_introspect_port),
            (node::AGENT_PORT, agent),
        ];
        daemon.speaks_for_pod = true;
    } else {
        daemon.ports =
            vec![(COLLECTOR_ENDPOINT, spec.collector_port), ("col-introspect", spec.collector_introspect_port)];
    }
    daemon
}

/// Volumes of a member.
pub fn volumes(identity: &Identity, containers: &[Chosen]) -> Vec<Volume> {
    let logs = storage::node_directory("/var/log/contrail", "analytics", &LEGACY, identity);
    let mut volumes = vec![host_path(LOGS, &logs)];
    if containers.iter().any(|chosen| chosen.name == nodemanager::CONTAINER.name) {
        volumes.extend(nodemanager::volumes());
    }
    volumes
}
