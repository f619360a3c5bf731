//! Every field of a Cassandra has an effect or is told to have none.

use cassandra_op::Component;
use serde_json::{Value, json};
use tf_testing::invariants::fields::Stage;

fn sample(path: &str) -> Option<Value> {
    Some(match path {
        "serviceConfiguration.minHeapSize" => json!("1G"),
        "serviceConfiguration.maxHeapSize" => json!("2G"),
        "serviceConfiguration.authentication" => json!("Password"),
        "serviceConfiguration.startRPC" => json!(false),
        "serviceConfiguration.restoreFrom" => json!({"name": "configdb1", "backup": "first"}),
        _ => return None,
    })
}

fn company(path: &str) -> Option<Value> {
    let backup = json!({"serviceConfiguration": {"backup": {"hostPath": {"path": "/backups"}}}});
    (path == "serviceConfiguration.restoreFrom").then_some(backup)
}

#[test]
fn no_field_lies() {
    let stage = Stage::<Component> {
        dependencies: &[("analytics", "collector")],
        except: &[
            ("commonConfiguration.certificates.issuer", "the runtime asks it, see e2e/tests/inputs/issuer.rs"),
            ("serviceConfiguration.automaticRepair", "members that run are asked for it, see rolling.rs"),
        ],
        sample: &sample,
        company: &company,
        ..Stage::of(env!("CARGO_MANIFEST_DIR"), "three-nodes", "cassandra")
    };
    assert!(stage.no_field_lies() > 50);
}
