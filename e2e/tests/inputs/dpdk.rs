//! Nodes with DPDK beside kernel nodes: a mode that does not exist is refused while the others serve, and nodes change from one Vrouter to another.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Pod};
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use tf_api::kinds::{MANAGER, VROUTER};
use tf_testing::{
    Cluster,
    cluster::NODE_LABEL,
    resources::{self, Resource},
    wait::eventually,
};

use crate::support::{SOON, cluster, made, told};

const MODE: &str = "agent-mode";
const RACK: &str = "rack";

/// Vrouters of a Manager, by name, for the nodes of the cluster with this label.
async fn apply(cluster: &Cluster, vrouters: &[(&str, &str, &str, Value)]) -> Result<()> {
    let entry = |(name, key, value, settings): &(&str, &str, &str, Value)| {
        let selector = json!({NODE_LABEL: cluster.namespace, *key: value});
        let mut settings = settings.clone();
        settings["envVariablesConfig"] = json!({"CONTROL_NODES": "192.0.2.1"});
        let spec = json!({"commonConfiguration": {"nodeSelector": selector}, "serviceConfiguration": settings});
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let entries: Vec<Value> = vrouters.iter().map(entry).collect();
    let spec = json!({"services": {"vrouters": entries}});
    resources::apply(&cluster.client, MANAGER, &cluster.namespace, "sdn", spec).await?;
    Ok(())
}

/// Uids of the agents' pods that run, by their nodes.
async fn agents(cluster: &Cluster) -> Result<BTreeMap<String, String>> {
    let pods = Api::<Pod>::namespaced(cluster.client.clone(), &cluster.namespace);
    let pods = pods.list(&ListParams::default().labels("tf_manager=vrouter")).await?;
    Ok(pods.into_iter().filter_map(|pod| Some((pod.spec?.node_name?, pod.metadata.uid?))).collect())
}

#[tokio::test]
async fn a_vrouter_with_dpdk_has_forwarders_beside_one_of_the_kernel_and_a_relabelled_node_gets_a_kernel_agent()
-> Result<()> {
    let cluster = cluster("in-dpdk", &["manager-op", "vrouter-op"]).await?;
    let nodes = cluster.nodes(0, 4).await?;
    let api = cluster.lab.nodes().await?;
    for (node, mode) in nodes.iter().zip(["kernel", "kernel", "dpdk", "dpdk"]) {
        api.label(node, MODE, Some(mode)).await?;
    }
    let kernel = ("vrouter-kernel", MODE, "kernel", json!({"physicalInterface": "bond0"}));
    let dpdk = |mode: &str| {
        let settings = json!({"agentMode": mode, "dpdkUioDriver": "vfio-pci", "physicalInterface": "bond1"});
        ("vrouter-dpdk", MODE, "dpdk", settings)
    };
    apply(&cluster, &[kernel.clone(), dpdk("vpp")]).await?;

    cluster.ready(VROUTER, "vrouter-kernel").await?;
    let message = told(&cluster, VROUTER, "vrouter-dpdk", ("Stalled", "True", "InvalidSpec")).await?;
    ensure!(message == "spec.serviceConfiguration.agentMode: use kernel or dpdk", "{message}");
    ensure!(made::<DaemonSet>(&cluster, "vrouter-dpdk").await?.is_empty(), "half of it runs");
    let before = agents(&cluster).await?;
    ensure!(before.keys().eq(nodes[..2].iter()), "{before:?}");
    let is_named = |manager: &Resource| {
        let (ready, available) = (manager.explain("Ready"), manager.explain("Available"));
        ready.starts_with("Ready=False ")
            && ["vrouter-dpdk", "agentMode"].iter().all(|part| ready.contains(part))
            && available.ends_with(": not usable: Vrouter vrouter-dpdk")
    };
    cluster.until(MANAGER, "sdn", "not Ready because of one Vrouter", is_named).await?;

    apply(&cluster, &[kernel.clone(), dpdk("dpdk")]).await?;
    cluster.until(VROUTER, "vrouter-dpdk", "on two nodes", |it| it.is_ready_on(2)).await?;
    let sets = made::<DaemonSet>(&cluster, "vrouter-dpdk").await?;
    ensure!(sets.len() == 1, "{sets:?}");
    let set = Api::<DaemonSet>::namespaced(cluster.client.clone(), &cluster.namespace).get(&sets[0]).await?;
    let containers = set.spec.and_then(|spec| Some(spec.template.spec?.containers)).unwrap_or_default();
    let names: Vec<&str> = containers.iter().map(|container| container.name.as_str()).collect();
    ensure!(names.contains(&"vrouteragentdpdk"), "{names:?}");
    let before = agents(&cluster).await?;
    ensure!(before.keys().eq(nodes.iter()), "{before:?}");

    api.label(&nodes[2], MODE, Some("kernel")).await?;
    let has_three = |it: &Resource| it.is_ready_on(3);
    cluster.until(VROUTER, "vrouter-kernel", "on three nodes", has_three).await?;
    cluster.until(VROUTER, "vrouter-dpdk", "on one node", |it| it.is_ready_on(1)).await?;
    let after = agents(&cluster).await?;
    ensure!(after.keys().eq(nodes.iter()), "{after:?}");
    let is_same = |node: &String| (after.get(node) == before.get(node)) == (*node != nodes[2]);
    ensure!(nodes.iter().all(is_same), "{before:?}, {after:?}");

    // Another label of a node that has an agent: of the two selectors neither says that they meet.
    api.label(&nodes[0], RACK, Some("a")).await?;
    apply(&cluster, &[kernel.clone(), dpdk("dpdk"), ("vrouter-rack", RACK, "a", json!({}))]).await?;
    let waits = |it: &Resource| it.explain("Ready").contains(&format!("not scheduled on node {}: ", nodes[0]));
    cluster.until(VROUTER, "vrouter-rack", "naming the node that has an agent", waits).await?;
    let still = cluster.get(VROUTER, "vrouter-kernel").await?;
    let now = agents(&cluster).await?;
    ensure!(has_three(&still) && now == after, "{}: {after:?}, {now:?}", still.explain("Ready"));

    apply(&cluster, &[kernel]).await?;
    eventually("the other Vrouters to be gone", SOON, async || {
        let others = ["vrouter-dpdk", "vrouter-rack"]
            .map(|name| resources::get(&cluster.client, VROUTER, &cluster.namespace, name));
        Ok(try_join_all(others).await?.iter().all(Option::is_none).then_some(()))
    })
    .await?;
    cluster.manager_ready("sdn").await.map(drop)
}
