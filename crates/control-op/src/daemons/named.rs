//! contrail-named, which answers machines (docs/upstream/control.md#contrail-named). contrail-dns writes its configuration, see [`super::dns`].

use tf_agent_api::launch::{Launch, PATIENCE, Probe, Unusable, port};
use tf_contrail::daemon::Daemon;
use tf_plan::{
    build::{
        configuration::Files,
        pod::{DaemonContainer, Privileges},
    },
    images::Builtin,
    not_ready::NotReady,
};

use super::dns::{self, DIR};
use crate::cluster::Cluster;

/// The container.
pub const CONTAINER: Builtin = Builtin { name: "named", image: "controller-control-named", default: true };
/// Name of the endpoint, and of its port.
pub const ENDPOINT: &str = "dns";

/// The name server, in the foreground. It waits for what contrail-dns writes for it.
///
/// # Errors
/// When contrail-dns writes nothing, or a value cannot be expressed in the launch file.
pub fn daemon(cluster: &Cluster<'_>, container: DaemonContainer) -> Result<Daemon, NotReady> {
    let container = DaemonContainer {
        ports: vec![(ENDPOINT, cluster.spec.dns_port)],
        // The first is for its port, the next three for becoming `contrail`, the owner of the files, and the last for the node agent, which has to end
        // it then.
        privileges: Privileges::Root(&["NET_BIND_SERVICE", "CHOWN", "SETUID", "SETGID", "KILL"]),
        ..dns::with_zones(container)
    };
    let daemon = Daemon::new(container, launch(cluster)?, Files::default());
    Ok(cluster.on_members(Daemon { volumes: dns::volumes(), ..daemon }))
}

fn launch(cluster: &Cluster<'_>) -> Result<Launch, Unusable> {
    let file = cluster.key.map(|key| format!("{DIR}/{}", cluster.named_file(key)));
    let file = file.ok_or(Unusable::Invalid { field: "argv", why: "names no file" })?;
    let argv = ["contrail-named", "-f", "-u", "contrail", "-c", &file].map(str::to_owned).to_vec();
    let ready = Probe::Dns { port: port("ready.port", cluster.spec.dns_port)? };
    Ok(Launch { awaits: vec![file], ready, patience: Some(PATIENCE), ..Launch::new(argv) })
}
