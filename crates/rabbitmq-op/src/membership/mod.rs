//! Who belongs to the cluster, and the one request that brings it nearer to who is wanted.
//!
//! RabbitMQ's servers say whom they take for their cluster and who of them runs; that, who is marked as leaving, and where the pods are
//! decide, so an operator that is killed at any moment goes on where the world stands (ADR 0026, docs/upstream/rabbitmq.md#changes-of-size):
//!
//! - grow: a member is recorded, gets a pod, and joins by itself; then the next one is ([`one_by_one`]).
//! - shrink: the member on the highest ordinal, since a StatefulSet takes no other, is marked; it leaves while its process runs on;
//!   another one forgets it; when nobody has it in the cluster any more it is struck off the record, and only then its pod goes.
//! - replace: the member whose node is gone is marked and forgotten, and another node takes its place in the record.
//! - mend: a node that is of no member and does not run is forgotten, and so is a member that lost its data, since it cannot join
//!   while the others count on what it had. In a cluster that lacks nothing one member after the other takes part in quorum queues that are on too
//!   few: servers do not do so by themselves when one joins (docs/upstream/rabbitmq.md#quorum-queues).
//!
//! The mark is the one thing that is remembered. A member that was forgotten cannot come back with its data: whoever carries the mark was
//! forgotten by us, and begins anew under another identity if it is wanted again ([`tf_agent_api::rabbitmq::MEMBER_FILE`]). A member that does
//! not carry it and whose data is of another cluster than the others' is only marked where those are most of the members: else
//! nobody can tell which of the two clusters is the one to keep.

mod view;

use tf_agent_api::rabbitmq::Membership;
use tf_api::contract::MemberStatus;
use tf_plan::{
    observed::Pod,
    reports::Reports,
    resize::{Capacity, Decision, Record},
    step::{Request, Step, Target},
};

use self::view::{ClusterState, MemberState};
use crate::{nodes::Node, procedure};

/// Everything the decision rests on.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// Who is wanted, who is there, and where there is room.
    pub capacity: Capacity<'a>,
    /// What the members are called, in the same order.
    pub nodes: &'a [Node],
    /// What the status keeps of them.
    pub record: &'a Record,
    /// The pods, with what their agents say.
    pub reports: &'a Reports<'a>,
}

impl<'a> Inputs<'a> {
    /// Members in the order they were recorded.
    fn members(&self) -> &'a [MemberStatus] {
        self.capacity.members
    }

    /// What keeps a member that serves from being stopped.
    fn gate(&self) -> Option<String> {
        procedure::gate(self.members(), self.reports)
    }
}

/// Lets one new member join at a time, when all others serve: of two servers that meet the cluster at the same moment one may wait for
/// the other for ever (rabbitmq-server issue 6034). `members`: those that are wanted, in the order they were chosen; whom to leave for later is
/// taken out. What that waits for, for people.
pub fn one_by_one(members: &mut Vec<MemberStatus>, recorded: &[MemberStatus], reports: &Reports<'_>) -> Option<String> {
    let is_new = |member: &MemberStatus| recorded.iter().all(|other| other.id != member.id);
    let node = members.iter().find(|member| is_new(member))?.node.clone();
    // Those who found a cluster start together.
    if recorded.is_empty() {
        return None;
    }
    let waits = procedure::fragile(recorded, reports, &[]);
    let mut capacity = usize::from(waits.is_none());
    members.retain(|member| !is_new(member) || std::mem::replace(&mut capacity, 0) > 0);
    waits.map(|why| format!("node {node} is to join: {why}"))
}

/// Decides.
pub fn decide(inputs: &Inputs<'_>) -> Decision {
    let view = ClusterState::of(inputs);
    let before = inputs.record;
    let mut decision = Decision { record: before.clone(), ..Decision::default() };
    if let Some(leaver) = view.all.iter().find(|seen| before.is_leaving(seen.member.id)) {
        release(leaver, &view, &mut decision);
    } else if let Some(leaver) = next_to_go(&view) {
        mark(leaver, &view, &mut decision);
    }
    if decision.step.is_none() && decision.record == *before {
        decision.step = mend(&view);
        decision.waits = decision.waits.or_else(|| view.estranged());
    }
    decision.explained(before)
}

/// Who goes first: whoever has no node, then whoever cannot come back, then whoever is not wanted any more.
fn next_to_go<'a, 'b>(view: &'b ClusterState<'a>) -> Option<&'b MemberState<'a>> {
    let goes = |seen: &&MemberState<'_>| view.inputs.capacity.goes(seen.member);
    let homeless = view.all.iter().filter(goes).find(|seen| !view.inputs.capacity.is_usable(&seen.member.node));
    let outcast = || view.all.iter().find(|seen| view.is_outcast(seen));
    homeless.or_else(outcast).or_else(|| view.all.iter().find(goes))
}

/// Marks a member, before anything is asked for.
fn mark(leaver: &MemberState<'_>, view: &ClusterState<'_>, decision: &mut Decision) {
    let MemberStatus { id, node, .. } = leaver.member;
    let runs = view.listed_by_others(leaver) == Some(true);
    let gate = || view.inputs.gate().filter(|_| runs);
    match view.fragile_without(leaver).or_else(gate) {
        Some(why) => decision.waits = Some(format!("member {id} on node {node} is to leave: {why}")),
        None => decision.record.leaving.push(*id),
    }
}

/// Lets a member go that is marked: it leaves, is forgotten, and is struck off, each when the one before is seen to be done.
fn release(leaver: &MemberState<'_>, view: &ClusterState<'_>, decision: &mut Decision) {
    let MemberStatus { id, node, .. } = leaver.member;
    let fragile = view.fragile_without(leaver);
    let is_wanted = !view.inputs.capacity.goes(leaver.member);
    let stays = fragile.is_some() || is_wanted;
    let waits = match view.listed_by_others(leaver) {
        // It has lost what it had, and joins as who it is at any moment, maybe before it is told to be another one.
        None if is_wanted && leaver.has_nothing() => return decision.record.unmark(*id),
        // Its server is of no use to anybody any more.
        None => {
            decision.waits = decision.record.strike_off(leaver.member, &view.inputs.capacity).err();
            return;
        }
        Some(runs) if leaver.has_left() && (stays || runs && view.lacks_another(leaver)) => {
            decision.step =
                leaver.pod.map(|pod| Step::Restart(Target::of(pod, "it left the cluster and is wanted again")));
            return;
        }
        Some(true) if stays => return decision.record.unmark(*id),
        Some(false) => match fragile {
            Some(why) => why,
            None if stays => "it is wanted again, and does not run".to_owned(),
            None => {
                decision.step = view.forget(&leaver.name);
                return;
            }
        },
        // One that has begun to leave serves nobody any more, and is asked again.
        Some(true) => match (view.inputs.gate().filter(|_| !leaver.has_left()), leaver.pod) {
            (Some(why), _) => {
                // Others may have to go first.
                decision.record.unmark(*id);
                why
            }
            (None, None) => "its server runs, and it has no pod".to_owned(),
            (None, Some(pod)) => {
                let why = format!("member {id} on node {node} leaves");
                decision.step = Some(ask(pod, Membership::Leave, why));
                return;
            }
        },
    };
    decision.waits = Some(format!("member {id} on node {node} leaves: {waits}"));
}

/// What puts a cluster in order beside who is wanted.
fn mend(view: &ClusterState<'_>) -> Option<Step> {
    let left = view.all.iter().filter(|seen| seen.has_left()).find_map(|seen| seen.pod);
    let missed = || view.all.iter().find(|seen| view.has_lost_data(seen) && view.fragile_without(seen).is_none());
    left.map(|pod| Step::Restart(Target::of(pod, "it left the cluster and is wanted")))
        .or_else(|| view.forget(&missed()?.name))
        .or_else(|| view.forget(view.stray()?))
        .or_else(|| complete(view))
}

/// What a cluster that lacks nothing and that nobody is about to leave is completed by.
fn complete(view: &ClusterState<'_>) -> Option<Step> {
    let Inputs { record, reports, .. } = view.inputs;
    let members = view.inputs.members();
    let is_whole = record.leaving.is_empty() && procedure::fragile(members, reports, &[]).is_none();
    let enable = || {
        let (pod, facts) = procedure::unflagged(members, reports)?;
        let why = format!("pod {} has the cluster enable the feature flags of RabbitMQ {}", pod.name, facts.release);
        Some(ask(pod, Membership::EnableFlags, why))
    };
    is_whole.then(|| grow(view).or_else(enable)).flatten()
}

/// Has a member hold quorum queues that are on too few.
fn grow(view: &ClusterState<'_>) -> Option<Step> {
    let (pod, queues) = view.all.iter().find_map(|seen| Some((seen.pod?, seen.lacks()?)))?;
    let why = format!("pod {} holds quorum queues that were on too few ({queues})", pod.name);
    Some(ask(pod, Membership::Grow, why))
}

fn ask(pod: &Pod, change: Membership, why: String) -> Step {
    Step::Ask(Target::of(pod, why), Request::Membership(change))
}
