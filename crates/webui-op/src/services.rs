//! The services the daemons connect to, checked for what the daemons can do with them.

use tf_api::{
    Webui,
    contract::ConditionType,
    dependencies::{DependencySource, ResourceReference},
    kinds::{ANALYTICS, CASSANDRA, CONFIG, CONTROL, REDIS},
    ports,
};
use tf_config_files::url;
use tf_contrail::services::{CQL, Cassandra, dependency, unusable};
use tf_plan::{
    connection::Connection,
    dependency::{Dependency, Need, Resolved, SecretUse},
    external_tls::{ExternalTls, File, Service},
    not_ready::NotReady,
};

/// REST of Config, and of Analytics.
const API: &str = "api";
/// Redis.
const REDIS_ENDPOINT: &str = "redis";
/// Redis where one server takes writes and the others copy it.
const SENTINEL: &str = "sentinel";
/// XMPP of the control nodes, which all of them have.
const XMPP: &str = "xmpp";
/// DNS of the control nodes.
const DNS: &str = "dns";
/// Introspection of their DNS daemons.
const DNS_INTROSPECT: &str = "dns-introspect";

/// What a Webui needs, and what it uses when it is there.
pub fn dependencies(cr: &Webui) -> Vec<Dependency> {
    use ConditionType::{CassandraReady, CollectorReady, ConfigApiReady, ControlReady, RedisReady};
    let from = &cr.spec.dependencies;
    let instance = cr.spec.service_configuration.control_instance.as_deref().filter(|name| !name.is_empty());
    let control = from.control.clone().or_else(|| {
        let reference = ResourceReference { name: instance?.to_owned(), namespace: None };
        Some(DependencySource { reference: Some(reference), ..DependencySource::default() })
    });
    // A Control need not serve DNS. Of others nothing else is asked.
    let is_elsewhere =
        control.as_ref().is_some_and(|control| control.external.is_some() || control.discovery_config_map.is_some());
    let of_control = if is_elsewhere { DNS_INTROSPECT } else { XMPP };
    vec![
        dependency(ConfigApiReady, CONFIG, from.config.as_ref(), API, Need::BringUp),
        dependency(CassandraReady, CASSANDRA, from.cassandra.as_ref(), CQL, Need::BringUp),
        dependency(RedisReady, REDIS, from.redis.as_ref(), REDIS_ENDPOINT, Need::BringUp),
        dependency(ControlReady, CONTROL, control.as_ref(), of_control, Need::BringUp),
        Dependency {
            secret: SecretUse::ShowsNothing,
            ..dependency(CollectorReady, ANALYTICS, from.analytics.as_ref(), API, Need::Optional)
        },
    ]
}

/// Servers of one port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Servers {
    /// Their addresses or names.
    pub hosts: Vec<String>,
    /// Their port.
    pub port: u16,
    /// Whether they speak TLS.
    pub tls: bool,
    /// What is their own of that.
    pub external_tls: ExternalTls,
}

impl Servers {
    /// An endpoint of a connection, if it is listed.
    fn of(connection: &Connection, endpoint: &str) -> Option<Self> {
        let (port, tls) = (connection.port(endpoint)?, connection.tls(endpoint));
        Some(Self { hosts: connection.hosts(endpoint), port, tls, external_tls: ExternalTls::default() })
    }

    /// The same of a service whose connection Secret counts.
    fn of_service(service: Service, connection: &Connection, endpoint: &str) -> Option<Self> {
        Some(Self { external_tls: ExternalTls::of(service, connection), ..Self::of(connection, endpoint)? })
    }

    /// Servers whose addresses the daemons paste into URLs (upstream `rest.api.js`).
    fn for_urls(self) -> Self {
        Self { hosts: self.hosts.iter().map(|host| url::host(host)).collect(), ..self }
    }
}

/// The servers that keep sessions and jobs.
#[derive(Clone, PartialEq)]
pub struct Redis {
    /// Where they are.
    pub servers: Servers,
    /// Their password, if they ask for one.
    pub password: Option<String>,
}

impl Redis {
    fn of(connection: &Connection) -> Result<Self, NotReady> {
        if connection.endpoints.contains_key(SENTINEL) {
            let message = "Redis has the mode Sentinel, in which one server alone takes writes and clients have to ask which; the web UI does \
                           not: give it one whose servers are on their own";
            return Err(unusable(ConditionType::RedisReady, message.to_owned()));
        }
        let servers = Servers::of_service(Service::Redis, connection, REDIS_ENDPOINT).unwrap_or_default();
        Ok(Self { servers, password: connection.credentials.text("password").map(str::to_owned) })
    }

    /// The server for the member with this address: that of its node, else the first one. Servers know nothing of each other, and the
    /// daemons of a member have to use the same one.
    pub fn server(&self, address: &str) -> &str {
        let hosts = &self.servers.hosts;
        hosts.iter().find(|host| *host == address).or(hosts.first()).map_or("", String::as_str)
    }
}

/// All services of a resource.
#[derive(Clone, PartialEq)]
pub struct Services {
    /// The config API.
    pub api: Servers,
    /// The database.
    pub cassandra: Cassandra,
    /// Its port.
    pub cassandra_port: u16,
    /// Sessions and jobs.
    pub redis: Redis,
    /// Introspection of DNS daemons, where there are any.
    pub dns: Option<Servers>,
    /// The API of Analytics, if there is any.
    pub analytics: Option<Servers>,
}

impl Services {
    /// Files for TLS to those of other authorities that both daemons connect to.
    pub fn external_tls(&self) -> Vec<File> {
        let analytics = self.analytics.as_ref().map(|analytics| &analytics.external_tls);
        let all = [&self.cassandra.external_tls, &self.api.external_tls].into_iter().chain(analytics);
        all.flat_map(ExternalTls::files).collect()
    }

    /// Checks what was resolved.
    ///
    /// # Errors
    /// When the daemons could not use it.
    pub fn of(resolved: &Resolved) -> Result<Self, NotReady> {
        let connection = |condition| resolved.connection(condition).cloned().unwrap_or_default();
        let cassandra = connection(ConditionType::CassandraReady);
        let analytics = resolved.connection(ConditionType::CollectorReady);
        Ok(Self {
            api: Servers::of_service(Service::Config, &connection(ConditionType::ConfigApiReady), API)
                .unwrap_or_default()
                .for_urls(),
            cassandra_port: cassandra.port(CQL).unwrap_or_default(),
            cassandra: Cassandra::of(&cassandra, cassandra.hosts(CQL)),
            redis: Redis::of(&connection(ConditionType::RedisReady))?,
            dns: dns(&connection(ConditionType::ControlReady)),
            analytics: analytics
                .and_then(|analytics| Servers::of_service(Service::Analytics, analytics, API))
                .map(Servers::for_urls),
        })
    }
}

/// Where control nodes show DNS. Those of earlier releases do not publish the port, which is the usual one unless it was moved.
fn dns(control: &Connection) -> Option<Servers> {
    let usual = || Servers::of(control, DNS).map(|dns| Servers { port: ports::DNS_INTROSPECT.get(), ..dns });
    Servers::of(control, DNS_INTROSPECT).or_else(usual).map(Servers::for_urls)
}
