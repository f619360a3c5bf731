//! Resources and snapshots for the tests.

#![expect(clippy::unwrap_used, reason = "a situation that cannot be made is a failing test")]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tf_api::Redis;
use tf_plan::observed::{Node, Observed, Operator, Source};

/// The password of the members, which is without effect where each server is on its own.
pub const PEER_MARK: &str = "Pq8Kd2Wn";

/// A resource.
pub fn resource(name: &str, spec: &Value, status: &Value) -> Redis {
    let resource = json!({
        "apiVersion": "tf.tungsten.io/v1alpha1",
        "kind": "Redis",
        "metadata": { "name": name, "namespace": "tf", "uid": "uid-1", "generation": 1 },
        "spec": spec,
        "status": status,
    });
    serde_json::from_value(resource).unwrap()
}

/// A snapshot with these control-plane nodes and the password for the resource of that name.
pub fn observed(name: &str, nodes: &[(&str, &str)], password: &str) -> Observed<Redis> {
    let labels = BTreeMap::from([("node-role.kubernetes.io/control-plane".to_owned(), String::new())]);
    let node = |(name, address): &(&str, &str)| Node {
        name: (*name).to_owned(),
        address: Some((*address).to_owned()),
        labels: labels.clone(),
        ..Node::default()
    };
    let secret = [("password", password), ("peer-password", PEER_MARK)];
    let secret = secret.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect();
    Observed {
        operator: Operator { cluster_domain: "cluster.local".into(), version: "0.1.0".into(), ..Operator::default() },
        nodes: Source::Known(nodes.iter().map(node).collect()),
        secrets: BTreeMap::from([(format!("{name}-redis-password"), secret)]),
        now: "2026-11-21T10:00:00Z".parse().unwrap(),
        ..Observed::default()
    }
}
