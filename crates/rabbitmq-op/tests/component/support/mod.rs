//! Resources, snapshots and rendered files for the tests.

#![expect(clippy::unwrap_used, reason = "a situation that cannot be made is a failing test")]

use std::{collections::BTreeMap, net::IpAddr};

use serde_json::{Value, json};
use tf_api::Rabbitmq;
use tf_config_files::read::{self, Cuttlefish};
use tf_plan::{
    observed::{Node, Observed, Operator, Source},
    secret::SecretData,
};
pub use tf_testing::situation::{data, open_files as files, secret_files};

/// Password of [`secret`].
pub const PASSWORD: &str = "Generated-Password.1234";
/// Password of the node agents in [`secret`].
pub const AGENT_PASSWORD: &str = "Agent-Password.1234";
/// Cookie of [`secret`].
pub const COOKIE: &str = "GENERATEDCOOKIE";

/// A resource.
pub fn resource(name: &str, spec: &Value, status: &Value) -> Rabbitmq {
    let resource = json!({
        "apiVersion": "tf.tungsten.io/v1alpha1",
        "kind": "Rabbitmq",
        "metadata": { "name": name, "namespace": "tf", "uid": "uid-1", "generation": 1 },
        "spec": spec,
        "status": status,
    });
    serde_json::from_value(resource).unwrap()
}

/// What the runtime leaves in the operator's own Secret.
pub fn secret() -> SecretData {
    [
        ("user", "generated"),
        ("password", PASSWORD),
        ("vhost", "hidden"),
        ("salted_password", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"),
        ("erlang_cookie", COOKIE),
        ("agent_password", AGENT_PASSWORD),
        ("agent_salted_password", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

/// A snapshot with these control-plane nodes and the operator's own Secret for the resource of that name.
pub fn observed(name: &str, nodes: &[(&str, &str)]) -> Observed<Rabbitmq> {
    let labels = BTreeMap::from([("node-role.kubernetes.io/control-plane".to_owned(), String::new())]);
    let node = |(name, address): &(&str, &str)| Node {
        name: (*name).to_owned(),
        address: Some((*address).to_owned()),
        labels: labels.clone(),
        ..Node::default()
    };
    Observed {
        operator: Operator { cluster_domain: "cluster.local".into(), version: "0.1.0".into(), ..Operator::default() },
        nodes: Source::Known(nodes.iter().map(node).collect()),
        secrets: BTreeMap::from([(format!("{name}-secret"), secret())]),
        ..Observed::default()
    }
}

/// `erl_hosts` as Erlang reads it.
pub fn hosts(file: &str) -> Vec<(IpAddr, String)> {
    let host = |line: &str| {
        let (address, name) = line.split_once(' ').unwrap();
        (address.parse().unwrap(), name.to_owned())
    };
    file.lines().map(host).collect()
}

/// The members that one without data joins, in order.
pub fn listed(files: &BTreeMap<String, String>) -> Vec<String> {
    let settings = read::sysctl(&files["rabbitmq-formation.conf"], Cuttlefish::Unquoted).unwrap();
    let member = |number| settings.get(&format!("cluster_formation.classic_config.nodes.{number}")).cloned();
    (1..).map_while(member).collect()
}
