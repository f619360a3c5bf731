//! What launch files of several daemons have in common: the files that they read, when they serve.

use std::collections::BTreeSet;

use tf_agent_api::{
    launch::{Connections, Launch, OnChange, PATIENCE, Probe, Unusable, port},
    node,
};
use tf_api::{common::LogLevel, schema::Port};
use tf_contrail::{
    nodemanager::{self, NodeType},
    sandesh, vnc_api,
};
use tf_plan::{
    connection::Connection,
    foreign::File,
    keystone::{self, Keystone},
};

/// What every daemon of Tungsten Fabric needs before it can connect to anything. The container that speaks for the pod gets it.
const CERTIFICATES: [&str; 3] = [node::CERTIFICATE, node::CERTIFICATE_KEY, node::CA_BUNDLE];

/// A daemon that is started anew when one of these files changes, or of those for TLS to services.
pub fn daemon<'a>(argv: Vec<String>, files: impl IntoIterator<Item = &'a str>, foreign: Vec<File>) -> Launch {
    let files = files.into_iter().map(str::to_owned).chain(foreign.into_iter().map(|file| file.name));
    let files = files.map(|file| (file, OnChange::Restart)).collect();
    let awaits = CERTIFICATES.map(str::to_owned).to_vec();
    Launch { files, awaits, patience: Some(PATIENCE), ..Launch::new(argv) }
}

/// The files of a client of the config API, who may ask Keystone.
pub fn client(keystone: Option<&Keystone>) -> impl Iterator<Item = &'static str> {
    let ca = keystone::files(keystone).map(|_| keystone::CA);
    [Some(vnc_api::FILE), keystone.map(|_| keystone::FILE), ca].into_iter().flatten()
}

/// The daemon says at this port that it is connected to everything it needs, and is told its log level there.
///
/// # Errors
/// When the port is 0.
pub fn introspected(launch: Launch, introspect: Port, level: LogLevel) -> Result<Launch, Unusable> {
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
pub fn reader(launch: Launch, introspect: Port, level: LogLevel) -> Result<Launch, Unusable> {
    let mut launch = introspected(launch, introspect, level)?;
    if let Probe::NodeStatus { optional, .. } = &mut launch.ready {
        optional.insert(sandesh::BUS.to_owned());
    }
    let connections = Connections { patience: Some(BUS_LOST_AFTER), ..sandesh::connections(introspect)? };
    Ok(Launch { connections: Some(connections), ..launch })
}

/// The node manager, which reports to these collectors.
pub fn node_manager(node_type: NodeType, collectors: Option<&Connection>) -> Launch {
    let argv = vec!["contrail-nodemgr".into(), format!("--nodetype=contrail-{}", node_type.name())];
    Launch { files: nodemanager::files(node_type, collectors), ..daemon(argv, [], Vec::new()) }
}
