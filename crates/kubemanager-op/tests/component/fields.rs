//! Every field of a Kubemanager has an effect or is told to have none.

use kubemanager_op::Component;
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
    let network = Some(json!(r#"{"domain": "d", "project": "p", "name": "n"}"#));
    match path.strip_prefix("serviceConfiguration.")? {
        "podSubnet" | "serviceSubnet" | "ipFabricSubnets" => Some(json!("198.51.100.0/24")),
        "clusterProject" => Some(json!(r#"{"domain": "d", "project": "p"}"#)),
        "clusterNetwork" | "clusterPodNetwork" | "clusterServiceNetwork" => network,
        "publicFIPPool" => Some(json!("{}")),
        _ => None,
    }
}

#[test]
fn no_field_lies() {
    let stage = Stage::<Component> {
        dependencies: &[
            ("cassandra", "cql"),
            ("zookeeper", "client"),
            ("rabbitmq", "amqp"),
            ("config", "api"),
            ("analytics", "collector"),
        ],
        company: &company,
        sample: &sample,
        except: &[
            ("commonConfiguration.certificates.issuer", "the runtime asks it, see e2e/tests/inputs/issuer.rs"),
            (
                "dependencies.zookeeper.external.endpoints.[].tls",
                "kube-manager cannot use it, see testdata/zookeeper-with-tls",
            ),
        ],
        ..Stage::of(env!("CARGO_MANIFEST_DIR"), "three-nodes-without-analytics", "kubemanager")
    };
    assert!(stage.no_field_lies() > 50);
}
