//! Two resources that want the same: the older has it, the younger is told, and gets it when it is free.

use anyhow::Result;
use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Pod};
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::json;
use tf_api::kinds::{VROUTER, ZOOKEEPER};
use tf_testing::{Cluster, cluster::NODE_LABEL, resources};

use crate::support::{cluster, made, member, merge, told};

async fn vrouter(cluster: &Cluster, name: &str) -> Result<()> {
    let control = json!({"envVariablesConfig": {"CONTROL_NODES": "192.0.2.1"}});
    let spec = json!({"commonConfiguration": {"nodeSelector": cluster.everywhere()}, "serviceConfiguration": control});
    resources::apply(&cluster.client, VROUTER, &cluster.namespace, name, spec).await?;
    Ok(())
}

/// The first has a head start of a second, the grain of creation times.
async fn two(cluster: &Cluster) -> Result<()> {
    vrouter(cluster, "older").await?;
    cluster.ready(VROUTER, "older").await?;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    vrouter(cluster, "younger").await?;
    let message = told(cluster, VROUTER, "younger", ("Ready", "False", "InvalidSpec")).await?;
    assert!(message.contains("older") && message.contains("nodeSelector"), "{message}");
    assert!(made::<DaemonSet>(cluster, "younger").await?.is_empty());
    assert!(cluster.get(VROUTER, "older").await?.is_ready(), "the older one is not disturbed");
    Ok(())
}

#[tokio::test]
async fn a_younger_claim_on_the_same_nodes_succeeds_when_the_older_resource_is_deleted() -> Result<()> {
    let cluster = cluster("in-claim-gone", &["vrouter-op"]).await?;
    cluster.nodes(0, 2).await?;
    two(&cluster).await?;
    resources::api(&cluster.client, VROUTER, &cluster.namespace).delete("older", &DeleteParams::default()).await?;
    cluster.ready(VROUTER, "younger").await?;
    Ok(())
}

#[tokio::test]
async fn a_younger_claim_on_the_same_nodes_succeeds_when_the_older_resource_leaves_them() -> Result<()> {
    let cluster = cluster("in-claim-left", &["vrouter-op"]).await?;
    let nodes = cluster.nodes(0, 2).await?;
    two(&cluster).await?;
    let api = cluster.lab.nodes().await?;
    api.label(&nodes[0], "in-claim-left", Some("")).await?;
    api.label(&nodes[0], NODE_LABEL, None).await?;
    let selector = json!({"in-claim-left": "", NODE_LABEL: null});
    merge(&cluster, VROUTER, "older", json!({"spec": {"commonConfiguration": {"nodeSelector": selector}}})).await?;
    told(&cluster, VROUTER, "younger", ("Ready", "True", "Succeeded")).await?;
    Ok(())
}

/// On the host's network, so that two members on one node would listen on one port.
#[tokio::test]
async fn the_younger_of_two_that_want_the_same_ports_of_the_same_nodes_says_so_and_the_older_is_not_disturbed()
-> Result<()> {
    let cluster = cluster("in-claim-ports", &["zookeeper-op"]).await?;
    cluster.nodes(3, 0).await?;
    member(&cluster, ZOOKEEPER, "older", json!({})).await?;
    let older = cluster.ready(ZOOKEEPER, "older").await?;
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let running = pods.list(&ListParams::default()).await?;
    let running: Vec<_> = running.items.into_iter().filter_map(|pod| pod.metadata.uid).collect();
    assert_eq!(running.len(), 3);

    member(&cluster, ZOOKEEPER, "younger", json!({})).await?;
    let says = |resource: &resources::Resource| {
        resource
            .explain("Ready")
            .starts_with("Ready=False InvalidSpec: port 2181 of the nodes belongs to Zookeeper in-claim-ports/older")
    };
    let younger = cluster.until(ZOOKEEPER, "younger", "saying that the ports are taken", says).await?;
    assert!(!younger.is_ready() && younger.is("Available", "False"), "{}", resources::conditions(&younger));
    let now = cluster.get(ZOOKEEPER, "older").await?;
    let since =
        |resource: &resources::Resource| resource.condition("Ready").map(|ready| ready.last_transition_time.clone());
    assert!(now.is_ready() && since(&now) == since(&older), "{}", resources::conditions(&now));
    for pod in pods.list(&ListParams::default()).await?.items {
        let (name, uid) = (pod.metadata.name.unwrap_or_default(), pod.metadata.uid.unwrap_or_default());
        assert_eq!(running.contains(&uid), name.starts_with("older-"), "{name} was replaced");
    }

    // Where it says nothing else is wrong: with the ports, it has what it needs.
    resources::api(&cluster.client, ZOOKEEPER, &cluster.namespace).delete("older", &DeleteParams::default()).await?;
    cluster.ready(ZOOKEEPER, "younger").await?;
    Ok(())
}
