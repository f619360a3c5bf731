//! What the API server remembers that an operator applied (`metadata.managedFields`), compared with what it wants now.
//!
//! A field that is planned no more is in the live object as it was, and only this memory tells that it was ours. The format is
//! that of structured-merge-diff: `f:` a field, `k:` a list item by its keys, `v:` an item of a set, `i:` one by position, `.`
//! the element itself.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use serde_json::Value;

/// Whether `manager` applied exactly the fields of `desired`, or fewer: none that has to go. False, too, if it never applied
/// the object, for then nothing of it would go when it is planned no more.
pub fn applied_no_more_than(metadata: &ObjectMeta, manager: &str, desired: &Value) -> bool {
    let ours = |entry: &&ManagedFieldsEntry| {
        entry.manager.as_deref() == Some(manager)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
    };
    let entry = metadata.managed_fields.iter().flatten().find(ours);
    entry.is_some_and(|entry| {
        entry.api_version.as_deref() == desired["apiVersion"].as_str()
            && entry.fields_v1.as_ref().is_some_and(|fields| has_all(desired, &fields.0))
    })
}

/// Whether everything that `fields` names is in `value`.
fn has_all(value: &Value, fields: &Value) -> bool {
    fields.as_object().into_iter().flatten().all(|(path, below)| match path.split_once(':') {
        None => true,
        Some(("f", name)) => value.get(name).is_some_and(|found| has_all(found, below)),
        Some(("k", keys)) => item(value, keys).is_some_and(|found| has_all(found, below)),
        Some(("v", wanted)) => serde_json::from_str::<Value>(wanted)
            .is_ok_and(|wanted| value.as_array().is_some_and(|items| items.contains(&wanted))),
        Some(("i", index)) => index.parse::<usize>().is_ok_and(|index| value.get(index).is_some()),
        Some(_) => false,
    })
}

/// The item with these keys. A key that we leave out has its default there.
fn item<'a>(list: &'a Value, keys: &str) -> Option<&'a Value> {
    let keys: Value = serde_json::from_str(keys).ok()?;
    let keys = keys.as_object()?;
    let matches = |item: &&Value| keys.iter().all(|(key, wanted)| item.get(key).is_none_or(|found| found == wanted));
    list.as_array()?.iter().find(matches)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::FieldsV1;
    use serde_json::json;

    use super::*;

    fn applied(fields: Value) -> ObjectMeta {
        let entry = |manager: &str, operation: &str, subresource: Option<&str>, fields: Value| ManagedFieldsEntry {
            manager: Some(manager.into()),
            operation: Some(operation.into()),
            api_version: Some("v1".into()),
            subresource: subresource.map(str::to_owned),
            fields_v1: Some(FieldsV1(fields)),
            ..ManagedFieldsEntry::default()
        };
        let foreign = json!({"f:spec": {"f:theirs": {}}});
        let entries = vec![
            entry("somebody", "Apply", None, foreign.clone()),
            entry("ours", "Update", None, foreign.clone()),
            entry("ours", "Apply", Some("status"), foreign),
            entry("ours", "Apply", None, fields),
        ];
        ObjectMeta { managed_fields: Some(entries), ..ObjectMeta::default() }
    }

    fn desired() -> Value {
        json!({
            "apiVersion": "v1",
            "metadata": {"labels": {"app": "a"}, "finalizers": ["x/y"], "ownerReferences": [{"uid": "1", "name": "a"}]},
            "spec": {"ports": [{"port": 80, "name": "web"}], "selector": {}, "list": [1, 2]},
        })
    }

    fn fields() -> Value {
        json!({
            "f:metadata": {
                "f:labels": {".": {}, "f:app": {}},
                "f:finalizers": {".": {}, "v:\"x/y\"": {}},
                "f:ownerReferences": {r#"k:{"uid":"1"}"#: {}},
            },
            "f:spec": {
                "f:ports": {r#"k:{"port":80,"protocol":"TCP"}"#: {".": {}, "f:name": {}, "f:port": {}}},
                "f:selector": {},
                "f:list": {"i:1": {}},
            },
        })
    }

    #[test]
    fn what_is_still_wanted_is_no_surplus() {
        assert!(applied_no_more_than(&applied(fields()), "ours", &desired()));
    }

    #[test]
    fn each_kind_of_thing_that_is_wanted_no_more_is_found() {
        let removals: [fn(&mut Value); 6] = [
            |desired| desired["metadata"]["labels"] = json!({}),
            |desired| desired["metadata"]["finalizers"] = json!([]),
            |desired| desired["metadata"]["ownerReferences"] = json!([{"uid": "2", "name": "a"}]),
            |desired| desired["spec"]["ports"] = json!([{"port": 81, "name": "web"}]),
            |desired| desired["spec"]["ports"] = json!([{"port": 80}]),
            |desired| desired["spec"]["list"] = json!([1]),
        ];
        for remove in removals {
            let mut desired = desired();
            remove(&mut desired);
            assert!(!applied_no_more_than(&applied(fields()), "ours", &desired), "{desired}");
        }
    }

    #[test]
    fn an_object_that_we_never_applied_or_under_another_version_has_to_be() {
        assert!(!applied_no_more_than(&ObjectMeta::default(), "ours", &desired()));
        let mut other = desired();
        other["apiVersion"] = json!("v2");
        assert!(!applied_no_more_than(&applied(fields()), "ours", &other));
    }
}
