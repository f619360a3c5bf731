//! Every field of a kind has an effect or is told to have none.

use analytics_op::Analytics;
use serde_json::{Value, json};
use tf_testing::laws::fields::Stage;

/// Fields that the runtime goes by.
const ISSUER: (&str, &str) =
    ("commonConfiguration.certificates.issuer", "the runtime asks it, see e2e/tests/inputs/issuer.rs");
const ZOOKEEPER: (&str, &str) = (
    "dependencies.zookeeper.external.endpoints.[].tls",
    "with TLS the spec is refused: no daemon of analytics speaks it to ZooKeeper",
);

/// RabbitMQ cannot be used without credentials, and the API and the collector not without each other.
fn company(path: &str) -> Option<Value> {
    if path.starts_with("serviceConfiguration.containers.[]") {
        return Some(
            json!({"serviceConfiguration": {"containers": [{"name": "collector"}, {"name": "analyticsapi"}]}}),
        );
    }
    let field = path.strip_prefix("dependencies.rabbitmq.external.endpoints.[].")?;
    let nodes = if field == "service" { json!([]) } else { json!(["192.0.2.9"]) };
    let endpoints = json!([{"name": "amqp", "port": 4321, "nodes": nodes}]);
    let source = json!({"external": {"endpoints": endpoints, "secretRef": {"name": "rabbitmq1-rabbitmq-connection"}}});
    Some(json!({"dependencies": {"rabbitmq": source}}))
}

#[test]
fn no_field_of_analytics_lies() {
    let stage = Stage::<Analytics> {
        dependencies: &[
            ("cassandra", "cql"),
            ("configDatabase", "cql"),
            ("zookeeper", "client"),
            ("rabbitmq", "amqp"),
            ("redis", "redis"),
            ("config", "api"),
            ("analyticsAlarm", "kafka"),
        ],
        company: &company,
        except: &[ISSUER, ZOOKEEPER],
        ..Stage::of(env!("CARGO_MANIFEST_DIR"), "analytics/twelve-control-nodes", "collector")
    };
    assert!(stage.no_field_lies() > 70);
}
