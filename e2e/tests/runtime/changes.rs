//! Changes of a plan: a field that is planned no more goes, a paused resource is left alone in the middle of a roll-out, and
//! an object that is on its way out is waited for.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use tf_api::kinds::{MANAGER, ZOOKEEPER};
use tf_plan::object::{CONFIG_MAP, Kind, POD};
use tf_testing::{operators::Run, wait::eventually};

use crate::support::{API, FLEET, PROBE, PROMPT, SOON, Stage, level, settings, terminate};

/// A Manager with one component, which has this spec.
fn manager(component: &Value) -> Value {
    json!({ "services": { "zookeeper": { "metadata": { "name": "zookeeper1" }, "spec": component } } })
}

#[tokio::test]
async fn a_field_that_is_planned_no_more_goes_also_while_the_operator_was_away() -> Result<()> {
    let stage = Stage::set(API.get().await?, "removed-field", &[MANAGER, ZOOKEEPER]).await?;
    let mut operator = stage.install("manager-op", Run::default()).await?;
    let child = async |what: &str, with: bool| {
        let kind = Kind::custom(ZOOKEEPER);
        stage
            .object(kind, "zookeeper1", what, PROMPT, |child| {
                let common = &child.data["spec"]["commonConfiguration"];
                let service = &child.data["spec"]["serviceConfiguration"];
                // The list itself stays, and is replaced as a whole.
                let image = service["containers"][0]["image"].is_string();
                let moved = service["clientPort"] == 2200;
                [common["logLevel"].is_string(), common["tolerations"].is_array(), moved, image] == [with; 4]
            })
            .await
    };
    let settings = json!({ "logLevel": "debug", "tolerations": [{ "key": "a", "operator": "Exists" }] });
    let containers = json!([{ "name": "zookeeper", "image": "registry.example/zookeeper:1" }]);
    let service = json!({ "clientPort": 2200, "containers": containers });
    let full = manager(&json!({ "commonConfiguration": settings, "serviceConfiguration": service }));
    // Not by server-side apply, which makes a null of an object that loses all its fields.
    let none = json!({ "commonConfiguration": null, "serviceConfiguration": { "clientPort": null, "containers": [{ "name": "zookeeper" }] } });
    let none = json!({ "spec": { "services": { "zookeeper": { "spec": none } } } });
    let remove = async || stage.edit(Kind::custom(MANAGER), "sdn", none.clone()).await;
    stage.apply(MANAGER, "sdn", full.clone()).await?;
    child("to be made", true).await?;
    remove().await?;
    child("to lose the fields", false).await?;

    stage.apply(MANAGER, "sdn", full).await?;
    child("to have the fields again", true).await?;
    terminate(&mut operator, SOON).await?;
    remove().await?;
    let operator = stage.lab.operate("manager-op", &stage.namespace, &Run::default()).await?;
    operator.ready().await?;
    child("to lose the fields after the restart", false).await?;
    Ok(())
}

/// Pods of the test by name, with their uids.
async fn pods(stage: &Stage) -> Result<BTreeMap<String, Option<String>>> {
    let pods = stage.api(POD).list(&ListParams::default()).await?.items;
    Ok(pods.into_iter().map(|pod| (pod.name_any(), pod.uid())).collect())
}

#[tokio::test]
async fn a_pause_stops_a_roll_out_between_two_members_and_its_end_completes_it() -> Result<()> {
    let stage = Stage::set(FLEET.get().await?, "paused-roll-out", &[ZOOKEEPER]).await?;
    stage.nodes(3).await?;
    let _operator = stage.install("zookeeper-op", Run::default()).await?;
    let spec = |image: &str, paused: bool| {
        let containers = json!([{ "name": "zookeeper", "image": image }]);
        json!({
            "commonConfiguration": stage.placed(), "paused": paused,
            "serviceConfiguration": { "containers": containers },
        })
    };
    stage.apply(ZOOKEEPER, "zookeeper1", spec("registry.example/zookeeper:1", false)).await?;
    stage.ready(ZOOKEEPER, "zookeeper1").await?;
    let first = pods(&stage).await?;
    let replaced = async |pods: BTreeMap<String, Option<String>>| {
        first.iter().filter(|(name, uid)| pods.get(*name) != Some(uid)).count()
    };

    stage.apply(ZOOKEEPER, "zookeeper1", spec("registry.example/zookeeper:2", false)).await?;
    eventually("a member to be restarted", SOON, async || Ok((replaced(pods(&stage).await?).await > 0).then_some(())))
        .await?;
    stage.apply(ZOOKEEPER, "zookeeper1", spec("registry.example/zookeeper:2", true)).await?;
    stage.until(ZOOKEEPER, "zookeeper1", "paused", SOON, |resource| resource.is("Paused", "True")).await?;
    let at_pause = replaced(pods(&stage).await?).await;
    // Long enough for all the others: each takes about a second.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let after = replaced(pods(&stage).await?).await;
    assert!(after < 3, "the roll-out went on to its end");
    assert_eq!(after, at_pause, "members were restarted during the pause");

    stage.apply(ZOOKEEPER, "zookeeper1", spec("registry.example/zookeeper:2", false)).await?;
    eventually("all members to be restarted", SOON, async || {
        Ok((replaced(pods(&stage).await?).await == 3).then_some(()))
    })
    .await?;
    stage.ready(ZOOKEEPER, "zookeeper1").await?;
    Ok(())
}

/// Deletes a resource of the probe's kind and waits until it is gone.
async fn delete(stage: &Stage, name: &str) -> Result<()> {
    let resources = stage.api(Kind::custom(PROBE));
    resources.delete(name, &DeleteParams::default()).await?;
    eventually("the resource to be gone", SOON, async || Ok(resources.get_opt(name).await?.is_none().then_some(())))
        .await
}

/// Without the garbage collector, which this lab lacks, leftovers stay until somebody removes them.
#[tokio::test]
async fn what_a_former_resource_of_the_same_name_left_is_waited_for_and_not_called_a_strangers() -> Result<()> {
    let stage = Stage::set(API.get().await?, "leftover", &[PROBE]).await?;
    stage.install_probe(&[&stage.namespace]).await?;
    let _operator = stage.probe(Run::default()).await?;
    stage.apply(PROBE, "a", level("info")).await?;
    stage.ready(PROBE, "a").await?;
    let former = stage.api(CONFIG_MAP).get(&settings("a")).await?;
    delete(&stage, "a").await?;

    stage.apply(PROBE, "a", level("info")).await?;
    let waiting = stage
        .until(PROBE, "a", "waiting for what is left", SOON, |resource| {
            resource.explain("ConfigReady").contains("of a former resource of this name")
        })
        .await?;
    assert!(!waiting.is_ready() && waiting.is("Degraded", "False"), "{}", waiting.explain("Degraded"));
    stage.api(CONFIG_MAP).delete(&settings("a"), &DeleteParams::default()).await?;
    stage.ready(PROBE, "a").await?;
    let new = stage.api(CONFIG_MAP).get(&settings("a")).await?;
    assert_ne!(new.uid(), former.uid());
    Ok(())
}

#[tokio::test]
async fn an_object_that_cannot_go_yet_is_told_and_made_anew_when_it_has_gone() -> Result<()> {
    let stage = Stage::set(API.get().await?, "terminating", &[PROBE]).await?;
    stage.install_probe(&[&stage.namespace]).await?;
    let _operator = stage.probe(Run::default()).await?;
    stage.apply(PROBE, "a", level("info")).await?;
    stage.ready(PROBE, "a").await?;
    let hold = json!({ "metadata": { "finalizers": ["e2e.tungsten.io/hold"] } });
    let old = stage.edit(CONFIG_MAP, &settings("a"), hold).await?;
    stage.api(CONFIG_MAP).delete(&settings("a"), &DeleteParams::default()).await?;
    stage
        .until(PROBE, "a", "telling of the deletion", SOON, |resource| {
            let told = resource.explain("ConfigReady");
            told.contains("being deleted") && told.contains(&settings("a")) && !resource.is("Paused", "True")
        })
        .await?;
    let release = json!({ "metadata": { "finalizers": null } });
    stage.edit(CONFIG_MAP, &settings("a"), release).await?;
    stage.ready(PROBE, "a").await?;
    let new = stage.acted("a", "info", SOON).await?;
    assert_ne!(new.uid(), old.uid());
    Ok(())
}

/// A status is about one resource and not about its name.
#[tokio::test]
async fn a_resource_that_is_replaced_begins_with_a_status_of_its_own() -> Result<()> {
    let stage = Stage::set(API.get().await?, "replaced", &[PROBE]).await?;
    stage.install_probe(&[&stage.namespace]).await?;
    let _operator = stage.probe(Run::default()).await?;
    let resources = stage.api(Kind::custom(PROBE));
    for round in 0..5 {
        stage.apply(PROBE, "a", level("info")).await?;
        // Not waited for: the deletion comes in the middle of the first passes.
        delete(&stage, "a").await?;
        let unseen = json!({
            "apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Redis", "metadata": { "name": "a" }, "spec": { "paused": true },
        });
        let created = resources.create(&PostParams::default(), &serde_json::from_value(unseen)?).await?;
        let seen = stage
            .until(PROBE, "a", "paused", SOON, |resource| resource.is("Paused", "True"))
            .await
            .with_context(|| format!("round {round}"))?;
        assert_eq!(seen.object.uid(), created.uid());
        assert_ne!(seen.object.data["status"]["initialized"], json!(true), "it was never brought up");
        delete(&stage, "a").await?;
    }
    Ok(())
}
