//! Stores that go to sleep and wake. Members are simulated here and have no agents; `real` has servers that run.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    ResourceExt as _,
    api::{Api, DeleteParams, ListParams},
};
use serde_json::{Value, json};
use tf_api::{
    KindInfo,
    contract::MemberStatus,
    kinds::{CASSANDRA, RABBITMQ, REDIS, ZOOKEEPER},
    names::ANNOTATION_HIBERNATE,
};
use tf_plan::object;
use tf_testing::{
    Cluster,
    resources::{self, Resource, conditions},
    sample::has_turn,
    wait::eventually,
};

use crate::support::{SOON, cluster, made, member, merge, told};

const STORES: [(KindInfo, &str, &str); 4] = [
    (CASSANDRA, "cassandra1", "cassandra-op"),
    (RABBITMQ, "rabbitmq1", "rabbitmq-op"),
    (REDIS, "redis1", "redis-op"),
    (ZOOKEEPER, "zookeeper1", "zookeeper-op"),
];

/// Longer than an operator needs for its next look.
const REST: Duration = Duration::from_secs(1);

async fn hibernate(cluster: &Cluster, kind: KindInfo, name: &str, value: Value) -> Result<()> {
    merge(cluster, kind, name, json!({"metadata": {"annotations": {ANNOTATION_HIBERNATE: value}}})).await?;
    Ok(())
}

/// Node of each pod, by name.
async fn pods(cluster: &Cluster, kind: KindInfo) -> Result<BTreeMap<String, Option<String>>> {
    let pods = resources::pods(&cluster.client, kind, &cluster.namespace).await?;
    Ok(pods.into_iter().map(|pod| (pod.name_any(), pod.spec.and_then(|spec| spec.node_name))).collect())
}

fn nodes(pods: &BTreeMap<String, Option<String>>) -> Vec<&Option<String>> {
    let mut nodes: Vec<_> = pods.values().collect();
    nodes.sort();
    nodes
}

fn members(resource: &Resource) -> Result<Vec<MemberStatus>> {
    Ok(serde_json::from_value(resource.object.data["status"]["members"].clone())?)
}

/// Uid and generation of everything in the namespace but pods and what tells of them, by kind and name. An object that is
/// changed by its owner has another generation, or, where kinds have none, other contents.
async fn kept(cluster: &Cluster) -> Result<BTreeMap<String, Value>> {
    let mut kept = BTreeMap::new();
    let kinds = [
        object::CONFIG_MAP,
        object::SECRET,
        object::SERVICE,
        object::SERVICE_ACCOUNT,
        object::POD_DISRUPTION_BUDGET,
        object::STATEFUL_SET,
    ];
    for kind in kinds {
        for found in resources::objects(&cluster.client, kind, &cluster.namespace).list(&ListParams::default()).await? {
            let mut content = found.data.clone();
            // Only the number of pods may differ, and what controllers tell.
            if let Some(content) = content.as_object_mut() {
                content.remove("status");
                content.get_mut("spec").and_then(Value::as_object_mut).and_then(|spec| spec.remove("replicas"));
            }
            kept.insert(format!("{} {}", kind.kind, found.name_any()), json!([found.metadata.uid, content]));
        }
    }
    Ok(kept)
}

/// The same once it does not change any more: what a brought-up store is told of that is written after it is Ready.
async fn kept_at_rest(cluster: &Cluster) -> Result<BTreeMap<String, Value>> {
    let mut last = kept(cluster).await?;
    eventually("objects to be at rest", SOON, async || {
        tokio::time::sleep(REST).await;
        let now = kept(cluster).await?;
        let rests = now == last;
        last = now;
        Ok(rests.then_some(()))
    })
    .await?;
    Ok(last)
}

/// Waits until no pod of a store is left and its status says that it sleeps.
async fn asleep(cluster: &Cluster, kind: KindInfo, name: &str) -> Result<Resource> {
    let sleeps = |resource: &Resource| {
        let ready = resource.condition("Ready");
        resource.is("Hibernated", "True")
            && resource.is("Progressing", "False")
            && ready.is_some_and(|ready| ready.status == "False" && ready.reason == "Hibernated")
    };
    let resource = cluster.until(kind, name, "asleep", sleeps).await?;
    ensure!(pods(cluster, kind).await?.is_empty(), "{name} says that it sleeps and has pods");
    ensure!(resource.is("Available", "False") && resource.is("Degraded", "False"), "{}", conditions(&resource));
    ensure!(resource.object.data["status"]["degraded"] == json!(false), "it is told as degraded");
    Ok(resource)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_store_sleeps_and_wakes_with_the_members_objects_and_nodes_that_it_had() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let operators = STORES.map(|(.., operator)| operator);
    let mut cluster = cluster("in-hibernation", &operators).await?;
    cluster.nodes(3, 0).await?;
    for (kind, name, _) in STORES {
        member(&cluster, kind, name, json!({})).await?;
    }
    let mut before = BTreeMap::new();
    for (kind, name, _) in STORES {
        let resource = cluster.ready(kind, name).await?;
        before.insert(name, (members(&resource)?, pods(&cluster, kind).await?));
    }
    let objects = kept_at_rest(&cluster).await?;

    for (kind, name, operator) in STORES {
        hibernate(&cluster, kind, name, json!("true")).await?;
        // In the middle of whatever it does by then.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let process = &mut cluster.operator_mut(operator)?.process;
        process.kill()?;
        process.restart()?;
    }
    for (kind, name, _) in STORES {
        ensure!(members(&asleep(&cluster, kind, name).await?)? == before[name].0, "{name} has other members");
    }
    differs_in_nothing(&objects, &kept(&cluster).await?)?;

    // Somebody else's number of pods does not count.
    let workloads: Api<StatefulSet> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let workload = "zookeeper1-zookeeper-statefulset";
    let scale = kube::api::Patch::Merge(json!({"spec": {"replicas": 3}}));
    workloads.patch(workload, &kube::api::PatchParams::default(), &scale).await?;
    eventually("the number of pods to be corrected", SOON, async || {
        let replicas = workloads.get(workload).await?.spec.and_then(|spec| spec.replicas);
        Ok((replicas == Some(0) && pods(&cluster, ZOOKEEPER).await?.is_empty()).then_some(()))
    })
    .await?;

    for (kind, name, _) in STORES {
        hibernate(&cluster, kind, name, Value::Null).await?;
    }
    for (kind, name, _) in STORES {
        let resource = cluster.ready(kind, name).await?;
        let (was, now) = (&before[name], pods(&cluster, kind).await?);
        ensure!(members(&resource)? == was.0, "{name} has other members");
        ensure!(now.keys().eq(was.1.keys()) && nodes(&now) == nodes(&was.1), "{name}: {now:?}, not {:?}", was.1);
        ensure!(resource.condition("Hibernated").is_none(), "{}", conditions(&resource));
    }
    differs_in_nothing(&objects, &kept_at_rest(&cluster).await?)
}

fn differs_in_nothing(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) -> Result<()> {
    let differ: Vec<_> = before.iter().filter(|(name, content)| after.get(*name) != Some(content)).collect();
    ensure!(
        differ.is_empty(),
        "these are gone or others: {:?}",
        differ.iter().map(|(name, _)| name).collect::<Vec<_>>()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_to_a_store_that_sleeps_is_told_and_done_when_it_wakes_and_it_can_be_deleted() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let cluster = cluster("in-night", &["redis-op", "zookeeper-op"]).await?;
    let nodes = cluster.nodes(4, 0).await?;
    for (kind, name) in [(REDIS, "redis1"), (ZOOKEEPER, "zookeeper1")] {
        member(&cluster, kind, name, json!({"commonConfiguration": {"replicas": 3}})).await?;
        cluster.ready(kind, name).await?;
        hibernate(&cluster, kind, name, json!("true")).await?;
        asleep(&cluster, kind, name).await?;
    }
    let was = members(&cluster.get(REDIS, "redis1").await?)?;
    let lost = &was.first().context("no members")?.node;
    ensure!(nodes.contains(lost), "{lost}");
    cluster.lab.nodes().await?.delete(lost).await?;
    merge(&cluster, REDIS, "redis1", json!({"spec": {"commonConfiguration": {"replicas": 2}}})).await?;
    let tells = |resource: &Resource| {
        let ready = resource.explain("Ready");
        ready.contains("2 members are asked for and there are 3") && ready.contains(lost.as_str())
    };
    let told_of = cluster.until(REDIS, "redis1", "telling what happened", tells).await?;
    ensure!(members(&told_of)? == was && told_of.is("Hibernated", "True"), "{}", conditions(&told_of));
    hibernate(&cluster, REDIS, "redis1", Value::Null).await?;
    let two = |resource: &Resource| resource.is_ready_with(2);
    let awake = cluster.until(REDIS, "redis1", "awake with two members", two).await?;
    ensure!(members(&awake)? == was[1..], "{:?}, of {was:?}", members(&awake)?);

    let zookeepers = resources::api(&cluster.client, ZOOKEEPER, &cluster.namespace);
    zookeepers.delete("zookeeper1", &DeleteParams::default()).await?;
    eventually("nothing of it to be left", SOON, async || {
        let gone = zookeepers.get_opt("zookeeper1").await?.is_none();
        let left =
            made::<StatefulSet>(&cluster, "zookeeper1").await?.len() + made::<Pod>(&cluster, "zookeeper1").await?.len();
        Ok((gone && left == 0).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn how_members_of_rabbitmq_speak_is_kept_while_they_run_and_changes_while_it_sleeps() -> Result<()> {
    let cluster = cluster("in-speech", &["rabbitmq-op"]).await?;
    cluster.nodes(1, 0).await?;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let is_tls = async || -> Result<bool> {
        let files = maps.get("rabbitmq1-rabbitmq-files").await?.data.unwrap_or_default();
        let environment = files.iter().find(|(file, _)| file.starts_with("rabbitmq-env.conf"));
        let is_tls = environment.context("no environment")?.1.contains("-proto_dist inet_tls");
        ensure!(files.contains_key("inter_node_tls.config") == is_tls, "{:?}", files.keys());
        Ok(is_tls)
    };
    member(&cluster, RABBITMQ, "rabbitmq1", json!({})).await?;
    cluster.ready(RABBITMQ, "rabbitmq1").await?;
    ensure!(is_tls().await?, "it is founded without TLS");
    let wish = json!({"spec": {"serviceConfiguration": {"tls": {"distribution": false}}}});
    merge(&cluster, RABBITMQ, "rabbitmq1", wish).await?;
    let message = told(&cluster, RABBITMQ, "rabbitmq1", ("Ready", "False", "InvalidSpec")).await?;
    ensure!(message.contains("tls.distribution") && message.contains(ANNOTATION_HIBERNATE), "{message}");
    ensure!(is_tls().await?, "it changed while it ran");
    hibernate(&cluster, RABBITMQ, "rabbitmq1", json!("true")).await?;
    asleep(&cluster, RABBITMQ, "rabbitmq1").await?;
    ensure!(!is_tls().await?, "it did not change while it slept");
    hibernate(&cluster, RABBITMQ, "rabbitmq1", Value::Null).await?;
    cluster.ready(RABBITMQ, "rabbitmq1").await?;
    ensure!(!is_tls().await?, "it woke as what it was");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_would_not_find_its_data_again_is_not_put_to_sleep() -> Result<()> {
    let cluster = cluster("in-sleepless", &["zookeeper-op"]).await?;
    cluster.nodes(1, 0).await?;
    member(&cluster, ZOOKEEPER, "zookeeper1", json!({"commonConfiguration": {"storage": {"emptyDir": {}}}})).await?;
    cluster.ready(ZOOKEEPER, "zookeeper1").await?;
    hibernate(&cluster, ZOOKEEPER, "zookeeper1", json!("true")).await?;
    let message = told(&cluster, ZOOKEEPER, "zookeeper1", ("Ready", "False", "InvalidSpec")).await?;
    ensure!(message.contains("not put to sleep") && message.contains(ANNOTATION_HIBERNATE), "{message}");
    ensure!(pods(&cluster, ZOOKEEPER).await?.len() == 1, "its pod is gone");
    hibernate(&cluster, ZOOKEEPER, "zookeeper1", Value::Null).await?;
    cluster.ready(ZOOKEEPER, "zookeeper1").await.map(drop)
}
