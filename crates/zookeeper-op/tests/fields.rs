//! Every field of a Zookeeper has an effect or is told to have none.

use tf_testing::{golden::situation, laws::fields::Stage};
use zookeeper_op::Component;

#[test]
fn no_field_lies() {
    let (resource, observed) = situation::<Component>(env!("CARGO_MANIFEST_DIR"), "three-nodes");
    let stage = Stage::<Component> {
        resource,
        observed,
        container: "zookeeper",
        dependencies: &[],
        sample: &|_| None,
        company: &|_| None,
        except: &[],
    };
    assert!(stage.no_field_lies() > 30);
}
