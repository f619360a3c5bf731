//! A component that others write to as well: another field manager, and an API server that does not know every field.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tf_api::kinds;
use tf_plan::object::{self, Kind};
use tf_testing::{
    Cluster, Mark,
    cluster::define_all,
    operators::{Install, Run},
    resources::{self, Resource},
    sample::has_turn,
};

use crate::{
    quiet::nothing_is_written,
    selective::turn,
    support::{FLEET, settled, uids},
};

/// A Manager of a ZooKeeper, which has this spec besides.
async fn manage(cluster: &Cluster, spec: Value) -> Result<()> {
    let spec = json!({
        "commonConfiguration": { "nodeSelector": cluster.control_plane() },
        "services": { "zookeeper": { "metadata": { "name": "zookeeper1" }, "spec": spec } },
    });
    resources::apply(&cluster.client, kinds::MANAGER, &cluster.namespace, "sdn", spec).await?;
    Ok(())
}

async fn operators(cluster: &mut Cluster) -> Result<()> {
    define_all(&cluster.lab).await?;
    cluster.nodes(1, 0).await?;
    cluster.add(&["manager-op", "zookeeper-op"], &Install::default(), &Run::default()).await
}

/// Server-side apply of part of the component's spec, as somebody who is not the Manager.
async fn colleague(cluster: &Cluster, spec: Value) -> Result<()> {
    let kind = Kind::custom(kinds::ZOOKEEPER);
    let body = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": { "name": "zookeeper1" }, "spec": spec,
    });
    let parameters = PatchParams::apply("colleague").force();
    resources::objects(&cluster.client, kind, &cluster.namespace)
        .patch("zookeeper1", &parameters, &Patch::Apply(&body))
        .await?;
    Ok(())
}

fn level(resource: &Resource) -> Option<&str> {
    resource.object.data.pointer("/spec/commonConfiguration/logLevel")?.as_str()
}

/// What the Manager says about a field that somebody else holds.
fn conflict(manager: &Resource) -> Option<&str> {
    let told = manager.status.conditions.iter().find(|condition| condition.reason == "FieldConflict")?;
    Some(&told.message)
}

/// Makes the Manager look at the component, without a change of either.
async fn wake(cluster: &Cluster) -> Result<()> {
    let touch = json!({ "metadata": { "annotations": { "touched": format!("{:08x}", rand::random::<u32>()) } } });
    let components = resources::objects(&cluster.client, Kind::custom(kinds::ZOOKEEPER), &cluster.namespace);
    components.patch("zookeeper1", &PatchParams::default(), &Patch::Merge(touch)).await?;
    Ok(())
}

/// Fails if manager-op writes within this time, though it is woken in the middle of it.
async fn manager_op_is_silent(cluster: &Cluster, begin: Mark, time: Duration) -> Result<()> {
    tokio::time::sleep(time / 2).await;
    wake(cluster).await?;
    tokio::time::sleep(time / 2).await;
    nothing_is_written(cluster, begin, &[&cluster.operator("manager-op")?.user]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_somebody_else_set_on_a_component_stays_and_the_manager_says_so_until_it_is_given_up() -> Result<()>
{
    if !has_turn()? {
        return Ok(());
    }
    let lab = FLEET.get().await?;
    let mut cluster = Cluster::empty(&lab, "shared").await?;
    operators(&mut cluster).await?;
    manage(&cluster, json!({})).await?;
    cluster.manager_ready("sdn").await?;
    colleague(&cluster, json!({ "commonConfiguration": { "logLevel": "debug" } })).await?;
    manage(&cluster, json!({ "commonConfiguration": { "logLevel": "error" } })).await?;

    let manager =
        cluster.until(kinds::MANAGER, "sdn", "telling of a conflict", |manager| conflict(manager).is_some()).await?;
    let told = conflict(&manager).context("no conflict")?;
    for word in ["zookeeper1", "spec.commonConfiguration.logLevel", "colleague"] {
        ensure!(told.contains(word), "{word} is not in: {told}");
    }
    ensure!(!manager.is_ready(), "what was asked for is not what there is: {}", manager.explain("Ready"));
    let begin = settled(&cluster, Duration::from_secs(2)).await?;
    manager_op_is_silent(&cluster, begin, Duration::from_secs(10)).await?;
    let component = cluster.get(kinds::ZOOKEEPER, "zookeeper1").await?;
    ensure!(level(&component) == Some("debug"), "the Manager took the field: {:?}", level(&component));
    let manager = cluster.get(kinds::MANAGER, "sdn").await?;
    ensure!(conflict(&manager).is_some(), "it forgot to say so: {}", resources::conditions(&manager));

    colleague(&cluster, json!({})).await?;
    let component = cluster.until(kinds::ZOOKEEPER, "zookeeper1", "as the Manager wants it", |component| {
        component.is_ready() && level(component) == Some("error")
    });
    component.await?;
    let manager = cluster.manager_ready("sdn").await?;
    ensure!(conflict(&manager).is_none(), "{}", resources::conditions(&manager));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_this_release_does_not_know_reaches_the_component_or_is_left_out_and_said_so() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let (lab, _turn) = turn().await?;
    let mut cluster = Cluster::empty(&lab, "unknown-field").await?;
    operators(&mut cluster).await?;
    // Two in one map: the API server names one of them at a time.
    manage(&cluster, json!({ "someNewField": "left out", "someOtherField": {"a": 1} })).await?;
    cluster.manager_ready("sdn").await?;
    let begin = settled(&cluster, Duration::from_secs(2)).await?;
    manager_op_is_silent(&cluster, begin, Duration::from_secs(15)).await?;
    let field = |resource: &Resource| resource.object.data["spec"]["someNewField"].clone();
    let component = cluster.get(kinds::ZOOKEEPER, "zookeeper1").await?;
    ensure!(field(&component).is_null(), "the definition knows the field: {}", field(&component));
    let manager = cluster.get(kinds::MANAGER, "sdn").await?;
    ensure!(manager.is_ready(), "{}", manager.explain("Ready"));
    let ignored = manager.explain("FieldsIgnored");
    ensure!([".spec.someNewField", ".spec.someOtherField"].iter().all(|it| ignored.contains(it)), "{ignored}");

    // A newer zookeeper-op brings a definition that has it.
    let pods = uids(&cluster.client, object::POD, "unknown-field").await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let place = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/someNewField";
    let add = json!([{ "op": "add", "path": place, "value": { "type": "string" } }]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(add)?);
    definitions.patch("zookeepers.tf.tungsten.io", &PatchParams::default(), &patch).await?;
    let arrived = |component: &Resource| field(component) == "new" && component.is_ready();
    manage(&cluster, json!({ "someNewField": "new" })).await?;
    cluster.until(kinds::ZOOKEEPER, "zookeeper1", "with the field", arrived).await?;
    let manager = cluster.manager_ready("sdn").await?;
    ensure!(manager.condition("FieldsIgnored").is_none(), "{}", manager.explain("FieldsIgnored"));
    let begin = settled(&cluster, Duration::from_secs(2)).await?;
    manager_op_is_silent(&cluster, begin, Duration::from_secs(5)).await?;
    ensure!(uids(&cluster.client, object::POD, "unknown-field").await? == pods, "pods were replaced for it");
    Ok(())
}
