//! The API server cannot be reached for a minute.

use std::time::Duration;

use anyhow::{Result, ensure};
use kube::api::DeleteParams;
use tf_plan::object::CONFIG_MAP;
use tf_testing::wait::eventually;

use crate::{
    faults::Scene,
    support::{PROBE, PROMPT, level, settings},
};

/// What the issue asks for: this long, every connection is reset.
const OUTAGE: Duration = Duration::from_mins(1);
/// Longest pause of a watch between two attempts, with its jitter, and a little for the attempt itself.
const RECOVERY: Duration = Duration::from_secs(45);

#[tokio::test]
async fn an_api_server_that_is_unreachable_for_a_minute_is_waited_out() -> Result<()> {
    let scene = Scene::set("outage").await?;
    let (stage, operator) = (&scene.stage, &scene.operator);
    scene.proxy.set_reachable(false);
    let end = tokio::time::Instant::now() + OUTAGE;
    let asked = scene.proxy.seen().len();
    stage.apply(PROBE, "a", level("debug")).await?;
    stage.api(CONFIG_MAP).delete(&settings("a"), &DeleteParams::default()).await?;

    // Nobody restarts it for what a restart would not mend, and it does not take itself for the leader any more.
    let mut led = true;
    while tokio::time::Instant::now() < end {
        ensure!(operator.process.is_running(), "the operator ended:\n{}", operator.process.tail(20));
        let (code, _) = operator.get("/healthz").await?;
        assert_eq!(code, 200, "the kubelet would restart it");
        led = operator.metric("tf_leader", &[]).await? > 0.0;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(!led, "it leads without having renewed its lease for a minute");
    assert_eq!(scene.proxy.seen().len(), asked, "the API server could be reached");

    scene.proxy.set_reachable(true);
    eventually("it to lead again", RECOVERY, async || {
        Ok((operator.metric("tf_leader", &[]).await? > 0.0).then_some(()))
    })
    .await?;
    stage.acted("a", "debug", RECOVERY).await?;
    stage.ready(PROBE, "a").await?;
    stage.apply(PROBE, "a", level("warning")).await?;
    stage.acted("a", "warning", PROMPT).await?;
    scene.nothing_wrong_was_done(&["a"]).await
}
