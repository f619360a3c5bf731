//! The services the daemons connect to, checked for what the daemons can do with them.
//!
//! In: the connections that dependencies resolve to. Out: lists as the daemons' parsers want them, or what the user has to
//! change. What was found by reading those parsers is named with its upstream file.

use tf_api::{
    Config,
    contract::{ConditionType, Endpoint},
    kinds::{ANALYTICS, CASSANDRA, RABBITMQ, ZOOKEEPER},
};
use tf_plan::{
    dependency::{Connection, Dependency, Need, Resolved},
    nodemanager::COLLECTOR,
    plan::NotReady,
    services::{AMQP, CQL, Cassandra, Rabbitmq, dependency, unusable},
};

/// Endpoints of the services.
const CLIENT: &str = "client";
const ANALYTICS_API: &str = "api";
/// Port that the Cassandra driver takes when the list names none.
const DRIVER_PORT: u16 = 9042;

/// What a Config needs, and what it uses when it is there.
pub fn dependencies(cr: &Config) -> Vec<Dependency> {
    use ConditionType::{CassandraReady, CollectorReady, RabbitmqReady, ZookeeperReady};
    let from = &cr.spec.dependencies;
    vec![
        dependency(CassandraReady, CASSANDRA, from.cassandra.as_ref(), "configdb1", CQL, Need::BringUp),
        dependency(ZookeeperReady, ZOOKEEPER, from.zookeeper.as_ref(), "zookeeper1", CLIENT, Need::BringUp),
        dependency(RabbitmqReady, RABBITMQ, from.rabbitmq.as_ref(), "rabbitmq1", AMQP, Need::BringUp),
        // Analytics itself waits for the config API.
        dependency(CollectorReady, ANALYTICS, from.analytics.as_ref(), "analytics1", COLLECTOR, Need::Optional),
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
            cassandra: Cassandra::of(&cassandra, cassandra_servers(&cassandra)?),
            database: cassandra,
            zookeeper: zookeeper(&connection(ConditionType::ZookeeperReady))?,
            rabbitmq: Rabbitmq::of(&connection(ConditionType::RabbitmqReady))?,
            analytics,
            notes,
        })
    }
}

/// The parser splits each item at its first colon, takes an item it cannot split as a host without port, and the first port
/// it finds for all (upstream `cassandra_cql.py`, `create_cluster`). So an IPv6 address stands without brackets and port,
/// which works only if another item names the port or it is the driver's own.
fn cassandra_servers(connection: &Connection) -> Result<Vec<String>, NotReady> {
    let port = connection.port(CQL).unwrap_or_default();
    let hosts = connection.hosts(CQL);
    if port != DRIVER_PORT && hosts.iter().all(|host| is_ipv6(host)) {
        return Err(unusable(
            ConditionType::CassandraReady,
            format!(
                "Cassandra listens on IPv6 addresses and port {port}, and over IPv6 the config daemons can use port \
                 {DRIVER_PORT} only; set its cqlPort to that, or give it IPv4 addresses"
            ),
        ));
    }
    let server = |host: &String| if is_ipv6(host) { host.clone() } else { format!("{host}:{port}") };
    Ok(hosts.iter().map(server).collect())
}

fn zookeeper(connection: &Connection) -> Result<Vec<String>, NotReady> {
    if connection.tls(CLIENT) {
        // contrail-svc-monitor gives its client no TLS settings (upstream `svc_monitor.py`, `main`).
        return Err(unusable(
            ConditionType::ZookeeperReady,
            "ZooKeeper speaks TLS, which the service monitor does not; give the config daemons an endpoint without"
                .into(),
        ));
    }
    Ok(connection.authorities(CLIENT))
}

/// Analytics without what the daemons cannot reach: they split the address of a collector at every colon (upstream
/// `sandesh_state_machine.py`, `_create_session`), and the service monitor would not even start with an IPv6 address in its
/// list (upstream `vrouter_scheduler.py`, `_get_analytics_clients`).
fn analytics(connection: &Connection) -> (Option<Connection>, Vec<String>) {
    let reachable = |endpoint: &Endpoint| {
        let mut endpoint = endpoint.clone();
        let listed = endpoint.nodes.len();
        endpoint.nodes.retain(|host| !is_ipv6(host));
        (endpoint.nodes.len() == listed || !endpoint.nodes.is_empty()).then_some(endpoint)
    };
    let left_out = connection.endpoints.values().any(|endpoint| endpoint.nodes.iter().any(|host| is_ipv6(host)));
    let endpoints =
        connection.endpoints.iter().filter_map(|(name, endpoint)| Some((name.clone(), reachable(endpoint)?))).collect();
    let note = "the config daemons reach collectors and analytics over IPv4 only; IPv6 addresses of them are left out";
    let connection = Connection { endpoints, ..connection.clone() };
    ((!connection.endpoints.is_empty()).then_some(connection), left_out.then(|| note.to_owned()).into_iter().collect())
}

/// The API of analytics: hosts, port, and whether it speaks TLS.
pub fn analytics_api(analytics: Option<&Connection>) -> Option<(Vec<String>, u16, bool)> {
    let connection = analytics?;
    Some((connection.hosts(ANALYTICS_API), connection.port(ANALYTICS_API)?, connection.tls(ANALYTICS_API)))
}

fn is_ipv6(host: &str) -> bool {
    host.contains(':')
}
