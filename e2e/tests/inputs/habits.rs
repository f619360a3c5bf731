//! What people do with kubectl to what an operator made: done one member at a time, or set back, and never lost (`docs/habits.md`).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Namespace, NamespaceCondition, Pod},
    events::v1::Event,
};
use kube::{
    ResourceExt as _,
    api::{Api, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tf_api::kinds::{MANAGER, REDIS, VROUTER, ZOOKEEPER};
use tf_cli::release::release;
use tf_testing::{
    Cluster,
    resources::{self, Resource},
    sample::has_turn,
    wait::eventually,
};
use tokio::task::JoinHandle;

use crate::{
    quiet::{nothing_is_written, settled},
    support::{SOON, cluster, kubectl, member, run},
};

/// Uids of the pods of members, and whether each is Ready, by their names.
async fn pods(cluster: &Cluster) -> Result<Pods> {
    let pods = Api::<Pod>::namespaced(cluster.client.clone(), &cluster.namespace).list(&ListParams::default()).await?;
    let seen = pods.into_iter().map(|pod| {
        let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
        let is_ready = conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
        Ok((pod.metadata.name.context("no name")?, (pod.metadata.uid.context("no uid")?, is_ready)))
    });
    seen.collect()
}

type Pods = BTreeMap<String, (String, bool)>;

/// Waits until so many pods are others than before, looking all the time that no two members are away.
async fn replaced(cluster: &Cluster, before: &Pods, count: usize) -> Result<Pods> {
    let all = async {
        loop {
            let now = pods(cluster).await?;
            let well = now.values().filter(|(_, is_ready)| *is_ready).count();
            ensure!(well + 1 >= before.len(), "two members are away: {now:?}");
            let is_new = |name: &String, uid: &String| before.get(name).is_some_and(|(old, _)| old != uid);
            let new = now.iter().filter(|(name, (uid, _))| is_new(name, uid)).count();
            if now.len() == before.len() && well == now.len() && new == count {
                return Ok(now);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(3), all).await.context("members were not replaced")?
}

/// Waits until there is another pod in the place of each, and Ready.
async fn all_are_others(cluster: &Cluster, before: &Pods) -> Result<()> {
    let are_new = async || {
        let now = pods(cluster).await?;
        let is_new = |(name, (uid, is_ready)): (&String, &(String, bool))| {
            *is_ready && before.get(name).is_some_and(|(old, _)| old != uid)
        };
        Ok((now.len() == before.len() && now.iter().all(is_new)).then_some(()))
    };
    eventually("all pods to be others", SOON, are_new).await
}

const SET: &str = "zookeeper1-zookeeper-statefulset";

/// Three members of ZooKeeper.
async fn three(namespace: &str) -> Result<(Cluster, Vec<String>)> {
    let cluster = cluster(namespace, &["zookeeper-op"]).await?;
    let nodes = cluster.nodes(3, 0).await?;
    member(&cluster, ZOOKEEPER, "zookeeper1", json!({})).await?;
    cluster.ready(ZOOKEEPER, "zookeeper1").await?;
    Ok((cluster, nodes))
}

/// Members, with identities and nodes.
async fn members(cluster: &Cluster) -> Result<Value> {
    Ok(cluster.get(ZOOKEEPER, "zookeeper1").await?.object.data["status"]["members"].clone())
}

/// Images, and replicas, of the StatefulSet.
async fn set(cluster: &Cluster) -> Result<(Vec<Option<String>>, Option<i32>)> {
    let set = Api::<StatefulSet>::namespaced(cluster.client.clone(), &cluster.namespace).get(SET).await?;
    let spec = set.spec.context("no spec")?;
    let containers = spec.template.spec.context("no pods")?.containers;
    Ok((containers.into_iter().map(|container| container.image).collect(), spec.replicas))
}

#[tokio::test]
async fn another_image_revision_or_size_of_a_statefulset_is_set_back() -> Result<()> {
    let (cluster, _) = three("in-set-back").await?;
    let (before, wished) = (pods(&cluster).await?, set(&cluster).await?);
    let is_back = async || Ok((set(&cluster).await? == wished).then_some(()));

    run(&cluster, &["label", &format!("statefulset/{SET}"), "team=net"])?;
    run(&cluster, &["annotate", &format!("statefulset/{SET}"), "example.org/ticket=17"])?;
    run(&cluster, &["set", "image", &format!("statefulset/{SET}"), "zookeeper=example.org/other:1"])?;
    eventually("the image to be set back", SOON, is_back).await?;
    run(&cluster, &["rollout", "undo", &format!("statefulset/{SET}")])?;
    eventually("the revision to be set back", SOON, is_back).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let uids = |pods: &Pods| pods.iter().map(|(name, (uid, _))| (name.clone(), uid.clone())).collect::<Vec<_>>();
    ensure!(uids(&pods(&cluster).await?) == uids(&before), "a pod was replaced");
    let live = Api::<StatefulSet>::namespaced(cluster.client.clone(), &cluster.namespace).get(SET).await?;
    ensure!(live.labels().get("team").is_some_and(|team| team == "net"), "a label was removed");
    ensure!(live.annotations().contains_key("example.org/ticket"), "an annotation was removed");

    // Its controller stops pods of too large numbers at once.
    let known = members(&cluster).await?;
    run(&cluster, &["scale", &format!("statefulset/{SET}"), "--replicas=1"])?;
    eventually("the size to be set back", SOON, is_back).await?;
    let has_all =
        async || Ok((pods(&cluster).await?.values().filter(|(_, is_ready)| *is_ready).count() == 3).then_some(()));
    eventually("all members", SOON, has_all).await?;
    ensure!(members(&cluster).await? == known, "members changed");
    Ok(())
}

#[tokio::test]
async fn members_whose_pods_are_deleted_all_at_once_come_back_as_they_were() -> Result<()> {
    let (cluster, _) = three("in-delete-all").await?;
    let (before, known) = (pods(&cluster).await?, members(&cluster).await?);
    run(&cluster, &["delete", "pods", "--all", "--wait=false"])?;
    all_are_others(&cluster, &before).await?;
    cluster.ready(ZOOKEEPER, "zookeeper1").await?;
    ensure!(members(&cluster).await? == known, "members changed");

    // The garbage collector deletes the pods with it.
    let before = pods(&cluster).await?;
    run(&cluster, &["delete", "statefulset", SET])?;
    all_are_others(&cluster, &before).await?;
    ensure!(members(&cluster).await? == known, "members changed");
    let events =
        Api::<Event>::namespaced(cluster.client.clone(), &cluster.namespace).list(&ListParams::default()).await?;
    let notes: Vec<_> = events.iter().filter(|event| event.reason.as_deref() == Some("WorkloadRecreated")).collect();
    let said = format!("StatefulSet {}/{SET} had been deleted and is created again", cluster.namespace);
    let is_said = |event: &&Event| event.note.as_ref().is_some_and(|note| note.contains(&said));
    ensure!(notes.len() == 1 && notes.iter().all(is_said), "{notes:?}");
    Ok(())
}

#[tokio::test]
async fn two_nodes_that_are_drained_at_once_lose_one_member_at_a_time_which_comes_back() -> Result<()> {
    let (cluster, nodes) = three("in-drain").await?;
    let before = pods(&cluster).await?;
    let drain = ["drain", &nodes[0], &nodes[1], "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s"];
    let mut command = tokio::process::Command::from(kubectl(&cluster)?);
    let child = command.args(drain).output();
    let (output, after) = futures::future::join(child, replaced(&cluster, &before, 2)).await;
    let output = output?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    after?;
    Ok(())
}

/// A tool that restores a backup creates the objects and so holds all of their fields.
#[tokio::test]
async fn a_component_whose_fields_a_restore_holds_follows_its_manager_and_comes_back_when_it_is_deleted() -> Result<()>
{
    let cluster = cluster("in-restored", &["manager-op", "zookeeper-op"]).await?;
    cluster.nodes(1, 0).await?;
    let manage = async |level: &str, timeout: u32| {
        let common = json!({"logLevel": level, "nodeSelector": cluster.control_plane()});
        let spec = json!({"serviceConfiguration": {"maxSessionTimeout": timeout}});
        let zookeeper = json!({"metadata": {"name": "zookeeper1"}, "spec": spec});
        let spec = json!({"commonConfiguration": common, "services": {"zookeeper": zookeeper}});
        resources::apply(&cluster.client, MANAGER, &cluster.namespace, "sdn", spec).await
    };
    let has = async |pointer: &str, value: Value| {
        let has = |it: &Resource| it.object.data.pointer(pointer) == Some(&value);
        cluster.until(ZOOKEEPER, "zookeeper1", &format!("with {pointer} {value}"), has).await
    };
    let labels = json!({"app.kubernetes.io/managed-by": "manager-op"});
    let restored = json!({
        "apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Zookeeper",
        "metadata": {"name": "zookeeper1", "labels": labels},
        "spec": {"commonConfiguration": {"logLevel": "info", "nodeSelector": cluster.control_plane()}},
    });
    let parameters = PostParams { field_manager: Some("velero".into()), ..PostParams::default() };
    let api = resources::api(&cluster.client, ZOOKEEPER, &cluster.namespace);
    api.create(&parameters, &serde_json::from_value(restored)?).await?;
    // Times of field managers are in seconds.
    tokio::time::sleep(Duration::from_secs(2)).await;
    manage("info", 40000).await?;
    cluster.manager_ready("sdn").await?;
    has("/spec/serviceConfiguration/maxSessionTimeout", json!(40000)).await?;

    manage("error", 40000).await?;
    has("/spec/commonConfiguration/logLevel", json!("error")).await?;
    let manager = cluster.manager_ready("sdn").await?;
    ensure!(manager.is("ConfigReady", "True"), "{}", manager.explain("ConfigReady"));

    let before = cluster.get(ZOOKEEPER, "zookeeper1").await?.object.metadata.uid;
    run(&cluster, &["delete", "zookeeper/zookeeper1"])?;
    let is_other = |it: &Resource| it.object.metadata.uid != before && it.is_ready();
    cluster.until(ZOOKEEPER, "zookeeper1", "made again", is_other).await?;
    let said = format!("Zookeeper {}/zookeeper1 had been deleted and is created again", cluster.namespace);
    eventually("the Manager's event", SOON, async || {
        let events: Api<Event> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let events = events.list(&ListParams::default()).await?;
        let is_it = |event: &Event| event.reason.as_deref() == Some("ComponentRecreated");
        let notes: Vec<_> =
            events.iter().filter(|event| is_it(event)).filter_map(|event| event.note.as_ref()).collect();
        ensure!(notes.iter().all(|note| note.contains(&said)), "{notes:?}");
        Ok((notes.len() == 1).then_some(()))
    })
    .await
}

#[tokio::test]
async fn a_namespace_that_is_deleted_with_everything_in_it_is_gone() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let cluster = cluster("in-gone", &["manager-op", "zookeeper-op", "vrouter-op"]).await?;
    cluster.nodes(1, 1).await?;
    cluster.example().await?;
    cluster.ready(ZOOKEEPER, "zookeeper1").await?;
    cluster.until(VROUTER, "vrouter1", "looked at", |it| it.condition("Ready").is_some()).await?;
    run(&cluster, &["delete", "namespace", &cluster.namespace, "--wait=false"])?;
    // The operators lose their rights with it, at some moment of their work.
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let state = async || {
        let conditions =
            namespaces.get_opt(&cluster.namespace).await?.map(|it| it.status.unwrap_or_default().conditions);
        let remain = |conditions: Vec<NamespaceCondition>| {
            conditions.iter().any(|it| it.type_ == "NamespaceFinalizersRemaining" && it.status == "True")
        };
        anyhow::Ok(conditions.map(|conditions| remain(conditions.unwrap_or_default())))
    };
    let is_over = async || Ok(state().await?.is_none_or(|remain| remain).then_some(()));
    eventually("nothing but finalizers to be left", SOON, is_over).await?;
    if state().await?.is_some() {
        let released = release(&cluster.client, &cluster.namespace).await?;
        ensure!(released.iter().all(|line| line.starts_with("Vrouter in-gone/vrouter1: ")), "{released:?}");
    }
    eventually("the namespace to be gone", SOON, async || Ok(state().await?.is_none().then_some(()))).await
}

#[tokio::test]
async fn kubectl_rollout_restart_replaces_each_member_once_and_one_at_a_time() -> Result<()> {
    let (cluster, _) = three("in-restart").await?;
    let before = pods(&cluster).await?;

    run(&cluster, &["rollout", "restart", &format!("statefulset/{SET}")])?;
    let after = replaced(&cluster, &before, 3).await?;
    let is_settled = |it: &Resource| it.is_ready() && !it.is("Progressing", "True");
    cluster.until(ZOOKEEPER, "zookeeper1", "Ready again", is_settled).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    ensure!(pods(&cluster).await? == after, "a second round");
    Ok(())
}

/// A tool that applies a Manager all the time, and takes the fields of others. It ends with this.
struct GitOps(JoinHandle<()>);

impl Drop for GitOps {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl GitOps {
    /// Begins with three servers of Redis, and has applied them once.
    async fn begin(cluster: &Cluster) -> Result<Self> {
        let redis = json!({"metadata": {"name": "redis1"}, "spec": {"commonConfiguration": {"replicas": 3}}});
        let manager = json!({
            "apiVersion": "tf.tungsten.io/v1alpha1",
            "kind": "Manager",
            "metadata": {"name": "sdn", "annotations": {"argocd.argoproj.io/tracking-id": "tf:tf.tungsten.io/Manager:tf/sdn"}},
            "spec": {"commonConfiguration": {"nodeSelector": cluster.control_plane()}, "services": {"redis": [redis]}},
        });
        let api = resources::api(&cluster.client, MANAGER, &cluster.namespace);
        let force = PatchParams::apply("argocd-controller").force();
        api.patch("sdn", &force, &Patch::Apply(&manager)).await?;
        Ok(Self(tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                // What the next one tries again is no loss.
                let _ = api.patch("sdn", &force, &Patch::Apply(&manager)).await;
            }
        })))
    }
}

/// Fails if an operator writes within this time, once none has for two seconds.
async fn operators_are_silent(cluster: &Cluster, time: Duration) -> Result<()> {
    let begin = settled(cluster, Duration::from_secs(2)).await?;
    tokio::time::sleep(time).await;
    nothing_is_written(cluster, begin, &cluster.users()).await
}

#[tokio::test]
async fn while_gitops_applies_the_manager_a_size_set_by_hand_stays_and_is_named_and_a_deleted_component_comes_back()
-> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let cluster = cluster("in-gitops", &["manager-op", "redis-op"]).await?;
    cluster.nodes(3, 0).await?;
    let _git = GitOps::begin(&cluster).await?;
    cluster.manager_ready("sdn").await?;
    operators_are_silent(&cluster, Duration::from_secs(5)).await?;

    run(&cluster, &["scale", "redis/redis1", "--replicas=2"])?;
    let is_named = |manager: &Resource| manager.explain("ConfigReady").starts_with("ConfigReady=False FieldConflict: ");
    let manager = cluster.until(MANAGER, "sdn", "naming the field that is held", is_named).await?;
    let message = manager.explain("ConfigReady");
    let parts = ["redis1", ".spec.commonConfiguration.replicas", "kubectl"];
    ensure!(parts.iter().all(|part| message.contains(part)) && !manager.is_ready(), "{message}");
    cluster.until(REDIS, "redis1", "with two members", |redis| redis.is_ready_with(2)).await?;
    operators_are_silent(&cluster, Duration::from_secs(8)).await?;
    let redis = cluster.get(REDIS, "redis1").await?;
    ensure!(redis.is_ready_with(2), "its size changes in turn: {}", redis.explain("Ready"));

    run(&cluster, &["scale", "redis/redis1", "--replicas=3"])?;
    let three = cluster.until(REDIS, "redis1", "with three members again", |redis| redis.is_ready_with(3)).await?;
    let manager = cluster.manager_ready("sdn").await?;
    ensure!(manager.is("ConfigReady", "True"), "{}", manager.explain("ConfigReady"));

    // The tool prunes what it does not find in its repository.
    run(&cluster, &["delete", "redis/redis1", "--wait=false"])?;
    let uid = three.object.metadata.uid.clone();
    let is_back = |redis: &Resource| redis.object.metadata.uid != uid && redis.is_ready_with(3);
    let back = cluster.until(REDIS, "redis1", "back", is_back).await?;
    let nodes = |redis: &Resource| {
        let members = redis.object.data["status"]["members"].as_array().cloned().unwrap_or_default();
        members.iter().map(|member| member["node"].to_string()).collect::<BTreeSet<_>>()
    };
    ensure!(nodes(&back) == nodes(&three), "{:?}, not {:?}", nodes(&back), nodes(&three));
    cluster.manager_ready("sdn").await?;
    operators_are_silent(&cluster, Duration::from_secs(5)).await
}
