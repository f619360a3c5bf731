//! Real input: what the Go tf-operator's own tree renders, unchanged.
//!
//! The data say in their first lines which variables they were rendered with. All come from `deploy/kustomize/contrail`,
//! which makes Managers; its neighbour `operator` makes the Go operator itself, whose place our charts take.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use kube::api::ListParams;
use serde_json::Value;
use tf_api::{KindInfo, SERVICES, kinds};
use tf_plan::object::{self, Kind};
use tf_testing::{
    Cluster, Lab, Options,
    resources::{self, Resource},
    sample::has_turn,
};

use crate::support::{
    COMPONENTS, Chronicle, became_ready_once, data, delete, each_pod_started_once, emptied, explain, list, manifest,
    settled,
};

const NAME: &str = "cluster1";

const DEFAULT: &str = "crates/tf-api/testdata/go-tf-operator/default-manager.yaml";

/// What becomes Ready of a Manager that leaves nothing out.
const EVERYTHING: [&str; 15] = [
    "Analytics analytics1",
    "AnalyticsAlarm analyticsalarm1",
    "AnalyticsSnmp analyticssnmp1",
    "Cassandra analyticsdb1",
    "Cassandra configdb1",
    "Config config1",
    "Control control1",
    "Kubemanager kubemanager1",
    "Manager cluster1",
    "QueryEngine queryengine1",
    "Rabbitmq rabbitmq1",
    "Redis redis1",
    "Vrouter vrouter1",
    "Webui webui1",
    "Zookeeper zookeeper1",
];

/// One manifest at a time in namespace `tf`, on nodes that it takes all of.
struct Turn<'a> {
    cluster: &'a Cluster,
    chronicle: Chronicle,
    manager: Value,
}

impl<'a> Turn<'a> {
    /// Applies a manifest and waits until everything is Ready.
    async fn apply(cluster: &'a Cluster, file: &str) -> Result<Self> {
        let mut turn = Self::begin(cluster, file).await?;
        turn.finish().await?;
        Ok(turn)
    }

    /// Applies a manifest.
    async fn begin(cluster: &'a Cluster, file: &str) -> Result<Self> {
        let manager = manifest(file)?;
        // The templates name the resource and its namespace themselves; nothing is changed here.
        ensure!(manager["metadata"]["namespace"] == "tf" && manager["metadata"]["name"] == NAME, "another manifest");
        let chronicle = Chronicle::begin(&cluster.client, "tf", Chronicle::everything()).await?;
        cluster.apply_object(&manager).await?;
        Ok(Self { cluster, chronicle, manager })
    }

    /// Waits until everything is Ready.
    async fn finish(&mut self) -> Result<()> {
        for kind in requested(&mut self.manager) {
            for name in names(&self.manager, kind) {
                self.cluster.ready(kind, &name).await?;
            }
        }
        self.cluster.manager_ready(NAME).await?;
        settled(self.cluster, Duration::from_secs(1)).await?;
        Ok(())
    }

    async fn manager(&self) -> Result<Resource> {
        self.cluster.get(kinds::MANAGER, NAME).await
    }

    /// Every part with an operator became Ready once, and no pod was started twice.
    fn check_history(&mut self, expected: &[&str]) -> Result<()> {
        let versions = self.chronicle.versions()?;
        let ready = became_ready_once(&versions)?;
        let expected: BTreeSet<String> = expected.iter().map(|&label| label.to_owned()).collect();
        ensure!(ready == expected, "{ready:?} became Ready, expected {expected:?}");
        each_pod_started_once(&versions)?;
        Ok(())
    }
}

/// Takes the manifest back.
async fn take_back(cluster: &Cluster) -> Result<()> {
    delete(cluster, kinds::MANAGER, NAME).await?;
    let kinds: Vec<Kind> = COMPONENTS.map(Kind::custom).into_iter().chain([object::POD]).collect();
    emptied(&cluster.client, "tf", &kinds, Duration::from_mins(1)).await
}

/// Kinds that a Manager lists.
fn requested(manager: &mut Value) -> Vec<KindInfo> {
    let services = manager["spec"]["services"].take();
    let listed =
        SERVICES.iter().filter(|service| !services[service.key].is_null()).map(|service| service.kind).collect();
    manager["spec"]["services"] = services;
    listed
}

/// Names of the entries of a kind.
fn names(manager: &Value, kind: KindInfo) -> Vec<String> {
    let entries =
        SERVICES.iter().filter(|service| service.kind == kind).map(|service| &manager["spec"]["services"][service.key]);
    let each = entries.flat_map(|entry| entry.as_array().cloned().unwrap_or_else(|| vec![entry.clone()]));
    each.filter_map(|entry| Some(entry["metadata"]["name"].as_str()?.to_owned())).collect()
}

/// The condition of a Manager by which it shows a kind.
fn condition(kind: KindInfo) -> String {
    kind.shown_as.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn managers_of_the_go_tf_operator_become_ready_unchanged() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let lab = Arc::new(Lab::start(Options::fleet(3, 3)).await?);
    let cluster = Cluster::start(&lab, "tf").await?;
    default(&cluster).await.context("the default Manager")?;
    take_back(&cluster).await?;
    every_variable_set(&cluster).await.context("rendered with every variable set")?;
    take_back(&cluster).await?;
    without_analytics(&cluster).await.context("rendered without analytics")?;
    take_back(&cluster).await?;
    beside_another_network_plugin(&cluster).await.context("rendered for another network plugin")
}

/// Everything is Ready, and what somebody wrote of a part is in it.
async fn default(cluster: &Cluster) -> Result<()> {
    let mut turn = Turn::apply(cluster, DEFAULT).await?;
    turn.check_history(&EVERYTHING)?;
    let manager = turn.manager().await?;
    for kind in requested(&mut manifest(DEFAULT)?) {
        ensure!(manager.is(&condition(kind), "True"), "{}", manager.explain(&condition(kind)));
    }
    let engine = cluster.get(kinds::QUERY_ENGINE, "queryengine1").await?;
    let written = &manifest(DEFAULT)?["spec"]["services"]["queryengine"];
    ensure!(
        engine.object.data["spec"]["serviceConfiguration"] == written["spec"]["serviceConfiguration"],
        "QueryEngine was not made as it was written: {}",
        engine.object.data["spec"]
    );
    ensure!(engine.object.metadata.labels.context("no labels")?["tf_cluster"] == "cluster1");
    Ok(())
}

/// Each setting arrives where it has an effect.
async fn every_variable_set(cluster: &Cluster) -> Result<()> {
    let mut turn = Turn::apply(cluster, &data("go-keystone.yaml")).await?;
    turn.check_history(&EVERYTHING)?;
    let pods = list(&cluster.client, object::POD, "tf").await?;
    for pod in &pods {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let secrets =
            pod.data.pointer("/spec/imagePullSecrets").and_then(Value::as_array).context("no pull secrets")?;
        let secrets: Vec<&str> = secrets.iter().filter_map(|secret| secret["name"].as_str()).collect();
        ensure!(secrets == ["registry-one", "registry-two"], "{name} pulls with {secrets:?}");
        for container in pod.data.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten() {
            let image = container["image"].as_str().unwrap_or_default();
            ensure!(
                image.starts_with("registry.example:5000/tf/contrail-") && image.ends_with(":2011.L5"),
                "{name}: {image}"
            );
        }
    }
    let config = contents(cluster, "config1").await?;
    for setting in ["https://192.0.2.10:5443", "RegionTwo", "Cloud"] {
        ensure!(config.contains(setting), "{setting} does not arrive in the files of Config");
    }
    // What has no effect is in the condition.
    let config = cluster.get(kinds::CONFIG, "config1").await?;
    let ignored = config.explain("FieldsIgnored");
    ensure!(ignored.contains("containers[provisioner]"), "{ignored}");
    let vrouter = contents(cluster, "vrouter1").await?;
    for setting in ["10.77.255.254", "eth1", "8950"] {
        ensure!(vrouter.contains(setting), "{setting} does not arrive in the files of the vRouter");
    }
    let configdb = contents(cluster, "configdb1").await?;
    ensure!(
        configdb.contains("-Xms1024m") && configdb.contains("-Xmx2048m"),
        "the heap does not arrive in the files of Cassandra"
    );
    Ok(())
}

/// Everything in the ConfigMaps and Secrets of a resource.
async fn contents(cluster: &Cluster, name: &str) -> Result<String> {
    let mut text = String::new();
    let params = ListParams::default();
    let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> = kube::Api::namespaced(cluster.client.clone(), "tf");
    let owned = |meta: &kube::api::ObjectMeta| meta.owner_references.iter().flatten().any(|owner| owner.name == name);
    for map in maps.list(&params).await?.items.into_iter().filter(|map| owned(&map.metadata)) {
        text.extend(map.data.into_iter().flatten().map(|(_, value)| value));
    }
    let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> = kube::Api::namespaced(cluster.client.clone(), "tf");
    for secret in secrets.list(&params).await?.items.into_iter().filter(|secret| owned(&secret.metadata)) {
        text.extend(secret.data.into_iter().flatten().map(|(_, value)| String::from_utf8_lossy(&value.0).into_owned()));
    }
    ensure!(!text.is_empty(), "{name} has no files");
    Ok(text)
}

/// One database less, and nobody who asks it: the state of the moment is all that is kept.
async fn without_analytics(cluster: &Cluster) -> Result<()> {
    let mut turn = Turn::apply(cluster, &data("go-without-analytics.yaml")).await?;
    turn.check_history(&[
        "Analytics analytics1",
        "Cassandra configdb1",
        "Config config1",
        "Control control1",
        "Kubemanager kubemanager1",
        "Manager cluster1",
        "Rabbitmq rabbitmq1",
        "Redis redis1",
        "Vrouter vrouter1",
        "Webui webui1",
        "Zookeeper zookeeper1",
    ])
}

/// No vRouter, and a password in a Secret that comes later than the Manager.
async fn beside_another_network_plugin(cluster: &Cluster) -> Result<()> {
    let mut turn = Turn::begin(cluster, &data("go-another-network-plugin.yaml")).await?;
    let missing =
        |config: &Resource| config.condition("InputsReady").is_some_and(|inputs| inputs.reason == "SecretNotFound");
    let config = cluster.until(kinds::CONFIG, "config1", "waiting for a Secret", missing).await?;
    ensure!(config.explain("InputsReady").contains("keystone-admin"), "{}", config.explain("InputsReady"));
    let secret =
        "{apiVersion: v1, kind: Secret, metadata: {name: keystone-admin, namespace: tf}, stringData: {password: x}}";
    cluster.lab.apply(secret).await?;
    turn.finish().await?;
    turn.check_history(&[
        "Analytics analytics1",
        "AnalyticsAlarm analyticsalarm1",
        "AnalyticsSnmp analyticssnmp1",
        "Cassandra analyticsdb1",
        "Cassandra configdb1",
        "Config config1",
        "Control control1",
        "Manager cluster1",
        "QueryEngine queryengine1",
        "Rabbitmq rabbitmq1",
        "Redis redis1",
        "Webui webui1",
        "Zookeeper zookeeper1",
    ])?;
    let all = resources::all(&cluster.client, "tf").await?;
    ensure!(
        all.iter().all(|resource| resource.kind != kinds::VROUTER),
        "nobody asked for a vRouter:\n{}",
        explain(&all)
    );
    Ok(())
}
