//! What `kubectl tf status` tells of a cluster: read once, and followed.

use std::pin::pin;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use http::Method;
use serde_json::json;
use tf_cli::cluster::{self, Found};
use tf_cli::status::{Daemons, text, trees};
use tokio::time::timeout;

use crate::support::{JSON, MERGE, SOON, collection, defined, namespace, send};

const NAMESPACE: &str = "told";

#[tokio::test]
async fn status_tells_what_there_is_and_each_change_of_it() -> Result<()> {
    let lab = defined().await?;
    let client = lab.client().await?;
    namespace(&client, NAMESPACE, json!({})).await?;
    let told = |found: &Found| text(&trees(&found.resources), &found.notes, Daemons::All);
    assert_eq!(told(&cluster::read(&client, Some(NAMESPACE)).await?), "no resources of Tungsten Fabric\n");

    let mut changes = pin!(cluster::watch(&client, Some(NAMESPACE)));
    let mut until = async |wanted: &str| {
        timeout(SOON, async {
            while let Some(found) = changes.next().await {
                if told(&found) == wanted {
                    return anyhow::Ok(());
                }
            }
            anyhow::bail!("the watch ended")
        })
        .await
        .with_context(|| format!("not told: {wanted}"))?
    };
    until("no resources of Tungsten Fabric\n").await?;

    let zookeepers = collection(NAMESPACE, "zookeepers");
    let zookeeper = json!({"apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Zookeeper", "metadata": {"name": "zk"}});
    send(&client, Method::POST, &zookeepers, JSON, zookeeper.to_string()).await?.accepted()?;
    until("namespace told\nZookeeper zk  no operator has reported\n").await?;

    let condition = json!({"type": "Ready", "status": "False", "reason": "ReplicasUnavailable", "message": "zk-2 is down",
                           "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"status": {"observedGeneration": 1, "membersReady": "2/3", "conditions": [condition]}});
    let path = format!("{zookeepers}/zk/status");
    send(&client, Method::PATCH, &path, MERGE, status.to_string()).await?.accepted()?;
    let expected =
        "namespace told\nZookeeper zk  ReplicasUnavailable  2/3\n    Ready=False ReplicasUnavailable: zk-2 is down\n";
    until(expected).await?;
    assert_eq!(told(&cluster::read(&client, Some(NAMESPACE)).await?), expected);

    send(&client, Method::DELETE, &format!("{zookeepers}/zk"), JSON, String::new()).await?.accepted()?;
    until("no resources of Tungsten Fabric\n").await
}
