//! Everything that operators of this repository run on real nodes, as pods of their charts: real stores, and the daemons of Config that
//! `tf-sim` plays.
//!
//! Without the vRouter: `tf-node` does not find out yet what a node's interfaces and addresses are, so its agent does not start on a real
//! node, played or not.

use std::path::PathBuf;

use anyhow::{Context, Result};
use futures::future::try_join_all;

use crate::operators::{Install, repository};
use crate::real::{image, operator};
use crate::{Lab, Options};

/// The operators.
pub const OPERATORS: [&str; 6] = ["cassandra-op", "config-op", "manager-op", "rabbitmq-op", "redis-op", "zookeeper-op"];

/// Archives of the images besides the operators'.
const OTHERS: [&str; 6] = [
    "tf-node",
    "tf-sim",
    image::CASSANDRA_ARCHIVE,
    image::RABBITMQ_ARCHIVE,
    image::REDIS_ARCHIVE,
    image::ZOOKEEPER_ARCHIVE,
];

/// What begins the part of the example that is left out, and ends the file.
const LEFT_OUT: &str = "    vrouters:\n";
/// Three members of two rings on one small machine.
const HEAP: &str = "serviceConfiguration: {minHeapSize: 64M, maxHeapSize: 192M}";

/// Archives of all images.
pub fn archives() -> Vec<&'static str> {
    OPERATORS.into_iter().chain(OTHERS).collect()
}

/// `examples/manager.yaml` without the vRouter, its Cassandras with as much memory as a small machine has for them.
///
/// # Errors
/// When it looks otherwise than it did.
pub fn manifest() -> Result<String> {
    let example = std::fs::read_to_string(repository().join("examples/manager.yaml"))?;
    let (kept, _) = example.split_once(LEFT_OUT).context("examples/manager.yaml has no vrouters at its end")?;
    let small = kept
        .replace(
            "- metadata: {name: configdb1}\n",
            &format!("- metadata: {{name: configdb1}}\n        spec: {{{HEAP}}}\n"),
        )
        .replace(
            "          serviceConfiguration:\n",
            "          serviceConfiguration:\n            minHeapSize: 64M\n            maxHeapSize: 192M\n",
        );
    anyhow::ensure!(small.matches("192M").count() == 2, "examples/manager.yaml has other Cassandras than it had");
    Ok(small)
}

/// A lab of control-plane nodes that have the images, with every operator installed from its chart.
///
/// # Errors
/// When one of them cannot be had.
pub async fn installed(nodes: u32, namespace: &str, archives: &[PathBuf]) -> Result<Lab> {
    let lab = Lab::start(Options::real(nodes)).await?;
    for node in lab.real_nodes()?.all()? {
        operator::label_control_plane(&lab, node.name()).await?;
    }
    lab.real_nodes()?.load(archives).await?;
    try_join_all(OPERATORS.map(|name| {
        let lab = &lab;
        async move {
            let values = ["replicaCount=1".to_owned()].into_iter().chain(values(name)).collect();
            lab.install(name, namespace, &Install { values, ..Install::default() }).await
        }
    }))
    .await?;
    Ok(lab)
}

/// Values of an operator's chart.
fn values(operator: &str) -> Vec<String> {
    let played = ["api", "devicemgr", "dnsmasq", "schema", "svcmonitor"];
    let sim = concat!("tungstenfabric/tf-sim:", env!("CARGO_PKG_VERSION"));
    match operator {
        "cassandra-op" => vec![image::CASSANDRA.to_owned()],
        "rabbitmq-op" => vec![image::RABBITMQ.to_owned()],
        "redis-op" => vec![image::REDIS.to_owned()],
        "zookeeper-op" => vec![image::ZOOKEEPER.to_owned()],
        "config-op" => played.map(|name| format!("operands.images.controller-config-{name}={sim}")).to_vec(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_example_is_whole_but_for_the_vrouter() {
        let manifest: Value = serde_saphyr::from_str(&manifest().unwrap()).unwrap();
        let services = manifest["spec"]["services"].as_object().unwrap();
        assert_eq!(services.keys().collect::<Vec<_>>(), ["cassandras", "config", "rabbitmq", "redis", "zookeeper"]);
        let rings = services["cassandras"].as_array().unwrap();
        assert!(rings.iter().all(|ring| ring["spec"]["serviceConfiguration"]["maxHeapSize"] == "192M"), "{rings:?}");
    }
}
