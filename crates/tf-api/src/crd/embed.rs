//! The Manager's definition: its own schema with the spec of each component inside.
//!
//! The inner schemas are for people (`kubectl explain`) and catch wrong types early. They say less than the component's
//! own: no defaults, because the Manager passes on exactly what was written; no rules and nothing required, because the
//! component's definition checks the whole; unknown fields kept, so that a newer component works under an older Manager.

use serde_json::{Value, json};

use super::{Definition, definition};
use crate::kinds::{MANAGER, Manager, SERVICES};

/// Objects that the Manager's schema only names. Each is large, repeated for every component, and explained at the
/// component's own kind (`kubectl explain config.spec.dependencies`); with them the definition would outgrow the 256 KiB
/// that `kubectl apply` can keep in its annotation.
const OUTLINED: [&str; 2] = ["podOverrides", "external"];

/// The finished definition of Manager, given those of the components.
pub fn manager_definition(components: &[Definition]) -> Definition {
    let mut manager = definition::<Manager>(MANAGER);
    let services =
        &mut super::schema_of(&mut manager.object)["properties"]["spec"]["properties"]["services"]["properties"];
    // What only old manifests have is not explained: the definition stays small.
    for service in SERVICES.iter().filter(|service| !service.former) {
        let Some(component) = components.iter().find(|component| component.info == service.kind) else { continue };
        let entry = if service.list { &mut services[service.key]["items"] } else { &mut services[service.key] };
        let spec = &mut entry["properties"]["spec"];
        let description = spec["description"].take();
        *spec = passed_through(&component.schema()["properties"]["spec"]);
        spec["description"] = description;
    }
    manager
}

/// `schema` without everything that adds to, or refuses, a value of the right type.
fn passed_through(schema: &Value) -> Value {
    let mut schema = schema.clone();
    relax(&mut schema);
    schema
}

fn relax(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    // A list can be keyed only by fields that are required or have a default.
    for key in
        ["default", "required", "x-kubernetes-validations", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"]
    {
        object.remove(key);
    }
    if let Some(fields) = object.get_mut("properties").and_then(Value::as_object_mut) {
        for (_, outlined) in fields.iter_mut().filter(|(name, _)| OUTLINED.contains(&name.as_str())) {
            *outlined = json!({ "type": "object", "description": outlined["description"].take() });
            outlined["x-kubernetes-preserve-unknown-fields"] = json!(true);
        }
        object.insert("x-kubernetes-preserve-unknown-fields".into(), json!(true));
    }
    super::for_each_child(object, relax);
}
