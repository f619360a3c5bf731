//! What is planned does not grow with the cluster.

use serde_json::json;
use tf_plan::observed::{Node, Observed, Pod, Source, Workload};

use crate::world::{observed, plan, vrouter};

fn cluster(nodes: usize) -> Observed<tf_api::Vrouter> {
    let name = "vrouter1-vrouter-daemonset";
    let node = |index: usize| Node {
        name: format!("node-{index}"),
        address: Some(format!("10.{}.{}.{}", index >> 16, index >> 8 & 255, index & 255)),
        ..Node::default()
    };
    let pod = |index: usize| Pod {
        name: format!("{name}-{index:05}"),
        uid: format!("uid-{index}"),
        node: Some(format!("node-{index}")),
        address: node(index).address,
        ready: true,
        ..Pod::default()
    };
    let count = i32::try_from(nodes).expect("a number of nodes");
    let workload = Workload {
        name: name.into(),
        current: true,
        wanted: count,
        existing: count,
        ready: count,
        ..Workload::default()
    };
    Observed {
        nodes: Source::Known((0..nodes).map(node).collect()),
        pods: Source::Known((0..nodes).map(pod).collect()),
        workloads: [(name.to_owned(), workload)].into(),
        ..observed()
    }
}

#[test]
fn objects_are_the_same_for_five_and_for_five_thousand_nodes() {
    let cr = vrouter(json!({"serviceConfiguration": {"containers": [
        {"name": "vrouteragent"}, {"name": "vroutercni"}, {"name": "vrouterkernelinit"}, {"name": "nodemanager"},
    ]}}));
    let (small, large) = (plan(&cr, &cluster(5)).expect("a plan"), plan(&cr, &cluster(5000)).expect("a plan"));
    assert_eq!(small.objects, large.objects);
    let bytes: usize = large.objects.iter().map(|object| object.body.to_string().len()).sum();
    assert!(bytes < 32 * 1024, "{bytes} bytes");
}

#[test]
fn agents_are_listed_up_to_a_hundred_and_then_only_counted() {
    let cr = vrouter(json!({}));
    let agents = |nodes| plan(&cr, &cluster(nodes)).expect("a plan").own_status.get("agents").cloned();
    assert_eq!(agents(100).and_then(|list| list.as_array().map(Vec::len)), Some(100));
    assert_eq!(agents(101), None);
}
