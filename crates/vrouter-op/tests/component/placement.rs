//! Nodes on which no agent runs.

use serde_json::json;
use tf_plan::observed::{Node, Observed, Source, Taint};

use crate::world::{observed, plan, vrouter};

fn note(tolerations: serde_json::Value) -> Option<String> {
    let node = |name: &str, key: &str| {
        let taint = Taint { key: key.into(), value: String::new(), effect: "NoSchedule".into() };
        let taints = if key.is_empty() { Vec::new() } else { vec![taint] };
        Node { name: name.into(), taints, ..Node::default() }
    };
    let control = "node-role.kubernetes.io/control-plane";
    let nodes = vec![node("a", control), node("b", control), node("c", ""), node("d", "dedicated")];
    let observed = Observed { nodes: Source::Known(nodes), ..observed() };
    let vrouter = vrouter(json!({"commonConfiguration": {"tolerations": tolerations}}));
    plan(&vrouter, &observed).expect("a plan").notes.into_iter().find(|note| note.starts_with("no agent on"))
}

#[test]
fn nodes_whose_taints_keep_agents_away_are_named() {
    let expected = "no agent on a (node-role.kubernetes.io/control-plane:NoSchedule) and 1 more: tolerations do not cover the taint";
    assert_eq!(note(json!([{"key": "dedicated", "operator": "Exists"}])).as_deref(), Some(expected));
    assert_eq!(note(json!([{"operator": "Exists"}])), None);
    assert_eq!(note(json!([])), None, "without any an agent tolerates everything");
}
