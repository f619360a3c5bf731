//! Situations in code, and plans as the daemons would see them.

#![expect(clippy::unwrap_used, reason = "a situation that cannot be made is a failing test")]

use control_op::Component;
use serde_json::{Value, json};
use tf_api::Control;
use tf_plan::{component::Component as _, not_ready::NotReady, observed::Observed, plan::Plan};
pub use tf_testing::situation::{Planned, initialized, with_status};
use tf_testing::situation::{endpoint, nodes, peer, resource};

/// The key of the name server.
pub const KEY: &str = "Rndc0Key1Rndc2Key3Rndc4Key5Rndc6";

/// A Control named control1 in namespace tf with this spec.
pub fn control(spec: Value) -> Control {
    named("tf", "control1", spec)
}

/// A Control with this name and spec.
pub fn named(namespace: &str, name: &str, spec: Value) -> Control {
    resource(namespace, name, &spec)
}

/// What is to be observed.
#[derive(Clone, Debug)]
pub struct World {
    pub namespace: String,
    pub name: String,
    pub nodes: Vec<String>,
    pub cassandra: Vec<String>,
    pub rabbitmq: Vec<String>,
    pub analytics: Vec<String>,
    pub ready: bool,
    pub password: String,
    pub key: String,
}

impl Default for World {
    fn default() -> Self {
        let addresses: Vec<String> = (1..=3).map(|n| format!("10.0.0.{n}")).collect();
        Self {
            namespace: "tf".into(),
            name: "control1".into(),
            nodes: addresses.clone(),
            cassandra: addresses.clone(),
            rabbitmq: addresses,
            analytics: Vec::new(),
            ready: true,
            password: "Rabbit-Pass-0123456789".into(),
            key: KEY.into(),
        }
    }
}

impl World {
    pub fn with_analytics(analytics: &[&str]) -> Self {
        Self { analytics: analytics.iter().map(|host| (*host).to_owned()).collect(), ..Self::default() }
    }

    pub fn observed(&self) -> Observed<Control> {
        let endpoint = |name: &str, port: u16, nodes: &[String]| endpoint(name, port, true, nodes);
        let known = |peers: Vec<Value>| json!({"known": peers});
        let one = |name: &str, endpoint: Value, secret: Option<&str>| known(vec![self.peer(name, endpoint, secret)]);
        let analytics = match self.analytics.as_slice() {
            [] => known(Vec::new()),
            nodes => one("analytics1", endpoint("collector", 8086, nodes), None),
        };
        serde_json::from_value(json!({
            "operator": {"version": "0.1.0", "clusterDomain": "cluster.local"},
            "now": "2026-11-21T10:00:00Z",
            "nodes": nodes(&self.nodes),
            "peers": {
                "Cassandra": one("configdb1", endpoint("cql", 9041, &self.cassandra), None),
                "Rabbitmq": one("rabbitmq1", endpoint("amqp", 5673, &self.rabbitmq), Some("rabbitmq")),
                "Config": one("config1", endpoint("api", 8082, &self.nodes), None),
                "Analytics": analytics,
            },
            "secrets": {
                "rabbitmq": {"username": "user0001", "password": self.password, "vhost": "vhost001"},
                (format!("{}-control-rndc", self.name)): {"rndckey": self.key},
            },
        }))
        .unwrap()
    }

    fn peer(&self, name: &str, endpoint: Value, secret: Option<&str>) -> Value {
        peer(&self.namespace, name, &[endpoint], secret, self.ready)
    }

    pub fn plan(&self, control: &Control) -> Result<Plan, NotReady> {
        Component::plan(control, &self.observed())
    }
}

/// What is planned for one with this spec.
pub fn plan_of(world: &World, spec: Value) -> Planned {
    Planned(world.plan(&control(spec)).unwrap())
}
