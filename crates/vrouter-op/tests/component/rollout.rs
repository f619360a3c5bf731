//! One node at a time, whatever its group.

use serde_json::json;
use tf_agent_api::{
    content::ContentHash,
    state::{Health, Phase, State, Status},
    vrouter::Module,
};
use tf_api::{Vrouter, contract::ConditionType};
use tf_plan::{
    object::DAEMON_SET,
    observed::{Agent, Certificate, Node, Observed, Pod, Source, Taint, Workload},
    plan::{Drain, Mark, Plan},
    step::Step,
};

use crate::world::{observed, plan, vrouter};

fn two_groups() -> Vrouter {
    vrouter(json!({"groups": [
        {"name": "a", "nodeSelector": {"tier": "a"}}, {"name": "b", "nodeSelector": {"tier": "b"}},
    ]}))
}

/// Two pods in each group: (ready, current) of a-1, a-2, b-1, b-2.
fn running(states: [(bool, bool); 4]) -> Observed<Vrouter> {
    let rollout = plan(&two_groups(), &observed()).expect("a plan").rollout.expect("workloads");
    let pods = states.iter().enumerate().map(|(index, (ready, current))| {
        let (workload, hash) = &rollout.workloads[index / 2];
        Pod {
            name: format!("{workload}-{index}"),
            uid: format!("uid-{index}"),
            ready: *ready,
            template: Some(if *current { hash.clone() } else { "old".into() }),
            ..Pod::default()
        }
    });
    let workloads = rollout.workloads.iter().map(|(name, _)| {
        (
            name.clone(),
            Workload { name: name.clone(), current: true, wanted: 2, existing: 2, ready: 2, ..Workload::default() },
        )
    });
    Observed { pods: Source::Known(pods.collect()), workloads: workloads.collect(), ..observed() }
}

fn restarted(states: [(bool, bool); 4]) -> Option<String> {
    plan(&two_groups(), &running(states)).expect("a plan").step.map(|step| step.target().uid.clone())
}

#[test]
fn groups_are_restarted_one_after_the_other() {
    assert_eq!(restarted([(true, false), (true, false), (true, false), (true, false)]).as_deref(), Some("uid-1"));
    assert_eq!(restarted([(true, true), (true, true), (true, false), (true, false)]).as_deref(), Some("uid-3"));
    assert_eq!(restarted([(true, true); 4]), None);
}

#[test]
fn a_node_that_is_down_in_one_group_holds_the_healthy_nodes_of_the_other() {
    assert_eq!(restarted([(true, false), (true, true), (false, true), (true, true)]), None);
}

#[test]
fn an_outdated_pod_that_is_down_goes_before_healthy_ones_of_any_group() {
    assert_eq!(restarted([(true, false), (true, false), (false, false), (true, true)]).as_deref(), Some("uid-2"));
}

/// The same nodes, all Ready and current, whose agents can be asked: what each runs with, and whether it serves.
fn asked(states: [(&str, bool); 4]) -> Observed<Vrouter> {
    let mut observed = running([(true, true); 4]);
    let Source::Known(pods) = &mut observed.pods else { unreachable!("pods are known") };
    for (index, (pod, (active, serves))) in pods.iter_mut().zip(states).enumerate() {
        pod.node = Some(format!("node-{index}"));
        pod.address = Some(format!("10.0.0.{index}"));
        pod.certificate = Some(Certificate { not_after: jiff::Timestamp::MAX, issuer: "i".into() });
        let state = State {
            phase: Phase::Running,
            since: jiff::Timestamp::default(),
            active: Some(active.parse().expect("a hash")),
            version: "0.1.0".into(),
            ..State::default()
        };
        let message = if serves { "NodeStatus: Functional" } else { "NodeStatus: Non-Functional (lost)" };
        let said = Status {
            version: "0.1.0".into(),
            pod: pod.name.clone(),
            node: format!("node-{index}"),
            address: format!("10.0.0.{index}"),
            daemons: [("vrouteragent".to_owned(), state)].into(),
            health: Some(Health::new(serves, message)),
            ..Status::default()
        };
        observed.agents.insert(pod.uid.clone(), Agent::Says(Box::new(said)));
    }
    observed
}

const OLD: &str = "00000000000000000000000000000000";

/// What pods of both groups are to run with: it is the same.
fn current() -> ContentHash {
    let plan = plan(&two_groups(), &asked([(OLD, true); 4])).expect("a plan");
    match plan.step {
        Some(Step::Activate(_, hash)) => hash,
        other => unreachable!("{other:?}"),
    }
}

fn told(states: [(&str, bool); 4]) -> (Option<String>, Plan) {
    let plan = plan(&two_groups(), &asked(states)).expect("a plan");
    let uid = plan.step.as_ref().map(|step| {
        assert!(matches!(step, Step::Activate(..)), "{step:?}");
        step.target().uid.clone()
    });
    (uid, plan)
}

#[test]
fn a_changed_configuration_goes_from_node_to_node_without_a_new_pod() {
    let new = current();
    let new = new.as_str();
    assert_eq!(told([(OLD, true); 4]).0.as_deref(), Some("uid-1"));
    assert_eq!(told([(OLD, true), (new, true), (OLD, true), (OLD, true)]).0.as_deref(), Some("uid-0"));
    assert_eq!(told([(new, true), (new, true), (OLD, true), (OLD, true)]).0.as_deref(), Some("uid-3"));
    let (step, plan) = told([(new, true); 4]);
    assert_eq!((step, plan.under_way, plan.troubles.len()), (None, None, 0));
}

#[test]
fn a_configuration_with_which_one_agent_does_not_serve_goes_no_further_and_is_told_with_the_node() {
    let new = current();
    let (step, plan) = told([(OLD, true), (new.as_str(), false), (OLD, true), (OLD, true)]);
    assert_eq!(step, None);
    let held = plan.under_way.expect("held");
    assert!(held.contains("3 pods are not up to date") && held.contains("Non-Functional (lost)"), "{held}");
    let troubles: Vec<_> = plan.troubles.values().map(String::as_str).collect();
    assert_eq!(troubles, ["node node-1: NodeStatus: Non-Functional (lost)"]);
}

#[test]
fn kernel_settings_that_a_node_does_not_have_are_named_and_hold_nothing() {
    let new = current();
    let mut observed = asked([(OLD, true), (new.as_str(), true), (new.as_str(), true), (new.as_str(), true)]);
    let Some(Agent::Says(status)) = observed.agents.get_mut("uid-1") else { unreachable!("it answers") };
    status.settings = Some("the kernel has no setting net.ipv4.unknown".into());
    let plan = plan(&two_groups(), &observed).expect("a plan");
    let shortages: Vec<_> = plan.shortages.values().map(String::as_str).collect();
    let expected = "node node-1: the kernel has no setting net.ipv4.unknown; correct CONTRAIL_SYSCTL_TUNING";
    assert_eq!(shortages, [expected]);
    assert!(matches!(&plan.step, Some(Step::Activate(target, _)) if target.uid == "uid-0"), "{:?}", plan.step);
}

#[test]
fn a_drained_node_gets_another_pod_for_another_kernel_module_and_others_are_named() {
    let new = current();
    let planned = |cordoned, module: Module| {
        let mut observed = asked([(new.as_str(), true); 4]);
        let Some(Agent::Says(status)) = observed.agents.get_mut("uid-1") else { unreachable!("it answers") };
        status.module = Some(module);
        if let Source::Known(nodes) = &mut observed.nodes {
            let node = Node { name: "node-1".into(), address: Some("10.0.0.1".into()), cordoned, ..Node::default() };
            nodes.push(node);
        }
        plan(&two_groups(), &observed).expect("a plan")
    };
    let due = || Module { cause: "module A is loaded, and B is on the node".into(), reload: true, ..Module::default() };
    let step = planned(true, due()).step;
    assert!(matches!(&step, Some(Step::Restart(target)) if target.uid == "uid-1"), "{step:?}");
    let failed = Some("Exec format error".to_owned());
    for (cordoned, module, todo) in [
        (false, due(), "the node's pod loads the module again when the node is drained"),
        (true, Module { used: true, ..due() }, "the node's pod loads the module again when the node is drained"),
        (true, Module { reload: false, ..due() }, "the module is loaded again when the node boots"),
        (
            true,
            Module { failed, ..due() },
            "it was tried and does not work: Exec format error; correct it, or take the change back",
        ),
    ] {
        let plan = planned(cordoned, module.clone());
        assert_eq!(plan.step, None, "{module:?}");
        let shortages: Vec<_> = plan.shortages.values().cloned().collect();
        assert_eq!(shortages, [format!("node node-1: module A is loaded, and B is on the node; {todo}")]);
    }
}

#[test]
fn pods_are_evicted_from_nodes_that_wait_for_another_kernel_module_where_the_spec_says_so() {
    let drain = |kind: Option<&str>| {
        vrouter(json!({
            "groups": [{"name": "a", "nodeSelector": {"tier": "a"}}, {"name": "b", "nodeSelector": {"tier": "b"}}],
            "upgradeStrategy": {"moduleReload": "Drain", "type": kind},
            "serviceConfiguration": {"vhost0": "Managed"},
        }))
    };
    let why = plan(&drain(Some("OnDelete")), &observed()).expect_err("it is refused").message;
    assert!(why.starts_with("spec.upgradeStrategy.moduleReload: Drain needs the type RollingUpdate"), "{why}");
    let cr = drain(None);
    let workloads = plan(&cr, &observed()).expect("a plan").rollout.expect("workloads").workloads;
    let planned = |module: Option<Module>, is_tainted: bool| {
        let mut observed = asked([(OLD, true); 4]);
        if let Source::Known(pods) = &mut observed.pods {
            for (index, pod) in pods.iter_mut().enumerate() {
                pod.template = Some(workloads[index / 2].1.clone());
            }
        }
        let active = match plan(&cr, &observed).expect("a plan").step {
            Some(Step::Activate(_, hash)) => hash,
            other => unreachable!("{other:?}"),
        };
        for agent in observed.agents.values_mut() {
            let Agent::Says(status) = agent else { unreachable!("it answers") };
            status.daemons.values_mut().for_each(|state| state.active = Some(active.clone()));
        }
        let Some(Agent::Says(status)) = observed.agents.get_mut("uid-1") else { unreachable!("it answers") };
        status.module = module;
        let key = tf_api::names::TAINT_DRAIN.to_owned();
        let taint = Taint { key, effect: "NoSchedule".into(), ..Taint::default() };
        let taints = is_tainted.then_some(taint).into_iter().collect();
        if let Source::Known(nodes) = &mut observed.nodes {
            nodes.push(Node { name: "node-1".into(), address: Some("10.0.0.1".into()), taints, ..Node::default() });
        }
        plan(&cr, &observed).expect("a plan")
    };
    let due = |used| Module {
        cause: "module A is loaded, and B is on the node".into(),
        reload: true,
        used,
        ..Module::default()
    };
    for begins in [true, false] {
        let plan = planned(Some(due(true)), !begins);
        assert_eq!(plan.drains, [Drain { node: "node-1".into(), begins }]);
        assert_eq!((plan.under_way.as_deref(), plan.step), (Some("pods are evicted from node node-1"), None));
    }
    let emptied = planned(Some(due(false)), true);
    assert!(matches!(&emptied.step, Some(Step::Restart(target)) if target.uid == "uid-1"), "{:?}", emptied.step);
    assert_eq!(emptied.drains, []);
    let done = planned(None, true);
    assert_eq!((done.step, done.drains.len()), (None, 0));
    assert_eq!(done.marks, [Mark::untaint("node-1", tf_api::names::TAINT_DRAIN)]);
}

#[test]
fn a_node_that_is_lost_holds_no_other_one() {
    let lost = |unreachable| {
        let mut observed = asked([(OLD, true); 4]);
        observed.agents.insert("uid-1".into(), Agent::Silent("no route".into()));
        if let (Source::Known(pods), Source::Known(nodes)) = (&mut observed.pods, &mut observed.nodes) {
            (pods[1].ready, pods[1].terminating) = (false, unreachable);
            let node = Node { name: "node-1".into(), address: Some("10.0.0.1".into()), unreachable, ..Node::default() };
            nodes.push(node);
        }
        plan(&two_groups(), &observed).expect("a plan")
    };
    let step = lost(true).step;
    assert!(matches!(&step, Some(Step::Activate(target, _)) if target.uid == "uid-0"), "{step:?}");
    let held = lost(false);
    assert_eq!(held.step, None, "its kubelet is there, and only the agent is silent");
    assert!(held.under_way.is_some_and(|why| why.contains("no route") || why.contains("not ready")));
}

#[test]
fn a_node_that_is_lost_holds_no_other_one_where_agents_cannot_be_asked_and_what_holds_them_is_named_with_its_node() {
    let lost = |unreachable| {
        let mut observed = running([(true, false); 4]);
        if let (Source::Known(pods), Source::Known(nodes)) = (&mut observed.pods, &mut observed.nodes) {
            (pods[1].ready, pods[1].terminating) = (false, true);
            pods[1].node = Some("node-1".into());
            let node = Node { name: "node-1".into(), address: Some("10.0.0.1".into()), unreachable, ..Node::default() };
            nodes.push(node);
        }
        plan(&two_groups(), &observed).expect("a plan")
    };
    let step = lost(true).step;
    assert!(matches!(&step, Some(Step::Restart(target)) if target.uid != "uid-1"), "{step:?}");
    let held = lost(false);
    assert_eq!(held.step, None, "its kubelet reports, so the pod will be gone soon");
    assert!(held.under_way.is_some_and(|why| why.contains("on node node-1 is terminating")));
}

#[test]
fn certificates_are_told_of_and_no_list_grows_with_the_cluster() {
    let mut observed = asked([(OLD, true); 4]);
    let Source::Known(pods) = &mut observed.pods else { unreachable!("pods are known") };
    let (first, template) = (pods[0].clone(), pods[0].template.clone());
    pods.extend((10..500).map(|index| Pod {
        name: format!("{}-{index}", first.workload()),
        uid: format!("uid-{index}"),
        node: Some(format!("node-{index}")),
        template: template.clone(),
        ..Pod::default()
    }));
    let plan = plan(&two_groups(), &observed).expect("a plan");
    let draft = plan.drafts.iter().find(|draft| draft.kind == ConditionType::CertificatesReady).expect("certificates");
    assert!(draft.message.contains("and 485 more have not asked"), "{}", draft.message);
    assert!(draft.message.len() < 400, "{}", draft.message.len());
}

/// Ten nodes in each of two groups, with pods of an older template.
fn outdated(spec: serde_json::Value) -> Plan {
    let cr = vrouter(spec);
    let rollout = plan(&cr, &observed()).expect("a plan").rollout.expect("workloads");
    let [first, second] = &rollout.workloads[..] else { unreachable!("two groups") };
    let pod = |index: usize| {
        let (workload, hash) = if index < 10 { first } else { second };
        // In each group one has been changed already.
        let template = if index.is_multiple_of(10) { hash.clone() } else { "old".into() };
        let (name, uid, node) =
            (format!("{workload}-{index:02}"), format!("uid-{index:02}"), format!("node-{index:02}"));
        Pod { name, uid, node: Some(node), ready: true, template: Some(template), ..Pod::default() }
    };
    let live = |(name, _): &(String, String)| {
        let workload =
            Workload { name: name.clone(), current: true, wanted: 10, existing: 10, ready: 10, ..Workload::default() };
        (name.clone(), workload)
    };
    let zone = |index: usize| [("zone".to_owned(), format!("{}", index % 5))].into();
    let node = |index: usize| Node { name: format!("node-{index:02}"), labels: zone(index), ..Node::default() };
    let observed = Observed {
        pods: Source::Known((0..20).map(pod).collect()),
        nodes: Source::Known((0..20).map(node).collect()),
        workloads: rollout.workloads.iter().map(live).collect(),
        ..observed()
    };
    plan(&cr, &observed).expect("a plan")
}

fn strategies(all: serde_json::Value, own: serde_json::Value) -> serde_json::Value {
    json!({"upgradeStrategy": all, "groups": [
        {"name": "a", "nodeSelector": {"tier": "a"}}, {"name": "b", "nodeSelector": {"tier": "b"}, "upgradeStrategy": own},
    ]})
}

fn restarted_by(plan: &Plan) -> Vec<&str> {
    plan.step.iter().chain(&plan.batch).map(|step| step.target().uid.as_str()).collect()
}

#[test]
fn several_nodes_are_changed_at_a_time_where_the_strategy_says_so_and_a_group_may_have_its_own() {
    let plan = outdated(strategies(json!({"maxUnavailable": "30%"}), json!(null)));
    assert_eq!(restarted_by(&plan), ["uid-09", "uid-08", "uid-07", "uid-06", "uid-05", "uid-04"], "of twenty nodes");
    let said = plan.under_way.expect("steps");
    assert!(said.starts_with("restarting pod ") && said.ends_with(": it is not up to date, and 5 more"), "{said}");
    let plan = outdated(strategies(json!({"maxUnavailable": "30%"}), json!({"maxUnavailable": 2})));
    assert_eq!(restarted_by(&plan), ["uid-09", "uid-08", "uid-07", "uid-19", "uid-18"], "of ten nodes, and two");
    let by_zone = json!({"maxUnavailable": 4, "topologyKey": "zone"});
    assert_eq!(restarted_by(&outdated(strategies(by_zone, json!({"type": "OnDelete"})))), ["uid-05"], "zone 0");
    assert_eq!(restarted_by(&outdated(strategies(json!(null), json!(null)))), ["uid-09"]);
}

#[test]
fn pods_that_a_strategy_leaves_to_people_are_counted() {
    let plan = outdated(strategies(json!({"type": "InPlace"}), json!({"type": "OnDelete"})));
    assert_eq!((restarted_by(&plan).len(), plan.under_way), (0, None));
    let note =
        "18 pods are not up to date and are not replaced, as upgradeStrategy says; delete a pod to have it replaced";
    assert!(plan.notes.iter().any(|said| said == note), "{:?}", plan.notes);
    assert_eq!(plan.left.len(), 18, "they keep the Vrouter from being Ready no longer");
}

#[test]
fn pods_load_another_kernel_module_where_the_strategy_of_their_group_says_so() {
    let spec = |vhost0: Option<&str>| {
        let drained = json!({"moduleReload": "Drained"});
        json!({"serviceConfiguration": {"vhost0": vhost0}, "upgradeStrategy": drained, "groups": [
            {"name": "a", "nodeSelector": {"tier": "a"}},
            {"name": "b", "nodeSelector": {"tier": "b"}, "upgradeStrategy": {"moduleReload": "Boot"}},
        ]})
    };
    let why = plan(&vrouter(spec(None)), &observed()).expect_err("it is refused").message;
    assert!(why.starts_with("upgradeStrategy.moduleReload is for pods that make vhost0"), "{why}");
    let plan = plan(&vrouter(spec(Some("Managed"))), &observed()).expect("a plan");
    let commands = plan.objects.iter().filter(|object| object.kind == DAEMON_SET).map(|object| {
        let init = object.body.pointer("/spec/template/spec/initContainers").expect("init containers");
        let of = init.as_array().expect("a list").iter().find(|container| container["name"] == "vhost0");
        of.expect("it makes vhost0")["command"].to_string().contains("--reload-module")
    });
    assert_eq!(commands.collect::<Vec<_>>(), [true, false]);
}

#[test]
fn a_strategy_of_no_group_and_a_share_that_is_none_are_named() {
    let each = json!({"upgradeStrategy": {"maxUnavailable": 2}, "groups": [
        {"name": "a", "nodeSelector": {"tier": "a"}, "upgradeStrategy": {"maxUnavailable": 3}},
    ]});
    let ignored = plan(&vrouter(each), &observed()).expect("a plan").ignored;
    assert!(ignored.iter().any(|said| said == "spec.upgradeStrategy: every group has its own"), "{ignored:?}");
    for share in [json!(0), json!("0%"), json!("101%"), json!("many")] {
        let spec = json!({"groups": [{"name": "a", "upgradeStrategy": {"maxUnavailable": share}}]});
        let why = plan(&vrouter(spec), &observed()).expect_err("it is refused").message;
        assert!(why.starts_with("spec.groups[a].upgradeStrategy.maxUnavailable is neither"), "{why}");
    }
}
