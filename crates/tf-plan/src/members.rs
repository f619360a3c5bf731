//! Which nodes are members, with identities that last.
//!
//! All Tungsten Fabric daemons use their node's network, so a member's address is its node's address and members are
//! known from Node objects before any pod exists. Identities are kept in the resource's status, in the order members
//! joined: lists in configuration files only ever grow at the end, because their order has meaning to several daemons
//! (docs/upstream/files.md#order-of-lists).
//!
//! Stores whose servers do not find each other by themselves have the members they were founded with, see [`Joining`].

pub mod family;

use std::collections::BTreeMap;

use tf_api::contract::MemberStatus;

use crate::{observed::Node, placement::Placement};

const NO_GROWTH: &str = "growing a running ensemble needs reconfiguration, which this release does not do";

/// How many members a service takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeRule {
    /// As many as nodes match.
    EveryNode,
    /// So many, however many nodes match.
    Exactly(i32),
    /// So many where nobody states a number, and an odd number of at least so many in any case: a node that would make it even waits for the next
    /// one.
    OddFrom(i32),
    /// The largest odd number that nodes allow, up to a limit: an even one tolerates no more losses than the odd one
    /// below it.
    OddUpTo(i32),
}

impl SizeRule {
    /// The number of members where nobody states one.
    pub fn default_size(self, matching: i32) -> i32 {
        match self {
            Self::EveryNode => matching,
            Self::Exactly(size) | Self::OddFrom(size) => size,
            Self::OddUpTo(limit) => {
                let size = matching.min(limit);
                if size > 1 && size % 2 == 0 { size - 1 } else { size }
            }
        }
    }

    /// How many of so many nodes become members beside those that there are.
    fn joining(self, members: usize, nodes: usize) -> usize {
        let count = members + nodes;
        let is_one_too_many = |least| i32::try_from(count).is_ok_and(|count| count > least && count % 2 == 0);
        match self {
            Self::OddFrom(least) if is_one_too_many(least) => nodes.saturating_sub(1),
            _ => nodes,
        }
    }
}

/// What happens to a member whose node is gone or no longer matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// It stays a member: its data is only released by a procedure.
    Kept,
    /// It stays a member until its component, which says what that waits for, strikes it off.
    Released,
    /// It is dropped: it has no data.
    Dropped,
    /// The same; so many of those that there are are wanted for now, although fewer are asked for.
    DroppedTo(usize),
}

impl Leaving {
    fn drops(self) -> bool {
        matches!(self, Self::Dropped | Self::DroppedTo(_))
    }
}

/// When a node may become a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joining {
    /// Whenever it matches: an empty member finds the others and takes part.
    Anytime,
    /// When the first members are chosen, and then one by one as its component says.
    OneByOne,
    /// Only when the first members are chosen. Members that were founded alone and members that learn of them later may
    /// form two services (ZooKeeper), or a change of size has to be followed by work on the data (Cassandra). See ADR 0013.
    AtFoundation,
}

/// Which identities members get that join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identities {
    /// Those that nobody ever had: what servers remember of a former member is not taken for another one's.
    New {
        /// Highest that was ever given, as far as that is known.
        highest: u32,
    },
    /// The lowest that no member has: what others keep under it passes to who takes the place.
    Lowest,
}

impl Identities {
    /// Of members that join beside these, one after the other. `previous`: those that there were.
    fn given(self, previous: &[MemberStatus], members: &[MemberStatus]) -> impl Iterator<Item = u32> + use<> {
        let first = match self {
            Self::New { highest } => previous.iter().map(|member| member.id).fold(highest, u32::max) + 1,
            Self::Lowest => 1,
        };
        let taken: Vec<u32> = members.iter().map(|member| member.id).collect();
        (first..).filter(move |id| !taken.contains(id))
    }
}

/// The wish, as far as the spec states it.
#[derive(Clone, Debug)]
pub struct DesiredMembers<'a> {
    /// Where members may be.
    pub placement: &'a Placement,
    /// Number of members, if stated.
    pub replicas: Option<i32>,
    /// Number of members otherwise.
    pub rule: SizeRule,
    /// When nodes may become members.
    pub joining: Joining,
    /// What happens to members that lose their node.
    pub leaving: Leaving,
    /// Which identities new members get.
    pub identities: Identities,
}

/// Members and what is to be said about them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Members in the order they joined.
    pub members: Vec<MemberStatus>,
    /// Number of members asked for; more than `members` when nodes are missing, less when members have to be kept.
    pub wanted: i32,
    /// Remarks on size and placement.
    pub notes: Vec<String>,
    /// Why the wish is not carried out completely.
    pub held: Option<String>,
}

/// Chooses members. `previous` are those of the status; they keep identity and order.
pub fn choose(previous: &[MemberStatus], nodes: &[Node], desired: &DesiredMembers<'_>) -> Membership {
    let matching: Vec<&Node> =
        nodes.iter().filter(|node| desired.placement.matches(node) && node.address.is_some()).collect();
    let contested = contested(nodes);
    let least = match desired.leaving {
        Leaving::DroppedTo(least) => least.min(previous.len()) as i32,
        Leaving::Kept | Leaving::Released | Leaving::Dropped => 0,
    };
    let asked = desired.replicas.unwrap_or_else(|| desired.rule.default_size(matching.len() as i32));
    let mut result = Membership { wanted: asked.max(least), ..Membership::default() };
    result.members = keep(previous, &matching, &contested, desired.leaving, &mut result.notes);
    result.notes.extend(contested.iter().map(|(address, nodes)| explain_contested(address, nodes)));
    let room = usize::try_from(result.wanted).unwrap_or_default().saturating_sub(result.members.len());
    if room > 0 && desired.joining != Joining::Anytime && !previous.is_empty() {
        match desired.joining {
            Joining::AtFoundation => refuse_growth(&mut result, desired),
            // No node becomes a member because it got a label.
            _ => result.wanted = desired.replicas.unwrap_or(result.members.len() as i32),
        }
    } else {
        let ids = desired.identities.given(previous, &result.members);
        let joining: Vec<&&Node> = matching.iter().filter(|node| may_join(node, &result.members, &contested)).collect();
        let count = desired.rule.joining(result.members.len(), joining.len().min(room));
        result.members.extend(joining.iter().take(count).zip(ids).map(|(node, id)| MemberStatus {
            id,
            node: node.name.clone(),
            address: node.address.clone().unwrap_or_default(),
        }));
    }
    shrink(&mut result, desired);
    explain(&mut result, &matching, family::lacking(nodes, desired.placement), desired);
    result
}

/// Addresses that several nodes have, with the names of these nodes.
type Contested<'a> = BTreeMap<&'a str, Vec<&'a str>>;

fn contested(nodes: &[Node]) -> Contested<'_> {
    let mut claims = Contested::new();
    for node in nodes {
        if let Some(address) = &node.address {
            claims.entry(address).or_default().push(&node.name);
        }
    }
    claims.retain(|_, nodes| nodes.len() > 1);
    claims
}

fn explain_contested(address: &str, nodes: &[&str]) -> String {
    format!(
        "nodes {} have the same address {address}: members there keep the address they had, and no other node of these becomes a member; \
         give each node an address of its own",
        nodes.join(" and ")
    )
}

/// Whether a node may become a member beside these.
fn may_join(node: &Node, members: &[MemberStatus], contested: &Contested<'_>) -> bool {
    let is_alone = node.address.as_deref().is_some_and(|address| !contested.contains_key(address));
    is_alone && members.iter().all(|member| member.node != node.name)
}

/// The members that stay, at the addresses of their nodes. An address that two nodes have is taken by none: the files and the certificate of one member
/// would be those of another.
fn keep(
    previous: &[MemberStatus],
    matching: &[&Node],
    contested: &Contested<'_>,
    leaving: Leaving,
    notes: &mut Vec<String>,
) -> Vec<MemberStatus> {
    let is_contested = |node: &Node| node.address.as_deref().is_some_and(|address| contested.contains_key(address));
    previous
        .iter()
        .filter_map(|member| match matching.iter().find(|node| node.name == member.node) {
            Some(node) if is_contested(node) => Some(member.clone()),
            Some(node) => Some(MemberStatus { address: node.address.clone()?, ..member.clone() }),
            None if leaving.drops() => None,
            None => {
                notes.push(explain_homeless(member));
                Some(member.clone())
            }
        })
        .collect()
}

/// A store that was founded does not grow.
fn refuse_growth(result: &mut Membership, desired: &DesiredMembers<'_>) {
    let members = result.members.len() as i32;
    result.wanted = members;
    result.held = desired.replicas.map(|replicas| {
        format!(
            "{replicas} members are asked for; {NO_GROWTH}, so it stays at {members}: set replicas back to {members}"
        )
    });
}

fn shrink(result: &mut Membership, desired: &DesiredMembers<'_>) {
    let wanted = usize::try_from(result.wanted).unwrap_or_default();
    // A smaller default, because nodes went away, takes no member away: only a stated number does.
    if result.members.len() <= wanted || desired.replicas.is_none() && !desired.leaving.drops() {
        return;
    }
    match desired.leaving {
        Leaving::Dropped | Leaving::DroppedTo(_) => result.members.truncate(wanted),
        Leaving::Released => {}
        Leaving::Kept => {
            result.held = Some(format!(
                "replicas was lowered to {wanted}, but this release does not remove members that hold data; all {} \
                 are kept, set replicas back to {}",
                result.members.len(),
                result.members.len()
            ));
        }
    }
}

/// `lacking`: which nodes would match, had they an address.
fn explain(result: &mut Membership, matching: &[&Node], lacking: Option<String>, desired: &DesiredMembers<'_>) {
    let (members, matching) = (result.members.len() as i32, matching.len() as i32);
    let is_founded = desired.joining == Joining::OneByOne && members > 0 && matching >= result.wanted;
    if members < result.wanted && !is_founded {
        let is_odd = matches!(desired.rule, SizeRule::OddFrom(_)) && matching > members;
        let odd = if is_odd {
            format!(", of which {members} are used, since members have to be odd in number")
        } else {
            String::new()
        };
        result.held = Some(format!(
            "{} members are wanted and {matching} nodes match ({}){odd}{}; add nodes or lower replicas",
            result.wanted,
            desired.placement.describe(),
            lacking.as_ref().map(|lacking| format!("; {lacking}")).unwrap_or_default()
        ));
    } else if desired.replicas.is_none() && matching > members {
        let growth = desired.rule.default_size(matching) > members;
        let why = match (growth, desired.joining) {
            (false, _) => "sizes are odd and limited",
            (true, Joining::OneByOne) => "state replicas to have more",
            (true, _) => NO_GROWTH,
        };
        result.notes.push(format!("{matching} nodes match, {members} are used: {why}"));
    }
    if result.held.is_none() {
        result.notes.extend(lacking);
    }
    result.notes.extend(explain_size(desired.replicas, desired.rule));
}

/// Whether no other member's pod goes when a StatefulSet is made smaller by one: it takes the highest ordinal. `seats`: ordinals of pods,
/// with the node of each.
pub fn has_last_seat(members: &[MemberStatus], seats: &[(usize, Option<&str>)], member: &MemberStatus) -> bool {
    let last = members.len().saturating_sub(1);
    let Some(node) = seats.iter().find(|(ordinal, _)| *ordinal == last).and_then(|(_, node)| *node) else {
        // Nobody sits there yet; let it be the one who has no seat elsewhere.
        return seats.iter().all(|(_, node)| *node != Some(&member.node));
    };
    node == member.node || members.iter().all(|other| other.node != node)
}

/// What a person should know about a member whose node is gone.
pub fn explain_homeless(member: &MemberStatus) -> String {
    let MemberStatus { id, node, .. } = member;
    format!("node {node} of member {id} is gone or no longer matches; the member is kept until it is replaced")
}

/// Members that stay who they are until later. `then`: when what is asked for is seen to, for people.
pub fn unchanged(members: &[MemberStatus], nodes: &[Node], desired: &DesiredMembers<'_>, then: &str) -> Membership {
    let count = members.len() as i32;
    let asked = desired.replicas.filter(|replicas| *replicas != count);
    let asked =
        asked.map(|asked| format!("{asked} members are asked for and there are {count}, which is changed when {then}"));
    let is_there =
        |member: &MemberStatus| nodes.iter().any(|node| node.name == member.node && desired.placement.matches(node));
    let lost = members.iter().filter(|member| !is_there(member));
    let lost = lost.map(|MemberStatus { id, node, .. }| {
        format!("node {node} of member {id} is gone or no longer matches, which is seen to when {then}")
    });
    Membership {
        members: members.to_vec(),
        wanted: count,
        notes: asked.into_iter().chain(lost).chain(explain_size(desired.replicas, desired.rule)).collect(),
        held: None,
    }
}

/// What a person should know about a number of members that was asked for.
pub fn explain_size(replicas: Option<i32>, rule: SizeRule) -> Option<String> {
    let is_odd_rule = matches!(rule, SizeRule::OddUpTo(_));
    let replicas = replicas.filter(|replicas| is_odd_rule && replicas % 2 == 0)?;
    Some(format!("{replicas} members tolerate no more losses than {}", replicas - 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nodes(names: &[&str]) -> Vec<Node> {
        names
            .iter()
            .map(|name| Node { name: (*name).into(), address: Some(format!("10.0.0.{name}")), ..Node::default() })
            .collect()
    }

    fn desired(replicas: Option<i32>, rule: SizeRule, leaving: Leaving) -> DesiredMembers<'static> {
        DesiredMembers {
            placement: &Placement::Everywhere,
            replicas,
            rule,
            joining: Joining::Anytime,
            leaving,
            identities: Identities::New { highest: 0 },
        }
    }

    fn names(membership: &Membership) -> Vec<(u32, &str)> {
        membership.members.iter().map(|member| (member.id, member.node.as_str())).collect()
    }

    #[test]
    fn a_joining_node_is_appended_even_if_its_name_sorts_first() {
        let rule = desired(None, SizeRule::EveryNode, Leaving::Kept);
        let first = choose(&[], &nodes(&["5", "6"]), &rule);
        let second = choose(&first.members, &nodes(&["1", "5", "6"]), &rule);
        assert_eq!(names(&second), [(1, "5"), (2, "6"), (3, "1")]);
    }

    #[test]
    fn a_fourth_node_does_not_enlarge_an_ensemble_of_three() {
        let rule = desired(None, SizeRule::OddUpTo(5), Leaving::Kept);
        let membership = choose(&[], &nodes(&["1", "2", "3", "4"]), &rule);
        assert_eq!(membership.members.len(), 3);
        assert!(membership.notes[0].contains("4 nodes match, 3 are used"));
    }

    #[test]
    fn twelve_nodes_give_the_largest_useful_ensemble() {
        let twelve: Vec<String> = (10..22).map(|n| n.to_string()).collect();
        let twelve = nodes(&twelve.iter().map(String::as_str).collect::<Vec<_>>());
        let membership = choose(&[], &twelve, &desired(None, SizeRule::OddUpTo(5), Leaving::Kept));
        assert_eq!((membership.members.len(), membership.wanted), (5, 5));
        assert_eq!(choose(&[], &twelve, &desired(None, SizeRule::EveryNode, Leaving::Dropped)).members.len(), 12);
    }

    #[test]
    fn a_node_that_would_make_the_members_even_in_number_waits_for_the_next_one() {
        let rule = |replicas| desired(replicas, SizeRule::OddFrom(3), Leaving::Dropped);
        let three = choose(&[], &nodes(&["1", "2", "3", "4"]), &rule(None));
        assert_eq!((three.members.len(), &three.held), (3, &None));
        let four = choose(&three.members, &nodes(&["1", "2", "3", "4"]), &rule(Some(5)));
        assert_eq!(names(&four), names(&three));
        let held = four.held.unwrap();
        assert!(held.contains("4 nodes match (any node), of which 3 are used"), "{held}");
        assert_eq!(choose(&three.members, &nodes(&["1", "2", "3", "4", "5"]), &rule(Some(5))).members.len(), 5);
        let replaced = choose(&three.members, &nodes(&["1", "2", "4", "5"]), &rule(Some(5)));
        assert_eq!(names(&replaced), [(1, "1"), (2, "2"), (4, "4")]);
        assert_eq!(choose(&[], &nodes(&["1", "2"]), &rule(None)).members.len(), 2, "who needs three tells of two");
    }

    #[test]
    fn an_address_that_two_nodes_have_moves_no_member_and_makes_none() {
        let rule = desired(None, SizeRule::EveryNode, Leaving::Kept);
        let before = choose(&[], &nodes(&["1", "2"]), &rule);
        let mut now = nodes(&["1", "2", "3"]);
        now[0].address = Some("10.0.0.3".into());
        let after = choose(&before.members, &now, &rule);
        assert_eq!(after.members, before.members);
        let note = after.notes.iter().find(|note| note.starts_with("nodes 1 and 3 have the same address 10.0.0.3"));
        assert!(note.is_some(), "{:?}", after.notes);
        now[2].address = Some("10.0.0.30".into());
        let healed = choose(&after.members, &now, &rule);
        let addresses: Vec<_> = healed.members.iter().map(|member| member.address.as_str()).collect();
        assert_eq!(addresses, ["10.0.0.3", "10.0.0.2", "10.0.0.30"]);
    }

    #[test]
    fn a_lost_node_keeps_its_place_where_there_is_data() {
        let rule = desired(None, SizeRule::OddUpTo(5), Leaving::Kept);
        let before = choose(&[], &nodes(&["1", "2", "3"]), &rule);
        let after = choose(&before.members, &nodes(&["1", "3", "4"]), &rule);
        assert_eq!(names(&after), names(&before));
        assert!(after.notes[0].contains("node 2 of member 2"));
    }

    #[test]
    fn a_lost_node_is_replaced_where_there_is_no_data_by_a_member_with_another_identity_or_the_one_that_is_free() {
        let rule = desired(None, SizeRule::EveryNode, Leaving::Dropped);
        let before = choose(&[], &nodes(&["1", "2", "3"]), &rule);
        let replaced = |rule: &DesiredMembers<'_>| choose(&before.members, &nodes(&["1", "3", "4", "5"]), rule);
        assert_eq!(names(&replaced(&rule)), [(1, "1"), (3, "3"), (4, "4"), (5, "5")]);
        let lowest = DesiredMembers { identities: Identities::Lowest, ..rule };
        assert_eq!(names(&replaced(&lowest)), [(1, "1"), (3, "3"), (2, "4"), (4, "5")]);
    }

    #[test]
    fn lowering_replicas_of_a_store_is_refused_with_what_to_do() {
        let before = choose(&[], &nodes(&["1", "2", "3"]), &desired(None, SizeRule::OddUpTo(5), Leaving::Kept));
        let after =
            choose(&before.members, &nodes(&["1", "2", "3"]), &desired(Some(1), SizeRule::OddUpTo(5), Leaving::Kept));
        assert_eq!(after.members.len(), 3);
        assert!(after.held.is_some_and(|why| why.contains("set replicas back to 3")));
    }

    #[test]
    fn a_founded_store_does_not_grow_by_itself_and_says_so() {
        let store = |replicas| DesiredMembers {
            joining: Joining::AtFoundation,
            ..desired(replicas, SizeRule::OddUpTo(5), Leaving::Kept)
        };
        let one = choose(&[], &nodes(&["2"]), &store(None));
        let three = nodes(&["1", "2", "3"]);
        let silent = choose(&one.members, &three, &store(None));
        assert_eq!((names(&silent), silent.wanted, &silent.held), (vec![(1, "2")], 1, &None));
        assert!(
            silent.notes[0].contains("3 nodes match, 1 are used: growing a running ensemble"),
            "{:?}",
            silent.notes
        );
        let asked = choose(&one.members, &three, &store(Some(3)));
        assert_eq!((names(&asked), asked.wanted), (vec![(1, "2")], 1));
        assert!(asked.held.is_some_and(|why| why.contains("set replicas back to 1")));
    }

    #[test]
    fn a_founded_store_keeps_its_members_when_fewer_or_other_nodes_match() {
        let store = |replicas| DesiredMembers {
            joining: Joining::AtFoundation,
            ..desired(replicas, SizeRule::OddUpTo(5), Leaving::Kept)
        };
        let three = choose(&[], &nodes(&["1", "2", "3"]), &store(None));
        for (replicas, present) in [(None, vec!["1"]), (None, vec!["3", "4", "5", "6", "7"]), (Some(3), vec!["4"])] {
            let after = choose(&three.members, &nodes(&present), &store(replicas));
            assert_eq!(names(&after), names(&three), "{replicas:?} {present:?}");
        }
        assert!(choose(&three.members, &nodes(&["1"]), &store(Some(1))).held.is_some());
    }

    #[test]
    fn a_store_that_grows_one_by_one_is_founded_at_once_and_then_left_to_its_component() {
        let store = |replicas| DesiredMembers {
            joining: Joining::OneByOne,
            ..desired(replicas, SizeRule::OddUpTo(5), Leaving::Released)
        };
        let nodes = nodes(&["1", "2", "3"]);
        assert_eq!(choose(&[], &nodes, &store(None)).members.len(), 3);
        let one = choose(&[], &nodes[1..2], &store(None));
        let silent = choose(&one.members, &nodes, &store(None));
        assert_eq!((silent.members.len(), silent.wanted, &silent.held), (1, 1, &None));
        assert!(silent.notes[0].contains("state replicas to have more"), "{:?}", silent.notes);
        let asked = choose(&one.members, &nodes, &store(Some(3)));
        assert_eq!((asked.members.len(), asked.wanted, &asked.held), (1, 3, &None));
        assert!(
            choose(&one.members, &nodes[..2], &store(Some(3))).held.is_some_and(|why| why.contains("2 nodes match"))
        );
    }

    #[test]
    fn more_replicas_than_nodes_is_said() {
        let membership = choose(&[], &nodes(&["1"]), &desired(Some(3), SizeRule::OddUpTo(5), Leaving::Kept));
        assert_eq!(membership.members.len(), 1);
        assert!(membership.held.is_some_and(|why| why.contains("3 members are wanted and 1 nodes match")));
    }

    proptest! {
        /// Whatever nodes come and go: identities and nodes are unique, and who stays keeps identity and order.
        #[test]
        fn identities_are_unique_and_stable(
            rounds in prop::collection::vec(prop::collection::btree_set(10_u8..40, 0..12), 1..8),
            kept in any::<bool>(),
            odd in any::<bool>(),
            lowest in any::<bool>(),
        ) {
            let leaving = if kept { Leaving::Kept } else { Leaving::Dropped };
            let rule = if odd { SizeRule::OddUpTo(5) } else { SizeRule::EveryNode };
            let mut members: Vec<MemberStatus> = Vec::new();
            let mut most = 0;
            for round in rounds {
                let round: Vec<String> = round.iter().map(ToString::to_string).collect();
                let present = nodes(&round.iter().map(String::as_str).collect::<Vec<_>>());
                let desired = desired(None, rule, leaving);
                let desired = if lowest { DesiredMembers { identities: Identities::Lowest, ..desired } } else { desired };
                let next = choose(&members, &present, &desired).members;
                let mut ids: Vec<_> = next.iter().map(|member| member.id).collect();
                prop_assert!(lowest || ids.is_sorted());
                most = most.max(next.len());
                prop_assert!(!lowest || ids.iter().all(|id| *id as usize <= most), "{ids:?} of {most}");
                ids.sort_unstable();
                ids.dedup();
                prop_assert_eq!(ids.len(), next.len());
                let mut hosts: Vec<_> = next.iter().map(|member| &member.node).collect();
                hosts.sort_unstable();
                hosts.dedup();
                prop_assert_eq!(hosts.len(), next.len());
                for member in &next {
                    if let Some(before) = members.iter().find(|before| before.node == member.node) {
                        prop_assert_eq!(before.id, member.id);
                    }
                }
                if kept {
                    prop_assert!(next.len() >= members.len());
                }
                members = next;
            }
        }
    }
}
