//! Every field of a Cassandra has an effect or is told to have none.

use cassandra_op::Component;
use serde_json::{Value, json};
use tf_testing::{golden::situation, laws::fields::Stage};

fn sample(path: &str) -> Option<Value> {
    Some(match path {
        "serviceConfiguration.minHeapSize" => json!("1G"),
        "serviceConfiguration.maxHeapSize" => json!("2G"),
        "serviceConfiguration.startRPC" => json!(false),
        _ => return None,
    })
}

#[test]
fn no_field_lies() {
    let (resource, observed) = situation::<Component>(env!("CARGO_MANIFEST_DIR"), "three-nodes");
    let stage = Stage::<Component> {
        resource,
        observed,
        container: "cassandra",
        dependencies: &[("analytics", "collector")],
        sample: &sample,
        company: &|_| None,
        except: &[],
    };
    assert!(stage.no_field_lies() > 50);
}
