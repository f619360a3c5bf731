//! The statuses an operator writes, each of them, as generic tools read them.
//!
//! No controller runs in this tier, so the test plays the StatefulSet controller and the kubelets.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use http::Method;
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use kube::{
    Client, ResourceExt as _,
    api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use tf_api::kinds::{self, ZOOKEEPER};
use tf_testing::{
    IpFamily,
    nodes::{Role, Simulated},
    operators::{Install, Run},
    resources::{self, Resource, api},
    wait::eventually,
};

use crate::{
    kstatus::{Kstatus, kstatus},
    support::{JSON, SOON, collection, defined, get, namespace, send},
};

/// Every version of the resources of a kind in a namespace, as a watch delivers them.
#[derive(Clone, Default)]
struct History(Arc<Mutex<Vec<Value>>>);

impl History {
    async fn record(api: Api<DynamicObject>) -> Result<Self> {
        let from = api.list(&ListParams::default()).await?.metadata.resource_version.context("no version")?;
        let mut events = api.watch(&WatchParams::default(), &from).await?.boxed();
        let history = Self::default();
        let seen = history.clone();
        tokio::spawn(async move {
            while let Ok(Some(event)) = events.try_next().await {
                if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event {
                    let value = serde_json::to_value(object).unwrap_or_default();
                    seen.0.lock().unwrap_or_else(PoisonError::into_inner).push(value);
                }
            }
        });
        Ok(history)
    }

    /// What generic tools said about a generation, without repetitions, up to the version `until`.
    async fn of(&self, generation: i64, until: &Resource) -> Result<Vec<Kstatus>> {
        let last = until.object.resource_version().context("no version")?;
        let versions = eventually("the watch to deliver the last version", SOON, async || {
            let versions = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Ok(versions
                .iter()
                .any(|version| version["metadata"]["resourceVersion"] == last.as_str())
                .then_some(versions))
        })
        .await?;
        let mut said: Vec<Kstatus> =
            versions.iter().filter(|version| version["metadata"]["generation"] == generation).map(kstatus).collect();
        said.dedup();
        Ok(said)
    }
}

/// Makes pods of the StatefulSets' current templates where there are none, and all of them Ready.
async fn play(client: &Client, home: &str) -> Result<()> {
    let sets: Api<StatefulSet> = Api::namespaced(client.clone(), home);
    let pods: Api<Pod> = Api::namespaced(client.clone(), home);
    for set in sets.list(&ListParams::default()).await? {
        let spec = set.spec.clone().context("no spec")?;
        let template = spec.template.metadata.context("no metadata")?;
        let replicas = spec.replicas.unwrap_or(1);
        for ordinal in 0..replicas {
            let name = format!("{}-{ordinal}", set.name_any());
            if pods.get_opt(&name).await?.is_some() {
                continue;
            }
            let pod = json!({
                "metadata": {"name": name, "labels": template.labels, "annotations": template.annotations},
                "spec": {"containers": [{"name": "played", "image": "none"}]},
            });
            pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
            let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
            pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(ready)).await?;
        }
        let status = json!({"status": {"observedGeneration": set.metadata.generation, "replicas": replicas,
                                       "readyReplicas": replicas, "availableReplicas": replicas}});
        sets.patch_status(&set.name_any(), &PatchParams::default(), &Patch::Merge(status)).await?;
    }
    Ok(())
}

/// Three nodes that carry `label` and belong to one test.
async fn three_nodes(client: &Client, label: &str) -> Result<()> {
    for index in 1..=3 {
        let mut node = Simulated::new(Role::Worker, index, IpFamily::V4);
        node.name = format!("{label}-{index}");
        node.labels.insert(label.to_owned(), String::new());
        send(client, Method::POST, "/api/v1/nodes", JSON, serde_json::to_string(&node.node())?).await?.accepted()?;
    }
    Ok(())
}

#[tokio::test]
async fn a_resource_is_in_progress_from_its_creation_on_even_if_no_operator_runs() -> Result<()> {
    let lab = defined().await?;
    let client = lab.client().await?;
    namespace(&client, "created", json!({})).await?;
    for kind in kinds::ALL {
        let object = json!({"apiVersion": "tf.tungsten.io/v1alpha1", "kind": kind.kind, "metadata": {"name": "new"}});
        let created =
            send(&client, Method::POST, &collection("created", kind.plural), JSON, object.to_string()).await?;
        created.accepted()?;
        assert_eq!(kstatus(&created.body), Kstatus::InProgress, "{}", kind.kind);
        let stored = get(&client, &format!("{}/new", collection("created", kind.plural))).await?;
        assert_eq!(kstatus(&stored.body), Kstatus::InProgress, "{}", kind.kind);
    }
    Ok(())
}

#[tokio::test]
async fn every_status_an_operator_writes_is_read_rightly_by_generic_tools() -> Result<()> {
    const HOME: &str = "generic-tools";
    let lab = defined().await?;
    let client = lab.client().await?;
    namespace(&client, HOME, json!({})).await?;
    three_nodes(&client, HOME).await?;
    lab.install("zookeeper-op", HOME, &Install { without_definitions: true, ..Install::default() }).await?;
    let history = History::record(api(&client, ZOOKEEPER, HOME)).await?;

    let apply = async |version: Option<&str>, image: &str| {
        let mut spec = json!({
            "commonConfiguration": {"nodeSelector": {HOME: ""}},
            "serviceConfiguration": {"containers": [{"name": "zookeeper", "image": image}]},
        });
        if let Some(version) = version {
            spec["version"] = json!(version);
        }
        let applied = resources::apply(&client, ZOOKEEPER, HOME, "zk", spec).await?;
        assert_eq!(kstatus(&serde_json::to_value(&applied)?), Kstatus::InProgress, "as the user's request is answered");
        applied.metadata.generation.context("no generation")
    };
    let ready = async || {
        eventually("Zookeeper to be Ready", SOON, async || {
            play(&client, HOME).await?;
            let found = resources::get(&client, ZOOKEEPER, HOME, "zk").await?;
            Ok(found.filter(Resource::is_ready))
        })
        .await
    };

    let first = apply(None, "example/zookeeper:1").await?;
    let operator = lab.operate("zookeeper-op", HOME, &Run::default()).await?;
    operator.ready().await?;
    // Nothing plays yet: the members are asked for and none is there.
    let waiting = resources::until(&client, ZOOKEEPER, HOME, "zk", "waiting for members", SOON, |resource| {
        resource.status.observed_generation == Some(first) && resource.is("ConfigReady", "True")
    })
    .await?;
    assert_eq!(history.of(first, &waiting).await?, [Kstatus::InProgress]);
    assert_eq!(history.of(first, &ready().await?).await?, [Kstatus::InProgress, Kstatus::Current], "brought up");

    let changed = apply(None, "example/zookeeper:2").await?;
    assert_eq!(history.of(changed, &ready().await?).await?, [Kstatus::InProgress, Kstatus::Current], "rolled out");

    let wrong = apply(Some("no such release"), "example/zookeeper:2").await?;
    let stalled = resources::until(&client, ZOOKEEPER, HOME, "zk", "Stalled", SOON, |resource| {
        resource.status.observed_generation == Some(wrong) && resource.is("Stalled", "True")
    })
    .await?;
    assert_eq!(history.of(wrong, &stalled).await?, [Kstatus::InProgress, Kstatus::Failed], "impossible");

    let corrected = apply(None, "example/zookeeper:2").await?;
    assert_eq!(history.of(corrected, &ready().await?).await?, [Kstatus::InProgress, Kstatus::Current], "corrected");
    Ok(())
}
