//! A node is tainted from its boot until its agent serves.

use serde_json::json;
use tf_api::{Vrouter, names};
use tf_plan::{
    object::DAEMON_SET,
    observed::{Node, Observed, Pod, Source, Taint},
};

use crate::world::{observed, plan, vrouter};

fn cr() -> Vrouter {
    with(Some(true))
}

fn with(taint: Option<bool>) -> Vrouter {
    let selector = json!({"nodeSelector": {"rack": "1"}});
    vrouter(json!({"commonConfiguration": selector, "serviceConfiguration": {"agentNotReadyTaint": taint}}))
}

/// What one node of a vRouter gets and loses: its annotation, and whether it has the taint.
type Change = Option<(Option<Option<String>>, bool)>;

/// `served`: the boot in which its agent served. The node is in boot `b`.
fn change(cr: &Vrouter, is_selected: bool, served: Option<&str>, is_tainted: bool, is_ready: bool) -> Change {
    change_in(cr, is_selected, served, is_tainted, is_ready, observed())
}

fn change_in(
    cr: &Vrouter,
    is_selected: bool,
    served: Option<&str>,
    is_tainted: bool,
    is_ready: bool,
    observed: Observed<Vrouter>,
) -> Change {
    let rack = is_selected.then(|| ("rack".to_owned(), "1".to_owned()));
    let owner = (names::LABEL_VROUTER.to_owned(), "tf.vrouter1".to_owned());
    let key = names::TAINT_AGENT_NOT_READY.to_owned();
    let taint = Taint { key, effect: "NoSchedule".into(), ..Taint::default() };
    let node = Node {
        name: "n1".into(),
        labels: rack.into_iter().chain([owner]).collect(),
        taints: is_tainted.then_some(taint).into_iter().collect(),
        boot: Some("b".into()),
        served_boot: served.map(Into::into),
        ..Node::default()
    };
    let pod = Pod { name: "p-1".into(), node: Some("n1".into()), ready: is_ready, ..Pod::default() };
    let pods = Source::Known(is_selected.then_some(pod).into_iter().collect());
    let world = Observed { nodes: Source::Known(vec![node]), pods, ..observed };
    let planned = plan(cr, &world).expect("a plan");
    let mark = planned.marks.iter().find(|mark| !mark.taints.is_empty())?;
    let is_tainted = mark.taints.get(names::TAINT_AGENT_NOT_READY).copied()?;
    Some((mark.annotations.get(names::ANNOTATION_SERVED_BOOT).cloned(), is_tainted))
}

#[test]
fn a_node_is_tainted_until_its_agent_serves_in_this_boot() {
    let cr = cr();
    let note = Some(Some("b".to_owned()));
    for (served, is_tainted, is_ready, expected) in [
        (None, false, false, Some((None, true))),
        (None, true, false, None),
        (None, true, true, Some((note.clone(), false))),
        (None, false, true, Some((note.clone(), false))),
        // It has booted again.
        (Some("a"), false, false, Some((None, true))),
        (Some("a"), true, true, Some((note, false))),
        // Its agent restarts.
        (Some("b"), false, false, None),
        (Some("b"), true, false, Some((None, false))),
        (Some("b"), false, true, None),
    ] {
        assert_eq!(change(&cr, true, served, is_tainted, is_ready), expected, "{served:?} {is_tainted} {is_ready}");
    }
}

#[test]
fn a_node_that_leaves_and_a_spec_that_does_not_ask_for_it_take_the_taint_away() {
    let gone = Some((Some(None), false));
    assert_eq!(change(&cr(), false, Some("b"), false, false), gone);
    assert_eq!(change(&cr(), false, None, true, false), gone);
    assert_eq!(change(&cr(), false, None, false, false), None);
    let without = with(Some(false));
    assert_eq!(change(&without, true, None, true, false), gone);
    assert_eq!(change(&without, true, None, false, false), None);
}

#[test]
fn by_default_a_node_is_tainted_from_its_second_boot_on() {
    let usual = with(None);
    let noted = Some(Some("b".to_owned()));
    for (served, is_tainted, is_ready, expected) in [
        (None, false, false, None),
        // An earlier release labelled it.
        (None, false, true, Some((noted.clone(), false))),
        // Its kubelet registered it so.
        (None, true, false, None),
        (None, true, true, Some((noted.clone(), false))),
        (Some("a"), false, false, Some((None, true))),
        (Some("a"), true, true, Some((noted, false))),
        (Some("b"), false, false, None),
    ] {
        assert_eq!(change(&usual, true, served, is_tainted, is_ready), expected, "{served:?} {is_tainted} {is_ready}");
    }
    // The label of its first boot brings the note, in one request.
    let new = |taints| {
        let node = Node {
            name: "n1".into(),
            labels: [("rack".to_owned(), "1".to_owned())].into(),
            boot: Some("b".into()),
            taints,
            ..Node::default()
        };
        let world = Observed { nodes: Source::Known(vec![node]), ..observed() };
        plan(&usual, &world).expect("a plan").marks
    };
    let marks = new(Vec::new());
    assert_eq!(marks.len(), 1);
    assert_eq!(marks[0].annotations, [(names::ANNOTATION_SERVED_BOOT, Some("b".to_owned()))].into());
    assert!(marks[0].taints.is_empty() && marks[0].labels.contains_key(names::LABEL_VROUTER), "{marks:?}");
    let key = names::TAINT_AGENT_NOT_READY.to_owned();
    let waiting = new(vec![Taint { key, effect: "NoSchedule".into(), ..Taint::default() }]);
    assert!(waiting.iter().all(|mark| mark.annotations.is_empty()), "{waiting:?}");
}

#[test]
fn an_agent_tolerates_the_taint_that_waits_for_it_whatever_else_its_pods_tolerate() {
    let key = names::TAINT_AGENT_NOT_READY;
    let tolerations = |spec| {
        let planned = plan(&vrouter(spec), &observed()).expect("a plan");
        let set = planned.objects.into_iter().find(|object| object.kind == DAEMON_SET).expect("a DaemonSet");
        set.body["spec"]["template"]["spec"]["tolerations"].clone()
    };
    let own = json!({"key": "edge", "operator": "Exists"});
    let ours = json!({"key": key, "operator": "Exists", "effect": "NoSchedule"});
    assert_eq!(tolerations(json!({"commonConfiguration": {"tolerations": [own]}})), json!([own, ours]));
    assert_eq!(tolerations(json!({"commonConfiguration": {"tolerations": [ours]}})), json!([ours]));
    let drain = json!({"key": names::TAINT_DRAIN, "operator": "Exists", "effect": "NoSchedule"});
    let drained = tolerations(json!({
        "commonConfiguration": {"tolerations": [own]}, "serviceConfiguration": {"vhost0": "Managed"}, "upgradeStrategy": {"moduleReload": "Drain"},
    }));
    assert_eq!(drained, json!([own, ours, drain]));
    let group = json!([{"name": "a", "nodeSelector": {"rack": "1"}, "tolerations": [own]}]);
    assert_eq!(tolerations(json!({"groups": group})), json!([own, ours]));
    let every = tolerations(json!({}));
    assert!(every.as_array().is_some_and(|all| all.iter().all(|it| it.get("key").is_none())), "{every}");
}

#[test]
fn an_agent_without_a_control_node_gives_no_pod_a_network() {
    let alone = Observed { operator: observed().operator, ..Observed::default() };
    assert_eq!(change_in(&cr(), true, None, true, true, alone), None);
}

#[test]
fn where_nodes_have_another_network_the_field_has_no_effect() {
    let spec = json!({"agentNotReadyTaint": true, "containers": [{"name": "vrouteragent"}]});
    let cr = vrouter(json!({"commonConfiguration": {"nodeSelector": {"rack": "1"}}, "serviceConfiguration": spec}));
    assert_eq!(change(&cr, true, None, false, false), None);
    let ignored = plan(&cr, &observed()).expect("a plan").ignored;
    assert!(
        ignored.iter().any(|path| path.starts_with("spec.serviceConfiguration.agentNotReadyTaint: ")),
        "{ignored:?}"
    );
}
