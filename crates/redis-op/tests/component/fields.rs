//! Every field of a Redis has an effect or is told to have none.

use redis_op::Component;
use tf_testing::invariants::fields::Stage;

#[test]
fn no_field_lies() {
    let stage = Stage::<Component> {
        except: &[("commonConfiguration.certificates.issuer", "the runtime asks it, see e2e/tests/inputs/issuer.rs")],
        ..Stage::of(env!("CARGO_MANIFEST_DIR"), "three-nodes", "redis")
    };
    assert!(stage.no_field_lies() > 30);
}
