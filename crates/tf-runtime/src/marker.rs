//! Labels that Nodes get and lose, as a plan says.

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tf_plan::plan::Mark;

use crate::error::RequestError;

/// Requests of one pass. The next one goes on.
const AT_A_TIME: usize = 100;

/// Labels nodes.
pub struct Marker {
    /// For requests.
    pub client: Client,
}

impl Marker {
    /// Labels these nodes, and takes labels away. A node that is gone is none. Whether that was all.
    ///
    /// # Errors
    /// When a request fails; those after it are not made.
    pub async fn label(&self, marks: &[Mark]) -> Result<bool, RequestError> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        for Mark { node, label, value } in marks.iter().take(AT_A_TIME) {
            let body = json!({"metadata": {"labels": {*label: value}}});
            match nodes.patch_metadata(node, &PatchParams::default(), &Patch::Merge(&body)).await {
                Ok(_) => tracing::info!(node, label, ?value, "labelled a node"),
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(source) => return Err(RequestError { doing: format!("labelling node {node} ({label})"), source }),
            }
        }
        Ok(marks.len() <= AT_A_TIME)
    }
}
