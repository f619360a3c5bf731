//! The ensemble as its servers report it.

use std::{collections::BTreeSet, net::IpAddr};

use tf_agent_api::zookeeper::{Role, Servers};
use tf_api::contract::MemberStatus;

use super::{Inputs, voters};

/// A quorum and who belongs to it.
pub struct QuorumState<'a> {
    /// The list of members, as the quorum has it.
    pub servers: Servers,
    /// Who has a vote.
    pub voters: BTreeSet<u32>,
    /// Who has a vote and serves, at the address the others know.
    pub serving: BTreeSet<u32>,
    /// Who leads, if exactly one says so.
    pub leader: Option<u32>,
    /// Followers that the leader counts as in sync, servers without a vote included.
    pub synced: usize,
    /// Whether the leader may be one that nobody can ask.
    pub led_unasked: bool,
    /// Members of the record.
    pub recorded: &'a [MemberStatus],
}

impl<'a> QuorumState<'a> {
    /// None if nobody reports a quorum. Only who belongs to a quorum has the right list; of two the later holds.
    pub fn of(inputs: &Inputs<'_>, recorded: &'a [MemberStatus]) -> Option<Self> {
        let answers = || {
            let own = |(id, facts): &(&u32, _)| **id == <&tf_agent_api::zookeeper::Facts>::clone(facts).id;
            inputs.facts.iter().filter(own).map(|(id, facts)| (*id, facts))
        };
        let servers = answers()
            .filter(|(_, facts)| facts.serving)
            .filter_map(|(_, facts)| facts.servers.as_ref())
            .max_by_key(|servers| servers.version)?
            .clone();
        let voters = voters(&servers);
        // A server at another address than the list has follows, and is not counted on there. The Go tf-operator's lists have
        // names instead; those are not for us to resolve.
        let listed = |id: u32| {
            let member = recorded.iter().find(|member| member.id == id);
            let matches = |member: &MemberStatus| {
                let address = &servers.servers[&id].address;
                *address == member.address || address.parse::<IpAddr>().is_err()
            };
            voters.contains(&id) && member.is_some_and(matches)
        };
        let asked = answers().filter(|(_, facts)| facts.serving && facts.role != Role::None).map(|(id, _)| id);
        let unasked = || inputs.foreign.iter().filter(|(_, ready)| **ready).map(|(id, _)| *id);
        let serving = asked.chain(unasked()).filter(|id| listed(*id)).collect();
        let leaders: Vec<_> = answers().filter(|(_, facts)| facts.serving && facts.role == Role::Leader).collect();
        let (leader, synced) = match leaders.as_slice() {
            [(id, facts)] => (Some(*id), facts.synced_followers.unwrap_or_default() as usize),
            _ => (None, 0),
        };
        let led_unasked = leaders.is_empty() && unasked().next().is_some();
        Some(Self { servers, voters, serving, leader, synced, led_unasked, recorded })
    }

    /// The recorded member of this identity.
    pub fn member(&self, id: u32) -> Option<&'a MemberStatus> {
        self.recorded.iter().find(|member| member.id == id)
    }

    /// Recorded members that have no vote.
    pub fn without_vote(&self) -> impl Iterator<Item = &'a MemberStatus> {
        self.recorded.iter().filter(|member| !self.voters.contains(&member.id))
    }

    /// Highest identity in use.
    pub fn highest(&self) -> u32 {
        self.servers.servers.keys().copied().max().unwrap_or_default()
    }

    /// What keeps the ensemble from bearing the loss of one more member, if anything does.
    pub fn fragile(&self) -> Option<String> {
        let silent: Vec<String> =
            self.voters.iter().filter(|id| !self.serving.contains(id)).map(ToString::to_string).collect();
        if !silent.is_empty() {
            Some(format!("member {} does not serve", silent.join(", ")))
        } else if self.led_unasked {
            None
        } else if self.leader.is_none() {
            Some("no member, or more than one, leads".into())
        } else if self.synced + 1 < self.voters.len() {
            Some(format!("{} of {} followers are in sync", self.synced, self.voters.len() - 1))
        } else {
            None
        }
    }
}
