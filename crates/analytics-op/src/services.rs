//! The services the daemons connect to, checked for what the daemons can do with them.
//!
//! In: the connections that dependencies resolve to. Out: lists as the daemons' parsers want them, or what the user has to change. All
//! daemons of analytics split lists at colons, those in C++ in the client of the configuration and those in Python in that of Redis
//! (upstream `opserver.py`), so IPv6 addresses are left out everywhere.

use tf_api::{
    contract::ConditionType,
    dependencies::DependencySource,
    kinds::{CASSANDRA, CONFIG, RABBITMQ, REDIS, ZOOKEEPER},
};
use tf_config_files::url::authority;
use tf_contrail::services::{
    AMQP, CQL, Cassandra, Rabbitmq, dependency, over_ipv4,
    python::{self, CLIENT},
    unusable,
};
use tf_plan::{
    connection::Connection,
    dependency::{Dependency, Need, Resolved},
    external_tls::{ExternalTls, File, Service},
    not_ready::NotReady,
};

/// REST of Config, and of Analytics.
pub const API: &str = "api";
/// Kafka of AnalyticsAlarm.
pub const KAFKA: &str = "kafka";
/// What the daemons are called in messages.
pub const DAEMONS: &str = "the daemons of analytics";
/// Redis whose servers know nothing of each other.
pub const REDIS_ENDPOINT: &str = "redis";
/// Redis where one server takes writes and the others copy it.
const SENTINEL: &str = "sentinel";
const PLAIN_ZOOKEEPER: &str =
    "ZooKeeper speaks TLS, which the daemons of analytics do not; give them an endpoint without";

/// What a spec says of the services that all kinds use.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// The database of the configuration.
    pub cassandra: Option<&'a DependencySource>,
    /// ZooKeeper.
    pub zookeeper: Option<&'a DependencySource>,
    /// The message bus.
    pub rabbitmq: Option<&'a DependencySource>,
    /// Redis.
    pub redis: Option<&'a DependencySource>,
    /// The config API.
    pub config: Option<&'a DependencySource>,
}

/// What all kinds need.
pub fn dependencies(from: Sources<'_>) -> Vec<Dependency> {
    use ConditionType::{CassandraReady, ConfigApiReady, RabbitmqReady, RedisReady, ZookeeperReady};
    vec![
        dependency(CassandraReady, CASSANDRA, from.cassandra, CQL, Need::BringUp),
        dependency(ZookeeperReady, ZOOKEEPER, from.zookeeper, CLIENT, Need::BringUp),
        dependency(RabbitmqReady, RABBITMQ, from.rabbitmq, AMQP, Need::BringUp),
        dependency(RedisReady, REDIS, from.redis, REDIS_ENDPOINT, Need::BringUp),
        dependency(ConfigApiReady, CONFIG, from.config, API, Need::BringUp),
    ]
}

/// The servers that keep the current state. Their `Debug` shows no password.
#[derive(Clone, Default, PartialEq)]
pub struct Redis {
    /// Addresses or names.
    pub hosts: Vec<String>,
    /// Port.
    pub port: u16,
    /// Whether they speak TLS.
    pub tls: bool,
    /// What is their own of that.
    pub external_tls: ExternalTls,
    /// Their password, if they ask for one.
    pub password: Option<String>,
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.servers()).finish()
    }
}

impl Redis {
    /// What a connection says.
    ///
    /// # Errors
    /// When the daemons could not use it.
    pub fn of(connection: &Connection, notes: &mut Vec<String>) -> Result<Self, NotReady> {
        if connection.endpoints.contains_key(SENTINEL) {
            let message = "Redis has the mode Sentinel, in which one server alone takes writes and clients have to ask which; the daemons of \
                           analytics do not: give them one whose servers are on their own";
            return Err(unusable(ConditionType::RedisReady, message.to_owned()));
        }
        let connection = over_ipv4(connection.clone(), REDIS_ENDPOINT, "Redis", DAEMONS, notes)
            .map_err(|message| unusable(ConditionType::RedisReady, message))?;
        Ok(Self {
            hosts: connection.hosts(REDIS_ENDPOINT),
            port: connection.port(REDIS_ENDPOINT).unwrap_or_default(),
            tls: connection.tls(REDIS_ENDPOINT),
            external_tls: ExternalTls::of(Service::Redis, &connection),
            password: connection.credentials.text("password").map(str::to_owned),
        })
    }

    /// Servers with port.
    pub fn servers(&self) -> Vec<String> {
        self.hosts.iter().map(|host| authority(host, self.port)).collect()
    }

    /// The server for the member with this address: that of its node, else the first one.
    pub fn server(&self, address: &str) -> &str {
        self.hosts.iter().find(|host| *host == address).or(self.hosts.first()).map_or("", String::as_str)
    }
}

/// Brokers to which the state for alarms is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kafka {
    /// Brokers with port.
    pub brokers: Vec<String>,
    /// Whether they speak TLS.
    pub tls: bool,
    /// What is their own of that.
    pub external_tls: ExternalTls,
}

impl Kafka {
    /// What a connection says.
    pub fn of(connection: &Connection) -> Self {
        let external_tls = ExternalTls::of(Service::Kafka, connection);
        Self { brokers: connection.authorities(KAFKA), tls: connection.tls(KAFKA), external_tls }
    }
}

/// Services of a resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Services {
    /// The database of the configuration.
    pub cassandra: Cassandra,
    /// ZooKeeper's servers with port.
    pub zookeeper: Vec<String>,
    /// The message bus.
    pub rabbitmq: Rabbitmq,
    /// The current state.
    pub redis: Redis,
    /// The config API.
    pub config: Connection,
    /// What a person should know.
    pub notes: Vec<String>,
}

impl Services {
    /// Files for TLS to those of other authorities.
    pub fn external_tls(&self) -> Vec<File> {
        [&self.cassandra.external_tls, &self.rabbitmq.external_tls, &self.redis.external_tls, &self.api()]
            .into_iter()
            .flat_map(ExternalTls::files)
            .collect()
    }

    /// What is the config API's own of TLS.
    pub fn api(&self) -> ExternalTls {
        ExternalTls::of(Service::Config, &self.config)
    }

    /// Checks what was resolved.
    ///
    /// # Errors
    /// When the daemons could not use it.
    pub fn of(resolved: &Resolved) -> Result<Self, NotReady> {
        let connection = |condition| resolved.connection(condition).cloned().unwrap_or_default();
        let mut notes = Vec::new();
        let mut reachable = |condition, endpoint, service| {
            over_ipv4(connection(condition), endpoint, service, DAEMONS, &mut notes)
                .map_err(|message| unusable(condition, message))
        };
        let cassandra = reachable(ConditionType::CassandraReady, CQL, "Cassandra")?;
        let rabbitmq = reachable(ConditionType::RabbitmqReady, AMQP, "RabbitMQ")?;
        let config = reachable(ConditionType::ConfigApiReady, API, "the config API")?;
        let zookeeper = python::zookeeper_servers(&connection(ConditionType::ZookeeperReady), PLAIN_ZOOKEEPER)?;
        Ok(Self {
            cassandra: Cassandra::of(&cassandra, cassandra.authorities(CQL)),
            zookeeper,
            rabbitmq: Rabbitmq::of(&rabbitmq)?,
            redis: Redis::of(&connection(ConditionType::RedisReady), &mut notes)?,
            config,
            notes,
        })
    }
}
