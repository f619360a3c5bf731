//! Every field of a Webui has an effect or is told to have none.

use serde_json::{Value, json};
use tf_testing::invariants::fields::Stage;
use webui_op::Component;

fn sample(path: &str) -> Option<Value> {
    (path == "serviceConfiguration.controlInstance").then(|| json!("control2"))
}

#[test]
fn no_field_lies() {
    let stage = Stage::<Component> {
        dependencies: &[
            ("config", "api"),
            ("cassandra", "cql"),
            ("redis", "redis"),
            ("control", "dns-introspect"),
            ("analytics", "api"),
        ],
        sample: &sample,
        except: &[("commonConfiguration.certificates.issuer", "the runtime asks it, see e2e/tests/inputs/issuer.rs")],
        ..Stage::of(env!("CARGO_MANIFEST_DIR"), "three-nodes-without-analytics", "webuiweb")
    };
    assert!(stage.no_field_lies() > 40);
}
