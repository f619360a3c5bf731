//! The services the daemon connects to, checked for what it can do with them.

use tf_api::{
    Kubemanager,
    contract::ConditionType,
    kinds::{ANALYTICS, CASSANDRA, CONFIG, RABBITMQ, ZOOKEEPER},
};
use tf_config_files::url;
use tf_contrail::{
    sandesh,
    services::{
        AMQP, COLLECTOR, CQL, Cassandra, Rabbitmq, dependency,
        python::{self, CLIENT, Stores},
    },
};
use tf_plan::{
    connection::Connection,
    dependency::{Dependency, Need, Resolved},
    external_tls::{ExternalTls, File, Service},
    not_ready::NotReady,
};

/// REST of Config.
const API: &str = "api";
/// The daemon gives its client of ZooKeeper no TLS settings (upstream `kube_manager.py`, `main`).
const PLAIN_ZOOKEEPER: &str = "ZooKeeper speaks TLS, which kube-manager does not; give it an endpoint without";

/// What a Kubemanager needs, and what it uses when it is there.
pub fn dependencies(cr: &Kubemanager) -> Vec<Dependency> {
    use ConditionType::{CassandraReady, CollectorReady, ConfigApiReady, RabbitmqReady, ZookeeperReady};
    let from = &cr.spec.dependencies;
    vec![
        dependency(CassandraReady, CASSANDRA, from.cassandra.as_ref(), CQL, Need::BringUp),
        dependency(ZookeeperReady, ZOOKEEPER, from.zookeeper.as_ref(), CLIENT, Need::BringUp),
        dependency(RabbitmqReady, RABBITMQ, from.rabbitmq.as_ref(), AMQP, Need::BringUp),
        dependency(ConfigApiReady, CONFIG, from.config.as_ref(), API, Need::BringUp),
        dependency(CollectorReady, ANALYTICS, from.analytics.as_ref(), COLLECTOR, Need::Optional),
    ]
}

/// The config API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Api {
    /// Its servers.
    pub servers: Vec<String>,
    /// Its port.
    pub port: u16,
    /// Whether it speaks TLS.
    pub tls: bool,
    /// What is its own of that.
    pub external_tls: ExternalTls,
}

/// All services of a resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Services {
    /// The database.
    pub cassandra: Cassandra,
    /// ZooKeeper's servers with port.
    pub zookeeper: Vec<String>,
    /// The message bus.
    pub rabbitmq: Rabbitmq,
    /// The port of the message bus.
    pub rabbitmq_port: u16,
    /// The config API.
    pub api: Api,
    /// Analytics, if there is any that the daemon can reach.
    pub analytics: Option<Connection>,
    /// What a person should know.
    pub notes: Vec<String>,
}

impl Services {
    /// Checks what was resolved.
    ///
    /// # Errors
    /// When the daemon could not use it.
    pub fn of(resolved: &Resolved) -> Result<Self, NotReady> {
        let connection = |condition| resolved.connection(condition).cloned().unwrap_or_default();
        let (cassandra, rabbitmq) =
            (connection(ConditionType::CassandraReady), connection(ConditionType::RabbitmqReady));
        let api = connection(ConditionType::ConfigApiReady);
        let (analytics, left_out) =
            resolved.connection(ConditionType::CollectorReady).map(python::analytics).unwrap_or_default();
        let note = "kube-manager reaches collectors over IPv4 only; IPv6 addresses of them are left out";
        Ok(Self {
            cassandra: Cassandra::of(&cassandra, python::cassandra_servers(&cassandra, "kube-manager")?),
            zookeeper: python::zookeeper_servers(&connection(ConditionType::ZookeeperReady), PLAIN_ZOOKEEPER)?,
            rabbitmq_port: rabbitmq.port(AMQP).unwrap_or_default(),
            rabbitmq: Rabbitmq::of(&rabbitmq)?,
            api: Api {
                // The library pastes them into URLs.
                servers: api.hosts(API).iter().map(|host| url::host(host)).collect(),
                port: api.port(API).unwrap_or_default(),
                tls: api.tls(API),
                external_tls: ExternalTls::of(Service::Config, &api),
            },
            analytics,
            notes: left_out.then(|| note.to_owned()).into_iter().collect(),
        })
    }

    /// Files for TLS to those of other authorities.
    pub fn external_tls(&self) -> Vec<File> {
        let analytics = sandesh::external_tls(self.analytics.as_ref());
        [&self.cassandra.external_tls, &self.rabbitmq.external_tls, &self.api.external_tls, &analytics]
            .into_iter()
            .flat_map(ExternalTls::files)
            .collect()
    }

    /// The stores.
    pub fn stores(&self) -> Stores<'_> {
        Stores { cassandra: &self.cassandra, zookeeper: &self.zookeeper, rabbitmq: &self.rabbitmq }
    }
}
