//! The moves one by one, as examples; `tests/component/membership.rs` walks through all of them.

use tf_agent_api::zookeeper::Role;
use tf_api::{ZookeeperConfiguration, kinds::ZookeeperTls};

use super::*;

/// The entry of a member in the list.
fn entry(address: &str) -> Server {
    crate::config::server(&ZookeeperConfiguration::default(), address)
}

/// A cluster at rest: so many nodes, of which the first ones carry a member each.
struct Scene {
    places: Vec<Place>,
    recorded: Vec<MemberStatus>,
    leaving: BTreeMap<u32, u64>,
    slots: Vec<PodSlot>,
    servers: Servers,
    silent: BTreeSet<u32>,
    foreign: BTreeMap<u32, bool>,
    plain_clients: PlainClients,
}

fn scene(nodes: usize, members: u32) -> Scene {
    let node = |index: usize| (format!("n{index}"), format!("10.0.0.{index}"));
    let member = |id: u32| {
        let (node, address) = node(id as usize);
        MemberStatus { id, node, address }
    };
    let recorded: Vec<MemberStatus> = (1..=members).map(member).collect();
    Scene {
        places: (1..=nodes).map(node).map(|(node, address)| Place { node, address, matches: true }).collect(),
        servers: Servers { version: 7, servers: recorded.iter().map(|m| (m.id, entry(&m.address))).collect() },
        slots: recorded.iter().enumerate().map(|(ordinal, member)| slot(ordinal, &member.node)).collect(),
        recorded,
        leaving: BTreeMap::new(),
        silent: BTreeSet::new(),
        foreign: BTreeMap::new(),
        plain_clients: PlainClients::Everywhere,
    }
}

fn slot(ordinal: usize, node: &str) -> PodSlot {
    PodSlot {
        ordinal,
        pod: format!("zk-{ordinal}"),
        uid: format!("uid-{ordinal}"),
        node: Some(node.into()),
        ready: true,
        terminating: false,
        change: None,
    }
}

impl Scene {
    fn decide(&self, wanted: usize) -> Decision {
        let highest = self.recorded.iter().map(|member| member.id).max().unwrap_or_default();
        let talks =
            |member: &&MemberStatus| !self.silent.contains(&member.id) && !self.foreign.contains_key(&member.id);
        let facts = self.recorded.iter().filter(talks).map(|member| {
            let role = if member.id == 1 { Role::Leader } else { Role::Follower };
            let synced_followers = (member.id == 1).then(|| self.recorded.len() as u32 - 1);
            let servers = Some(self.servers.clone());
            (member.id, Facts { id: member.id, serving: true, role, zxid: 1, synced_followers, servers })
        });
        decide(&Inputs {
            wanted,
            plain_clients: self.plain_clients,
            places: &self.places,
            recorded: &self.recorded,
            highest,
            leaving: &self.leaving,
            slots: &self.slots,
            facts: &facts.collect(),
            foreign: &self.foreign,
        })
    }
}

fn ids(decision: &Decision) -> Vec<u32> {
    decision.members.iter().map(|member| member.id).collect()
}

#[test]
fn an_ensemble_as_wanted_is_left_alone() {
    let decision = scene(4, 3).decide(3);
    assert_eq!((ids(&decision), &decision.step), (vec![1, 2, 3], &None));
    assert!(decision.waits.is_empty() && decision.held.is_empty(), "{decision:?}");
}

#[test]
fn the_first_members_start_together_or_wait_for_nodes() {
    let mut founded = scene(3, 0);
    assert_eq!(ids(&founded.decide(3)), [1, 2, 3]);
    founded.places.truncate(2);
    let waiting = founded.decide(3);
    assert!(waiting.members.is_empty() && waiting.waits[0].contains("all start together"), "{waiting:?}");
}

#[test]
fn growth_records_one_member_and_adds_it_when_it_follows() {
    let mut growing = scene(5, 3);
    let recorded = growing.decide(5);
    assert_eq!((ids(&recorded), &recorded.step), (vec![1, 2, 3, 4], &None), "one at a time");

    growing.recorded = recorded.members;
    growing.silent.insert(4);
    let waits = growing.decide(5);
    assert_eq!((ids(&waits), &waits.step), (vec![1, 2, 3, 4], &None));
    assert!(waits.waits[0].contains("member 4 on node n4 does not follow"), "{waits:?}");

    growing.silent.clear();
    let added = growing.decide(5);
    assert_eq!(added.step, Some(Step::Add { id: 4, address: "10.0.0.4".into(), version: 7 }));
}

#[test]
fn shrinking_takes_the_vote_of_the_last_pod_s_member_before_the_pod() {
    let mut shrinking = scene(3, 3);
    // Pods need not sit in the order of the record.
    shrinking.slots = vec![slot(0, "n3"), slot(1, "n1"), slot(2, "n2")];
    let marked = shrinking.decide(1);
    assert_eq!((marked.leaving.clone(), ids(&marked), &marked.step), (BTreeMap::from([(2, 7)]), vec![1, 2, 3], &None));

    shrinking.leaving = marked.leaving;
    let removed = shrinking.decide(1);
    assert_eq!((removed.step.clone(), ids(&removed)), (Some(Step::Remove { id: 2, version: 7 }), vec![1, 2, 3]));

    shrinking.servers.servers.remove(&2);
    shrinking.servers.version = 8;
    let struck = shrinking.decide(1);
    assert_eq!((ids(&struck), struck.leaving.len()), (vec![1, 3], 0));
}

#[test]
fn who_was_never_added_is_not_struck_off_before_no_addition_can_succeed() {
    let mut regretted = scene(2, 2);
    regretted.servers.servers.remove(&2);
    let marked = regretted.decide(1);
    assert_eq!(marked.leaving, BTreeMap::from([(2, 7)]));
    regretted.leaving = marked.leaving;
    let fenced = regretted.decide(1);
    assert_eq!((fenced.step.clone(), ids(&fenced)), (Some(Step::Remove { id: 2, version: 7 }), vec![1, 2]));
}

#[test]
fn a_member_without_a_node_is_replaced_under_another_identity() {
    let mut lost = scene(4, 3);
    lost.places.retain(|place| place.node != "n3");
    lost.slots.pop();
    lost.silent.insert(3);
    lost.leaving = lost.decide(3).leaving;
    assert_eq!(lost.leaving, BTreeMap::from([(3, 7)]));
    assert_eq!(lost.decide(3).step, Some(Step::Remove { id: 3, version: 7 }));
    lost.servers.servers.remove(&3);
    lost.servers.version = 8;
    let replaced = lost.decide(3);
    assert_eq!(ids(&replaced), [1, 2, 4]);
    assert_eq!(replaced.members[2].node, "n4");
}

#[test]
fn without_another_node_a_lost_member_keeps_its_vote_and_that_is_said() {
    let mut lost = scene(3, 3);
    lost.places.pop();
    let decision = lost.decide(3);
    assert_eq!((ids(&decision), &decision.step, decision.leaving.len()), (vec![1, 2, 3], &None, 0));
    assert!(decision.held[0].contains("node n3 of member 3 is gone"), "{decision:?}");
}

#[test]
fn without_nodes_for_more_members_nothing_is_done_and_the_wish_is_answered() {
    let full = scene(3, 3);
    let decision = full.decide(5);
    assert_eq!(decision.held, ["5 members are asked for and no further node matches; add nodes or lower replicas"]);
    assert_eq!((&decision.members, &decision.step), (&full.recorded, &None));
    assert!(decision.leaving.is_empty() && decision.waits.is_empty(), "{decision:?}");
}

#[test]
fn nodes_with_one_address_do_not_both_become_members() {
    let mut doubled = scene(4, 2);
    doubled.places[2].address = doubled.places[0].address.clone();
    let decision = doubled.decide(3);
    assert_eq!(decision.members[2].node, "n4");
    assert!(decision.held[0].contains("node n3 has the address 10.0.0.1 of node n1"), "{decision:?}");
}

#[test]
fn servers_that_somebody_else_added_stop_every_change() {
    let mut foreign = scene(4, 3);
    foreign.servers.servers.insert(9, entry("10.0.0.9"));
    let decision = foreign.decide(1);
    assert_eq!((ids(&decision), &decision.step, decision.leaving.len()), (vec![1, 2, 3], &None, 0));
    assert!(decision.held[0].contains("servers 9"), "{decision:?}");
}

#[test]
fn pods_are_brought_up_to_date_with_the_leader_last_and_only_while_all_serve() {
    let mut outdated = scene(3, 3);
    for slot in &mut outdated.slots {
        slot.change = Some(Change::Template);
    }
    assert!(matches!(outdated.decide(3).step, Some(Step::Restart { pod, .. }) if pod == "zk-2"));
    outdated.slots[2].change = None;
    outdated.slots[1].change = Some(Change::Configuration);
    assert!(matches!(outdated.decide(3).step, Some(Step::Activate { pod, .. }) if pod == "zk-1"));
    outdated.slots[1].change = None;
    assert!(matches!(outdated.decide(3).step, Some(Step::Restart { pod, .. }) if pod == "zk-0"));

    outdated.silent.insert(2);
    let held = outdated.decide(3);
    assert_eq!(held.step, None);
    assert!(held.waits[0].contains("member 2 does not serve"), "{held:?}");
}

#[test]
fn a_change_is_not_over_before_the_last_agent_has_made_it() {
    let mut told = scene(3, 3);
    told.slots[0].change = Some(Change::UnderWay);
    let decision = told.decide(3);
    assert_eq!((decision.step, decision.waits.len()), (None, 1), "{:?}", decision.waits);
    assert!(decision.waits[0].contains("zk-0 has not changed over yet"), "{:?}", decision.waits);
}

#[test]
fn what_is_broken_and_outdated_goes_first() {
    let mut broken = scene(3, 3);
    for slot in &mut broken.slots {
        slot.change = Some(Change::Template);
    }
    broken.slots[1].ready = false;
    broken.silent.insert(2);
    assert!(matches!(broken.decide(3).step, Some(Step::Restart { pod, .. }) if pod == "zk-1"));
}

/// The entry of a member that only its own node reaches without TLS.
fn closed(address: &str) -> Server {
    let tls = ZookeeperTls {
        client_port: Some(tf_api::schema::Port(2281)),
        plain_clients: PlainClients::Node,
        ..Default::default()
    };
    crate::config::server(&ZookeeperConfiguration { tls: Some(tls), ..Default::default() }, address)
}

impl Scene {
    /// Carries out a correction of a client's address. Returns whose.
    fn corrected(&mut self, wanted: usize) -> Option<u32> {
        let Some(Step::Add { id, address, version }) = self.decide(wanted).step else { return None };
        assert_eq!(version, self.servers.version);
        let entry = if self.plain_clients == PlainClients::Node { closed(&address) } else { entry(&address) };
        self.servers.servers.insert(id, entry);
        self.servers.version += 1;
        Some(id)
    }
}

#[test]
fn clients_without_tls_are_kept_to_the_node_and_let_in_again_one_member_at_a_time() {
    assert_eq!(closed("10.0.0.1").client_address, "127.0.0.1");
    assert_eq!(closed("fd00::1").client_address, "::1");
    let mut open = scene(3, 3);
    for wish in [PlainClients::Node, PlainClients::Everywhere] {
        open.plain_clients = wish;
        assert_eq!([(); 4].map(|()| open.corrected(3)), [Some(1), Some(2), Some(3), None]);
        assert!(open.servers.servers.values().all(|server| is_as_wanted(server, wish)));
        assert!(open.decide(3).waits.is_empty());
    }
}

#[test]
fn the_port_is_not_closed_before_clients_have_another_and_is_opened_at_once() {
    let mut outdated = scene(3, 3);
    outdated.plain_clients = PlainClients::Node;
    outdated.slots[1].change = Some(Change::Configuration);
    let rolled = outdated.decide(3);
    assert!(matches!(rolled.step, Some(Step::Activate { .. })), "{rolled:?}");
    assert!(rolled.waits[0].contains("still reach member 1, 2, 3 from everywhere"), "{rolled:?}");
    outdated.silent.insert(2);
    outdated.slots[1].change = None;
    assert_eq!(outdated.decide(3).step, None);
    outdated.silent.clear();
    assert_eq!(outdated.corrected(3), Some(1));

    // What is outdated now is the list.
    for slot in &mut outdated.slots {
        slot.change = Some(Change::Configuration);
    }
    assert_eq!(outdated.corrected(3), Some(2));
    outdated.slots[0].change = Some(Change::Template);
    assert!(matches!(outdated.decide(3).step, Some(Step::Activate { .. })), "the pod may not know of the other port");
    outdated.plain_clients = PlainClients::Everywhere;
    outdated.silent.insert(3);
    assert_eq!([(); 2].map(|()| outdated.corrected(3)), [Some(1), Some(2)]);
}

#[test]
fn who_joins_or_moves_gets_the_wanted_entry_and_what_others_listed_stays() {
    let mut growing = scene(4, 4);
    growing.plain_clients = PlainClients::Node;
    growing.servers.servers.remove(&4);
    assert!(matches!(growing.decide(4).step, Some(Step::Add { id: 4, .. })), "membership first");
    let mut foreign = scene(1, 1);
    foreign.servers.servers.get_mut(&1).unwrap().client_address = "0.0.0.0".into();
    assert_eq!(foreign.decide(1).step, None, "reached from everywhere, as wanted");
    foreign.recorded[0].address = "127.0.0.1".into();
    foreign.places[0].address = "127.0.0.1".into();
    foreign.servers.servers.insert(1, entry("127.0.0.1"));
    for wish in [PlainClients::Everywhere, PlainClients::Node] {
        foreign.plain_clients = wish;
        assert_eq!(foreign.decide(1).step, None, "there is no other address");
    }
}
