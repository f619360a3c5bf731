//! Nodes, without what makes them large.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Node, NodeAddress, Taint},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Resource;
use serde::{Deserialize, Deserializer};
use tf_api::names;
use tf_plan::observed;

use crate::object::Key;

/// A Node of which only what is used was parsed: a real one lists up to 50 images and who manages each field, tens of KiB that
/// would be parsed for every page of a list, and for every heartbeat.
#[derive(Clone, Debug, Resource, Deserialize)]
#[resource(inherit = Node)]
pub struct LeanNode {
    #[serde(deserialize_with = "lean")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    taints: Vec<Taint>,
    unschedulable: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(rename = "nodeInfo")]
    info: Info,
    addresses: Vec<NodeAddress>,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Info {
    #[serde(rename = "bootID")]
    boot: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

/// The metadata that is used here or by kube's watcher.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Metadata {
    name: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Annotations,
}

/// Those that are used; a node has large ones of others.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "tf.tungsten.io/agent-served-boot", default)]
    served_boot: Option<String>,
}

fn lean<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let Metadata { name, resource_version, labels, annotations } = Metadata::deserialize(deserializer)?;
    let served = annotations.served_boot.map(|boot| (names::ANNOTATION_SERVED_BOOT.to_owned(), boot));
    let annotations = served.map(|served| BTreeMap::from([served]));
    Ok(ObjectMeta { name, resource_version, labels, annotations, ..ObjectMeta::default() })
}

/// Keeps name, labels, taints, addresses and boots of a node, and whether it was given up.
pub fn node(node: LeanNode) -> (Key, observed::Node) {
    let key = Key::of(&node.metadata);
    let conditions = node.status.conditions.iter().map(|it| (it.kind.as_str(), it.status.as_str()));
    let unreachable = observed::is_unreachable(conditions);
    let labels = node.metadata.labels.unwrap_or_default();
    let taints = observed::taints(node.spec.taints);
    let kept = observed::Node {
        name: key.name.clone(),
        labels,
        taints,
        unreachable,
        cordoned: node.spec.unschedulable,
        boot: node.status.info.boot,
        served_boot: node.metadata.annotations.unwrap_or_default().remove(names::ANNOTATION_SERVED_BOOT),
        ..observed::Node::default()
    };
    (key, kept.with_addresses(observed::internal(node.status.addresses)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_a_node_name_labels_and_internal_address_are_kept() {
        let whole = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": "a", "resourceVersion": "7", "labels": {"role": "b"},
                "annotations": {"large": "text", names::ANNOTATION_SERVED_BOOT: "5f0b"},
                "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {}}}],
            },
            "spec": {"podCIDR": "10.0.0.0/24", "taints": [
                {"key": "dedicated", "value": "tf", "effect": "NoSchedule"}, {"key": "soft", "effect": "PreferNoSchedule"},
                {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
            ]},
            "status": {
                "addresses": [{"type": "Hostname", "address": "a"}, {"type": "InternalIP", "address": "10.1.0.1"}],
                "images": [{"names": ["one", "two"], "sizeBytes": 5}],
                "nodeInfo": {"bootID": "5f0c", "kernelVersion": "6.1"},
            },
        });
        let parsed: LeanNode = serde_json::from_value(whole).unwrap();
        assert_eq!(parsed.meta().resource_version.as_deref(), Some("7"), "the watch goes on from it");
        assert_eq!(parsed.meta().managed_fields, None);
        let (key, kept) = node(parsed);
        assert_eq!(key, Key::new("", "a"));
        assert_eq!(kept.address.as_deref(), Some("10.1.0.1"));
        let taints = kept.taints.iter().map(|taint| (taint.key.as_str(), taint.value.as_str(), taint.effect.as_str()));
        assert_eq!(taints.collect::<Vec<_>>(), [("dedicated", "tf", "NoSchedule")]);
        assert_eq!(kept.labels, BTreeMap::from([("role".into(), "b".into())]));
        assert_eq!((kept.boot.as_deref(), kept.served_boot.as_deref()), (Some("5f0c"), Some("5f0b")));
    }

    #[test]
    fn a_node_that_has_not_reported_yet_has_no_address() {
        let parsed: LeanNode = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
        assert_eq!(node(parsed).1.address, None);
    }

    #[test]
    fn a_node_is_unreachable_whose_kubelet_is_not_heard_and_not_one_that_says_it_is_not_ready() {
        for (status, unreachable) in [("True", false), ("False", false), ("Unknown", true)] {
            let conditions =
                json!([{"type": "DiskPressure", "status": "Unknown"}, {"type": "Ready", "status": status}]);
            let whole = json!({"metadata": {"name": "a"}, "status": {"conditions": conditions}});
            assert_eq!(node(serde_json::from_value(whole).unwrap()).1.unreachable, unreachable, "{status}");
        }
    }
}
