//! Which members a ring is found through, and who may start without looking for others.
//!
//! A server that finds its own address among the seeds does not bootstrap: it takes tokens without fetching their data
//! (`StorageService.shouldBootstrap`, 3.11). For the servers that found a ring that is right, for an empty one that joins a
//! ring with data it silently hides data from readers. On the other hand somebody has to be a seed of his own at every
//! start of the whole ring, or all wait for each other in vain, and more than one has to, or the loss of that one keeps
//! the others down (`Gossiper.doShadowRound`: without a reply only a seed goes on).
//!
//! So the first members in join order are seeds, the same for everybody, and they list themselves. Once the ring has been
//! brought up, everybody has a second file beside it, in which nobody is a seed of his own. The node agent takes that one until it has
//! seen the member serve on the data it now has: the disk tells whether a member is new, and only the agent sees the disk.

use tf_api::contract::MemberStatus;

/// Seeds of a ring, or all members where there are fewer. Three as with cass-operator (docs/upstream/cassandra.md#seeds): two may be
/// down while a node joins.
const COUNT: usize = 3;

/// Addresses of the seeds. Members keep their order and join at the end, so a full list changes only when one of it goes. Servers that run are not
/// started anew for that (ADR 0063).
pub fn of(members: &[MemberStatus]) -> Vec<&str> {
    members.iter().take(COUNT).map(|member| member.address.as_str()).collect()
}

/// The seeds of a new member that is one: the others. None if it is no seed, or the only one, who has nobody to join.
pub fn joining<'a>(seeds: &[&'a str], address: &str) -> Option<Vec<&'a str>> {
    let others: Vec<&str> = seeds.iter().copied().filter(|seed| *seed != address).collect();
    (others.len() < seeds.len() && !others.is_empty()).then_some(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(count: u32) -> Vec<MemberStatus> {
        let member = |id| MemberStatus { id, node: format!("cp{id}"), address: format!("10.0.0.{id}") };
        (1..=count).map(member).collect()
    }

    #[test]
    fn the_seeds_of_a_ring_do_not_change_when_it_grows_beyond_them() {
        assert_eq!(of(&members(1)), ["10.0.0.1"]);
        assert_eq!(of(&members(3)), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
        assert_eq!(of(&members(3)), of(&members(7)));
    }

    #[test]
    fn a_new_member_finds_the_ring_through_others_and_never_through_itself() {
        let members = members(7);
        let seeds = of(&members);
        assert_eq!(joining(&seeds, "10.0.0.2"), Some(vec!["10.0.0.1", "10.0.0.3"]));
        assert_eq!(joining(&seeds, "10.0.0.7"), None);
        assert!(!seeds.contains(&"10.0.0.7"));
        assert_eq!(joining(&["10.0.0.1"], "10.0.0.1"), None);
    }
}
