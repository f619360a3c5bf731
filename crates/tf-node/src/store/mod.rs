//! What the agent can tell about a store beyond "it serves": one module per store.
//!
//! The verbs that a store's procedures need are here too, beside the facts they change.

pub mod rabbitmq;
pub mod zookeeper;

use std::net::IpAddr;

use tf_plan::node::{
    launch::{Launch, Probe},
    state::Status,
};

use crate::{paths::Paths, probe::Target};

/// A store beside the agent.
#[derive(Clone, Debug)]
pub enum Store {
    /// A ZooKeeper server.
    ZooKeeper(Target),
    /// A RabbitMQ server, by its management plugin.
    RabbitMq(Target),
}

impl Store {
    /// The store that a launch file runs: its probe says which.
    pub fn of(launch: &Launch, address: IpAddr) -> Option<Self> {
        match &launch.ready {
            Probe::ZooKeeper { port, host, tls } => {
                Some(Self::ZooKeeper(Target { host: host.unwrap_or(address), port: port.get(), tls: *tls }))
            }
            Probe::RabbitMq { management, .. } => {
                Some(Self::RabbitMq(Target { host: address, port: management.get(), tls: true }))
            }
            Probe::Tcp { .. } | Probe::Http { .. } | Probe::Process => None,
        }
    }

    /// Adds the store's facts to the status.
    pub async fn describe(&self, paths: &Paths, status: &mut Status) {
        match self {
            Self::ZooKeeper(target) => status.zookeeper = Some(zookeeper::facts(target, paths).await),
            Self::RabbitMq(target) => status.rabbitmq = Some(rabbitmq::facts(target, paths).await),
        }
    }
}
