//! Situations in code, and plans as the daemons would see them.

#![expect(clippy::unwrap_used, reason = "a situation that cannot be made is a failing test")]

use std::collections::BTreeMap;

use config_op::Component;
use serde_json::{Value, json};
use tf_api::Config;
use tf_plan::{component::Component as _, not_ready::NotReady, observed::Observed, plan::Plan};
pub use tf_testing::situation::{Planned, initialized, with_status};
use tf_testing::situation::{endpoint, nodes, peer, resource};

/// A Config named config1 in namespace tf with this spec.
pub fn config(spec: Value) -> Config {
    named("tf", "config1", spec)
}

/// A Config with this name and spec.
pub fn named(namespace: &str, name: &str, spec: Value) -> Config {
    resource(namespace, name, &spec)
}

/// What is to be observed.
#[derive(Clone, Debug)]
pub struct World {
    pub namespace: String,
    pub nodes: Vec<String>,
    pub cassandra: Vec<String>,
    pub cql_port: u16,
    pub zookeeper: Vec<String>,
    pub rabbitmq: Vec<String>,
    pub analytics: Vec<String>,
    pub ready: bool,
    pub rabbitmq_login: [String; 3],
    pub secrets: BTreeMap<String, BTreeMap<String, String>>,
}

impl Default for World {
    fn default() -> Self {
        let addresses: Vec<String> = (1..=3).map(|n| format!("10.0.0.{n}")).collect();
        Self {
            namespace: "tf".into(),
            nodes: addresses.clone(),
            cassandra: addresses.clone(),
            cql_port: 9041,
            zookeeper: addresses.clone(),
            rabbitmq: addresses,
            analytics: Vec::new(),
            ready: true,
            rabbitmq_login: ["user0001", "Rabbit-Pass-0123456789", "vhost001"].map(str::to_owned),
            secrets: BTreeMap::new(),
        }
    }
}

impl World {
    pub fn with_analytics(analytics: &[&str]) -> Self {
        Self { analytics: analytics.iter().map(|host| (*host).to_owned()).collect(), ..Self::default() }
    }

    pub fn observed(&self) -> Observed<Config> {
        let analytics =
            vec![endpoint("collector", 8086, true, &self.analytics), endpoint("api", 8081, true, &self.analytics)];
        let mut secrets = self.secrets.clone();
        let login = ["username", "password", "vhost"].map(str::to_owned).into_iter().zip(self.rabbitmq_login.clone());
        secrets.insert("rabbitmq".into(), login.collect());
        let known = |peers: Vec<Value>| json!({"known": peers});
        serde_json::from_value(json!({
            "operator": {"version": "0.1.0", "clusterDomain": "cluster.local"},
            "now": "2026-11-21T10:00:00Z",
            "nodes": nodes(&self.nodes),
            "peers": {
                "Cassandra": known(vec![self.peer("configdb1", &[endpoint("cql", self.cql_port, true, &self.cassandra)], None)]),
                "Zookeeper": known(vec![self.peer("zookeeper1", &[endpoint("client", 2181, false, &self.zookeeper)], None)]),
                "Rabbitmq": known(vec![
                    self.peer("rabbitmq1", &[endpoint("amqp", 5673, true, &self.rabbitmq)], Some("rabbitmq")),
                ]),
                "Analytics": known(if self.analytics.is_empty() {
                    Vec::new()
                } else {
                    vec![self.peer("analytics1", &analytics, None)]
                }),
            },
            "secrets": secrets,
        }))
        .unwrap()
    }

    fn peer(&self, name: &str, endpoints: &[Value], secret: Option<&str>) -> Value {
        peer(&self.namespace, name, endpoints, secret, self.ready)
    }

    pub fn plan(&self, config: &Config) -> Result<Plan, NotReady> {
        Component::plan(config, &self.observed())
    }
}

/// What is planned for one with this spec.
pub fn plan_of(world: &World, spec: Value) -> Planned {
    Planned(world.plan(&config(spec)).unwrap())
}

/// Whether a file is read by `configparser`.
pub fn is_ini(key: &str) -> bool {
    key.starts_with("contrail-") || key.starts_with("vnc_api_lib.ini")
}
