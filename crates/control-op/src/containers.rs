//! The containers of a member: what each runs, may do, and sees.

use k8s_openapi::api::core::v1::Volume;
use tf_agent_api::node;
use tf_api::{ControlConfiguration, ports, schema::Port};
use tf_contrail::nodemanager::{self, NodeType};
use tf_plan::{
    build::{
        identity::Identity,
        pod::{Daemon, Privileges, mount},
        storage::{self, host_path, memory_dir},
    },
    images::{Builtin, Chosen},
    selection,
};

use crate::config::{LOG_DIR, dns};

/// contrail-control; this name and those of the other containers are the Go tf-operator's.
pub const CONTROL: &str = "control";
/// contrail-dns, which agents tell the names of their machines.
pub const DNS: &str = "dns";
/// contrail-named, which answers machines.
pub const NAMED: &str = "named";
/// What a member can run.
pub const CONTAINERS: [Builtin; 4] = [
    Builtin { name: CONTROL, image: "controller-control-control", default: true },
    Builtin { name: DNS, image: "controller-control-dns", default: true },
    Builtin { name: NAMED, image: "controller-control-named", default: true },
    nodemanager::CONTAINER,
];

/// Names of endpoints, and of their ports.
pub const XMPP: &str = "xmpp";
/// As [`XMPP`].
pub const BGP: &str = "bgp";
/// As [`XMPP`].
pub const DNS_INTROSPECT: &str = "dns-introspect";
/// Volume of logs.
pub const LOGS: &str = "logs";
/// Volume of [`dns::DIR`]. In memory, because what is written there holds the key.
const ZONES: &str = "zones";
/// Names of resources whose directories the Go tf-operator left on nodes.
const LEGACY: [&str; 1] = ["control1"];

/// Whether the spec's container list, or its absence, names the container.
pub fn lists(spec: &ControlConfiguration, container: &str) -> bool {
    spec.containers.is_empty() || selection::lists(&spec.containers, container)
}

/// Whether members serve DNS, which takes two daemons.
pub fn serves_dns(spec: &ControlConfiguration) -> bool {
    lists(spec, DNS) && lists(spec, NAMED)
}

/// A container; `agent` is the port of the pod's node agent.
pub fn daemon(chosen: &Chosen, spec: &ControlConfiguration, agent: Port) -> Daemon {
    if chosen.name == nodemanager::CONTAINER.name {
        return nodemanager::daemon(chosen, NodeType::Control, LOGS);
    }
    let mut daemon = Daemon {
        mounts: vec![mount(LOGS, LOG_DIR)],
        ..Daemon::new(chosen.name, chosen.image.clone(), chosen.command.clone())
    };
    match chosen.name {
        CONTROL => {
            daemon.ports = vec![
                (XMPP, spec.xmpp_port),
                (BGP, spec.bgp_port),
                ("introspect", ports::CONTROL_INTROSPECT),
                (node::AGENT_PORT, agent),
            ];
            daemon.speaks_for_pod = true;
            // The port of BGP is one of the system's (docs/upstream/images.md#privileges). What the file of the program may do does not count here,
            // since nothing in a container gets more than it begins with.
            daemon.privileges = Privileges::Root(&["NET_BIND_SERVICE"]);
        }
        DNS => {
            daemon.ports = vec![(DNS_INTROSPECT, spec.dns_introspect_port), ("dns-xmpp", ports::DNS_XMPP)];
            daemon.mounts.push(mount(ZONES, dns::DIR));
        }
        _ => {
            daemon.ports = vec![(DNS, spec.dns_port)];
            daemon.mounts.push(mount(ZONES, dns::DIR));
            // The first is for its port, the next three for becoming `contrail`, the owner of the files (docs/upstream/control.md#contrail-named),
            // and the last for the node agent, which has to end it then.
            daemon.privileges = Privileges::Root(&["NET_BIND_SERVICE", "CHOWN", "SETUID", "SETGID", "KILL"]);
        }
    }
    daemon
}

/// Volumes of a member.
pub fn volumes(identity: &Identity, containers: &[Chosen]) -> Vec<Volume> {
    let runs = |name| containers.iter().any(|chosen| chosen.name == name);
    let mut volumes =
        vec![host_path(LOGS, &storage::node_directory("/var/log/contrail", "control", &LEGACY, identity))];
    if runs(DNS) {
        volumes.push(memory_dir(ZONES));
    }
    if runs(nodemanager::CONTAINER.name) {
        volumes.extend(nodemanager::volumes());
    }
    volumes
}
