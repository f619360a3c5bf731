//! Situations in code, and plans as the servers would see them.

#![expect(clippy::unwrap_used, reason = "a situation that cannot be made is a failing test")]

use serde_json::{Value, json};
use tf_agent_api::launch::Launch;
use tf_api::Webui;
use tf_plan::{component::Component as _, not_ready::NotReady, observed::Observed, plan::Plan};
use tf_sim::webui::options::Options;
pub use tf_testing::situation::{Planned, initialized, with_status};
use tf_testing::situation::{endpoint, nodes, peer, resource};
use webui_op::Component;

/// The generated password of the one user.
pub const LOGIN: &str = "Login-Pass-0123456789";

/// A Webui named webui1 in namespace tf with this spec.
pub fn webui(spec: Value) -> Webui {
    named("tf", "webui1", spec)
}

/// A Webui with this name and spec.
pub fn named(namespace: &str, name: &str, spec: Value) -> Webui {
    resource(namespace, name, &spec)
}

/// What is to be observed.
#[derive(Clone, Debug)]
pub struct World {
    pub namespace: String,
    pub name: String,
    pub nodes: Vec<String>,
    pub config: Vec<String>,
    pub cassandra: Vec<String>,
    pub redis: Vec<String>,
    pub analytics: Vec<String>,
    /// Ports of the control nodes by the names of their endpoints.
    pub control: Vec<(&'static str, u16)>,
    pub sentinel: bool,
    pub ready: bool,
    pub redis_password: String,
    pub login: String,
    pub secrets: Value,
}

impl Default for World {
    fn default() -> Self {
        let addresses: Vec<String> = (1..=3).map(|n| format!("10.0.0.{n}")).collect();
        Self {
            namespace: "tf".into(),
            name: "webui1".into(),
            nodes: addresses.clone(),
            config: addresses.clone(),
            cassandra: addresses.clone(),
            redis: addresses,
            analytics: Vec::new(),
            control: vec![("xmpp", 5269), ("dns", 53), ("dns-introspect", 8192)],
            sentinel: false,
            ready: true,
            redis_password: "Redis-Pass-0123456789".into(),
            login: LOGIN.into(),
            secrets: json!({}),
        }
    }
}

impl World {
    pub fn observed(&self) -> Observed<Webui> {
        let endpoint = |name: &str, port: u16, nodes: &[String]| endpoint(name, port, true, nodes);
        let one = |name: &str, endpoints: Vec<Value>, secret: Option<&str>| json!({"known": [self.peer(name, &endpoints, secret)]});
        let analytics = match self.analytics.as_slice() {
            [] => json!({"known": []}),
            nodes => one("analytics1", vec![endpoint("api", 8081, nodes)], None),
        };
        let mut redis = vec![endpoint("redis", 6389, &self.redis)];
        redis.extend(self.sentinel.then(|| endpoint("sentinel", 26389, &self.redis)));
        let control = self.control.iter().map(|(name, port)| endpoint(name, *port, &self.nodes)).collect();
        let mut secrets = json!({
            "redis": {"password": self.redis_password},
            (webui_op::login::secret(&named(&self.namespace, &self.name, json!({})))): {"password": self.login},
        });
        secrets.as_object_mut().unwrap().extend(self.secrets.as_object().unwrap().clone());
        serde_json::from_value(json!({
            "operator": {"version": "0.1.0", "clusterDomain": "cluster.local"},
            "now": "2026-11-21T10:00:00Z",
            "nodes": nodes(&self.nodes),
            "peers": {
                "Config": one("config1", vec![endpoint("api", 8082, &self.config)], None),
                "Cassandra": one("configdb1", vec![endpoint("cql", 9041, &self.cassandra)], None),
                "Redis": one("redis1", redis, Some("redis")),
                "Control": one("control1", control, None),
                "Analytics": analytics,
            },
            "secrets": secrets,
        }))
        .unwrap()
    }

    fn peer(&self, name: &str, endpoints: &[Value], secret: Option<&str>) -> Value {
        peer(&self.namespace, name, endpoints, secret, self.ready)
    }

    pub fn plan(&self, webui: &Webui) -> Result<Plan, NotReady> {
        Component::plan(webui, &self.observed())
    }
}

/// What is planned for one with this spec.
pub fn plan_of(world: &World, spec: Value) -> Planned {
    Planned(world.plan(&webui(spec)).unwrap())
}

/// What the servers of a member go by. Who reads the files was written without what writes them, and ends where the servers would.
pub fn options_of(planned: &Planned, address: &str) -> Options {
    let settings = planned.file(&key("config.global.js", address));
    Options::read(&settings, &planned.file("contrail-webui-userauth.js")).unwrap()
}

/// The launch file of a member.
pub fn launch_of(planned: &Planned, daemon: &str, address: &str) -> Launch {
    planned.launch(&key(&format!("{daemon}.launch"), address))
}

/// The key of a member's own file.
fn key(file: &str, address: &str) -> String {
    format!("{file}.{}", address.replace(':', "-"))
}
