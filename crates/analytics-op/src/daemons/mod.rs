//! The daemons of all kinds, each in a file of its own: its container, how the node agent runs it and the files that it reads; and what several of them have in
//! common.

pub mod alarm_gen;
pub mod api;
pub mod collector;
pub mod kafka;
pub mod query_engine;
pub mod snmp_collector;
pub mod topology;

use std::collections::BTreeSet;

use tf_agent_api::launch::{Connections, Launch, PATIENCE, Probe, Unusable, port};
use tf_api::{common::LogLevel, contract::MemberStatus, schema::Port};
use tf_contrail::{
    daemon::Daemon,
    nodemanager::{self, NodeType},
    sandesh, vnc_api,
};
use tf_plan::{
    build::pod::DaemonContainer,
    connection::Connection,
    keystone::{self, Keystone},
    not_ready::NotReady,
    procedure::{DisruptionPolicy, Store, Troubles},
    reports::{Reports, pod_of},
};

/// The members of a resource whose container `daemon` speaks for the pod, as the roll-outs of all components see them.
pub const fn members(daemon: &'static str) -> Store {
    Store { daemon, policy: DisruptionPolicy::Independent("member of analytics"), troubles, election: None }
}

/// Pods in which the daemon that speaks for them serves and another one does not, which only the kubelet knows.
fn troubles(members: &[MemberStatus], reports: &Reports<'_>) -> Troubles {
    let trouble = |member: &MemberStatus| {
        let pod = pod_of(member, reports.pods)?;
        let serves = reports.of(pod)?.health.as_ref().is_some_and(|health| health.serves);
        (serves && !pod.ready).then(|| (pod.name.clone(), BESIDE.to_owned()))
    };
    members.iter().filter_map(trouble).collect()
}

/// What is said of such a pod.
const BESIDE: &str = "one of its daemons is not ready; its NodeStatus introspection page has the cause";

/// The files of a client of the config API, who may ask Keystone.
fn client(keystone: Option<&Keystone>) -> impl Iterator<Item = &'static str> {
    let ca = keystone::files(keystone).map(|_| keystone::CA);
    [Some(vnc_api::FILE), keystone.map(|_| keystone::FILE), ca].into_iter().flatten()
}

/// The daemon says at this port that it is connected to everything it needs, and takes its log level there.
///
/// # Errors
/// When the port is 0.
fn introspected(launch: Launch, introspect: Port, level: LogLevel) -> Result<Launch, Unusable> {
    let ready = Probe::NodeStatus {
        port: port("ready.port", introspect)?,
        tls: true,
        functional: true,
        optional: BTreeSet::new(),
        elected: false,
    };
    Ok(Launch { ready, level: Some(sandesh::level(level, introspect)?), ..launch })
}

/// Seconds for which it has to be down in every look until it counts as lost. Notifications wait in the daemon's queue, and each that it takes costs it
/// the connection: at 0.72 a second, as seen, it is down for most of the time, and was down in every look for 15 s now and then.
const BUS_LOST_AFTER: u32 = 300;

/// The same of a daemon that gets changes of the configuration over RabbitMQ: it serves without, and what it lacks is reported. For each
/// notification of a type that it does not know it drops its connection to RabbitMQ, opens another one 0.1 to 2 s later, and calls itself
/// Non-Functional meanwhile (seen with the daemons of tf-analytics 7e36a3db of 2026: 432 times in ten minutes).
///
/// # Errors
/// When the port is 0.
fn reader(launch: Launch, introspect: Port, level: LogLevel) -> Result<Launch, Unusable> {
    let mut launch = introspected(launch, introspect, level)?;
    if let Probe::NodeStatus { optional, .. } = &mut launch.ready {
        optional.insert(sandesh::BUS.to_owned());
    }
    let connections = Connections { patience: Some(BUS_LOST_AFTER), ..sandesh::connections(introspect)? };
    Ok(Launch { connections: Some(connections), ..launch })
}

/// The node manager, which reports to these collectors.
///
/// # Errors
/// When a value cannot be expressed in its file.
pub fn node_manager(
    node_type: NodeType,
    log_level: LogLevel,
    collectors: &Connection,
    members: &[MemberStatus],
    container: DaemonContainer,
) -> Result<Daemon, NotReady> {
    let daemon = nodemanager::daemon(node_type, log_level, Some(collectors), members, container)?;
    // As in the launch files of earlier releases: another one would restart it.
    let launch = daemon.launch.map(|launch| Launch { patience: Some(PATIENCE), ..launch });
    Ok(Daemon { launch, ..daemon })
}
