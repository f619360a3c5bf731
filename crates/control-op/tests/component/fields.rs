//! Every field of a Control has an effect or is told to have none.

use control_op::Component;
use serde_json::{Value, json};
use tf_testing::invariants::fields::Stage;

/// RabbitMQ cannot be used without credentials.
fn company(path: &str) -> Option<Value> {
    let field = path.strip_prefix("dependencies.rabbitmq.external.endpoints.[].")?;
    let nodes = if field == "service" { json!([]) } else { json!(["192.0.2.9"]) };
    let endpoints = json!([{"name": "amqp", "port": 4321, "nodes": nodes}]);
    let source = json!({"external": {"endpoints": endpoints, "secretRef": {"name": "rabbitmq1-rabbitmq-connection"}}});
    Some(json!({"dependencies": {"rabbitmq": source}}))
}

fn sample(path: &str) -> Option<Value> {
    match path {
        "serviceConfiguration.rndckey" => Some(json!("c29tZS10ZXh0")),
        "serviceConfiguration.dataSubnet" => Some(json!("198.51.100.0/24")),
        // contrail-control takes collectors by address alone.
        "dependencies.analytics.external.endpoints.[].service" => Some(json!("192.0.2.11")),
        _ => None,
    }
}

#[test]
fn no_field_lies() {
    let stage = Stage::<Component> {
        dependencies: &[("cassandra", "cql"), ("rabbitmq", "amqp"), ("config", "api"), ("analytics", "collector")],
        company: &company,
        sample: &sample,
        except: &[("commonConfiguration.certificates.issuer", "the runtime asks it, see e2e/tests/inputs/issuer.rs")],
        ..Stage::of(env!("CARGO_MANIFEST_DIR"), "twelve-control-nodes", "control")
    };
    assert!(stage.no_field_lies() > 50);
}
