//! The services the daemons connect to, checked for what the daemons can do with them.
//!
//! In: the connections that dependencies resolve to. Out: lists as the daemons' parsers want them, or what the user has to
//! change. What was found by reading those parsers is named with its upstream file.

use std::net::Ipv4Addr;

use tf_api::{
    Control,
    contract::ConditionType,
    kinds::{ANALYTICS, CASSANDRA, CONFIG, RABBITMQ},
};
use tf_contrail::{
    sandesh,
    services::{AMQP, COLLECTOR, CQL, Cassandra, Rabbitmq, dependency, over_ipv4, unusable},
};
use tf_plan::{
    connection::Connection,
    dependency::{Dependency, Need, Resolved},
    external_tls::{ExternalTls, File},
    not_ready::NotReady,
};

/// REST of Config.
pub const API: &str = "api";
/// What the daemons are called in messages.
const DAEMONS: &str = "control nodes";

/// What a Control needs, and what it uses when it is there.
pub fn dependencies(cr: &Control) -> Vec<Dependency> {
    use ConditionType::{CassandraReady, CollectorReady, ConfigApiReady, RabbitmqReady};
    let from = &cr.spec.dependencies;
    vec![
        dependency(CassandraReady, CASSANDRA, from.cassandra.as_ref(), CQL, Need::BringUp),
        dependency(RabbitmqReady, RABBITMQ, from.rabbitmq.as_ref(), AMQP, Need::BringUp),
        // It makes the keyspace that the daemons read (docs/upstream/daemons.md#start-order), and has the nodes.
        // The daemons do not talk to it.
        dependency(ConfigApiReady, CONFIG, from.config.as_ref(), API, Need::BringUp),
        dependency(CollectorReady, ANALYTICS, from.analytics.as_ref(), COLLECTOR, Need::Optional),
    ]
}

/// All services of a resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Services {
    /// The database.
    pub cassandra: Cassandra,
    /// The message bus.
    pub rabbitmq: Rabbitmq,
    /// The config API, which the operator asks.
    pub config: Connection,
    /// Analytics, if there is any that the daemons can reach.
    pub analytics: Option<Connection>,
    /// What a person should know.
    pub notes: Vec<String>,
}

impl Services {
    /// Files for TLS to those of other authorities that the daemons connect to.
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
        let mut notes = Vec::new();
        let cassandra = over_ipv4(connection(ConditionType::CassandraReady), CQL, "Cassandra", DAEMONS, &mut notes)
            .map_err(|message| unusable(ConditionType::CassandraReady, message))?;
        let rabbitmq = over_ipv4(connection(ConditionType::RabbitmqReady), AMQP, "RabbitMQ", DAEMONS, &mut notes)
            .map_err(|message| unusable(ConditionType::RabbitmqReady, message))?;
        let analytics = resolved.connection(ConditionType::CollectorReady).cloned();
        Ok(Self {
            cassandra: Cassandra::of(&cassandra, cassandra.authorities(CQL)),
            rabbitmq: Rabbitmq::of(&rabbitmq)?,
            config: connection(ConditionType::ConfigApiReady),
            analytics: analytics.and_then(|connection| reachable(connection, &mut notes)),
            notes,
        })
    }
}

/// Analytics without what the daemons cannot reach: contrail-control ends at a collector that is not an IPv4 address with a port (upstream
/// `address_util.cc`, `ValidateServerEndpoints`).
fn reachable(mut connection: Connection, notes: &mut Vec<String>) -> Option<Connection> {
    let (usable, lost): (Vec<String>, Vec<String>) =
        connection.hosts(COLLECTOR).into_iter().partition(|host| host.parse::<Ipv4Addr>().is_ok());
    if !lost.is_empty() {
        notes.push("control nodes reach collectors by IPv4 addresses only; other ones are left out".to_owned());
    }
    connection.endpoints.get_mut(COLLECTOR)?.nodes = usable;
    (!connection.endpoints[COLLECTOR].nodes.is_empty()).then_some(connection)
}
