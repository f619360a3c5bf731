//! The switch to `vhost0` on a real kernel: nothing is lost, all is there afterwards, and it can be undone from any point.

use std::{fs, thread, time::Duration};

use tf_host::{
    HostFacts, Mode, Root, Wanted,
    act::{Actor, Error},
    data_path::DataPath as _,
    facts::{addresses::Address, routes::Route},
    journal::{Journal, State},
    plan::{NoPlan, Plan, Step, switch},
};
use tf_sim::module::StandIn;

use crate::{
    fixture,
    kernel::in_namespace,
    node::{facts, lasting, node},
    router::{Probe, Router},
};

fn wanted() -> Wanted {
    Wanted { physical_interfaces: vec!["eth0".into()], ..Wanted::default() }
}

fn plan() -> Plan {
    switch(&facts(), &wanted()).unwrap()
}

fn carry_out(plan: &Plan, verify: impl FnOnce() -> Result<(), String>) -> (Result<(), Error>, Journal) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("host.json");
    let root = Root::default();
    let mut data_path = StandIn::open().unwrap();
    let mut actor = Actor::new(&root, &mut data_path).unwrap();
    let result = actor.carry_out(plan, &path, "boot-1", |_| verify());
    (result, Journal::read(&path).unwrap().unwrap())
}

/// All that is left to do is nothing.
fn verified() -> Result<(), String> {
    let left = plan().steps;
    if left.is_empty() { Ok(()) } else { Err(format!("left: {left:?}")) }
}

fn set_rp_filter(value: &str) {
    for link in ["all", "default", "eth0"] {
        fs::write(format!("/proc/sys/net/ipv4/conf/{link}/rp_filter"), value).unwrap();
    }
}

#[test]
fn the_switch_loses_nothing_and_moves_everything() {
    for rp_filter in ["0", "1"] {
        // A thread has one network namespace at a time.
        let name = thread::current().name().unwrap_or_default().to_owned();
        let run = move || {
            in_namespace(|kernel| {
                let router = Router::start();
                node(kernel, &router);
                set_rp_filter(rp_filter);
                let before = facts();
                let probe = Probe::start();
                thread::sleep(Duration::from_millis(200));
                let (result, journal) = carry_out(&plan(), verified);
                result.unwrap();
                thread::sleep(Duration::from_millis(300));
                let loss = probe.end();
                // The stand-in's filter is set up while packets are under way.
                assert!(loss.sent > 100 && loss.lost <= 3 && loss.refused == 0, "rp_filter {rp_filter}: {loss:?}");
                assert_eq!(journal.state, State::Committed);
                let after = facts();
                assert_eq!(lasting(&after.network, None), lasting(&before.network, Some(("eth0", "vhost0"))));
                assert_eq!(after.sysctls.of("vhost0", "ipv4.rp_filter"), Some(2));
                let own: Vec<_> = after.network.addresses_of("eth0").filter(|address| address.is_global()).collect();
                assert_eq!(own, [] as [&Address; 0]);
                assert_eq!(plan().steps, [], "it is done");
            });
        };
        thread::Builder::new().name(name).spawn(run).unwrap().join().unwrap();
    }
}

#[test]
fn a_process_that_is_killed_after_any_step_leaves_what_the_next_one_can_undo() {
    in_namespace(|kernel| {
        let router = Router::start();
        node(kernel, &router);
        let mut probe = Probe::start();
        let before = lasting(&facts().network, None);
        let plan = plan();
        let root = Root::default();
        for done in 0..=plan.steps.len() {
            let mut data_path = StandIn::open().unwrap();
            let mut actor = Actor::new(&root, &mut data_path).unwrap();
            for step in &plan.steps[..done] {
                actor.apply("eth0", step).unwrap_or_else(|error| panic!("{step:?}: {error}"));
            }
            // The next process knows nothing but the journal.
            let mut data_path = StandIn::open().unwrap();
            let left = Actor::new(&root, &mut data_path).unwrap().undo(&plan);
            assert_eq!(left, [""; 0], "after {done} steps");
            let after = facts();
            assert_eq!(lasting(&after.network, None), before, "after {done} steps");
            assert!(after.network.link("vhost0").is_none());
            probe.exchange();
        }
    });
}

#[test]
fn a_node_that_is_not_as_it_should_be_afterwards_is_as_it_was() {
    in_namespace(|kernel| {
        let router = Router::start();
        node(kernel, &router);
        let probe = Probe::start();
        let before = lasting(&facts().network, None);
        let (result, journal) = carry_out(&plan(), || Err("the API server does not answer".into()));
        assert_eq!(result.unwrap_err().to_string(), "the API server does not answer; undone");
        assert_eq!(journal.state, State::RolledBack { reason: "the API server does not answer".into() });
        assert_eq!(lasting(&facts().network, None), before);
        let loss = probe.end();
        assert!(loss.lost <= 6 && loss.refused == 0, "{loss:?}");
    });
}

#[test]
fn a_step_that_fails_ends_the_plan_and_undoes_it() {
    in_namespace(|kernel| {
        let router = Router::start();
        node(kernel, &router);
        let before = lasting(&facts().network, None);
        let mut plan = plan();
        let place = plan.steps.iter().position(|step| matches!(step, Step::ReplaceRoute { .. })).unwrap();
        let Step::ReplaceRoute { from, .. } = plan.steps[place].clone() else { unreachable!() };
        let to = Box::new(Route { hops: vec![fixture::hop("vhost0", Some("192.168.7.1"))], ..*from.clone() });
        plan.steps.insert(place + 1, Step::ReplaceRoute { from, to });
        let (result, journal) = carry_out(&plan, verified);
        let error = result.unwrap_err().to_string();
        assert!(error.starts_with("replace the route to") && error.ends_with("; undone"), "{error}");
        assert!(matches!(journal.state, State::RolledBack { .. }));
        assert_eq!(lasting(&facts().network, None), before);
    });
}

#[test]
fn an_address_that_came_back_to_the_uplink_is_moved_alone() {
    in_namespace(|kernel| {
        let router = Router::start();
        node(kernel, &router);
        carry_out(&plan(), verified).0.unwrap();
        kernel.address("eth0", "10.0.0.9/24", vec![]);
        let plan = plan();
        let [Step::AddAddress(added), Step::AddPhysical, Step::Attach, Step::DeleteAddress(deleted)] = &plan.steps[..]
        else {
            panic!("{plan:#?}")
        };
        assert_eq!((added.link.as_str(), deleted.link.as_str()), ("vhost0", "eth0"));
        carry_out(&plan, verified).0.unwrap();
    });
}

#[test]
fn the_stand_in_takes_what_is_done_already_for_done() {
    in_namespace(|kernel| {
        let router = Router::start();
        node(kernel, &router);
        let mut data_path = StandIn::open().unwrap();
        data_path.remove().unwrap();
        for _ in 0..2 {
            data_path.create("52:54:00:00:00:01", 1500).unwrap();
            data_path.add_physical("eth0").unwrap();
            data_path.attach("eth0").unwrap();
        }
        for _ in 0..2 {
            data_path.detach("eth0").unwrap();
            data_path.remove_physical("eth0").unwrap();
            data_path.remove().unwrap();
        }
    });
}

#[test]
fn the_order_of_steps_makes_before_it_breaks() {
    let mut facts = fixture::facts();
    facts.network.addresses.insert(2, fixture::address("eth0", "10.0.0.8/24"));
    facts.sysctls.links.insert("eth0".into(), [("ipv6.accept_ra".to_owned(), "1".to_owned())].into());
    let plan = switch(&facts, &Wanted::default()).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&plan).unwrap());
    let undone = plan.inverse().inverse();
    let kept = |plan: &Plan| plan.steps.iter().filter(|step| step.inverse().is_some()).cloned().collect::<Vec<_>>();
    assert_eq!(kept(&undone), kept(&plan), "what undoes the undoing is the plan");
}

#[test]
fn a_kernel_without_ipv6_is_not_asked_for_settings_of_it() {
    let mut facts = fixture::facts();
    let is_of_ipv6 = |step: &Step| matches!(step, Step::SetSysctl { name, .. } if name.starts_with("ipv6."));
    let asks = |facts: &HostFacts| switch(facts, &Wanted::default()).unwrap().steps.iter().any(is_of_ipv6);
    assert!(asks(&facts));
    facts.sysctls.links.insert("default".into(), [("ipv4.rp_filter".to_owned(), "0".to_owned())].into());
    assert!(!asks(&facts));
}

#[test]
fn what_no_plan_can_be_made_for_says_why() {
    let mut facts = fixture::facts();
    let dpdk = Wanted { mode: Mode::Dpdk, ..Wanted::default() };
    assert_eq!(switch(&facts, &dpdk), Err(NoPlan::NotKernelMode));
    facts.network.routes[0].incomplete = true;
    let error = switch(&facts, &Wanted::default()).unwrap_err().to_string();
    assert!(error.starts_with("the route to 0.0.0.0/0 in table 254 has an encapsulation"), "{error}");
}
