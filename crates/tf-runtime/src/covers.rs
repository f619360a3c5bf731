//! Whether a live object still carries our field values.

use serde_json::Value;

/// Whether every field of `desired` is in `live` with the same value. The API server may have added fields of its own.
///
/// Lists must have the same length; their items are compared in order. A difference that is none for the API server, such
/// as `1` and `1000m`, only costs one apply that changes nothing.
pub fn covers(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (_, Value::Null) => true,
        (Value::Object(live), Value::Object(desired)) => desired.iter().all(|(key, wanted)| match live.get(key) {
            Some(found) => covers(found, wanted),
            None => is_nothing(wanted),
        }),
        (Value::Array(live), Value::Array(desired)) => {
            live.len() == desired.len() && live.iter().zip(desired).all(|(live, desired)| covers(live, desired))
        }
        (live, desired) => live == desired,
    }
}

/// Empty values are dropped by the API server.
pub fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(is_nothing),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Owner references are a list others may add to: ours has to be among them.
pub fn owners_covered(live: &Value, desired: &Value) -> bool {
    let empty = Vec::new();
    let live = live.as_array().unwrap_or(&empty);
    desired.as_array().unwrap_or(&empty).iter().all(|wanted| live.iter().any(|found| covers(found, wanted)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_the_api_server_added_do_not_matter() {
        assert!(covers(&json!({"a": 1, "b": {"c": 2, "d": 3}}), &json!({"b": {"c": 2}})));
    }

    #[test]
    fn changed_missing_and_added_items_do() {
        assert!(!covers(&json!({"a": 2}), &json!({"a": 1})));
        assert!(!covers(&json!({}), &json!({"a": 1})));
        assert!(!covers(&json!({"a": [1, 2]}), &json!({"a": [1]})));
        assert!(!covers(&json!({"a": [2, 1]}), &json!({"a": [1, 2]})));
    }

    #[test]
    fn what_is_empty_may_be_absent() {
        assert!(covers(&json!({}), &json!({"a": null, "b": {}, "c": []})));
        assert!(!covers(&json!({}), &json!({"a": ""})));
    }

    #[test]
    fn foreign_owners_are_tolerated() {
        let live = json!([{"uid": "other"}, {"uid": "ours", "kind": "Zookeeper"}]);
        assert!(owners_covered(&live, &json!([{"uid": "ours"}])));
        assert!(!owners_covered(&json!([{"uid": "other"}]), &json!([{"uid": "ours"}])));
    }
}
