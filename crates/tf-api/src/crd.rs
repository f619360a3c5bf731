//! Custom resource definitions as they are installed: the derived schema, finished in one place.
//!
//! Finishing makes the schema what the API server and people expect: `null` means "not set" (so that defaults apply),
//! nothing is required that the Go tf-operator did not require, integral numbers are integers, lists that several
//! managers write are keyed, and every kind has the same columns, category and status default.

mod embed;

use kube::CustomResourceExt;
use serde_json::{Map, Value, json};

pub use embed::manager_definition;

use crate::{VERSION, kind::KindInfo, names, schema::rule};

/// A finished definition.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The kind it defines.
    pub info: KindInfo,
    /// The `CustomResourceDefinition` object.
    pub object: Value,
}

impl Definition {
    /// The schema of an object of the kind.
    pub fn schema(&self) -> &Value {
        &self.object["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    }
}

fn schema_of(crd: &mut Value) -> &mut Value {
    &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

/// The finished definition of kind `K`, except Manager: [`manager_definition`].
pub fn definition<K: CustomResourceExt>(info: KindInfo) -> Definition {
    // A derived CRD is plain data; the only way for this to fail is a bug in the derive, which the tests would show.
    let mut object = serde_json::to_value(K::crd()).unwrap_or_default();
    finish(&mut object, info);
    Definition { info, object }
}

fn finish(crd: &mut Value, info: KindInfo) {
    if let Some(metadata) = crd["metadata"].as_object_mut() {
        metadata
            .insert("labels".into(), json!({ names::LABEL_PART_OF: names::PART_OF, names::LABEL_CONTRACT: VERSION }));
    }
    let names_block = &mut crd["spec"]["names"];
    names_block["listKind"] = json!(format!("{}List", info.kind));
    names_block["categories"] = json!(["tf"]);
    let version = &mut crd["spec"]["versions"][0];
    version["additionalPrinterColumns"] = columns(info);
    if info.scales {
        version["subresources"]["scale"] = json!({
            "specReplicasPath": ".spec.commonConfiguration.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        });
    }
    let schema = schema_of(crd);
    normalise(schema);
    if let Some(root) = schema.as_object_mut() {
        root.remove("required");
        root.remove("title");
    }
    let longest = info.longest_name();
    schema["x-kubernetes-validations"] = json!([rule(
        &format!("self.metadata.name.size() <= {longest}"),
        &format!(
            "metadata.name must have at most {longest} characters: names and labels of other objects are made of it"
        ),
    )]);
    schema["properties"]["spec"]["default"] = json!({});
    // Present on every object, so that transition rules see both sides.
    if let Some(common) = schema.pointer_mut("/properties/spec/properties/commonConfiguration") {
        common["default"] = json!({});
    }
    let status = &mut schema["properties"]["status"];
    status["default"] = json!({ "observedGeneration": -1 });
    for (list, key) in [("conditions", "type"), ("daemons", "name"), ("endpoints", "name"), ("members", "id")] {
        let field = &mut status["properties"][list];
        field["x-kubernetes-list-type"] = json!("map");
        field["x-kubernetes-list-map-keys"] = json!([key]);
    }
    // As little as the Go tf-operator required, so that the status it left behind does not block a change of the spec.
    status["properties"]["conditions"]["items"]["required"] = json!(["type", "status"]);
    // Only the observed generation has a default in status: a reader must be able to tell "not reported".
    for field in status["properties"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        if let Some(field) = field.as_object_mut() {
            field.remove("default");
        }
    }
}

fn columns(info: KindInfo) -> Value {
    let condition = |kind: &str, field: &str| format!(".status.conditions[?(@.type=='{kind}')].{field}");
    let mut columns = vec![
        json!({"name": "Ready", "type": "string", "jsonPath": condition("Ready", "status"),
               "description": "Whether the current generation is rolled out and served."}),
        json!({"name": "Reason", "type": "string", "jsonPath": condition("Ready", "reason"),
               "description": "Why the resource is, or is not, Ready."}),
        json!({"name": "Members", "type": "string", "jsonPath": ".status.membersReady",
               "description": "Ready and wanted members."}),
        json!({"name": "Version", "type": "string", "jsonPath": ".status.version.deployed",
               "description": "Release that all members run."}),
    ];
    if info.endpoint_column {
        columns.push(json!({"name": "Endpoint", "type": "string", "jsonPath": ".status.endpoint", "priority": 1,
               "description": "Address of the Service in front of the members."}));
    }
    columns.push(json!({"name": "Message", "type": "string", "priority": 1, "jsonPath": condition("Ready", "message"),
               "description": "What Ready waits for."}));
    columns.push(json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}));
    Value::Array(columns)
}

/// Brings a derived schema to the form the API server stores, recursively.
fn normalise(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    object.remove("nullable");
    if let Some(text) = object.get("description").and_then(Value::as_str) {
        let text = shorten(text);
        object.insert("description".into(), json!(text));
    }
    if let Some(choices) = object.get_mut("enum").and_then(Value::as_array_mut) {
        choices.retain(|choice| !choice.is_null());
    }
    // The API server checks no format of integers, and a stored number that does not fit makes an object unreadable.
    let range = match object.get("format").and_then(Value::as_str) {
        Some("int32") => Some((i64::from(i32::MIN), i64::from(i32::MAX))),
        Some("uint16") => Some((0, i64::from(u16::MAX))),
        Some("uint32") => Some((0, i64::from(u32::MAX))),
        _ => None,
    };
    if let Some((least, most)) = range {
        object.entry("minimum").or_insert_with(|| json!(least));
        object.entry("maximum").or_insert_with(|| json!(most));
    }
    // Formats the API server does not know would be warned about on every apply; the range says the same.
    let known_format = object
        .get("format")
        .and_then(Value::as_str)
        .is_none_or(|format| matches!(format, "int32" | "int64" | "float" | "double" | "date-time" | "byte"));
    if !known_format {
        object.remove("format");
    }
    for bound in ["minimum", "maximum"] {
        if let Some(number) = object.get(bound).and_then(Value::as_f64)
            && number.fract() == 0.0
        {
            object.insert(bound.into(), json!(number as i64));
        }
    }
    if object.get("default").is_some_and(is_empty_default) {
        object.remove("default");
    }
    for_each_child(object, normalise);
    default_of_parent(object);
}

/// Calls `change` on the schemas one level below `schema`.
fn for_each_child(schema: &mut Map<String, Value>, change: fn(&mut Value)) {
    for (key, value) in schema {
        match key.as_str() {
            "properties" => value.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(change),
            "items" | "additionalProperties" => change(value),
            _ => {}
        }
    }
}

/// Longest description, in bytes. Those of Kubernetes' own types are much longer and would be repeated for every kind.
const DESCRIPTION: usize = 300;

/// `text` on one line, and only the first sentences if it is long.
fn shorten(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() > DESCRIPTION {
        let end = line.match_indices(". ").map(|(at, _)| at + 1).take_while(|end| *end <= DESCRIPTION).last();
        line.truncate(end.unwrap_or(line.len()));
    }
    line
}

/// Empty lists, empty strings and `false` say nothing that absence does not say. `null` defaults are never wanted.
fn is_empty_default(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(flag) => !flag,
        Value::Object(_) | Value::Number(_) => false,
    }
}

/// An object default is `{}`: the API server then fills in the defaults of the fields, so each stands in one place. An
/// object with rules needs them written out, because the API server checks a default before it fills anything in. One whose fields
/// have none needs it, too: a server-side apply that takes the last field of an object away leaves null, which the API server
/// drops where there is a default and refuses elsewhere.
fn default_of_parent(object: &mut Map<String, Value>) {
    if !object.get("default").is_some_and(Value::is_object) {
        return;
    }
    let fields = defaults_of_fields(object);
    if !object.contains_key("properties") {
        object.remove("default");
    } else if object.contains_key("x-kubernetes-validations") {
        object.insert("default".into(), Value::Object(fields));
    } else {
        object.insert("default".into(), json!({}));
    }
}

/// What the API server fills in for an empty object.
fn defaults_of_fields(object: &Map<String, Value>) -> Map<String, Value> {
    let fields = object.get("properties").and_then(Value::as_object).into_iter().flatten();
    fields
        .filter_map(|(name, field)| {
            let field = field.as_object()?;
            let default = match field.get("default")? {
                Value::Object(_) => Value::Object(defaults_of_fields(field)),
                other => other.clone(),
            };
            Some((name.clone(), default))
        })
        .collect()
}
