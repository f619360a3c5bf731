//! Numbers and verdicts that several conditions share.

use tf_api::contract::ConditionType;

use super::{Inputs, Outcome};
use crate::{
    not_ready::Obstacle,
    observed::Pod,
    plan::{Hibernation, Rollout},
    rollout::restart_is_due,
    status,
};

/// What is the case.
pub(super) struct Facts {
    pub(super) initialized: bool,
    pub(super) wanted: i32,
    pub(super) ready: i32,
    pub(super) outdated: Vec<String>,
    /// Whether every workload exists and its controller has seen the current spec.
    pub(super) settled: bool,
    pub(super) has_workload: bool,
    /// Whether this is a kind without pods of its own, and this pass learned nothing about what it stands for.
    pub(super) silent: bool,
    pub(super) serving: bool,
    /// Why nobody is served although enough members are ready.
    pub(super) outage: Option<String>,
    /// Whether its servers are stopped, or being stopped, as the resource asks.
    pub(super) asleep: bool,
    pub(super) progressing: bool,
}

impl Facts {
    pub(super) fn gather(given: &Inputs<'_>) -> Self {
        let previous = given.previous;
        let initialized = previous.is_some_and(|previous| previous.initialized == Some(true));
        let plan = match given.outcome {
            Outcome::Planned(plan, _) => Some(plan),
            _ => None,
        };
        let rollout = plan.and_then(|plan| plan.rollout.as_ref());
        let live_wanted = given.workloads.values().map(|workload| workload.wanted).sum();
        let wanted = rollout
            .and_then(|rollout| rollout.wanted)
            .or_else(|| previous.and_then(|previous| previous.replicas).filter(|_| plan.is_none()))
            .unwrap_or(live_wanted);
        let counted: i32 = given.workloads.values().map(|workload| workload.ready).sum();
        // The kubelet of a lost node says nothing, and Kubernetes goes on to believe what it said last for a while. What a
        // workload's controller counted may be older than what is seen of its pods, or newer: the lesser number holds.
        let is_well =
            |pod: &&Pod| pod.ready && !given.unwell().is_some_and(|(troubles, _)| troubles.contains_key(&pod.name));
        let well = given.pods.iter().filter(is_well).count() as i32;
        let ready = if given.pods.is_empty() { counted } else { counted.min(well) };
        let mut outdated = rollout.map(|rollout| outdated(given, rollout)).unwrap_or_default();
        outdated.retain(|pod| plan.is_none_or(|plan| !plan.left.contains(pod)));
        let settled = rollout.is_none_or(|rollout| {
            rollout.workloads.iter().all(|(name, _)| given.workloads.get(name).is_some_and(|live| live.current))
        });
        let asleep = is_asleep(given);
        let is_enough = !asleep && given.availability.holds(ready, wanted);
        let outage = given.outage().filter(|_| is_enough).map(str::to_owned);
        let serving = is_enough && outage.is_none();
        let at_rest = plan.is_some_and(|plan| plan.under_way.is_none());
        let complete = at_rest && settled && outdated.is_empty() && ready >= wanted;
        let changed = previous.is_none_or(|previous| previous.observed_generation != given.generation);
        let under_way = previous.is_some_and(|previous| status::is(previous, ConditionType::Progressing, "True"));
        let progressing = match &given.outcome {
            Outcome::Started => true,
            Outcome::Planned(..) if asleep => !settled || !given.pods.is_empty(),
            Outcome::Planned(..) => {
                !complete && (!initialized || changed || under_way || !settled || !outdated.is_empty() || !at_rest)
            }
            Outcome::NotReady(not_ready) => {
                not_ready.obstacle == Obstacle::Waiting && (!initialized || changed || under_way)
            }
            Outcome::Failed(..) => !initialized || changed || under_way,
            Outcome::Deleting(_) => false,
        };
        let has_workload = rollout.is_some() || !given.workloads.is_empty();
        let ran_pods = has_workload || previous.is_some_and(|previous| previous.replicas.is_some());
        let silent = initialized && plan.is_none() && !ran_pods;
        Self {
            initialized,
            wanted,
            ready,
            outdated,
            settled,
            has_workload,
            silent,
            serving,
            outage,
            asleep,
            progressing,
        }
    }

    pub(super) fn count(&self) -> String {
        format!("{} of {} members are ready", self.ready, self.wanted)
    }
}

/// Whether its servers do not run because the resource asks for that. Without a plan nothing is known anew.
fn is_asleep(given: &Inputs<'_>) -> bool {
    match given.outcome {
        // What is planned may not have been done: reconciling may be paused.
        Outcome::Planned(plan, _) => {
            plan.hibernation == Hibernation::Asleep && given.workloads.values().all(|workload| workload.wanted == 0)
        }
        Outcome::Deleting(_) => false,
        Outcome::Started | Outcome::NotReady(_) | Outcome::Failed(..) => {
            given.previous.is_some_and(|previous| status::is(previous, ConditionType::Hibernated, "True"))
        }
    }
}

fn outdated(given: &Inputs<'_>, rollout: &Rollout) -> Vec<String> {
    let is_outdated = |pod: &&Pod| {
        let Some((name, hash)) = rollout.workloads.iter().find(|(name, _)| pod.workload() == name) else {
            return false;
        };
        let live = given.workloads.get(name);
        pod.template.as_ref() != Some(hash) || live.is_some_and(|live| restart_is_due(pod, live))
    };
    let pods = given.pods.iter();
    pods.filter(is_outdated).map(|pod| pod.name.clone()).collect()
}
