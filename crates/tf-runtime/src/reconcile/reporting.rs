//! What a pass says in the status: what it begins with, what came of it, and why it did not get to its end.

use serde_json::Value;
use tf_api::{Managed, contract::Reason};
use tf_plan::{
    assess::{Assessment, Inputs, Outcome, assess},
    component::Component,
    not_ready::NotReady,
    observed::Observed,
    plan::Plan,
};

use super::{DEADLINE, Next, PassError, Reconciler, Subject};
use crate::{
    error::RequestError,
    object::Key,
    status::{Known, StatusError, Urgency, Write, kind_specific},
    watch::Primary,
};

impl<C: Component> Reconciler<C> {
    /// Before the first change of a new generation: says that it was seen, and stores the members it is carried out with.
    pub(super) async fn announce(
        &self,
        subject: &Subject<'_, C::Cr>,
        observed: &Observed<C::Cr>,
        plan: &Plan,
    ) -> Result<Known, PassError> {
        let before = &subject.before;
        let seen = before.contract.as_ref().is_some_and(|contract| contract.observed_generation == subject.generation);
        if subject.cr.paused() || seen && is_recorded(plan, before) {
            return Ok(before.clone());
        }
        let mut assessment = if seen {
            // Nothing is known anew but what is recorded.
            let contract = before.contract.clone().unwrap_or_default();
            Assessment { contract, own: None, again: None }
        } else {
            self.assess(subject, before, observed, Outcome::Started)
        };
        assessment.contract.members.clone_from(&plan.members);
        let mut own = kind_specific(&before.value);
        for field in plan.record {
            match plan.own_status.get(*field) {
                Some(value) => own.insert((*field).to_owned(), value.clone()),
                None => own.remove(*field),
            };
        }
        assessment.own = Some(own);
        self.write(subject, before, &assessment, Urgency::Now).await?;
        let mut value = serde_json::to_value(&assessment.contract).unwrap_or(Value::Null);
        if let (Some(fields), Some(own)) = (value.as_object_mut(), assessment.own) {
            fields.extend(own);
        }
        // An older definition drops what it does not have.
        let target = subject.target();
        let stored = self.statuses.newer(target.key, target.uid, target.version).map(Known::of);
        let lost = stored.map(|stored| unrecorded(plan, &stored)).unwrap_or_default();
        if !lost.is_empty() {
            return Err(PassError::Unrecorded(C::Cr::INFO.kind, lost.join(", ")));
        }
        Ok(Known { contract: Some(assessment.contract), value })
    }

    pub(super) async fn wait(
        &self,
        subject: &Subject<'_, C::Cr>,
        observed: &Observed<C::Cr>,
        not_ready: &NotReady,
    ) -> Result<Next, PassError> {
        let outcome = Outcome::NotReady(not_ready);
        self.conclude(subject, &subject.before, observed, outcome).await
    }

    pub(super) async fn conclude(
        &self,
        subject: &Subject<'_, C::Cr>,
        before: &Known,
        observed: &Observed<C::Cr>,
        outcome: Outcome<'_>,
    ) -> Result<Next, PassError> {
        let planned = match &outcome {
            Outcome::Planned(plan, _) => plan.again,
            _ => None,
        };
        let assessment = self.assess(subject, before, observed, outcome);
        let deferred = match self.write(subject, before, &assessment, Urgency::Usual).await? {
            Write::Deferred(wait) => Some(wait),
            Write::Done | Write::Unchanged => None,
        };
        let soonest = [assessment.again, deferred, planned].into_iter().flatten().min();
        Ok(soonest.map_or(Next::Resync, Next::Within))
    }

    pub(super) fn assess(
        &self,
        subject: &Subject<'_, C::Cr>,
        before: &Known,
        observed: &Observed<C::Cr>,
        outcome: Outcome<'_>,
    ) -> Assessment {
        let empty = Vec::new();
        let told = match outcome {
            Outcome::Planned(..) => None,
            _ => C::agent_report(&subject.cr, observed),
        };
        assess(&Inputs {
            generation: subject.generation,
            paused: subject.cr.paused(),
            previous: before.contract.as_ref(),
            availability: C::AVAILABILITY,
            workloads: &observed.workloads,
            pods: observed.pods.known().unwrap_or(&empty),
            told,
            operator: &self.observer.operator.version,
            now: observed.now,
            outcome,
        })
    }

    pub(super) async fn write(
        &self,
        subject: &Subject<'_, C::Cr>,
        before: &Known,
        assessment: &Assessment,
        urgency: Urgency,
    ) -> Result<Write, StatusError> {
        let own = assessment.own.as_ref();
        let write = self.statuses.write(subject.target(), before, &assessment.contract, own, urgency).await?;
        if write == Write::Done {
            self.events.conditions_changed(&*subject.cr, before.contract.as_ref(), &assessment.contract).await;
        }
        Ok(write)
    }

    /// A failure is written into status, except a first one that may be gone a moment later: a resource that is fine does
    /// not stop being so because a request got lost.
    pub(super) async fn failed(&self, subject: &Subject<'_, C::Cr>, error: &PassError, failures: u32) -> Next {
        if error.request().is_some_and(RequestError::is_not_leader) {
            return Next::Rest; // Gaining the lease wakes every resource.
        }
        tracing::warn!(resource = %subject.key, %error, failures, "a pass failed");
        let transient = error.request().is_some_and(RequestError::is_transient);
        if transient && failures == 0 || matches!(error, PassError::Status(_)) {
            return Next::Retry;
        }
        // The pass may have written already: the members it announced have to stay.
        let subject = self.subject(subject.key, &subject.cr);
        let observed = self.observer.cached(subject.key, &subject.uid);
        let message = error.to_string();
        let outcome = Outcome::Failed(error.reason(), &message);
        let assessment = self.assess(&subject, &subject.before, &observed, outcome);
        if let Err(error) = self.write(&subject, &subject.before, &assessment, Urgency::Usual).await {
            tracing::warn!(resource = %subject.key, %error, "the failure could not be written into status");
        }
        Next::Retry
    }

    pub(super) async fn overdue(&self, key: &Key, primary: &Primary<C::Cr>) -> Next {
        tracing::warn!(resource = %key, "a pass did not end in time");
        let Primary::Valid(cr) = primary else { return Next::Retry };
        let subject = self.subject(key, cr);
        let observed = self.observer.cached(key, &subject.uid);
        let message = format!("a pass did not end within {} s; it is tried again", DEADLINE.as_secs());
        let assessment = self.assess(&subject, &subject.before, &observed, Outcome::Failed(Reason::ApiError, &message));
        let write = self.write(&subject, &subject.before, &assessment, Urgency::Usual);
        if !matches!(tokio::time::timeout(DEADLINE / 4, write).await, Ok(Ok(_))) {
            tracing::warn!(resource = %key, "the missed deadline could not be written into status");
        }
        Next::Retry
    }
}

/// Whether the status holds the members of a plan, and what else the next plan rests on.
pub(super) fn is_recorded(plan: &Plan, status: &Known) -> bool {
    unrecorded(plan, status).is_empty()
}

/// Fields of which the status does not hold what the plan has.
fn unrecorded(plan: &Plan, status: &Known) -> Vec<&'static str> {
    let members = status.contract.as_ref().map(|contract| contract.members.as_slice()).unwrap_or_default();
    let differs = |field: &&&str| status.value.get(**field) != plan.own_status.get(**field);
    let own = plan.record.iter().filter(differs).copied();
    (members != plan.members).then_some("members").into_iter().chain(own).collect()
}
