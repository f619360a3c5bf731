//! The containers of a member: what each runs, may do, and sees.

use k8s_openapi::api::core::v1::{Volume, VolumeMount};
use tf_agent_api::node;
use tf_api::schema::Port;
use tf_contrail::nodemanager::{self, NodeType};
use tf_plan::{
    build::{
        identity::Identity,
        pod::{Daemon, Privileges, mount},
        storage::{self, host_path},
    },
    images::{Builtin, Chosen},
};

use crate::config::{self, Cluster, dnsmasq};

/// The API; this name and those of the other containers are the Go tf-operator's.
pub const API: &str = "api";
/// The device manager.
pub const DEVICE_MANAGER: &str = "devicemanager";
/// What gives addresses and images to new devices.
pub const DNSMASQ: &str = "dnsmasq";
/// The schema transformer.
pub const SCHEMA: &str = "schematransformer";
/// The service monitor.
pub const SVC_MONITOR: &str = "servicemonitor";
/// What a member can run.
pub const CONTAINERS: [Builtin; 6] = [
    Builtin { name: API, image: "controller-config-api", default: true },
    Builtin { name: DEVICE_MANAGER, image: "controller-config-devicemgr", default: true },
    Builtin { name: DNSMASQ, image: "controller-config-dnsmasq", default: true },
    Builtin { name: SCHEMA, image: "controller-config-schema", default: true },
    Builtin { name: SVC_MONITOR, image: "controller-config-svcmonitor", default: true },
    nodemanager::CONTAINER,
];

/// Name of the API's endpoint, and of its port.
pub const ENDPOINT: &str = "api";
/// Name of the port of the API's administration, which is on the loopback address.
pub const ADMIN: &str = "admin";
/// Volume of logs.
pub const LOGS: &str = "logs";
const TFTP: &str = "tftp";
/// Names of resources whose directories the Go tf-operator left on nodes.
const LEGACY: [&str; 1] = ["config1"];

/// A container; `agent` is the port of the pod's node agent. Further API workers have introspect and administration ports of their own, which are not named here: two
/// members on one node would already differ about the first ones.
pub fn daemon(chosen: &Chosen, cluster: &Cluster<'_>, agent: Port) -> Daemon {
    if chosen.name == nodemanager::CONTAINER.name {
        return nodemanager::daemon(chosen, NodeType::Config, LOGS);
    }
    let spec = cluster.spec;
    let mut daemon = Daemon {
        mounts: vec![mount(LOGS, config::LOG_DIR)],
        // Files are written as UTF-8, and not every image says so.
        env: vec![("PYTHONUTF8".into(), "1".into())],
        ..Daemon::new(chosen.name, chosen.image.clone(), chosen.command.clone())
    };
    match chosen.name {
        API => {
            daemon.ports =
                vec![(ENDPOINT, spec.api_port), ("introspect", spec.api_introspect_port), (node::AGENT_PORT, agent)];
            daemon.speaks_for_pod = true;
            daemon.ports.extend(cluster.admin_port().map(|port| (ADMIN, port)));
            if spec.api_worker_count > 1 {
                daemon.env.push(("CONFIG_API_WORKER_COUNT".into(), spec.api_worker_count.to_string()));
            }
        }
        SCHEMA => daemon.ports = vec![("schema", spec.schema_introspect_port)],
        SVC_MONITOR => daemon.ports = vec![("svc-monitor", spec.svc_monitor_introspect_port)],
        DEVICE_MANAGER => {
            daemon.ports = vec![("device-manager", spec.device_manager_introspect_port)];
            daemon.mounts.extend(device_mounts());
            // It looks at the other processes of the pod and ends dnsmasq, which runs as another user (docs/upstream/images.md#privileges).
            daemon.privileges = Privileges::Root(&["KILL", "SYS_PTRACE"]);
        }
        _ => {
            daemon.mounts.extend(device_mounts());
            // The script that stores leases fails without the variable, and uses it only beside a login in further ones;
            // else it takes server and login from the library's file (upstream `dnsmasq_lease_processing.py`).
            daemon.env.push(("CONTROLLER_NODES".into(), String::new()));
            // DHCP needs the first two (docs/upstream/images.md#privileges) and TFTP the third, the next two are for becoming `nobody`, and
            // the last is for the node agent, which has to end it then (measured with dnsmasq 2.90).
            daemon.privileges =
                Privileges::Root(&["NET_ADMIN", "NET_RAW", "NET_BIND_SERVICE", "SETGID", "SETUID", "KILL"]);
        }
    }
    daemon
}

/// Directories of device manager and dnsmasq. They belong to root, as both containers do.
fn device_mounts() -> [VolumeMount; 2] {
    [mount(DNSMASQ, dnsmasq::DIR), mount(TFTP, dnsmasq::TFTP_DIR)]
}

/// Volumes of a member.
pub fn volumes(identity: &Identity, containers: &[Chosen]) -> Vec<Volume> {
    let runs = |name| containers.iter().any(|chosen| chosen.name == name);
    let mut volumes = vec![host_path(LOGS, &storage::node_directory("/var/log/contrail", "config", &LEGACY, identity))];
    if runs(DEVICE_MANAGER) || runs(DNSMASQ) {
        volumes.extend([DNSMASQ, TFTP].map(|name| host_path(name, &device_directory(name, identity))));
    }
    if runs(nodemanager::CONTAINER.name) {
        volumes.extend(nodemanager::volumes());
    }
    volumes
}

/// A directory of the node for device manager and dnsmasq: `/var/lib/<name>`, as with the Go tf-operator, for the resource
/// that takes over from it.
fn device_directory(name: &str, identity: &Identity) -> String {
    if storage::adopts(&LEGACY, identity) {
        format!("/var/lib/{name}")
    } else {
        format!("{}/{name}", storage::node_directory("/var/lib/contrail", "config", &LEGACY, identity))
    }
}
