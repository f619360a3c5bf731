//! Every field of a Manager has an effect or is told to have none.

#![expect(clippy::unwrap_used, reason = "a spec that does not parse is a failing test")]

use manager_op::Component;
use serde_json::{Value, json};
use tf_api::SERVICES;
use tf_testing::invariants::fields::Stage;

/// A field of a component's own spec, which is passed on as it is, whatever it says.
fn sample(path: &str) -> Option<Value> {
    let (_, last) = path.strip_prefix("services.")?.rsplit_once('.')?;
    (last == "spec").then(|| json!({"someNewField": {"kept": true}}))
}

fn check(services: &Value) -> usize {
    // Without a name of its own each is the resource that another key lists.
    let why = "it would be the resource of spec.services.zookeeper or kubemanager";
    let except = [
        ("services.kubemanagers.[].metadata.labels", why),
        ("services.kubemanagers.[].spec", why),
        ("services.zookeepers.[].metadata.labels", why),
        ("services.zookeepers.[].spec", why),
    ];
    let mut stage = Stage::<Component> {
        sample: &sample,
        except: &except,
        ..Stage::of(env!("CARGO_MANIFEST_DIR"), "no-component", "none")
    };
    stage.resource.spec = serde_json::from_value(json!({ "services": services })).unwrap();
    stage.no_field_lies()
}

#[test]
fn no_field_lies_with_every_component() {
    let entry = |list: bool| if list { json!([{}]) } else { json!({}) };
    // Two keys are of one kind, and their entries one resource.
    let services = SERVICES.iter().filter(|service| !service.former);
    let services = services.map(|service| (service.key.to_owned(), entry(service.list))).collect();
    assert!(check(&Value::Object(services)) > 60);
}

/// Settings that no component takes over are told.
#[test]
fn no_field_lies_with_data_stores_alone() {
    assert!(check(&json!({"cassandras": [{}], "rabbitmq": {}, "zookeeper": {}})) > 60);
}

#[test]
fn no_field_lies_with_nothing_but_the_data_plane() {
    assert!(check(&json!({"vrouters": [{}]})) > 60);
}
