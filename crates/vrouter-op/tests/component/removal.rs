//! A node that leaves gets a pod that undoes what was changed on it, and is known by a label until that is done.

use serde_json::{Value, json};
use tf_api::{Vrouter, names};
use tf_plan::{
    object::{DAEMON_SET, Object},
    observed::{Node, Observed, Pod, Source, Taint},
    plan::Plan,
};

use crate::world::{observed, plan, vrouter};

const SET: &str = "vrouter1-tf-removal-vrouter-daemonset";

/// Nodes by name, whether they have the label of the spec's selector, and whose vRouter changed them.
fn world(nodes: &[(&str, bool, Option<&str>)]) -> Observed<Vrouter> {
    let node = |(name, selected, owner): &(&str, bool, Option<&str>)| {
        let owner = owner.map(|owner| (names::LABEL_VROUTER.to_owned(), owner.to_owned()));
        let rack = selected.then(|| ("rack".to_owned(), "1".to_owned()));
        Node { name: (*name).into(), labels: rack.into_iter().chain(owner).collect(), ..Node::default() }
    };
    Observed { nodes: Source::Known(nodes.iter().map(node).collect()), ..observed() }
}

fn cr(configuration: Value) -> Vrouter {
    vrouter(json!({"commonConfiguration": {"nodeSelector": {"rack": "1"}}, "serviceConfiguration": configuration}))
}

fn managed() -> Vrouter {
    cr(json!({"vhost0": "Managed", "containers": [{"name": "vrouteragent"}]}))
}

fn removal_pod(node: &str, ready: bool, trouble: Option<&str>) -> Pod {
    Pod {
        name: format!("{SET}-{node}"),
        node: Some(node.into()),
        ready,
        trouble: trouble.map(Into::into),
        ..Pod::default()
    }
}

/// Nodes and the owners that they are to have.
fn marks(plan: &Plan) -> Vec<(&str, Option<&str>)> {
    let marked = plan.marks.iter().filter_map(|mark| Some((mark, mark.labels.get(names::LABEL_VROUTER)?)));
    marked.map(|(mark, owner)| (mark.node.as_str(), owner.as_deref())).collect()
}

/// The pod template of the removal, and the nodes that it is for.
fn removal(objects: &[Object]) -> Option<(&Value, Vec<&str>)> {
    let set = objects.iter().find(|object| object.kind == DAEMON_SET && object.name == SET)?;
    let spec = &set.body["spec"]["template"]["spec"];
    let affinity = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = affinity["nodeSelectorTerms"].as_array().into_iter().flatten();
    Some((spec, terms.filter_map(|term| term["matchFields"][0]["values"][0].as_str()).collect()))
}

#[test]
fn a_node_that_is_selected_is_labelled_where_pods_change_something_on_it() {
    let nodes =
        [("a", true, None), ("b", false, None), ("c", true, Some("tf.vrouter1")), ("d", true, Some("tf.other"))];
    let planned = plan(&managed(), &world(&nodes)).expect("a plan");
    assert_eq!(marks(&planned), [("a", Some("tf.vrouter1"))]);
    assert!(removal(&planned.objects).is_none());
    let plugin = cr(json!({"containers": [{"name": "vrouteragent"}, {"name": "vroutercni"}]}));
    assert_eq!(marks(&plan(&plugin, &world(&nodes)).expect("a plan")), [("a", Some("tf.vrouter1"))]);
    let neither = cr(json!({"containers": [{"name": "vrouteragent"}]}));
    assert_eq!(marks(&plan(&neither, &world(&nodes)).expect("a plan")), []);
}

#[test]
fn a_node_that_leaves_gets_a_pod_that_removes_the_vrouter_and_loses_its_label_when_that_is_done() {
    let ours = Some("tf.vrouter1");
    let mut world = world(&[("a", false, ours), ("b", true, ours), ("c", false, ours), ("d", false, Some("tf.other"))]);
    let planned = plan(&managed(), &world).expect("a plan");
    let (spec, nodes) = removal(&planned.objects).expect("a removal");
    assert_eq!(nodes, ["a", "c"]);
    assert_eq!(marks(&planned), []);
    let init = &spec["initContainers"][1];
    let command = init["command"].as_array().expect("a command").iter().filter_map(Value::as_str).collect::<Vec<_>>();
    assert_eq!(
        command[1..],
        ["host", "remove", "--root=/host", "--cni-directory=/etc/cni/net.d", "--cni-programs=/opt/cni/bin"]
    );
    assert_eq!(spec["tolerations"].as_array().map(Vec::len), Some(2), "it goes wherever an agent was");
    assert!(planned.notes.contains(&"removing the vRouter from a, c".to_owned()), "{:?}", planned.notes);

    let refused = "container removal: CrashLoopBackOff after exit code 3: the vRouter still has 2 interfaces";
    world.removals = vec![removal_pod("a", true, None), removal_pod("c", false, Some(refused))];
    let planned = plan(&managed(), &world).expect("a plan");
    assert_eq!(removal(&planned.objects).expect("a removal").1, ["c"]);
    assert_eq!(marks(&planned), [("a", None)]);
    assert!(planned.notes.contains(&format!("removing the vRouter from c ({refused})")), "{:?}", planned.notes);
}

#[test]
fn a_label_of_a_vrouter_that_is_gone_gives_way_where_an_agent_of_this_one_is() {
    let mut world = world(&[("a", true, Some("gone.vrouter1")), ("b", true, Some("gone.vrouter1"))]);
    world.pods = Source::Known(vec![Pod { name: "p-1".into(), node: Some("a".into()), ..Pod::default() }]);
    assert_eq!(marks(&plan(&managed(), &world).expect("a plan")), [("a", Some("tf.vrouter1"))]);
}

#[test]
fn a_vhost0_that_pods_did_not_make_stays() {
    let world = world(&[("a", false, Some("tf.vrouter1"))]);
    let planned = plan(&cr(json!({})), &world).expect("a plan");
    let (spec, _) = removal(&planned.objects).expect("a removal");
    let command = spec["initContainers"][1]["command"].to_string();
    assert!(command.contains("--keep-vhost0"), "{command}");
}

#[test]
fn a_node_that_another_vrouter_selects_is_left_to_that_one() {
    let mut world = world(&[("a", false, Some("tf.vrouter1"))]);
    let mut other = vrouter(json!({"commonConfiguration": {"nodeSelector": {"rack": "2"}}}));
    other.metadata.name = Some("other".into());
    if let Source::Known(nodes) = &mut world.nodes {
        nodes[0].labels.insert("rack".into(), "2".into());
    }
    world.siblings = vec![other];
    let planned = plan(&managed(), &world).expect("a plan");
    assert!(removal(&planned.objects).is_none());
    assert_eq!(marks(&planned), [("a", None)]);
}

#[test]
fn a_resource_that_is_deleted_is_held_until_it_is_off_all_its_nodes() {
    let ours = Some("tf.vrouter1");
    let mut world = world(&[("a", true, ours), ("b", true, ours), ("c", true, None)]);
    let mut cr = managed();
    assert!(plan(&cr, &world).expect("a plan").finalization.is_none());
    cr.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-29T09:00:00Z")).expect("a time");
    let finalization = plan(&cr, &world).expect("a plan").finalization.expect("a finalization");
    assert_eq!(removal(&finalization.objects).expect("a removal").1, ["a", "b"]);
    assert_eq!(finalization.waits.as_deref(), Some("the vRouter from a, b"));
    world.removals = vec![removal_pod("a", true, None), removal_pod("b", true, None)];
    let finalization = plan(&cr, &world).expect("a plan").finalization.expect("a finalization");
    assert_eq!((finalization.waits, finalization.objects.len(), finalization.marks.len()), (None, 0, 2));
    // A node that has booted since its agent served last.
    let Source::Known(nodes) = &mut world.nodes else { unreachable!("nodes are known") };
    nodes[0].served_boot = Some("a".into());
    let key = names::TAINT_AGENT_NOT_READY.to_owned();
    nodes[0].taints = vec![Taint { key, effect: "NoSchedule".into(), ..Taint::default() }];
    let marks = plan(&cr, &world).expect("a plan").finalization.expect("a finalization").marks;
    assert_eq!(marks[0].annotations, [(names::ANNOTATION_SERVED_BOOT, None)].into());
    assert_eq!(marks[0].taints, [(names::TAINT_AGENT_NOT_READY, false)].into());
    assert!(marks[1].taints.is_empty());
}

#[test]
fn messages_name_three_nodes_and_those_with_a_cause_first() {
    let ours = Some("tf.vrouter1");
    let nodes: Vec<_> = ["a", "b", "c", "d", "e"].map(|name| (name, false, ours)).into();
    let mut world = world(&nodes);
    if let Source::Known(nodes) = &mut world.nodes {
        nodes[3].unreachable = true;
    }
    let planned = plan(&managed(), &world).expect("a plan");
    let note = "removing the vRouter from d (the node does not report to Kubernetes), a, b and 2 more";
    assert!(planned.notes.contains(&note.to_owned()), "{:?}", planned.notes);
}

#[test]
fn no_group_is_called_as_the_removal_is() {
    let cr = vrouter(json!({"groups": [{"name": "tf-removal", "nodeSelector": {"rack": "1"}}]}));
    let message = plan(&cr, &world(&[])).expect_err("no plan").message;
    assert_eq!(message, "spec.groups[tf-removal]: the operator uses this name itself; choose another one");
}
