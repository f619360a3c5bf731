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
    registration::{self, Progress, Registration},
};

use super::{Next, Reconciler, Subject};
use crate::{finalizer::Cleanup, object::Key, status::Urgency};

impl<C: Component> Reconciler<C> {
    pub(super) async fn say_goodbye(&self, subject: &Subject<'_, C::Cr>) -> Next {
        let registered = if C::declaration().deregisters && self.finalizer.is_set(subject.cr.meta()) {
            self.deregister(subject.key, &subject.cr).await
        } else {
            None
        };
        let (next, waiting) = self.release(subject.key, subject.cr.meta(), registered).await;
        if let Some(message) = waiting {
            let observed = self.observer.cached(subject.key, &subject.uid);
            let assessment = self.assess(subject, &subject.before, &observed, Outcome::Deleting(&message));
            if let Err(error) = self.write(subject, &subject.before, &assessment, Urgency::Usual).await {
                tracing::debug!(resource = %subject.key, %error, "status of a deleted resource was not written");
            }
        }
        next
    }

    /// What of a resource that is being deleted is still in the config API. Where that goes, too, nobody asks.
    async fn deregister(&self, key: &Key, cr: &C::Cr) -> Option<String> {
        let observed = self.observer.observe(key, cr).await.ok();
        let planned = observed.map(|observed| C::plan(cr, &observed));
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
    pub(super) async fn release(
        &self,
        key: &Key,
        metadata: &ObjectMeta,
        registered: Option<String>,
    ) -> (Next, Option<String>) {
        let uid = metadata.uid.as_deref().unwrap_or_default();
        match self.finalizer.release(key, metadata, uid, &self.world, &self.applier, registered).await {
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
