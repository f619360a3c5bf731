//! Labels, annotations and taints that Nodes get and lose, as a plan says.

use std::{collections::HashMap, sync::Mutex, time::Duration};

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
const EFFECT: &str = "NoSchedule";
/// Nodes of one pass. The next one goes on.
const AT_A_TIME: usize = 100;

/// How long a watch may take to deliver what was written: a plan that asks for the same again meanwhile has not seen it.
const SEEN: Duration = Duration::from_secs(10);

/// Marks nodes.
pub struct Marker {
    client: Client,
    written: Mutex<HashMap<String, (Mark, Instant)>>,
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
        lock(&self.written).retain(|_, (_, when)| when.elapsed() < SEEN);
        for mark in marks.iter().take(AT_A_TIME) {
            if lock(&self.written).get(&mark.node).is_some_and(|(written, _)| written == mark) {
                continue;
            }
            match one(&nodes, mark).await {
                Ok(()) => {
                    tracing::info!(?mark, "marked a node");
                    lock(&self.written).insert(mark.node.clone(), (mark.clone(), Instant::now()));
                }
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(source) => return Err(RequestError { doing: format!("marking node {}", mark.node), source }),
            }
        }
        Ok(marks.len() <= AT_A_TIME)
    }
}

/// Taints are one list, which others write, too: it is written as it was read, or not at all.
async fn one(nodes: &Api<Node>, Mark { node, labels, annotations, taint }: &Mark) -> Result<(), kube::Error> {
    let parameters = PatchParams::default();
    let body = json!({"metadata": {"labels": labels, "annotations": annotations}});
    let found = nodes.patch(node, &parameters, &Patch::Merge(&body)).await?;
    let Some((key, wanted)) = *taint else { return Ok(()) };
    let mut taints = found.spec.and_then(|spec| spec.taints).unwrap_or_default();
    let is_it = |taint: &Taint| taint.key == key && taint.effect == EFFECT;
    if taints.iter().any(is_it) == wanted {
        return Ok(());
    }
    taints.retain(|taint| !is_it(taint));
    if wanted {
        taints.push(Taint { key: key.to_owned(), effect: EFFECT.to_owned(), ..Taint::default() });
    }
    let body = json!({"metadata": {"resourceVersion": found.metadata.resource_version}, "spec": {"taints": taints}});
    nodes.patch(node, &parameters, &Patch::Merge(&body)).await.map(drop)
}
