//! Which member takes a change now, and what that waits for.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its input fails")]

use redis_op::plan::plan;
use serde_json::{Value, json};
use tf_agent_api::{redis::Facts, state::Status};
use tf_api::{Redis, contract::Reason};
use tf_plan::{
    not_ready::{NotReady, Obstacle},
    observed::{Agent, Observed, Pod, Source, Workload},
    plan::Plan,
    step::Step,
};
use tf_testing::three::{self, THREE};

use crate::support::{observed, resource};

const SET: &str = "redis1-redis-statefulset";

fn facts() -> Facts {
    Facts { release: "7.0.15".into(), ..Facts::default() }
}

fn says(index: usize, facts: Option<Facts>) -> Status {
    Status { redis: facts, ..three::status(SET, "redis", index) }
}

fn agent(index: usize, facts: Option<Facts>) -> Agent {
    Agent::Says(Box::new(says(index, facts)))
}

/// Three members, each of whom runs with an old configuration.
fn running() -> Observed<Redis> {
    three::of(observed("redis1", &THREE, "password"), SET, |index| agent(index, Some(facts())))
}

fn planned(observed: &Observed<Redis>) -> Plan {
    planned_for(&json!({}), observed)
}

fn planned_for(spec: &Value, observed: &Observed<Redis>) -> Plan {
    let status = json!({"contract": "v1", "initialized": true, "members": three::recorded()});
    plan(&resource("redis1", spec, &status), observed).unwrap()
}

/// The plan when the second server says this of itself.
fn said(facts: Facts) -> Plan {
    let mut observed = running();
    observed.agents.insert("pod-1".into(), agent(1, Some(facts)));
    planned(&observed)
}

#[test]
fn where_nothing_is_missing_the_highest_member_takes_the_change() {
    let plan = planned(&running());
    assert!(matches!(&plan.step, Some(Step::Activate(target, _)) if target.pod == format!("{SET}-2")), "{plan:?}");
    assert!(plan.troubles.is_empty());
}

#[test]
fn a_member_that_serves_is_not_touched_while_another_one_does_not() {
    let mut observed = running();
    three::is_down(&mut observed, 0);
    let mut up_to_date = planned(&observed);
    // The one that does not serve takes it first.
    let Some(Step::Activate(target, hash)) = up_to_date.step.take() else { panic!("{:?}", up_to_date.step) };
    assert_eq!(target.uid, "pod-0");
    let Some(Agent::Says(status)) = observed.agents.get_mut("pod-0") else { panic!("no agent") };
    status.daemons.get_mut("redis").unwrap().active = Some(hash);
    let plan = planned(&observed);
    assert_eq!(plan.step, None);
    assert!(plan.under_way.unwrap().contains("-0 does not serve: its port does not answer"));
}

#[test]
fn a_server_that_loads_data_or_says_nothing_holds_the_others_and_tells_why() {
    for (facts, why) in [
        (Facts { loading: true, ..facts() }, "-1 is loading its data"),
        (
            Facts { unknown: Some("no answer".into()), ..Facts::default() },
            "does not report the state of its server: no answer",
        ),
    ] {
        let plan = said(facts);
        assert_eq!(plan.step, None, "{why}");
        let told = plan.under_way.unwrap_or_default();
        assert!(told.contains(why), "{told:?} lacks {why:?}");
    }
}

#[test]
fn a_server_that_somebody_made_a_copy_of_another_one_is_told_and_holds_nobody() {
    let plan = said(Facts { copies: Some("10.0.0.9:6379".into()), ..facts() });
    assert!(plan.step.is_some());
    let [(pod, why)] = plan.troubles.iter().collect::<Vec<_>>()[..] else { panic!("{:?}", plan.troubles) };
    assert_eq!(pod, &format!("{SET}-1"));
    assert!(why.starts_with("its server copies 10.0.0.9:6379 and takes no writes"), "{why}");
}

/// Without a status of ours.
fn taking_over(spec: &Value, observed: &Observed<Redis>) -> Result<Plan, NotReady> {
    plan(&resource("redis1", spec, &json!({"active": true})), observed)
}

#[test]
fn pods_of_the_go_tf_operator_are_taken_over_one_after_the_other() {
    let observed = observed("redis1", &THREE, "password");
    let plan = |observed: &Observed<_>| taking_over(&json!({}), observed).unwrap();
    let looks = |plan: &Plan| assert_eq!(plan.members, three::recorded());
    let order = three::taken_over(observed, SET, plan, |index| says(index, Some(facts())), looks);
    assert_eq!(order, [2, 1, 0]);
}

#[test]
fn servers_of_the_go_tf_operator_do_not_become_copies_of_one_another() {
    let mut observed = observed("redis1", &THREE, "password");
    observed.pods = Source::Known((0..3).map(|index| three::former(SET, index)).collect());
    let refused = taking_over(&json!({"serviceConfiguration": {"mode": "Sentinel"}}), &observed).unwrap_err();
    assert_eq!((refused.obstacle, refused.reason), (Obstacle::Invalid, Reason::InvalidSpec));
    assert!(refused.message.contains("mode is Sentinel"), "{}", refused.message);
}

#[test]
fn a_pod_that_stays_where_no_member_is_any_more_is_made_anew_where_one_lacks_a_pod() {
    let mut observed = running();
    let fewer = json!({"commonConfiguration": {"replicas": 1}});
    let on_second = |current| {
        let mut observed = running();
        let set = Workload { name: SET.into(), current, wanted: 1, existing: 1, ready: 1, ..Workload::default() };
        observed.workloads.insert(SET.to_owned(), set);
        // Up to date, and on the node of the second member, who is struck off.
        let mut pod = Pod { name: format!("{SET}-0"), ..three::pod(SET, 1) };
        pod.template = planned_for(&fewer, &observed).workload().1.to_owned().into();
        observed.pods = Source::Known(vec![pod]);
        observed
    };
    assert_eq!(planned_for(&fewer, &on_second(false)).step, None);
    let plan = planned_for(&fewer, &on_second(true));
    assert!(matches!(&plan.step, Some(Step::Restart(target)) if target.uid == "pod-1"), "{plan:?}");
    assert!(plan.under_way.unwrap().contains("its node is of no member"));
    // The StatefulSet takes the higher ordinals away by itself.
    if let Source::Known(pods) = &mut observed.pods {
        pods.truncate(2);
        pods.remove(0);
    }
    assert_eq!(planned_for(&fewer, &observed).step, None);
}
