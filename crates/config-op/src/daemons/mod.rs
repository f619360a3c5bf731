//! The daemons of a member, each in a file of its own: its container, how the node agent runs it (docs/upstream/config.md#command-lines) and the files that it
//! reads.

pub mod api;
pub mod device_manager;
pub mod dnsmasq;
pub mod schema;
pub mod svc_monitor;

use std::collections::BTreeSet;

use tf_agent_api::launch::{Launch, OnChange, Probe, Unusable, port};
use tf_api::{kinds::SESSION_TIMEOUT_DEFAULT, schema::Port};
use tf_contrail::{
    daemon::{self, Daemon, Entry},
    nodemanager::{self, NodeType},
    sandesh, vnc_api,
};
use tf_plan::{
    build::pod::DaemonContainer,
    election::{self, Election},
    images::Builtin,
    keystone,
    not_ready::NotReady,
    procedure::{DisruptionPolicy, Store, Troubles},
};

use crate::cluster::Cluster;

/// What a member can run.
pub fn table<'a>() -> [Entry<Cluster<'a>>; 6] {
    [
        Entry { container: api::CONTAINER, daemon: api::daemon },
        Entry { container: device_manager::CONTAINER, daemon: device_manager::daemon },
        Entry { container: dnsmasq::CONTAINER, daemon: dnsmasq::daemon },
        Entry { container: schema::CONTAINER, daemon: schema::daemon },
        Entry { container: svc_monitor::CONTAINER, daemon: svc_monitor::daemon },
        Entry { container: nodemanager::CONTAINER, daemon: node_manager },
    ]
}

/// The containers that the spec may list.
pub fn containers() -> Vec<Builtin> {
    daemon::containers(&table())
}

/// The members, as the roll-outs of all components see them. An API that answers is asked for nothing more; of each of the daemons beside it one
/// process is elected.
pub const MEMBERS: Store = Store {
    daemon: api::CONTAINER.name,
    policy: DisruptionPolicy::Independent("API"),
    troubles: |_, _| Troubles::new(),
    election: Some(Election {
        daemons: &[schema::CONTAINER.name, svc_monitor::CONTAINER.name, device_manager::CONTAINER.name],
        leads: election::companion_leads,
        session: SESSION_TIMEOUT_DEFAULT,
    }),
};

fn node_manager(cluster: &Cluster<'_>, container: DaemonContainer) -> Result<Daemon, NotReady> {
    let Cluster { log_level, services, members, .. } = *cluster;
    Ok(nodemanager::daemon(NodeType::Config, log_level, services.analytics.as_ref(), members, container)?)
}

/// A daemon with the library of the API.
fn launch(argv: Vec<String>, cluster: &Cluster<'_>) -> Launch {
    let files = [Some(vnc_api::FILE), cluster.keystone.map(|_| keystone::FILE)];
    daemon::launch(argv, files.into_iter().flatten(), cluster.external_tls())
}

/// A client of the API. Of those that are elected one is at work, and the others open no port or answer at none, so all there is to say of them is
/// that they run (docs/upstream/daemons.md#standbys), and of one that has answered that it hangs.
fn client(program: &str, file: &str, introspect: Port, cluster: &Cluster<'_>) -> Result<Launch, Unusable> {
    let mut launch = launch(cluster.command(program, file), cluster);
    launch.files.insert(file.into(), OnChange::Restart);
    let port = port("alive.port", introspect)?;
    launch.alive =
        Some(Probe::NodeStatus { port, tls: true, functional: false, optional: BTreeSet::new(), elected: true });
    launch.connections = Some(sandesh::connections_of_client(introspect, &cluster.services.rabbitmq)?);
    launch.level = Some(sandesh::level(cluster.log_level, introspect)?);
    Ok(launch)
}
