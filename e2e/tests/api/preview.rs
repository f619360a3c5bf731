//! What `kubectl tf plan` tells of a manifest: an API server checks it and stores nothing, what is there already stays as it is, and a
//! change shows what it changes.

use anyhow::{Context as _, Result, ensure};
use http::Method;
use jiff::Timestamp;
use kube::Client;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use tf_cli::plan::{self, Change, Report};
use tf_cli::rehearsal::{Rehearsal, rehearse};
use tf_plan::object::Object;

use crate::support::{APPLY, JSON, collection, defined, get, namespace, send};

const NAMESPACE: &str = "preview";

/// No node exists here; those of the manifest count.
const NODE: &str = "
---
apiVersion: v1
kind: Node
metadata: {name: cp1, labels: {node-role.kubernetes.io/control-plane: ''}}
status: {addresses: [{type: InternalIP, address: 192.0.2.1}]}
";

fn manifest(resource: &Value) -> Result<Vec<DynamicObject>> {
    Ok(plan::read(&format!("{resource}{NODE}"), NAMESPACE)?)
}

fn zookeeper(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Zookeeper", "metadata": {"name": name}, "spec": spec})
}

async fn told(client: &Client, resource: &Value) -> Result<Rehearsal> {
    rehearse(client, manifest(resource)?, "cluster.local", Timestamp::now()).await
}

/// The only report, and the notes are none.
fn only(rehearsal: Rehearsal) -> Result<Report> {
    ensure!(rehearsal.notes.is_empty(), "{:?}", rehearsal.notes);
    let [report] = <[Report; 1]>::try_from(rehearsal.reports).map_err(|all| anyhow::anyhow!("{all:?}"))?;
    Ok(report)
}

fn text(report: Report) -> String {
    plan::text(&[report], &[])
}

/// Applies an object as its operator would.
async fn apply(client: &Client, object: &Object) -> Result<()> {
    let root = if object.kind.group.is_empty() { "/api" } else { "/apis" };
    let (version, plural, name) = (object.kind.api_version(), object.kind.plural, &object.name);
    let path = format!("{root}/{version}/namespaces/{NAMESPACE}/{plural}/{name}?fieldManager=zookeeper-op&force=true");
    send(client, Method::PATCH, &path, APPLY, object.body.to_string()).await?.accepted().with_context(|| path)
}

#[tokio::test]
async fn a_preview_changes_nothing_agrees_with_what_is_there_and_shows_what_a_change_changes() -> Result<()> {
    let lab = defined().await?;
    let client = lab.client().await?;
    namespace(&client, NAMESPACE, json!({})).await?;
    let zookeepers = collection(NAMESPACE, "zookeepers");

    let refused = told(&client, &zookeeper("zk", &json!({"serviceConfiguration": {"clientPort": 2888}}))).await;
    let refused = format!("{:#}", refused.err().context("it was not refused")?);
    ensure!(
        refused.starts_with("the API server refuses Zookeeper zk: ") && refused.contains("must differ"),
        "{refused}"
    );

    let plain = zookeeper("zk", &json!({}));
    let report = only(told(&client, &plain).await?)?;
    ensure!(report.preview.is_whole(), "{report:?}");
    ensure!(
        !report.objects.is_empty() && report.objects.iter().all(|(_, change)| *change == Change::Created),
        "{report:?}"
    );
    let stored = get(&client, &zookeepers).await?.body;
    ensure!(stored["items"] == json!([]), "it was stored: {stored}");
    let secrets = get(&client, &format!("/api/v1/namespaces/{NAMESPACE}/secrets")).await?.body;
    ensure!(secrets["items"] == json!([]), "it was stored: {secrets}");

    send(&client, Method::POST, &zookeepers, JSON, plain.to_string()).await?.accepted()?;
    let report = only(told(&client, &plain).await?)?;
    for object in report.preview.objects() {
        apply(&client, object).await?;
    }
    let report = only(told(&client, &plain).await?)?;
    ensure!(report.is_done(), "{}", text(report));

    let louder = zookeeper("zk", &json!({"commonConfiguration": {"logLevel": "debug"}}));
    let said = text(only(told(&client, &louder).await?)?);
    ensure!(said.contains("~ ConfigMap preview/zk-zookeeper-files\n") && said.contains("+ "), "{said}");
    ensure!(!said.contains("are recreated"), "{said}");

    let containers = json!([{"name": "zookeeper", "image": "example/zookeeper:2"}]);
    let other = zookeeper("zk", &json!({"serviceConfiguration": {"containers": containers}}));
    let said = text(only(told(&client, &other).await?)?);
    ensure!(
        said.contains("~ StatefulSet preview/zk-zookeeper-statefulset, its pods are recreated one at a time\n"),
        "{said}"
    );
    ensure!(said.contains("image: example/zookeeper:2"), "{said}");

    let uid = get(&client, &format!("{zookeepers}/zk")).await?.body["metadata"]["uid"].clone();
    let owner = json!({"apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Zookeeper", "name": "zk", "uid": uid, "controller": true});
    let left =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "left", "ownerReferences": [owner]}});
    let maps = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    send(&client, Method::POST, &maps, JSON, left.to_string()).await?.accepted()?;
    let said = text(only(told(&client, &plain).await?)?);
    ensure!(said.contains("  - ConfigMap preview/left\n") && said.contains(" 1 removed, "), "{said}");
    Ok(())
}
