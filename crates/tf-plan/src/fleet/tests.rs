use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
use tf_agent_api::vrouter::Module;

use super::*;

const SET: &str = "set";
const NEW: &str = "new";

fn pod(index: usize, ready: bool, template: &str) -> Pod {
    Pod {
        name: format!("{SET}-{index}"),
        uid: format!("uid-{index}"),
        node: Some(format!("node-{index}")),
        ready,
        template: Some(template.into()),
        ..Pod::default()
    }
}

fn fleet(count: usize) -> Vec<Pod> {
    (0..count).map(|index| pod(index, true, "old")).collect()
}

/// Pods of one DaemonSet, and what is known of them by their indexes.
#[derive(Debug, Default)]
struct World {
    pods: Vec<Pod>,
    /// Changes beside those of templates.
    changes: BTreeMap<String, Change>,
    lost: BTreeSet<String>,
    troubled: BTreeSet<String>,
    lately: BTreeSet<String>,
    soaking: BTreeSet<String>,
    zones: BTreeMap<String, String>,
    /// Nodes from which pods are evicted, by their pods.
    drained: BTreeSet<String>,
    /// Whether pods forward packets.
    forwards: bool,
    /// What agents report.
    statuses: BTreeMap<String, Status>,
}

impl World {
    fn of(pods: Vec<Pod>) -> Self {
        Self { pods, ..Self::default() }
    }

    fn decide(&self, strategy: Strategy) -> Batch {
        let wanted = i32::try_from(self.pods.len()).unwrap();
        let live = BTreeMap::from([(SET.to_owned(), Workload { current: true, wanted, ..Workload::default() })]);
        let forwarders = self.forwards.then(|| SET.to_owned()).into_iter().collect();
        let group = PodGroup { workloads: vec![(SET.to_owned(), NEW.to_owned())], forwarders, strategy };
        let view = View {
            pods: &self.pods,
            lost: &|pod| self.lost.contains(&pod.name),
            live: &live,
            change: &|pod, live, template| {
                rollout::outdated(pod, live, template).or_else(|| self.changes.get(&pod.name).copied())
            },
            trouble: &|pod| self.troubled.contains(&pod.name).then(|| "its agent does not answer".to_owned()),
            lately: &|pod| !pod.ready && self.lately.contains(&pod.name),
            soaks: &|pod, time| self.soaking.contains(&pod.name).then_some(time),
            label: &|pod, _| self.zones.get(&pod.name).map(String::as_str),
            status: &|pod| self.statuses.get(&pod.name),
            drained: &|pod| self.drained.contains(&pod.name),
        };
        batch(&group, &view)
    }

    fn changed(&self, strategy: Strategy) -> Vec<String> {
        names(&self.decide(strategy))
    }
}

fn names(batch: &Batch) -> Vec<String> {
    batch.changes.iter().filter_map(|change| Some(change.target()?.pod.clone())).collect()
}

fn percent(percent: usize) -> Strategy {
    Strategy { max_unavailable: Share::Percent(percent), ..Strategy::default() }
}

fn nodes(count: usize) -> Strategy {
    Strategy { max_unavailable: Share::Nodes(count), ..Strategy::default() }
}

#[test]
fn a_percentage_is_rounded_up_and_is_one_node_at_least() {
    let shares = [(Share::Percent(5), 5000), (Share::Percent(5), 21), (Share::Percent(1), 3), (Share::Nodes(3), 2)];
    assert_eq!(shares.map(|(share, nodes)| share.of(nodes)), [250, 2, 1, 3]);
    assert_eq!(Share::Percent(5).of(0), 1);
}

#[test]
fn none_gets_an_image_that_cannot_be_pulled_on_another_node() {
    let lacking = Pod { lacks_image: true, ..pod(1, false, NEW) };
    let pods = vec![pod(0, false, "old"), lacking, pod(2, true, "old")];
    let why = World::of(pods).decide(Strategy::default()).held.unwrap();
    assert!(why.ends_with("pod set-1 on node node-1 is, and its image cannot be pulled"), "{why}");
    let failing = vec![pod(0, false, "old"), pod(1, false, NEW), pod(2, true, "old")];
    assert_eq!(World::of(failing).changed(Strategy::default()), ["set-0"]);
}

#[test]
fn a_pod_that_is_down_waits_for_no_other_one() {
    let under_way = [("set-1".to_owned(), Change::UnderWay)];
    let mut world = World {
        changes: under_way.into(),
        ..World::of(vec![pod(0, false, "old"), pod(1, true, NEW), pod(2, true, "old")])
    };
    assert_eq!(world.changed(Strategy::default()), ["set-0"]);
    world.pods.remove(0);
    let why = world.decide(Strategy::default()).held.unwrap();
    assert!(why.contains("set-1 on node node-1 has not changed over"), "{why}");
    let dead: Vec<Pod> = (0..10).map(|index| pod(index, false, "old")).collect();
    assert_eq!(World::of(dead.clone()).changed(Strategy::default()).len(), 1);
    assert_eq!(World::of(dead).changed(nodes(4)).len(), 4, "a fix gets through although no agent serves");
}

#[test]
fn the_first_node_is_changed_alone_and_others_together_when_it_serves() {
    let mut world = World::of(fleet(10));
    assert_eq!(world.changed(nodes(3)), ["set-9"]);
    world.pods[9] = Pod { terminating: true, ..world.pods[9].clone() };
    let why = world.decide(nodes(3)).held.unwrap();
    assert!(why.contains("pod set-9 on node node-9 is terminating"), "{why}");
    world.pods[9] = pod(9, true, NEW);
    assert_eq!(world.changed(nodes(3)), ["set-8", "set-7", "set-6"]);
    world.soaking.insert("set-9".into());
    let soaking = Strategy { soak: Duration::from_secs(30), ..nodes(3) };
    let batch = world.decide(soaking.clone());
    assert_eq!((names(&batch).len(), batch.again), (0, Some(Duration::from_secs(30))));
    assert!(batch.held.unwrap().ends_with("pod set-9 on node node-9 has served for less than 30 s"));
    world.soaking.clear();
    assert_eq!(world.changed(soaking).len(), 3);
}

#[test]
fn what_is_away_for_another_reason_counts_and_lost_nodes_do_not() {
    let mut world = World::of(fleet(10));
    world.pods[9] = pod(9, true, NEW);
    world.troubled.insert("set-0".into());
    world.lost.insert("set-1".into());
    world.pods[1].terminating = true;
    world.pods[2] = Pod { terminating: true, ..world.pods[2].clone() };
    assert_eq!(world.changed(nodes(3)), ["set-8"]);
    let why = world.decide(nodes(2)).held.unwrap();
    assert!(why.contains("set-2 on node node-2 is terminating"), "{why}");
}

#[test]
fn a_change_stops_at_so_many_failures_and_says_where() {
    let mut world = World::of(fleet(10));
    for index in 5..10 {
        world.pods[index] = pod(index, index > 6, NEW);
    }
    world.lately.insert("set-6".into());
    let two = Strategy { max_failures: 2, ..nodes(5) };
    let why = world.decide(nodes(5)).held.unwrap();
    assert_eq!(
        why,
        "5 pods are not up to date, none is touched now: 1 that are up to date do not serve (maxFailures: 1), first pod set-5 on node \
         node-5; correct what keeps it from serving, or raise maxFailures"
    );
    assert_eq!(world.changed(two.clone()).len(), 3, "one of the two has been away for a moment only");
    world.lately.clear();
    assert_eq!(world.changed(two.clone()), [""; 0]);
    world.pods[6].ready = true;
    assert_eq!(world.changed(two).len(), 4);
}

#[test]
fn nodes_of_one_failure_domain_are_changed_together() {
    let mut world = World::of(fleet(9));
    world.zones = (0..9).map(|index| (format!("set-{index}"), format!("zone-{}", index % 3))).collect();
    world.pods[8] = pod(8, true, NEW);
    let strategy = Strategy { topology_key: Some("zone".into()), ..nodes(4) };
    assert_eq!(world.changed(strategy.clone()), ["set-6", "set-3", "set-0"]);
    world.pods[7] = Pod { terminating: true, ..world.pods[7].clone() };
    assert_eq!(world.changed(strategy.clone()), ["set-4", "set-1"], "the zone that has begun");
    for index in [1, 4] {
        world.pods[index] = pod(index, true, NEW);
    }
    let why = world.decide(strategy).held.unwrap();
    assert!(why.contains("pod set-7 on node node-7 is terminating"), "{why}");
}

#[test]
fn what_a_strategy_leaves_to_people_is_counted_and_not_done() {
    let mut world = World::of(fleet(4));
    let change = |index: usize, change| (format!("set-{index}"), change);
    world.changes =
        [change(1, Change::Configuration), change(2, Change::Certificate), change(3, Change::HotReload)].into();
    for index in 1..4 {
        world.pods[index].template = Some(NEW.into());
    }
    let of = |method| world.decide(Strategy { method, ..nodes(4) });
    let rolling = of(UpgradeType::RollingUpdate);
    assert_eq!((rolling.changes.len(), rolling.left.len()), (1, 0), "the first one alone");
    let in_place = of(UpgradeType::InPlace);
    assert!(in_place.changes.iter().all(|change| !matches!(change, Decision::Restart(_))), "{in_place:?}");
    assert_eq!(in_place.left, ["set-0"]);
    assert_eq!(of(UpgradeType::OnDelete).left.len(), 2);
    let mut certificates = World::of(vec![pod(0, true, "old"), pod(1, true, NEW)]);
    certificates.changes = [change(0, Change::Certificate)].into();
    let batch = certificates.decide(Strategy { method: UpgradeType::OnDelete, ..Strategy::default() });
    assert!(matches!(&batch.changes[..], [Decision::Renew(target)] if target.pod == "set-0"), "{batch:?}");
    assert_eq!(batch.left, ["set-0"]);
}

#[test]
fn five_thousand_nodes_are_changed_in_at_most_twenty_five_waves() {
    let mut world = World::of(fleet(5000));
    let mut batches = 0;
    while let changed @ [_, ..] = &world.changed(percent(5))[..] {
        let changed: BTreeSet<&String> = changed.iter().collect();
        let is_changed = |pod: &&mut Pod| changed.contains(&pod.name);
        assert!(changed.len() <= 250);
        for pod in world.pods.iter_mut().filter(is_changed) {
            pod.terminating = true;
        }
        batches += 1;
        assert!(world.changed(percent(5)).len() + changed.len() <= 250, "a batch that is under way counts");
        for pod in world.pods.iter_mut().filter(|pod| pod.terminating) {
            *pod = Pod { terminating: false, template: Some(NEW.into()), ..pod.clone() };
        }
    }
    assert!(world.pods.iter().all(|pod| pod.template.as_deref() == Some(NEW)));
    assert_eq!(batches, 21);
}

fn change() -> impl prop::strategy::Strategy<Value = Option<Change>> {
    prop::option::of(prop::sample::select(vec![
        Change::Certificate,
        Change::Configuration,
        Change::HotReload,
        Change::UnderWay,
    ]))
}

proptest! {
    /// Never more nodes than the strategy bears are without a working agent by the operator's hand, and no decision waits for nothing.
    #[test]
    fn no_strategy_is_exceeded_and_something_is_done_or_said(
        states in prop::collection::vec((any::<[bool; 7]>(), 0..3_usize, change()), 1..12),
        (share, failures, soaks, by_zone) in (1..14_usize, 1..4_usize, any::<bool>(), any::<bool>()),
        method in prop::sample::select(vec![UpgradeType::RollingUpdate, UpgradeType::InPlace, UpgradeType::OnDelete]),
    ) {
        let mut world = World::default();
        for (index, ([ready, is_new, terminating, troubled, lately, soaking, lost], zone, change)) in states.into_iter().enumerate() {
            let pod = Pod { terminating, ..pod(index, ready, if is_new { NEW } else { "old" }) };
            let name = pod.name.clone();
            world.zones.insert(name.clone(), format!("zone-{zone}"));
            for (is, set) in [(troubled, &mut world.troubled), (lately, &mut world.lately), (soaking, &mut world.soaking), (lost && index % 4 == 0, &mut world.lost)] {
                if is {
                    set.insert(name.clone());
                }
            }
            world.changes.extend(change.map(|change| (name, change)));
            world.pods.push(pod);
        }
        let soak = Duration::from_secs(if soaks { 60 } else { 0 });
        let topology_key = by_zone.then(|| "zone".to_owned());
        let strategy = Strategy { method, max_unavailable: Share::Nodes(share), max_failures: failures, soak, topology_key, ..Strategy::default() };
        let batch = world.decide(strategy);
        let changed: Vec<&Pod> = names(&batch).iter().map(|name| world.pods.iter().find(|pod| pod.name == *name).unwrap()).collect();
        let distinct: BTreeSet<&str> = changed.iter().map(|pod| pod.name.as_str()).collect();
        prop_assert_eq!(distinct.len(), changed.len());
        prop_assert!(changed.iter().all(|pod| !pod.terminating && !world.lost.contains(&pod.name)));
        let is_under_way = |pod: &Pod| {
            let is_made = method != UpgradeType::RollingUpdate || pod.template.as_deref() == Some(NEW);
            is_made && world.changes.get(&pod.name) == Some(&Change::UnderWay)
        };
        let begun = |pod: &&Pod| pod.terminating || is_under_way(pod) || soaks && pod.ready && world.soaking.contains(&pod.name);
        let there = || world.pods.iter().filter(|pod| !world.lost.contains(&pod.name));
        let away = there().filter(|pod| begun(pod) || !pod.ready || world.troubled.contains(&pod.name));
        let (well, down): (Vec<&Pod>, Vec<&Pod>) = changed.iter().copied().partition(|pod| pod.ready);
        prop_assert!(down.len() <= share && (well.is_empty() || down.is_empty()));
        prop_assert!(well.is_empty() || well.len() + away.count() <= share, "{:?}", batch);
        if by_zone {
            let zones: BTreeSet<&String> = well.iter().copied().chain(there().filter(begun).take(well.len())).map(|pod| &world.zones[&pod.name]).collect();
            let begun_in: BTreeSet<&String> = there().filter(begun).map(|pod| &world.zones[&pod.name]).collect();
            prop_assert!(zones.len() <= 1 || begun_in.len() > 1, "{zones:?}");
        }
        let is_proof = |pod: &&Pod| pod.ready && !pod.terminating && !world.troubled.contains(&pod.name) && !begun(pod) && !distinct.contains(pod.name.as_str());
        prop_assert!(well.len() <= 1 || there().any(|pod| is_proof(&pod)), "several go although none was tried");
        for change in &batch.changes {
            prop_assert!(method == UpgradeType::RollingUpdate || !matches!(change, Decision::Restart(_)));
            let is_told = |pod: &str| world.changes.get(pod) == Some(&Change::HotReload);
            prop_assert!(method != UpgradeType::OnDelete || !matches!(change, Decision::Activate(target) if !is_told(&target.pod)));
        }
        prop_assert!(batch.changes.is_empty() || batch.held.is_none());
        let is_outdated = |pod: &&Pod| pod.template.as_deref() != Some(NEW) || world.changes.contains_key(&pod.name);
        let says = batch.held.is_some() || !batch.left.is_empty() || !batch.changes.is_empty();
        prop_assert!(says || !there().any(|pod| is_outdated(&pod)), "{batch:?}");
        prop_assert!(batch.held.is_none_or(|why| !why.ends_with(": ")), "it is held for no reason");
    }
}

/// Pods that serve and are up to date, on nodes whose vRouter is used: all of these wait for another module but for the first `done`.
fn waiting(count: usize, done: usize) -> World {
    let pods: Vec<Pod> = (0..count).map(|index| pod(index, true, NEW)).collect();
    let module = || Module {
        cause: "module A is loaded, and B is on the node".into(),
        reload: true,
        used: true,
        ..Module::default()
    };
    let status = |index: usize| Status { module: (index >= done).then(module), ..Status::default() };
    let statuses = pods.iter().enumerate().map(|(index, pod)| (pod.name.clone(), status(index))).collect();
    World { statuses, ..World::of(pods) }
}

fn draining(most: usize) -> Strategy {
    Strategy { max_unavailable: Share::Nodes(most), drains: true, ..Strategy::default() }
}

/// Numbers of the nodes where an eviction begins, those where it goes on, and those that take pods again.
fn drains(world: &World, strategy: Strategy) -> [Vec<String>; 3] {
    let batch = world.decide(strategy);
    let of = |begins| batch.drains.iter().filter(|it| it.begins == begins).map(|it| it.node.clone()).collect();
    [of(true), of(false), batch.drained.clone()].map(|mut nodes: Vec<String>| {
        nodes.sort();
        nodes
    })
}

fn named(numbers: &[usize]) -> Vec<String> {
    numbers.iter().map(|number| format!("node-{number}")).collect()
}

fn drain(world: &mut World, numbers: &[usize]) {
    world.drained.extend(numbers.iter().map(|number| format!("{SET}-{number}")));
}

#[test]
fn pods_are_evicted_from_one_node_first_and_then_from_as_many_as_may_be_without_an_agent() {
    let mut world = waiting(5, 0);
    assert_eq!(drains(&world, draining(3)), [named(&[4]), vec![], vec![]]);
    drain(&mut world, &[4]);
    assert_eq!(drains(&world, draining(3)), [vec![], named(&[4]), vec![]]);
    // Nothing uses it: its pod is replaced.
    world.statuses.get_mut("set-4").unwrap().module.as_mut().unwrap().used = false;
    world.changes.insert("set-4".into(), Change::Template);
    assert_eq!(drains(&world, draining(3)), [const { Vec::<String>::new() }; 3]);
    assert_eq!(world.changed(draining(3)), ["set-4"]);
    world.changes.clear();
    // The other pod's agent has not answered yet.
    world.statuses.remove("set-4");
    assert_eq!(drains(&world, draining(3)), [const { Vec::<String>::new() }; 3]);
    world.statuses.insert("set-4".into(), Status::default());
    let [begun, on, taking] = drains(&world, draining(3));
    assert_eq!((on, taking), (vec![], named(&[4])));
    assert_eq!(begun.len(), 2, "the one that takes pods again counts until it does: {begun:?}");
    world.drained.clear();
    assert_eq!(drains(&world, draining(3))[0].len(), 3);
}

#[test]
fn no_node_is_drained_that_is_not_to_be_or_while_others_are_away() {
    let world = waiting(5, 1);
    assert_eq!(drains(&world, Strategy { drains: false, ..draining(2) }), [const { Vec::<String>::new() }; 3]);
    assert_eq!(drains(&world, draining(2))[0].len(), 2);
    let mut troubled = waiting(5, 1);
    troubled.troubled.insert("set-2".into());
    assert_eq!(drains(&troubled, draining(2)), [named(&[4]), vec![], vec![]]);
    let mut outdated = waiting(5, 1);
    outdated.changes.insert("set-2".into(), Change::Configuration);
    assert_eq!(drains(&outdated, draining(2))[0], Vec::<String>::new(), "what is not up to date goes first");
    let mut lost = waiting(2, 1);
    lost.lost.insert("set-1".into());
    assert_eq!(drains(&lost, draining(2))[0], Vec::<String>::new());
    // The spec does not ask for it any more.
    let mut former = waiting(5, 1);
    drain(&mut former, &[3]);
    assert_eq!(drains(&former, Strategy { drains: false, ..draining(2) }), [vec![], vec![], named(&[3])]);
}

#[test]
fn a_module_that_does_not_work_on_a_node_goes_to_no_other_and_the_node_takes_pods_again() {
    let mut world = waiting(5, 1);
    drain(&mut world, &[4]);
    let module = world.statuses.get_mut("set-4").unwrap().module.as_mut().unwrap();
    (module.failed, module.used) = (Some("Exec format error".into()), false);
    let batch = world.decide(draining(2));
    assert_eq!((batch.drains, batch.drained), (vec![], named(&[4])));
    assert_eq!(
        batch.held.as_deref(),
        Some(
            "3 nodes wait for another kernel module: it does not work on 1 (maxFailures: 1), first node node-4: Exec format error; correct it, or take the change back"
        )
    );
    assert_eq!(drains(&world, Strategy { max_failures: 2, ..draining(2) })[0].len(), 1);
}

#[test]
fn nodes_of_one_domain_are_drained_together() {
    let mut world = waiting(6, 1);
    world.zones = (0..6).map(|index| (format!("{SET}-{index}"), format!("zone-{}", index % 2))).collect();
    let strategy = Strategy { topology_key: Some("zone".into()), ..draining(5) };
    assert_eq!(drains(&world, strategy.clone())[0], named(&[1, 3, 5]));
    drain(&mut world, &[2]);
    assert_eq!(drains(&world, strategy), [named(&[4]), named(&[2]), vec![]]);
}

#[test]
fn a_forwarder_is_replaced_where_nothing_uses_it_or_its_pod_does_not_serve() {
    let mut world = World { forwards: true, ..World::of(fleet(4)) };
    for index in 0..4 {
        let status = Status { used: Some(index != 1), ..Status::default() };
        world.statuses.insert(format!("{SET}-{index}"), status);
    }
    let most = || Strategy { max_unavailable: Share::Nodes(4), ..Strategy::default() };
    assert_eq!(world.changed(most()), ["set-1"]);
    assert_eq!(world.decide(most()).left, ["set-3", "set-2", "set-0"]);
    world.pods[2].ready = false;
    assert_eq!(world.changed(most()), ["set-2"]);
    world.pods[2].ready = true;
    world.statuses.remove("set-1");
    assert_eq!(world.changed(most()), Vec::<String>::new(), "whether something uses it is not known");
    assert_eq!(world.changed(Strategy { cuts_off: true, ..most() }).len(), 1, "the spec says so");
    // Pods are evicted from one node first, whose pod is replaced then.
    assert_eq!(drains(&world, draining(2)), [named(&[3]), vec![], vec![]]);
    assert!(world.decide(draining(2)).left.is_empty(), "no person has to do anything");
    drain(&mut world, &[3]);
    assert_eq!(drains(&world, draining(2)), [vec![], named(&[3]), vec![]]);
    world.statuses.get_mut("set-3").unwrap().used = Some(false);
    assert_eq!(world.changed(draining(2)), ["set-3"]);
    assert_eq!(drains(&world, draining(2)), [const { Vec::<String>::new() }; 3]);
    world.pods[3].template = Some(NEW.into());
    assert_eq!(drains(&world, draining(2)), [named(&[2]), vec![], named(&[3])]);
}

proptest! {
    /// Whatever is the matter with pods: never more nodes without an agent or pods than the strategy says, once all of them serve.
    #[test]
    fn as_many_nodes_are_drained_as_may_be(count in 1_usize..20, most in 1_usize..6, drained in prop::collection::btree_set(0_usize..20, 0..8), down in prop::collection::btree_set(0_usize..20, 0..4)) {
        let mut world = waiting(count, 1);
        drain(&mut world, &drained.iter().copied().filter(|it| *it < count).collect::<Vec<_>>());
        world.troubled = down.iter().filter(|it| **it < count).map(|it| format!("{SET}-{it}")).collect();
        let occupied = world.drained.union(&world.troubled).count();
        let [begun, on, _] = drains(&world, draining(most));
        prop_assert!(begun.is_empty() || begun.len() + occupied <= most, "{begun:?} {occupied}");
        prop_assert!(on.iter().all(|node| world.drained.contains(&node.replace("node", SET))));
        let clash = begun.iter().find(|node| world.drained.contains(&node.replace("node", SET)) || world.troubled.contains(&node.replace("node", SET)));
        prop_assert_eq!(clash, None);
    }
}
