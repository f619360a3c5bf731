//! Values of stores, Config, Control, Kubemanager, Webui and the four kinds of analytics that cannot be: the definition refuses them, or a condition says which they are and what
//! to do. What has no effect is told of. Each resource is brought up as soon as its spec is right.

mod kinds;
mod stores;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use tf_testing::{Cluster, cluster::BRING_UP, resources::Resource, wait::eventually};

use self::{
    kinds::{Kind, daemons},
    stores::stores,
};
use crate::{
    external,
    support::{cluster, member},
};

const NAME: &str = "a";

impl Kind {
    fn spec(&self, settings: &Value) -> Value {
        let mut spec = if self.needs.is_empty() { json!({}) } else { external::on(self.needs) };
        spec["serviceConfiguration"] = settings.clone();
        spec
    }

    /// Applies the spec with these settings, and these of `commonConfiguration`.
    async fn apply(&self, cluster: &Cluster, settings: &Value, common: Value) -> Result<()> {
        let mut spec = self.spec(settings);
        spec["commonConfiguration"] = common;
        member(cluster, self.info, NAME, spec).await
    }

    async fn set(&self, cluster: &Cluster, settings: &Value) -> Result<()> {
        self.apply(cluster, settings, json!({})).await
    }

    async fn refuses(&self, cluster: &Cluster, settings: &Value, common: Value, words: [&str; 2]) -> Result<()> {
        let kind = self.info.kind;
        let refusal = self.apply(cluster, settings, common).await.err();
        let text = refusal.map(|refusal| format!("{refusal:#}")).unwrap_or_default();
        ensure!(words.iter().all(|word| text.contains(word)), "{kind} with {settings}: {text:?}");
        Ok(())
    }

    /// Waits until a condition with these words describes the spec as it is.
    async fn says(
        &self,
        cluster: &Cluster,
        (condition, status, reason): (&str, &str, &str),
        words: [&str; 2],
    ) -> Result<Resource> {
        let wanted = |it: &Resource| {
            it.object.data["status"]["observedGeneration"].as_i64() == it.object.metadata.generation
                && it.condition(condition).is_some_and(|it| {
                    it.status == status && it.reason == reason && words.iter().all(|word| it.message.contains(word))
                })
        };
        cluster.until(self.info, NAME, &format!("{condition}={status} {reason} with {words:?}"), wanted).await
    }

    /// Uids of its pods.
    async fn pods(&self, cluster: &Cluster) -> Result<BTreeSet<String>> {
        let pods = Api::<Pod>::namespaced(cluster.client.clone(), &cluster.namespace);
        let its = ListParams::default().labels(&format!("{}={NAME}", self.info.kind.to_lowercase()));
        let uids: BTreeSet<String> = pods.list(&its).await?.into_iter().filter_map(|pod| pod.metadata.uid).collect();
        ensure!(!uids.is_empty(), "{} has no pods", self.info.kind);
        Ok(uids)
    }

    /// Uids of its pods once it has been Ready, and the controller of its workload has counted the pods that there are, for a while: on a busy machine that
    /// controller counts a former pod long after the next one is Ready.
    async fn settled(&self, cluster: &Cluster) -> Result<BTreeSet<String>> {
        let sets = Api::<StatefulSet>::namespaced(cluster.client.clone(), &cluster.namespace);
        let is_its = |set: &StatefulSet| {
            let mut owners = set.metadata.owner_references.iter().flatten();
            owners.any(|owner| owner.kind == self.info.kind && owner.name == NAME)
        };
        let mut since: Option<Instant> = None;
        eventually("its workload to be counted", BRING_UP, async || {
            let found = sets.list(&ListParams::default()).await?;
            let mut its = found.iter().filter(|set| is_its(set)).peekable();
            let is_settled =
                its.peek().is_some() && its.all(is_counted) && cluster.get(self.info, NAME).await?.is_ready();
            since = is_settled.then(|| since.unwrap_or_else(Instant::now));
            Ok(since.filter(|since| since.elapsed() > Duration::from_secs(3)).map(drop))
        })
        .await?;
        self.pods(cluster).await
    }

    /// The list of its containers with this in each entry.
    fn listed(&self, of_each: &Value) -> Value {
        let entry = |name: &&str| {
            let mut entry = of_each.clone();
            entry["name"] = json!(name);
            entry
        };
        self.containers.iter().map(entry).collect()
    }

    async fn goes_through_all(&self, cluster: &Cluster) -> Result<()> {
        const STALLED: (&str, &str, &str) = ("Stalled", "True", "InvalidSpec");
        let loud = json!({ "logLevel": "loud" });
        self.refuses(cluster, &json!({}), loud, ["logLevel", "supported values"]).await?;
        for (settings, words) in &self.refused {
            self.refuses(cluster, settings, json!({}), *words).await?;
        }

        let mut spec = self.spec(&json!({}));
        spec["version"] = json!("0.0");
        member(cluster, self.info, NAME, spec).await?;
        self.says(cluster, STALLED, ["0.0", "version"]).await?;
        for (settings, words) in self.stalled.iter().chain(&self.beginning) {
            self.set(cluster, settings).await?;
            self.says(cluster, STALLED, *words).await?;
        }
        let [main, ..] = self.containers else { anyhow::bail!("no container") };
        self.set(cluster, &json!({ "containers": [{ "name": "surprise" }] })).await?;
        self.says(cluster, STALLED, ["serviceConfiguration.containers", main]).await?;
        self.set(cluster, &json!({ "containers": self.listed(&json!({ "image": "example.org/image:1 " })) })).await?;
        self.says(cluster, STALLED, [&format!("containers[{main}].image is \"example.org/image:1 \""), "blanks"])
            .await?;

        let mut beside = self.listed(&json!({}));
        if let Some(entries) = beside.as_array_mut() {
            entries.push(json!({ "name": "surprise" }));
        }
        self.set(cluster, &json!({ "containers": beside })).await?;
        cluster.ready(self.info, NAME).await?;
        let ignored = ("FieldsIgnored", "True", "NoEffect");
        self.says(cluster, ignored, ["containers[surprise]", "no such container"]).await?;
        for (settings, words) in &self.ignored {
            self.set(cluster, settings).await?;
            self.says(cluster, ignored, *words).await?;
        }
        // Some of them restart its only member.
        cluster.ready(self.info, NAME).await?;

        // A bad value does not disturb what runs.
        let before = self.settled(cluster).await?;
        for (settings, words) in self.stalled.iter().chain(&self.founded) {
            self.set(cluster, settings).await?;
            let still = self.says(cluster, STALLED, *words).await?;
            ensure!(still.is("Available", "True"), "{}: {}", self.info.kind, still.explain("Available"));
        }
        ensure!(self.pods(cluster).await? == before, "{}: pods were replaced for a bad value", self.info.kind);
        // Nor is anything left of it when nothing is set any more.
        self.set(cluster, &json!({})).await?;
        cluster.ready(self.info, NAME).await?;
        Ok(())
    }
}

/// Whether all pods of a StatefulSet are Ready, and of its current template.
fn is_counted(set: &StatefulSet) -> bool {
    let Some(status) = &set.status else { return false };
    status.observed_generation == set.metadata.generation
        && status.ready_replicas == Some(status.replicas)
        && status.updated_replicas == Some(status.replicas)
}

#[tokio::test]
async fn values_that_cannot_be_are_told_and_right_ones_taken_at_once() -> Result<()> {
    let cluster =
        cluster("in-values", &["analytics-op", "config-op", "control-op", "kubemanager-op", "webui-op"]).await?;
    cluster.nodes(1, 0).await?;
    cluster.apply_object(&external::login(&cluster.namespace)).await?;
    try_join_all(daemons().iter().map(|kind| kind.goes_through_all(&cluster))).await?;
    Ok(())
}

#[tokio::test]
async fn values_of_stores_that_cannot_be_are_told_and_right_ones_taken_at_once() -> Result<()> {
    let cluster = cluster("in-stores", &["cassandra-op", "rabbitmq-op", "redis-op", "zookeeper-op"]).await?;
    cluster.nodes(1, 0).await?;
    try_join_all(stores().iter().map(|kind| kind.goes_through_all(&cluster))).await?;
    Ok(())
}
