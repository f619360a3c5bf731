//! Members of one component have addresses of one IP family ([`tf_agent_api::family`]).

use tf_agent_api::family::IpFamily;
use tf_api::{Managed, contract::MemberStatus};

use crate::{declaration::Declaration, object::STATEFUL_SET, observed::Node, placement::Placement};

/// The nodes as a planner sees them: where a resource has members, with addresses of one family.
pub fn nodes_of(declaration: &Declaration, cr: &impl Managed, nodes: Vec<Node>) -> Vec<Node> {
    if declaration.workload_kinds().all(|kind| kind != STATEFUL_SET) {
        return nodes;
    }
    let members = cr.contract().map(|contract| contract.members.as_slice()).unwrap_or_default();
    one_family(nodes, members, &Placement::of_members(cr.common()))
}

/// These nodes with addresses of one family alone: that of the members, else IPv4 if a node that may have a member has such an address.
fn one_family(mut nodes: Vec<Node>, members: &[MemberStatus], placement: &Placement) -> Vec<Node> {
    let has_ipv4 = |node: &Node| placement.matches(node) && node.address_of(IpFamily::IPv4).is_some();
    let family = IpFamily::of_members(members)
        .unwrap_or_else(|| if nodes.iter().any(has_ipv4) { IpFamily::IPv4 } else { IpFamily::IPv6 });
    for node in &mut nodes {
        node.choose(family);
    }
    nodes
}

/// Which of the nodes that match cannot be members, as they have no address of the family; none if all have.
pub fn lacking(nodes: &[Node], placement: &Placement) -> Option<String> {
    let lacking = nodes.iter().filter(|node| placement.matches(node) && node.address.is_none());
    let lacking: Vec<_> = lacking
        .map(|node| match node.other_address.as_deref().and_then(IpFamily::of) {
            Some(other) => {
                format!("node {} has no InternalIP of {}, the IP family of the members", node.name, other.other())
            }
            None => format!("node {} has no InternalIP", node.name),
        })
        .collect();
    (!lacking.is_empty()).then(|| lacking.join(", "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node(name: &str, addresses: &[&str]) -> Node {
        Node::with_addresses(Node { name: name.into(), ..Node::default() }, addresses.iter().map(|it| (*it).to_owned()))
    }

    fn member(address: &str) -> MemberStatus {
        MemberStatus { id: 1, node: "a".into(), address: address.into() }
    }

    fn addresses(nodes: Vec<Node>, members: &[MemberStatus]) -> Vec<Option<String>> {
        one_family(nodes, members, &Placement::Everywhere).into_iter().map(|node| node.address).collect()
    }

    #[test]
    fn a_new_component_has_addresses_of_ipv4_where_a_node_has_one() {
        let nodes =
            vec![node("a", &["10.0.0.1", "fd00::1"]), node("b", &["fd00::2", "10.0.0.2"]), node("c", &["fd00::3"])];
        assert_eq!(addresses(nodes.clone(), &[]), [Some("10.0.0.1".into()), Some("10.0.0.2".into()), None]);
        let chosen = one_family(nodes, &[], &Placement::Everywhere);
        assert_eq!(
            lacking(&chosen, &Placement::Everywhere).as_deref(),
            Some("node c has no InternalIP of IPv4, the IP family of the members")
        );
        let alone = vec![node("a", &["fd00::1"]), node("b", &["fd00::2"])];
        assert_eq!(addresses(alone, &[]), [Some("fd00::1".into()), Some("fd00::2".into())]);
    }

    #[test]
    fn members_keep_their_family_when_nodes_get_addresses_of_the_other_one() {
        let nodes = vec![node("a", &["10.0.0.1", "fd00::1"]), node("b", &["10.0.0.2"])];
        assert_eq!(addresses(nodes, &[member("fd00::1")]), [Some("fd00::1".into()), None]);
    }

    #[test]
    fn nodes_that_may_not_be_members_have_no_say() {
        let nodes = vec![node("a", &["fd00::1"]), node("b", &["10.0.0.2"])];
        let on_a = Placement::Labels([("on".to_owned(), "a".to_owned())].into());
        let mut labelled = nodes;
        labelled[0].labels.insert("on".into(), "a".into());
        assert_eq!(one_family(labelled, &[], &on_a)[0].address.as_deref(), Some("fd00::1"));
    }

    proptest! {
        #[test]
        fn the_order_in_which_nodes_list_the_two_families_changes_nothing(
            kinds in prop::collection::vec(0_usize..3, 1..5), turned in prop::collection::vec(any::<bool>(), 5),
            recorded in prop::option::of(prop::bool::ANY),
        ) {
            let all = |turn: &dyn Fn(usize) -> bool| kinds.iter().enumerate().map(|(index, kind)| {
                let (four, six) = (format!("10.0.0.{}", index + 1), format!("fd00::{}", index + 1));
                let mut listed = [vec![four.clone()], vec![six.clone()], vec![four, six]][*kind].clone();
                if turn(index) {
                    listed.reverse();
                }
                node(&format!("n{index}"), &listed.iter().map(String::as_str).collect::<Vec<_>>())
            }).collect::<Vec<_>>();
            let members: Vec<_> = recorded.map(|is_four| member(if is_four { "10.0.0.9" } else { "fd00::9" })).into_iter().collect();
            let (plain, other) = (addresses(all(&|_| false), &members), addresses(all(&|index| turned[index]), &members));
            prop_assert_eq!(&plain, &other);
            let families: std::collections::BTreeSet<_> = plain.iter().flatten().map(|address| address.contains(':')).collect();
            prop_assert!(families.len() <= 1, "{:?}", plain);
        }
    }
}
