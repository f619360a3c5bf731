//! From what was planned, applied and observed to the conditions of a resource.
//!
//! One function for every component, so that the same situation reads the same everywhere. Components add drafts of
//! their own through the plan; those win over the ones computed here.
//!
//! What several conditions share is gathered first (`facts`); then come the conditions that every resource carries
//! (`conditions`), those that follow from the others (`summary`), and the rest of the status (`contract`).

mod conditions;
mod contract;
mod facts;
mod summary;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde_json::{Map, Value};
use tf_api::contract::{ConditionStatus, ConditionType, Contract, Draft, Reason};

use crate::{
    not_ready::NotReady,
    observed::{Pod, Workload},
    plan::{Availability, Plan},
    procedure::{AgentReport, Troubles},
    status,
};

use facts::Facts;

/// How a pass over the resource ended.
#[derive(Clone, Debug)]
pub enum Outcome<'a> {
    /// It has only begun: the first word about a new generation.
    Started,
    /// There is a plan and it was applied.
    Planned(&'a Plan, &'a Applied),
    /// There is no plan.
    NotReady(&'a NotReady),
    /// Observing or applying failed.
    Failed(Reason, &'a str),
    /// The resource is being deleted; the text says what that waits for.
    Deleting(&'a str),
}

/// What applying did, as far as status speaks of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Objects that differ from the plan and were left alone because the resource is paused.
    pub pending: Vec<String>,
    /// Objects that are being deleted, and have to be gone before they can be made anew.
    pub leaving: Vec<String>,
    /// Fields that another field manager holds with another value, on objects we share.
    pub conflicts: Vec<String>,
    /// Fields that the definition of a kind does not have: they are left out.
    pub unknown: Vec<String>,
    /// Objects that the API server refused, of those that stand for themselves.
    pub refused: Vec<(Reason, String)>,
}

impl Applied {
    /// Whether everything is as planned that can be: fields that nobody knows do not become known by waiting.
    pub fn is_complete(&self) -> bool {
        let waits = [&self.pending, &self.leaving, &self.conflicts];
        waits.iter().all(|list| list.is_empty()) && self.refused.is_empty()
    }
}

/// Everything the conditions depend on.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// Generation of the resource.
    pub generation: i64,
    /// Whether reconciling is suspended.
    pub paused: bool,
    /// Status as it is, if there is one.
    pub previous: Option<&'a Contract>,
    /// How many ready members make the service usable.
    pub availability: Availability,
    /// Live workloads of the resource.
    pub workloads: &'a BTreeMap<String, Workload>,
    /// Pods of the resource.
    pub pods: &'a [Pod],
    /// What their agents tell; none where it is not known anew. A plan that there is tells it itself.
    pub told: Option<AgentReport>,
    /// Version of the operator.
    pub operator: &'a str,
    /// Time of the pass.
    pub now: Timestamp,
    /// How the pass ended.
    pub outcome: Outcome<'a>,
}

impl Inputs<'_> {
    /// Pods that do not serve whatever the kubelet says of them, and those that serve without something, as far as it is known.
    fn unwell(&self) -> Option<(&Troubles, &Troubles)> {
        match (&self.outcome, &self.told) {
            (Outcome::Planned(plan, _), _) => Some((&plan.troubles, &plan.shortages)),
            (_, Some(told)) => Some((&told.troubles, &told.shortages)),
            (_, None) => None,
        }
    }

    /// That a daemon has no leader, as far as it is known.
    fn unelected(&self) -> Option<&str> {
        match (&self.outcome, &self.told) {
            (Outcome::Planned(plan, _), _) => plan.unelected.as_deref(),
            (_, told) => told.as_ref()?.unelected.as_deref(),
        }
    }

    /// Why members serve nobody together, as far as it is known.
    fn outage(&self) -> Option<&str> {
        match (&self.outcome, &self.told) {
            (Outcome::Planned(plan, _), _) => plan.outage.as_deref(),
            (_, told) => told.as_ref()?.outage.as_deref(),
        }
    }
}

/// The new status.
#[derive(Clone, Debug, PartialEq)]
pub struct Assessment {
    /// Contract part.
    pub contract: Contract,
    /// Fields only this kind has; none if the pass did not get as far as a plan.
    pub own: Option<Map<String, Value>>,
    /// When a condition will change by the passing of time alone.
    pub again: Option<Duration>,
}

/// Computes the status that describes `given`.
pub fn assess(given: &Inputs<'_>) -> Assessment {
    let facts = Facts::gather(given);
    let mut drafts = conditions::base(given, &facts);
    let (degraded, again) = conditions::degraded(given, &facts, &drafts);
    let again = again.into_iter().chain(given.told.as_ref().and_then(|told| told.again)).min();
    put(&mut drafts, degraded);
    for draft in component_drafts(given) {
        put(&mut drafts, draft.clone());
    }
    carry_what_only_plans_know(given, &mut drafts);
    summary::add(given, &facts, &mut drafts);
    let contract = contract::contract(given, &facts, drafts);
    let own = match given.outcome {
        Outcome::Planned(plan, _) => Some(plan.own_status.clone()),
        _ => None,
    };
    Assessment { contract, own, again }
}

fn component_drafts<'a>(given: &'a Inputs<'_>) -> &'a [Draft] {
    match given.outcome {
        Outcome::Planned(plan, _) => &plan.drafts,
        Outcome::NotReady(not_ready) => &not_ready.drafts,
        Outcome::Started | Outcome::Failed(..) | Outcome::Deleting(_) => &[],
    }
}

/// Without a plan nothing is known about dependencies and the like: their conditions stay as they were.
fn carry_what_only_plans_know(given: &Inputs<'_>, drafts: &mut Vec<Draft>) {
    let Some(previous) = given.previous.filter(|_| !matches!(given.outcome, Outcome::Planned(..))) else {
        return;
    };
    let known = previous.conditions.iter().filter_map(|condition| condition.type_.parse::<ConditionType>().ok());
    for kind in known.filter(|kind| *kind != ConditionType::Ready && !kind.is_abnormal_true()) {
        if drafts.iter().all(|draft| draft.kind != kind) {
            drafts.extend(status::draft(previous, kind));
        }
    }
}

/// Replaces the draft of the same type.
fn put(drafts: &mut Vec<Draft>, draft: Draft) {
    debug_assert!(!draft.kind.is_abnormal_true() || draft.status == ConditionStatus::True);
    drafts.retain(|present| present.kind != draft.kind);
    drafts.push(draft);
}
