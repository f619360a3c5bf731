//! The kubelet runs commands in containers: to see whether they are ready, and before it ends them.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams};
use tf_testing::wait::gone;

use crate::{NODES, SOON, load_tools, run_with};

#[tokio::test]
async fn a_pod_is_ready_when_the_command_of_its_probe_succeeds_and_not_before() -> Result<()> {
    let lab = NODES.get().await?;
    load_tools(&lab).await?;
    let probe = "readinessProbe: {exec: {command: [cat, /ready]}, periodSeconds: 1}";
    let pod = run_with(&lab, "probed", "node-1", "sleep 4; touch /ready; sleep 600", "", probe).await?;
    let status = pod.status.context("status")?;
    let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready").context("Ready")?;
    let became_ready = ready.last_transition_time.as_ref().context("a time")?.0;
    let running = status.container_statuses.iter().flatten().next().and_then(|container| container.state.as_ref());
    let started = running.and_then(|state| state.running.as_ref()?.started_at.as_ref()).context("running")?.0;
    // Both are in whole seconds.
    assert!(became_ready.duration_since(started).as_secs() >= 3, "started {started}, Ready {became_ready}");
    Ok(())
}

#[tokio::test]
async fn a_pod_has_its_last_word_before_it_is_ended() -> Result<()> {
    let lab = NODES.get().await?;
    load_tools(&lab).await?;
    let volume = "volumes: [{name: words, hostPath: {path: /var/lib/words, type: DirectoryOrCreate}}]";
    let container = "volumeMounts: [{name: words, mountPath: /words}]
    lifecycle: {preStop: {exec: {command: [sh, -c, 'sleep 2; echo finalization >/words/last']}}}";
    let pod = run_with(&lab, "speaker", "node-2", "sleep 600", volume, container).await?;
    let pods: Api<Pod> = Api::default_namespaced(lab.client().await?);
    pods.delete("speaker", &DeleteParams::default()).await?;
    gone(&pods, &pod, SOON).await?;
    let words = lab.real_nodes()?.node("node-2")?.run("cat", &["/var/lib/words/last"]).await?;
    assert_eq!(words, "finalization\n");
    Ok(())
}
