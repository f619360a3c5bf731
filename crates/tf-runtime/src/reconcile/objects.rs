//! Objects of a plan: applied in order, and removed when they are planned no more.

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use tf_api::Managed;
use tf_plan::{
    assess::Applied,
    build::identity,
    component::Component,
    object::{Kind, Object},
    observed::Observed,
    plan::Plan,
};

use super::{PassError, Reconciler, Subject};
use crate::{
    apply::{Act, ApplyError, Owner},
    object::Key,
    watch::workload_of,
};

impl<C: Component> Reconciler<C> {
    /// Applies the objects in order; then prunes what is ours and no longer planned.
    pub(super) async fn apply(&self, subject: &Subject<'_, C::Cr>, plan: &Plan) -> Result<Results, PassError> {
        let results = self.apply_all(subject, &plan.objects).await?;
        if !subject.cr.paused() {
            self.prune(subject, plan).await?;
        }
        Ok(results)
    }

    pub(super) async fn apply_all(
        &self,
        subject: &Subject<'_, C::Cr>,
        objects: &[Object],
    ) -> Result<Results, PassError> {
        let dry = subject.cr.paused();
        let owner = Owner {
            kind: self.caches.declaration.primary,
            namespace: &subject.key.namespace,
            name: &subject.key.name,
            uid: &subject.uid,
        };
        let mut results = Results::default();
        for object in objects {
            let key = Key::new(object.namespace.clone().unwrap_or_default(), object.name.clone());
            let seen = self.caches.child(object.kind, &key);
            match self.applier.apply(object, owner, seen.as_ref(), dry).await {
                Ok(Act::Unchanged) => {}
                Ok(Act::Applied(answer)) => {
                    if seen.is_none() && self.was_there(subject, object) {
                        self.events.recreated(&*subject.cr, object).await;
                    }
                    results.answers.push((object.kind, answer));
                }
                Ok(Act::Pending) => results.report.pending.push(object.describe()),
                Ok(Act::Terminating) => results.report.leaving.push(object.describe()),
                Ok(Act::GivesWay) => {
                    results.leftovers = true;
                    results.report.leaving.push(format!("{} of another operator, without its pods", object.describe()));
                }
                Ok(Act::Leftover) => {
                    results.leftovers = true;
                    results.report.leaving.push(format!("{} of a former resource of this name", object.describe()));
                }
                Ok(Act::LeftBehind) => {
                    results.leftovers = true;
                    results.report.leaving.push(format!("{}, which stays as the resource goes", object.describe()));
                }
                Ok(Act::Partly(omitted)) => {
                    results.report.conflicts.extend(omitted.held);
                    results.report.unknown.extend(omitted.unknown);
                }
                // Objects that stand for themselves do not hold each other up.
                Err(error) if object.independent && !is_ours_to_retry(&error) => {
                    results.report.refused.push((error.reason(), error.to_string()));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(results)
    }

    /// Whether a workload or component that is not there has been: the resource was Ready once, and its spec is the one that its status is about.
    fn was_there(&self, subject: &Subject<'_, C::Cr>, object: &Object) -> bool {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        let contract = subject.before.contract.as_ref();
        let is_meant =
            |kind: Kind| kind.group == tf_api::GROUP || self.caches.declaration.workload_kinds().any(|it| it == kind);
        // One that undoes something on nodes comes and goes.
        let is_removal = serde_json::from_value(object.body["metadata"]["labels"].clone())
            .is_ok_and(|labels: BTreeMap<String, String>| identity::is_removal(&labels));
        is_meant(object.kind)
            && !is_removal
            && self.caches.is_synced(object.kind, namespace)
            && contract.is_some_and(|contract| {
                contract.initialized == Some(true) && contract.observed_generation == subject.generation
            })
    }

    async fn prune(&self, subject: &Subject<'_, C::Cr>, plan: &Plan) -> Result<(), PassError> {
        let kinds = self.caches.declaration.owned.iter().map(|owned| owned.kind).filter(|kind| !kind.is_kept());
        self.prune_kinds(subject, kinds, &plan.objects).await
    }

    /// Deletes the workloads of a resource that are not among these objects.
    pub(super) async fn prune_workloads(
        &self,
        subject: &Subject<'_, C::Cr>,
        objects: &[Object],
    ) -> Result<(), PassError> {
        self.prune_kinds(subject, self.caches.declaration.workload_kinds(), objects).await
    }

    async fn prune_kinds(
        &self,
        subject: &Subject<'_, C::Cr>,
        kinds: impl Iterator<Item = Kind>,
        objects: &[Object],
    ) -> Result<(), PassError> {
        for kind in kinds {
            for (key, child) in self.caches.children_of(kind, &subject.uid) {
                let planned = objects.iter().any(|object| {
                    let namespace = object.namespace.as_deref().unwrap_or_default();
                    object.kind == kind && object.name == key.name && namespace == key.namespace
                });
                // What is planned may rest on whether a kind can be seen at all: nothing is removed in the dark.
                if !planned && !child.terminating && self.caches.is_synced(kind, &key.namespace) {
                    self.applier.delete(kind, &key, &child.uid).await?;
                }
            }
        }
        Ok(())
    }
}

/// What applying led to.
#[derive(Default)]
pub(super) struct Results {
    pub(super) report: Applied,
    /// Whether an object of a former resource or of another operator is in the way.
    pub(super) leftovers: bool,
    pub(super) answers: Vec<(Kind, Box<DynamicObject>)>,
}

/// The snapshot, with workloads as the API server answered: the watch delivers them only a moment later.
pub(super) fn with_answers<Cr: Clone>(observed: &Observed<Cr>, answers: &[(Kind, Box<DynamicObject>)]) -> Observed<Cr> {
    let mut observed = observed.clone();
    for (kind, answer) in answers {
        if let Some(workload) = workload_of(*kind, answer) {
            observed.workloads.insert(workload.name.clone(), workload);
        }
    }
    observed
}

fn is_ours_to_retry(error: &ApplyError) -> bool {
    matches!(error, ApplyError::Request(request) if request.is_transient())
}
