//! Which member takes a change now, what that waits for, and what is told of members that do not serve.

use crate::support::{World, control, with_status};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;
use tf_agent_api::state::{Certificate, Health, Phase, State};
use tf_api::{Control, contract::Reason};
use tf_plan::{
    component::Component as _,
    observed::{Agent, Observed, Pod, Source, Unavailable},
    plan::Plan,
    procedure::AgentReport,
    step::Step,
};
use tf_testing::three;

const SET: &str = "control1-control-statefulset";

/// Three members, each of whom runs with an old configuration.
fn running() -> Observed<Control> {
    let says = |index| Agent::Says(Box::new(three::status(SET, "control", index)));
    three::of(World::default().observed(), SET, says)
}

#[expect(clippy::unwrap_used, reason = "a situation that cannot be planned is a failing test")]
fn planned(observed: &Observed<Control>) -> Plan {
    let status = json!({"contract": "v1", "initialized": true, "members": three::recorded()});
    control_op::plan::plan(&with_status(&control(json!({})), status), observed).unwrap()
}

/// The plan when the agent of the second member says something else of itself.
fn said(change: impl Fn(&mut tf_agent_api::state::Status)) -> Plan {
    let mut observed = running();
    let mut status = three::status(SET, "control", 1);
    change(&mut status);
    observed.agents.insert("pod-1".into(), Agent::Says(Box::new(status)));
    planned(&observed)
}

#[test]
fn where_every_control_node_serves_the_highest_takes_the_change() {
    let plan = planned(&running());
    assert!(matches!(&plan.step, Some(Step::Activate(target, _)) if target.pod == format!("{SET}-2")), "{plan:?}");
    assert!(plan.troubles.is_empty(), "{:?}", plan.troubles);
}

#[test]
fn a_member_that_serves_is_not_touched_while_another_one_does_not() {
    let mut observed = running();
    if let Source::Known(pods) = &mut observed.pods {
        pods[0].ready = false;
    }
    let mut plan = planned(&observed);
    // The one that does not serve takes it first.
    let Some(Step::Activate(target, hash)) = plan.step.take() else { panic!("{:?}", plan.step) };
    assert_eq!(target.uid, "pod-0");
    let Some(Agent::Says(status)) = observed.agents.get_mut("pod-0") else { panic!("no agent") };
    status.daemons.get_mut("control").unwrap().active = Some(hash);
    let plan = planned(&observed);
    assert_eq!(plan.step, None);
    assert!(plan.under_way.unwrap().contains("the member on node cp1 does not serve"));
}

/// Without a network between kubelets and Kubernetes, or switched off.
fn lose(observed: &mut Observed<Control>, index: usize) {
    if let (Source::Known(pods), Source::Known(nodes)) = (&mut observed.pods, &mut observed.nodes) {
        pods[index].ready = false;
        nodes[index].unreachable = true;
    }
    observed.agents.insert(format!("pod-{index}"), Agent::Silent("no route".into()));
}

#[expect(clippy::unwrap_used, clippy::panic, reason = "a member without a daemon is a failing test")]
fn activate(observed: &mut Observed<Control>) -> Option<String> {
    let Some(Step::Activate(target, hash)) = planned(observed).step else { return None };
    let Some(Agent::Says(status)) = observed.agents.get_mut(&target.uid) else { panic!("no agent") };
    status.daemons.get_mut("control").unwrap().active = Some(hash);
    Some(target.uid)
}

#[test]
fn nobody_waits_for_a_member_whose_node_is_lost_as_long_as_another_one_serves() {
    for terminating in [false, true] {
        let mut observed = running();
        lose(&mut observed, 2);
        if let Source::Known(pods) = &mut observed.pods {
            pods[2].terminating = terminating;
        }
        let order: Vec<String> = std::iter::from_fn(|| activate(&mut observed)).collect();
        assert_eq!(order, ["pod-1", "pod-0"], "terminating: {terminating}");
        let template = planned(&observed).workload().1.to_owned();
        if let Source::Known(pods) = &mut observed.pods {
            pods[..2].iter_mut().for_each(|pod| pod.template = Some(template.clone()));
        }
        observed.workloads.get_mut(SET).unwrap().current = true;
        let left = planned(&observed).under_way.unwrap();
        assert!(left.starts_with(&format!("pod {SET}-2 is brought up to date when its node is back")), "{left}");
        lose(&mut observed, 1);
        if let Some(Agent::Says(status)) = observed.agents.get_mut("pod-0") {
            status.daemons.get_mut("control").unwrap().active = "a".repeat(32).parse().ok();
        }
        let plan = planned(&observed);
        assert_eq!(plan.step, None, "nobody would serve");
        assert!(plan.under_way.unwrap().ends_with("no other control node serves while node cp2 is lost"));
    }
}

#[test]
fn a_pod_without_a_place_holds_nobody_where_only_a_lost_node_is_left() {
    let mut observed = running();
    lose(&mut observed, 2);
    if let Source::Known(pods) = &mut observed.pods {
        pods[2] = Pod { node: None, active: None, certificate: None, ..pods[2].clone() };
    }
    observed.agents.remove("pod-2");
    let order: Vec<String> = std::iter::from_fn(|| activate(&mut observed)).collect();
    assert_eq!(order, ["pod-1", "pod-0"]);
    if let Source::Known(nodes) = &mut observed.nodes {
        nodes[2].unreachable = false;
    }
    let Some(Agent::Says(status)) = observed.agents.get_mut("pod-0") else { panic!("no agent") };
    status.daemons.get_mut("control").unwrap().active = "a".repeat(32).parse().ok();
    assert_eq!(activate(&mut observed), None, "it may come up at any moment");
}

#[test]
fn nobody_is_touched_while_the_database_is_lost_for_who_is_started_anew_has_nothing_to_read() {
    let unwell = World { ready: false, ..World::default() };
    let mut observed = three::of(unwell.observed(), SET, |index| {
        let mut status = three::status(SET, "control", index);
        status.health = Some(Health::new(false, "NodeStatus: Non-Functional (Database:Cassandra connection down)"));
        Agent::Says(Box::new(status))
    });
    let all_serve =
        three::of(unwell.observed(), SET, |index| Agent::Says(Box::new(three::status(SET, "control", index))));
    assert!(planned(&all_serve).step.is_some(), "a database that lacks a member serves");
    let Some(Source::Known(databases)) = observed.peers.get_mut("Cassandra") else { panic!("no database") };
    databases[0].status.initialized = true;
    let available =
        Condition { type_: "Available".into(), status: "False".into(), ..databases[0].status.conditions[0].clone() };
    databases[0].status.conditions.push(available);
    for ready in [true, false] {
        if let Source::Known(pods) = &mut observed.pods {
            for pod in pods.iter_mut() {
                pod.ready = ready;
            }
        }
        let plan = planned(&observed);
        assert_eq!(plan.step, None);
        let why = plan.under_way.unwrap();
        assert!(
            why.starts_with("3 pods are not up to date, none is touched now: ") && why.contains("Cassandra"),
            "{why}"
        );
    }
}

#[test]
fn members_that_go_by_a_former_certificate_are_started_anew_one_after_the_other_while_the_others_serve() {
    let mut observed = running();
    // Everybody runs with what is wanted.
    let wanted = (0..3).map(|_| {
        let Some(Step::Activate(target, hash)) = planned(&observed).step else { panic!("nothing to activate") };
        let Some(Agent::Says(status)) = observed.agents.get_mut(&target.uid) else { panic!("no agent") };
        status.daemons.get_mut("control").unwrap().active = Some(hash);
        target.uid
    });
    assert_eq!(wanted.collect::<Vec<_>>(), ["pod-2", "pod-1", "pod-0"]);
    assert_eq!(planned(&observed).step, None);
    let not_after = "2027-01-01T00:00:00Z".parse().unwrap();
    let unused = "c".repeat(32).parse().ok();
    let former = Certificate { not_before: None, not_after, issuer: None, revision: 1, unread: None, unused };
    for uid in ["pod-0", "pod-1"] {
        let Some(Agent::Says(status)) = observed.agents.get_mut(uid) else { panic!("no agent") };
        status.certificate = Some(former.clone());
    }
    let Some(Step::Renew(target, hash)) = planned(&observed).step else { panic!("nobody is started anew") };
    assert_eq!((target.uid.as_str(), target.why.as_str()), ("pod-1", "they go by a former certificate"));
    if let Source::Known(pods) = &mut observed.pods {
        pods[1].active_certificate = Some(hash.to_string());
    }
    let told = planned(&observed);
    assert_eq!(told.step, None, "the next one goes when this one has");
    let why = format!("pod {SET}-1 on node cp2 has not changed over yet");
    let held = told.under_way.unwrap_or_default();
    assert!(held.ends_with(&why), "{held}");
    let Some(Agent::Says(status)) = observed.agents.get_mut("pod-1") else { panic!("no agent") };
    status.certificate.as_mut().unwrap().unused = None;
    assert!(matches!(planned(&observed).step, Some(Step::Renew(target, _)) if target.uid == "pod-0"));
    if let Source::Known(pods) = &mut observed.pods {
        pods[2].ready = false;
    }
    let plan = planned(&observed);
    assert_eq!(plan.step, None, "another one does not serve");
    assert!(plan.under_way.unwrap().contains("the member on node cp3 does not serve"));
}

#[test]
fn what_keeps_a_daemon_from_being_functional_is_told_with_its_member() {
    let lacks = "NodeStatus: Non-Functional (No BGP configuration for self)";
    let plan = said(|status| status.health = Some(Health::new(false, lacks)));
    assert_eq!(plan.troubles[&format!("{SET}-1")], lacks);
}

#[test]
fn no_other_member_takes_a_change_while_an_agent_knows_better_than_the_kubelet() {
    // It was started anew a moment ago, and the kubelet asks every five seconds.
    let began = said(|status| status.health = Some(Health::new(false, "port 8083: connection refused")));
    assert_eq!(began.step, None);
    let why = "port 8083: connection refused";
    assert_eq!(began.troubles[&format!("{SET}-1")], why);
    let held = began.under_way.unwrap();
    assert!(held.ends_with(&format!("pod {SET}-1 does not serve: {why}")), "{held}");
    // Where one beside it hangs, the change may be what mends that.
    let hangs = State { phase: Phase::Running, unwell: Some("no answer within 2500 ms".into()), ..State::default() };
    let hung = said(|status| drop(status.daemons.insert("dns".into(), hangs.clone())));
    assert_eq!(hung.troubles[&format!("{SET}-1")], "its dns does not serve: no answer within 2500 ms");
    assert!(matches!(hung.step, Some(Step::Activate(target, _)) if target.pod == format!("{SET}-1")));
}

#[test]
fn a_dns_daemon_that_does_not_serve_beside_one_that_does_is_told() {
    for (ready, told) in [(false, true), (true, false)] {
        let mut observed = running();
        let mut status = three::status(SET, "control", 1);
        status.daemons.insert("dns".into(), State { phase: Phase::Running, ..State::default() });
        observed.agents.insert("pod-1".into(), Agent::Says(Box::new(status)));
        if let Source::Known(pods) = &mut observed.pods {
            pods[1].ready = ready;
        }
        let why = planned(&observed).troubles.get(&format!("{SET}-1")).cloned().unwrap_or_default();
        assert_eq!(why.contains("contrail-dns or named beside it is not ready"), told, "{why}");
    }
}

#[test]
fn a_name_server_that_does_not_run_is_told_with_its_member() {
    for (phase, why) in [
        (Phase::BackOff, "its named does not run: ended by itself and waits for its next start: exit code 1"),
        (Phase::Waiting, "its named does not run: not started yet: exit code 1"),
        (Phase::Starting, "its named does not run: being started"),
        (Phase::Stopping, "its named does not run: being stopped: exit code 1"),
        (Phase::Running, ""),
    ] {
        let state = State { phase, message: Some("exit code 1".into()), ..State::default() };
        let plan = said(|status| drop(status.daemons.insert("named".into(), state.clone())));
        assert_eq!(plan.troubles.get(&format!("{SET}-1")).map(String::as_str).unwrap_or_default(), why, "{phase:?}");
    }
}

/// What is wrong with a daemon beside the one that speaks for the pod is told by members that are recorded.
#[test]
fn what_is_wrong_with_members_is_told_without_a_plan() {
    let status = json!({"contract": "v1", "initialized": true, "replicas": 3, "members": three::recorded()});
    let control = with_status(&control(json!({"serviceConfiguration": {"containers": [{"name": "dns"}]}})), status);
    let mut observed = running();
    let mut status = three::status(SET, "control", 1);
    status.daemons.insert("dns".into(), State { phase: Phase::Running, ..State::default() });
    observed.agents.insert("pod-1".into(), Agent::Says(Box::new(status)));
    observed.agents.insert("pod-2".into(), Agent::Silent("no answer within 1.5 s".into()));
    if let Source::Known(pods) = &mut observed.pods {
        pods[1].ready = false;
        pods[1].images = [("control".to_owned(), "control:R2".to_owned())].into();
    }
    assert!(control_op::plan::plan(&control, &observed).is_err());
    let told = |observed: &Observed<Control>| control_op::Component::agent_report(&control, observed);
    let Some(AgentReport { daemons, troubles, .. }) = told(&observed) else { panic!("nothing is told") };
    assert!(troubles[&format!("{SET}-1")].contains("contrail-dns or named beside it is not ready"), "{troubles:?}");
    assert_eq!(troubles[&format!("{SET}-2")], "its agent does not answer: no answer within 1.5 s");
    assert_eq!(
        daemons.iter().map(|it| (it.name.as_str(), it.wanted, it.serving)).collect::<Vec<_>>(),
        [("control", 3, 1)]
    );
    // An operator that began a moment ago concludes nothing from silence.
    observed.agents.remove("pod-0");
    assert_eq!(told(&observed), None);
    observed.pods = Source::Known(Vec::new());
    assert_eq!(told(&observed), Some(AgentReport::default()));
    let why = Unavailable { reason: Reason::Forbidden, message: "nobody could look".into() };
    observed.pods = Source::Unavailable(why);
    assert_eq!(told(&observed), None);
}
