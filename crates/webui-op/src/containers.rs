//! The containers of a member: what each runs, may do, and sees.

use k8s_openapi::api::core::v1::Volume;
use tf_agent_api::node;
use tf_api::{ports, schema::Port};
use tf_plan::{
    build::{
        identity::Identity,
        pod::{Daemon, mount},
        storage::{self, host_path},
    },
    images::{Builtin, Chosen},
};

use crate::config::LOG_DIR;

/// The server that browsers talk to; this name and the other one are the Go tf-operator's.
pub const WEB: &str = "webuiweb";
/// The server that does what takes longer.
pub const JOB: &str = "webuijob";
/// What a member can run.
pub const CONTAINERS: [Builtin; 2] = [
    Builtin { name: WEB, image: "controller-webui-web", default: true },
    Builtin { name: JOB, image: "controller-webui-job", default: true },
];

/// Name of the endpoint, and of its port.
pub const HTTPS: &str = "https";
/// Name of the port that redirects there.
pub const HTTP: &str = "http";
/// Names of ports on the loopback address.
const JOBS: &str = "jobs";
const REDIS: &str = "redis";
const KUE: &str = "kue";
/// Volume of logs.
pub const LOGS: &str = "logs";
/// Names of resources whose directories the Go tf-operator left on nodes.
const LEGACY: [&str; 1] = ["webui1"];

/// A container; `agent` is the port of the pod's node agent.
pub fn daemon(chosen: &Chosen, agent: Port) -> Daemon {
    let is_web = chosen.name == WEB;
    let ports = if is_web {
        vec![
            (HTTPS, ports::WEBUI_HTTPS),
            (HTTP, ports::WEBUI_HTTP),
            (JOBS, ports::WEBUI_JOBS),
            (REDIS, ports::WEBUI_REDIS),
            (node::AGENT_PORT, agent),
        ]
    } else {
        vec![(KUE, ports::WEBUI_KUE)]
    };
    Daemon {
        mounts: vec![mount(LOGS, LOG_DIR)],
        ports,
        speaks_for_pod: is_web,
        ..Daemon::new(chosen.name, chosen.image.clone(), chosen.command.clone())
    }
}

/// Ports that somebody else may connect to.
pub fn is_reachable(port: &str) -> bool {
    ![JOBS, REDIS, KUE].contains(&port)
}

/// Volumes of a member.
pub fn volumes(identity: &Identity) -> Vec<Volume> {
    vec![host_path(LOGS, &storage::node_directory("/var/log/contrail", "webui", &LEGACY, identity))]
}
