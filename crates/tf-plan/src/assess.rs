//! From what was planned, applied and observed to the conditions of a resource.
//!
//! One function for every component, so that the same situation reads the same everywhere. Components add drafts of
//! their own through the plan; those win over the ones computed here.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use tf_api::{
    CONTRACT,
    contract::{ConditionStatus, ConditionType, Contract, Draft, NameReference, NodeStatus, Reason, VersionStatus},
};

use crate::{
    observed::{Pod, Workload},
    plan::{Availability, NotReady, Obstacle, Plan},
    status,
};

/// How long a roll-out may go without completing before the resource is Degraded.
const ROLLOUT_DEADLINE: SignedDuration = SignedDuration::from_mins(10);
/// How long members may be missing, without a roll-out that explains it, before the resource is Degraded.
const MEMBER_DEADLINE: SignedDuration = SignedDuration::from_mins(5);
/// Pods listed in a status; larger sets are only counted.
const LISTED_PODS: usize = 100;

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
    /// Fields that another field manager holds with another value, on objects we share.
    pub conflicts: Vec<String>,
    /// Objects that the API server refused, of those that stand for themselves.
    pub refused: Vec<(Reason, String)>,
}

/// Everything the conditions depend on.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
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
    /// Version of the operator.
    pub operator: &'a str,
    /// Time of the pass.
    pub now: Timestamp,
    /// How the pass ended.
    pub outcome: Outcome<'a>,
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

/// Computes the status that describes `situation`.
pub fn assess(situation: &Situation<'_>) -> Assessment {
    let facts = Facts::gather(situation);
    let mut drafts = base_drafts(situation, &facts);
    let (degraded, again) = degraded(situation, &facts, &drafts);
    put(&mut drafts, degraded);
    for draft in component_drafts(situation) {
        put(&mut drafts, draft.clone());
    }
    carry_what_only_plans_know(situation, &mut drafts);
    summarise(situation, &mut drafts);
    let contract = contract(situation, &facts, drafts);
    let own = match situation.outcome {
        Outcome::Planned(plan, _) => Some(plan.own_status.clone()),
        _ => None,
    };
    Assessment { contract, own, again }
}

/// Numbers and verdicts that several conditions share.
struct Facts {
    initialized: bool,
    wanted: i32,
    ready: i32,
    outdated: Vec<String>,
    /// Whether every workload exists and its controller has seen the current spec.
    settled: bool,
    has_workload: bool,
    /// Whether this is a kind without pods of its own, and this pass learned nothing about what it stands for.
    silent: bool,
    serving: bool,
    progressing: bool,
}

impl Facts {
    fn gather(situation: &Situation<'_>) -> Self {
        let previous = situation.previous;
        let initialized = previous.is_some_and(|previous| previous.initialized == Some(true));
        let plan = match situation.outcome {
            Outcome::Planned(plan, _) => Some(plan),
            _ => None,
        };
        let rollout = plan.and_then(|plan| plan.rollout.as_ref());
        let live_wanted = situation.workloads.values().map(|workload| workload.wanted).sum();
        let wanted = rollout
            .and_then(|rollout| rollout.wanted)
            .or_else(|| previous.and_then(|previous| previous.replicas).filter(|_| plan.is_none()))
            .unwrap_or(live_wanted);
        let ready = situation.workloads.values().map(|workload| workload.ready).sum();
        let outdated = rollout.map(|rollout| outdated(situation.pods, rollout)).unwrap_or_default();
        let settled = rollout.is_none_or(|rollout| {
            rollout.workloads.iter().all(|(name, _)| situation.workloads.get(name).is_some_and(|live| live.current))
        });
        let serving = situation.availability.holds(ready, wanted);
        let complete = plan.is_some() && settled && outdated.is_empty() && ready >= wanted;
        let changed = previous.is_none_or(|previous| previous.observed_generation != situation.generation);
        let under_way = previous.is_some_and(|previous| status::is(previous, ConditionType::Progressing, "True"));
        let progressing = match &situation.outcome {
            Outcome::Started => true,
            Outcome::Planned(..) => {
                !complete && (!initialized || changed || under_way || !settled || !outdated.is_empty())
            }
            Outcome::NotReady(not_ready) => {
                not_ready.obstacle == Obstacle::Waiting && (!initialized || changed || under_way)
            }
            Outcome::Failed(..) => !initialized || changed || under_way,
            Outcome::Deleting(_) => false,
        };
        let has_workload = rollout.is_some() || !situation.workloads.is_empty();
        let ran_pods = has_workload || previous.is_some_and(|previous| previous.replicas.is_some());
        let silent = initialized && plan.is_none() && !ran_pods;
        Self { initialized, wanted, ready, outdated, settled, has_workload, silent, serving, progressing }
    }

    fn count(&self) -> String {
        format!("{} of {} members are ready", self.ready, self.wanted)
    }
}

fn outdated(pods: &[Pod], rollout: &crate::plan::Rollout) -> Vec<String> {
    let template_of =
        |pod: &Pod| rollout.workloads.iter().find(|(name, _)| pod.workload() == name).map(|(_, hash)| hash);
    pods.iter()
        .filter(|pod| template_of(pod).is_some_and(|hash| pod.template.as_ref() != Some(hash)))
        .map(|pod| pod.name.clone())
        .collect()
}

/// Conditions that every resource carries, before the component's own are added.
fn base_drafts(situation: &Situation<'_>, facts: &Facts) -> Vec<Draft> {
    use ConditionType::{Available, ConfigReady, InputsReady, Progressing, Upgradeable, WorkloadReady};
    let mut drafts = vec![
        inputs(situation),
        config(situation),
        workload(situation, facts),
        Draft::holds(Upgradeable, Reason::Succeeded, "nothing forbids an upgrade"),
    ];
    drafts.push(if facts.serving {
        Draft::holds(Available, Reason::Succeeded, facts.count())
    } else if facts.silent {
        carried(situation, Available)
    } else if facts.initialized {
        Draft::fails(Available, Reason::ReplicasUnavailable, facts.count())
    } else {
        Draft::fails(Available, Reason::NotYetReported, "the first bring-up is not complete")
    });
    drafts.push(if facts.progressing {
        let reason = if facts.initialized { Reason::RolloutInProgress } else { Reason::Progressing };
        Draft::holds(Progressing, reason, progress(situation, facts))
    } else {
        Draft::fails(Progressing, Reason::Succeeded, "no roll-out is under way")
    });
    debug_assert!(drafts.iter().any(|draft| draft.kind == InputsReady));
    debug_assert!(drafts.iter().any(|draft| draft.kind == ConfigReady));
    debug_assert!(drafts.iter().any(|draft| draft.kind == WorkloadReady));
    drafts
}

fn progress(situation: &Situation<'_>, facts: &Facts) -> String {
    match &situation.outcome {
        Outcome::Started => "the current generation is being looked at".into(),
        Outcome::NotReady(not_ready) => not_ready.message.clone(),
        Outcome::Failed(_, message) => (*message).to_owned(),
        Outcome::Planned(..) | Outcome::Deleting(_) => facts.count(),
    }
}

fn inputs(situation: &Situation<'_>) -> Draft {
    use ConditionType::InputsReady;
    match situation.outcome {
        Outcome::Started | Outcome::Failed(..) | Outcome::Deleting(_) => carried(situation, InputsReady),
        Outcome::Planned(..) | Outcome::NotReady(_) => {
            Draft::holds(InputsReady, Reason::Succeeded, "everything the spec refers to exists")
        }
    }
}

fn config(situation: &Situation<'_>) -> Draft {
    use ConditionType::ConfigReady;
    match &situation.outcome {
        Outcome::Planned(_, applied) if !applied.refused.is_empty() => {
            let (reason, _) = applied.refused[0];
            let messages: Vec<String> = applied.refused.iter().map(|(_, message)| message.clone()).collect();
            Draft::fails(ConfigReady, reason, shorten_messages(&messages))
        }
        Outcome::Planned(plan, applied) if applied.conflicts.is_empty() && applied.pending.is_empty() => {
            Draft::holds(ConfigReady, Reason::Succeeded, format!("{} objects are as planned", plan.objects.len()))
        }
        Outcome::Planned(_, applied) if applied.conflicts.is_empty() => Draft::fails(
            ConfigReady,
            Reason::Paused,
            format!("changes wait until reconciling is resumed: {}", shorten(&applied.pending)),
        ),
        Outcome::Planned(_, applied) => Draft::fails(
            ConfigReady,
            Reason::FieldConflict,
            format!("others hold fields with other values: {}", shorten_messages(&applied.conflicts)),
        ),
        Outcome::Failed(reason, message) => Draft::fails(ConfigReady, *reason, *message),
        Outcome::Started | Outcome::NotReady(_) | Outcome::Deleting(_) => carried(situation, ConfigReady),
    }
}

/// A condition that this pass learned nothing about: as it was, else unknown.
fn carried(situation: &Situation<'_>, kind: ConditionType) -> Draft {
    situation
        .previous
        .and_then(|previous| status::draft(previous, kind))
        .unwrap_or_else(|| Draft::unknown(kind, Reason::NotYetReported, "not looked at yet"))
}

fn workload(situation: &Situation<'_>, facts: &Facts) -> Draft {
    use ConditionType::WorkloadReady;
    if facts.silent {
        return carried(situation, WorkloadReady);
    }
    if !facts.has_workload {
        return match situation.outcome {
            Outcome::Planned(..) => Draft::holds(WorkloadReady, Reason::Succeeded, "the kind runs no pods of its own"),
            _ => Draft::fails(WorkloadReady, Reason::NotYetReported, "the workload does not exist yet"),
        };
    }
    let mut message = facts.count();
    if let Some(pod) = situation.pods.iter().find(|pod| !pod.ready && pod.trouble.is_some()) {
        message = format!("{message}; pod {}: {}", pod.name, pod.trouble.as_deref().unwrap_or_default());
    }
    if let Outcome::Planned(plan, _) = situation.outcome {
        plan.notes.iter().for_each(|note| message = format!("{message}; {note}"));
    }
    if facts.wanted < 1 && facts.settled {
        Draft::fails(WorkloadReady, Reason::NoMatchingNodes, format!("no node matches; {message}"))
    } else if facts.ready < facts.wanted || !facts.settled {
        // One reason for the whole of a bring-up: that it takes its time is no news.
        let reason = if facts.progressing { Reason::Progressing } else { Reason::ReplicasUnavailable };
        Draft::fails(WorkloadReady, reason, message)
    } else if !facts.outdated.is_empty() {
        let pods = shorten(&facts.outdated);
        Draft::fails(WorkloadReady, Reason::RolloutInProgress, format!("{message}; an older template runs in {pods}"))
    } else {
        Draft::holds(WorkloadReady, Reason::Succeeded, message)
    }
}

/// Degraded, and when time alone would change it.
fn degraded(situation: &Situation<'_>, facts: &Facts, drafts: &[Draft]) -> (Draft, Option<Duration>) {
    use ConditionType::{Degraded, Progressing, WorkloadReady};
    let fine = || Draft::fails(Degraded, Reason::Succeeded, "nothing is missing for longer than its deadline");
    if let Outcome::Failed(reason, message) = situation.outcome {
        return (Draft::holds(Degraded, reason, message), None);
    }
    let incomplete = drafts.iter().any(|draft| draft.kind == WorkloadReady && !draft.is_true());
    let (since, deadline, reason) = if facts.progressing {
        (Progressing, ROLLOUT_DEADLINE, Reason::RolloutTimedOut)
    } else if incomplete && facts.initialized {
        (WorkloadReady, MEMBER_DEADLINE, Reason::ReplicasUnavailable)
    } else {
        return (fine(), None);
    };
    let unchanged = |draft: &&Draft| draft.kind == since;
    let same_status = drafts.iter().find(unchanged).map(|draft| draft.status);
    let began =
        situation.previous.and_then(|previous| status::since(previous, since, same_status?)).unwrap_or(situation.now);
    let left = deadline - situation.now.duration_since(began);
    if left > SignedDuration::ZERO {
        return (fine(), Duration::try_from(left).ok());
    }
    let minutes = deadline.as_mins();
    (Draft::holds(Degraded, reason, format!("for more than {minutes} minutes: {}", facts.count())), None)
}

fn component_drafts<'a>(situation: &'a Situation<'_>) -> &'a [Draft] {
    match situation.outcome {
        Outcome::Planned(plan, _) => &plan.drafts,
        Outcome::NotReady(not_ready) => &not_ready.drafts,
        Outcome::Started | Outcome::Failed(..) | Outcome::Deleting(_) => &[],
    }
}

/// Without a plan nothing is known about dependencies and the like: their conditions stay as they were.
fn carry_what_only_plans_know(situation: &Situation<'_>, drafts: &mut Vec<Draft>) {
    let Some(previous) = situation.previous.filter(|_| !matches!(situation.outcome, Outcome::Planned(..))) else {
        return;
    };
    let known = previous.conditions.iter().filter_map(|condition| condition.type_.parse::<ConditionType>().ok());
    for kind in known.filter(|kind| *kind != ConditionType::Ready && !kind.is_abnormal_true()) {
        if drafts.iter().all(|draft| draft.kind != kind) {
            drafts.extend(status::draft(previous, kind));
        }
    }
}

/// Adds Ready and the abnormal-true conditions, which follow from the others.
fn summarise(situation: &Situation<'_>, drafts: &mut Vec<Draft>) {
    use ConditionType::{Deleting, FieldsIgnored, Paused, Progressing, Ready, Reconciling, Stalled};
    let obstacle = obstacle(situation, drafts);
    let ready = match &obstacle {
        Some((reason, message)) => Draft::fails(Ready, *reason, message.clone()),
        None => Draft::holds(Ready, Reason::Succeeded, ready_message(drafts)),
    };
    let stalled = obstacle.as_ref().filter(|_| is_stalled(situation));
    if let Some((reason, message)) = stalled {
        put(drafts, Draft::holds(Stalled, *reason, message.clone()));
    } else if obstacle.is_some() && drafts.iter().any(|draft| draft.kind == Progressing && draft.is_true()) {
        put(drafts, Draft::holds(Reconciling, ready.reason, ready.message.clone()));
    }
    put(drafts, ready);
    if situation.paused {
        put(drafts, Draft::holds(Paused, Reason::Paused, "reconciling is suspended by the resource"));
    }
    if let Outcome::Deleting(message) = situation.outcome {
        put(drafts, Draft::holds(Deleting, Reason::Deleting, message));
    }
    let ignored = match situation.outcome {
        Outcome::Planned(plan, _) => plan.ignored.as_slice(),
        Outcome::NotReady(not_ready) => not_ready.ignored.as_slice(),
        _ => &[],
    };
    if !ignored.is_empty() {
        put(drafts, Draft::holds(FieldsIgnored, Reason::NoEffect, ignored.join("; ")));
    } else if let (Outcome::Started | Outcome::Failed(..), Some(carried)) =
        (&situation.outcome, situation.previous.and_then(|previous| status::draft(previous, FieldsIgnored)))
    {
        put(drafts, carried);
    }
}

fn ready_message(drafts: &[Draft]) -> String {
    let workload = drafts.iter().find(|draft| draft.kind == ConditionType::WorkloadReady);
    workload.map(|draft| draft.message.clone()).unwrap_or_default()
}

/// What keeps the resource from being Ready, the most telling cause first.
fn obstacle(situation: &Situation<'_>, drafts: &[Draft]) -> Option<(Reason, String)> {
    use ConditionType::{Available, ConfigReady, DependenciesReady, InputsReady, Progressing, WorkloadReady};
    match &situation.outcome {
        Outcome::Deleting(message) => return Some((Reason::Deleting, (*message).to_owned())),
        Outcome::Failed(reason, message) => return Some((*reason, (*message).to_owned())),
        Outcome::NotReady(not_ready) => return Some((not_ready.reason, not_ready.message.clone())),
        Outcome::Started => return Some((Reason::Progressing, "the current generation is being looked at".into())),
        Outcome::Planned(plan, _) => {
            if let Some(held) = &plan.held {
                return Some(held.clone());
            }
        }
    }
    let failing = |kind: ConditionType| drafts.iter().find(|draft| draft.kind == kind && !draft.is_true());
    [InputsReady, DependenciesReady, ConfigReady, WorkloadReady, Available]
        .into_iter()
        .find_map(failing)
        .or_else(|| drafts.iter().find(|draft| draft.kind == ConditionType::Degraded && draft.is_true()))
        .or_else(|| drafts.iter().find(|draft| draft.kind == Progressing && draft.is_true()))
        .map(|draft| (draft.reason, draft.message.clone()))
}

fn is_stalled(situation: &Situation<'_>) -> bool {
    match &situation.outcome {
        Outcome::NotReady(not_ready) => not_ready.obstacle == Obstacle::Invalid,
        Outcome::Failed(reason, _) => matches!(reason, Reason::Forbidden | Reason::ImmutableFieldChanged),
        Outcome::Planned(plan, _) => plan.held.as_ref().is_some_and(|(reason, _)| *reason == Reason::InvalidSpec),
        Outcome::Started | Outcome::Deleting(_) => false,
    }
}

fn contract(situation: &Situation<'_>, facts: &Facts, drafts: Vec<Draft>) -> Contract {
    let previous = situation.previous.cloned().unwrap_or_default();
    let is_true = |kind| drafts.iter().any(|draft: &Draft| draft.kind == kind && draft.is_true());
    let ready = is_true(ConditionType::Ready);
    let available = is_true(ConditionType::Available);
    let mut next = Contract {
        observed_generation: situation.generation,
        contract: Some(CONTRACT.into()),
        operator_version: Some(situation.operator.into()),
        initialized: Some(facts.initialized || ready),
        active: Some(available),
        config_changed: Some(facts.initialized && facts.progressing),
        ..previous.clone()
    };
    if facts.has_workload {
        next.replicas = Some(facts.wanted);
        next.ready_replicas = Some(facts.ready);
        next.members_ready = Some(format!("{}/{}", facts.ready, facts.wanted));
        next.degraded = Some(facts.ready < facts.wanted);
        next.nodes = nodes(situation.pods);
    }
    if let Outcome::Planned(plan, _) = situation.outcome {
        plan_facts(&mut next, &previous, plan, available, ready);
    }
    next.conditions = status::merge(&previous.conditions, drafts, situation.generation, situation.now);
    next
}

fn plan_facts(next: &mut Contract, previous: &Contract, plan: &Plan, available: bool, ready: bool) {
    next.members.clone_from(&plan.members);
    next.selector = plan.rollout.as_ref().map(|rollout| rollout.selector.clone());
    let deployed = previous.version.as_ref().and_then(|version| version.deployed.clone());
    let deployed = if ready { Some(plan.version.clone()) } else { deployed };
    next.version = Some(VersionStatus { desired: Some(plan.version.clone()), deployed });
    // Before the first bring-up nobody may take the endpoints for served ones; afterwards they stay, conditions tell.
    if available || previous.initialized == Some(true) {
        next.endpoints.clone_from(&plan.endpoints);
        next.connection_secret_ref = plan.connection.as_ref().map(|(name, _)| NameReference { name: name.clone() });
        let offers = !plan.endpoints.is_empty() || plan.connection.is_some();
        next.connection_hash = offers.then(|| connection_hash(plan));
        next.discovery_config_map_ref = plan.discovery.clone().map(|name| NameReference { name });
    }
}

fn connection_hash(plan: &Plan) -> String {
    let endpoints = serde_json::to_value(&plan.endpoints).unwrap_or_default();
    let secret = plan.connection.as_ref().map(|(_, hash)| hash.as_str()).unwrap_or_default();
    crate::hash::of_value(&serde_json::json!([endpoints, secret]))
}

fn nodes(pods: &[Pod]) -> BTreeMap<String, NodeStatus> {
    if pods.len() > LISTED_PODS {
        return BTreeMap::new();
    }
    let status = |pod: &Pod| NodeStatus { ip: pod.address.clone(), hostname: pod.node.clone() };
    pods.iter().filter(|pod| pod.address.is_some()).map(|pod| (pod.name.clone(), status(pod))).collect()
}

/// Replaces the draft of the same type.
fn put(drafts: &mut Vec<Draft>, draft: Draft) {
    debug_assert!(!draft.kind.is_abnormal_true() || draft.status == ConditionStatus::True);
    drafts.retain(|present| present.kind != draft.kind);
    drafts.push(draft);
}

/// At most five names of a list, with how many more there are.
pub fn shorten(names: &[String]) -> String {
    join(names, ", ")
}

/// At most five sentences of a list, with how many more there are.
pub fn shorten_messages(messages: &[String]) -> String {
    join(messages, "; ")
}

fn join(items: &[String], separator: &str) -> String {
    let shown = items.iter().take(5).cloned().collect::<Vec<_>>().join(separator);
    match items.len().saturating_sub(5) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use tf_api::contract::invariants;

    use super::*;

    fn plan_without_pods() -> Plan {
        let available = Draft::holds(ConditionType::Available, Reason::Succeeded, "all parts are");
        Plan {
            objects: Vec::new(),
            rollout: None,
            members: Vec::new(),
            endpoints: Vec::new(),
            connection: None,
            discovery: None,
            version: "1".into(),
            drafts: vec![available],
            ignored: Vec::new(),
            notes: Vec::new(),
            held: None,
            own_status: Map::new(),
            step: None,
        }
    }

    fn assess_after(previous: Option<&Contract>, outcome: Outcome<'_>) -> Contract {
        let assessment = assess(&Situation {
            generation: 1,
            paused: false,
            previous,
            availability: Availability::Any,
            workloads: &BTreeMap::new(),
            pods: &[],
            operator: "test",
            now: Timestamp::UNIX_EPOCH,
            outcome,
        });
        invariants::check(&assessment.contract, 1).unwrap();
        assessment.contract
    }

    #[test]
    fn a_pass_that_fails_says_nothing_about_the_service_of_a_kind_without_pods() {
        let is = |contract: &Contract, kind, status| status::is(contract, kind, status);
        let fine = assess_after(None, Outcome::Planned(&plan_without_pods(), &Applied::default()));
        assert!(is(&fine, ConditionType::Ready, "True") && is(&fine, ConditionType::Available, "True"));
        for outcome in [Outcome::Started, Outcome::Failed(Reason::ApiError, "a request got lost")] {
            let after = assess_after(Some(&fine), outcome);
            assert!(is(&after, ConditionType::Ready, "False"));
            assert!(is(&after, ConditionType::Available, "True") && is(&after, ConditionType::WorkloadReady, "True"));
        }
    }

    #[test]
    fn conditions_that_only_a_plan_knows_do_not_come_and_go_with_passes_that_have_none() {
        let mut plan = plan_without_pods();
        plan.drafts.push(Draft::fails(ConditionType::ZookeeperReady, Reason::DependencyNotFound, "there is none"));
        let applied = Applied::default();
        let before = assess_after(None, Outcome::Planned(&plan, &applied));
        let invalid = NotReady::invalid(Reason::InvalidSpec, "a mistake");
        let without_plan = [
            Outcome::Started,
            Outcome::Failed(Reason::ApiError, "a request got lost"),
            Outcome::NotReady(&invalid),
            Outcome::Deleting("removing what is left"),
        ];
        for outcome in without_plan {
            let after = assess_after(Some(&before), outcome);
            let kept = status::draft(&after, ConditionType::ZookeeperReady);
            assert_eq!(kept, status::draft(&before, ConditionType::ZookeeperReady));
        }
        let after = assess_after(Some(&before), Outcome::Planned(&plan_without_pods(), &applied));
        assert_eq!(status::draft(&after, ConditionType::ZookeeperReady), None, "a plan knows better");
    }

    #[test]
    fn a_kind_with_pods_whose_workload_is_gone_is_not_available() {
        let fine = assess_after(None, Outcome::Planned(&plan_without_pods(), &Applied::default()));
        let ran = Contract { replicas: Some(3), ..fine };
        let after = assess_after(Some(&ran), Outcome::Failed(Reason::ApiError, "a request got lost"));
        assert!(status::is(&after, ConditionType::Available, "False"));
    }
}
