//! Which addresses members use where `dataSubnet` states a network.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a situation that cannot be made is a failing test")]

use std::{collections::BTreeMap, net::IpAddr};

use crate::support::{Planned, World, control, with_status};
use proptest::prelude::*;
use serde_json::{Value, json};
use tf_agent_api::state::{Network, Status};
use tf_api::{Control, contract::Reason};
use tf_config_api::types;
use tf_plan::{
    component::Component as _,
    observed::{Agent, Observed, Source},
    plan::Plan,
    step::Step,
};
use tf_sim::control::options::{Daemon, Options};
use tf_testing::three;

const SET: &str = "control1-control-statefulset";
const NODES: [&str; 3] = ["cp1", "cp2", "cp3"];
const SUBNET: &str = "10.1.0.0/24";

/// What an agent says whose node has these addresses in a network.
fn status(index: usize, told: Option<(&str, &[&str])>) -> Status {
    let network = told.map(|(network, addresses)| Network {
        network: network.parse().unwrap(),
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
    });
    Status { network, ..three::status(SET, "control", index) }
}

/// Three members and what their nodes have in a network.
fn telling(network: &str, told: [&[&str]; 3]) -> Observed<Control> {
    three::of(World::default().observed(), SET, |index| {
        Agent::Says(Box::new(status(index, Some((network, told[index])))))
    })
}

/// The addresses that members use, or what they record of it.
type Used = BTreeMap<String, String>;

/// A Control and what becomes of it, pass by pass.
struct Run {
    subnet: Option<&'static str>,
    status: Value,
    observed: Observed<Control>,
}

impl Run {
    /// One that was never planned.
    fn new(subnet: &'static str, observed: Observed<Control>) -> Self {
        Self { subnet: Some(subnet), status: json!({}), observed }
    }

    /// One whose members serve with the addresses of their nodes.
    fn running(subnet: Option<&'static str>, observed: Observed<Control>) -> Self {
        Self { subnet, status: json!({"initialized": true, "members": three::recorded()}), observed }
    }

    fn control(&self) -> Control {
        let spec = self.subnet.map_or(json!({}), |subnet| json!({"dataSubnet": subnet}));
        let status = self.status.as_object().unwrap().clone();
        with_status(&control(json!({"serviceConfiguration": spec})), Value::Object(status))
    }

    /// What is planned now, whose record is kept.
    fn pass(&mut self) -> Planned {
        let plan = control_op::plan::plan(&self.control(), &self.observed).unwrap();
        self.status["members"] = json!(plan.members);
        let fields = self.status.as_object_mut().unwrap();
        for field in plan.record {
            fields.remove(*field);
            fields.extend(plan.own_status.get(*field).map(|value| ((*field).to_owned(), value.clone())));
        }
        Planned(plan)
    }

    /// Does what plans say until nothing is left to do. What was recorded on the way.
    fn settle(&mut self) -> Vec<Used> {
        let mut seen: Vec<Used> = Vec::new();
        for _ in 0..40 {
            let plan = self.pass().0;
            let used = record(&self.status);
            if seen.last() != Some(&used) {
                seen.push(used);
            } else if plan.step.is_none() {
                return seen;
            }
            if let Some(Step::Activate(target, hash)) = plan.step {
                let Some(Agent::Says(status)) = self.observed.agents.get_mut(&target.uid) else { panic!("no agent") };
                status.daemons.get_mut("control").unwrap().active = Some(hash);
            }
        }
        panic!("there is no end to it: {seen:?}")
    }

    fn pods(&mut self, change: impl Fn(usize, &mut tf_plan::observed::Pod)) {
        let Source::Known(pods) = &mut self.observed.pods else { panic!("no pods") };
        pods.iter_mut().enumerate().for_each(|(index, pod)| change(index, pod));
    }
}

fn record(status: &Value) -> Used {
    serde_json::from_value(status["dataAddresses"].clone()).unwrap_or_default()
}

fn used(addresses: [&str; 3]) -> Used {
    NODES.into_iter().map(str::to_owned).zip(addresses.map(str::to_owned)).collect()
}

/// What the daemons of each node that has files are told to use.
fn told(planned: &Planned) -> Used {
    let files = planned.secret();
    let mut used = Used::new();
    for (node, address) in three::THREE {
        let address_of = |daemon, file: &str| {
            let text = files.get(&format!("{file}.{address}"))?;
            Some(Options::read(daemon, text).unwrap().address.to_string())
        };
        let control = address_of(Daemon::Control, "contrail-control.conf");
        assert_eq!(control, address_of(Daemon::Dns, "contrail-dns.conf"), "{node}");
        used.extend(control.map(|address| (node.to_owned(), address)));
    }
    used
}

fn endpoint<'a>(plan: &'a Plan, name: &str) -> Option<&'a [String]> {
    plan.endpoints.iter().find(|endpoint| endpoint.name == name).map(|endpoint| endpoint.nodes.as_slice())
}

/// Addresses of bgp-routers by nodes, and the nodes whose routers stay as they are.
fn routers(plan: &Plan) -> (Used, Vec<&'static str>) {
    let wanted = &plan.registration.as_ref().unwrap().wanted;
    let made = tf_config_api::decide::decide(wanted, &[]).waves.concat().into_iter().map(|call| call.request());
    let mut addresses = Used::new();
    for request in made.filter(|request| request.path == "/bgp-routers") {
        let router = &request.body.unwrap()["bgp-router"];
        let parameters = &router["bgp_router_parameters"];
        assert_eq!(parameters["address"], parameters["identifier"]);
        let node = NODES.into_iter().find(|node| router["fq_name"] == json!(types::bgp_router(node))).unwrap();
        addresses.insert(node.to_owned(), parameters["address"].as_str().unwrap().to_owned());
    }
    let kept = NODES.into_iter().filter(|node| wanted.kept.contains(&types::bgp_router(node))).collect();
    (addresses, kept)
}

#[test]
fn nothing_is_started_before_a_node_has_told_its_address() {
    let observed = three::of(World::default().observed(), SET, |index| Agent::Says(Box::new(status(index, None))));
    let mut run = Run::new(SUBNET, observed);
    run.pods(|_, pod| pod.ready = false);
    let planned = run.pass();
    assert_eq!(told(&planned), Used::new());
    assert_eq!(record(&run.status), used(["", "", ""]));
    let launch = planned.launch("control.launch");
    assert_eq!((launch.network, launch.addresses.len()), (Some(SUBNET.parse().unwrap()), 0));
    assert_eq!(planned.launch("dns.launch").network, None, "one agent of a pod tells it");
    assert_eq!((endpoint(&planned.0, "xmpp"), endpoint(&planned.0, "dns")), (None, None));
    assert_eq!(routers(&planned.0), (Used::new(), NODES.to_vec()));
    let why = &planned.0.troubles[&format!("{SET}-1")];
    assert_eq!(why, "node cp2 has not reported its address in dataSubnet yet");
    assert_eq!(planned.0.held, None);
    let later = Run::new(SUBNET, telling(SUBNET, [&["10.1.0.1"], &["10.1.0.2"], &["10.1.0.3"]])).pass();
    assert_eq!(planned.0.workload(), later.0.workload(), "pods stay when their files come");
}

#[test]
fn members_listen_where_their_nodes_are_in_the_network_and_everybody_is_told_so() {
    let mut run = Run::new(SUBNET, telling(SUBNET, [&["10.1.0.1"], &["10.1.0.2"], &["10.1.0.3"]]));
    let planned = run.pass();
    let addresses = ["10.1.0.1", "10.1.0.2", "10.1.0.3"];
    assert_eq!((told(&planned), record(&run.status)), (used(addresses), used(addresses)));
    for name in ["xmpp", "bgp", "dns"] {
        assert_eq!(endpoint(&planned.0, name).unwrap(), addresses, "{name}");
    }
    assert_eq!(endpoint(&planned.0, "dns-introspect").unwrap(), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    assert_eq!(routers(&planned.0), (used(addresses), vec![]));
    // What the agent asks for is what the operator grants, and only of the member.
    let second: IpAddr = "10.1.0.2".parse().unwrap();
    for daemon in ["control", "dns", "named"] {
        let launch = planned.launch(&format!("{daemon}.launch.10.0.0.2"));
        assert_eq!(launch.addresses, [second].into(), "{daemon}");
    }
    let agents = control_op::Component::agents(&run.control(), "cluster.local").unwrap();
    let own: IpAddr = "10.0.0.2".parse().unwrap();
    assert_eq!(agents.member(&format!("{SET}-1"), "cp2", own).addresses, [own, second].into());
    assert_eq!(agents.member(&format!("{SET}-3"), "cp9", own).addresses, [own].into());
    assert_eq!(planned.0.held, None);
}

#[test]
fn a_node_that_is_known_by_an_address_in_the_network_is_not_asked() {
    let mut run = Run::new("10.0.0.0/24", World::default().observed());
    let planned = run.pass();
    let addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
    assert_eq!((told(&planned), record(&run.status)), (used(addresses), used(addresses)));
    assert!(!planned.open().contains_key("control.launch.10.0.0.2"));
    let host_bits = Run::new("10.0.0.77/24", World::default().observed()).pass();
    assert_eq!(host_bits.launch("control.launch"), planned.launch("control.launch"));
}

#[test]
fn a_node_without_an_address_or_with_several_is_named_with_what_to_do() {
    for (second, why) in [
        (
            &[][..],
            "node cp2 has no address in 10.1.0.0/24, which dataSubnet states; give it one, or state another network",
        ),
        (
            &["10.1.0.2", "10.1.0.9"],
            "node cp2 has several addresses in 10.1.0.0/24, which dataSubnet states: 10.1.0.2 10.1.0.9; state a network in \
             which it has one",
        ),
        (
            &["10.1.0.1"],
            "nodes cp1 and cp2 both have 10.1.0.1; give each an address of its own in 10.1.0.0/24 (dataSubnet)",
        ),
    ] {
        let mut run = Run::new(SUBNET, telling(SUBNET, [&["10.1.0.1"], second, &["10.1.0.3"]]));
        let planned = run.pass();
        assert_eq!(planned.0.troubles[&format!("{SET}-1")], why);
        assert_eq!(planned.0.held, Some((Reason::NoMatchingNodes, why.to_owned())));
        let others: Used = [("cp1", "10.1.0.1"), ("cp3", "10.1.0.3")].map(|(a, b)| (a.into(), b.into())).into();
        assert_eq!(told(&planned), others, "the others serve");
        assert_eq!(routers(&planned.0), (others, vec!["cp2"]));
        assert_eq!(endpoint(&planned.0, "xmpp").unwrap(), ["10.1.0.1", "10.1.0.3"]);
    }
}

#[test]
fn what_no_other_host_can_reach_is_no_address() {
    for (network, address) in [("127.0.0.0/8", "127.0.0.1"), ("fe80::/64", "fe80::1"), ("224.0.0.0/4", "224.0.0.5")] {
        let planned = Run::new(network, telling(network, [&[address], &[address], &[address]])).pass();
        assert_eq!(told(&planned), Used::new(), "{address}");
    }
}

#[test]
fn a_member_keeps_its_address_while_it_is_not_told_or_told_with_others() {
    let mut run = Run::new(SUBNET, telling(SUBNET, [&["10.1.0.1"], &["10.1.0.2"], &["10.1.0.3"]]));
    run.settle();
    let before = run.pass();
    let says = |told: Option<(&str, &[&str])>| Agent::Says(Box::new(status(1, told)));
    let situations: [(Option<Agent>, Option<&str>); 6] = [
        (None, None),
        (Some(Agent::Silent("no route".into())), None),
        (Some(says(None)), None),
        (Some(says(Some(("10.7.0.0/24", &["10.7.0.1"])))), None),
        (Some(says(Some((SUBNET, &["10.1.0.1", "10.1.0.2", "10.1.0.9"])))), None),
        (Some(says(Some((SUBNET, &[])))), Some("its control node keeps 10.1.0.2")),
    ];
    for (agent, held) in situations {
        let what = format!("{agent:?}");
        match agent {
            Some(agent) => drop(run.observed.agents.insert("pod-1".into(), agent)),
            None => drop(run.observed.agents.remove("pod-1")),
        }
        let planned = run.pass();
        assert_eq!(planned.0.objects, before.0.objects, "{what}");
        assert_eq!(record(&run.status), used(["10.1.0.1", "10.1.0.2", "10.1.0.3"]), "{what}");
        let why = planned.0.held.map(|(_, why)| why).unwrap_or_default();
        assert_eq!(held.is_some_and(|held| why.ends_with(held)), !why.is_empty(), "{what}: {why}");
    }
}

#[test]
fn members_that_serve_go_over_to_a_network_one_after_the_other_and_back() {
    let mut run = Run::running(None, telling(SUBNET, [&["10.1.0.1"], &["10.1.0.2"], &["10.1.0.3"]]));
    assert_eq!(run.settle(), [Used::new()], "nobody asks for another address");
    run.subnet = Some(SUBNET);
    let order = run.settle();
    let own = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
    let expected = [
        // What they use so far is recorded first; what they are asked changes their launch files.
        used(own),
        used([own[0], own[1], "10.1.0.3"]),
        used([own[0], "10.1.0.2", "10.1.0.3"]),
        used(["10.1.0.1", "10.1.0.2", "10.1.0.3"]),
    ];
    assert_eq!(order, expected);
    run.subnet = None;
    let mut back = run.settle();
    assert_eq!(back.pop(), Some(Used::new()), "nothing is left of it");
    assert_eq!(back.len(), 3);
    assert_eq!(run.settle(), [Used::new()]);
    assert_eq!(told(&run.pass()), used(own));
}

#[test]
fn nobody_goes_over_while_another_one_does_not_serve_or_cannot_be_brought_up_to_date() {
    let moving = || {
        let mut run = Run::running(Some(SUBNET), telling("10.7.0.0/24", [&[], &[], &[]]));
        run.settle();
        for index in 0..3 {
            let Some(Agent::Says(status)) = run.observed.agents.get_mut(&format!("pod-{index}")) else { panic!() };
            let address = format!("10.1.0.{}", index + 1).parse().unwrap();
            status.network = Some(Network { network: SUBNET.parse().unwrap(), addresses: [address].into() });
        }
        run
    };
    let own = used(["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    let mut run = moving();
    run.status["conditions"] = json!([{"type": "Provisioned", "status": "False", "reason": "ProvisioningFailed", "message": "no answer",
                "lastTransitionTime": "2026-11-21T09:00:00Z"}]);
    let plan = run.pass().0;
    assert_eq!(record(&run.status), own, "nobody would be told of it");
    assert!(plan.under_way.unwrap().contains("goes over from 10.0.0.1 to 10.1.0.1 when all serve"));
    let mut run = moving();
    run.pods(|index, pod| pod.ready = index != 1);
    run.pass();
    assert_eq!(record(&run.status), used(["10.0.0.1", "10.1.0.2", "10.0.0.3"]), "who does not serve loses nothing");
    run.pass();
    assert_eq!(record(&run.status), used(["10.0.0.1", "10.1.0.2", "10.0.0.3"]), "and is waited for");
    let mut run = moving();
    run.observed.agents.insert("pod-0".into(), Agent::Silent("no route".into()));
    run.pass();
    assert_eq!(record(&run.status), own, "one that says nothing may not serve");
}

#[test]
fn a_node_that_joins_is_asked_and_one_that_left_is_forgotten() {
    let mut run = Run::new(SUBNET, telling(SUBNET, [&["10.1.0.1"], &["10.1.0.2"], &["10.1.0.3"]]));
    run.settle();
    if let Source::Known(nodes) = &mut run.observed.nodes {
        nodes[2].name = "cp9".into();
    }
    run.pods(|index, pod| {
        if index == 2 {
            (pod.node, pod.ready) = (None, false);
        }
    });
    run.observed.agents.remove("pod-2");
    run.pass();
    let expected = [("cp1", "10.1.0.1"), ("cp2", "10.1.0.2"), ("cp9", "")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(record(&run.status), expected.into());
}

prop_compose! {
    fn said()(
        addresses in prop::collection::btree_set(1_u8..6, 0..3),
        kind in 0_u8..8,
    ) -> (Vec<String>, u8) {
        (addresses.iter().map(|last| format!("10.1.0.{last}")).collect(), kind)
    }
}

proptest! {
    /// Whatever agents say, and whoever serves: whoever has an address has files, no two have the same, and of those that serve one at a time
    /// gets another.
    #[test]
    fn addresses_are_kept_and_never_shared(
        passes in prop::collection::vec(([said(), said(), said()], prop::array::uniform3(any::<bool>()), any::<bool>()), 1..8),
        fresh: bool,
    ) {
        let observed = telling(SUBNET, [&[], &[], &[]]);
        let mut run = if fresh { Run::new(SUBNET, observed) } else { Run::running(Some(SUBNET), observed) };
        let mut before = Used::new();
        for (agents, ready, stated) in passes {
            for (index, (addresses, kind)) in agents.iter().enumerate() {
                let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
                let agent = match kind {
                    0 => Agent::Silent("no route".into()),
                    1 => Agent::Says(Box::new(status(index, None))),
                    _ => Agent::Says(Box::new(status(index, Some((SUBNET, &addresses))))),
                };
                run.observed.agents.insert(format!("pod-{index}"), agent);
            }
            run.pods(|index, pod| pod.ready = ready[index]);
            run.subnet = stated.then_some(SUBNET);
            let planned = run.pass();
            let now = record(&run.status);
            let files = told(&planned);
            let mut addresses: Vec<&String> = files.values().collect();
            addresses.sort();
            addresses.dedup();
            prop_assert_eq!(addresses.len(), files.len(), "{:?}", files);
            for (node, address) in before.iter().filter(|(_, address)| !address.is_empty()) {
                prop_assert_eq!(files.get(node), Some(address), "its record is what a member goes by");
            }
            let moved = |(index, node): &(usize, &str)| {
                let (then, now) = (before.get(*node), now.get(*node));
                ready[*index] && then.is_some_and(|then| !then.is_empty() && now.is_some_and(|now| now != then))
            };
            prop_assert!(NODES.into_iter().enumerate().filter(moved).count() <= 1);
            before = now;
        }
    }
}
