//! Who is a member, and the one step that brings the ensemble nearer to what is wanted.
//!
//! Nothing here remembers a phase. What is wanted, who is recorded in the status, what the servers themselves say and where the
//! pods are decides, so an operator that is killed at any moment goes on where the world stands. Each change of size is made
//! of the same few moves, one at a time (docs/upstream/zookeeper.md#changes-of-size):
//!
//! - grow: record a member, which gets a pod and a list that holds itself, too; when it follows the quorum, add it.
//! - shrink: mark the member on the highest ordinal as leaving, since a StatefulSet takes no other; remove it; strike it off the
//!   record, and only then its pod goes.
//! - replace: mark the member without a node, remove it, record another in its place.
//!
//! The address for clients is corrected in the same way, see [`clients`].
//!
//! The mark is the one thing that is remembered, for a reason: an addition that was asked for may be carried out long after
//! its answer was given up. A member that was struck off meanwhile would then have a vote and no server, and an ensemble of
//! one would have become two of which one is missing. Additions name the version of the list they change. So nobody is struck
//! off before the list has changed since the mark: then no addition from before the mark can succeed any more.

mod clients;
mod roll;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use tf_agent_api::zookeeper::{Facts, Server, Servers};
use tf_api::{contract::MemberStatus, kinds::PlainClients};
use tf_plan::members;

pub use clients::is_as_wanted;
pub use roll::{Change, PodSlot};
use view::QuorumState;

/// A node of the cluster that could carry a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name.
    pub node: String,
    /// Address.
    pub address: String,
    /// Whether the resource may use it.
    pub matches: bool,
}

/// Everything the decision rests on.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// Number of members asked for, at least 1.
    pub wanted: usize,
    /// From where clients that speak no TLS may connect.
    pub plain_clients: PlainClients,
    /// Nodes that exist and have an address, sorted by name.
    pub places: &'a [Place],
    /// Members of the status, in the order they were recorded.
    pub recorded: &'a [MemberStatus],
    /// Highest identity that was ever given.
    pub highest: u32,
    /// Members that shall go, with the version of the list when that was decided.
    pub leaving: &'a BTreeMap<u32, u64>,
    /// Pods, by ordinal.
    pub slots: &'a [PodSlot],
    /// What the members' agents report, by identity. Who did not answer is missing.
    pub facts: &'a BTreeMap<u32, Facts>,
    /// Members whose pods another operator made and nobody can ask, with whether they serve in the kubelet's words.
    pub foreign: &'a BTreeMap<u32, bool>,
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Members to record; as many pods are wanted, on their nodes.
    pub members: Vec<MemberStatus>,
    /// Highest identity given, to record with them.
    pub highest: u32,
    /// Members that shall go, to record with them.
    pub leaving: BTreeMap<u32, u64>,
    /// The quorum; none while nobody reports one.
    pub quorum: Option<Quorum>,
    /// The step that is due, if one is.
    pub step: Option<Step>,
    /// What has to happen before the next step, for people.
    pub waits: Vec<String>,
    /// Why the wish cannot be carried out unless somebody does something, for people.
    pub held: Vec<String>,
}

/// A quorum that serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quorum {
    /// The list of members as it has it.
    pub servers: Servers,
    /// Who has a vote and serves at the address that the list has.
    pub serving: BTreeSet<u32>,
    /// Who leads, if exactly one says so.
    pub leader: Option<u32>,
    /// What keeps it from bearing the loss of one more member, if anything does.
    pub fragile: Option<String>,
}

/// One step. It is taken only if the list of members is still the one it was decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Give a server that follows the quorum a vote, or change its addresses.
    Add {
        /// Its identity.
        id: u32,
        /// Its address.
        address: String,
        /// Version of the list that is changed.
        version: u64,
    },
    /// Take a server's vote.
    Remove {
        /// Its identity.
        id: u32,
        /// Version of the list that is changed.
        version: u64,
    },
    /// Delete a pod, so that a new one is made.
    Restart {
        /// Its name.
        pod: String,
        /// Its uid.
        uid: String,
        /// Why, for people.
        why: String,
    },
    /// Let a pod's agent change over to the current configuration.
    Activate {
        /// Its name.
        pod: String,
        /// Its uid.
        uid: String,
    },
}

/// Decides.
pub fn decide(inputs: &Inputs<'_>) -> Decision {
    if inputs.recorded.is_empty() {
        return found(inputs);
    }
    let recorded = with_current_addresses(inputs);
    let Some(view) = QuorumState::of(inputs, &recorded) else {
        return roll::without_quorum(inputs, recorded);
    };
    let mut decision = Decision {
        members: recorded.clone(),
        highest: inputs.highest.max(view.highest()),
        leaving: inputs.leaving.clone(),
        quorum: Some(Quorum {
            servers: view.servers.clone(),
            serving: view.serving.clone(),
            leader: view.leader,
            fragile: view.fragile(),
        }),
        ..Decision::default()
    };
    let settled = change_membership(inputs, &view, &mut decision);
    if decision.step.is_none() {
        clients::correct(inputs, &view, settled, &mut decision);
    }
    if decision.step.is_none() {
        roll::roll(inputs, &view, settled, &mut decision);
    }
    decision
}

/// The first members: everybody at once with equal rights, because each of them founds the ensemble.
fn found(inputs: &Inputs<'_>) -> Decision {
    let mut decision = Decision { highest: inputs.highest, ..Decision::default() };
    let free = free_places(inputs, &[], &mut decision.held);
    if free.len() < inputs.wanted {
        decision.waits.push(format!(
            "{} members are asked for and {} nodes match; all start together, so it waits for nodes",
            inputs.wanted,
            free.len()
        ));
        return decision;
    }
    for place in free.into_iter().take(inputs.wanted) {
        record(place, &mut decision);
    }
    decision
}

fn record(place: &Place, decision: &mut Decision) {
    decision.highest += 1;
    let (node, address) = (place.node.clone(), place.address.clone());
    decision.members.push(MemberStatus { id: decision.highest, node, address });
}

/// Nodes that match and carry no member. Two servers at one address would be taken for one (docs/upstream/zookeeper.md#reconfiguration: ZooKeeper
/// itself accepts that), so of nodes that share an address the first is used.
fn free_places<'a>(inputs: &Inputs<'a>, taken: &[MemberStatus], held: &mut Vec<String>) -> Vec<&'a Place> {
    let mut addresses: BTreeMap<&str, &str> =
        taken.iter().map(|member| (member.address.as_str(), member.node.as_str())).collect();
    let mut free = Vec::new();
    for place in inputs.places.iter().filter(|place| place.matches) {
        if taken.iter().any(|member| member.node == place.node) {
            continue;
        }
        if let Some(other) = addresses.get(place.address.as_str()) {
            held.push(format!("node {} has the address {} of node {other}", place.node, place.address));
            continue;
        }
        addresses.insert(&place.address, &place.node);
        free.push(place);
    }
    free
}

/// A node may come back with another address; the member is the same.
fn with_current_addresses(inputs: &Inputs<'_>) -> Vec<MemberStatus> {
    let mut members = inputs.recorded.to_vec();
    for index in 0..members.len() {
        let Some(place) = inputs.places.iter().find(|place| place.node == members[index].node) else { continue };
        // Not one that another member has, be it for the moment.
        if members.iter().all(|other| other.address != place.address) {
            members[index].address.clone_from(&place.address);
        }
    }
    members
}

/// Changes the membership by one move at most. Whether it is as wanted, and nothing else is under way.
fn change_membership(inputs: &Inputs<'_>, view: &QuorumState<'_>, decision: &mut Decision) -> bool {
    let before = decision.held.len() + decision.waits.len();
    let leaves = |decision: &mut Decision| {
        strangers(view, decision) || release(inputs, view, decision) || mark(inputs, view, decision)
    };
    // Before everybody can be asked, nobody comes or goes.
    let is_known = inputs.foreign.is_empty();
    let changed =
        is_known && leaves(decision) || add(inputs, view, decision) || is_known && grow(inputs, view, decision);
    !changed && decision.held.len() + decision.waits.len() == before
}

/// Servers that somebody else gave a vote. They are left alone, and so is the rest while they are there.
fn strangers(view: &QuorumState<'_>, decision: &mut Decision) -> bool {
    let strangers: Vec<String> =
        view.voters.iter().filter(|id| view.member(**id).is_none()).map(ToString::to_string).collect();
    if strangers.is_empty() {
        return false;
    }
    decision.held.push(format!(
        "servers {} have a vote and were not added by this operator; remove them with reconfig, nothing is changed before",
        strangers.join(", ")
    ));
    true
}

/// Lets a member go that is marked: takes its vote, then strikes it off.
fn release(inputs: &Inputs<'_>, view: &QuorumState<'_>, decision: &mut Decision) -> bool {
    let Some(member) = view.recorded.iter().find(|member| inputs.leaving.contains_key(&member.id)) else {
        return false;
    };
    if !goes(inputs, view, member) {
        // People changed their minds, or the pods have moved. If its vote is gone by now, it is added again.
        decision.leaving.remove(&member.id);
        return true;
    }
    let marked = inputs.leaving.get(&member.id).copied().unwrap_or_default();
    if view.voters.contains(&member.id) || view.servers.version <= marked {
        return remove(member.id, view, decision);
    }
    decision.members.retain(|other| other.id != member.id);
    decision.leaving.remove(&member.id);
    let smaller = view.recorded.len() > inputs.wanted && has_last_seat(inputs, view, member);
    // Otherwise its pod stays where the StatefulSet counts it, and goes to the next node.
    if let Some(place) = free_places(inputs, view.recorded, &mut decision.held).first().filter(|_| !smaller) {
        record(place, decision);
    }
    true
}

/// Whether the member has to go, and what then stays of the record can be carried by pods.
fn goes(inputs: &Inputs<'_>, view: &QuorumState<'_>, member: &MemberStatus) -> bool {
    let smaller = view.recorded.len() > inputs.wanted && has_last_seat(inputs, view, member);
    let moves = || {
        let has_place = !free_places(inputs, view.recorded, &mut Vec::new()).is_empty();
        !is_usable(inputs, &member.node) && has_place
    };
    smaller || moves()
}

/// Marks who shall go, one at a time and not while another is on its way in.
fn mark(inputs: &Inputs<'_>, view: &QuorumState<'_>, decision: &mut Decision) -> bool {
    for member in view.recorded.iter().filter(|member| !is_usable(inputs, &member.node)) {
        if !goes(inputs, view, member) {
            decision.held.push(format!(
                "node {} of member {} is gone or no longer matches, and no other is free; add a node",
                member.node, member.id
            ));
        }
    }
    let Some(member) = view.recorded.iter().rev().find(|member| goes(inputs, view, member)) else {
        return false;
    };
    let joins = |other: &MemberStatus| other.id != member.id && is_usable(inputs, &other.node);
    if !inputs.leaving.is_empty() || view.without_vote().any(joins) {
        return false;
    }
    if view.voters.len() == 1 && view.voters.contains(&member.id) {
        decision.held.push(format!(
            "member {} is the only one and its node {} is gone or no longer matches; raise replicas first",
            member.id, member.node
        ));
        return false;
    }
    decision.leaving.insert(member.id, view.servers.version);
    true
}

/// Whether the member's pod is the one that the StatefulSet takes.
fn has_last_seat(inputs: &Inputs<'_>, view: &QuorumState<'_>, member: &MemberStatus) -> bool {
    let slots: Vec<_> = inputs.slots.iter().map(|slot| (slot.ordinal, slot.node.as_deref())).collect();
    members::has_last_seat(view.recorded, &slots, member)
}

/// Gives a vote to a member that follows the quorum, or corrects the address of one.
fn add(inputs: &Inputs<'_>, view: &QuorumState<'_>, decision: &mut Decision) -> bool {
    let version = view.servers.version;
    let is_concerned =
        |member: &&MemberStatus| !inputs.leaving.contains_key(&member.id) && !inputs.foreign.contains_key(&member.id);
    for member in view.recorded.iter().filter(is_concerned) {
        let listed = view.servers.servers.get(&member.id).filter(|server| server.votes);
        if listed.is_some_and(|server| server.address == member.address) {
            continue;
        }
        let same = |(id, server): &(&u32, &Server)| **id != member.id && server.address == member.address;
        if let Some((other, _)) = view.servers.servers.iter().find(same) {
            decision.held.push(format!(
                "the address {} of member {} is still that of member {other}",
                member.address, member.id
            ));
            continue;
        }
        let what = if listed.is_some() { "change the address of" } else { "add" };
        let follows = inputs.facts.get(&member.id).is_some_and(|facts| facts.id == member.id && facts.serving);
        if !follows {
            decision.waits.push(format!("member {} on node {} does not follow the quorum yet", member.id, member.node));
            continue;
        }
        // It votes from now on, and is there.
        let size = view.voters.len() + usize::from(listed.is_none());
        let alive = view.serving.len() + usize::from(!view.serving.contains(&member.id));
        if let Err(why) = keeps_quorum(alive, size, what, member.id) {
            decision.held.push(why);
            continue;
        }
        decision.step = Some(Step::Add { id: member.id, address: member.address.clone(), version });
        return true;
    }
    false
}

/// Records one more member.
fn grow(inputs: &Inputs<'_>, view: &QuorumState<'_>, decision: &mut Decision) -> bool {
    if view.recorded.len() >= inputs.wanted || view.without_vote().next().is_some() {
        return false;
    }
    let Some(place) = free_places(inputs, view.recorded, &mut decision.held).first().copied() else {
        decision.held.push(format!(
            "{} members are asked for and no further node matches; add nodes or lower replicas",
            inputs.wanted
        ));
        return false;
    };
    record(place, decision);
    true
}

/// Takes a vote, unless those who remain were no quorum then. To take one from who has none changes the version of the list,
/// too.
fn remove(id: u32, view: &QuorumState<'_>, decision: &mut Decision) -> bool {
    let remain = |voters: &BTreeSet<u32>| voters.iter().filter(|other| **other != id).count();
    match keeps_quorum(remain(&view.serving), remain(&view.voters), "remove", id) {
        Ok(()) => decision.step = Some(Step::Remove { id, version: view.servers.version }),
        Err(why) => decision.held.push(why),
    }
    decision.step.is_some()
}

fn keeps_quorum(alive: usize, size: usize, what: &str, id: u32) -> Result<(), String> {
    if alive > size / 2 {
        return Ok(());
    }
    Err(format!("cannot {what} member {id}: {alive} of then {size} members would serve, which is no majority"))
}

fn is_usable(inputs: &Inputs<'_>, node: &str) -> bool {
    inputs.places.iter().any(|place| place.matches && place.node == node)
}

/// Identities of the servers that have a vote.
fn voters(servers: &Servers) -> BTreeSet<u32> {
    servers.voters().collect()
}
