//! Objects are written when something differs and at no other time; foreign edits are undone, and what is somebody
//! else's is left alone.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, PostParams},
};
use serde_json::{Value, json};
use tf_api::{kinds::ZOOKEEPER, names};
use tf_plan::object::{CONFIG_MAP, Kind, NODE, POD, POD_DISRUPTION_BUDGET, SERVICE, SERVICE_ACCOUNT, STATEFUL_SET};
use tf_testing::{
    operators::{Operator, Run},
    wait::eventually,
};

use crate::support::{FLEET, PROBE, PROMPT, SOON, Stage, lines, terminate};

/// A Zookeeper of three members that is Ready, and its operator.
async fn ensemble(stage: &Stage) -> Result<Operator> {
    stage.nodes(3).await?;
    let operator = stage.install("zookeeper-op", Run::default()).await?;
    stage.apply(ZOOKEEPER, "zookeeper1", json!({ "commonConfiguration": stage.placed() })).await?;
    stage.ready(ZOOKEEPER, "zookeeper1").await?;
    Ok(operator)
}

/// Makes the operator look at a resource, and waits until it has.
async fn look_again(stage: &Stage, operator: &Operator) -> Result<()> {
    let before = operator.metric("tf_reconcile_total", &[]).await?;
    let patch = json!({ "metadata": { "annotations": { names::ANNOTATION_RECONCILE: before.to_string() } } });
    stage.edit(Kind::custom(ZOOKEEPER), "zookeeper1", patch).await?;
    eventually("another pass", SOON, async || {
        Ok((operator.metric("tf_reconcile_total", &[]).await? > before).then_some(()))
    })
    .await
}

#[tokio::test]
async fn nothing_is_written_when_nothing_changed() -> Result<()> {
    let stage = Stage::set(FLEET.get().await?, "silent", &[ZOOKEEPER]).await?;
    let mut operator = ensemble(&stage).await?;
    terminate(&mut operator, SOON).await?;

    let mark = stage.mark().await?;
    let operator = stage.lab.operate("zookeeper-op", &stage.namespace, &Run::default()).await?;
    operator.ready().await?;
    eventually("the first pass after the restart", SOON, async || {
        Ok((operator.metric("tf_reconcile_total", &[r#"outcome="planned""#]).await? > 0.0).then_some(()))
    })
    .await?;
    look_again(&stage, &operator).await?;
    // What the watches deliver after the start has been worked off; from here on every pass has a cause.
    tokio::time::sleep(Duration::from_secs(1)).await;
    nobody_is_woken(&stage, &operator).await?;
    look_again(&stage, &operator).await?;

    let writes = stage.writes_since(mark, &operator.user).await?;
    assert!(writes.is_empty(), "{:#?}", lines(&writes));
    Ok(())
}

/// Irrelevant events lead to no pass. Other tests add nodes to the lab, and a new node is everybody's business: that may
/// spoil an attempt, but not each of several.
async fn nobody_is_woken(stage: &Stage, operator: &Operator) -> Result<()> {
    let mut woken = Vec::new();
    for _ in 0..5 {
        let passes = operator.metric("tf_reconcile_total", &[]).await?;
        a_hundred_irrelevant_events(stage).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        woken.push(operator.metric("tf_reconcile_total", &[]).await? - passes);
        if woken.last() == Some(&0.0) {
            return Ok(());
        }
    }
    bail!("somebody was woken by what is none of theirs: {woken:?} passes")
}

/// Objects of others come, change and go, and nodes send heartbeats.
async fn a_hundred_irrelevant_events(stage: &Stage) -> Result<()> {
    let maps = stage.api(CONFIG_MAP);
    stream::iter(0..25)
        .map(|number| {
            let maps = maps.clone();
            async move {
                let name = format!("foreign-{number}");
                let map: DynamicObject = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
                maps.create(&PostParams::default(), &map).await?;
                stage.edit(CONFIG_MAP, &name, json!({ "data": { "a": "b" } })).await?;
                stage.edit(NODE, "silent-0", json!({ "metadata": { "annotations": { "beat": name } } })).await?;
                maps.delete(&name, &DeleteParams::default()).await?;
                anyhow::Ok(())
            }
        })
        .buffer_unordered(8)
        .try_collect()
        .await
}

/// An object of the ensemble and what of it has to be as it was.
struct Guarded {
    kind: Kind,
    name: String,
    before: Value,
}

/// The fields that the operator may not lose: everything but what the API server and controllers add.
fn essence(object: &DynamicObject) -> Value {
    let mut data = object.data.clone();
    if let Some(fields) = data.as_object_mut() {
        fields.remove("status");
    }
    json!({
        "labels": object.labels(),
        "annotations": object.annotations(),
        "owners": object.owner_references(),
        "data": data,
    })
}

async fn guarded(stage: &Stage) -> Result<Vec<Guarded>> {
    let ours = ListParams::default().labels(&format!("{}=zookeeper-op", names::LABEL_MANAGED_BY));
    let mut found = Vec::new();
    for kind in [SERVICE_ACCOUNT, CONFIG_MAP, SERVICE, POD_DISRUPTION_BUDGET, STATEFUL_SET] {
        let objects = stage.api(kind).list(&ours).await?.items;
        ensure!(!objects.is_empty(), "no {} of ours", kind.kind);
        found.extend(objects.iter().map(|object| Guarded { kind, name: object.name_any(), before: essence(object) }));
    }
    Ok(found)
}

impl Guarded {
    async fn is_repaired(&self, stage: &Stage, edit: &str) -> Result<DynamicObject> {
        let what = format!("to be repaired after {edit}; it was {}", self.before);
        stage.object(self.kind, &self.name, &what, PROMPT, |object| essence(object) == self.before).await
    }
}

#[tokio::test]
async fn foreign_edits_and_deletions_are_repaired_at_once() -> Result<()> {
    let stage = Stage::set(FLEET.get().await?, "repaired", &[ZOOKEEPER]).await?;
    let operator = ensemble(&stage).await?;
    let objects = guarded(&stage).await?;
    let of = |kind: Kind, part: &str| {
        let found = objects.iter().find(|object| object.kind == kind && object.name.contains(part));
        found.with_context(|| format!("no {} {part}", kind.kind))
    };

    let edits = [
        (of(CONFIG_MAP, "zookeeper-files")?, json!({ "data": { "log4j.properties": "broken" } })),
        (of(CONFIG_MAP, "zookeeper-files")?, json!({ "data": { "log4j.properties": null } })),
        (of(CONFIG_MAP, "zookeeper-files")?, json!({ "metadata": { "annotations": null } })),
        (of(SERVICE, "")?, json!({ "spec": { "ports": [{ "name": "client", "port": 1 }] } })),
        (of(STATEFUL_SET, "")?, json!({ "spec": { "replicas": 2 } })),
        (of(STATEFUL_SET, "")?, json!({ "spec": { "template": { "spec": { "hostNetwork": false } } } })),
        (of(STATEFUL_SET, "")?, json!({ "spec": { "template": { "metadata": { "annotations": null } } } })),
        (of(POD_DISRUPTION_BUDGET, "")?, json!({ "spec": { "maxUnavailable": 3 } })),
        (of(POD_DISRUPTION_BUDGET, "")?, json!({ "metadata": { "ownerReferences": null } })),
        (of(SERVICE_ACCOUNT, "")?, json!({ "automountServiceAccountToken": true })),
        (of(SERVICE_ACCOUNT, "")?, json!({ "metadata": { "labels": { names::LABEL_MANAGED_BY: null } } })),
        (of(SERVICE, "")?, json!({ "metadata": { "labels": { names::LABEL_INSTANCE: "other" } } })),
    ];
    for (object, patch) in edits {
        let edited = stage.edit(object.kind, &object.name, patch.clone()).await?;
        ensure!(essence(&edited) != object.before, "{patch} is no edit of {}", object.name);
        object.is_repaired(&stage, &patch.to_string()).await?;
    }
    for object in &objects {
        let old = stage.api(object.kind).get(&object.name).await?;
        stage.api(object.kind).delete(&object.name, &DeleteParams::default()).await?;
        let new = object.is_repaired(&stage, "its deletion").await?;
        ensure!(new.uid() != old.uid(), "{} was not deleted", object.name);
    }

    // Pods of the deleted StatefulSet are collected, and made anew; after that nothing is left to do.
    stage.ready(ZOOKEEPER, "zookeeper1").await?;
    eventually("three pods of the new StatefulSet", SOON, async || {
        let pods = stage.api(POD).list(&ListParams::default()).await?.items;
        Ok((pods.len() == 3 && pods.iter().all(|pod| pod.metadata.deletion_timestamp.is_none())).then_some(()))
    })
    .await?;
    stage.ready(ZOOKEEPER, "zookeeper1").await?;
    tokio::time::sleep(Duration::from_secs(6)).await; // A status that only reports progress waits up to 5 s.
    let mark = stage.mark().await?;
    look_again(&stage, &operator).await?;
    let writes = stage.writes_since(mark, &operator.user).await?;
    assert!(writes.is_empty(), "{:#?}", lines(&writes));
    Ok(())
}

#[tokio::test]
async fn fields_that_others_add_stay() -> Result<()> {
    let stage = Stage::set(FLEET.get().await?, "shared-fields", &[PROBE]).await?;
    stage.install_probe(&[&stage.namespace]).await?;
    let operator = stage.probe(Run::default()).await?;
    stage.apply(PROBE, "a", json!({ "commonConfiguration": { "logLevel": "info" } })).await?;
    stage.ready(PROBE, "a").await?;
    let theirs = json!({
        "metadata": { "labels": { "team": "blue" }, "annotations": { "note": "keep" } },
        "data": { "theirs": "1" },
    });
    stage.edit(CONFIG_MAP, "a-redis-settings", theirs).await?;

    stage.apply(PROBE, "a", json!({ "commonConfiguration": { "logLevel": "debug" } })).await?;
    let map = stage
        .object(CONFIG_MAP, "a-redis-settings", "with the new level", PROMPT, |map| {
            map.data["data"]["level"] == "debug"
        })
        .await?;
    assert_eq!(map.data["data"]["theirs"], "1");
    assert_eq!(map.labels().get("team").map(String::as_str), Some("blue"));
    assert_eq!(map.annotations().get("note").map(String::as_str), Some("keep"));
    assert!(operator.process.is_running());
    Ok(())
}

/// A ConfigMap that looks like the probe's in every respect but its owner.
async fn decoy(stage: &Stage, name: &str, owner: Option<&DynamicObject>) -> Result<DynamicObject> {
    let mut map = stage.api(CONFIG_MAP).get("a-redis-settings").await?;
    map.metadata = kube::api::ObjectMeta {
        name: Some(name.into()),
        labels: map.metadata.labels,
        annotations: map.metadata.annotations,
        ..kube::api::ObjectMeta::default()
    };
    let mut map = serde_json::to_value(map)?;
    if let Some(owner) = owner {
        map["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": owner.name_any(), "uid": owner.uid(), "controller": true,
        }]);
    }
    Ok(stage.api(CONFIG_MAP).create(&PostParams::default(), &serde_json::from_value(map)?).await?)
}

#[tokio::test]
async fn what_is_no_longer_planned_goes_and_what_only_looks_like_ours_stays() -> Result<()> {
    let stage = Stage::set(FLEET.get().await?, "pruned", &[PROBE]).await?;
    stage.install_probe(&[&stage.namespace]).await?;
    let mut operator = stage.probe(Run::default()).await?;
    let with_extra = json!({ "serviceConfiguration": { "clusterName": "c" } });
    stage.apply(PROBE, "a", with_extra.clone()).await?;
    stage.ready(PROBE, "a").await?;
    let stranger = serde_json::from_value(json!({ "metadata": { "name": "stranger" } }))?;
    let stranger = stage.api(CONFIG_MAP).create(&PostParams::default(), &stranger).await?;
    let decoys = [decoy(&stage, "of-a-stranger", Some(&stranger)).await?, decoy(&stage, "of-nobody", None).await?];

    let gone = async || {
        eventually("the object that is not planned any more to go", PROMPT, async || {
            Ok(stage.api(CONFIG_MAP).get_opt("a-redis-extra").await?.is_none().then_some(()))
        })
        .await
    };
    stage.object(CONFIG_MAP, "a-redis-extra", "to exist", SOON, |_| true).await?;
    stage.apply(PROBE, "a", json!({})).await?;
    gone().await?;

    // An operator that was away when the spec changed finds out all the same.
    stage.apply(PROBE, "a", with_extra).await?;
    stage.object(CONFIG_MAP, "a-redis-extra", "to exist", PROMPT, |_| true).await?;
    terminate(&mut operator, SOON).await?;
    stage.apply(PROBE, "a", json!({})).await?;
    let operator = stage.probe(Run::default()).await?;
    gone().await?;
    for decoy in &decoys {
        let now = stage.api(CONFIG_MAP).get(&decoy.name_any()).await?;
        assert_eq!(now.resource_version(), decoy.resource_version(), "{} was touched", decoy.name_any());
    }
    assert!(operator.process.is_running());
    Ok(())
}

#[tokio::test]
async fn an_object_of_somebody_else_is_refused_by_name_and_the_resource_heals_when_it_goes() -> Result<()> {
    let stage = Stage::set(FLEET.get().await?, "not-owned", &[PROBE]).await?;
    stage.install_probe(&[&stage.namespace]).await?;
    let operator = stage.probe(Run::default()).await?;
    let theirs = json!({ "metadata": { "name": "a-redis-settings" }, "data": { "level": "theirs" } });
    let theirs = stage.api(CONFIG_MAP).create(&PostParams::default(), &serde_json::from_value(theirs)?).await?;

    stage.apply(PROBE, "a", json!({})).await?;
    let refused = stage
        .until(PROBE, "a", "refused", SOON, |resource| {
            resource.condition("Ready").is_some_and(|ready| ready.reason == "ObjectNotOwned")
        })
        .await?;
    let told = refused.explain("Ready");
    assert!(told.contains("a-redis-settings") && told.contains("nobody"), "{told}");
    assert!(refused.is("ConfigReady", "False") && refused.is("Degraded", "True"), "{}", refused.explain("ConfigReady"));
    let now = stage.api(CONFIG_MAP).get("a-redis-settings").await?;
    assert_eq!(now.resource_version(), theirs.resource_version());

    stage.api(CONFIG_MAP).delete("a-redis-settings", &DeleteParams::default()).await?;
    stage.ready(PROBE, "a").await?;
    assert!(operator.process.is_running());
    Ok(())
}
