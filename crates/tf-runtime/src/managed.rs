//! What the API server remembers that an operator applied (`metadata.managedFields`), compared with what it wants now.
//!
//! A field that is planned no more is in the live object as it was, and only this memory tells that it was ours. The format is
//! that of structured-merge-diff: `f:` a field, `k:` a list item by its keys, `v:` an item of a set, `i:` one by position, `.`
//! the element itself.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use serde_json::{Map, Value, json};

use crate::covers::is_nothing;

/// Whether `manager` applied exactly the fields of `desired`, or fewer: none that has to go. False, too, if it never applied
/// the object, for then nothing of it would go when it is planned no more.
pub fn applied_no_more_than(metadata: &ObjectMeta, manager: &str, desired: &Value) -> bool {
    applied(metadata, manager).is_some_and(|entry| {
        entry.api_version.as_deref() == desired["apiVersion"].as_str()
            && entry.fields_v1.as_ref().is_some_and(|fields| has_all(desired, &fields.0))
    })
}

/// Whether nothing is left in `live` of what `manager` applied as a whole and plans no more. Of lists and objects that the schema calls
/// atomic the memory has the name alone; what is in them was all applied by whoever applied last.
pub fn wholes_are_as_planned(metadata: &ObjectMeta, manager: &str, live: &Value, desired: &Value) -> bool {
    let fields = applied(metadata, manager).and_then(|entry| entry.fields_v1.as_ref());
    fields.is_none_or(|fields| wholes_agree(live, desired, &fields.0))
}

/// Whether `holder` wrote a field, `.spec.replicas` for example, before `manager` applied the same value: a tool that restored the object holds all of its
/// fields, and what `manager` wants now is a change of its own. Who sets another value takes the field from `manager`, and who sets it later is
/// asked.
pub fn is_older(metadata: &ObjectMeta, manager: &str, holder: &str, field: &str) -> bool {
    let Some(own) = applied(metadata, manager) else { return false };
    let mut names = field.trim_start_matches('.').split('.');
    let fields = own.fields_v1.as_ref().map(|fields| &fields.0);
    let owned = fields.and_then(|fields| names.try_fold(fields, |fields, name| fields.get(format!("f:{name}"))));
    let theirs = metadata.managed_fields.iter().flatten().filter(|entry| entry.manager.as_deref() == Some(holder));
    let times: Vec<_> = theirs.map(|entry| entry.time.as_ref().map(|time| time.0)).collect();
    let own = own.time.as_ref().map(|time| time.0);
    owned.is_some() && !times.is_empty() && times.iter().all(|time| time.is_some() && *time < own)
}

fn applied<'a>(metadata: &'a ObjectMeta, manager: &str) -> Option<&'a ManagedFieldsEntry> {
    metadata.managed_fields.iter().flatten().find(|entry| {
        entry.manager.as_deref() == Some(manager)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
    })
}

fn wholes_agree(live: &Value, desired: &Value, fields: &Value) -> bool {
    fields.as_object().into_iter().flatten().all(|(path, below)| {
        let found = match path.split_once(':') {
            Some(("f", name)) => live.get(name).zip(desired.get(name)),
            Some(("k", keys)) => item(live, keys).zip(item(desired, keys)),
            _ => None,
        };
        found.is_none_or(|(live, desired)| {
            let is_whole = below.as_object().is_some_and(Map::is_empty);
            // An object without anything in it may be one that others put things in.
            let is_shared = desired.as_object().is_some_and(Map::is_empty);
            if is_whole { is_shared || has_no_more(live, desired) } else { wholes_agree(live, desired, below) }
        })
    })
}

/// Whether `live` has nothing that is not in `desired`, but for what the API server sets.
fn has_no_more(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => live.iter().all(|(name, found)| match desired.get(name) {
            Some(desired) => has_no_more(found, desired),
            None => is_nothing(found) || is_default(name, found),
        }),
        (Value::Array(live), Value::Array(desired)) => {
            live.iter().zip(desired).all(|(live, desired)| has_no_more(live, desired))
        }
        _ => true,
    }
}

/// Whether the API server sets this by itself inside of what it otherwise replaces as a whole: in references to fields, tokens of projected
/// volumes, ports of network policies and templates of claims (Kubernetes' `zz_generated.defaults.go` of `core/v1`, `apps/v1` and
/// `networking/v1`). What is not listed costs one apply that changes nothing.
fn is_default(name: &str, found: &Value) -> bool {
    match name {
        "apiVersion" => found == "v1",
        "expirationSeconds" => found == 3600,
        "kind" => found == "PersistentVolumeClaim",
        "protocol" => found == "TCP",
        "status" => *found == json!({"phase": "Pending"}),
        "volumeMode" => found == "Filesystem",
        _ => false,
    }
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
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::FieldsV1;

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
    fn a_field_that_another_manager_wrote_before_the_same_value_was_applied_is_the_appliers() {
        let entry = |manager: &str, operation: &str, second: u32| {
            json!({
                "manager": manager, "operation": operation, "time": format!("2026-01-01T00:00:{second:02}Z"),
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:common": {"f:level": {}}}},
            })
        };
        let is_older = |entries: Value, field: &str| {
            let metadata: ObjectMeta = serde_json::from_value(json!({ "managedFields": entries })).unwrap();
            is_older(&metadata, "ours", "velero", field)
        };
        let (ours, level) = (entry("ours", "Apply", 20), ".spec.common.level");
        assert!(is_older(json!([entry("velero", "Update", 10), ours]), level));
        assert!(!is_older(json!([entry("velero", "Update", 20), ours]), level), "in the same second");
        assert!(!is_older(json!([entry("velero", "Update", 30), ours]), level));
        assert!(!is_older(json!([entry("velero", "Update", 10), entry("velero", "Apply", 30), ours]), level));
        assert!(!is_older(json!([entry("velero", "Update", 10), ours]), ".spec.replicas"), "not applied by us");
        assert!(!is_older(json!([entry("velero", "Update", 10), entry("ours", "Update", 20)]), level));
        assert!(!is_older(json!([ours]), level));
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
    fn what_goes_from_a_list_that_is_replaced_as_a_whole_is_found() {
        let metadata = applied(json!({"f:spec": {
            "f:containers": {},
            "f:labels": {},
            "f:volumes": {r#"k:{"name":"a"}"#: {".": {}, "f:name": {}, "f:projected": {"f:sources": {}}}},
        }}));
        let desired = json!({"spec": {
            "containers": [{"name": "agent"}],
            "labels": {},
            "volumes": [{"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
        }});
        let agree = |live: &Value| wholes_are_as_planned(&metadata, "ours", live, &desired);
        let mut live = desired.clone();
        assert!(agree(&live));
        live["spec"]["labels"] = json!({"theirs": "1"});
        live["spec"]["more"] = json!([{"theirs": "1"}]);
        live["spec"]["volumes"][0]["projected"]["defaultMode"] = json!(420);
        live["spec"]["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"] = json!(3600);
        assert!(agree(&live), "nothing that we applied as a whole, or by the API server");
        live["spec"]["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"] = json!(600);
        assert!(!agree(&live));
        live = desired.clone();
        live["spec"]["containers"][0]["image"] = json!("former");
        assert!(!agree(&live));
    }

    #[test]
    fn an_object_that_we_never_applied_or_under_another_version_has_to_be() {
        assert!(!applied_no_more_than(&ObjectMeta::default(), "ours", &desired()));
        let mut other = desired();
        other["apiVersion"] = json!("v2");
        assert!(!applied_no_more_than(&applied(fields()), "ours", &other));
    }
}
