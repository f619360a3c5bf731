//! Evicts pods from nodes where another kernel module or forwarder of the vRouter is to start, as a plan says: those that use the pod network, through the Eviction API, which respects
//! PodDisruptionBudgets. A taint keeps others away meanwhile, also those of DaemonSets.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    api::{EvictParams, ListParams},
};
use tf_api::names;
use tf_plan::{
    observed::Taint,
    placement,
    plan::{Drain, Mark},
};

use crate::{
    error::RequestError,
    marker::{self, Marker},
};

/// Evictions of one node in one pass. The next one goes on.
const AT_A_TIME: usize = 20;
/// How long pods that end, and budgets, have until the next look.
pub const PAUSE: Duration = Duration::from_secs(5);

/// What happens to a pod of a node that is drained.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// It does not use the vRouter, or ends already.
    Stays,
    /// It is evicted, and its controller makes another one elsewhere.
    Evicted,
    /// It is not evicted, with why, for people.
    Hinders(&'static str),
}

/// Drains nodes.
pub struct Drainer {
    client: Client,
}

impl Drainer {
    /// Over this client, which returns 429 at once: the Eviction API answers so where a budget does not allow an eviction.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Evicts pods from nodes. A node gets the taint when its pods could be listed. Out: what keeps pods on nodes, for people.
    ///
    /// # Errors
    /// When pods cannot be listed, or a node cannot be marked, and that may succeed a moment later; requests after it are not made.
    pub async fn drain(&self, marker: &Marker, drains: &[Drain]) -> Result<Vec<String>, RequestError> {
        let mut hindrances = Vec::new();
        for drain in drains {
            hindrances.extend(self.one(marker, drain).await?);
        }
        Ok(hindrances)
    }

    async fn one(&self, marker: &Marker, Drain { node, begins }: &Drain) -> Result<Vec<String>, RequestError> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let pods = match pods.list(&ListParams::default().fields(&format!("spec.nodeName={node}"))).await {
            Ok(pods) => pods.items,
            Err(source) => {
                let error = RequestError { doing: format!("listing the pods of node {node}"), source };
                let advice = "bind a ClusterRole that may list pods and create pods/eviction to the operator's ServiceAccount, or set moduleReload to Drained";
                return if error.is_transient() { Err(error) } else { Ok(vec![format!("{error}; {advice}")]) };
            }
        };
        if *begins {
            let taints = BTreeMap::from([(names::TAINT_DRAIN, true)]);
            marker.mark(&[Mark { node: node.clone(), taints, ..Mark::default() }]).await?;
        }
        // Those that wait for a person stand before those that a budget may let go by itself.
        let named = |pod: &Pod| match fate(pod) {
            Fate::Hinders(why) => Some(format!("pod {} on node {node} is not evicted: {why}", title(pod))),
            Fate::Stays | Fate::Evicted => None,
        };
        let mut hindrances: Vec<String> = pods.iter().filter_map(named).collect();
        for pod in pods.iter().filter(|pod| fate(pod) == Fate::Evicted).take(AT_A_TIME) {
            hindrances.extend(self.evict(pod, node).await);
        }
        Ok(hindrances)
    }

    /// Evicts a pod. Out: why it is still there.
    async fn evict(&self, pod: &Pod, node: &str) -> Option<String> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let why = match api.evict(&pod.name_any(), &EvictParams::default()).await {
            Ok(_) => {
                tracing::info!(pod = title(pod), node, "evicted a pod");
                return None;
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => return None,
            // 429: a budget does not allow it now. 500: more than one budget is for it.
            Err(kube::Error::Api(status)) => status.message,
            Err(error) => error.to_string(),
        };
        Some(format!("pod {} on node {node} is not evicted: {}", title(pod), why.trim_end_matches('.')))
    }
}

fn title(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any())
}

/// Pods in the network of their node do not use the vRouter (`kubectl drain` would evict them, too).
fn fate(pod: &Pod) -> Fate {
    let spec = pod.spec.as_ref();
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let is_in_network_of_node = spec.and_then(|spec| spec.host_network) == Some(true);
    let has_ended = matches!(phase, Some("Succeeded" | "Failed")) || pod.metadata.deletion_timestamp.is_some();
    if is_in_network_of_node || has_ended {
        return Fate::Stays;
    }
    match pod.owner_references().iter().find(|owner| owner.controller == Some(true)) {
        // The kubelet's own (static pods).
        Some(owner) if owner.kind == "Node" => Fate::Hinders("it is a static pod; remove its file from the node"),
        Some(_) if tolerates_drain(pod) => {
            Fate::Hinders("it tolerates every taint and could come back; narrow the tolerations of its controller")
        }
        Some(_) => Fate::Evicted,
        None => Fate::Hinders("it has no controller that would make another one; delete it"),
    }
}

/// Whether it could come back to the node that it is evicted from.
fn tolerates_drain(pod: &Pod) -> bool {
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    let (key, effect) = (names::TAINT_DRAIN.to_owned(), marker::EFFECT.to_owned());
    placement::tolerates(&Taint { key, effect, ..Taint::default() }, tolerations)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(kind: Option<&str>, spec: Value, phase: &str) -> Pod {
        let owners =
            kind.map(|kind| json!([{"apiVersion": "v1", "kind": kind, "name": "o", "uid": "u", "controller": true}]));
        let metadata = json!({"name": "p", "namespace": "n", "ownerReferences": owners});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}})).unwrap()
    }

    #[test]
    fn pods_that_use_the_pod_network_are_evicted() {
        let plain = || json!({"containers": []});
        assert_eq!(fate(&pod(Some("ReplicaSet"), plain(), "Running")), Fate::Evicted);
        assert_eq!(fate(&pod(Some("DaemonSet"), plain(), "Running")), Fate::Evicted);
        assert_eq!(
            fate(&pod(Some("ReplicaSet"), json!({"containers": [], "hostNetwork": true}), "Running")),
            Fate::Stays
        );
        assert_eq!(fate(&pod(Some("Job"), plain(), "Succeeded")), Fate::Stays);
        assert_eq!(fate(&pod(None, plain(), "Succeeded")), Fate::Stays);
    }

    #[test]
    fn a_pod_that_would_be_lost_or_come_back_is_named() {
        let why = |pod: &Pod| match fate(pod) {
            Fate::Hinders(why) => why,
            other => panic!("{other:?}"),
        };
        assert!(why(&pod(None, json!({"containers": []}), "Running")).starts_with("it has no controller"));
        assert!(why(&pod(Some("Node"), json!({"containers": []}), "Running")).starts_with("it is a static pod"));
        let with = |toleration: Value| {
            pod(Some("DaemonSet"), json!({"containers": [], "tolerations": [toleration]}), "Running")
        };
        for toleration in [
            json!({"operator": "Exists"}),
            json!({"key": names::TAINT_DRAIN}),
            json!({"operator": "Exists", "effect": "NoSchedule"}),
        ] {
            assert!(why(&with(toleration)).starts_with("it tolerates every taint"));
        }
        for toleration in
            [json!({"key": "other", "operator": "Exists"}), json!({"operator": "Exists", "effect": "NoExecute"})]
        {
            assert_eq!(fate(&with(toleration)), Fate::Evicted);
        }
    }
}
