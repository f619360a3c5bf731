//! The conditions that every resource carries, before the component's own are added.

use std::time::Duration;

use jiff::SignedDuration;
use tf_api::contract::{ConditionType, Draft, Reason};

use super::{Inputs, Outcome, facts::Facts};
use crate::{
    hibernation,
    plan::Plan,
    status,
    text::{shorten, shorten_messages},
};

/// How long a roll-out may go without completing before the resource is Degraded.
const ROLLOUT_DEADLINE: SignedDuration = SignedDuration::from_mins(10);
/// How long members may be missing, without a roll-out that explains it, before the resource is Degraded.
const MEMBER_DEADLINE: SignedDuration = SignedDuration::from_mins(5);
/// How long the API server may refuse pods before the resource is Degraded.
const REFUSAL_DEADLINE: SignedDuration = SignedDuration::from_mins(3);

/// All of them but Degraded.
pub(super) fn base(given: &Inputs<'_>, facts: &Facts) -> Vec<Draft> {
    use ConditionType::{Available, ConfigReady, InputsReady, Progressing, WorkloadReady};
    let mut drafts = vec![inputs(given), config(given), workload(given, facts), upgradeable(given, facts)];
    drafts.push(if facts.serving {
        Draft::holds(Available, Reason::Succeeded, facts.count())
    } else if facts.asleep {
        Draft::fails(Available, Reason::Hibernated, hibernation::EXPLANATION)
    } else if facts.silent {
        carried(given, Available)
    } else if facts.initialized {
        let message = facts.outage.clone().unwrap_or_else(|| facts.count());
        Draft::fails(Available, Reason::ReplicasUnavailable, message)
    } else {
        Draft::fails(Available, Reason::NotYetReported, "the first bring-up is not complete")
    });
    drafts.push(if facts.progressing {
        let reason = if facts.initialized { Reason::RolloutInProgress } else { Reason::Progressing };
        Draft::holds(Progressing, reason, progress(given, facts))
    } else {
        Draft::fails(Progressing, Reason::Succeeded, "no roll-out is under way")
    });
    debug_assert!(drafts.iter().any(|draft| draft.kind == InputsReady));
    debug_assert!(drafts.iter().any(|draft| draft.kind == ConfigReady));
    debug_assert!(drafts.iter().any(|draft| draft.kind == WorkloadReady));
    drafts
}

/// An upgrade replaces one pod after the other: it begins when nothing else is under way and every member is there.
fn upgradeable(given: &Inputs<'_>, facts: &Facts) -> Draft {
    use ConditionType::Upgradeable;
    let blocked = |why: String| Draft::fails(Upgradeable, Reason::UpgradeBlocked, why);
    match &given.outcome {
        Outcome::Started | Outcome::Failed(..) | Outcome::Deleting(_) => carried(given, Upgradeable),
        Outcome::NotReady(_) => blocked("the spec is not carried out; see Ready".into()),
        Outcome::Planned(..) if facts.progressing => {
            blocked("a rollout is under way; wait until Progressing is False".into())
        }
        Outcome::Planned(..) if facts.has_workload && !facts.asleep && facts.ready < facts.wanted => {
            blocked(format!("{}; wait until all are", facts.count()))
        }
        Outcome::Planned(..) => Draft::holds(Upgradeable, Reason::Succeeded, "nothing forbids an upgrade"),
    }
}

fn progress(given: &Inputs<'_>, facts: &Facts) -> String {
    match &given.outcome {
        Outcome::Planned(..) if facts.asleep => {
            format!("it goes to sleep: {} pods are being stopped", given.pods.len())
        }
        Outcome::Started => "the current generation is being looked at".into(),
        Outcome::NotReady(not_ready) => not_ready.message.clone(),
        Outcome::Failed(_, message) => (*message).to_owned(),
        Outcome::Planned(..) | Outcome::Deleting(_) => facts.count(),
    }
}

fn inputs(given: &Inputs<'_>) -> Draft {
    use ConditionType::InputsReady;
    match given.outcome {
        Outcome::Started | Outcome::Failed(..) | Outcome::Deleting(_) => carried(given, InputsReady),
        Outcome::Planned(..) | Outcome::NotReady(_) => {
            Draft::holds(InputsReady, Reason::Succeeded, "everything the spec refers to exists")
        }
    }
}

fn config(given: &Inputs<'_>) -> Draft {
    use ConditionType::ConfigReady;
    match &given.outcome {
        Outcome::Planned(_, applied) if !applied.refused.is_empty() => {
            let (reason, _) = applied.refused[0];
            let messages: Vec<String> = applied.refused.iter().map(|(_, message)| message.clone()).collect();
            Draft::fails(ConfigReady, reason, shorten_messages(&messages))
        }
        Outcome::Planned(_, applied) if !applied.conflicts.is_empty() => Draft::fails(
            ConfigReady,
            Reason::FieldConflict,
            format!(
                "other field managers hold fields with other values: {}; state their values, or have them give the fields up",
                shorten_messages(&applied.conflicts)
            ),
        ),
        Outcome::Planned(_, applied) if !applied.leaving.is_empty() => Draft::fails(
            ConfigReady,
            Reason::Progressing,
            format!("being deleted, and recreated when gone: {}", shorten(&applied.leaving)),
        ),
        Outcome::Planned(_, applied) if !applied.pending.is_empty() => Draft::fails(
            ConfigReady,
            Reason::Paused,
            format!("changes wait until reconciling is resumed: {}", shorten(&applied.pending)),
        ),
        Outcome::Planned(plan, _) => {
            Draft::holds(ConfigReady, Reason::Succeeded, format!("{} objects are as planned", plan.objects.len()))
        }
        Outcome::Failed(reason, message) => Draft::fails(ConfigReady, *reason, *message),
        Outcome::Started | Outcome::NotReady(_) | Outcome::Deleting(_) => carried(given, ConfigReady),
    }
}

/// A condition that this pass learned nothing about: as it was, else unknown.
fn carried(given: &Inputs<'_>, kind: ConditionType) -> Draft {
    given
        .previous
        .and_then(|previous| status::draft(previous, kind))
        .unwrap_or_else(|| Draft::unknown(kind, Reason::NotYetReported, "not looked at yet"))
}

fn workload(given: &Inputs<'_>, facts: &Facts) -> Draft {
    use ConditionType::WorkloadReady;
    if facts.silent {
        return carried(given, WorkloadReady);
    }
    if !facts.has_workload {
        return match given.outcome {
            Outcome::Planned(..) => Draft::holds(WorkloadReady, Reason::Succeeded, "the kind runs no pods of its own"),
            _ => Draft::fails(WorkloadReady, Reason::NotYetReported, "the workload does not exist yet"),
        };
    }
    if facts.asleep {
        return Draft::fails(WorkloadReady, Reason::Hibernated, hibernated(given));
    }
    let mut message = facts.count();
    if let Some(which) = unwell(given, facts) {
        message = format!("{message}; {which}");
    }
    let unelected = given.unelected();
    if let Some(unelected) = unelected {
        message = format!("{message}; {unelected}");
    }
    if let Outcome::Planned(plan, _) = given.outcome {
        plan.notes.iter().for_each(|note| message = format!("{message}; {note}"));
    }
    if let Some(refusal) = refusal(given) {
        return Draft::fails(WorkloadReady, Reason::AdmissionDenied, format!("{refusal}; {message}"));
    }
    if facts.wanted < 1 && facts.settled {
        Draft::fails(WorkloadReady, Reason::NoMatchingNodes, format!("no node matches; {message}"))
    } else if facts.ready < facts.wanted || !facts.settled {
        // One reason for the whole of a bring-up: that it takes its time is no news.
        if facts.progressing {
            return Draft::fails(WorkloadReady, Reason::Progressing, message);
        }
        if let Some(shortage) = shortage(given) {
            message = format!("{message}; {shortage}");
        }
        Draft::fails(WorkloadReady, Reason::ReplicasUnavailable, message)
    } else if unelected.is_some() {
        Draft::fails(WorkloadReady, Reason::NoLeader, message)
    } else if let Outcome::Planned(Plan { under_way: Some(under_way), .. }, _) = given.outcome {
        Draft::fails(WorkloadReady, Reason::RolloutInProgress, format!("{message}; {under_way}"))
    } else if !facts.outdated.is_empty() {
        let pods = shorten(&facts.outdated);
        Draft::fails(WorkloadReady, Reason::RolloutInProgress, format!("{message}; an older template runs in {pods}"))
    } else if let Some(shortage) = shortage(given) {
        Draft::fails(WorkloadReady, Reason::DependencyUnreachable, format!("{message}; {shortage}"))
    } else {
        Draft::holds(WorkloadReady, Reason::Succeeded, message)
    }
}

/// What the API server says of pods that it refuses, and what ends that (Kubernetes, "Pod Security Admission", "Resource Quotas"; OpenShift, "Managing
/// security context constraints").
fn refusal(given: &Inputs<'_>) -> Option<String> {
    let (name, words) = given.workloads.iter().find_map(|(name, workload)| Some((name, workload.refusal.as_ref()?)))?;
    let remedy = if words.contains("violates PodSecurity") {
        "label the namespace pod-security.kubernetes.io/enforce=privileged: members use the network and folders of their node"
    } else if words.contains("quota: ") {
        "raise or delete that quota"
    } else if words.contains("security context constraint") {
        "grant the ServiceAccount of the pods a SecurityContextConstraints with host network and host folders"
    } else {
        "change what refuses them, or the spec"
    };
    Some(format!("the API server refuses pods of {name}: {words}; {remedy}"))
}

/// What is said of a resource that hibernates.
fn hibernated(given: &Inputs<'_>) -> String {
    let mut message = hibernation::EXPLANATION.to_owned();
    if let Outcome::Planned(plan, _) = given.outcome {
        plan.notes.iter().for_each(|note| message = format!("{message}; {note}"));
    }
    message
}

/// A pod that serves without something that it should have.
fn shortage(given: &Inputs<'_>) -> Option<String> {
    let (_, shortages) = given.unwell()?;
    shortages.first_key_value().map(|(pod, lacks)| format!("pod {pod}: {lacks}"))
}

/// A pod that fails with the cause, or else those that are not ready without a known cause: that is news where no roll-out explains it. The name of a
/// DaemonSet's pod does not say which node it is on.
fn unwell(given: &Inputs<'_>, facts: &Facts) -> Option<String> {
    let unready = || given.pods.iter().filter(|pod| !pod.ready);
    let seen = unready().find_map(|pod| {
        let (trouble, node) = (pod.trouble.clone()?, pod.node.as_ref().filter(|_| pod.ordinal().is_none()));
        Some((&pod.name, node.map_or_else(|| trouble.clone(), |node| format!("node {node}: {trouble}"))))
    });
    let reported = || {
        let (pod, trouble) = given.unwell()?.0.first_key_value()?;
        Some((pod, trouble.clone()))
    };
    if let Some((pod, trouble)) = seen.or_else(reported) {
        return Some(format!("pod {pod}: {trouble}"));
    }
    let names: Vec<String> = unready().map(|pod| pod.name.clone()).collect();
    (!facts.progressing && !names.is_empty()).then(|| format!("not ready: {}", shorten(&names)))
}

/// Degraded, and when time alone would change it.
pub(super) fn degraded(given: &Inputs<'_>, facts: &Facts, drafts: &[Draft]) -> (Draft, Option<Duration>) {
    use ConditionType::{Degraded, Progressing, WorkloadReady};
    let fine = || Draft::fails(Degraded, Reason::Succeeded, "nothing is missing for longer than its deadline");
    if let Outcome::Failed(reason, message) = given.outcome {
        return (Draft::holds(Degraded, reason, message), None);
    }
    // Its controller tries again, and no rollout explains it.
    let refusal = refusal(given).filter(|_| !facts.asleep);
    let incomplete = drafts.iter().any(|draft| draft.kind == WorkloadReady && !draft.is_true());
    let (since, deadline, reason) = if refusal.is_some() {
        (WorkloadReady, REFUSAL_DEADLINE, Reason::AdmissionDenied)
    } else if facts.progressing {
        (Progressing, ROLLOUT_DEADLINE, Reason::RolloutTimedOut)
    } else if incomplete && facts.initialized && !facts.asleep {
        (WorkloadReady, MEMBER_DEADLINE, Reason::ReplicasUnavailable)
    } else {
        return (fine(), None);
    };
    let unchanged = |draft: &&Draft| draft.kind == since;
    let same_status = drafts.iter().find(unchanged).map(|draft| draft.status);
    let began = given.previous.and_then(|previous| status::since(previous, since, same_status?)).unwrap_or(given.now);
    let left = deadline - given.now.duration_since(began);
    if left > SignedDuration::ZERO {
        return (fine(), Duration::try_from(left).ok());
    }
    let minutes = deadline.as_mins();
    let mut message = format!("for more than {minutes} minutes: {}", facts.count());
    // What takes long is not always what lacks.
    if let Some(refusal) = refusal {
        message = format!("{message}; {refusal}");
    } else if let Outcome::Planned(Plan { under_way: Some(under_way), .. }, _) = given.outcome {
        message = format!("{message}; {under_way}");
    }
    (Draft::holds(Degraded, reason, message), None)
}
