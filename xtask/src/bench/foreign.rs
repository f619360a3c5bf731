//! Objects of strangers in the namespace of the cluster, to see that they cost an operator nothing.

use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{Api, Client, api::PostParams};
use serde_json::json;

use super::bringup::NAMESPACE;

/// How many requests are under way.
const PARALLEL: usize = 16;

/// Time for an operator to take in what it should not.
const NOTICE: Duration = Duration::from_secs(15);

/// Adds `count` Secrets of 1 KiB and as many Pods, which nobody schedules.
pub async fn add(client: &Client, count: u32) -> Result<()> {
    println!("adding {count} Secrets and {count} Pods of strangers");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let payload = "x".repeat(1024);
    stream::iter(0..count)
        .map(|number| {
            let (secrets, pods, payload) = (&secrets, &pods, &payload);
            async move {
                let labels = json!({"app.kubernetes.io/name": "stranger"});
                let secret = json!({
                    "metadata": {"name": format!("stranger-{number}"), "labels": labels},
                    "stringData": {"payload": payload},
                });
                let pod = json!({
                    "metadata": {"name": format!("stranger-{number}"), "labels": labels},
                    "spec": {"schedulerName": "nobody", "containers": [{"name": "stranger", "image": "stranger"}]},
                });
                secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
                pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
                anyhow::Ok(())
            }
        })
        .buffer_unordered(PARALLEL)
        .try_for_each(async |()| Ok(()))
        .await?;
    tokio::time::sleep(NOTICE).await;
    Ok(())
}
