//! Situations in code, and plans as the daemon would see them.

#![expect(clippy::unwrap_used, reason = "a situation that cannot be made is a failing test")]

use kubemanager_op::Component;
use serde_json::{Value, json};
use tf_api::Kubemanager;
use tf_plan::{component::Component as _, not_ready::NotReady, observed::Observed, plan::Plan};
pub use tf_testing::situation::{Planned, initialized, with_status};
use tf_testing::situation::{endpoint, nodes, peer, resource};

/// The daemon's token.
pub const TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJrdWJlLW1hbmFnZXIifQ.c2lnbmF0dXJl";

/// A Kubemanager named kubemanager1 in namespace tf with this spec.
pub fn kubemanager(spec: Value) -> Kubemanager {
    named("tf", "kubemanager1", spec)
}

/// A Kubemanager with this name and spec.
pub fn named(namespace: &str, name: &str, spec: Value) -> Kubemanager {
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
    pub token: String,
    pub kubeadm: String,
}

impl Default for World {
    fn default() -> Self {
        let addresses: Vec<String> = (1..=3).map(|n| format!("10.0.0.{n}")).collect();
        Self {
            namespace: "tf".into(),
            name: "kubemanager1".into(),
            nodes: addresses.clone(),
            cassandra: addresses.clone(),
            rabbitmq: addresses,
            analytics: Vec::new(),
            ready: true,
            password: "Rabbit-Pass-0123456789".into(),
            token: TOKEN.into(),
            kubeadm: "clusterName: prod\nnetworking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.97.0.0/16}\n".into(),
        }
    }
}

impl World {
    pub fn observed(&self) -> Observed<Kubemanager> {
        let known = |peers: Vec<Value>| json!({"known": peers});
        let one = |name: &str, endpoint: Value, secret: Option<&str>| known(vec![self.peer(name, endpoint, secret)]);
        let analytics = match self.analytics.as_slice() {
            [] => known(Vec::new()),
            nodes => one("analytics1", endpoint("collector", 8086, true, nodes), None),
        };
        serde_json::from_value(json!({
            "operator": {"version": "0.1.0", "clusterDomain": "cluster.local"},
            "now": "2026-11-21T10:00:00Z",
            "nodes": nodes(&self.nodes),
            "peers": {
                "Cassandra": one("configdb1", endpoint("cql", 9042, true, &self.cassandra), None),
                "Zookeeper": one("zookeeper1", endpoint("client", 2181, false, &self.nodes), None),
                "Rabbitmq": one("rabbitmq1", endpoint("amqp", 5673, true, &self.rabbitmq), Some("rabbitmq")),
                "Config": one("config1", endpoint("api", 8082, true, &self.nodes), None),
                "Analytics": analytics,
            },
            "secrets": {
                "rabbitmq": {"username": "user0001", "password": self.password, "vhost": "vhost001"},
                (kubemanager_op::token::secret(&named(&self.namespace, &self.name, json!({})))): {"token": self.token},
            },
            "facts": {"kube-system/kubeadm-config": {"ClusterConfiguration": self.kubeadm}},
        }))
        .unwrap()
    }

    fn peer(&self, name: &str, endpoint: Value, secret: Option<&str>) -> Value {
        peer(&self.namespace, name, &[endpoint], secret, self.ready)
    }

    pub fn plan(&self, kubemanager: &Kubemanager) -> Result<Plan, NotReady> {
        Component::plan(kubemanager, &self.observed())
    }
}

/// What is planned for one with this spec.
pub fn plan_of(world: &World, spec: Value) -> Planned {
    Planned(world.plan(&kubemanager(spec)).unwrap())
}
