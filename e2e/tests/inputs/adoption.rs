//! Pods that the Go tf-operator made, and a StatefulSet of its kind. Members are simulated here and have no agents, so the kubelet's
//! word is all there is; `real` takes over servers that run.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::{ResourceExt as _, api::Api};
use serde_json::json;
use tf_api::kinds::ZOOKEEPER;
use tf_testing::{
    operators::{Install, Run},
    resources,
    wait::eventually,
};

use crate::{
    former::{self, OWNER, WORKLOAD, members, pods, running},
    support::{SOON, cluster, told},
};

#[tokio::test]
async fn pods_of_the_go_tf_operator_are_taken_over_where_they_are_once_each_has_a_node() -> Result<()> {
    let mut cluster = cluster("in-adoption", &[]).await?;
    cluster.nodes(4, 0).await?;
    let (client, namespace) = (cluster.client.clone(), cluster.namespace.clone());
    let spec = json!({"commonConfiguration": {"nodeSelector": cluster.control_plane()}});
    let resource = resources::apply(&client, ZOOKEEPER, &namespace, OWNER, spec).await?;
    let uid = resource.uid().context("no uid")?;
    let former = |replicas| former::workload(&namespace, &cluster.control_plane(), &uid, replicas);
    let (too_many, as_many) = (former(5), former(3));
    cluster.apply_object(&too_many).await?;
    running(&client, &namespace, 5, 4).await?;

    cluster.add(&["zookeeper-op"], &Install::default(), &Run::default()).await?;
    let message = told(&cluster, ZOOKEEPER, OWNER, ("Ready", "False", "ReplicasUnavailable")).await?;
    ensure!(message.contains("cannot take over its pods: pod") && message.contains("has no node yet"), "{message}");
    let workloads: Api<StatefulSet> = Api::namespaced(client.clone(), &namespace);
    ensure!(workloads.get(WORKLOAD).await?.spec.context("no spec")?.replicas == Some(5), "it was touched");

    cluster.apply_object(&as_many).await?;
    let before = running(&client, &namespace, 3, 3).await?;
    let wanted = members(&before)?;
    eventually("every pod to be ours", 4 * SOON, async || {
        Ok(former::are_replaced(&client, &namespace, &before).await?.then_some(()))
    })
    .await?;
    let resource = cluster.ready(ZOOKEEPER, OWNER).await?;
    let recorded = former::recorded(&resource)?;
    ensure!(recorded == wanted, "{recorded:?}, not {wanted:?}");
    ensure!(members(&pods(&client, &namespace).await?)? == wanted, "pods have moved");
    let template = workloads.get(WORKLOAD).await?.spec.and_then(|spec| spec.template.spec).context("no spec")?;
    ensure!(template.containers.iter().all(|container| container.name != "sidecar"), "{:?}", template.containers);
    Ok(())
}
