//! Every field of a Rabbitmq has an effect or is told to have none.

use rabbitmq_op::Component;
use serde_json::Value;
use tf_testing::laws::fields::Stage;

/// The server's own value of both is true.
fn sample(path: &str) -> Option<Value> {
    let options = ["serviceConfiguration.tcpListenOptions.lingerOn", "serviceConfiguration.tcpListenOptions.nodelay"];
    options.contains(&path).then_some(Value::Bool(false))
}

#[test]
fn no_field_lies() {
    let stage = Stage::<Component> {
        sample: &sample,
        except: &[("commonConfiguration.certificates.issuer", "the runtime asks it, see e2e/tests/inputs/issuer.rs")],
        ..Stage::of(env!("CARGO_MANIFEST_DIR"), "three-nodes", "rabbitmq")
    };
    assert!(stage.no_field_lies() > 40);
}
