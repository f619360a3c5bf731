//! The container of a member: what it runs, may do, and sees.

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

/// contrail-kube-manager; the name is the Go tf-operator's.
pub const KUBEMANAGER: &str = "kubemanager";
/// What a member can run.
pub const CONTAINERS: [Builtin; 1] = [Builtin { name: KUBEMANAGER, image: "kubernetes-kube-manager", default: true }];

/// Volume of logs.
pub const LOGS: &str = "logs";
/// Names of resources whose directories the Go tf-operator left on nodes.
const LEGACY: [&str; 1] = ["kubemanager1"];

/// The container; `agent` is the port of the pod's node agent.
pub fn daemon(chosen: &Chosen, agent: Port) -> Daemon {
    Daemon {
        mounts: vec![mount(LOGS, LOG_DIR)],
        // Files are written as UTF-8, and not every image says so.
        env: vec![("PYTHONUTF8".into(), "1".into())],
        ports: vec![("introspect", ports::KUBE_MANAGER_INTROSPECT), (node::AGENT_PORT, agent)],
        speaks_for_pod: true,
        ..Daemon::new(chosen.name, chosen.image.clone(), chosen.command.clone())
    }
}

/// Volumes of a member.
pub fn volumes(identity: &Identity) -> Vec<Volume> {
    vec![host_path(LOGS, &storage::node_directory("/var/log/contrail", "kubemanager", &LEGACY, identity))]
}
