//! A cluster whose network for pods is not there yet: all nodes are NotReady, and the operators run in the network of their nodes.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};
use tf_testing::{
    Cluster,
    helm::{self, Rendering},
    manifests::documents,
    operators,
    wait::eventually,
};

use crate::support::{SOON, cluster};

/// What a node has before anybody has given it a network, and an identity in its cloud.
const TAINTS: [&str; 5] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/network-unavailable",
];

#[tokio::test]
async fn all_operators_are_scheduled_onto_three_nodes_without_a_network_and_onto_one() -> Result<()> {
    for (namespace, nodes) in [("in-bootstrap-three", 3), ("in-bootstrap-one", 1)] {
        let cluster = cluster(namespace, &[]).await?;
        for number in 0..nodes {
            let node = serde_json::from_value(node(namespace, number))?;
            Api::<Node>::all(cluster.client.clone()).create(&PostParams::default(), &node).await?;
        }
        let mut ports = BTreeSet::new();
        for operator in operators::ALL {
            ports.extend(install(&cluster, operator).await.context(operator)?);
        }
        ensure!(ports.len() == operators::ALL.len(), "operators share ports of their node: {ports:?}");
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
        let mut scheduled = Vec::new();
        let all = eventually("all operators to have a node", SOON, async || {
            let found = pods.list(&ListParams::default()).await?;
            let node = |pod: &Pod| pod.spec.as_ref()?.node_name.clone();
            scheduled = found.iter().filter_map(node).collect();
            Ok((scheduled.len() == operators::ALL.len()).then_some(()))
        });
        all.await.with_context(|| format!("{nodes} nodes: {scheduled:?}"))?;
        ensure!(scheduled.iter().all(|node| node.starts_with(namespace)), "{scheduled:?}");
    }
    Ok(())
}

fn node(namespace: &str, number: usize) -> Value {
    let name = format!("{namespace}-{number}");
    let resources = json!({"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            // Nothing plays its kubelet: it never becomes Ready.
            "labels": {"kubernetes.io/os": "linux", "boot": namespace},
        },
        "spec": {"taints": TAINTS.map(|key| json!({"key": key, "effect": "NoSchedule"}))},
        "status": {"capacity": resources, "allocatable": resources},
    })
}

/// What of a chart its pod needs. The port that the pod has in the network of its node.
async fn install(cluster: &Cluster, operator: &str) -> Result<Option<i64>> {
    let rendering = Rendering::new(operator, &cluster.namespace)
        .value("bootstrap=true")
        .value("crds.install=false")
        .value("apiServer.host=192.0.2.10")
        .value(format!("nodeSelector.boot={}", cluster.namespace));
    let mut port = None;
    for object in documents(&helm::template(operator, &rendering).await?)? {
        if object["kind"] == "Deployment" {
            port = object.pointer("/spec/template/spec/containers/0/ports/0/containerPort").and_then(Value::as_i64);
        }
        if object["kind"] == "Deployment" || object["kind"] == "ServiceAccount" {
            cluster.lab.apply(&object.to_string()).await?;
        }
    }
    Ok(port)
}
