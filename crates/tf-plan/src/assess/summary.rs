//! The conditions that follow from the others: Ready, and those that are only ever True.

use tf_api::contract::{ConditionType, Draft, Reason};

use super::{Inputs, Outcome, facts::Facts, put};
use crate::{hibernation, not_ready::Obstacle, status};

/// Adds them.
pub(super) fn add(given: &Inputs<'_>, facts: &Facts, drafts: &mut Vec<Draft>) {
    use ConditionType::{Deleting, FieldsIgnored, Hibernated, Paused, Progressing, Ready, Reconciling, Stalled};
    let obstacle = obstacle(given, drafts);
    let ready = match &obstacle {
        Some((reason, message)) => Draft::fails(Ready, *reason, message.clone()),
        None => Draft::holds(Ready, Reason::Succeeded, ready_message(drafts)),
    };
    let stalled = obstacle.as_ref().filter(|_| is_stalled(given));
    if let Some((reason, message)) = stalled {
        put(drafts, Draft::holds(Stalled, *reason, message.clone()));
    } else if obstacle.is_some() && drafts.iter().any(|draft| draft.kind == Progressing && draft.is_true()) {
        put(drafts, Draft::holds(Reconciling, ready.reason, ready.message.clone()));
    }
    put(drafts, ready);
    if given.paused {
        put(drafts, Draft::holds(Paused, Reason::Paused, "reconciling is suspended by the resource"));
    }
    if facts.asleep {
        put(drafts, Draft::holds(Hibernated, Reason::Hibernated, hibernation::EXPLANATION));
    }
    if let Outcome::Deleting(message) = given.outcome {
        put(drafts, Draft::holds(Deleting, Reason::Deleting, message));
    }
    let (ignored, unknown): (&[String], &[String]) = match given.outcome {
        Outcome::Planned(plan, applied) => (&plan.ignored, &applied.unknown),
        Outcome::NotReady(not_ready) => (&not_ready.ignored, &[]),
        _ => (&[], &[]),
    };
    let ignored = [ignored, unknown].concat();
    if !ignored.is_empty() {
        put(drafts, Draft::holds(FieldsIgnored, Reason::NoEffect, ignored.join("; ")));
    } else if let (Outcome::Started | Outcome::Failed(..), Some(carried)) =
        (&given.outcome, given.previous.and_then(|previous| status::draft(previous, FieldsIgnored)))
    {
        put(drafts, carried);
    }
}

fn ready_message(drafts: &[Draft]) -> String {
    let workload = drafts.iter().find(|draft| draft.kind == ConditionType::WorkloadReady);
    workload.map(|draft| draft.message.clone()).unwrap_or_default()
}

/// What keeps the resource from being Ready, the most telling cause first.
fn obstacle(given: &Inputs<'_>, drafts: &[Draft]) -> Option<(Reason, String)> {
    use ConditionType::{
        Available, ConfigReady, DependenciesReady, InputsReady, Progressing, Provisioned, WorkloadReady,
    };
    match &given.outcome {
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
    let serves_unregistered = matches!(given.outcome, Outcome::Planned(plan, _) if plan.serves_unregistered);
    let failing = |kind: ConditionType| drafts.iter().find(|draft| draft.kind == kind && !draft.is_true());
    let unregistered = || failing(Provisioned).filter(|_| !serves_unregistered);
    // What it needs is needed by servers that run.
    let asleep = failing(WorkloadReady).filter(|draft| draft.reason == Reason::Hibernated);
    let asleep = asleep.filter(|_| failing(ConfigReady).is_none());
    asleep
        .or_else(|| [InputsReady, DependenciesReady, ConfigReady].into_iter().find_map(failing))
        // Members that are not registered do not serve, and say less of why.
        .or_else(|| unregistered().filter(|draft| draft.reason == Reason::ProvisioningFailed))
        .or_else(|| [WorkloadReady, Available].into_iter().find_map(failing))
        .or_else(unregistered)
        .or_else(|| drafts.iter().find(|draft| draft.kind == ConditionType::Degraded && draft.is_true()))
        .or_else(|| drafts.iter().find(|draft| draft.kind == Progressing && draft.is_true()))
        .map(|draft| (draft.reason, draft.message.clone()))
}

fn is_stalled(given: &Inputs<'_>) -> bool {
    match &given.outcome {
        Outcome::NotReady(not_ready) => not_ready.obstacle == Obstacle::Invalid,
        Outcome::Failed(reason, _) => matches!(reason, Reason::Forbidden | Reason::ImmutableFieldChanged),
        Outcome::Planned(plan, _) => plan.held.as_ref().is_some_and(|(reason, _)| *reason == Reason::InvalidSpec),
        Outcome::Started | Outcome::Deleting(_) => false,
    }
}
