//! A resource that is being deleted: what it has in the config API goes, then what it has in the cluster.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tf_api::{
    Resource,
    contract::{ConditionType, Reason},
};
use tf_plan::{
    assess::Outcome,
    component::Component,
    not_ready::NotReady,
    plan::{Finalization, Plan},
    registration::{self, Progress, Registration},
};

use super::{Next, PassError, Reconciler, Subject};
use crate::{
    apply::ApplyError,
    finalizer::{Cleanup, Left},
    object::Key,
    status::Urgency,
};

impl<C: Component> Reconciler<C> {
    pub(super) async fn finalize(&self, subject: &Subject<'_, C::Cr>) -> Next {
        let left = if C::declaration().deregisters && self.finalizer.is_set(subject.cr.meta()) {
            self.left_elsewhere(subject).await
        } else {
            None
        };
        let (next, waiting) = self.release(subject.key, subject.cr.meta(), left).await;
        if let Some(message) = waiting {
            let observed = self.observer.cached(subject.key, &subject.uid);
            let assessment = self.assess(subject, &subject.before, &observed, Outcome::Deleting(&message));
            if let Err(error) = self.write(subject, &subject.before, &assessment, Urgency::Usual).await {
                tracing::debug!(resource = %subject.key, %error, "status of a deleted resource was not written");
            }
        }
        next
    }

    /// What of a resource that is being deleted is still on nodes, or else in the config API.
    async fn left_elsewhere(&self, subject: &Subject<'_, C::Cr>) -> Option<Left> {
        let observed = self.observer.observe(subject.key, &subject.cr).await.ok();
        let mut planned = observed.map(|observed| C::plan(&subject.cr, &observed));
        let finalization = planned.as_mut().and_then(|planned| planned.as_mut().ok()?.finalization.take());
        if let Some(finalization) = finalization {
            match self.take_from_nodes(subject, &finalization).await {
                Ok(()) if finalization.waits.is_none() => {}
                Ok(()) => return finalization.waits.map(|what| Left { what, nodes: finalization.nodes }),
                // No pod can be made that would do it, nor an event that says so.
                Err(PassError::Apply(ApplyError::Request(error))) if error.is_in_leaving_namespace() => {
                    tracing::warn!(resource = %subject.key, left = finalization.waits, "the namespace goes, and what is left on nodes stays");
                }
                Err(error) => {
                    let left = finalization.waits.unwrap_or_else(|| "labels of nodes".into());
                    return Some(Left { what: format!("{left} ({error})"), nodes: finalization.nodes });
                }
            }
        }
        let what = self.deregister(subject.key, &subject.cr, planned).await?;
        Some(Left { what, nodes: 0 })
    }

    /// Has pods undo on nodes what the resource's pods changed there. These have to end first.
    async fn take_from_nodes(
        &self,
        subject: &Subject<'_, C::Cr>,
        finalization: &Finalization,
    ) -> Result<(), PassError> {
        if finalization.waits.is_some() {
            self.apply_all(subject, &finalization.objects).await?;
            self.prune_workloads(subject, &finalization.objects).await?;
        }
        Ok(self.marker.mark(&finalization.marks).await.map(drop)?)
    }

    /// What of a resource that is being deleted is still in the config API. Where that goes, too, it is not asked for.
    async fn deregister(&self, key: &Key, cr: &C::Cr, planned: Option<Result<Plan, NotReady>>) -> Option<String> {
        let (registration, drafts, why) = match planned {
            Some(Ok(plan)) => (plan.registration, plan.drafts, String::new()),
            Some(Err(not_ready)) => (None, not_ready.drafts, format!(" ({})", not_ready.message)),
            None => (None, Vec::new(), String::new()),
        };
        let api = drafts.into_iter().find(|draft| draft.kind == ConditionType::ConfigApiReady);
        let is_asked_for = api.as_ref().is_none_or(|api| api.reason != Reason::NotRequested);
        if api.is_some_and(|api| registration::is_gone(&api)) || registration.is_none() && !is_asked_for {
            return None;
        }
        let Some(registration) = registration.or_else(|| self.registrar.wanted(key)) else {
            return Some(format!("what it has in the config API, of which nothing is known{why}"));
        };
        let uid = cr.meta().uid.as_deref().unwrap_or_default();
        let wanted = registration.wanted.nothing();
        match self.registrar.want(key, uid, Registration { wanted, ..registration }) {
            Progress::Done { notes, .. } => {
                if !notes.is_empty() {
                    let left = format!("what is left in the config API: {}", notes.join("; "));
                    self.events.abandoned(&self.reference(key, cr.meta()), &left).await;
                }
                None
            }
            Progress::Unknown => Some("what it has in the config API".into()),
            Progress::Pending(why) | Progress::Failed(why) => Some(format!("what it has in the config API ({why})")),
        }
    }

    /// Lets a resource go that is being deleted, or says what that waits for.
    pub(super) async fn release(&self, key: &Key, metadata: &ObjectMeta, left: Option<Left>) -> (Next, Option<String>) {
        let uid = metadata.uid.as_deref().unwrap_or_default();
        match self.finalizer.release(key, metadata, uid, &self.caches, &self.applier, left).await {
            Ok(Cleanup::Nothing | Cleanup::Finished) => (Next::Rest, None),
            Ok(Cleanup::Abandoned(left)) => {
                self.events.abandoned(&self.reference(key, metadata), &left).await;
                (Next::Rest, None)
            }
            Ok(Cleanup::Waiting(message)) => (Next::Within(Duration::from_secs(5)), Some(message)),
            Err(error) => {
                tracing::warn!(resource = %key, %error, "cleaning up failed");
                (Next::Retry, None)
            }
        }
    }
}
