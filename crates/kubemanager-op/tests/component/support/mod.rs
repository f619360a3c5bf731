//! Situations in code, and plans as the daemon would see them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a situation that cannot be made is a failing test")]

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use kubemanager_op::Component;
use serde_json::{Value, json};
use tf_api::Kubemanager;
use tf_plan::{
    component::Component as _,
    object::{CONFIG_MAP, Kind, SECRET, STATEFUL_SET},
    observed::Observed,
    plan::{NotReady, Plan},
};

/// The daemon's token.
pub const TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJrdWJlLW1hbmFnZXIifQ.c2lnbmF0dXJl";

/// A Kubemanager named kubemanager1 in namespace tf with this spec.
pub fn kubemanager(spec: Value) -> Kubemanager {
    named("tf", "kubemanager1", spec)
}

/// A Kubemanager with this name and spec.
pub fn named(namespace: &str, name: &str, spec: Value) -> Kubemanager {
    serde_json::from_value(json!({
        "apiVersion": "tf.tungsten.io/v1alpha1",
        "kind": "Kubemanager",
        "metadata": {"namespace": namespace, "name": name, "uid": "uid-1", "generation": 1},
        "spec": spec,
    }))
    .unwrap()
}

/// The same with a status.
pub fn with_status(mut kubemanager: Kubemanager, status: Value) -> Kubemanager {
    kubemanager.status = serde_json::from_value(status).unwrap();
    kubemanager
}

/// The same after its first bring-up.
pub fn initialized(kubemanager: Kubemanager) -> Kubemanager {
    with_status(kubemanager, json!({"initialized": true, "observedGeneration": 1}))
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
        let node = |(index, address): (usize, &String)| {
            json!({
                "name": format!("cp{}", index + 1),
                "address": address,
                "labels": {"node-role.kubernetes.io/control-plane": ""},
            })
        };
        let endpoint = |name: &str, port: u16, tls: bool, nodes: &[String]| json!({"name": name, "protocol": "TCP", "port": port, "tls": tls, "nodes": nodes});
        let known = |peers: Vec<Value>| json!({"known": peers});
        let one = |name: &str, endpoint: Value, secret: Option<&str>| known(vec![self.peer(name, &endpoint, secret)]);
        let analytics = match self.analytics.as_slice() {
            [] => known(Vec::new()),
            nodes => one("analytics1", endpoint("collector", 8086, true, nodes), None),
        };
        serde_json::from_value(json!({
            "operator": {"version": "0.1.0", "clusterDomain": "cluster.local"},
            "now": "2026-11-21T10:00:00Z",
            "nodes": {"known": self.nodes.iter().enumerate().map(node).collect::<Vec<_>>()},
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

    pub fn plan(&self, kubemanager: &Kubemanager) -> Result<Plan, NotReady> {
        Component::plan(kubemanager, &self.observed())
    }
}

/// A plan, taken apart.
pub struct Planned(pub Plan);

impl Planned {
    pub fn of(world: &World, spec: Value) -> Self {
        Self(world.plan(&kubemanager(spec)).unwrap())
    }

    fn body(&self, kind: Kind, suffix: &str) -> Option<&Value> {
        let wanted = |object: &&tf_plan::object::Object| object.kind == kind && object.name.ends_with(suffix);
        self.0.objects.iter().find(wanted).map(|object| &object.body)
    }

    /// Files without secrets, by key.
    pub fn open(&self) -> BTreeMap<String, String> {
        serde_json::from_value(self.body(CONFIG_MAP, "-files").unwrap()["data"].clone()).unwrap()
    }

    /// A file of the Secret.
    pub fn file(&self, key: &str) -> String {
        let data = self.body(SECRET, "-secret-files").unwrap()["data"].clone();
        let files: BTreeMap<String, String> = serde_json::from_value(data).unwrap();
        let text = |encoded: String| String::from_utf8(BASE64_STANDARD.decode(encoded).unwrap()).unwrap();
        let files: BTreeMap<String, String> = files.into_iter().map(|(key, encoded)| (key, text(encoded))).collect();
        files.get(key).unwrap_or_else(|| panic!("no {key} among {:?}", files.keys())).clone()
    }

    /// The launch file.
    pub fn launch(&self) -> tf_plan::node::launch::Launch {
        tf_plan::node::launch::Launch::parse(self.open()["kubemanager.launch"].as_bytes()).unwrap()
    }

    pub fn pod(&self) -> &Value {
        &self.body(STATEFUL_SET, "").unwrap()["spec"]["template"]["spec"]
    }
}
