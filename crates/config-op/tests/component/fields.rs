//! Every field of a Config has an effect or is told to have none.

use config_op::Component;
use serde_json::{Value, json};
use tf_testing::invariants::fields::Stage;

/// RabbitMQ cannot be used without credentials, without Keystone nobody is asked for anything, and no field of a service means something without
/// the others.
fn company(path: &str) -> Option<Value> {
    if ["serviceConfiguration.aaaMode", "serviceConfiguration.apiAdminPort"].contains(&path) {
        let auth = json!({"authMode": "keystone", "keystoneAuthParameters": {"adminPassword": "p"}});
        return Some(json!({"commonConfiguration": {"authParameters": auth}}));
    }
    if path.starts_with("serviceConfiguration.linklocalServices.[].") {
        let hosts = ["10.0.0.5"];
        let service = json!({
            "name": "time", "ip": "169.254.169.253", "port": 123, "ipFabricServiceHosts": hosts, "ipFabricServicePort": 1123,
        });
        return Some(json!({"serviceConfiguration": {"linklocalServices": [service]}}));
    }
    let field = path.strip_prefix("dependencies.rabbitmq.external.endpoints.[].")?;
    let nodes = if field == "service" { json!([]) } else { json!(["192.0.2.9"]) };
    let endpoints = json!([{"name": "amqp", "port": 4321, "nodes": nodes}]);
    let source = json!({"external": {"endpoints": endpoints, "secretRef": {"name": "rabbitmq1-rabbitmq-connection"}}});
    Some(json!({"dependencies": {"rabbitmq": source}}))
}

#[test]
fn no_field_lies() {
    let stage = Stage::<Component> {
        dependencies: &[
            ("cassandra", "cql"),
            ("zookeeper", "client"),
            ("rabbitmq", "amqp"),
            ("analytics", "collector"),
        ],
        sample: &|path| (path == "serviceConfiguration.aaaMode").then(|| json!("cloud-admin")),
        company: &company,
        except: &[
            (
                "dependencies.zookeeper.external.endpoints.[].tls",
                "with TLS the spec is refused: the service monitor does not speak it to ZooKeeper",
            ),
            ("commonConfiguration.certificates.issuer", "the runtime asks it, see e2e/tests/inputs/issuer.rs"),
        ],
        ..Stage::of(env!("CARGO_MANIFEST_DIR"), "twelve-control-nodes", "api")
    };
    assert!(stage.no_field_lies() > 60);
}
