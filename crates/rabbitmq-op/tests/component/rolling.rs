//! Which member takes a change now, and what that waits for.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its input fails")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rabbitmq_op::plan::plan;
use serde_json::json;
use tf_agent_api::{
    content::ContentHash,
    rabbitmq::{Facts, Membership, Queues, Unmirrored},
    state::{Health, Phase, State, Status},
};
use tf_plan::{
    observed::{Agent, Observed, Pod, Source},
    plan::Plan,
    step::{Request, Step},
};
use tf_testing::three::{self, THREE};

use crate::support::{observed, resource};

const SET: &str = "rabbitmq1-rabbitmq-statefulset";

fn name(index: usize) -> String {
    format!("rabbit@{}.cluster.local", THREE[index].0)
}

/// A server that runs with an old configuration in a cluster that lacks nothing.
fn facts(index: usize) -> Facts {
    let nodes = (0..THREE.len()).map(|index| (name(index), true)).collect();
    Facts { name: name(index), nodes, ..Facts::default() }
}

fn agent(index: usize, facts: Option<Facts>, serves: bool) -> Agent {
    let health = Some(Health::new(serves, "port 5673"));
    Agent::Says(Box::new(Status { health, rabbitmq: facts, ..three::status(SET, "rabbitmq", index) }))
}

fn pod(index: usize) -> Pod {
    three::pod(SET, index)
}

/// Three members, each of whom runs with an old configuration.
fn running() -> Observed<tf_api::Rabbitmq> {
    let now = "2026-11-21T10:00:00Z".parse().unwrap();
    let observed = Observed { now, ..observed("rabbitmq1", &THREE) };
    three::of(observed, SET, |index| agent(index, Some(facts(index)), true))
}

fn planned(observed: &Observed<tf_api::Rabbitmq>) -> Plan {
    let status = json!({ "contract": "v1", "initialized": true, "members": three::recorded() });
    plan(&resource("rabbitmq1", &json!({}), &status), observed).unwrap()
}

/// The plan when the second server says this of its cluster.
fn said(change: impl FnOnce(&mut Facts)) -> Plan {
    let mut observed = running();
    let mut facts = facts(1);
    change(&mut facts);
    observed.agents.insert("pod-1".into(), agent(1, Some(facts), true));
    planned(&observed)
}

#[test]
fn what_servers_take_as_they_run_is_not_held_with_what_they_are_stopped_for_unless_one_that_has_it_does_not_serve() {
    let wanted = |index: usize, observed: &Observed<tf_api::Rabbitmq>| {
        let mut down = observed.clone();
        three::is_down(&mut down, index);
        let Some(Step::Activate(_, hash)) = planned(&down).step else { panic!("it lacks a change") };
        hash
    };
    let mut observed = running();
    let hashes = [0, 1, 2].map(|index| wanted(index, &observed));
    let change = |observed: &mut Observed<tf_api::Rabbitmq>, index: usize, change: &dyn Fn(&mut State, &mut Facts)| {
        let Some(Agent::Says(status)) = observed.agents.get_mut(&format!("pod-{index}")) else { panic!("it answers") };
        change(status.daemons.get_mut("rabbitmq").unwrap(), status.rabbitmq.as_mut().unwrap());
        planned(observed).step
    };
    let held = change(&mut observed, 1, &|_, facts| facts.critical = Some("a queue would lose its majority".into()));
    assert_eq!(held, None);
    let takes = |hash: &ContentHash| {
        let hash = hash.clone();
        move |state: &mut State, _: &mut Facts| state.takes = Some(hash.clone())
    };
    assert_eq!(change(&mut observed, 1, &takes(&"0".repeat(32).parse().unwrap())), None);
    let step = change(&mut observed, 1, &takes(&hashes[1]));
    assert!(matches!(&step, Some(Step::Activate(target, _)) if target.uid == "pod-1"), "{step:?}");

    let had = change(&mut observed, 2, &|state, _| state.active = Some(hashes[2].clone()));
    assert_eq!(had, step);
    three::is_down(&mut observed, 2);
    assert_eq!(planned(&observed).step, None, "it could be what is new that it does not serve with");
}

/// It does not see the first one.
fn is_down(facts: &mut Facts) {
    facts.nodes.insert(name(0), false);
}

#[test]
fn where_nothing_is_missing_the_highest_member_takes_the_change() {
    let plan = planned(&running());
    assert!(
        matches!(&plan.step, Some(Step::Activate(target, _)) if target.pod == format!("{SET}-2")),
        "{:?}",
        plan.step
    );
}

#[test]
fn a_member_that_serves_is_not_touched_while_something_is_missing() {
    let cases: [(Plan, &str); 4] = [
        (said(is_down), "rabbit@cp1.cluster.local does not run"),
        (said(|it| it.nodes.retain(|node, _| *node != name(2))), "rabbit@cp3.cluster.local is not in the cluster of"),
        (said(|it| it.partitions = BTreeSet::from([name(0)])), "were cut off from each other"),
        (said(|it| it.critical = Some("mirrors: q1".into())), "-1 may not be stopped: mirrors: q1"),
    ];
    for (plan, why) in cases {
        assert_eq!(plan.step, None, "{why}");
        let told = plan.under_way.clone().unwrap_or_default() + &plan.troubles.values().cloned().collect::<String>();
        assert!(told.contains(why), "{told:?} lacks {why:?}");
    }
}

#[test]
fn a_server_that_does_not_see_another_one_which_runs_is_told_to_be_in_trouble() {
    let plan = said(is_down);
    assert_eq!(
        plan.troubles,
        BTreeMap::from([(
            format!("{SET}-1"),
            "its server does not see rabbit@cp1.cluster.local, which runs, too".to_owned()
        )])
    );
}

#[test]
fn an_alarm_is_told_and_keeps_no_change_that_may_be_about_it() {
    let plan = said(|facts| facts.alarms = BTreeSet::from(["disk".into()]));
    let told = &plan.troubles[&format!("{SET}-1")];
    assert_eq!(told, "no server takes messages, since this one runs short of disk");
    assert!(plan.step.is_some());
}

/// Three queues, of which one is named.
fn queues() -> Queues {
    Queues { vhost: "tf".into(), queues: vec!["vnc_config.cp1".to_owned()], count: 3 }
}

fn bare(policy: Option<&str>) -> Unmirrored {
    Unmirrored { are: queues(), policy: policy.map(str::to_owned) }
}

#[test]
fn nobody_is_stopped_while_consumers_are_not_back_as_any_agent_knows() {
    let plan = said(|facts| facts.deserted = Some(queues()));
    assert_eq!((plan.step, plan.troubles), (None, BTreeMap::new()));
    let why = plan.under_way.unwrap();
    assert!(why.contains("not back since a server came or went (vnc_config.cp1 and 2 more)"), "{why}");
}

/// The plan when servers are of these releases, each with what its agent says of feature flags.
fn flagged(of: [(&str, Option<bool>); 3]) -> Plan {
    let mut observed = running();
    for (index, (release, flags)) in of.into_iter().enumerate() {
        let facts = Facts { release: release.into(), flags, ..facts(index) };
        observed.agents.insert(format!("pod-{index}"), agent(index, Some(facts), true));
    }
    planned(&observed)
}

#[test]
fn feature_flags_of_a_release_that_all_run_are_enabled_once_and_nobody_is_stopped_before() {
    let (off, on) = (("3.11.1", Some(false)), ("3.11.1", Some(true)));
    let plan = flagged([off, off, off]);
    let Some(Step::Ask(target, Request::Membership(Membership::EnableFlags))) = plan.step else {
        panic!("{:?}", plan.step);
    };
    assert!(target.why.contains("feature flags of RabbitMQ 3.11.1"), "{}", target.why);
    // Somebody has, some run another release, or their agents are of an earlier one.
    for of in [[off, on, off], [off, off, ("3.10.8", Some(false))], [("3.11.1", None); 3]] {
        let plan = flagged(of);
        assert!(matches!(plan.step, Some(Step::Activate(..))), "{of:?}: {:?}", plan.step);
    }
}

#[test]
fn a_member_takes_part_in_quorum_queues_that_are_on_too_few_when_the_cluster_is_whole() {
    let short = |facts: &mut Facts| {
        facts.critical = Some("queues would lose their majority".into());
        facts.short = Some(queues());
    };
    let plan = said(short);
    let Some(Step::Ask(target, Request::Membership(Membership::Grow))) = plan.step else { panic!("{:?}", plan.step) };
    assert_eq!(target.pod, format!("{SET}-1"));
    assert!(target.why.contains("(vnc_config.cp1 and 2 more)"), "{}", target.why);
    let parted = said(|facts| {
        short(facts);
        is_down(facts);
    });
    assert_eq!(parted.step, None);
}

#[test]
fn nobody_is_stopped_while_queues_have_no_mirror_and_a_policy_that_is_gone_is_made_anew() {
    let hidden = said(|facts| facts.unmirrored = Some(bare(Some("mine"))));
    assert_eq!(hidden.step, None);
    let why = hidden.under_way.unwrap();
    assert!(why.contains("vnc_config.cp1 and 2 more") && why.contains("policy mine goes before"), "{why}");
    assert_eq!(hidden.notes, Vec::<String>::new(), "it is told once");
    let gone = said(|facts| facts.unmirrored = Some(bare(None)));
    match gone.step {
        Some(Step::Ask(target, Request::Membership(Membership::ImportDefinitions))) => {
            assert_eq!(target.pod, format!("{SET}-1"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_release_without_mirrors_is_told_and_keeps_nothing() {
    for (release, told) in [("3.10.8", None), ("", None), ("4.0.5", Some("RabbitMQ 4.0.5 mirrors no queue"))] {
        let plan = said(|facts| release.clone_into(&mut facts.release));
        let note = plan.notes.iter().find(|note| note.contains("mirrors no queue"));
        assert_eq!(note.is_some(), told.is_some(), "{release}");
        assert!(note.zip(told).is_none_or(|(note, told)| note.starts_with(told)), "{note:?}");
        assert!(plan.troubles.is_empty() && plan.step.is_some());
    }
}

#[test]
fn two_members_of_which_one_pauses_without_the_other_are_told() {
    let notes = |handling: &str, replicas: u32| {
        let spec = json!({
            "commonConfiguration": { "replicas": replicas },
            "serviceConfiguration": { "clusterPartitionHandling": handling },
        });
        let nodes = [("node-a", "10.0.0.1"), ("node-b", "10.0.0.2"), ("node-c", "10.0.0.3")];
        let cr = resource("rabbitmq1", &spec, &json!({}));
        plan(&cr, &observed("rabbitmq1", &nodes)).unwrap().notes
    };
    let is_told = |notes: &[String]| notes.iter().any(|note| note.contains("one of two members does not serve"));
    assert!(is_told(&notes("pause_minority", 2)));
    assert!(!is_told(&notes("pause_minority", 3)) && !is_told(&notes("autoheal", 2)));
}

#[test]
fn pods_from_before_there_were_agents_are_replaced_one_after_the_other() {
    let mut observed = running();
    let mut pods: Vec<Pod> = (0..3).map(pod).collect();
    for (index, pod) in pods.iter_mut().enumerate().take(2) {
        pod.certificate = None;
        observed.agents.remove(&format!("pod-{index}"));
    }
    observed.workloads.get_mut(SET).unwrap().current = true;
    pods[2].template = Some(planned(&observed).rollout.unwrap().workloads[0].1.clone());
    observed.pods = Source::Known(pods);
    // The last one was replaced, and its agent takes the configuration.
    let Some(Step::Activate(target, hash)) = planned(&observed).step else { panic!("no configuration is activated") };
    assert_eq!(target.pod, format!("{SET}-2"));
    let Some(Agent::Says(status)) = observed.agents.get_mut("pod-2") else { panic!("no agent") };
    status.daemons.get_mut("rabbitmq").unwrap().active = Some(hash);
    // Then it is the next one's turn, of which the kubelet's word is all there is.
    let plan = planned(&observed);
    assert!(matches!(&plan.step, Some(Step::Restart(target)) if target.pod == format!("{SET}-1")), "{:?}", plan.step);
}

#[test]
fn a_pod_whose_node_is_of_no_member_any_more_is_made_anew_where_a_member_waits_for_one() {
    let mut observed = running();
    let template = planned(&observed).rollout.unwrap().workloads[0].1.clone();
    // The member on its node was forgotten, since it lost its label, and another one was recorded in its place.
    let mut pods = [0, 1, 2].map(|index| Pod { template: Some(template.clone()), ..pod(index) });
    (pods[2].node, pods[2].ready) = (Some("cp9".into()), false);
    observed.pods = Source::Known(pods.to_vec());
    for index in 0..2 {
        let two = Facts { nodes: facts(index).nodes.into_iter().take(2).collect(), ..facts(index) };
        observed.agents.insert(format!("pod-{index}"), agent(index, Some(two), true));
    }
    observed.agents.insert("pod-2".into(), agent(2, None, false));
    assert_eq!(planned(&observed).step, None, "its controller would put it there again");
    observed.workloads.get_mut(SET).unwrap().current = true;
    let plan = planned(&observed);
    assert!(matches!(&plan.step, Some(Step::Restart(target)) if target.uid == "pod-2"), "{:?}", plan.step);
}

#[test]
fn a_member_that_does_not_start_with_what_a_former_one_left_is_no_other_one_again() {
    let marked = |owner: Option<u32>| {
        let mut observed = running();
        for index in 0..2 {
            let two = Facts { nodes: facts(index).nodes.into_iter().take(2).collect(), ..facts(index) };
            observed.agents.insert(format!("pod-{index}"), agent(index, Some(two), true));
        }
        let remembers = Some((0..THREE.len()).map(name).collect());
        let facts = Facts { unknown: Some("refused".into()), remembers, owner, ..Facts::default() };
        let mut status = Status { rabbitmq: Some(facts), ..three::status(SET, "rabbitmq", 2) };
        status.daemons.get_mut("rabbitmq").unwrap().phase = Phase::BackOff;
        observed.agents.insert("pod-2".into(), Agent::Says(Box::new(status)));
        planned(&observed).own_status.get("leaving").cloned()
    };
    let own = three::recorded()[2].id;
    for owner in [Some(own), None] {
        assert_eq!(marked(owner), Some(json!([own])), "the others are a cluster without it: {owner:?}");
    }
    assert_eq!(marked(Some(own + 4)), None, "it is put aside as soon as the server has its files");
}

#[test]
fn what_nobody_said_is_waited_for() {
    let mut observed = running();
    observed.agents.insert("pod-1".into(), agent(1, None, true));
    let plan = planned(&observed);
    assert_eq!(plan.step, None);
    assert!(
        plan.under_way
            .unwrap()
            .contains("pod rabbitmq1-rabbitmq-statefulset-1 does not report the state of its cluster")
    );

    observed.agents.remove("pod-1");
    let plan = planned(&observed);
    assert_eq!((plan.step, plan.troubles), (None, BTreeMap::new()));
}

#[test]
fn a_member_that_is_down_and_not_up_to_date_goes_first() {
    let mut observed = running();
    let mut down = pod(0);
    down.ready = false;
    observed.pods = Source::Known(vec![down, pod(1), pod(2)]);
    observed.agents.insert("pod-0".into(), agent(0, None, false));
    let plan = planned(&observed);
    assert!(
        matches!(&plan.step, Some(Step::Activate(target, _)) if target.pod == format!("{SET}-0")),
        "{:?}",
        plan.step
    );
}

proptest! {
    /// Whatever is said, a server that serves is stopped only where everybody says that the cluster can bear it.
    #[test]
    fn only_a_whole_cluster_loses_a_server(
        down in prop::collection::btree_set((0_usize..3, 0_usize..3), 0..3),
        critical in prop::collection::btree_set(0_usize..3, 0..2),
        silent in prop::collection::btree_set(0_usize..3, 0..2),
        unready in prop::collection::btree_set(0_usize..3, 0..2),
    ) {
        let mut observed = running();
        let mut pods: Vec<Pod> = (0..3).map(pod).collect();
        for (index, pod) in pods.iter_mut().enumerate() {
            pod.ready = !unready.contains(&index);
            let mut facts = facts(index);
            for (_, other) in down.iter().filter(|(from, _)| *from == index) {
                facts.nodes.insert(name(*other), false);
            }
            facts.critical = critical.contains(&index).then(|| "mirrors".to_owned());
            let facts = (!silent.contains(&index)).then_some(facts);
            observed.agents.insert(format!("pod-{index}"), agent(index, facts, !unready.contains(&index)));
        }
        observed.pods = Source::Known(pods.clone());
        let plan = planned(&observed);
        if let Some(step) = &plan.step {
            let target = pods.iter().position(|pod| pod.uid == step.target().uid).unwrap();
            let is_whole = down.is_empty() && critical.is_empty() && silent.is_empty() && unready.is_empty();
            prop_assert!(is_whole || !pods[target].ready, "{:?}", plan.step);
        }
    }
}
