//! Services that no operator of ours runs, as specs name them: nobody is at their addresses.

use serde_json::{Value, json};

const LOGIN: &str = "rabbitmq-login";

/// A spec with these of its `dependencies`. RabbitMQ's is of use with [`login`].
pub fn on(names: &[&str]) -> Value {
    let external = |name: &str, protocol: &str, port: u16| {
        let nodes = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
        json!({ "external": { "endpoints": [{ "name": name, "protocol": protocol, "port": port, "nodes": nodes }] } })
    };
    let mut services = json!({
        "analytics": external("collector", "TCP", 8086),
        "cassandra": external("cql", "TCP", 9042),
        "config": external("api", "HTTPS", 8082),
        "configDatabase": external("cql", "TCP", 9042),
        "control": external("dns-introspect", "HTTPS", 8092),
        "rabbitmq": external("amqp", "AMQP", 5672),
        "redis": external("redis", "TCP", 6379),
        "zookeeper": external("client", "TCP", 2181),
    });
    services["rabbitmq"]["external"]["secretRef"] = json!({ "name": LOGIN });
    let mut spec = json!({ "dependencies": {} });
    for name in names {
        spec["dependencies"][name] = services[*name].take();
    }
    spec
}

/// The Secret with what clients of RabbitMQ log in with.
pub fn login(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": LOGIN, "namespace": namespace },
        "stringData": { "username": "config", "password": "Good-enough_1.x", "vhost": "/" },
    })
}
