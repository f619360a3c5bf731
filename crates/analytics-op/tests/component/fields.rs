//! Every field of a kind has an effect or is told to have none.

use analytics_op::{Analytics, AnalyticsAlarm, AnalyticsSnmp, QueryEngine};
use serde_json::{Value, json};
use tf_testing::invariants::fields::Stage;

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

/// The same where `containers` cannot be without each other.
fn together(path: &str, containers: [&str; 2]) -> Option<Value> {
    let listed = containers.map(|name| json!({"name": name}));
    let is_of_container = path.starts_with("serviceConfiguration.containers.[]");
    is_of_container.then(|| json!({"serviceConfiguration": {"containers": listed}})).or_else(|| company(path))
}

/// Logs are in one place, every text but a few means yes, and a service that nobody connects to is told of as a whole.
fn sample(path: &str, unused: &[&str]) -> Option<Value> {
    match path {
        "serviceConfiguration.logFilePath" => Some(json!("/var/log/elsewhere")),
        "serviceConfiguration.logLocal" => Some(json!("0")),
        _ => {
            let dependency = path.strip_prefix("dependencies.")?;
            unused.contains(&dependency).then(|| json!({"ref": {"name": "some-text"}}))
        }
    }
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
        company: &|path| together(path, ["collector", "analyticsapi"]),
        except: &[ISSUER, ZOOKEEPER],
        ..Stage::of(env!("CARGO_MANIFEST_DIR"), "analytics/twelve-control-nodes", "collector")
    };
    assert!(stage.no_field_lies() > 70);
}

#[test]
fn no_field_of_query_engine_lies() {
    let stage = Stage::<QueryEngine> {
        dependencies: &[("cassandra", "cql"), ("redis", "redis"), ("analytics", "collector")],
        sample: &|path| sample(path, &["zookeeper", "rabbitmq", "config"]),
        except: &[ISSUER],
        ..Stage::of(env!("CARGO_MANIFEST_DIR"), "queryengine/twelve-control-nodes", "queryengine")
    };
    assert!(stage.no_field_lies() > 50);
}

#[test]
fn no_field_of_analytics_snmp_lies() {
    let stage = Stage::<AnalyticsSnmp> {
        dependencies: &[
            ("cassandra", "cql"),
            ("zookeeper", "client"),
            ("rabbitmq", "amqp"),
            ("config", "api"),
            ("analytics", "collector"),
        ],
        company: &|path| together(path, ["analytics-snmp-collector", "analytics-snmp-topology"]),
        sample: &|path| sample(path, &["redis"]),
        except: &[ISSUER, ZOOKEEPER],
        ..Stage::of(env!("CARGO_MANIFEST_DIR"), "analyticssnmp/twelve-control-nodes", "analytics-snmp-collector")
    };
    assert!(stage.no_field_lies() > 60);
}

#[test]
fn no_field_of_analytics_alarm_lies() {
    let stage = Stage::<AnalyticsAlarm> {
        dependencies: &[
            ("cassandra", "cql"),
            ("zookeeper", "client"),
            ("rabbitmq", "amqp"),
            ("redis", "redis"),
            ("config", "api"),
            ("analytics", "collector"),
        ],
        company: &|path| together(path, ["analytics-alarm-gen", "kafka"]),
        sample: &|path| sample(path, &[]),
        except: &[ISSUER, ZOOKEEPER],
        ..Stage::of(env!("CARGO_MANIFEST_DIR"), "analyticsalarm/twelve-control-nodes", "analytics-alarm-gen")
    };
    assert!(stage.no_field_lies() > 60);
}
