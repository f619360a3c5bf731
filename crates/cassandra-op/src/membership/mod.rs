//! Who belongs to the ring, on how many members each row is, and the one request that brings both nearer to what is wanted.
//!
//! Servers say whom they have in their ring and on how many members each keyspace is to be, agents say which keyspaces were repaired since; that and who is
//! marked as leaving decide, so an operator that is killed at any moment goes on where the world stands (ADR 0028,
//! docs/upstream/cassandra.md#changes-of-size):
//!
//! - replicate: each row is to be on every member. The number changes by one, after each member has repaired what it holds, and then each
//!   repairs again: so a quorum always meets what an earlier quorum wrote.
//! - grow: when all that is done, and every pod runs the image that a new one would, one more member is recorded, gets a pod and fetches its part of the data.
//! - take back: whoever is one too many, has not joined and does not run is marked and struck off, whatever else waits for it.
//! - shrink: rows are first to be on one member less. Then the member on the highest ordinal, since a StatefulSet takes no other, is marked, hands over
//!   what it holds, leaves, is struck off the record, and its pod goes.
//! - retry: whoever began to hand over and could not is restarted, while no other one is away: until then its server takes part in nothing else.
//! - return: whoever left and is wanted again begins anew under another identity.
//! - replace: the member whose node is gone, or whose disk is empty, is marked; those that stay repair with each other, and one of them takes it out of the
//!   ring; it is struck off, and a new one takes its place, which fetches its data and repairs it (ADR 0065).

#[cfg(test)]
mod model;
mod replication;
mod view;

use std::time::Duration;

use jiff::Timestamp;
use tf_agent_api::cassandra::Change;
use tf_api::contract::MemberStatus;
use tf_plan::{
    observed::Node,
    reports::Reports,
    resize::{Capacity, Decision, Record},
    step::{Step, Target},
};

pub use self::view::LEAVING;
use self::view::{MemberState, RingState};
use crate::procedure;

/// Everything the decision rests on.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// Who is wanted, who is there, and where there is room.
    pub capacity: Capacity<'a>,
    /// What the status keeps of them.
    pub record: &'a Record,
    /// The pods, with what their agents say.
    pub reports: &'a Reports<'a>,
    /// All nodes of the Kubernetes cluster, whether they match or not.
    pub nodes: &'a [Node],
    /// The image that the servers of new pods are of.
    pub image: Option<&'a str>,
    /// The present.
    pub now: Timestamp,
}

impl Inputs<'_> {
    /// What is not as it should be, but for some members.
    fn fragile(&self, without: &[&MemberStatus]) -> Option<String> {
        procedure::fragile(self.capacity.members, self.reports, without)
    }
}

/// Decides.
pub fn decide(inputs: &Inputs<'_>) -> Decision {
    let decision = due(inputs);
    let is_idle = decision.step.is_none() && decision.record == *inputs.record;
    match procedure::routine(inputs.capacity.members, inputs.reports).filter(|_| !is_idle) {
        None => decision.explained(inputs.record),
        waits => Decision { record: inputs.record.clone(), step: None, waits },
    }
}

/// When something may be due although nothing happens.
pub fn again(members: &[MemberStatus], reports: &Reports<'_>, now: Timestamp) -> Option<Duration> {
    let answering = procedure::answering(members, reports);
    answering.iter().filter_map(|(_, facts)| replication::pause(facts, now)?.try_into().ok()).min()
}

fn due(inputs: &Inputs<'_>) -> Decision {
    let view = RingState::of(inputs);
    let members = inputs.capacity.members;
    let record = inputs.record.clone();
    let mut decision = Decision { record, waits: procedure::busy(members, inputs.reports), ..Decision::default() };
    if decision.waits.is_some() {
        return decision;
    }
    if let Some(stuck) = view.all.iter().find(|seen| view.is_stuck(seen)) {
        retry(stuck, &view, &mut decision);
    } else if let Some(leaver) = view.all.iter().find(|seen| decision.record.is_leaving(seen.member.id)) {
        release(leaver, &view, &mut decision);
    } else if let Some(lost) = view.all.iter().find(|seen| view.is_lost(seen)) {
        mark(lost, &view, &mut decision);
    } else if let Some(outcast) = view.all.iter().find(|seen| view.is_outcast(seen)) {
        decision.record.leaving.push(outcast.member.id);
    } else if let Some(back) = view.all.iter().find(|seen| seen.has_left_before()) {
        decision.step = back.pod.map(|pod| Step::Restart(Target::of(pod, "it left the ring and is wanted again")));
    } else if let Some(leaver) = view.all.iter().find(|seen| inputs.capacity.is_one_too_many(seen.member)) {
        shrink(leaver, &view, &mut decision);
    } else if let Some(place) = inputs.capacity.free_place().filter(|_| view.has_room()) {
        grow(place, &view, &mut decision);
    } else if view.all_facts().is_some() {
        // One that does not tell for a moment is no change that goes on.
        replicate(members.len(), &view, &mut decision);
    }
    // What failed long ago is over where everybody tells and nothing is left to do: nobody waits for it.
    let is_over = decision.step.is_some() || view.all_facts().is_some();
    decision.waits = decision.waits.or_else(|| (!is_over).then(|| view.failure()).flatten());
    decision
}

/// Has a member begin anew that could not hand over what it holds, while no other one is away: it serves as long.
fn retry(stuck: &MemberState<'_>, view: &RingState<'_>, decision: &mut Decision) {
    let MemberStatus { id, node, .. } = stuck.member;
    match view.torn_without(stuck) {
        Some(why) => {
            decision.waits =
                Some(format!("member {id} on node {node} could not be decommissioned and starts again: {why}"));
        }
        None => {
            decision.step = stuck.pod.map(|pod| Step::Restart(Target::of(pod, "it could not hand over what it holds")));
        }
    }
}

/// Has each row be on so many members. Gives back whether it is.
fn replicate(count: usize, view: &RingState<'_>, decision: &mut Decision) -> bool {
    match replication::next(count, view) {
        None => return true,
        Some(Ok(step)) => decision.step = Some(step),
        Some(Err(why)) => decision.waits = Some(why),
    }
    false
}

fn grow(place: &Node, view: &RingState<'_>, decision: &mut Decision) {
    if !replicate(view.all.len(), view, decision) {
        return;
    }
    // Of another release than the others it could not join, and they would wait for it before they are brought up to date.
    let inputs = view.inputs;
    match inputs.fragile(&[]).or_else(|| procedure::outdated(inputs.image?, inputs.reports)) {
        Some(why) => decision.waits = Some(format!("node {} is to join: {why}", place.name)),
        None => decision.record.add(place),
    }
}

fn shrink(leaver: &MemberState<'_>, view: &RingState<'_>, decision: &mut Decision) {
    if view.is_outside(leaver) && view.listed_by_others(leaver) == Some(false) && leaver.is_idle() {
        decision.record.leaving.push(leaver.member.id);
        return;
    }
    decision.waits = view.placed_on_more_than(view.all.len() - 1);
    if decision.waits.is_none() && replicate(view.all.len() - 1, view, decision) {
        mark(leaver, view, decision);
    }
}

/// Marks a member, before anything is asked for.
fn mark(leaver: &MemberState<'_>, view: &RingState<'_>, decision: &mut Decision) {
    let MemberStatus { id, node, .. } = leaver.member;
    let runs = leaver.says().is_some();
    let fragile = if runs { view.inputs.fragile(&[]) } else { view.cannot_lose(leaver) };
    match fragile {
        Some(why) => decision.waits = Some(format!("member {id} on node {node} is to leave: {why}")),
        None => decision.record.leaving.push(*id),
    }
}

/// Lets a member go that is marked: it leaves or is taken out, and is struck off when nobody has it in the ring any more.
fn release(leaver: &MemberState<'_>, view: &RingState<'_>, decision: &mut Decision) {
    let MemberStatus { id, node, .. } = leaver.member;
    let is_lost = view.is_lost(leaver);
    let is_wanted = !is_lost && !view.inputs.capacity.is_one_too_many(leaver.member);
    let waits = match (view.listed_by_others(leaver), leaver.says()) {
        (None, None) => view.unclear(),
        // It may be about to join.
        (Some(false), None) if !leaver.is_idle() => "its server starts".to_owned(),
        (Some(false), None) => {
            decision.waits = decision.record.strike_off(leaver.member, &view.inputs.capacity).err();
            return;
        }
        // A client may have made a keyspace meanwhile that is to be on all of them.
        (_, Some(facts)) if is_wanted || facts.keyspaces.values().any(|factor| *factor as usize >= view.all.len()) => {
            return decision.record.unmark(*id);
        }
        (_, Some(_)) => match (view.inputs.fragile(&[]), leaver.pod) {
            (None, Some(pod)) => {
                decision.step = Some(procedure::ask(
                    pod,
                    Change::Decommission,
                    format!("member {id} on node {node} hands over what it holds"),
                ));
                return;
            }
            // Others may have to be seen to first.
            (why, _) => {
                decision.record.unmark(*id);
                why.unwrap_or_else(|| "its server runs, and it has no pod".to_owned())
            }
        },
        (Some(true), None) if is_lost => match take_out(leaver, view) {
            Err(why) => why,
            Ok(step) => {
                decision.step = Some(step);
                return;
            }
        },
        (Some(true), None) if leaver.has_left() => "the other members do not have it in gossip yet".to_owned(),
        (Some(true), None) if is_wanted => return decision.record.unmark(*id),
        (Some(true), None) => "its server does not answer".to_owned(),
    };
    decision.waits = Some(format!("member {id} on node {node} leaves: {waits}"));
}

/// Has others take a member out of the ring, when what they hold is alike.
fn take_out(lost: &MemberState<'_>, view: &RingState<'_>) -> Result<Step, String> {
    if let Some(why) = view.cannot_lose(lost) {
        return Err(why);
    }
    let removal = view.remove(lost).ok_or("the other members still see its server as UP")?;
    replication::without(lost, view).unwrap_or(Ok(removal))
}
