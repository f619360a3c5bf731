//! What the tests of this folder share: labs, the history of a namespace, and what operators asked the API server for.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use futures::StreamExt as _;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use tf_api::{KindInfo, kinds};
use tf_plan::object::{self, Kind};
use tf_testing::{
    Cluster, Options, SharedLab,
    manifests::documents,
    operators::repository,
    resources::{Resource, objects},
    wait::eventually,
};
use tokio::task::JoinSet;

pub use crate::quiet::{lines, settled, writes};

/// A lab for many clusters, each with nodes of its own.
pub static FLEET: SharedLab = SharedLab::new(|| Options::fleet(0, 0));

/// The kinds that have an operator and are parts of a Manager.
pub const COMPONENTS: [KindInfo; 13] = [
    kinds::ANALYTICS,
    kinds::ANALYTICS_ALARM,
    kinds::ANALYTICS_SNMP,
    kinds::CASSANDRA,
    kinds::CONFIG,
    kinds::CONTROL,
    kinds::KUBEMANAGER,
    kinds::QUERY_ENGINE,
    kinds::RABBITMQ,
    kinds::REDIS,
    kinds::VROUTER,
    kinds::WEBUI,
    kinds::ZOOKEEPER,
];
/// The resources of the example: one of each kind, another Cassandra, and the Manager.
pub const EXAMPLE: usize = COMPONENTS.len() + 2;
/// Those of them that have a member on each control node: not the Manager, nor the vRouter.
pub const MEMBERS: usize = EXAMPLE - 2;

/// The first object of a YAML file of this repository.
pub fn manifest(path: &str) -> Result<Value> {
    let path = repository().join(path);
    let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    documents(&text)?.into_iter().next().context("an empty file")
}

/// A file of the folder `data`.
pub fn data(file: &str) -> String {
    format!("e2e/tests/bringup/data/{file}")
}

/// All objects of a kind in a namespace.
pub async fn list(client: &Client, kind: Kind, namespace: &str) -> Result<Vec<DynamicObject>> {
    let list = objects(client, kind, namespace).list(&ListParams::default()).await;
    Ok(list.with_context(|| format!("listing {}", kind.plural))?.items)
}

/// Uid of each object of a kind, by name.
pub async fn uids(client: &Client, kind: Kind, namespace: &str) -> Result<BTreeMap<String, String>> {
    let objects = list(client, kind, namespace).await?;
    Ok(objects.into_iter().filter_map(|object| Some((object.metadata.name?, object.metadata.uid?))).collect())
}

/// One state of one object. Revisions order the states of all objects: they are etcd's.
#[derive(Clone, Debug)]
pub struct Version {
    /// Its resource version.
    pub revision: u64,
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// The object.
    pub object: DynamicObject,
}

impl Version {
    /// Status and reason of a condition of one of our resources.
    pub fn condition(&self, kind: &str) -> Option<(&str, &str)> {
        let conditions = self.object.data.pointer("/status/conditions")?.as_array()?;
        let condition = conditions.iter().find(|condition| condition["type"] == kind)?;
        Some((condition["status"].as_str()?, condition["reason"].as_str()?))
    }

    /// Whether one of our resources is Ready, for its current generation.
    pub fn is_ready(&self) -> bool {
        let observed = self.object.data.pointer("/status/observedGeneration").and_then(Value::as_i64);
        observed == self.object.metadata.generation
            && self.condition("Ready").is_some_and(|(status, _)| status == "True")
    }

    /// Kind and name.
    pub fn label(&self) -> String {
        format!("{} {}", self.kind, self.name)
    }
}

/// Every state of every object of some kinds in a namespace, from a moment on.
pub struct Chronicle {
    versions: Arc<Mutex<Vec<Version>>>,
    tasks: JoinSet<()>,
}

impl Chronicle {
    /// What an operator makes, and our resources.
    pub fn everything() -> Vec<Kind> {
        let made = [
            object::CONFIG_MAP,
            object::SECRET,
            object::SERVICE,
            object::SERVICE_ACCOUNT,
            object::STATEFUL_SET,
            object::DAEMON_SET,
            object::POD,
        ];
        made.into_iter().chain(Self::resources()).collect()
    }

    /// Our resources.
    pub fn resources() -> Vec<Kind> {
        COMPONENTS.into_iter().chain([kinds::MANAGER]).map(Kind::custom).collect()
    }

    /// Begins now.
    pub async fn begin(client: &Client, namespace: &str, kinds: Vec<Kind>) -> Result<Self> {
        let versions: Arc<Mutex<Vec<Version>>> = Arc::default();
        let mut tasks = JoinSet::new();
        for kind in kinds {
            let api = objects(client, kind, namespace);
            let from = api.list(&ListParams::default()).await?.metadata.resource_version.context("no version")?;
            tasks.spawn(follow(api, kind, from, Arc::clone(&versions)));
        }
        Ok(Self { versions, tasks })
    }

    /// All states so far, in the order in which they came to be.
    pub fn versions(&mut self) -> Result<Vec<Version>> {
        ensure!(self.tasks.try_join_next().is_none(), "a watch of the chronicle has ended");
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        versions.sort_by_key(|version| version.revision);
        Ok(versions)
    }
}

/// Notes every state of the objects of a kind from a version on, until a watch ends with an error.
async fn follow(api: Api<DynamicObject>, kind: Kind, mut from: String, versions: Arc<Mutex<Vec<Version>>>) {
    // The API server ends each watch after a while.
    while let Ok(events) = api.watch(&WatchParams::default(), &from).await {
        let mut events = events.boxed();
        while let Some(Ok(event)) = events.next().await {
            let object = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => object,
                WatchEvent::Bookmark(mark) => {
                    from = mark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(_) => return,
            };
            from = object.metadata.resource_version.clone().unwrap_or(from);
            let version = Version {
                revision: from.parse().unwrap_or_default(),
                kind: kind.kind,
                name: object.metadata.name.clone().unwrap_or_default(),
                object,
            };
            versions.lock().unwrap_or_else(PoisonError::into_inner).push(version);
        }
    }
}

/// Fails unless each of our resources that became Ready did so once, and was Ready ever since.
pub fn became_ready_once(versions: &[Version]) -> Result<BTreeSet<String>> {
    let mut ready: BTreeSet<String> = BTreeSet::new();
    let of_ours = versions.iter().filter(|version| version.object.data.pointer("/spec").is_some());
    for version in of_ours.filter(|version| KindInfo::of(version.kind).is_some()) {
        let label = version.label();
        if version.is_ready() {
            ready.insert(label);
        } else if ready.contains(&label) {
            bail!("{label} was Ready and then {:?}", version.object.data.pointer("/status/conditions"));
        }
    }
    Ok(ready)
}

/// Fails if the pods of one name were more than one: nothing of a bring-up has to be started twice.
pub fn each_pod_started_once(versions: &[Version]) -> Result<usize> {
    let mut pods: BTreeMap<&str, BTreeSet<Option<&str>>> = BTreeMap::new();
    for version in versions.iter().filter(|version| version.kind == "Pod") {
        // Pods of a DaemonSet have random names; what makes two of them the same pod is the node.
        let owner = version.object.metadata.owner_references.iter().flatten().next();
        let node = version
            .object
            .data
            .pointer("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution")
            .and_then(|required| required.pointer("/nodeSelectorTerms/0/matchFields/0/values/0"))
            .and_then(Value::as_str);
        let name = match owner {
            Some(owner) if owner.kind == "DaemonSet" => node.context("a pod of a DaemonSet without a node")?,
            _ => &version.name,
        };
        pods.entry(name).or_default().insert(version.object.metadata.uid.as_deref());
    }
    let twice: Vec<_> = pods.iter().filter(|(_, uids)| uids.len() > 1).map(|(name, _)| *name).collect();
    ensure!(twice.is_empty(), "pods were replaced during the bring-up: {twice:?}");
    Ok(pods.len())
}

/// Waits until a namespace holds no object of these kinds.
pub async fn emptied(client: &Client, namespace: &str, kinds: &[Kind], limit: Duration) -> Result<()> {
    let mut left = Vec::new();
    let outcome = eventually(&format!("namespace {namespace} to be empty"), limit, async || {
        left.clear();
        for kind in kinds {
            let objects = list(client, *kind, namespace).await?;
            left.extend(
                objects.into_iter().map(|object| format!("{} {}", kind.kind, object.metadata.name.unwrap_or_default())),
            );
        }
        Ok(left.is_empty().then_some(()))
    })
    .await;
    outcome.with_context(|| format!("there are still {left:?}"))
}

/// What resources say about being Ready, for failure messages.
pub fn explain(resources: &[Resource]) -> String {
    let line = |resource: &Resource| format!("{} {}: {}", resource.kind.kind, resource.name, resource.explain("Ready"));
    resources.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Deletes a resource of ours.
pub async fn delete(cluster: &Cluster, kind: KindInfo, name: &str) -> Result<()> {
    let api = tf_testing::resources::api(&cluster.client, kind, &cluster.namespace);
    api.delete(name, &kube::api::DeleteParams::default()).await.with_context(|| format!("deleting {name}"))?;
    Ok(())
}

/// Kind and name of an object of [`tf_testing::resources::everything_in`].
pub fn label(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map(|types| types.kind.as_str()).unwrap_or_default();
    format!("{kind} {}", object.metadata.name.as_deref().unwrap_or_default())
}

/// Waits until a namespace holds nothing that begins with the name of a resource, Events apart: they expire.
pub async fn emptied_of(cluster: &Cluster, name: &str, limit: Duration) -> Result<()> {
    let mut left = Vec::new();
    let outcome = eventually(&format!("nothing of {name} to be left"), limit, async || {
        let all = tf_testing::resources::everything_in(&cluster.client, &cluster.namespace).await?;
        let of_it =
            |object: &&DynamicObject| object.metadata.name.as_ref().is_some_and(|found| found.starts_with(name));
        left = all.iter().filter(of_it).map(label).filter(|label| !label.starts_with("Event ")).collect();
        Ok(left.is_empty().then_some(()))
    })
    .await;
    outcome.with_context(|| format!("there are still {left:?}"))
}

/// Waits until the garbage collector knows every component that there is: it looks for new kinds every half minute only, and whatever it does
/// not know is deleted with an owner that was to leave it behind. Of each kind it gets something to collect, which it does after it has seen
/// what was there before.
pub async fn known_to_the_collector(cluster: &Cluster) -> Result<()> {
    let namespace = format!("{}-left-behind", cluster.namespace);
    cluster.apply_object(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})).await?;
    let manager = Kind::custom(kinds::MANAGER);
    let nobody = json!({"apiVersion": manager.api_version(), "kind": manager.kind, "name": "nobody", "uid": "nobody"});
    let kinds: Vec<Kind> = COMPONENTS.into_iter().map(Kind::custom).collect();
    for kind in &kinds {
        let object = json!({
            "apiVersion": kind.api_version(),
            "kind": kind.kind,
            "metadata": {"name": "left-behind", "namespace": namespace, "ownerReferences": [nobody]},
            "spec": {},
        });
        cluster.apply_object(&object).await?;
    }
    emptied(&cluster.client, &namespace, &kinds, Duration::from_mins(1)).await
}
