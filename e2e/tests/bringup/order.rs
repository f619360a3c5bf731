//! Nothing starts before what it needs, by the revisions of the store and the times of the audit log.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};
use tf_testing::{Cluster, Entry, Verb, nodes::READY_AFTER_ANNOTATION};

use crate::support::{Chronicle, FLEET, Version, each_pod_started_once, settled};

/// The databases' members become Ready this long after they were scheduled, so that Config has time to be wrong.
const SLOW: &str = "2s";

/// The example with slow databases, from its first object to its last.
struct History {
    versions: Vec<Version>,
    /// Requests of the operators.
    entries: Vec<Entry>,
    config_op: String,
}

impl History {
    async fn record(namespace: &str) -> Result<Self> {
        let lab = FLEET.get().await?;
        let cluster = Cluster::start(&lab, namespace).await?;
        cluster.nodes(3, 1).await?;
        let mut chronicle = Chronicle::begin(&cluster.client, namespace, Chronicle::everything()).await?;
        let begin = lab.audit_mark().await?;
        let mut manager = cluster.example_manager()?;
        let services = &mut manager["spec"]["services"];
        let slow = json!({"metadata": {"annotations": {READY_AFTER_ANNOTATION: SLOW}}});
        services["cassandras"][0]["spec"]["commonConfiguration"]["podOverrides"] = slow;
        cluster.apply_object(&manager).await?;
        cluster.manager_ready("sdn").await?;
        let end = settled(&cluster, Duration::from_secs(1)).await?;
        let config_op = cluster.operator("config-op")?.user.clone();
        Ok(Self { versions: chronicle.versions()?, entries: lab.audit().window(begin, end)?, config_op })
    }

    /// The first state of an object that is as wanted.
    fn first(&self, kind: &str, name: &str, what: &str, wanted: impl Fn(&Version) -> bool) -> Result<&Version> {
        let found =
            self.versions.iter().find(|version| version.kind == kind && version.name == name && wanted(version));
        found.with_context(|| format!("{kind} {name} never was {what}"))
    }

    fn created(&self, kind: &str, name: &str) -> Result<&Version> {
        self.first(kind, name, "created", |_| true)
    }
}

/// The time of the transition to Ready, to the second.
fn ready_since(version: &Version) -> Result<Timestamp> {
    let conditions =
        version.object.data.pointer("/status/conditions").and_then(Value::as_array).context("no conditions")?;
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready").context("no Ready")?;
    Ok(ready["lastTransitionTime"].as_str().context("no time")?.parse()?)
}

/// Addresses that a resource publishes under the name of an endpoint.
fn listed(version: &Version, endpoint: &str) -> usize {
    let endpoints = version.object.data.pointer("/status/endpoints").and_then(Value::as_array);
    let endpoint = endpoints.into_iter().flatten().find(|published| published["name"] == endpoint);
    endpoint.and_then(|endpoint| endpoint["nodes"].as_array()).map_or(0, Vec::len)
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_starts_before_what_it_needs() -> Result<()> {
    let history = History::record("order").await?;
    config_waits_for_every_member_of_its_database(&history)?;
    control_waits_for_the_database_to_be_made(&history)?;
    kube_manager_waits_for_the_config_api_and_its_token(&history)?;
    the_web_ui_waits_for_what_it_shows_and_for_its_password(&history)?;
    workloads_follow_what_their_pods_mount(&history)?;
    each_pod_started_once(&history.versions)?;
    Ok(())
}

/// Clients of Cassandra fix the replication factor at first contact, so they must not meet a ring that still grows.
fn config_waits_for_every_member_of_its_database(history: &History) -> Result<()> {
    let started = history.created("StatefulSet", "config1-config-statefulset")?;
    let pod = history.created("Pod", "config1-config-statefulset-0")?;
    ensure!(started.revision < pod.revision);
    let complete = history.first("Cassandra", "configdb1", "Ready with three addresses", |version| {
        version.is_ready() && listed(version, "cql") == 3
    })?;
    let zookeeper = history.first("Zookeeper", "zookeeper1", "Ready", Version::is_ready)?;
    let rabbitmq = history.first("Rabbitmq", "rabbitmq1", "Ready", Version::is_ready)?;
    let asked = history.entries.iter().find(|entry| {
        entry.user == history.config_op
            && entry.resource == "statefulsets"
            && entry.verb == Verb::Patch
            && entry.code == 201
    });
    let asked = asked.context("the audit log does not show who made the StatefulSet")?;
    for needed in [complete, zookeeper, rabbitmq] {
        let label = needed.label();
        ensure!(needed.revision < started.revision, "Config was started before {label} could be used");
        ensure!(
            ready_since(needed)? <= asked.at,
            "{label} was Ready at {}, Config asked for at {}",
            ready_since(needed)?,
            asked.at
        );
    }
    // And while it waited, it said for what.
    let waiting = history.first("Config", "config1", "waiting for Cassandra", |version| {
        version.condition("CassandraReady").is_some_and(|(status, _)| status == "False")
            && version.condition("DependenciesReady").is_some_and(|(status, _)| status == "False")
    })?;
    ensure!(waiting.revision < complete.revision);
    Ok(())
}

/// Config makes the keyspace that control nodes read.
fn control_waits_for_the_database_to_be_made(history: &History) -> Result<()> {
    let started = history.created("StatefulSet", "control1-control-statefulset")?;
    let config = history.first("Config", "config1", "Ready", Version::is_ready)?;
    ensure!(config.revision < started.revision, "Control was started before {} could be used", config.label());
    Ok(())
}

/// kube-manager makes objects in the config API, with a token that has to be there before its members are.
fn kube_manager_waits_for_the_config_api_and_its_token(history: &History) -> Result<()> {
    let started = history.created("StatefulSet", "kubemanager1-kubemanager-statefulset")?;
    let config = history.first("Config", "config1", "Ready", Version::is_ready)?;
    let token = history.first("Secret", "kubemanager1-kubemanager-token", "filled", |version| {
        version.object.data.pointer("/data/token").is_some()
    })?;
    for needed in [config, token] {
        ensure!(needed.revision < started.revision, "Kubemanager was started before {}", needed.label());
    }
    Ok(())
}

/// The web UI is told where Config, Redis and the control nodes are, with a password that has to be there before its members are.
fn the_web_ui_waits_for_what_it_shows_and_for_its_password(history: &History) -> Result<()> {
    let started = history.created("StatefulSet", "webui1-webui-statefulset")?;
    let config = history.first("Config", "config1", "Ready", Version::is_ready)?;
    let redis = history.first("Redis", "redis1", "Ready", Version::is_ready)?;
    let control = history.first("Control", "control1", "Ready", Version::is_ready)?;
    let password = history.first("Secret", "webui1-webui-login", "filled", |version| {
        version.object.data.pointer("/data/password").is_some()
    })?;
    for needed in [config, redis, control, password] {
        ensure!(needed.revision < started.revision, "Webui was started before {}", needed.label());
    }
    Ok(())
}

/// A pod that names what does not exist yet would wait in its kubelet for a minute.
fn workloads_follow_what_their_pods_mount(history: &History) -> Result<()> {
    let mut first: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for version in &history.versions {
        first.entry((version.kind, &version.name)).or_insert(version.revision);
    }
    let mut checked = 0;
    for (&(kind, name), &revision) in first.iter().filter(|((kind, _), _)| matches!(*kind, "StatefulSet" | "DaemonSet"))
    {
        let workload = history.created(kind, name)?;
        let pod = workload.object.data.pointer("/spec/template/spec").context("no pod")?;
        let mut needed = vec![("ServiceAccount", pod["serviceAccountName"].as_str().context("no account")?)];
        if let Some(service) = workload.object.data.pointer("/spec/serviceName").and_then(Value::as_str) {
            needed.push(("Service", service));
        }
        for volume in pod["volumes"].as_array().into_iter().flatten() {
            let sources = volume.pointer("/projected/sources").and_then(Value::as_array).into_iter().flatten();
            for source in sources.chain([volume]).filter(|source| source["configMap"]["optional"] != json!(true)) {
                needed.extend(source["configMap"]["name"].as_str().map(|name| ("ConfigMap", name)));
                let secret = source["secret"]["name"].as_str().or(source["secret"]["secretName"].as_str());
                needed.extend(
                    secret.filter(|_| source["secret"]["optional"] != json!(true)).map(|name| ("Secret", name)),
                );
            }
        }
        // Kubernetes makes that one with the namespace.
        needed.retain(|(_, name)| *name != "kube-root-ca.crt");
        for (kind_needed, name_needed) in needed {
            let made = first.get(&(kind_needed, name_needed));
            let made =
                made.with_context(|| format!("{kind} {name} needs {kind_needed} {name_needed}, which nobody made"))?;
            ensure!(*made < revision, "{kind} {name} was made before {kind_needed} {name_needed}");
            checked += 1;
        }
    }
    ensure!(checked >= 7 * 3, "only {checked} needs of workloads were found");
    Ok(())
}
