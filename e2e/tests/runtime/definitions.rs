//! Definitions may be missing when an operator starts, come one by one, go while it runs, and come back.
//!
//! A lab of its own: other tests need the same definitions to stay.

use std::sync::Arc;

use anyhow::{Result, ensure};
use e2e::probe::cluster_role_name;
use kube::api::DeleteParams;
use serde_json::json;
use tf_api::kinds::ZOOKEEPER;
use tf_plan::object::CLUSTER_ROLE;
use tf_testing::{Lab, Options, operators::Run, resources::Resource, wait::eventually};

use crate::support::{DEFINITION, FOUND, PROBE, PROMPT, SOON, Stage, define, level};

fn zookeeper_is(resource: &Resource, reason: &str, words: &str) -> bool {
    let found = resource.condition("ZookeeperReady");
    found.is_some_and(|found| found.reason == reason && found.message.contains(words))
}

#[tokio::test]
async fn definitions_come_late_go_and_come_back_without_a_restart() -> Result<()> {
    let lab = Arc::new(Lab::start(Options::api()).await?);
    let stage = Stage::set(lab, "bare", &[]).await?;
    stage.install_probe(&["bare"]).await?;
    let operator = stage.start_probe(Run::default()).await?;
    eventually("the process to say how it is", SOON, async || Ok(operator.get("/healthz").await.ok())).await?;
    assert_eq!(operator.get("/healthz").await?.0, 200, "without its definition there is nothing to restart for");
    assert_eq!(operator.get("/readyz").await?.0, 503);

    define(&stage.lab, PROBE).await?;
    operator.ready().await?;
    stage.apply(PROBE, "a", level("info")).await?;
    let alone = stage.ready(PROBE, "a").await?;
    assert!(zookeeper_is(&alone, "NotRequested", "not installed"), "{}", alone.explain("ZookeeperReady"));

    define(&stage.lab, ZOOKEEPER).await?;
    stage.apply(ZOOKEEPER, "zookeeper1", json!({})).await?;
    let told = |a: &Resource| zookeeper_is(a, "NotYetReported", "zookeeper1");
    stage.until(PROBE, "a", "aware of zookeeper1", FOUND, told).await?;
    stage.apply(PROBE, "a", level("debug")).await?;
    stage.acted("a", "debug", PROMPT).await?;

    // A definition goes with all its resources, and these go when their finalizers are off.
    let definitions = stage.api(DEFINITION);
    let name = format!("{}.{}", PROBE.plural, tf_api::GROUP);
    definitions.delete(&name, &DeleteParams::default()).await?;
    eventually("the definition to go", SOON, async || Ok(definitions.get_opt(&name).await?.is_none().then_some(())))
        .await?;
    let role = cluster_role_name("bare", "a");
    assert!(stage.api(CLUSTER_ROLE).get_opt(&role).await?.is_none(), "it was left behind");
    eventually("the operator to notice", SOON, async || Ok((operator.get("/readyz").await?.0 == 503).then_some(())))
        .await?;
    assert_eq!(operator.get("/healthz").await?.0, 200);

    define(&stage.lab, PROBE).await?;
    // Another name: without controllers nobody collects what the first resource owned.
    stage.apply(PROBE, "b", level("info")).await?;
    stage.until(PROBE, "b", "Ready", FOUND, Resource::is_ready).await?;
    assert_eq!(operator.get("/readyz").await?.0, 200);
    stage.apply(PROBE, "b", level("debug")).await?;
    stage.acted("b", "debug", PROMPT).await?;
    ensure!(operator.process.is_running(), "it ended");
    Ok(())
}
