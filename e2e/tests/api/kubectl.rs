//! What a person sees with kubectl: that of the lab, which needs none on the machine.

use std::{process::Output, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use tf_testing::{Lab, assets, wait::eventually};

use crate::support::{JSON, MERGE, SOON, collection, defined, get, namespace, send};

/// kubectl, acting on a lab.
struct Kubectl {
    lab: Arc<Lab>,
    client: Client,
    namespace: &'static str,
}

impl Kubectl {
    /// For one test, in a namespace of its own.
    async fn of(namespace_: &'static str) -> Result<Self> {
        let lab = defined().await?;
        let client = lab.client().await?;
        namespace(&client, namespace_, json!({})).await?;
        Ok(Self { lab, client, namespace: namespace_ })
    }

    async fn run(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = assets::kubectl()?;
        // Caches and plugins of the user have no say.
        command.env("HOME", self.lab.folder().path()).env("KUBECONFIG", self.lab.kubeconfig());
        command.args(["--namespace", self.namespace]).args(arguments);
        Ok(tokio::task::spawn_blocking(move || command.output()).await??)
    }

    /// What it prints; an error if it fails.
    async fn say(&self, arguments: &[&str]) -> Result<String> {
        let output = self.run(arguments).await?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {}: {error}", arguments.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn path(&self, plural: &str, name: &str) -> String {
        format!("{}/{name}", collection(self.namespace, plural))
    }

    async fn create(&self, kind: &str, plural: &str, name: &str) -> Result<()> {
        let object = json!({"apiVersion": "tf.tungsten.io/v1alpha1", "kind": kind, "metadata": {"name": name}});
        send(&self.client, Method::POST, &collection(self.namespace, plural), JSON, object.to_string())
            .await?
            .accepted()
    }

    async fn patch(&self, path: &str, body: Value) -> Result<()> {
        send(&self.client, Method::PATCH, path, MERGE, body.to_string()).await?.accepted()
    }

    /// The status of an operator that says Ready about a generation.
    async fn report(&self, path: &str, generation: i64, ready: &str) -> Result<()> {
        let condition = json!({"type": "Ready", "status": ready, "reason": "Succeeded", "message": "", "observedGeneration": generation,
                               "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let status = json!({"observedGeneration": generation, "membersReady": "3/3", "conditions": [condition]});
        self.patch(&format!("{path}/status"), json!({"status": status})).await
    }
}

#[tokio::test]
async fn explain_shows_the_words_of_the_schema() -> Result<()> {
    let kubectl = Kubectl::of("explained").await?;
    // The API server publishes schemas a moment after it serves their kinds.
    let text = eventually("the schema to be published", SOON, async || {
        Ok(kubectl.say(&["explain", "zookeeper.spec.serviceConfiguration"]).await.ok())
    })
    .await?;
    for part in ["KIND:       Zookeeper", "clientPort\t<integer>", "Port for clients."] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    Ok(())
}

#[tokio::test]
async fn get_tf_lists_resources_of_every_kind_in_all_namespaces() -> Result<()> {
    let kubectl = Kubectl::of("listed").await?;
    kubectl.create("Zookeeper", "zookeepers", "zk").await?;
    kubectl.create("Vrouter", "vrouters", "vr").await?;
    kubectl.report(&kubectl.path("zookeepers", "zk"), 1, "True").await?;
    let text = kubectl.say(&["get", "tf", "-A"]).await?;
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAMESPACE", "NAME", "READY", "REASON", "MEMBERS", "VERSION", "AGE"], "{text}");
    let row = |name: &str| rows.iter().find(|row| row.starts_with(&["listed", name])).cloned().context(name.to_owned());
    assert_eq!(row("zookeeper.tf.tungsten.io/zk")?[2..5], ["True", "Succeeded", "3/3"], "{text}");
    assert_eq!(row("vrouter.tf.tungsten.io/vr")?.len(), 3, "nothing is known about it yet, but its age:\n{text}");
    Ok(())
}

#[tokio::test]
async fn short_names_and_scale_work() -> Result<()> {
    let kubectl = Kubectl::of("scaled-by-hand").await?;
    kubectl.create("Zookeeper", "zookeepers", "zk").await?;
    assert_eq!(kubectl.say(&["get", "tfzk", "-o", "name"]).await?.trim(), "zookeeper.tf.tungsten.io/zk");
    kubectl.say(&["scale", "zookeeper", "zk", "--replicas=5"]).await?;
    let spec = &get(&kubectl.client, &kubectl.path("zookeepers", "zk")).await?.body["spec"];
    assert_eq!(spec["commonConfiguration"]["replicas"], 5, "{spec}");
    Ok(())
}

#[tokio::test]
async fn wait_returns_when_the_current_generation_is_ready_and_not_before() -> Result<()> {
    let kubectl = Kubectl::of("waited-for").await?;
    kubectl.create("Zookeeper", "zookeepers", "zk").await?;
    let path = kubectl.path("zookeepers", "zk");
    let wait = async |limit: &str| {
        anyhow::Ok(kubectl.run(&["wait", "--for=condition=Ready", "zookeeper/zk", limit]).await?.status.success())
    };
    assert!(!wait("--timeout=1s").await?, "no operator has said anything");
    kubectl.report(&path, 1, "False").await?;
    assert!(!wait("--timeout=1s").await?, "Ready is False");

    let becomes_ready = async {
        // Long enough for kubectl to be there and watch; it returns by the watch if it is, at once if not.
        tokio::time::sleep(Duration::from_millis(500)).await;
        kubectl.report(&path, 1, "True").await
    };
    let (waited, reported) = tokio::join!(wait("--timeout=30s"), becomes_ready);
    reported?;
    assert!(waited?, "Ready became True");

    kubectl.patch(&path, json!({"spec": {"version": "another"}})).await?;
    assert!(!wait("--timeout=1s").await?, "Ready is about the generation before");
    kubectl.report(&path, 2, "True").await?;
    assert!(wait("--timeout=30s").await?, "Ready is about the current generation");
    Ok(())
}
