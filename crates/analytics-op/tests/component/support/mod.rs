//! Situations in code, and plans as the daemons would see them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a situation that cannot be made is a failing test")]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tf_agent_api::launch::{Launch, OnChange};
use tf_api::{Managed, contract::NameReference};
use tf_plan::{
    component::Component,
    object::SECRET,
    observed::{Observed, Source},
    plan::Plan,
};
use tf_sim::analytics::options::{Daemon, Options};
pub use tf_testing::situation::{files, with_status};
use tf_testing::{
    golden,
    situation::{data, endpoint, nodes, peer, resource},
};

/// A recorded situation of a kind: the resource and what is observed.
pub fn situation<C: Component>(name: &str) -> (C::Cr, Observed<C::Cr>) {
    golden::situation::<C>(env!("CARGO_MANIFEST_DIR"), name)
}

/// A plan of a recorded situation.
pub fn plan<C: Component>(name: &str) -> Plan {
    let (cr, observed) = situation::<C>(name);
    C::plan(&cr, &observed).unwrap_or_else(|not_ready| panic!("{name}: {}", not_ready.message))
}

/// Analytics hands over what a plan of it publishes.
pub fn hand_over<Cr>(analytics: &Plan, observed: &mut Observed<Cr>) {
    let Some(Source::Known(peers)) = observed.peers.get_mut("Analytics") else { panic!("no Analytics") };
    let published = analytics.connection.as_ref();
    peers[0].status.connection_secret_ref = published.map(|(name, _)| NameReference { name: name.clone() });
    peers[0].status.connection_hash = published.map(|(_, hash)| hash.clone());
    if let Some((name, _)) = published {
        observed.secrets.insert(name.clone(), data(analytics, SECRET, name).into_iter().collect());
    }
}

/// A resource with Keystone, with this password of its administrator.
pub fn with_keystone<Cr: Managed>(cr: &Cr, password: &str) -> Cr {
    let mut cr = serde_json::to_value(cr).unwrap();
    cr["spec"]["commonConfiguration"]["authParameters"] =
        json!({"authMode": "keystone", "keystoneAuthParameters": {"adminPassword": password}});
    serde_json::from_value(cr).unwrap()
}

/// A resource with other settings in `serviceConfiguration`, too.
pub fn with_settings<Cr: Managed>(cr: &Cr, settings: Value) -> Cr {
    let mut cr = serde_json::to_value(cr).unwrap();
    for (field, value) in settings.as_object().unwrap() {
        cr["spec"]["serviceConfiguration"][field] = value.clone();
    }
    serde_json::from_value(cr).unwrap()
}

/// A file of the member with an address, or of all members.
pub fn file(files: &BTreeMap<String, String>, name: &str, address: &str) -> Option<String> {
    let own = format!("{name}.{}", address.replace(':', "-"));
    files.get(name).or_else(|| files.get(&own)).cloned()
}

/// How the agent runs the daemon of a container.
pub fn launch(files: &BTreeMap<String, String>, container: &str, address: &str) -> Launch {
    let text = file(files, &format!("{container}.launch"), address);
    Launch::parse(text.unwrap_or_else(|| panic!("no {container}.launch for {address}")).as_bytes()).unwrap()
}

/// What the daemon of a member goes by, by the files that its launch file names on its command line.
///
/// # Errors
/// Why the daemon would end.
pub fn options(
    files: &BTreeMap<String, String>,
    container: &str,
    daemon: Daemon,
    address: &str,
) -> Result<Options, String> {
    let argv = launch(files, container, address).argv;
    assert_eq!(argv[0], daemon.name());
    let named = argv.windows(2).filter(|pair| ["-c", "--conf_file"].contains(&pair[0].as_str()));
    let texts: Vec<String> =
        named.map(|pair| file(files, pair[1].trim_start_matches("/etc/contrail/"), address).unwrap()).collect();
    assert!(!texts.is_empty(), "{argv:?}");
    Options::read(daemon, &texts).map_err(|exit| exit.why)
}

/// The containers of a member whose daemons are started anew when the one plan becomes the other.
pub fn started_anew(before: &Plan, after: &Plan, address: &str) -> Vec<String> {
    let (before, after) = (files(before), files(after));
    let containers = after.keys().filter_map(|key| key.split_once(".launch").map(|(name, _)| name.to_owned()));
    let mut containers: Vec<String> = containers.collect();
    containers.dedup();
    containers.retain(|container| {
        let launch = launch(&after, container, address);
        let differs = |name: &str| file(&before, name, address) != file(&after, name, address);
        let restarts = |(name, what): (&String, &OnChange)| *what == OnChange::Restart && differs(name);
        launch.files.iter().any(restarts) || differs(&format!("{container}.launch"))
    });
    containers
}

/// Services around a resource in namespace `prod`, and its nodes. Lists are addresses of servers; an empty one says that nobody runs them.
#[derive(Clone, Debug)]
pub struct World {
    pub nodes: Vec<String>,
    pub cassandra: Vec<String>,
    /// Of the Cassandra for analytics.
    pub database: Vec<String>,
    pub zookeeper: Vec<String>,
    pub rabbitmq: Vec<String>,
    pub redis: Vec<String>,
    pub config: Vec<String>,
    pub collectors: Vec<String>,
    pub kafka: Vec<String>,
    pub ready: bool,
    pub rabbitmq_password: String,
    pub redis_password: String,
    /// At the API's port for administration.
    pub login_password: String,
}

impl World {
    /// What is observed of it.
    pub fn observed<Cr: Managed>(&self) -> Observed<Cr> {
        let one = |name: &str, endpoints: &[(&str, u16, bool)], nodes: &[String], secret: Option<&str>| {
            let peer = || self.peer(name, endpoints, nodes, secret);
            (!nodes.is_empty()).then(peer).into_iter().collect::<Vec<Value>>()
        };
        let mut cassandras = one("configdb1", &[("cql", 9041, true)], &self.cassandra, None);
        cassandras.extend(one("analyticsdb1", &[("cql", 9042, true)], &self.database, None));
        serde_json::from_value(json!({
            "operator": {"version": "0.1.0", "clusterDomain": "cluster.local"},
            "now": "2026-11-21T10:00:00Z",
            "nodes": nodes(&self.nodes),
            "peers": {
                "Cassandra": {"known": cassandras},
                "Zookeeper": {"known": one("zookeeper1", &[("client", 2181, false)], &self.zookeeper, None)},
                "Rabbitmq": {"known": one("rabbitmq1", &[("amqp", 5673, true)], &self.rabbitmq, Some("rabbitmq"))},
                "Redis": {"known": one("redis1", &[("redis", 6389, true)], &self.redis, Some("redis"))},
                "Config": {"known": one("config1", &[("api", 8082, true)], &self.config, None)},
                "Analytics": {"known": one("analytics1", &[("api", 8081, true), ("collector", 8086, true)], &self.collectors, Some("login"))},
                "AnalyticsAlarm": {"known": one("analyticsalarm1", &[("kafka", 9092, true)], &self.kafka, None)},
                "QueryEngine": {"known": []},
            },
            "secrets": {
                "rabbitmq": {"username": "user0001", "password": self.rabbitmq_password, "vhost": "vhost001"},
                "redis": {"password": self.redis_password},
                "login": {"username": "admin", "password": self.login_password},
            },
        }))
        .unwrap()
    }

    fn peer(&self, name: &str, endpoints: &[(&str, u16, bool)], nodes: &[String], secret: Option<&str>) -> Value {
        let endpoints: Vec<Value> =
            endpoints.iter().map(|(name, port, tls)| endpoint(name, *port, *tls, nodes)).collect();
        peer("prod", name, &endpoints, secret, self.ready)
    }
}

/// A resource in namespace `prod`.
pub fn named<Cr: Managed>(name: &str, spec: Value) -> Cr {
    resource("prod", name, &spec)
}
