//! What an ensemble has to itself on its nodes: its directory and its ports ([`tf_plan::conflicts`]).

use tf_agent_api::node;
use tf_api::{Managed as _, Zookeeper, ZookeeperConfiguration, schema::Port};
use tf_plan::{
    build::{identity::Identity, storage},
    conflicts::{Exclusive, NodeResources},
};

use crate::{
    OPERATOR, config,
    plan::{ENDPOINT, LEGACY, TLS_ENDPOINT},
};

/// Ensembles among each other.
pub const ENSEMBLES: Exclusive<Zookeeper> = Exclusive { resources, is_founded: |cr| cr.is_initialized() };

fn resources(cr: &Zookeeper) -> NodeResources {
    let spec = &cr.spec.service_configuration;
    NodeResources {
        directory: storage::directory(cr.common().storage.as_ref(), &usual(&Identity::of(OPERATOR, cr))),
        ports: ports(spec).into_iter().chain(admin(spec)).map(|(_, port)| port).collect(),
    }
}

/// The directory of the nodes with the data of a resource that states none.
pub fn usual(identity: &Identity) -> String {
    storage::node_directory("/var/lib/contrail", "zookeeper", &LEGACY, identity)
}

/// Ports on the members' addresses.
pub fn ports(spec: &ZookeeperConfiguration) -> Vec<(&'static str, Port)> {
    let tls = spec.tls.as_ref().and_then(|tls| tls.client_port).map(|port| (TLS_ENDPOINT, port));
    let metrics = spec.metrics_port.map(|port| ("metrics", port));
    let always = [
        (ENDPOINT, spec.client_port),
        ("quorum", spec.election_port),
        ("election", spec.server_port),
        (node::AGENT_PORT, config::agent_port(spec)),
    ];
    always.into_iter().chain(tls).chain(metrics).collect()
}

/// Reachable on the loopback address only, but that is the node's, where no two may use one port.
pub fn admin(spec: &ZookeeperConfiguration) -> Option<(&'static str, Port)> {
    spec.admin_enabled.then_some(("admin", spec.admin_port))
}
