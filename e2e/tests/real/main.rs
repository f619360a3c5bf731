//! Real nodes keep their promises: what the tests of the daemons build on.

// Says to clippy that the helpers below are tests, too, and may unwrap.
#![cfg(test)]

mod access;
mod cassandra;
mod cni;
mod crash;
mod faults;
mod former;
mod ipv6;
#[path = "../shared/kubectl_tf.rs"]
mod kubectl_tf;
mod lifecycle;
mod managers;
#[path = "../shared/picture.rs"]
mod picture;
mod pods;
mod probes;
mod rabbitmq;
mod redis;
mod removal;
mod rest;
mod secrets;
mod store;
mod tls;
mod told;
mod vhost0;
mod whole;
mod zookeeper;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, LogParams};
use tf_testing::real::image;
use tf_testing::wait::eventually;
use tf_testing::{Lab, Options, RealNode, SharedLab};
use tokio::sync::Mutex;

/// Three nodes, for tests that leave them as they are.
static NODES: SharedLab = SharedLab::new(|| Options::real(3));

/// For what needs a second or two when the machine is not otherwise busy.
const SOON: Duration = Duration::from_secs(30);

/// The image of the pods here.
const TOOLS: &str = "localhost/tools:lab";

/// Loads [`TOOLS`] into the nodes that run. Tests that stop or replace nodes begin with it, too: else it would happen meanwhile.
async fn load_tools(lab: &Lab) -> Result<()> {
    // Tests that share a lab would write the same file, and containerd takes an image from one of them only.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
    let _guard = ONE_AT_A_TIME.lock().await;
    let folder = lab.folder().path().to_owned();
    let loaded = folder.join("tools.loaded");
    if loaded.exists() {
        return Ok(());
    }
    let archive: PathBuf = tokio::task::spawn_blocking(move || image::tools(&folder, TOOLS)).await??;
    lab.real_nodes()?.load(&[archive]).await?;
    Ok(std::fs::write(loaded, "")?)
}

/// A pod of [`TOOLS`] in `default` on a node, with a script as its command and further fields of the spec. Returned when
/// it is Ready.
async fn run(lab: &Lab, name: &str, node: &str, script: &str, more: &str) -> Result<Pod> {
    run_with(lab, name, node, script, more, "").await
}

/// The same, with further fields of its container.
async fn run_with(lab: &Lab, name: &str, node: &str, script: &str, more: &str, container: &str) -> Result<Pod> {
    lab.apply(&format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 5
  {more}
  containers:
  - name: main
    image: '{TOOLS}'
    imagePullPolicy: Never
    command: [sh, -c, {script:?}]
    {container}
"
    ))
    .await?;
    ready(lab, name, SOON).await
}

/// Waits until a pod is Ready.
async fn ready(lab: &Lab, name: &str, limit: Duration) -> Result<Pod> {
    let pods: Api<Pod> = Api::default_namespaced(lab.client().await?);
    let mut last = None;
    eventually(&format!("pod {name} to be Ready"), limit, async || {
        last = pods.get_status(name).await?.status;
        let conditions = last.iter().flat_map(|status| status.conditions.iter().flatten());
        let ready = conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
        if ready { Ok(Some(pods.get(name).await?)) } else { Ok(None) }
    })
    .await
    .with_context(|| format!("{last:#?}"))
}

/// What a pod has said, once it has said `what`.
async fn says(lab: &Lab, name: &str, what: &str) -> Result<String> {
    let pods: Api<Pod> = Api::default_namespaced(lab.client().await?);
    let mut log = String::new();
    eventually(&format!("{name} to say {what:?}"), SOON, async || {
        log = pods.logs(name, &LogParams::default()).await?;
        Ok(log.contains(what).then_some(()))
    })
    .await
    .with_context(|| log.clone())?;
    Ok(log)
}

/// Whether something listens on a port, as a node sees it.
async fn reaches(node: &RealNode, address: IpAddr, port: u16) -> bool {
    let connect = format!("exec 3<>/dev/tcp/{address}/{port}");
    node.run("timeout", &["2", "bash", "-c", &connect]).await.is_ok()
}
