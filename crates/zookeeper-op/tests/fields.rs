//! Every field of a Zookeeper has an effect or is told to have none.

use tf_testing::laws::fields::Stage;
use zookeeper_op::Component;

#[test]
fn no_field_lies() {
    let stage = Stage::<Component>::of(env!("CARGO_MANIFEST_DIR"), "three-nodes", "zookeeper");
    assert!(stage.no_field_lies() > 30);
}
