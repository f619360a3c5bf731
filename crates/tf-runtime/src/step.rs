//! Taking the step that a plan allows: exactly the pod that was decided on, or none.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::json;
use tf_agent_api::content::ContentHash;
use tf_api::names;
use tf_plan::step::{Step, Target};

use crate::{agents::Agents, error::RequestError, metrics::Metrics, object::Key};

/// What became of a step.
#[derive(Debug)]
pub enum Taken {
    /// It was taken.
    Done,
    /// There was nothing to take it on any more.
    Gone,
    /// The member did not take it, for this reason. What follows is decided on what is observed then.
    Refused(String),
}

/// Takes steps.
pub struct Stepper {
    /// For what the API server does.
    pub client: Client,
    /// For what members do.
    pub agents: Arc<Agents>,
    /// Counts.
    pub metrics: Arc<Metrics>,
}

impl Stepper {
    /// Takes a step for a resource.
    ///
    /// # Errors
    /// When a request to the API server fails. A pod that is gone or was replaced already is no error.
    pub async fn take(&self, resource: &Key, step: &Step) -> Result<Taken, RequestError> {
        let Target { pod, why, .. } = step.target();
        let taken = match step {
            Step::Restart(target) => self.restart(resource, target).await?,
            Step::Activate(target, hash) => self.tell(resource, target, names::ANNOTATION_ACTIVE_CONFIG, hash).await?,
            Step::Renew(target, hash) => {
                self.tell(resource, target, names::ANNOTATION_ACTIVE_CERTIFICATE, hash).await?
            }
            Step::Ask(target, request) => match self.agents.ask(&target.uid, request).await {
                Ok(()) => Taken::Done,
                Err(error) => Taken::Refused(error.to_string()),
            },
        };
        tracing::info!(%resource, pod, why, ?taken, "took a step");
        Ok(taken)
    }

    async fn restart(&self, resource: &Key, target: &Target) -> Result<Taken, RequestError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &resource.namespace);
        let parameters = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(target.uid.clone()), resource_version: None }),
            ..DeleteParams::default()
        };
        match api.delete(&target.pod, &parameters).await {
            Ok(_) => {
                self.metrics.restarts.inc();
                Ok(Taken::Done)
            }
            Err(error) => or_gone(error, || format!("restarting pod {}", target.pod)),
        }
    }

    /// The kubelet brings the annotation, and what is mounted with it, up to date at once (architecture.md: 0.3 s, and 81 s
    /// without).
    async fn tell(
        &self,
        resource: &Key,
        target: &Target,
        annotation: &str,
        hash: &ContentHash,
    ) -> Result<Taken, RequestError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &resource.namespace);
        let body = json!({"metadata": {"uid": target.uid, "annotations": {annotation: hash}}});
        match api.patch(&target.pod, &PatchParams::default(), &Patch::Merge(&body)).await {
            Ok(_) => Ok(Taken::Done),
            Err(error) => or_gone(error, || format!("telling pod {} to change over", target.pod)),
        }
    }
}

fn or_gone(error: kube::Error, doing: impl Fn() -> String) -> Result<Taken, RequestError> {
    match error {
        kube::Error::Api(status) if status.is_not_found() || status.is_conflict() => Ok(Taken::Gone),
        source => Err(RequestError { doing: doing(), source }),
    }
}
