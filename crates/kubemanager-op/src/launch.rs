//! How the node agent runs the daemon of a member: command line (docs/upstream/kube-manager.md#options), the files that it reads, when it serves.
//!
//! One member is elected and at work, and serves when NodeStatus says `Functional`. The others wait for their turn and open no port. The
//! daemon has no handler for SIGHUP, which would kill it (docs/upstream/daemons.md#sighup), so it is started anew for whatever changes.

use std::net::SocketAddr;

use tf_agent_api::{
    launch::{Identity, Launch, OnChange, PATIENCE, Probe, Reads, Unusable, port},
    node,
};
use tf_api::{common::LogLevel, ports};
use tf_contrail::{sandesh, vnc_api};
use tf_plan::{
    component::Agents,
    keystone::{self, Keystone},
};

use crate::{config, services::Services, token};

/// What every daemon of Tungsten Fabric needs before it can connect to anything.
const CERTIFICATES: [&str; 3] = [node::CERTIFICATE, node::CERTIFICATE_KEY, node::CA_BUNDLE];

/// The launch file of a daemon that connects to the Kubernetes API at `server`. Where it is `elected`, no other member's daemon is at work.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn file(
    services: &Services,
    keystone: Option<&Keystone>,
    server: Option<SocketAddr>,
    level: LogLevel,
    elected: bool,
    agents: &Agents,
) -> Result<String, Unusable> {
    let argv = vec!["contrail-kube-manager".into(), "-c".into(), format!("{}/{}", node::RUN_DIR, config::FILE)];
    let foreign = services.foreign().into_iter().chain(keystone::files(keystone)).map(|file| file.name);
    let files = [config::FILE, vnc_api::FILE].map(str::to_owned).into_iter().chain(foreign);
    let files = files.map(|file| (file, OnChange::Restart));
    // The agent reads it.
    let files = files.chain([(token::FILE.to_owned(), OnChange::Nothing)]).collect();
    Launch {
        files,
        awaits: CERTIFICATES.map(str::to_owned).to_vec(),
        ready: Probe::NodeStatus {
            port: port("ready.port", ports::KUBE_MANAGER_INTROSPECT)?,
            tls: true,
            functional: true,
            optional: sandesh::optional(),
            elected,
        },
        connections: Some(sandesh::connections_of_client(ports::KUBE_MANAGER_INTROSPECT, &services.rabbitmq)?),
        // It says nothing of that itself (ADR 0055).
        kubernetes: Some(Reads { token: token::FILE.into(), lists: token::lists(), server }),
        level: Some(sandesh::level(level, ports::KUBE_MANAGER_INTROSPECT)?),
        patience: Some(PATIENCE),
        agent: agents.api()?,
        // It never reads them again (docs/upstream/daemons.md#certificates).
        identity: Some(Identity { at_start: true, ..agents.certificate() }),
        ..Launch::new(argv)
    }
    .render()
}
