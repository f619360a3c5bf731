//! Fields that the API server dropped from a resource: `kubectl apply` keeps what it was given in an annotation.

use serde_json::Value;
use tf_api::{Managed, fields};

/// Fields of the spec as it was applied that its kind does not have, each with its path and what to write instead.
pub fn pruned<Cr: Managed>(cr: &Cr) -> Vec<String> {
    let annotations = cr.meta().annotations.as_ref();
    let Some(text) = annotations.and_then(|all| all.get(fields::LAST_APPLIED)) else { return Vec::new() };
    let written: Value = serde_json::from_str(text).unwrap_or_default();
    let kept = serde_json::to_value(cr).unwrap_or_default();
    fields::pruned(Cr::INFO, &written["spec"], &kept["spec"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tf_api::Zookeeper;

    use super::*;

    fn zookeeper(applied: Option<&str>) -> Zookeeper {
        let annotations = applied.map(|text| json!({ fields::LAST_APPLIED: text })).unwrap_or_default();
        let object = json!({
            "apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Zookeeper",
            "metadata": {"name": "a", "annotations": annotations},
            "spec": {"serviceConfiguration": {"clientPort": 2281}},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn what_was_applied_and_is_not_there_is_named_and_what_cannot_be_read_is_not() {
        let applied = r#"{"spec":{"serviceConfiguration":{"clientPort":2281,"clientPrt":1}}}"#;
        assert_eq!(
            pruned(&zookeeper(Some(applied))),
            ["spec.serviceConfiguration.clientPrt: Zookeeper has no such field; did you mean clientPort?"]
        );
        for nothing in [None, Some("{}"), Some("{"), Some(""), Some("[]")] {
            assert!(pruned(&zookeeper(nothing)).is_empty(), "{nothing:?}");
        }
    }
}
