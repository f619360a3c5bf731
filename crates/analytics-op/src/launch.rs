//! What launch files of several daemons have in common: the files that they read, when they serve.

use std::collections::BTreeSet;

use tf_api::{common::LogLevel, schema::Port};
use tf_plan::{
    dependency::Connection,
    foreign::File,
    keystone::{self, Keystone},
    node,
    node::launch::{Launch, OnChange, PATIENCE, Probe, Unusable, port},
    nodemanager::{self, NodeType},
    sandesh, vnc_api,
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

/// The node manager, which reports to these collectors.
pub fn node_manager(node_type: NodeType, collectors: Option<&Connection>) -> Launch {
    let argv = vec!["contrail-nodemgr".into(), format!("--nodetype=contrail-{}", node_type.name())];
    Launch { files: nodemanager::files(node_type, collectors), ..daemon(argv, [], Vec::new()) }
}
