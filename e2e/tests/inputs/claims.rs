//! Two resources that want the same: the older has it, the younger is told, and gets it when it is free.

use anyhow::Result;
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::DeleteParams;
use serde_json::json;
use tf_api::kinds::VROUTER;
use tf_testing::{Cluster, cluster::NODE_LABEL, resources};

use crate::support::{cluster, made, merge, told};

async fn vrouter(cluster: &Cluster, name: &str) -> Result<()> {
    let spec = json!({"commonConfiguration": {"nodeSelector": cluster.everywhere()}});
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
