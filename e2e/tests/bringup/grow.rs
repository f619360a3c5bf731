//! A running cluster gets a fourth node for its control plane, its Manager loses and gains a component, and one of its
//! components is restarted on demand.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tf_api::{kinds, names::ANNOTATION_RESTART};
use tf_plan::object;
use tf_testing::{
    Cluster,
    resources::{self, Resource},
    wait::eventually,
};

use crate::support::{EXAMPLE, FLEET, MEMBERS, emptied_of, explain, settled, uids};

type Uids = BTreeMap<String, String>;

async fn pods(cluster: &Cluster) -> Result<Uids> {
    uids(&cluster.client, object::POD, &cluster.namespace).await
}

/// Fails unless every pod of `before` is still there, and the same.
fn none_replaced(before: &Uids, after: &Uids) -> Result<()> {
    let lost: Vec<&String> =
        before.iter().filter(|(name, uid)| after.get(*name) != Some(*uid)).map(|(name, _)| name).collect();
    ensure!(lost.is_empty(), "these pods are gone or others by now: {lost:?}");
    Ok(())
}

/// Whether a condition of a resource says this.
fn says(resource: &Resource, text: &str) -> bool {
    resource.status.conditions.iter().any(|condition| condition.message.contains(text))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fourth_control_node_replaces_no_pod_and_components_come_and_go_alone() -> Result<()> {
    let lab = FLEET.get().await?;
    let cluster = Cluster::start(&lab, "grow").await?;
    cluster.nodes(3, 1).await?;
    let manager = cluster.example_manager()?;
    cluster.apply_object(&manager).await?;
    cluster.manager_ready("sdn").await?;
    settled(&cluster, Duration::from_secs(1)).await?;

    let before = pods(&cluster).await?;
    ensure!(before.len() == MEMBERS * 3 + 4, "{MEMBERS} services on three nodes and four agents: {:?}", before.keys());
    cluster.nodes(1, 0).await?;
    // What has no data to place takes the node; stores say why they do not.
    let four = |resource: &Resource| resource.is_ready_on(4);
    for (kind, name) in [
        (kinds::ANALYTICS, "analytics1"),
        (kinds::ANALYTICS_ALARM, "analyticsalarm1"),
        (kinds::ANALYTICS_SNMP, "analyticssnmp1"),
        (kinds::QUERY_ENGINE, "queryengine1"),
        (kinds::CONFIG, "config1"),
        (kinds::CONTROL, "control1"),
        (kinds::KUBEMANAGER, "kubemanager1"),
        (kinds::REDIS, "redis1"),
        (kinds::WEBUI, "webui1"),
    ] {
        cluster.until(kind, name, "four members", four).await?;
    }
    let five = |resource: &Resource| resource.is_ready_on(5);
    cluster.until(kinds::VROUTER, "vrouter1", "five members", five).await?;
    for (kind, name) in
        [(kinds::CASSANDRA, "configdb1"), (kinds::ZOOKEEPER, "zookeeper1"), (kinds::RABBITMQ, "rabbitmq1")]
    {
        let unused = |resource: &Resource| says(resource, "4 nodes match, 3 are used");
        let store = cluster.until(kind, name, "saying why the fourth node is not used", unused).await?;
        ensure!(store.is_ready_on(3), "{}", store.explain("Ready"));
    }
    settled(&cluster, Duration::from_secs(2)).await?;
    let grown = pods(&cluster).await?;
    none_replaced(&before, &grown)?;
    ensure!(
        grown.len() == before.len() + 10,
        "one more of Config, of the four kinds of analytics, of Control, of Kubemanager, of Redis and of Webui, and one agent: {:?}",
        grown.keys()
    );
    cluster.manager_ready("sdn").await?;

    without_analyticsdb(&cluster, &manager, &grown).await?;
    cluster.apply_object(&manager).await?;
    cluster.ready(kinds::CASSANDRA, "analyticsdb1").await?;
    cluster.manager_ready("sdn").await?;
    settled(&cluster, Duration::from_secs(1)).await?;
    let back = pods(&cluster).await?;
    let others = grown.into_iter().filter(|(name, _)| !name.starts_with("analyticsdb1")).collect();
    none_replaced(&others, &back)?;
    restarted_on_demand(&cluster, &back).await
}

/// A wish in an annotation replaces the pods of one resource, one after the other, and no others.
async fn restarted_on_demand(cluster: &Cluster, before: &Uids) -> Result<()> {
    let wish = json!({"metadata": {"annotations": {ANNOTATION_RESTART: "2026-11-22"}}});
    let zookeepers = resources::api(&cluster.client, kinds::ZOOKEEPER, &cluster.namespace);
    zookeepers.patch("zookeeper1", &PatchParams::default(), &Patch::Merge(&wish)).await?;
    let (own, others): (Uids, Uids) =
        before.clone().into_iter().partition(|(name, _)| name.starts_with("zookeeper1-zookeeper-"));
    ensure!(own.len() == 3, "{:?}", before.keys());
    let ready = async || {
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let list = pods.list(&ListParams::default().labels("tf_manager=zookeeper")).await?;
        anyhow::Ok(list.iter().filter(|pod| resources::is_pod_ready(pod)).count())
    };
    eventually("three other pods of ZooKeeper", Duration::from_mins(1), async || {
        let ready = ready().await?;
        ensure!(ready >= 2, "{ready} pods of three are ready");
        let now = pods(cluster).await?;
        Ok(own.iter().all(|(name, uid)| now.get(name).is_some_and(|now| now != uid)).then_some(()))
    })
    .await?;
    cluster.ready(kinds::ZOOKEEPER, "zookeeper1").await?;
    cluster.manager_ready("sdn").await?;
    none_replaced(&others, &pods(cluster).await?)
}

/// A component that the Manager lists no more is gone with all it had, and nothing else is.
async fn without_analyticsdb(cluster: &Cluster, manager: &Value, before: &Uids) -> Result<()> {
    let mut less = manager.clone();
    if let Some(databases) = less["spec"]["services"]["cassandras"].as_array_mut() {
        databases.pop();
    }
    cluster.apply_object(&less).await?;
    emptied_of(cluster, "analyticsdb1", Duration::from_mins(1)).await?;
    cluster.manager_ready("sdn").await?;
    settled(cluster, Duration::from_secs(1)).await?;
    let all = resources::all(&cluster.client, &cluster.namespace).await?;
    ensure!(all.len() == EXAMPLE - 1 && all.iter().all(Resource::is_ready), "{}", explain(&all));
    let others = before.iter().filter(|(name, _)| !name.starts_with("analyticsdb1"));
    none_replaced(&others.map(|(name, uid)| (name.clone(), uid.clone())).collect(), &pods(cluster).await?)
}
