//! Situations in code, and plans as the daemons would see them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a situation that cannot be made is a failing test")]

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use control_op::Component;
use serde_json::{Value, json};
use tf_api::Control;
use tf_plan::{
    component::Component as _,
    object::{CONFIG_MAP, Kind, SECRET, STATEFUL_SET},
    observed::Observed,
    plan::{NotReady, Plan},
};

/// The key of the name server.
pub const KEY: &str = "Rndc0Key1Rndc2Key3Rndc4Key5Rndc6";

/// A Control named control1 in namespace tf with this spec.
pub fn control(spec: Value) -> Control {
    named("tf", "control1", spec)
}

/// A Control with this name and spec.
pub fn named(namespace: &str, name: &str, spec: Value) -> Control {
    serde_json::from_value(json!({
        "apiVersion": "tf.tungsten.io/v1alpha1",
        "kind": "Control",
        "metadata": {"namespace": namespace, "name": name, "uid": "uid-1", "generation": 1},
        "spec": spec,
    }))
    .unwrap()
}

/// The same with a status.
pub fn with_status(mut control: Control, status: Value) -> Control {
    control.status = serde_json::from_value(status).unwrap();
    control
}

/// The same after its first bring-up.
pub fn initialized(control: Control) -> Control {
    with_status(control, json!({"initialized": true, "observedGeneration": 1}))
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
        let node = |(index, address): (usize, &String)| {
            json!({
                "name": format!("cp{}", index + 1),
                "address": address,
                "labels": {"node-role.kubernetes.io/control-plane": ""},
            })
        };
        let endpoint = |name: &str, port: u16, nodes: &[String]| json!({"name": name, "protocol": "TCP", "port": port, "tls": true, "nodes": nodes});
        let known = |peers: Vec<Value>| json!({"known": peers});
        let one = |name: &str, endpoint: Value, secret: Option<&str>| known(vec![self.peer(name, &endpoint, secret)]);
        let analytics = match self.analytics.as_slice() {
            [] => known(Vec::new()),
            nodes => one("analytics1", endpoint("collector", 8086, nodes), None),
        };
        serde_json::from_value(json!({
            "operator": {"version": "0.1.0", "clusterDomain": "cluster.local"},
            "now": "2026-11-21T10:00:00Z",
            "nodes": {"known": self.nodes.iter().enumerate().map(node).collect::<Vec<_>>()},
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

    fn peer(&self, name: &str, endpoint: &Value, secret: Option<&str>) -> Value {
        let ready = json!({
            "type": "Ready",
            "status": if self.ready { "True" } else { "False" },
            "reason": if self.ready { "Succeeded" } else { "ReplicasUnavailable" },
            "message": "as it is",
            "lastTransitionTime": "2026-11-21T09:00:00Z",
        });
        json!({
            "namespace": self.namespace,
            "name": name,
            "generation": 1,
            "status": {
                "contract": "v1",
                "observedGeneration": 1,
                "endpoints": [endpoint],
                "connectionSecretRef": secret.map(|name| json!({"name": name})),
                "conditions": [ready],
            },
        })
    }

    pub fn plan(&self, control: &Control) -> Result<Plan, NotReady> {
        Component::plan(control, &self.observed())
    }
}

/// A plan, taken apart.
pub struct Planned(pub Plan);

impl Planned {
    pub fn of(world: &World, spec: Value) -> Self {
        Self(world.plan(&control(spec)).unwrap())
    }

    fn body(&self, kind: Kind, suffix: &str) -> Option<&Value> {
        let wanted = |object: &&tf_plan::object::Object| object.kind == kind && object.name.ends_with(suffix);
        self.0.objects.iter().find(wanted).map(|object| &object.body)
    }

    /// Files without secrets, by key.
    pub fn open(&self) -> BTreeMap<String, String> {
        serde_json::from_value(self.body(CONFIG_MAP, "-files").unwrap()["data"].clone()).unwrap()
    }

    /// Files with secrets, by key.
    pub fn secret(&self) -> BTreeMap<String, String> {
        let body = self.body(SECRET, "-secret-files").unwrap();
        let data: BTreeMap<String, String> = serde_json::from_value(body["data"].clone()).unwrap();
        let text = |encoded: String| String::from_utf8(BASE64_STANDARD.decode(encoded).unwrap()).unwrap();
        data.into_iter().map(|(key, encoded)| (key, text(encoded))).collect()
    }

    /// A file of the Secret.
    pub fn file(&self, key: &str) -> String {
        let files = self.secret();
        files.get(key).unwrap_or_else(|| panic!("no {key} among {:?}", files.keys())).clone()
    }

    /// A launch file.
    pub fn launch(&self, daemon: &str) -> tf_plan::node::launch::Launch {
        tf_plan::node::launch::Launch::parse(self.open()[&format!("{daemon}.launch")].as_bytes()).unwrap()
    }

    pub fn pod(&self) -> &Value {
        &self.body(STATEFUL_SET, "").unwrap()["spec"]["template"]["spec"]
    }

    pub fn container(&self, name: &str) -> &Value {
        let containers = self.pod()["containers"].as_array().unwrap();
        containers.iter().find(|container| container["name"] == name).unwrap()
    }
}
