//! The services the daemons connect to, checked for what the daemons can do with them.
//!
//! In: the connections that dependencies resolve to. Out: lists as the daemons' parsers want them, or what the user has to
//! change. What was found by reading those parsers is named with its upstream file.

use tf_api::{
    Config,
    contract::ConditionType,
    kinds::{ANALYTICS, CASSANDRA, RABBITMQ, ZOOKEEPER},
};
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
    external_tls::{ExternalTls, File},
    not_ready::NotReady,
};

/// Endpoint of the API of analytics.
const ANALYTICS_API: &str = "api";
/// contrail-svc-monitor gives its client no TLS settings (upstream `svc_monitor.py`, `main`).
const PLAIN_ZOOKEEPER: &str =
    "ZooKeeper speaks TLS, which the service monitor does not; give the config daemons an endpoint without";

/// What a Config needs, and what it uses when it is there.
pub fn dependencies(cr: &Config) -> Vec<Dependency> {
    use ConditionType::{CassandraReady, CollectorReady, RabbitmqReady, ZookeeperReady};
    let from = &cr.spec.dependencies;
    vec![
        dependency(CassandraReady, CASSANDRA, from.cassandra.as_ref(), CQL, Need::BringUp),
        dependency(ZookeeperReady, ZOOKEEPER, from.zookeeper.as_ref(), CLIENT, Need::BringUp),
        dependency(RabbitmqReady, RABBITMQ, from.rabbitmq.as_ref(), AMQP, Need::BringUp),
        // Analytics itself waits for the config API.
        dependency(CollectorReady, ANALYTICS, from.analytics.as_ref(), COLLECTOR, Need::Optional),
    ]
}

/// All services of a resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Services {
    /// The database.
    pub cassandra: Cassandra,
    /// The same as it was found, with the nodes of its members.
    pub database: Connection,
    /// ZooKeeper's servers with port.
    pub zookeeper: Vec<String>,
    /// The message bus.
    pub rabbitmq: Rabbitmq,
    /// Analytics, if there is any that the daemons can reach.
    pub analytics: Option<Connection>,
    /// What a person should know.
    pub notes: Vec<String>,
}

impl Services {
    /// The stores.
    pub fn stores(&self) -> Stores<'_> {
        Stores { cassandra: &self.cassandra, zookeeper: &self.zookeeper, rabbitmq: &self.rabbitmq }
    }

    /// Files for TLS to those of other authorities.
    pub fn external_tls(&self) -> Vec<File> {
        let analytics = sandesh::external_tls(self.analytics.as_ref());
        [&self.cassandra.external_tls, &self.rabbitmq.external_tls, &analytics]
            .into_iter()
            .flat_map(ExternalTls::files)
            .collect()
    }

    /// Checks what was resolved.
    ///
    /// # Errors
    /// When the daemons could not use it.
    pub fn of(resolved: &Resolved) -> Result<Self, NotReady> {
        let connection = |condition| resolved.connection(condition).cloned().unwrap_or_default();
        let cassandra = connection(ConditionType::CassandraReady);
        let (analytics, notes) = match resolved.connection(ConditionType::CollectorReady) {
            Some(connection) => analytics(connection),
            None => (None, Vec::new()),
        };
        Ok(Self {
            cassandra: Cassandra::of(&cassandra, python::cassandra_servers(&cassandra, "the config daemons")?),
            database: cassandra,
            zookeeper: python::zookeeper_servers(&connection(ConditionType::ZookeeperReady), PLAIN_ZOOKEEPER)?,
            rabbitmq: Rabbitmq::of(&connection(ConditionType::RabbitmqReady))?,
            analytics,
            notes,
        })
    }
}

/// Collectors and the API of analytics, as far as the daemons reach them.
fn analytics(connection: &Connection) -> (Option<Connection>, Vec<String>) {
    let note = "the config daemons reach collectors and analytics over IPv4 only; IPv6 addresses of them are left out";
    let (connection, left_out) = python::analytics(connection);
    (connection, left_out.then(|| note.to_owned()).into_iter().collect())
}

/// The API of analytics: hosts, port, and whether it speaks TLS.
pub fn analytics_api(analytics: Option<&Connection>) -> Option<(Vec<String>, u16, bool)> {
    let connection = analytics?;
    Some((connection.hosts(ANALYTICS_API), connection.port(ANALYTICS_API)?, connection.tls(ANALYTICS_API)))
}
