//! Which pod is brought up to date now, if any: what an ensemble adds to the engine that all components share.

use tf_api::contract::MemberStatus;
pub use tf_plan::rollout::Change;
use tf_plan::{rollout, step::Target};

use super::{Decision, Inputs, QuorumState, Step};

/// A pod of the StatefulSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSlot {
    /// Its ordinal.
    pub ordinal: usize,
    /// Its name.
    pub pod: String,
    /// Its uid.
    pub uid: String,
    /// Its node, once scheduled.
    pub node: Option<String>,
    /// Whether the kubelet finds that it serves.
    pub ready: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// What of it is not current.
    pub change: Option<Change>,
}

/// Brings a pod up to date if the ensemble can bear it. `settled`: the membership is as wanted.
pub fn roll(inputs: &Inputs<'_>, view: &QuorumState<'_>, settled: bool, decision: &mut Decision) {
    if let Some(slot) = misplaced(inputs, &decision.members) {
        // No vote is lost: who has one is recorded.
        decision.step = Some(restart(slot, "its node carries no member any more"));
        return;
    }
    let member = |slot: &PodSlot| {
        let member = view.recorded.iter().find(|member| Some(&member.node) == slot.node.as_ref());
        member.map(|member| member.id)
    };
    let slots = slots(inputs, |slot| {
        let id = member(slot);
        let is_legacy = id.is_some_and(|id| inputs.foreign.contains_key(&id));
        rollout::PodSlot {
            // An agent that does not answer says nothing about the server, and a kubelet that died neither. The probe of a
            // foreign pod knows nothing of the quorum.
            serves: slot.ready && !is_legacy || id.is_some_and(|id| view.serving.contains(&id)),
            last: id.is_some_and(|id| view.leader == Some(id)),
            ..by_kubelet(slot)
        }
    });
    let change = || (!settled).then(|| "the membership is being changed".to_owned());
    match rollout::next(&slots, || change().or_else(|| view.fragile())) {
        rollout::Decision::Done => {}
        rollout::Decision::Hold(why) => decision.waits.push(why),
        due => decision.step = step(due),
    }
}

/// Without a quorum nothing can be agreed on. A pod that is not up to date may be why.
pub fn without_quorum(inputs: &Inputs<'_>, recorded: Vec<MemberStatus>) -> Decision {
    let mut decision =
        Decision { highest: inputs.highest, leaving: inputs.leaving.clone(), members: recorded, ..Decision::default() };
    let silent: Vec<String> = decision
        .members
        .iter()
        .filter(|member| !inputs.facts.get(&member.id).is_some_and(|facts| facts.serving))
        .map(|member| format!("{} ({})", member.id, member.node))
        .collect();
    decision.waits.push(format!("no quorum: members {} do not serve", silent.join(", ")));
    let slots = slots(inputs, by_kubelet);
    // Whoever is down and outdated may be why; others are not touched before there is a quorum.
    let due = match rollout::disturbed(&slots) {
        Some(_) => rollout::Decision::Done,
        None => rollout::next(&slots, || Some("no member is ready".to_owned())),
    };
    decision.step = step(due);
    decision
}

fn slots<'a>(inputs: &Inputs<'a>, slot: impl Fn(&'a PodSlot) -> rollout::PodSlot<'a>) -> Vec<rollout::PodSlot<'a>> {
    inputs.slots.iter().map(slot).collect()
}

/// A pod as the kubelet has it.
fn by_kubelet(slot: &PodSlot) -> rollout::PodSlot<'_> {
    let PodSlot { pod, uid, ready, terminating, change, .. } = slot;
    rollout::PodSlot {
        pod,
        uid,
        serves: *ready,
        terminating: *terminating,
        change: *change,
        ..rollout::PodSlot::default()
    }
}

fn step(due: rollout::Decision) -> Option<Step> {
    match due {
        rollout::Decision::Restart(Target { pod, uid, why }) => Some(Step::Restart { pod, uid, why }),
        rollout::Decision::Activate(Target { pod, uid, .. }) => Some(Step::Activate { pod, uid }),
        // A server is told of its certificate while it runs, so nobody is started anew for it.
        rollout::Decision::Renew(_) | rollout::Decision::Done | rollout::Decision::Hold(_) => None,
    }
}

/// A pod on a node that has no member, while a member's node waits for one.
fn misplaced<'a>(inputs: &Inputs<'a>, members: &[MemberStatus]) -> Option<&'a PodSlot> {
    let elsewhere = |slot: &&PodSlot| match &slot.node {
        Some(node) => members.iter().all(|member| member.node != *node),
        None => false,
    };
    inputs.slots.iter().filter(|slot| !slot.terminating && slot.ordinal < members.len()).find(elsewhere)
}

fn restart(slot: &PodSlot, why: &str) -> Step {
    Step::Restart { pod: slot.pod.clone(), uid: slot.uid.clone(), why: why.to_owned() }
}
