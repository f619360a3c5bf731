//! Who is a member of a store that grows and shrinks: what is recorded, and where members can be.
//!
//! How a member joins and leaves is the store's own business. That a StatefulSet takes the pod on the highest ordinal and no other, that
//! no identity is given twice, and that a lost node makes room for another one is everybody's.

use serde_json::json;
use tf_api::contract::MemberStatus;

use crate::{
    members::has_last_seat,
    observed::{Node, Pod},
    plan::Plan,
    step::Step,
};

/// What is wanted, what is there, and where there is room.
#[derive(Clone, Copy, Debug)]
pub struct Capacity<'a> {
    /// Number of members that is asked for; none where nobody states one.
    pub wanted: Option<usize>,
    /// Members in the order they were recorded.
    pub members: &'a [MemberStatus],
    /// Nodes of the Kubernetes cluster that match and have an address.
    pub places: &'a [&'a Node],
    /// The pods.
    pub pods: &'a [Pod],
}

impl<'a> Capacity<'a> {
    /// Whether a node is there and matches.
    pub fn is_usable(&self, node: &str) -> bool {
        self.places.iter().any(|place| place.name == node)
    }

    /// A node that carries no member.
    pub fn free_place(&self) -> Option<&'a Node> {
        let is_taken = |place: &Node| self.members.iter().any(|member| member.node == place.name);
        self.places.iter().copied().find(|place| !is_taken(place))
    }

    /// Whether there are more members than are wanted.
    pub fn has_too_many(&self) -> bool {
        self.wanted.is_some_and(|wanted| self.members.len() > wanted.max(1))
    }

    /// Whether the StatefulSet can be made smaller by this member: it takes the pod on the highest ordinal. Without a node the member
    /// has no pod that serves; the one that goes then is made anew on another ordinal.
    pub fn is_one_too_many(&self, member: &MemberStatus) -> bool {
        let slots: Vec<_> =
            self.pods.iter().filter_map(|pod| Some((pod.ordinal()? as usize, pod.node.as_deref()))).collect();
        let can_go = || !self.is_usable(&member.node) || has_last_seat(self.members, &slots, member);
        self.has_too_many() && can_go()
    }

    /// Whether the member has to go, and what then stays of the record can be carried by pods.
    pub fn goes(&self, member: &MemberStatus) -> bool {
        self.is_one_too_many(member) || !self.is_usable(&member.node) && self.free_place().is_some()
    }
}

/// What the status keeps of members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Members.
    pub members: Vec<MemberStatus>,
    /// Highest identity that was ever given.
    pub highest: u32,
    /// Identities of members that are on their way out.
    pub leaving: Vec<u32>,
}

/// What to do about who is a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// What is to be recorded before anything is done.
    pub record: Record,
    /// The request that is due, if one is.
    pub step: Option<Step>,
    /// What has to happen before the next one, for people.
    pub waits: Option<String>,
}

impl Decision {
    /// Says what changes of what was recorded before: what follows from it is due in the next pass, and nothing is at rest until then.
    #[must_use]
    pub fn explained(mut self, before: &Record) -> Self {
        if self.step.is_none() {
            self.waits = self.waits.or_else(|| before.difference(&self.record));
        }
        self
    }

    /// Puts what is due into a plan, before what a roll-out would do.
    pub fn carry_out(self, plan: &mut Plan) {
        if let Some(step) = self.step {
            plan.under_way = Some(step.explain());
            plan.step = Some(step);
        } else if plan.step.is_none() {
            // A pod that does not serve and is not up to date may be what is waited for.
            plan.under_way = self.waits.or(plan.under_way.take());
        }
    }
}

/// Fields of the status that [`Record::keep`] fills.
pub const FIELDS: [&str; 2] = ["highestId", "leaving"];

/// The change that has begun and is not over, for people. `leaving`: the members that are marked.
pub fn changing(leaving: &[u32]) -> Option<String> {
    leaving.first().map(|id| format!("member {id} is leaving"))
}

impl Record {
    /// Puts what is kept in the status beside the members into a plan, to be stored before anything is done.
    pub fn keep(&self, plan: &mut Plan) {
        let [highest, leaving] = FIELDS.map(str::to_owned);
        plan.record = &FIELDS;
        plan.own_status.insert(highest, json!(self.highest));
        if !self.leaving.is_empty() {
            plan.own_status.insert(leaving, json!(self.leaving));
        }
    }

    /// The record as it is stored, without marks of members that are gone.
    pub fn of(members: &[MemberStatus], highest: u32, leaving: &[u32]) -> Self {
        let is_there = |id: &u32| members.iter().any(|member| member.id == *id);
        Self {
            members: members.to_vec(),
            highest: members.iter().map(|member| member.id).fold(highest, u32::max),
            leaving: leaving.iter().copied().filter(is_there).collect(),
        }
    }

    /// What another record has differently, for people.
    fn difference(&self, other: &Self) -> Option<String> {
        let is_new = |member: &&MemberStatus| self.members.iter().all(|it| it.id != member.id);
        let is_gone = |member: &&MemberStatus| other.members.iter().all(|it| it.id != member.id);
        let joins = other.members.iter().find(is_new).map(|it| format!("member {} on node {} joins", it.id, it.node));
        let ends =
            || self.members.iter().find(is_gone).map(|it| format!("member {} on node {} has left", it.id, it.node));
        let leaves =
            || other.leaving.iter().find(|id| !self.is_leaving(**id)).map(|id| format!("member {id} is to leave"));
        let stays = || self.leaving.iter().find(|id| !other.is_leaving(**id)).map(|id| format!("member {id} stays"));
        joins.or_else(ends).or_else(leaves).or_else(stays)
    }

    /// Whether a member is on its way out.
    pub fn is_leaving(&self, id: u32) -> bool {
        self.leaving.contains(&id)
    }

    /// Lets a member stay.
    pub fn unmark(&mut self, id: u32) {
        self.leaving.retain(|other| *other != id);
    }

    /// Adds a member on this node, under an identity that nobody had.
    pub fn add(&mut self, place: &Node) {
        self.highest += 1;
        let address = place.address.clone().unwrap_or_default();
        self.members.push(MemberStatus { id: self.highest, node: place.name.clone(), address });
    }

    /// Takes a member off the record. Another one takes its place where so many are wanted; its pod stays where the StatefulSet counts it.
    ///
    /// # Errors
    /// There is no node for another one.
    pub fn strike_off(&mut self, member: &MemberStatus, capacity: &Capacity<'_>) -> Result<(), String> {
        let is_smaller = capacity.is_one_too_many(member);
        let own = capacity.places.iter().copied().find(|place| place.name == member.node);
        let place = own.or_else(|| capacity.free_place()).filter(|_| !is_smaller);
        if place.is_none() && !is_smaller {
            let MemberStatus { id, node, .. } = member;
            return Err(format!(
                "node {node} of member {id} is gone or no longer matches, and no other is free; add a node"
            ));
        }
        self.members.retain(|other| other.id != member.id);
        self.unmark(member.id);
        if let Some(place) = place {
            self.add(place);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_changes_is_told_until_the_next_pass() {
        let member = |id: u32| MemberStatus { id, node: format!("n{id}"), address: format!("10.0.0.{id}") };
        let record =
            |ids: &[u32], leaving: &[u32]| Record::of(&ids.iter().copied().map(member).collect::<Vec<_>>(), 9, leaving);
        let waits = |before: &Record, after: Record, waits: Option<&str>| {
            let waits = waits.map(str::to_owned);
            Decision { record: after, step: None, waits }.explained(before).waits
        };
        let before = record(&[1, 2], &[2]);
        for (after, said) in [
            (record(&[1, 2], &[2]), None),
            (record(&[1, 2], &[]), Some("member 2 stays")),
            (record(&[1, 2], &[2, 1]), Some("member 1 is to leave")),
            (record(&[1], &[]), Some("member 2 on node n2 has left")),
            (record(&[1, 3], &[]), Some("member 3 on node n3 joins")),
        ] {
            assert_eq!(waits(&before, after.clone(), None).as_deref(), said, "{after:?}");
            assert_eq!(waits(&before, after, Some("for it")).as_deref(), Some("for it"));
        }
    }
}
