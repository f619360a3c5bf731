//! Which member takes a change now, what that waits for, and what is told of members that do not serve.

use crate::support::{World, webui, with_status};
use serde_json::json;
use tf_agent_api::state::{Health, Phase, State};
use tf_api::Webui;
use tf_plan::{
    observed::{Agent, Observed, Source},
    plan::Plan,
    step::Step,
};
use tf_testing::three;

const SET: &str = "webui1-webui-statefulset";

/// Three members, each of whom runs with an old configuration.
fn running() -> Observed<Webui> {
    let says = |index| Agent::Says(Box::new(three::status(SET, "webuiweb", index)));
    three::of(World::default().observed(), SET, says)
}

#[expect(clippy::unwrap_used, reason = "a situation that cannot be planned is a failing test")]
fn planned(observed: &Observed<Webui>) -> Plan {
    let status = json!({"contract": "v1", "initialized": true, "members": three::recorded()});
    webui_op::plan::plan(&with_status(&webui(json!({})), status), observed).unwrap()
}

#[test]
fn members_take_a_change_one_after_the_other() {
    let mut observed = running();
    let mut order = Vec::new();
    while let Some(Step::Activate(target, hash)) = planned(&observed).step {
        let Some(Agent::Says(status)) = observed.agents.get_mut(&target.uid) else { panic!("no agent") };
        status.daemons.get_mut("webuiweb").unwrap().active = Some(hash);
        order.push(target.uid);
    }
    assert_eq!(order, ["pod-2", "pod-1", "pod-0"]);
}

#[test]
fn who_serves_is_not_stopped_while_another_one_does_not_serve() {
    let mut observed = running();
    if let Source::Known(pods) = &mut observed.pods {
        pods[0].ready = false;
    }
    let Some(Step::Activate(target, hash)) = planned(&observed).step else { panic!("nothing to do") };
    assert_eq!(target.uid, "pod-0", "who does not serve takes it first");
    let Some(Agent::Says(status)) = observed.agents.get_mut("pod-0") else { panic!("no agent") };
    status.daemons.get_mut("webuiweb").unwrap().active = Some(hash);
    let plan = planned(&observed);
    assert_eq!(plan.step, None);
    assert!(plan.under_way.unwrap().contains("does not serve"));
}

#[test]
fn what_a_member_lacks_is_told_with_its_pod() {
    let lacks = "Redis 10.0.0.2:6389: connect: Connection refused";
    let mut observed = running();
    let Some(Agent::Says(status)) = observed.agents.get_mut("pod-1") else { panic!("no agent") };
    status.health = Some(Health::new(false, lacks));
    assert_eq!(planned(&observed).troubles[&format!("{SET}-1")], lacks);
}

#[test]
fn what_servers_are_is_told_by_node_and_container_as_their_agents_say() {
    let mut observed = running();
    let job = State { phase: Phase::Running, serves: Some(true), ..State::default() };
    for pod in ["pod-0", "pod-1"] {
        let Some(Agent::Says(status)) = observed.agents.get_mut(pod) else { panic!("no agent") };
        status.daemons.insert("webuijob".into(), job.clone());
    }
    let Some(Agent::Says(status)) = observed.agents.get_mut("pod-1") else { panic!("no agent") };
    status.health = Some(Health::new(false, "connect: Connection refused"));
    let told = |web: &str, job: &str| {
        json!({
            "Webuiweb": {"moduleName": "webuiweb", "state": web},
            "Webuijob": {"moduleName": "webuijob", "state": job},
        })
    };
    let status = planned(&observed).own_status["serviceStatus"].clone();
    assert_eq!(status["cp1"], told("Functional", "Functional"));
    assert_eq!(status["cp2"], told("Non-Functional", "Functional"));
    assert_eq!(status["cp3"], told("Functional", "Non-Functional"), "its job server is not among what runs");

    observed.agents.insert("pod-2".into(), Agent::Silent("connect: No route to host".into()));
    assert_eq!(
        planned(&observed).own_status["serviceStatus"]["cp3"],
        told("Functional", "Functional"),
        "the kubelet's word"
    );
    if let Source::Known(pods) = &mut observed.pods {
        pods[2].ready = false;
        pods[1].terminating = true;
        pods[0].address = None;
    }
    let alone = json!({"cp3": told("Non-Functional", "Non-Functional")});
    assert_eq!(planned(&observed).own_status["serviceStatus"], alone);
}
