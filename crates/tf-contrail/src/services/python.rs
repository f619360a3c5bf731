//! What the daemons written in Python that use the database of the configuration can do with services, and how their files name them
//! (docs/upstream/files.md#lists, docs/upstream/files.md#rabbitmq): all of them have the same client library.
//!
//! In: connections that dependencies resolve to. Out: lists as the library's parsers want them, or what the user has to change. What was
//! found by reading those parsers is named with its upstream file.

use tf_api::contract::{ConditionType, Endpoint, MemberStatus};
use tf_config_files::{
    Section,
    Separator::{Blank, Comma},
    Settings as _,
};
use tf_plan::{connection::Connection, not_ready::NotReady};

use super::{CQL, Cassandra, Rabbitmq, unusable};

/// Endpoint of ZooKeeper.
pub const CLIENT: &str = "client";
/// Port that the Cassandra driver takes when the list names none.
const DRIVER_PORT: u16 = 9042;
/// The stores of a daemon.
#[derive(Clone, Copy, Debug)]
pub struct Stores<'a> {
    /// The database.
    pub cassandra: &'a Cassandra,
    /// ZooKeeper's servers with port.
    pub zookeeper: &'a [String],
    /// The message bus.
    pub rabbitmq: &'a Rabbitmq,
}

impl Stores<'_> {
    /// Database, coordination and message bus, in the section that a daemon of this member looks for them in.
    pub fn fill(&self, section: &mut Section, member: &MemberStatus) {
        let Self { cassandra, zookeeper, rabbitmq } = self;
        section.list("cassandra_server_list", Blank, &cassandra.servers).set("cassandra_use_ssl", cassandra.tls);
        if cassandra.tls {
            section.set("cassandra_ca_certs", cassandra.external_tls.trust());
        }
        section
            .list("zk_server_ip", Comma, *zookeeper)
            .list("rabbit_server", Comma, rabbitmq.servers_for(member))
            .set_credential("rabbit_user", &rabbitmq.login.user)
            .set_credential("rabbit_password", &rabbitmq.login.password)
            .set_vhost("rabbit_vhost", &rabbitmq.vhost)
            .set("rabbit_use_ssl", rabbitmq.tls);
        if rabbitmq.tls {
            section
                .set("kombu_ssl_version", "tlsv1_2")
                .set("kombu_ssl_keyfile", rabbitmq.external_tls.key())
                .set("kombu_ssl_certfile", rabbitmq.external_tls.certificate())
                .set("kombu_ssl_ca_certs", rabbitmq.external_tls.trust());
        }
    }

    /// The driver of the database and the login, in the section that a daemon looks for them in.
    pub fn fill_login(&self, section: &mut Section) {
        section.set("cassandra_driver", "cql");
        if let Some(login) = &self.cassandra.login {
            section.set("cassandra_user", &login.user).set("cassandra_password", &login.password);
        }
    }
}

/// Servers of Cassandra for `daemons`. The parser splits each item at its first colon, takes an item it cannot split as a host without
/// port, and the first port it finds for all (upstream `cassandra_cql.py`, `create_cluster`). So an IPv6 address stands without brackets
/// and port, which works only if another item names the port or it is the driver's own.
///
/// # Errors
/// When no item could name the port.
pub fn cassandra_servers(connection: &Connection, daemons: &str) -> Result<Vec<String>, NotReady> {
    let port = connection.port(CQL).unwrap_or_default();
    let hosts = connection.hosts(CQL);
    if port != DRIVER_PORT && hosts.iter().all(|host| is_ipv6(host)) {
        return Err(unusable(
            ConditionType::CassandraReady,
            format!(
                "Cassandra listens on IPv6 addresses and port {port}, and over IPv6 {daemons} can use port {DRIVER_PORT} only; set \
                 its cqlPort to that, or give it IPv4 addresses"
            ),
        ));
    }
    let server = |host: &String| if is_ipv6(host) { host.clone() } else { format!("{host}:{port}") };
    Ok(hosts.iter().map(server).collect())
}

/// Servers of ZooKeeper with port.
///
/// # Errors
/// When they speak TLS, which one of the daemons does not: `message`.
pub fn zookeeper_servers(connection: &Connection, message: &str) -> Result<Vec<String>, NotReady> {
    if connection.tls(CLIENT) {
        return Err(unusable(ConditionType::ZookeeperReady, message.to_owned()));
    }
    Ok(connection.authorities(CLIENT))
}

/// Analytics without what the daemons cannot reach, and whether anything was left out: they split the address of a collector at every
/// colon (upstream `sandesh_state_machine.py`, `_create_session`), and the service monitor would not even start with an IPv6 address in
/// its list (upstream `vrouter_scheduler.py`, `_get_analytics_clients`).
pub fn analytics(connection: &Connection) -> (Option<Connection>, bool) {
    let reachable = |endpoint: &Endpoint| {
        let mut endpoint = endpoint.clone();
        let listed = endpoint.nodes.len();
        endpoint.nodes.retain(|host| !is_ipv6(host));
        (endpoint.nodes.len() == listed || !endpoint.nodes.is_empty()).then_some(endpoint)
    };
    let left_out = connection.endpoints.values().any(|endpoint| endpoint.nodes.iter().any(|host| is_ipv6(host)));
    let endpoints =
        connection.endpoints.iter().filter_map(|(name, endpoint)| Some((name.clone(), reachable(endpoint)?))).collect();
    let connection = Connection { endpoints, ..connection.clone() };
    ((!connection.endpoints.is_empty()).then_some(connection), left_out)
}

fn is_ipv6(host: &str) -> bool {
    host.contains(':')
}
