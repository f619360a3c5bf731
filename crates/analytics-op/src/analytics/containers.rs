//! The containers of a member: what each runs and which ports it has.

use tf_agent_api::node;
use tf_api::{AnalyticsConfiguration, schema::Port};
use tf_contrail::{
    nodemanager::{self, NodeType},
    services::COLLECTOR as COLLECTOR_ENDPOINT,
};
use tf_plan::{
    build::pod::Daemon,
    images::{Builtin, Chosen},
};

use crate::{
    config::LOG_DIR,
    member::{LOGS, native, python},
    services,
};

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

/// A container; `agent` is the port of the pod's node agent.
pub fn daemon(chosen: &Chosen, spec: &AnalyticsConfiguration, agent: Port) -> Daemon {
    match chosen.name {
        API => {
            let ports = vec![
                (services::API, spec.analytics_port),
                ("introspect", spec.analytics_introspect_port),
                (node::AGENT_PORT, agent),
            ];
            Daemon { speaks_for_pod: true, ..python(chosen, ports, LOG_DIR) }
        }
        COLLECTOR => {
            let ports =
                vec![(COLLECTOR_ENDPOINT, spec.collector_port), ("col-introspect", spec.collector_introspect_port)];
            native(chosen, ports, LOG_DIR)
        }
        _ => nodemanager::daemon(chosen, NodeType::Analytics, LOGS),
    }
}
