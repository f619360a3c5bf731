//! Volume claims that get another size, or have a class that does not exist. The volumes are of no driver: the test says what one would.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::{
    ResourceExt as _,
    api::{Api, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tf_api::kinds::ZOOKEEPER;
use tf_testing::{Cluster, resources::Resource, wait::eventually};

use crate::support::{SOON, cluster, member, merge, run, told};

const NAME: &str = "zookeeper1";
const SET: &str = "zookeeper1-zookeeper-statefulset";

/// So many volumes of 4Gi of a class of this name, which can grow or not.
async fn volumes(cluster: &Cluster, class: &str, can_grow: bool, count: usize) -> Result<()> {
    let class_object = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": class},
        "provisioner": "kubernetes.io/no-provisioner", "allowVolumeExpansion": can_grow,
    });
    cluster.apply_object(&class_object).await?;
    for ordinal in 0..count {
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("{class}-{ordinal}")},
            "spec": {
                "storageClassName": class, "capacity": {"storage": "4Gi"}, "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": format!("/var/lib/{class}-{ordinal}")},
            },
        });
        cluster.apply_object(&volume).await?;
    }
    Ok(())
}

fn storage(class: &str, size: &str) -> Value {
    json!({"persistentVolumeClaim": {"size": size, "class": class}})
}

/// An ensemble of so many members with claims of 4Gi. Returns their class.
async fn founded(cluster: &Cluster, members: usize, can_grow: bool) -> Result<String> {
    cluster.nodes(u32::try_from(members)?, 0).await?;
    let class = format!("of-{}", cluster.namespace);
    volumes(cluster, &class, can_grow, members).await?;
    let spec = json!({"commonConfiguration": {"replicas": members, "storage": storage(&class, "4Gi")}});
    member(cluster, ZOOKEEPER, NAME, spec).await?;
    cluster.ready(ZOOKEEPER, NAME).await?;
    Ok(class)
}

async fn resize(cluster: &Cluster, class: &str, size: &str, members: u32) -> Result<()> {
    let common = json!({"storage": storage(class, size), "replicas": members});
    merge(cluster, ZOOKEEPER, NAME, json!({"spec": {"commonConfiguration": common}})).await?;
    Ok(())
}

fn claims(cluster: &Cluster) -> Api<PersistentVolumeClaim> {
    Api::namespaced(cluster.client.clone(), &cluster.namespace)
}

/// What each claim asks for, by name.
async fn sizes(cluster: &Cluster) -> Result<BTreeMap<String, String>> {
    let all = claims(cluster).list(&ListParams::default()).await?;
    let size = |claim: &PersistentVolumeClaim| {
        let requests = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
        Some((claim.name_any(), requests.get("storage")?.0.clone()))
    };
    Ok(all.iter().filter_map(size).collect())
}

async fn ask_for(cluster: &Cluster, wanted: &[&str]) -> Result<()> {
    eventually("the claims to ask for as much", SOON, async || {
        let sizes = sizes(cluster).await?;
        Ok(sizes.values().map(String::as_str).eq(wanted.iter().copied()).then_some(()))
    })
    .await
}

/// Says of every volume that it has so much, as its driver would.
async fn has(cluster: &Cluster, capacity: &str, waits: &[&str]) -> Result<()> {
    let conditions: Vec<Value> = waits
        .iter()
        .map(|kind| json!({"type": kind, "status": "True", "message": "Waiting for user to (re-)start a pod"}))
        .collect();
    let status = json!({"status": {"capacity": {"storage": capacity}, "conditions": conditions}});
    for name in sizes(cluster).await?.into_keys() {
        claims(cluster).patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await?;
    }
    Ok(())
}

/// Uids of the StatefulSet and of its pods.
async fn uids(cluster: &Cluster) -> Result<Vec<String>> {
    let sets: Api<StatefulSet> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let mut uids: Vec<String> = sets.list(&ListParams::default()).await?.iter().filter_map(StatefulSet::uid).collect();
    uids.extend(pods.list(&ListParams::default()).await?.iter().filter_map(Pod::uid));
    Ok(uids)
}

async fn says(cluster: &Cluster, what: &str) -> Result<()> {
    eventually(&format!("WorkloadReady to say {what:?}"), SOON, async || {
        let resource = cluster.get(ZOOKEEPER, NAME).await?;
        let message = resource.condition("WorkloadReady").map(|condition| condition.message.clone());
        Ok(message.filter(|message| message.contains(what)))
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn claims_grow_while_the_pods_run_and_never_shrink() -> Result<()> {
    let cluster = cluster("in-volumes-grow", &["zookeeper-op"]).await?;
    let class = founded(&cluster, 3, true).await?;
    let before = uids(&cluster).await?;
    ensure!(before.len() == 4, "a StatefulSet and three pods: {before:?}");

    resize(&cluster, &class, "6Gi", 3).await?;
    ask_for(&cluster, &["6Gi"; 3]).await?;
    says(&cluster, "volumes grow to 6Gi: data-zookeeper1-zookeeper-statefulset-0 has 4Gi").await?;
    has(&cluster, "4Gi", &["FileSystemResizePending"]).await?;
    says(&cluster, "has 4Gi (FileSystemResizePending: Waiting for user to (re-)start a pod)").await?;
    has(&cluster, "6Gi", &[]).await?;
    says(&cluster, "3 of 3 members are ready").await?;
    eventually("nothing more to be said of volumes", SOON, async || {
        let resource = cluster.get(ZOOKEEPER, NAME).await?;
        let workload = resource.condition("WorkloadReady").context("told")?;
        Ok((workload.status == "True" && !workload.message.contains("volume")).then_some(()))
    })
    .await?;

    resize(&cluster, &class, "5Gi", 3).await?;
    let ignored = told(&cluster, ZOOKEEPER, NAME, ("FieldsIgnored", "True", "NoEffect")).await?;
    ensure!(ignored.contains("cannot shrink to 5Gi: data-zookeeper1-zookeeper-statefulset-0 has 6Gi"), "{ignored}");
    ask_for(&cluster, &["6Gi"; 3]).await?;
    ensure!(uids(&cluster).await? == before, "nobody was made anew");
    Ok(())
}

#[tokio::test]
async fn a_class_that_cannot_grow_is_told_and_holds_nothing_else() -> Result<()> {
    let cluster = cluster("in-volumes-stay", &["zookeeper-op"]).await?;
    let class = founded(&cluster, 1, false).await?;

    resize(&cluster, &class, "6Gi", 1).await?;
    let refused = told(&cluster, ZOOKEEPER, NAME, ("ConfigReady", "False", "Forbidden")).await?;
    ensure!(refused.contains("storageclass that provisions the pvc must support resize"), "{refused}");
    let files = json!({"spec": {"serviceConfiguration": {"clientPort": 2191}}});
    merge(&cluster, ZOOKEEPER, NAME, files).await?;
    eventually("another setting to be applied all the same", SOON, async || {
        let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
            Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let maps = maps.list(&ListParams::default()).await?;
        let texts = maps.iter().flat_map(|map| map.data.iter().flatten());
        Ok(texts.into_iter().any(|(_, text)| text.contains("2191")).then_some(()))
    })
    .await?;

    resize(&cluster, &class, "4Gi", 1).await?;
    told(&cluster, ZOOKEEPER, NAME, ("ConfigReady", "True", "Succeeded")).await?;
    ask_for(&cluster, &["4Gi"]).await
}

/// Waits until the condition says this of a claim.
async fn unbound(cluster: &Cluster, words: &str) -> Result<()> {
    let says = |it: &Resource| it.explain("WorkloadReady").contains(words);
    cluster.until(ZOOKEEPER, NAME, &format!("saying {words:?}"), says).await?;
    Ok(())
}

#[tokio::test]
async fn a_class_that_does_not_exist_is_named_with_its_claim_until_it_is_corrected() -> Result<()> {
    let cluster = cluster("in-no-class", &["zookeeper-op"]).await?;
    cluster.nodes(1, 0).await?;
    let spec = |class: Value| json!({"commonConfiguration": {"replicas": 1, "storage": {"persistentVolumeClaim": {"size": "4Gi", "class": class}}}});
    member(&cluster, ZOOKEEPER, NAME, spec(json!("fast-lokal"))).await?;
    let claim = format!("data-{SET}-0");
    let why = "storageclass.storage.k8s.io \"fast-lokal\" not found";
    unbound(&cluster, &format!("claim {claim} of class fast-lokal is not bound to a volume: {why}")).await?;

    // As the message says.
    volumes(&cluster, "of-in-no-class", false, 1).await?;
    member(&cluster, ZOOKEEPER, NAME, spec(json!("of-in-no-class"))).await?;
    run(&cluster, &["delete", &format!("statefulset/{SET}"), &format!("pvc/{claim}")])?;
    cluster.ready(ZOOKEEPER, NAME).await?;
    Ok(())
}

#[tokio::test]
async fn a_claim_in_a_cluster_without_a_default_class_says_so() -> Result<()> {
    let cluster = cluster("in-no-default", &["zookeeper-op"]).await?;
    cluster.nodes(1, 0).await?;
    let storage = json!({"persistentVolumeClaim": {"size": "4Gi"}});
    member(&cluster, ZOOKEEPER, NAME, json!({"commonConfiguration": {"replicas": 1, "storage": storage}})).await?;
    let why = "no persistent volumes available for this claim and no storage class is set";
    unbound(&cluster, &format!("claim data-{SET}-0 of the default class is not bound to a volume: {why}")).await
}
