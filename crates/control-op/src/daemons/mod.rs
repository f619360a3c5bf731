//! The daemons of a member, each in a file of its own: its container, how the node agent runs it (docs/upstream/control.md#command-lines) and the files that it
//! reads.
//!
//! contrail-control and contrail-dns serve when NodeStatus says `Functional`: an open port shows nothing. Without a bgp-router of the
//! node's name in the config API contrail-control closes every connection of an agent (upstream `bgp_xmpp_channel.cc`) and says `No BGP
//! configuration for self`, and without database or message bus what it sends to agents becomes old.
//!
//! Of a SIGHUP they take the list of collectors and go on, and lists and passwords of database and message bus, for which they begin to read their
//! configuration again (upstream `options.cc`, `ParseReConfig`); for those, as for everything else, they are restarted.

pub mod control;
pub mod dns;
pub mod named;

use tf_agent_api::launch::{Launch, Lists, Probe, Unusable, port};
use tf_api::{ControlConfiguration, contract::MemberStatus, schema::Port};
use tf_contrail::{
    daemon::{self, Daemon, Entry, path},
    nodemanager::{self, NodeType},
    sandesh,
};
use tf_plan::{
    build::pod::DaemonContainer,
    images::Builtin,
    not_ready::NotReady,
    procedure::{DisruptionPolicy, Store, Troubles},
    reports::{Reports, pod_of},
    selection,
};

use crate::cluster::Cluster;

/// What a member can run.
pub fn table<'a>() -> [Entry<Cluster<'a>>; 4] {
    [
        Entry { container: control::CONTAINER, daemon: control::daemon },
        Entry { container: dns::CONTAINER, daemon: dns::daemon },
        Entry { container: named::CONTAINER, daemon: named::daemon },
        Entry { container: nodemanager::CONTAINER, daemon: node_manager },
    ]
}

/// The containers that the spec may list.
pub fn containers() -> Vec<Builtin> {
    daemon::containers(&table())
}

/// The members, as the roll-outs of all components see them.
pub const MEMBERS: Store = Store {
    daemon: control::CONTAINER.name,
    policy: DisruptionPolicy::Independent("control node"),
    troubles,
    election: None,
};

/// Pods whose DNS daemon or name server does not serve, which only the kubelet knows: it does not say why.
fn troubles(members: &[MemberStatus], reports: &Reports<'_>) -> Troubles {
    let trouble = |member: &MemberStatus| {
        let pod = pod_of(member, reports.pods)?;
        let status = reports.of(pod)?;
        let serves = status.health.as_ref().is_some_and(|health| health.serves);
        let is_alone = serves && !pod.ready && status.daemons.contains_key(dns::CONTAINER.name);
        is_alone.then(|| (pod.name.clone(), BESIDE.to_owned()))
    };
    members.iter().filter_map(trouble).collect()
}

/// What is said of a pod that is not ready although contrail-control is.
const BESIDE: &str = "contrail-dns or named beside it is not ready; the NodeStatus introspection page of dns, or the log of named, has the cause";

/// Whether the spec's container list, or its absence, names the container.
pub fn lists(spec: &ControlConfiguration, container: &str) -> bool {
    spec.containers.is_empty() || selection::lists(&spec.containers, container)
}

/// Whether members serve DNS, which takes two daemons.
pub fn serves_dns(spec: &ControlConfiguration) -> bool {
    lists(spec, dns::CONTAINER.name) && lists(spec, named::CONTAINER.name)
}

fn node_manager(cluster: &Cluster<'_>, container: DaemonContainer) -> Result<Daemon, NotReady> {
    let Cluster { log_level, services, members, .. } = *cluster;
    Ok(cluster.on_members(nodemanager::daemon(
        NodeType::Control,
        log_level,
        services.analytics.as_ref(),
        members,
        container,
    )?))
}

/// A daemon in C++ that says at this port that it serves.
fn launch(program: &str, file: &str, introspect: Port, cluster: &Cluster<'_>) -> Result<Launch, Unusable> {
    let argv = vec![program.into(), "--conf_file".into(), path(file)];
    let ready = Probe::NodeStatus {
        port: port("ready.port", introspect)?,
        tls: true,
        functional: true,
        optional: sandesh::optional(),
        elected: false,
    };
    let level = Some(sandesh::level(cluster.log_level, introspect)?);
    let lists = Some(Lists::of(&["collectors"]));
    Ok(Launch { ready, level, lists, ..daemon::launch(argv, [file], cluster.services.external_tls()) })
}
