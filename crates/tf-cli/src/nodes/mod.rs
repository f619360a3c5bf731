//! What every node of a vRouter has, and what stands in the way there. In: pods as they were read. Out: rows, for programs as they are, for people as
//! [text()]. Nothing is read here.
//!
//! A pod of the vRouter reports what its node is before anything else starts (init container `preflight`), so the facts are as old as the pod, or as the
//! node's last boot.

mod text;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use serde::Serialize;
use tf_agent_api::host::{PREFLIGHT, Summary};
use tf_api::names;
use tf_plan::{
    build::identity,
    observed::{self, only_node},
};

pub use text::text;

/// A node with a pod of a vRouter, or with one to come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Name of the node.
    pub node: String,
    /// Namespace of the Vrouter.
    pub namespace: String,
    /// Name of the Vrouter, or its beginning and a hash where that does not fit into a label.
    pub vrouter: String,
    /// Its group, where it has groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Name of the pod.
    pub pod: String,
    /// Whether the agent serves.
    pub ready: bool,
    /// Why it does not, where Kubernetes has a cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// When the node was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<Timestamp>,
    /// What was seen. None: no pod has reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
}

impl Row {
    /// Of a pod of a vRouter. None for one that has no node and is for none, and for one that removes the vRouter from its node.
    pub fn of(pod: &v1::Pod) -> Option<Self> {
        let label = |name: &str| pod.metadata.labels.as_ref()?.get(name).cloned();
        if pod.metadata.labels.as_ref().is_some_and(identity::is_removal) {
            return None;
        }
        let spec = pod.spec.as_ref()?;
        let node = spec.node_name.clone().or_else(|| only_node(spec).map(str::to_owned))?;
        let seen = observed::Pod::from(pod.clone());
        let statuses = pod.status.iter().flat_map(|status| status.init_container_statuses.iter().flatten());
        // One that was started again, after a boot, has its former end there until the next one.
        let ended = statuses.filter(|status| status.name == PREFLIGHT).find_map(|status| {
            let states = [status.state.as_ref(), status.last_state.as_ref()];
            states.into_iter().flatten().find_map(|state| state.terminated.as_ref())
        });
        Some(Self {
            node,
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            vrouter: label(names::LABEL_INSTANCE).unwrap_or_default(),
            group: label(identity::LABEL_GROUP),
            pod: seen.name,
            ready: seen.ready && !seen.terminating,
            cause: seen.trouble,
            seen: ended.and_then(|ended| Some(ended.finished_at.as_ref()?.0)),
            // The kubelet may have cut it.
            summary: ended.and_then(|ended| serde_json::from_str(ended.message.as_deref()?).ok()),
        })
    }

    /// Whether its agent serves and nothing stands in the way.
    pub fn is_well(&self) -> bool {
        let mut findings = self.summary.iter().flat_map(|summary| &summary.findings);
        self.ready && !findings.any(|finding| finding.blocks)
    }
}

/// A row for each node, sorted: of several pods on it, one of which goes, that of the newest.
pub fn rows(pods: &[v1::Pod]) -> Vec<Row> {
    let mut newest: Vec<&v1::Pod> = pods.iter().collect();
    newest.sort_by_key(|pod| {
        (pod.metadata.deletion_timestamp.is_none(), pod.metadata.creation_timestamp.as_ref().map(|time| time.0))
    });
    let rows = newest.into_iter().filter_map(Row::of);
    let by_place = rows.map(|row| ((row.namespace.clone(), row.node.clone(), row.vrouter.clone()), row));
    by_place.collect::<BTreeMap<_, _>>().into_values().collect()
}
