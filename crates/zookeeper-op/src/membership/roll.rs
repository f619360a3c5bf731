//! Which pod is brought up to date now, if any.
//!
//! One that is down goes first, since a restart cannot make it worse and its old template may be what breaks it. Others go one
//! at a time while everybody serves, the leader last: it is moved once (stateful-services 1.1.5).

use tf_api::contract::MemberStatus;

use super::{Decision, Situation, Step, View};

/// What of a pod is not current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its template: it has to be made anew.
    Template,
    /// The configuration its agent has activated.
    Configuration,
    /// Nothing any more: its agent was told to change over and has not done so yet.
    UnderWay,
}

/// A pod of the StatefulSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
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
pub fn roll(situation: &Situation<'_>, view: &View<'_>, settled: bool, decision: &mut Decision) {
    // An agent that does not answer says nothing about the server, and a kubelet that died neither.
    let serves = |seat: &Seat| {
        seat.ready || member_of(seat, view.recorded).is_some_and(|member| view.serving.contains(&member.id))
    };
    if let Some(seat) = misplaced(situation, &decision.members) {
        // No vote is lost: who has one is recorded.
        decision.step = Some(restart(seat, "its node carries no member any more"));
        return;
    }
    if let Some(seat) = outdated(situation).find(|seat| !serves(seat) && !seat.terminating) {
        decision.step = Some(update(seat, "it does not serve and is not up to date"));
        return;
    }
    let mut turn: Vec<&Seat> = outdated(situation).collect();
    if turn.is_empty() {
        // The last one that was told may not have begun yet.
        decision.waits.extend(disturbed(situation));
        return;
    }
    let obstacle = if settled { None } else { Some("the membership is being changed".to_owned()) };
    let obstacle = obstacle.or_else(|| disturbed(situation)).or_else(|| view.fragile());
    if let Some(why) = obstacle {
        decision.waits.push(format!("{} pods are not up to date, none is touched now: {why}", turn.len()));
        return;
    }
    let leads = |seat: &Seat| member_of(seat, view.recorded).is_some_and(|member| view.leader == Some(member.id));
    turn.sort_by_key(|seat| (leads(seat), std::cmp::Reverse(seat.ordinal)));
    decision.step = turn.first().map(|seat| update(seat, "it is not up to date"));
}

/// Without a quorum nothing can be agreed on. A pod that is not up to date may be why.
pub fn without_quorum(situation: &Situation<'_>, recorded: Vec<MemberStatus>) -> Decision {
    let mut decision = Decision {
        highest: situation.highest,
        leaving: situation.leaving.clone(),
        members: recorded,
        ..Decision::default()
    };
    let silent: Vec<String> = decision
        .members
        .iter()
        .filter(|member| !situation.facts.get(&member.id).is_some_and(|facts| facts.serving))
        .map(|member| format!("{} ({})", member.id, member.node))
        .collect();
    decision.waits.push(format!("no quorum: members {} do not serve", silent.join(", ")));
    let one_at_a_time = disturbed(situation).is_none();
    decision.step = outdated(situation)
        .find(|seat| !seat.ready)
        .filter(|_| one_at_a_time)
        .map(|seat| update(seat, "nobody serves and it is not up to date"));
    decision
}

/// A pod on a node that has no member, while a member's node waits for one.
fn misplaced<'a>(situation: &Situation<'a>, members: &[MemberStatus]) -> Option<&'a Seat> {
    let elsewhere = |seat: &&Seat| match &seat.node {
        Some(node) => members.iter().all(|member| member.node != *node),
        None => false,
    };
    situation.seats.iter().filter(|seat| !seat.terminating && seat.ordinal < members.len()).find(elsewhere)
}

/// The disturbance by us that is not over yet.
fn disturbed(situation: &Situation<'_>) -> Option<String> {
    let under_way = |seat: &&Seat| seat.terminating || seat.change == Some(Change::UnderWay);
    let seat = situation.seats.iter().find(under_way)?;
    let what = if seat.terminating { "is terminating" } else { "has not taken its configuration yet" };
    Some(format!("pod {} {what}", seat.pod))
}

fn outdated<'a>(situation: &Situation<'a>) -> impl Iterator<Item = &'a Seat> {
    let is_due = |seat: &&Seat| matches!(seat.change, Some(Change::Template | Change::Configuration));
    situation.seats.iter().rev().filter(is_due)
}

fn member_of<'a>(seat: &Seat, members: &'a [MemberStatus]) -> Option<&'a MemberStatus> {
    members.iter().find(|member| Some(&member.node) == seat.node.as_ref())
}

fn update(seat: &Seat, why: &str) -> Step {
    match seat.change {
        Some(Change::Configuration) => Step::Activate { pod: seat.pod.clone(), uid: seat.uid.clone() },
        Some(Change::Template | Change::UnderWay) | None => restart(seat, why),
    }
}

fn restart(seat: &Seat, why: &str) -> Step {
    Step::Restart { pod: seat.pod.clone(), uid: seat.uid.clone(), why: why.to_owned() }
}
