//! Which member takes a change now, what that waits for, and what is told of members that do not serve.

use std::time::Duration;

use crate::support::{World, kubemanager, with_status};
use serde_json::{Value, json};
use tf_agent_api::{
    content::ContentHash,
    state::{Health, State},
};
use tf_api::{Kubemanager, kinds::SESSION_TIMEOUT_DEFAULT};
use tf_plan::{
    observed::{Agent, Observed},
    plan::Plan,
    rollout::SETTLING,
    step::Step,
};
use tf_testing::three;

const SET: &str = "kubemanager1-kubemanager-statefulset";
/// The member that is at work in most tests.
const ELECTED: usize = 2;
/// For how long a place in line outlives its process.
const SESSION: Duration = SESSION_TIMEOUT_DEFAULT;

/// Three members, each of whom runs with an old configuration; this one is at work, or none.
fn running(elected: Option<usize>) -> Observed<Kubemanager> {
    let says = |index| {
        let mut status = three::status(SET, "kubemanager", index);
        if elected != Some(index) {
            status.health = Some(Health { standby: true, ..Health::new(true, "no port is open") });
        }
        Agent::Says(Box::new(status))
    };
    three::of(World::default().observed(), SET, says)
}

fn planned(observed: &Observed<Kubemanager>) -> Plan {
    planned_where(&json!([]), observed)
}

#[expect(clippy::unwrap_used, reason = "a situation that cannot be planned is a failing test")]
fn planned_where(conditions: &Value, observed: &Observed<Kubemanager>) -> Plan {
    let status = json!({"contract": "v1", "initialized": true, "members": three::recorded(), "conditions": conditions});
    kubemanager_op::plan::plan(&with_status(&kubemanager(json!({})), status), observed).unwrap()
}

/// The daemons of all members have begun now.
fn all_have_begun(observed: &mut Observed<Kubemanager>) {
    for agent in observed.agents.values_mut() {
        let Agent::Says(status) = agent else { continue };
        status.daemons.values_mut().for_each(|state| state.since = observed.now);
    }
}

/// One member is at work now.
fn is_elected(observed: &mut Observed<Kubemanager>, index: usize) {
    health(observed, index, Health::new(true, ""));
}

/// One waits.
fn stands_by(observed: &mut Observed<Kubemanager>, index: usize) {
    health(observed, index, Health { standby: true, ..Health::new(true, "no port is open") });
}

#[expect(clippy::panic, reason = "a situation without the pod is a failing test")]
fn health(observed: &mut Observed<Kubemanager>, index: usize, health: Health) {
    let Some(Agent::Says(status)) = observed.agents.get_mut(&format!("pod-{index}")) else { panic!("no agent") };
    status.health = Some(health);
}

/// The daemon of a pod is started anew with this configuration.
#[expect(clippy::unwrap_used, clippy::panic, reason = "a situation without the pod is a failing test")]
fn take(observed: &mut Observed<Kubemanager>, uid: &str, hash: ContentHash) {
    let Some(Agent::Says(status)) = observed.agents.get_mut(uid) else { panic!("no agent") };
    let state = status.daemons.get_mut("kubemanager").unwrap();
    *state = State { active: Some(hash), since: observed.now, ..state.clone() };
}

/// The members that wait take the change, and each has run for so long when the next one does.
#[expect(clippy::panic, reason = "that they are held is a failing test")]
fn those_that_wait_take_it(observed: &mut Observed<Kubemanager>, pause: Duration) {
    for uid in ["pod-1", "pod-0"] {
        let Some(Step::Activate(target, hash)) = planned(observed).step else { panic!("nothing to do") };
        assert_eq!(target.uid, uid, "those that wait are in nobody's way");
        take(observed, uid, hash);
        observed.now += pause;
    }
}

#[test]
fn the_member_at_work_takes_a_change_last() {
    let mut observed = running(Some(ELECTED));
    let mut order = Vec::new();
    while let Some(Step::Activate(target, hash)) = planned(&observed).step {
        take(&mut observed, &target.uid, hash);
        order.push(target.uid);
        observed.now += SESSION;
    }
    assert_eq!(order, ["pod-1", "pod-0", "pod-2"]);
    assert!(planned(&observed).troubles.is_empty(), "who stands by is well");
}

#[test]
fn the_member_at_work_goes_on_until_who_is_elected_next_is_a_process_that_runs() {
    let mut observed = running(Some(ELECTED));
    observed.now += SESSION;
    those_that_wait_take_it(&mut observed, SESSION / 4);
    let plan = planned(&observed);
    assert_eq!(plan.step, None);
    assert_eq!(plan.again, Some(SESSION / 4 * 3), "when the last one has run for a session");
    assert!(plan.under_way.unwrap().contains("can be elected"));
    observed.now += SESSION / 4 * 3;
    assert!(matches!(planned(&observed).step, Some(Step::Activate(target, _)) if target.uid == "pod-2"));
}

/// As in a bring-up, in which the collectors come after it.
#[test]
fn while_who_is_at_work_has_hardly_begun_it_takes_a_change_first_and_so_does_the_next_one() {
    let mut observed = running(None);
    all_have_begun(&mut observed);
    observed.now += SETTLING;
    let mut order = Vec::new();
    for (elected, next) in [(1, 2), (2, 0), (0, 1)] {
        // Those that were stopped are the last in line, and which of the others is the first is chance.
        is_elected(&mut observed, elected);
        let plan = planned(&observed);
        let Some(Step::Activate(target, hash)) = plan.step else { panic!("{:?}", plan.under_way) };
        order.push(target.uid.clone());
        take(&mut observed, &target.uid, hash);
        stands_by(&mut observed, elected);
        observed.now += SETTLING;
        let plan = planned(&observed);
        assert!(plan.step.is_none(), "nobody is stopped while nobody is elected");
        is_elected(&mut observed, next);
    }
    assert_eq!(order, ["pod-1", "pod-2", "pod-0"]);
    let plan = planned(&observed);
    assert_eq!((plan.step, plan.under_way), (None, None), "all have it, after 15 s");
}

#[test]
fn who_waits_is_not_stopped_while_nobody_is_elected_and_somebody_is_about_to_be() {
    let mut observed = running(None);
    let began = observed.now;
    observed.now = began + SESSION * 10;
    let lost = |since| json!([{"type": "WorkloadReady", "status": "False", "reason": "Progressing", "message": "", "lastTransitionTime": since}]);
    // Who led was lost a moment ago, and the session lasts.
    let just_now = lost((observed.now - SESSION / 4).to_string());
    let plan = planned_where(&just_now, &observed);
    assert_eq!((plan.step, plan.again), (None, Some(SESSION / 4 * 3)));
    assert!(plan.under_way.unwrap().contains("no kubemanager is elected"));
    assert_eq!(planned(&observed).again, Some(SESSION), "it was just seen");
    // When nobody was elected by then, it is not the session that is waited for.
    let long_ago = lost((observed.now - SESSION).to_string());
    let Some(Step::Activate(target, hash)) = planned_where(&long_ago, &observed).step else { panic!("nothing to do") };
    take(&mut observed, &target.uid, hash);
    let plan = planned_where(&long_ago, &observed);
    assert_eq!((plan.step, plan.again), (None, Some(SETTLING)), "it has just begun");
    observed.now += SETTLING;
    let plan = planned_where(&long_ago, &observed);
    assert_eq!(
        (plan.step, plan.again),
        (None, Some(SESSION.saturating_sub(SETTLING))),
        "its former znode is ahead of the others now"
    );
    // Somebody was elected: the others are in nobody's way.
    let elected = running(Some(ELECTED));
    assert!(planned_where(&just_now, &Observed { now: observed.now, ..elected }).step.is_some());
}

#[test]
fn clocks_of_nodes_that_are_ahead_hold_nobody_for_longer_than_a_session_more() {
    let mut observed = running(Some(ELECTED));
    observed.now += SESSION;
    those_that_wait_take_it(&mut observed, SETTLING);
    let began = observed.now - SETTLING;
    observed.now = began - SESSION / 2;
    assert_eq!(planned(&observed).again, Some(SESSION));
    observed.now = began - SESSION * 2;
    assert!(planned(&observed).step.is_some(), "it tells nothing");
}

#[test]
fn the_member_at_work_is_not_touched_while_nobody_could_take_over() {
    let mut observed = running(Some(ELECTED));
    let waits = [0, 1].map(|index| observed.agents.get(&format!("pod-{index}")).cloned());
    for index in [0, 1] {
        three::is_down(&mut observed, index);
    }
    let Some(Step::Activate(target, hash)) = planned(&observed).step else { panic!("nothing to do") };
    assert_eq!(target.uid, "pod-1", "who does not serve takes it first");
    take(&mut observed, "pod-1", hash);
    let plan = planned(&observed);
    assert_eq!(plan.step, None, "the change did not help");
    assert!(plan.under_way.unwrap().contains("does not serve"));
    // The kubelet has not noticed that both stand by: nothing in them is down.
    for (index, agent) in waits.into_iter().flatten().enumerate() {
        observed.agents.insert(format!("pod-{index}"), agent);
    }
    assert!(matches!(planned(&observed).step, Some(Step::Activate(target, _)) if target.uid == "pod-1"));
}

#[test]
fn a_cluster_whose_objects_are_made_keeps_its_name() {
    let named = |name: Option<&str>, initialized: bool, recorded: &str| {
        let spec = json!({"serviceConfiguration": {"clusterName": name}});
        let status = json!({
            "contract": "v1", "initialized": initialized, "members": three::recorded(), "clusterName": recorded,
        });
        kubemanager_op::plan::plan(&with_status(&kubemanager(spec), status), &running(None))
    };
    let kept = |name, recorded| named(name, true, recorded).unwrap().own_status["clusterName"].clone();
    assert_eq!(kept(Some("east"), "east"), "east");
    assert_eq!(kept(None, "prod"), "prod");
    assert_eq!(named(Some("east"), false, "west").unwrap().own_status["clusterName"], "east");
    for (name, recorded) in [(Some("east"), "west"), (None, "west")] {
        let refused = named(name, true, recorded).unwrap_err();
        assert!(refused.message.contains("set serviceConfiguration.clusterName to west"), "{}", refused.message);
    }
}

#[test]
fn that_nobody_is_at_work_is_told_of_each_member() {
    let plan = planned(&running(None));
    assert_eq!(plan.troubles.len(), 3);
    assert!(plan.troubles.values().all(|why| why.contains("no member is elected")), "{:?}", plan.troubles);
    assert!(planned(&running(Some(0))).troubles.is_empty());
}

#[test]
fn what_keeps_the_daemon_at_work_from_being_functional_is_told_with_its_member() {
    let lacks = "NodeStatus: Non-Functional (Database:RabbitMQ[] connection down)";
    let mut observed = running(Some(ELECTED));
    let Some(Agent::Says(status)) = observed.agents.get_mut("pod-2") else { panic!("no agent") };
    status.health = Some(Health::new(false, lacks));
    assert_eq!(planned(&observed).troubles[&format!("{SET}-2")], lacks);
}
