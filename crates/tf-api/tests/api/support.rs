//! Walking schemas, and typed parsing by kind name.

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use tf_api::{crd::Definition, kinds::*};

/// All definitions, made once.
pub fn definitions() -> &'static [Definition] {
    static ALL: LazyLock<Vec<Definition>> = LazyLock::new(tf_api::kinds::definitions);
    &ALL
}

/// The definition of `kind`.
pub fn definition(kind: &str) -> &'static Definition {
    definitions().iter().find(|definition| definition.info.kind == kind).unwrap()
}

/// A file or folder of `testdata/`.
pub fn testdata(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(path)
}

/// Calls `visit` with every schema below `schema` and its path: `.field`, `[]` for items, `{}` for values of a map.
pub fn walk<'a>(schema: &'a Value, path: &str, visit: &mut impl FnMut(&str, &'a Value)) {
    visit(path, schema);
    for (name, field) in properties(schema) {
        walk(field, &format!("{path}.{name}"), visit);
    }
    for (key, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(child) = schema.get(key).filter(|child| child.is_object()) {
            walk(child, &format!("{path}{suffix}"), visit);
        }
    }
}

/// Every schema of a definition with its path. The root has the empty path.
pub fn nodes(definition: &Definition) -> Vec<(String, &Value)> {
    let mut all = Vec::new();
    walk(definition.schema(), "", &mut |path, schema| all.push((path.to_owned(), schema)));
    all
}

/// The fields of an object schema.
pub fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

/// The fields an object schema requires.
pub fn required(schema: &Value) -> Vec<&str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// What the API server makes of an object without fields.
pub fn filled_in(schema: &Value) -> Value {
    let fields = properties(schema).filter_map(|(name, field)| {
        let default = field.get("default")?;
        let value = if default.is_object() { filled_in(field) } else { default.clone() };
        Some((name.clone(), value))
    });
    Value::Object(fields.collect())
}

/// `value` without what says nothing: null, false, and empty lists and objects.
pub fn meaningful(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(name, field)| (name.clone(), meaningful(field)))
                .filter(|(_, field)| {
                    !field.is_null()
                        && *field != Value::Bool(false)
                        && field.as_array().is_none_or(|list| !list.is_empty())
                        && field.as_object().is_none_or(|object| !object.is_empty())
                })
                .collect::<Map<_, _>>(),
        ),
        other => other.clone(),
    }
}

/// Parses an object as the Rust type of its kind and writes it again.
pub fn through_rust(object: &Value) -> Result<Value, String> {
    fn through<K: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, String> {
        let parsed: K = serde_json::from_value(object.clone()).map_err(|error| error.to_string())?;
        serde_json::to_value(&parsed).map_err(|error| error.to_string())
    }
    match object["kind"].as_str().unwrap_or_default() {
        "Analytics" => through::<Analytics>(object),
        "AnalyticsAlarm" => through::<AnalyticsAlarm>(object),
        "AnalyticsSnmp" => through::<AnalyticsSnmp>(object),
        "Cassandra" => through::<Cassandra>(object),
        "Config" => through::<Config>(object),
        "Control" => through::<Control>(object),
        "Kubemanager" => through::<Kubemanager>(object),
        "Manager" => through::<Manager>(object),
        "QueryEngine" => through::<QueryEngine>(object),
        "Rabbitmq" => through::<Rabbitmq>(object),
        "Redis" => through::<Redis>(object),
        "Vrouter" => through::<Vrouter>(object),
        "VrouterProfile" => through::<VrouterProfile>(object),
        "Webui" => through::<Webui>(object),
        "Zookeeper" => through::<Zookeeper>(object),
        other => Err(format!("no kind {other:?}")),
    }
}

/// Leaves of `given` that `kept` lacks or has with another value, as paths.
pub fn lost(given: &Value, kept: &Value, path: &str) -> Vec<String> {
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => given
            .iter()
            .flat_map(|(name, value)| lost(value, kept.get(name).unwrap_or(&Value::Null), &format!("{path}.{name}")))
            .collect(),
        (Value::Array(given), Value::Array(kept)) if given.len() == kept.len() => given
            .iter()
            .zip(kept)
            .enumerate()
            .flat_map(|(index, (given, kept))| lost(given, kept, &format!("{path}[{index}]")))
            .collect(),
        // A quantity may be given as a number and is kept as text.
        (Value::Number(given), Value::String(kept)) if given.to_string() == *kept => Vec::new(),
        _ if given == kept => Vec::new(),
        _ => vec![path.to_owned()],
    }
}
