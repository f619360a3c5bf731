//! Every field of a Zookeeper has an effect or is told to have none.

use serde_json::{Value, json};
use tf_testing::invariants::fields::Stage;
use zookeeper_op::Component;

/// What concerns clients that speak TLS needs a port for them.
fn company(path: &str) -> Option<Value> {
    let is_of_clients = path.ends_with(".tls.plainClients") || path.ends_with(".tls.clientAuthentication");
    is_of_clients.then(|| json!({"serviceConfiguration": {"tls": {"clientPort": 2281}}}))
}

#[test]
fn no_field_lies() {
    let stage = Stage::<Component> {
        company: &company,
        except: &[("commonConfiguration.certificates.issuer", "the runtime asks it, see e2e/tests/inputs/issuer.rs")],
        ..Stage::of(env!("CARGO_MANIFEST_DIR"), "three-nodes", "zookeeper")
    };
    assert!(stage.no_field_lies() > 30);
}
