//! Pods that the Go tf-operator made, and a StatefulSet of its kind. Members are simulated here and have no agents, so the kubelet's
//! word is all there is; `real` takes over servers that run.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use kube::{
    ResourceExt as _,
    api::{Api, ListParams},
};
use serde_json::{Value, json};
use tf_api::{contract::MemberStatus, kinds::ZOOKEEPER};
use tf_testing::{
    Cluster,
    operators::{Install, Run},
    resources,
    wait::eventually,
};

use crate::support::{SOON, cluster, told};

const WORKLOAD: &str = "zk-zookeeper-statefulset";

/// The StatefulSet of the former operator for so many nodes.
fn former(cluster: &Cluster, uid: &str, replicas: i32) -> Value {
    let labels = json!({"tf_manager": "zookeeper", "zookeeper": "zk"});
    let alone = json!({"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"});
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {
            "name": WORKLOAD, "namespace": cluster.namespace, "labels": labels,
            "ownerReferences": [{
                "apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Zookeeper", "name": "zk", "uid": uid, "controller": true,
            }],
        },
        "spec": {
            "replicas": replicas, "podManagementPolicy": "Parallel", "serviceName": "", "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": cluster.control_plane(),
                    "tolerations": [{"operator": "Exists"}],
                    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [alone]}},
                    "containers": [{"name": "zookeeper", "image": "theirs"}, {"name": "sidecar", "image": "theirs"}],
                },
            },
        },
    })
}

async fn pods(cluster: &Cluster) -> Result<BTreeMap<String, Pod>> {
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let list = api.list(&ListParams::default().labels("zookeeper=zk")).await?;
    Ok(list.items.into_iter().map(|pod| (pod.name_any(), pod)).collect())
}

/// So many pods, of which as many are Ready as there are nodes.
async fn running(cluster: &Cluster, count: usize) -> Result<BTreeMap<String, Pod>> {
    eventually("its pods", SOON, async || {
        let pods = pods(cluster).await?;
        let ready = pods.values().filter(|pod| is_ready(pod)).count();
        Ok((pods.len() == count && ready == count.min(4)).then_some(pods))
    })
    .await
}

fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// What the pods' names and places say of the members.
fn members(pods: &BTreeMap<String, Pod>) -> Result<Vec<(u32, String)>> {
    let member = |(name, pod): (&String, &Pod)| {
        let ordinal: u32 = name.rsplit_once('-').context("no ordinal")?.1.parse()?;
        Ok((ordinal + 1, node(pod).context("no node")?.to_owned()))
    };
    pods.iter().map(member).collect()
}

#[tokio::test]
async fn pods_of_the_go_tf_operator_are_taken_over_where_they_are_once_each_has_a_node() -> Result<()> {
    let mut cluster = cluster("in-adoption", &[]).await?;
    cluster.nodes(4, 0).await?;
    let spec = json!({"commonConfiguration": {"nodeSelector": cluster.control_plane()}});
    let resource = resources::apply(&cluster.client, ZOOKEEPER, &cluster.namespace, "zk", spec).await?;
    let uid = resource.uid().context("no uid")?;
    cluster.apply_object(&former(&cluster, &uid, 5)).await?;
    running(&cluster, 5).await?;

    cluster.add(&["zookeeper-op"], &Install::default(), &Run::default()).await?;
    let message = told(&cluster, ZOOKEEPER, "zk", ("Ready", "False", "ReplicasUnavailable")).await?;
    ensure!(message.contains("cannot take over its pods: pod") && message.contains("has no node yet"), "{message}");
    let workloads: Api<StatefulSet> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    ensure!(workloads.get(WORKLOAD).await?.spec.context("no spec")?.replicas == Some(5), "it was touched");

    cluster.apply_object(&former(&cluster, &uid, 3)).await?;
    let before = running(&cluster, 3).await?;
    let wanted = members(&before)?;
    eventually("every pod to be ours", 4 * SOON, async || {
        let now = pods(&cluster).await?;
        let away = 3 - now.values().filter(|pod| is_ready(pod)).count();
        ensure!(away <= 1, "{away} pods are away at once");
        let replaced = |(name, pod): (&String, &Pod)| before.get(name).is_some_and(|former| former.uid() != pod.uid());
        Ok((now.len() == 3 && away == 0 && now.iter().all(replaced)).then_some(()))
    })
    .await?;
    let resource = cluster.ready(ZOOKEEPER, "zk").await?;
    let recorded: Vec<MemberStatus> = serde_json::from_value(resource.object.data["status"]["members"].clone())?;
    let recorded: Vec<_> = recorded.into_iter().map(|member| (member.id, member.node)).collect();
    ensure!(recorded == wanted && members(&pods(&cluster).await?)? == wanted, "{recorded:?}, not {wanted:?}");
    let containers =
        workloads.get(WORKLOAD).await?.spec.and_then(|spec| spec.template.spec).context("no spec")?.containers;
    ensure!(containers.iter().all(|it| it.name != "sidecar"), "{containers:?}");
    Ok(())
}
