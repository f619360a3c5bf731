//! Resources that were stored under another definition and do not parse.

use anyhow::{Context as _, Result};
use k8s_openapi::{
    api::events::v1::Event, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;
use tf_api::kinds::ZOOKEEPER;
use tf_testing::{
    Cluster, Options,
    cluster::{BRING_UP, define},
    operators::{Install, Run},
    resources,
    wait::eventually,
};

use crate::support::{alone, merge, told};

#[tokio::test]
async fn a_stored_resource_that_does_not_parse_is_told_so_and_its_neighbour_is_served() -> Result<()> {
    let mut cluster = alone(Options::fleet(3, 0), "in-stored", &[]).await?;
    // As if an older definition had let everything in.
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let mut lax = definitions.get("zookeepers.tf.tungsten.io").await?;
    for version in &mut lax.spec.versions {
        let schema =
            version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()).context("no schema")?;
        *schema = serde_json::from_value(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}))?;
    }
    let patch = Patch::Merge(json!({"spec": {"versions": lax.spec.versions}}));
    definitions.patch("zookeepers.tf.tungsten.io", &PatchParams::default(), &patch).await?;
    for (name, spec) in [
        ("bad", json!({"commonConfiguration": {"tolerations": {"a": "map"}}})),
        ("worse", json!({"serviceConfiguration": {"clientPort": {"a": "map"}}})),
    ] {
        eventually("the lax definition to be served", BRING_UP, async || {
            Ok(resources::apply(&cluster.client, ZOOKEEPER, "in-stored", name, spec.clone()).await.ok())
        })
        .await?;
    }
    define(&cluster.lab, &[ZOOKEEPER]).await?;
    cluster.add(&["zookeeper-op"], &Install::default(), &Run::default()).await?;

    let message = told(&cluster, ZOOKEEPER, "bad", ("Stalled", "True", "InvalidSpec")).await?;
    assert!(message.contains("tolerations") && message.contains("kubectl edit"), "{message}");
    // The API server takes no status for this one: a rule of the schema fails on its spec.
    let note = eventually("an event about the other one", BRING_UP, async || event(&cluster, "worse").await).await?;
    assert!(note.contains("clientPort") && note.contains("kubectl edit"), "{note}");

    resources::apply(&cluster.client, ZOOKEEPER, "in-stored", "good", json!({})).await?;
    cluster.ready(ZOOKEEPER, "good").await?;

    // Corrected, with ports that are free: it is served like any other.
    let ports = json!({"clientPort": 12181, "electionPort": 13888, "serverPort": 12888, "adminPort": 12182});
    merge(&cluster, ZOOKEEPER, "worse", json!({"spec": {"serviceConfiguration": ports}})).await?;
    cluster.ready(ZOOKEEPER, "worse").await?;
    Ok(())
}

/// The note of an event about a resource.
async fn event(cluster: &Cluster, name: &str) -> Result<Option<String>> {
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let about = |event: &Event| event.regarding.as_ref().is_some_and(|object| object.name.as_deref() == Some(name));
    Ok(events.list(&ListParams::default()).await?.items.into_iter().find(about).and_then(|event| event.note))
}
