//! Labels, annotations and taints that Nodes get and lose, as a plan says.

use std::{collections::BTreeSet, sync::Mutex, time::Duration};

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tf_plan::plan::Mark;
use tokio::time::Instant;

use crate::{error::RequestError, lock::lock};

/// The effect of a taint.
pub const EFFECT: &str = "NoSchedule";
/// Nodes of one pass. The next one goes on.
const AT_A_TIME: usize = 100;

/// How long a watch may take to deliver what was written: a plan that asks for the same again meanwhile has not seen it.
const SEEN: Duration = Duration::from_secs(10);

/// Marks nodes.
pub struct Marker {
    client: Client,
    written: Mutex<Vec<(Mark, Instant)>>,
}

impl Marker {
    /// Over this client.
    pub fn new(client: Client) -> Self {
        Self { client, written: Mutex::default() }
    }

    /// Marks these nodes. A node that is gone is none. Whether that was all.
    ///
    /// # Errors
    /// When a request fails; those after it are not made.
    pub async fn mark(&self, marks: &[Mark]) -> Result<bool, RequestError> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        lock(&self.written).retain(|(_, when)| when.elapsed() < SEEN);
        for mark in marks.iter().take(AT_A_TIME) {
            if lock(&self.written).iter().any(|(written, _)| written == mark) {
                continue;
            }
            match one(&nodes, mark).await {
                Ok(()) => {
                    tracing::info!(?mark, "marked a node");
                    let mut written = lock(&self.written);
                    written.retain(|(former, _)| former.node != mark.node || keys(former).is_disjoint(&keys(mark)));
                    written.push((mark.clone(), Instant::now()));
                }
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(source) => return Err(RequestError { doing: format!("marking node {}", mark.node), source }),
            }
        }
        Ok(marks.len() <= AT_A_TIME)
    }
}

/// What of a node a mark is about.
fn keys(mark: &Mark) -> BTreeSet<&'static str> {
    mark.labels.keys().chain(mark.annotations.keys()).chain(mark.taints.keys()).copied().collect()
}

/// Taints are one list, which others write, too: it is written as it was read, or not at all.
async fn one(nodes: &Api<Node>, Mark { node, labels, annotations, taints: wanted }: &Mark) -> Result<(), kube::Error> {
    let parameters = PatchParams::default();
    let body = json!({"metadata": {"labels": labels, "annotations": annotations}});
    let found = nodes.patch(node, &parameters, &Patch::Merge(&body)).await?;
    let mut taints = found.spec.and_then(|spec| spec.taints).unwrap_or_default();
    let is = |key: &'static str| move |taint: &Taint| taint.key == key && taint.effect == EFFECT;
    let differs: Vec<_> = wanted.iter().filter(|(key, wanted)| taints.iter().any(is(key)) != **wanted).collect();
    if differs.is_empty() {
        return Ok(());
    }
    for (key, wanted) in differs {
        if *wanted {
            taints.push(Taint { key: (*key).to_owned(), effect: EFFECT.to_owned(), ..Taint::default() });
        } else {
            taints.retain(|taint| !is(key)(taint));
        }
    }
    let body = json!({"metadata": {"resourceVersion": found.metadata.resource_version}, "spec": {"taints": taints}});
    nodes.patch(node, &parameters, &Patch::Merge(&body)).await.map(drop)
}
