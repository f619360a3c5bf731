//! Members that copy one of them: who takes a change now, what is asked of whom before, and what is said of them.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its input fails")]

use std::{collections::BTreeMap, net::IpAddr};

use redis_op::plan::plan;
use serde_json::json;
use tf_agent_api::{
    redis::{Change, Copying, Facts, Sentinel},
    state::Status,
};
use tf_api::{Redis, contract::Reason};
use tf_plan::{
    observed::{Agent, Observed, Pod, Source},
    plan::Plan,
    step::{Request, Step},
};
use tf_testing::three::{self, THREE};

use crate::support::{observed, resource};

const SET: &str = "redis1-redis-statefulset";
/// What is the matter with a member, and what is said of it.
type Breach = (usize, fn(&mut Facts), &'static str);
/// Bytes that were written.
const WRITTEN: u64 = 5_000_000;

fn address(index: usize) -> IpAddr {
    THREE[index].1.parse().unwrap()
}

fn sentinel(master: usize, epoch: u64) -> Sentinel {
    Sentinel { master: address(master), epoch, others: Some(2), refuses: None }
}

/// What the server of a member says where that of `master` takes writes and all is well.
fn facts(index: usize, master: usize) -> Facts {
    let others = (0..3).filter(|other| *other != index).map(|other| (address(other), WRITTEN));
    let is_copy = index != master;
    Facts {
        release: "7.0.15".into(),
        copies: is_copy.then(|| format!("{}:6389", address(master))),
        copying: Some(Copying {
            offset: WRITTEN,
            linked: is_copy,
            lacks: 0,
            copies: if is_copy { BTreeMap::new() } else { others.collect() },
        }),
        sentinel: Some(sentinel(master, 3)),
        ..Facts::default()
    }
}

fn agent(index: usize, facts: Facts) -> Agent {
    Agent::Says(Box::new(Status { redis: Some(facts), ..three::status(SET, "redis", index) }))
}

/// Three members with an old configuration, of whom this one takes writes.
fn running(master: usize) -> Observed<Redis> {
    three::of(observed("redis1", &THREE, "password"), SET, |index| agent(index, facts(index, master)))
}

fn status<'a>(observed: &'a mut Observed<Redis>, pod: &str) -> &'a mut Status {
    match observed.agents.get_mut(pod).unwrap() {
        Agent::Says(status) => status,
        Agent::Silent(_) => unreachable!("every agent answers"),
    }
}

fn says(observed: &mut Observed<Redis>, index: usize, change: impl FnOnce(&mut Facts)) {
    change(status(observed, &format!("pod-{index}")).redis.as_mut().unwrap());
}

fn planned(observed: &Observed<Redis>) -> Plan {
    let members = three::recorded();
    let status = json!({"contract": "v1", "initialized": true, "mode": "Sentinel", "members": members});
    let spec = json!({"serviceConfiguration": {"mode": "Sentinel"}});
    plan(&resource("redis1", &spec, &status), observed).unwrap()
}

/// Has the agents of these pods run with the configuration that is wanted.
fn update(observed: &mut Observed<Redis>, pods: &[usize]) {
    for index in pods {
        // Whoever does not serve takes it first, so each tells its own.
        let mut down = observed.clone();
        three::is_down(&mut down, *index);
        let Some(Step::Activate(target, hash)) = planned(&down).step else { unreachable!("it lacks a change") };
        assert_eq!(target.uid, format!("pod-{index}"));
        status(observed, &target.uid).daemons.get_mut("redis").unwrap().active = Some(hash);
    }
}

#[test]
fn who_takes_writes_is_changed_last_and_hands_them_over_before() {
    let mut observed = running(2);
    assert!(matches!(planned(&observed).step, Some(Step::Activate(target, _)) if target.uid == "pod-1"));
    update(&mut observed, &[1]);
    assert!(matches!(planned(&observed).step, Some(Step::Activate(target, _)) if target.uid == "pod-0"));
    update(&mut observed, &[0]);
    let plan = planned(&observed);
    let Some(Step::Ask(target, Request::Redis(Change::StepDown))) = &plan.step else { panic!("{plan:?}") };
    assert_eq!(target.uid, "pod-2");
    assert!(plan.under_way.unwrap().contains("another server takes writes in the place of pod"));
    // Another one does now.
    for index in 0..3 {
        says(&mut observed, index, |said| *said = facts(index, 0));
    }
    assert!(matches!(planned(&observed).step, Some(Step::Activate(target, _)) if target.uid == "pod-2"));
}

#[test]
fn members_whose_pods_are_elsewhere_get_them_one_after_the_other_and_who_takes_writes_hands_them_over_before() {
    let mut observed = running(1);
    update(&mut observed, &[0, 1, 2]);
    observed.workloads.get_mut(SET).unwrap().current = true;
    let change = |observed: &mut Observed<Redis>, index: usize, change: &dyn Fn(&mut Pod)| {
        let Source::Known(pods) = &mut observed.pods else { unreachable!("pods are known") };
        change(&mut pods[index]);
    };
    let template = planned(&observed).workload().1.to_owned();
    for index in 0..3 {
        change(&mut observed, index, &|pod| pod.template = Some(template.clone()));
    }
    for (index, node) in ["elsewhere", "further"].into_iter().enumerate() {
        change(&mut observed, index, &|pod| pod.node = Some(node.into()));
    }
    let plan = planned(&observed);
    assert!(matches!(&plan.step, Some(Step::Restart(target)) if target.uid == "pod-0"), "{plan:?}");
    for held in [|pod: &mut Pod| pod.terminating = true, |pod: &mut Pod| pod.ready = false] {
        let mut moving = observed.clone();
        change(&mut moving, 0, &|pod| pod.node = Some(THREE[0].0.into()));
        change(&mut moving, 0, &held);
        assert_eq!(planned(&moving).step, None, "the next one waits for it");
    }
    change(&mut observed, 0, &|pod| pod.node = Some(THREE[0].0.into()));
    let mut silent = observed.clone();
    silent.agents.insert("pod-1".into(), Agent::Silent("no answer".into()));
    let plan = planned(&silent);
    assert_eq!(plan.step, None, "it could be the one that takes writes");
    assert!(plan.under_way.unwrap().contains("has to be known before"));
    let plan = planned(&observed);
    let Some(Step::Ask(target, Request::Redis(Change::StepDown))) = &plan.step else { panic!("{plan:?}") };
    assert_eq!(target.uid, "pod-1");
}

#[test]
fn who_takes_writes_hands_nothing_over_for_what_it_takes_as_it_runs() {
    let mut observed = running(2);
    update(&mut observed, &[0, 1]);
    assert!(matches!(planned(&observed).step, Some(Step::Ask(..))));
    let mut down = observed.clone();
    if let Source::Known(pods) = &mut down.pods {
        pods[2].ready = false;
    }
    let Some(Step::Activate(_, wanted)) = planned(&down).step else { unreachable!("it lacks a change") };
    status(&mut observed, "pod-2").daemons.get_mut("redis").unwrap().takes = Some(wanted.clone());
    let plan = planned(&observed);
    assert!(
        matches!(&plan.step, Some(Step::Activate(target, hash)) if target.uid == "pod-2" && *hash == wanted),
        "{plan:?}"
    );
}

#[test]
fn sentinels_that_count_who_is_gone_start_anew_one_after_the_other_when_nothing_else_is_to_be_done() {
    let counts = |observed: &mut Observed<Redis>, index: usize, others| {
        says(observed, index, |said| said.sentinel.as_mut().unwrap().others = Some(others));
    };
    let mut observed = running(2);
    counts(&mut observed, 1, 4);
    assert!(!matches!(planned(&observed).step, Some(Step::Ask(..))), "a change goes first");
    update(&mut observed, &[0, 1, 2]);
    counts(&mut observed, 2, 3);
    for index in [1, 2] {
        let plan = planned(&observed);
        let Some(Step::Ask(target, Request::Redis(Change::Recount))) = &plan.step else { panic!("{plan:?}") };
        assert_eq!(target.uid, format!("pod-{index}"));
        assert!(plan.under_way.unwrap().contains("counts more Sentinels than the 3 that exist"));
        let mut starting = observed.clone();
        says(&mut starting, index, |said| said.sentinel = None);
        assert_eq!(planned(&starting).step, None, "the others wait for it");
        let mut leaving = observed.clone();
        if let Source::Known(pods) = &mut leaving.pods {
            pods.push(Pod { name: format!("{SET}-3"), uid: "pod-3".into(), ..three::pod(SET, 0) });
        }
        assert_eq!(planned(&leaving).step, None, "it would make itself known again");
        counts(&mut observed, index, 2);
    }
    assert_eq!(planned(&observed).step, None);
    // One that does not know all of them yet learns of them by itself, and an older agent does not tell.
    counts(&mut observed, 0, 1);
    says(&mut observed, 1, |said| said.sentinel.as_mut().unwrap().others = None);
    assert_eq!(planned(&observed).step, None);
}

#[test]
fn who_takes_writes_and_does_not_serve_is_not_asked_to_hand_them_over() {
    let mut observed = running(2);
    three::is_down(&mut observed, 2);
    assert!(matches!(planned(&observed).step, Some(Step::Activate(target, _)) if target.uid == "pod-2"));
}

#[test]
fn nobody_is_touched_while_a_copy_lacks_something_or_the_sentinels_could_not_act() {
    let breaches: [Breach; 7] = [
        (1, |said| said.copying.as_mut().unwrap().linked = false, "-1: its server is not in touch with 10.0.0.1"),
        (1, |said| said.loading = true, "-1 is loading its data"),
        (1, |said| said.sentinel.as_mut().unwrap().master = address(1), "-1 does not know who takes writes yet"),
        (1, |said| said.sentinel.as_mut().unwrap().refuses = Some("NOQUORUM".into()), "no majority: NOQUORUM"),
        (1, |said| said.sentinel = None, "-1: its Sentinel does not report the master"),
        (0, |said| *said.copying.as_mut().unwrap().copies.get_mut(&address(2)).unwrap() = 1, "-2 does not have"),
        (
            0,
            |said| said.copying.as_mut().unwrap().copies.retain(|other, _| *other != address(2)),
            "-2 does not have everything",
        ),
    ];
    for (index, breach, why) in breaches {
        let mut observed = running(0);
        // One that says the same of an earlier failover is behind.
        says(&mut observed, index, breach);
        if why.contains("yet") {
            says(&mut observed, 1, |said| said.sentinel.as_mut().unwrap().epoch = 2);
        }
        let plan = planned(&observed);
        assert_eq!(plan.step, None, "{why}");
        let told = plan.under_way.unwrap_or_default();
        assert!(told.contains(why), "{told:?} lacks {why:?}");
        assert!(!plan.notes.iter().any(|note| note.contains("takes writes")), "{:?}", plan.notes);
    }
}

#[test]
fn what_is_the_matter_is_said_of_whom_it_is_the_matter_with() {
    let cases: [Breach; 6] = [
        (0, |said| said.copying.as_mut().unwrap().lacks = 1, "no server takes writes: 1 more of the others have to be"),
        (1, |said| said.copies = None, "its server takes writes besides the one at 10.0.0.1"),
        (0, |said| said.copies = Some("10.0.0.2:6389".into()), "no server takes writes: this one is to, and copies"),
        (1, |said| said.copies = Some("10.0.0.3:6389".into()), "its server copies 10.0.0.3 and not 10.0.0.1"),
        (
            0,
            |said| {
                *said = Facts { unknown: Some("refused".into()), sentinel: said.sentinel.take(), ..Facts::default() }
            },
            "no server takes writes: refused",
        ),
        (2, |said| said.sentinel.as_mut().unwrap().refuses = Some("NOQUORUM".into()), "no majority: NOQUORUM"),
    ];
    for (index, breach, why) in cases {
        let mut observed = running(0);
        says(&mut observed, index, breach);
        let plan = planned(&observed);
        let [(pod, told)] = plan.troubles.iter().collect::<Vec<_>>()[..] else { panic!("{why}: {:?}", plan.troubles) };
        assert_eq!(pod, &format!("{SET}-{index}"));
        assert!(told.contains(why), "{told:?} lacks {why:?}");
    }
}

#[test]
fn where_no_server_takes_writes_the_members_are_not_available() {
    assert_eq!(planned(&running(0)).outage, None);
    let cases: [Breach; 3] = [
        (0, |said| said.copying.as_mut().unwrap().lacks = 1, "no server takes writes: 1 more of the others have to be"),
        (0, |said| said.copies = Some("10.0.0.2:6389".into()), "no server takes writes: this one is to, and copies"),
        (0, |said| said.unknown = Some("refused".into()), "no server takes writes: refused"),
    ];
    for (index, breach, why) in cases {
        let mut observed = running(0);
        says(&mut observed, index, breach);
        let told = planned(&observed).outage.unwrap_or_default();
        assert!(told.contains(why), "{told:?} lacks {why:?}");
    }
    let mut observed = running(0);
    says(&mut observed, 2, |said| said.copies = None);
    assert_eq!(planned(&observed).outage, None, "two are told of elsewhere");
    for index in 0..3 {
        says(&mut observed, index, |said| {
            (said.unknown, said.sentinel) = (Some("waits for the Sentinels".into()), None);
        });
    }
    assert!(planned(&observed).outage.unwrap().contains("no Sentinel reports which one should be"));
}

#[test]
fn a_server_that_nobody_hears_takes_writes_if_enough_of_the_others_copy_it() {
    let mut observed = running(0);
    observed.agents.insert("pod-0".into(), Agent::Silent("no answer".into()));
    assert_eq!(planned(&observed).outage, None);
    says(&mut observed, 1, |said| said.copying.as_mut().unwrap().linked = false);
    assert_eq!(planned(&observed).outage, None, "one of two is enough");
    says(&mut observed, 2, |said| said.copying.as_mut().unwrap().linked = false);
    let told = planned(&observed).outage.unwrap();
    assert!(told.contains("the one at 10.0.0.1 is to, and does not answer"), "{told}");
}

#[test]
fn where_all_is_well_it_is_said_who_takes_writes() {
    let plan = planned(&running(1));
    assert!(plan.troubles.is_empty(), "{:?}", plan.troubles);
    let note = "the server at 10.0.0.2, of pod redis1-redis-statefulset-1, takes writes, and 2 copy it";
    assert!(plan.notes.iter().any(|told| told == note), "{:?}", plan.notes);
    assert_eq!(plan.own_status["mode"], "Sentinel");
    assert_eq!(plan.own_status["masterName"], "redis1");
}

/// What every Sentinel says when four of the seven it counts are gone.
fn desert(observed: &mut Observed<Redis>) {
    for index in 0..3 {
        says(observed, index, |said| {
            let sentinel = said.sentinel.as_mut().unwrap();
            (sentinel.others, sentinel.refuses) = (Some(6), Some("NOQUORUM".into()));
        });
    }
}

#[test]
fn sentinels_that_count_mostly_who_is_gone_are_started_anew_with_a_change_although_none_has_a_majority() {
    let mut observed = running(2);
    desert(&mut observed);
    assert!(matches!(planned(&observed).step, Some(Step::Activate(target, _)) if target.uid == "pod-1"));
    // The first one has a majority of three now, and the others go on.
    update(&mut observed, &[1]);
    says(&mut observed, 1, |said| said.sentinel = Some(sentinel(2, 3)));
    assert!(matches!(planned(&observed).step, Some(Step::Activate(target, _)) if target.uid == "pod-0"));
    // Nobody takes writes, and they will never have anybody.
    let mut observed = running(2);
    desert(&mut observed);
    for index in 0..3 {
        says(&mut observed, index, |said| {
            said.sentinel.as_mut().unwrap().master = "10.0.0.9".parse().unwrap();
            said.copies = Some("10.0.0.9:6389".into());
            said.copying.as_mut().unwrap().linked = false;
        });
    }
    assert!(matches!(planned(&observed).step, Some(Step::Activate(target, _)) if target.uid == "pod-2"));
}

#[test]
fn a_sentinel_is_not_started_anew_while_a_change_waits() {
    let mut observed = running(2);
    says(&mut observed, 1, |said| said.sentinel.as_mut().unwrap().others = Some(4));
    says(&mut observed, 2, |said| {
        said.copying.as_mut().unwrap().copies.remove(&address(0));
    });
    let plan = planned(&observed);
    assert_eq!(plan.step, None, "it would count them again");
    assert!(plan.under_way.unwrap().contains("does not have everything yet"));
}

#[test]
fn sentinels_that_began_with_different_servers_are_brought_to_one_mind_before_there_was_a_failover() {
    let mut observed = running(2);
    for index in 0..3 {
        says(&mut observed, index, |said| {
            said.sentinel = Some(sentinel(index, 0));
            said.copies = Some("10.0.0.9:6389".into());
            said.copying = Some(Copying::default());
        });
    }
    assert!(matches!(planned(&observed).step, Some(Step::Activate(target, _)) if target.uid == "pod-2"));
    // One that takes writes has something to lose.
    says(&mut observed, 0, |said| said.copies = None);
    assert_eq!(planned(&observed).step, None);
}

#[test]
fn members_go_on_as_so_many_as_there_are_nodes_for_where_more_are_asked_for() {
    let nodes: Vec<(String, String)> = (1..6).map(|it| (format!("cp{it}"), format!("10.0.0.{it}"))).collect();
    let nodes: Vec<(&str, &str)> = nodes.iter().map(|(node, address)| (node.as_str(), address.as_str())).collect();
    let plan = |nodes: &[(&str, &str)]| {
        let status = json!({
            "contract": "v1", "initialized": true, "mode": "Sentinel", "members": three::recorded(),
        });
        let spec = json!({"commonConfiguration": {"replicas": 5}, "serviceConfiguration": {"mode": "Sentinel"}});
        let observed = observed("redis1", nodes, "password");
        let plan = plan(&resource("redis1", &spec, &status), &observed).unwrap();
        (plan.members.iter().map(|member| member.node.clone()).collect::<Vec<_>>(), plan.held)
    };
    let (members, held) = plan(&nodes[..4]);
    assert_eq!(members, ["cp1", "cp2", "cp3"]);
    let (reason, why) = held.unwrap();
    assert_eq!(reason, Reason::NoMatchingNodes);
    assert!(why.contains("5 members are wanted and 4 nodes match") && why.contains("of which 3 are used"), "{why}");
    // A lost one is replaced meanwhile.
    assert_eq!(plan(&[nodes[0], nodes[1], nodes[3]]).0, ["cp1", "cp2", "cp4"]);
    assert_eq!(plan(&nodes[..2]).0, ["cp1", "cp2", "cp3"], "no other node can take its place");
    assert_eq!(plan(&nodes).0.len(), 5);
}

#[test]
fn less_than_half_of_those_that_sentinels_count_leave_at_once() {
    let nodes: Vec<(String, String)> = (1..8).map(|it| (format!("cp{it}"), format!("10.0.0.{it}"))).collect();
    let nodes: Vec<(&str, &str)> = nodes.iter().map(|(node, address)| (node.as_str(), address.as_str())).collect();
    let recorded = |count: usize| -> Vec<_> {
        let member =
            |(id, (node, address)): (usize, &(&str, &str))| json!({"id": id, "node": node, "address": address});
        (1..).zip(&nodes).map(member).take(count).collect()
    };
    let stay = |members: usize, others: Option<usize>, nodes: &[(&str, &str)]| {
        let status = json!({"contract": "v1", "initialized": true, "mode": "Sentinel", "members": recorded(members)});
        let spec = json!({"commonConfiguration": {"replicas": 3}, "serviceConfiguration": {"mode": "Sentinel"}});
        let mut observed = observed("redis1", nodes, "password");
        observed.pods = Source::Known((0..3).map(|index| three::pod(SET, index)).collect());
        for index in 0..3 {
            let mut said = facts(index, 0);
            said.sentinel.as_mut().unwrap().others = others;
            observed.agents.insert(format!("pod-{index}"), agent(index, said));
        }
        plan(&resource("redis1", &spec, &status), &observed).unwrap().members.len()
    };
    assert_eq!(stay(7, Some(6), &nodes), 5);
    // Five are left, and the Sentinels count seven still.
    assert_eq!(stay(5, Some(6), &nodes), 5);
    assert_eq!(stay(5, Some(4), &nodes), 3);
    assert_eq!(stay(3, Some(6), &nodes), 3, "none comes for that");
    assert_eq!(stay(7, None, &nodes), 5, "an older agent does not tell");
    assert_eq!(stay(7, Some(6), &nodes[..4]), 3, "of four nodes three are of use");
}
