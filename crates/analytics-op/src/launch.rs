//! What launch files of several daemons have in common: the files that they read, when they serve.

use std::collections::BTreeSet;

use tf_api::{common::LogLevel, schema::Port};
use tf_plan::{
    keystone::{self, Keystone},
    node,
    node::launch::{Launch, OnChange, PATIENCE, Probe, Unusable, port},
    nodemanager::NodeType,
    sandesh,
    services::{CASSANDRA_CA, RABBITMQ_CA, REDIS_CA},
    vnc_api,
};

use crate::services::Services;

/// What every daemon of Tungsten Fabric needs before it can connect to anything. The container that speaks for the pod gets it.
const CERTIFICATES: [&str; 3] = [node::CERTIFICATE, node::CERTIFICATE_KEY, node::CA_BUNDLE];

/// A daemon that is started anew when one of these files changes.
pub fn daemon<'a>(argv: Vec<String>, files: impl IntoIterator<Item = &'a str>) -> Launch {
    let files = files.into_iter().map(|file| (file.to_owned(), OnChange::Restart)).collect();
    let awaits = CERTIFICATES.map(str::to_owned).to_vec();
    Launch { files, awaits, patience: Some(PATIENCE), ..Launch::new(argv) }
}

/// Files with authorities of services that all daemons may use.
pub fn authorities(services: &Services) -> impl Iterator<Item = &'static str> {
    let files = [
        services.cassandra.ca.as_ref().map(|_| CASSANDRA_CA),
        services.rabbitmq.ca.as_ref().map(|_| RABBITMQ_CA),
        services.redis.ca.as_ref().map(|_| REDIS_CA),
    ];
    files.into_iter().flatten()
}

/// The files of a client of the config API.
pub fn client(keystone: Option<&Keystone>) -> impl Iterator<Item = &'static str> {
    [vnc_api::FILE].into_iter().chain(of_keystone(keystone))
}

/// The files of one who asks Keystone.
pub fn of_keystone(keystone: Option<&Keystone>) -> impl Iterator<Item = &'static str> {
    let ca = keystone::authority_of(keystone).map(|_| keystone::CA);
    [keystone.map(|_| keystone::FILE), ca].into_iter().flatten()
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

/// The node manager.
pub fn node_manager(node_type: NodeType) -> Launch {
    let argv = vec!["contrail-nodemgr".into(), format!("--nodetype=contrail-{}", node_type.name())];
    daemon(argv, [node_type.file().as_str()])
}
