//! What daemons of the configuration connect to: the database, the message bus and the collectors, as dependencies resolve to them and
//! checked for what every one of these daemons can do with them.
//!
//! How a list of servers has to be written differs from daemon to daemon (docs/upstream/files.md#lists), so that stays with the components.

pub mod configdb;
pub mod python;

use tf_api::{
    KindInfo,
    contract::{ConditionType, Draft, MemberStatus, Reason},
    dependencies::DependencySource,
};
use tf_config_files::url;
use tf_plan::{
    connection::Connection,
    dependency::{Dependency, Need, SecretUse},
    external_tls::{ExternalTls, Service},
    not_ready::NotReady,
    object::Kind,
};

/// Endpoint of Cassandra.
pub const CQL: &str = "cql";
/// Endpoint of RabbitMQ.
pub const AMQP: &str = "amqp";
/// Endpoint of the collectors.
pub const COLLECTOR: &str = "collector";

/// A service that daemons use, by its default name if `source` names none.
pub fn dependency(
    condition: ConditionType,
    kind: KindInfo,
    source: Option<&DependencySource>,
    endpoint: &'static str,
    need: Need,
) -> Dependency {
    Dependency {
        secret: of_secret(condition),
        logs_in: matches!(
            condition,
            ConditionType::CassandraReady | ConditionType::RabbitmqReady | ConditionType::RedisReady
        ),
        condition,
        kind: Kind::custom(kind),
        source: source.cloned(),
        default_name: kind.default_name,
        endpoint,
        need,
    }
}

/// What daemons can do with what the connection Secret of a service holds (docs/upstream/daemons.md#tls). Clients of the config API have options for
/// a certificate of their own and put it to those that they trust (upstream `vnc_api.py`).
fn of_secret(condition: ConditionType) -> SecretUse {
    use ConditionType::{AnalyticsAlarmReady, CollectorReady, ControlReady, RabbitmqReady, ZookeeperReady};
    match condition {
        ZookeeperReady | ControlReady => SecretUse::Nothing,
        RabbitmqReady | CollectorReady | AnalyticsAlarmReady => SecretUse::Everything,
        _ => SecretUse::ShowsNothing,
    }
}

/// The database.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cassandra {
    /// Servers as the daemons' parser takes them.
    pub servers: Vec<String>,
    /// Whether they speak TLS.
    pub tls: bool,
    /// What is their own of that.
    pub external_tls: ExternalTls,
    /// User and password, if they ask for any.
    pub login: Option<Login>,
}

impl Cassandra {
    /// What a connection says, with its servers as the caller's daemons take them.
    pub fn of(connection: &Connection, servers: Vec<String>) -> Self {
        let external_tls = ExternalTls::of(Service::Cassandra, connection);
        Self { servers, tls: connection.tls(CQL), external_tls, login: Login::of(connection) }
    }

    /// The same database as that of analytics.
    #[must_use]
    pub fn of_analytics(self, connection: &Connection) -> Self {
        Self { external_tls: ExternalTls::of(Service::AnalyticsCassandra, connection), ..self }
    }
}

/// The message bus.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rabbitmq {
    /// Servers with port.
    pub servers: Vec<String>,
    /// Whether they speak TLS.
    pub tls: bool,
    /// What is their own of that.
    pub external_tls: ExternalTls,
    /// User and password.
    pub login: Login,
    /// Virtual host.
    pub vhost: String,
}

impl Rabbitmq {
    /// What a connection says.
    ///
    /// # Errors
    /// When its credentials would not survive in a URL, into which every daemon pastes them ([`url`]).
    pub fn of(connection: &Connection) -> Result<Self, NotReady> {
        let key = |name, is_safe: fn(&str) -> bool| match connection.credentials.get(name) {
            None | Some("") => Err(format!("has no {name}")),
            Some(value) if is_safe(value) => Ok(value.to_owned()),
            Some(_) => {
                Err(format!("has a {name} that URLs would change (use ASCII letters, digits, `-`, `_` and `.`)"))
            }
        };
        // Who writes a Secret by hand and names no virtual host means RabbitMQ's own default.
        let named = connection.credentials.text("vhost").is_some();
        let vhost = if named { key("vhost", url::is_safe_vhost) } else { Ok("/".to_owned()) };
        let (user, password) = (key("username", url::is_safe), key("password", url::is_safe));
        let (Ok(user), Ok(password), Ok(vhost)) = (&user, &password, &vhost) else {
            let wrong: Vec<String> = [user, password, vhost].into_iter().filter_map(Result::err).collect();
            let message = format!(
                "the connection Secret of RabbitMQ {}; change that, and where RabbitMQ comes from a ConfigMap, which holds no \
                 secrets, name it by ref or as external with a secretRef",
                wrong.join(", ")
            );
            let drafts = broken(ConditionType::RabbitmqReady, Reason::SecretInvalid, &message);
            return Err(NotReady::waiting(Reason::SecretInvalid, message).with_drafts(drafts));
        };
        Ok(Self {
            servers: connection.authorities(AMQP),
            tls: connection.tls(AMQP),
            external_tls: ExternalTls::of(Service::Rabbitmq, connection),
            login: Login { user: user.clone(), password: password.clone() },
            vhost: vhost.clone(),
        })
    }

    /// The servers in the order in which the daemons of this member try them. Clients stay on the first server that answers (kombu as well as
    /// upstream `config_amqp_client.cc`), so with one order for all members one server has all connections
    /// (docs/upstream/observed.md#servers-of-rabbitmq). The list begins with the server on the member's own node; without one it begins elsewhere for
    /// each member, by the member's identity.
    pub fn servers_for(&self, member: &MemberStatus) -> Vec<String> {
        let mut servers = self.servers.clone();
        let is_own = |server: &String| {
            let host = server.rsplit_once(':').map_or(server.as_str(), |(host, _)| host);
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host == member.address || host == member.node
        };
        let by_identity = || (member.id.saturating_sub(1) as usize).checked_rem(servers.len());
        let first = servers.iter().position(is_own).or_else(by_identity).unwrap_or_default();
        servers.rotate_left(first);
        servers
    }
}

/// User and password. `Debug` shows neither.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// User.
    pub user: String,
    /// Password.
    pub password: String,
}

impl Login {
    /// The one that clients find in a connection Secret, if it has both.
    pub fn of(connection: &Connection) -> Option<Self> {
        let (user, password) = (given(connection, "username"), given(connection, "password"));
        user.zip(password).map(|(user, password)| Self { user, password })
    }
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Login")
    }
}

/// The value of a key of a connection Secret, if it is not empty.
pub fn given(connection: &Connection, key: &str) -> Option<String> {
    connection.credentials.get(key).filter(|value| !value.is_empty()).map(str::to_owned)
}

/// Collectors with port.
pub fn collectors(analytics: Option<&Connection>) -> Vec<String> {
    analytics.map(|connection| connection.authorities(COLLECTOR)).unwrap_or_default()
}

/// A connection without the servers that `daemons` cannot find: what splits a list at every colon, as the client of the configuration in C++
/// does (upstream `config_db_client.cc` and `config_amqp_client.cc`), has no way to express an IPv6 address. What is left out is noted.
///
/// # Errors
/// When no server is left: the message.
pub fn over_ipv4(
    mut connection: Connection,
    endpoint: &str,
    service: &str,
    daemons: &str,
    notes: &mut Vec<String>,
) -> Result<Connection, String> {
    let (usable, lost): (Vec<String>, Vec<String>) =
        connection.hosts(endpoint).into_iter().partition(|host| !host.contains(':'));
    if usable.is_empty() && !lost.is_empty() {
        return Err(format!(
            "{service} is listed by IPv6 addresses alone, and {daemons} find it by IPv4 addresses and names only; give it some"
        ));
    }
    if !lost.is_empty() {
        notes.push(format!("{daemons} reach {service} over IPv4 only; IPv6 addresses of it are left out"));
    }
    if let Some(endpoint) = connection.endpoints.get_mut(endpoint) {
        endpoint.nodes = usable;
    }
    Ok(connection)
}

/// A dependency that is there and that the daemons cannot use as it is.
pub fn unusable(condition: ConditionType, message: String) -> NotReady {
    let drafts = broken(condition, Reason::InvalidSpec, &message);
    NotReady::invalid(Reason::InvalidSpec, message).with_drafts(drafts)
}

fn broken(condition: ConditionType, reason: Reason, message: &str) -> [Draft; 2] {
    [condition, ConditionType::DependenciesReady].map(|kind| Draft::fails(kind, reason, message))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn bus(servers: &[String]) -> Rabbitmq {
        Rabbitmq { servers: servers.to_vec(), ..Rabbitmq::default() }
    }

    fn member(id: u32) -> MemberStatus {
        MemberStatus { id, node: format!("n{id}"), address: format!("10.0.0.{id}") }
    }

    fn first_servers(servers: &[String], ids: &[u32]) -> BTreeSet<String> {
        ids.iter().filter_map(|id| bus(servers).servers_for(&member(*id)).into_iter().next()).collect()
    }

    #[test]
    fn the_server_on_the_member_s_own_node_is_first() {
        let servers = ["10.0.0.1:5673", "10.0.0.2:5673", "10.0.0.3:5673"].map(str::to_owned);
        assert_eq!(bus(&servers).servers_for(&member(2)), ["10.0.0.2:5673", "10.0.0.3:5673", "10.0.0.1:5673"]);
        let named = ["n1:5673", "n2:5673", "n3:5673"].map(str::to_owned);
        assert_eq!(bus(&named).servers_for(&member(3)), ["n3:5673", "n1:5673", "n2:5673"]);
        let ipv6 = ["[fd00::1]:5673", "[fd00::2]:5673"].map(str::to_owned);
        let own = MemberStatus { address: "fd00::2".into(), ..member(1) };
        assert_eq!(bus(&ipv6).servers_for(&own), ["[fd00::2]:5673", "[fd00::1]:5673"]);
    }

    #[test]
    fn three_members_begin_with_three_different_servers_on_their_own_nodes_and_elsewhere() {
        for host in ["10.0.0.", "10.9.0.", "n"] {
            let servers = [1, 2, 3].map(|server| format!("{host}{server}:5673"));
            // 4 has taken the place of 1.
            for ids in [[1, 2, 3], [2, 3, 4]] {
                let firsts = first_servers(&servers, &ids);
                assert!(firsts.len() == 3 || host != "10.9.0." && ids == [2, 3, 4], "{host} {ids:?}: {firsts:?}");
            }
        }
    }

    proptest! {
        /// No server is left out or comes twice, and the order round the list stays.
        #[test]
        fn every_list_is_a_rotation(servers in prop::collection::vec("(10\\.0\\.0\\.[1-9]|\\[fd00::[1-9]\\]|[a-z]{1,3}):5673", 0..6), id: u32) {
            let listed = bus(&servers).servers_for(&member(id));
            prop_assert_eq!(listed.len(), servers.len());
            let mut round = servers.clone();
            let is_rotation = (0..servers.len().max(1)).any(|_| {
                round.rotate_left(usize::from(!servers.is_empty()));
                round == listed
            });
            prop_assert!(is_rotation);
        }
    }
}
