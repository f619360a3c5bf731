//! Restarting a pod: deleting exactly the one that was decided on.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{DeleteParams, Preconditions},
};
use tf_plan::rollout::Restart;

use crate::{error::RequestError, metrics::Metrics, object::Key};

/// Deletes pods.
pub struct Restarter {
    client: Client,
    metrics: Arc<Metrics>,
}

impl Restarter {
    /// A restarter.
    pub fn new(client: Client, metrics: Arc<Metrics>) -> Self {
        Self { client, metrics }
    }

    /// Deletes the pod of this name and uid, in the namespace of the resource.
    ///
    /// # Errors
    /// When the request fails. A pod that is gone or was replaced already is no error.
    pub async fn restart(&self, resource: &Key, step: &Restart) -> Result<(), RequestError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &resource.namespace);
        let parameters = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(step.uid.clone()), resource_version: None }),
            ..DeleteParams::default()
        };
        match api.delete(&step.pod, &parameters).await {
            Ok(_) => {
                self.metrics.restarts.inc();
                tracing::info!(%resource, pod = step.pod, why = step.why, "restarting");
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
            Err(source) => Err(RequestError { doing: format!("restarting pod {}", step.pod), source }),
        }
    }
}
