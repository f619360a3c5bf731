//! The ring as its servers report it.

use std::net::IpAddr;

use tf_agent_api::{
    cassandra::{Change, Facts, Peer},
    state::Phase,
};
use tf_api::contract::MemberStatus;
use tf_plan::{observed::Pod, reports::pod_of, step::Step};

use super::Inputs;
use crate::{
    config::jvm::DAEMON,
    procedure::{self, ask},
};

/// State of a member that hands over what it holds, as gossip has it.
pub const LEAVING: &str = "LEAVING";

/// A member with what is known of it.
#[derive(Clone, Debug)]
pub struct MemberState<'a> {
    /// The member.
    pub member: &'a MemberStatus,
    /// Its pod.
    pub pod: Option<&'a Pod>,
    address: Option<IpAddr>,
    /// What its agent says of the server, which may be no more than that it does not answer.
    facts: Option<&'a Facts>,
    failed: bool,
}

impl<'a> MemberState<'a> {
    fn of(member: &'a MemberStatus, inputs: &Inputs<'a>) -> Self {
        let pod = pod_of(member, inputs.reports.pods);
        let status = pod.and_then(|pod| inputs.reports.of(pod));
        let state = status.and_then(|status| status.daemons.get(DAEMON));
        Self {
            member,
            pod,
            address: member.address.parse().ok(),
            facts: status.and_then(|status| status.cassandra.as_ref()),
            failed: state.is_some_and(|state| state.phase == Phase::BackOff),
        }
    }

    /// What its server says, if it answers.
    pub fn says(&self) -> Option<&'a Facts> {
        self.facts.filter(|facts| !facts.host_id.is_empty())
    }

    /// Whether its server left as it was asked to.
    pub fn has_left(&self) -> bool {
        self.facts.is_some_and(|facts| facts.left)
    }

    /// Whether it left when it had another identity.
    pub fn has_left_before(&self) -> bool {
        self.facts.is_some_and(|facts| facts.left && facts.owner != Some(self.member.id))
    }

    /// Whether its server does not run, or has left: it is not about to join.
    pub fn is_idle(&self) -> bool {
        self.pod.is_none() || self.failed || self.has_left()
    }

    /// What this server has of another member.
    fn peer(&self, other: &MemberState<'_>) -> Option<&'a Peer> {
        self.says()?.peers.get(&other.address?)
    }
}

/// The members and what they say of each other.
pub struct RingState<'a> {
    /// What was observed.
    pub inputs: &'a Inputs<'a>,
    /// The members, in the order they were recorded.
    pub all: Vec<MemberState<'a>>,
}

impl<'a> RingState<'a> {
    /// Looks at a situation.
    pub fn of(inputs: &'a Inputs<'a>) -> Self {
        Self { inputs, all: inputs.capacity.members.iter().map(|member| MemberState::of(member, inputs)).collect() }
    }

    fn others(&self, seen: &MemberState<'_>) -> impl Iterator<Item = &MemberState<'a>> {
        let id = seen.member.id;
        self.all.iter().filter(move |other| other.member.id != id)
    }

    /// Whether there are fewer members than are wanted.
    pub fn has_room(&self) -> bool {
        self.inputs.capacity.wanted.is_some_and(|wanted| self.all.len() < wanted)
    }

    /// Whether anybody else has a member in its ring; none where that is not known: not everybody tells who is in it, or there is somebody in it
    /// who may be that member, at an address that it no longer has.
    pub fn listed_by_others(&self, seen: &MemberState<'_>) -> Option<bool> {
        if self.is_listed(seen) {
            return Some(true);
        }
        let is_silent =
            |other: &MemberState<'_>| other.says().is_none() && self.is_listed(other) && !self.is_lost(other);
        let is_known = self.others(seen).any(|other| other.says().is_some()) && self.stranger().is_none();
        (is_known && !self.others(seen).any(is_silent)).then_some(false)
    }

    fn is_listed(&self, seen: &MemberState<'_>) -> bool {
        self.others(seen).any(|other| other.peer(seen).is_some())
    }

    /// Whether a member has not joined yet, was taken out of the ring and has nothing, or handed over what it holds: nobody who tells has it.
    pub fn is_outside(&self, seen: &MemberState<'_>) -> bool {
        let has_own = |facts: &Facts| facts.has_served && !facts.left;
        seen.says().is_none() && !self.is_listed(seen) && !seen.facts.is_some_and(has_own)
    }

    /// Somebody whom a server has in its ring and who is no member, as far as is known: a member that has not been heard at its new address yet, or
    /// one that was never taken out.
    fn stranger(&self) -> Option<String> {
        let is_member = |address: &IpAddr| self.all.iter().any(|seen| seen.address == Some(*address));
        self.all.iter().find_map(|seen| {
            let peers = &seen.says()?.peers;
            // Whom gossip has forgotten can stand in the table of peers for ever.
            let is_untold = peers.values().all(|peer| peer.state.is_none());
            let is_there = |(address, peer): &(&IpAddr, &Peer)| !is_member(address) && (is_untold || peer.state.is_some());
            let (address, peer) = peers.iter().find(is_there)?;
            let host_id = peer.host_id.as_deref().unwrap_or("unknown");
            Some(format!(
                "{address} (host id {host_id}) is in the ring of pod {} and is the address of no member; where it is that of one that cannot come back, \
                 take it out with nodetool removenode",
                seen.pod?.name
            ))
        })
    }

    /// Why nobody is taken out of the ring and no data is put aside: fewer than half of the members serve, and a row that was acknowledged with a quorum may be
    /// on none of these.
    fn outnumbered(&self) -> Option<String> {
        let ring: Vec<&MemberState<'_>> = self.all.iter().filter(|seen| !self.is_outside(seen)).collect();
        let (serving, silent): (Vec<&MemberState<'_>>, Vec<&MemberState<'_>>) =
            ring.iter().copied().partition(|seen| seen.says().is_some());
        let nodes = silent.iter().map(|seen| seen.member.node.as_str()).collect::<Vec<_>>().join(", ");
        (2 * serving.len() < ring.len()).then(|| {
            format!(
                "only {} of {} members serve, and what the others hold may be nowhere else: bring back nodes or disks of {nodes}; if they are gone for \
                 good, restore a backup into a new ring",
                serving.len(),
                ring.len()
            )
        })
    }

    /// Why it is not known whether a member is in the ring.
    pub fn unclear(&self) -> String {
        self.stranger().unwrap_or_else(|| "not all other members report whether it is in the ring".to_owned())
    }

    /// Whether those who tell of a member do not hear it.
    fn is_unheard(&self, seen: &MemberState<'_>) -> bool {
        let mut heard = self.others(seen).filter_map(|other| other.peer(seen)).map(|peer| peer.heard).peekable();
        heard.peek().is_some() && heard.all(|heard| heard == Some(false))
    }

    /// What keeps a member from being taken out of the ring that does not serve.
    pub fn cannot_lose(&self, lost: &MemberState<'_>) -> Option<String> {
        self.outnumbered().or_else(|| self.fragile_without(lost))
    }

    /// What is missing in the ring besides this member and those that are of no use to it, if anything is.
    fn fragile_without(&self, without: &MemberState<'_>) -> Option<String> {
        let absent = self.void_with(without);
        if absent.len() == self.all.len() {
            return Some("there is no other one".to_owned());
        }
        self.inputs.fragile(&absent)
    }

    /// What is not as it should be in the ring besides that, whatever releases its members are of.
    pub fn torn_without(&self, without: &MemberState<'_>) -> Option<String> {
        let Inputs { capacity, reports, .. } = self.inputs;
        procedure::torn(capacity.members, reports, &self.void_with(without)).err()
    }

    /// This member, and all others that are of no use to the ring.
    fn void_with(&self, without: &MemberState<'_>) -> Vec<&'a MemberStatus> {
        // One that has not joined yet may be waiting for this member's end.
        let is_out = |other: &MemberState<'_>| other.says().is_none() && self.listed_by_others(other) == Some(false);
        let is_void = |other: &MemberState<'_>| self.is_lost(other) || self.is_outside(other) || is_out(other);
        let id = without.member.id;
        let void = self.all.iter().filter(|other| other.member.id == id || is_void(other));
        void.map(|other| other.member).collect()
    }

    /// Whether a member began to leave the ring and could not: the others have it on its way out for ever.
    pub fn is_stuck(&self, seen: &MemberState<'_>) -> bool {
        let has_failed = || {
            let failed = seen.says().and_then(|facts| facts.failed.as_ref());
            failed.is_some_and(|failed| failed.of == Change::Decommission)
        };
        let mut peers = self.others(seen).filter_map(|other| other.peer(seen));
        !seen.has_left() && has_failed() && peers.any(|peer| peer.state.as_deref() == Some(LEAVING))
    }

    /// Whether a member cannot come back.
    pub fn is_lost(&self, seen: &MemberState<'_>) -> bool {
        self.has_lost_node(seen) || self.has_lost_data(seen)
    }

    /// Whether a member's node is gone, its pod with it, and there is another node.
    fn has_lost_node(&self, seen: &MemberState<'_>) -> bool {
        let capacity = &self.inputs.capacity;
        let is_gone = seen.pod.is_none() && !self.finds_its_node(seen);
        is_gone && !capacity.is_usable(&seen.member.node) && capacity.goes(seen.member)
    }

    /// Whether a pod that is made anew may find the node of this member: it is there, with whatever labels, and the scheduler has not refused as many
    /// pods as members lack theirs.
    fn finds_its_node(&self, seen: &MemberState<'_>) -> bool {
        let Inputs { nodes, reports, .. } = self.inputs;
        let is_there = nodes.iter().any(|node| node.name == seen.member.node && !node.unreachable);
        let refused = reports.pods.iter().filter(|pod| pod.node.is_none() && pod.trouble.is_some()).count();
        is_there && refused < self.all.iter().filter(|other| other.pod.is_none()).count()
    }

    /// Whether a member's server does not start, has no data, and is in the ring as the others have it. One that would not look for them is not taken
    /// out of it before it has other files: it would be back at once, and hide what it lacks.
    fn has_lost_data(&self, seen: &MemberState<'_>) -> bool {
        let is_empty = |facts: &Facts| !facts.has_served && !facts.left && !facts.founds;
        seen.failed && seen.facts.is_some_and(is_empty) && self.is_unheard(seen)
    }

    /// Whether a member's data is of no use any more: everybody else tells, and has it in the ring no longer.
    pub fn is_outcast(&self, seen: &MemberState<'_>) -> bool {
        let has_own = seen.facts.is_some_and(|facts| facts.has_served && facts.owner == Some(seen.member.id));
        let is_out = has_own && seen.says().is_none() && (seen.failed || seen.has_left());
        is_out && self.listed_by_others(seen) == Some(false) && self.outnumbered().is_none()
    }

    /// A server that has a member in its ring which nobody hears, with what the ring knows that by.
    fn unheard_by(&self, seen: &MemberState<'_>) -> Option<(&MemberState<'a>, &'a str)> {
        let (other, peer) = self.others(seen).find_map(|other| Some((other, other.peer(seen)?)))?;
        if !self.is_unheard(seen) {
            return None;
        }
        Some((other, peer.host_id.as_deref()?))
    }

    /// What the ring knows a member by, if nobody hears it.
    pub fn unheard_id(&self, seen: &MemberState<'_>) -> Option<&'a str> {
        self.unheard_by(seen).map(|(_, host_id)| host_id)
    }

    /// Has another server take a member out of the ring, if nobody hears it.
    pub fn remove(&self, gone: &MemberState<'_>) -> Option<Step> {
        let (other, host_id) = self.unheard_by(gone)?;
        let MemberStatus { id, node, .. } = gone.member;
        Some(ask(
            other.pod?,
            Change::Remove { host_id: host_id.to_owned() },
            format!("member {id} on node {node} is taken out of the ring"),
        ))
    }

    /// A keyspace that is placed by data centre, and on more members than would be left.
    pub fn placed_on_more_than(&self, left: usize) -> Option<String> {
        let mut placed = self.all.iter().filter_map(MemberState::says).flat_map(|facts| &facts.placed);
        let (keyspace, factor) = placed.find(|(_, factor)| **factor as usize > left)?;
        Some(format!(
            "keyspace {keyspace} is to be on {factor} members by data centre, and {left} would be left: alter it before"
        ))
    }

    /// Why a change that was asked for did not succeed.
    pub fn failure(&self) -> Option<String> {
        let failed = |seen: &MemberState<'a>| {
            let failed = seen.facts?.failed.as_ref().filter(|failed| !failed.of.is_routine())?;
            Some(format!("pod {}: {}", seen.pod?.name, failed.why))
        };
        self.all.iter().find_map(failed)
    }

    /// What the servers of all members say, if all say something.
    pub fn all_facts(&self) -> Option<Vec<(&MemberState<'a>, &'a Facts)>> {
        self.all.iter().map(|seen| Some((seen, seen.says()?))).collect()
    }

    /// Servers that answer, with what they say.
    pub fn answering(&self) -> impl Iterator<Item = (&MemberState<'a>, &'a Facts)> {
        self.all.iter().filter_map(|seen| Some((seen, seen.says()?)))
    }
}
