//! Every field of a Rabbitmq has an effect or is told to have none.

use rabbitmq_op::Component;
use serde_json::Value;
use tf_testing::invariants::fields::Stage;

/// All of them are true by default.
fn sample(path: &str) -> Option<Value> {
    let options = ["tcpListenOptions.lingerOn", "tcpListenOptions.nodelay", "tls.distribution"];
    path.strip_prefix("serviceConfiguration.").is_some_and(|path| options.contains(&path)).then_some(Value::Bool(false))
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
