//! The definitions as the API server takes them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use serde_json::{Value, json};
use tf_api::kinds;

use crate::support::{APPLY, MERGE, PARALLEL, collection, define, defined, definitions, get, namespace, send};

#[tokio::test]
async fn every_definition_is_taken_without_a_warning_and_a_second_time_without_a_change() -> Result<()> {
    let lab = defined().await?;
    let client = lab.client().await?;
    let apply_twice = async |definition: String| {
        let first = define(&client, definition.clone(), "twice").await?;
        first.accepted()?;
        let second = define(&client, definition, "twice").await?;
        anyhow::Ok([first, second])
    };
    let answers: Vec<_> =
        stream::iter(definitions()?).map(apply_twice).buffer_unordered(PARALLEL).try_collect().await?;
    assert_eq!(answers.len(), kinds::ALL.len());
    for [first, second] in answers {
        let name = &second.body["metadata"]["name"];
        assert_eq!(first.warnings, Vec::<String>::new(), "{name}");
        assert_eq!(first.body["metadata"]["resourceVersion"], second.body["metadata"]["resourceVersion"], "{name}");
        let conditions = second.body["status"]["conditions"].as_array().context("no conditions")?;
        let statuses: BTreeMap<_, _> = conditions
            .iter()
            .filter_map(|condition| Some((condition["type"].as_str()?, condition["status"].as_str()?)))
            .collect();
        // A schema with a mistake in it is served all the same, and told by a third condition.
        assert_eq!(statuses, [("Established", "True"), ("NamesAccepted", "True")].into(), "{name}: {conditions:?}");
    }
    Ok(())
}

/// Applying what is there already must not wake anybody, whoever does it.
///
/// The first write after the creation stores the default of `status.observedGeneration`, which the API server shows from
/// the beginning and stores only then. In life that write is the first status of the operator, so it is here, too.
#[tokio::test]
async fn a_resource_applied_again_is_not_written_again() -> Result<()> {
    let lab = defined().await?;
    let client = lab.client().await?;
    namespace(&client, "again", json!({})).await?;
    for kind in kinds::ALL {
        let path = format!("{}/same", collection("again", kind.plural));
        let options = "fieldManager=user&fieldValidation=Strict";
        let mut object = json!({"apiVersion": "tf.tungsten.io/v1alpha1", "kind": kind.kind, "spec": {}});
        object["metadata"] = json!({"name": "same"});
        let apply = async || {
            let answer = send(&client, Method::PATCH, &format!("{path}?{options}"), APPLY, object.to_string()).await?;
            answer.accepted().with_context(|| kind.kind)?;
            assert_eq!(answer.warnings, Vec::<String>::new(), "{}", kind.kind);
            anyhow::Ok(answer.body["metadata"]["resourceVersion"].clone())
        };
        apply().await?;
        let status = json!({"status": {"observedGeneration": 1}}).to_string();
        let written = send(&client, Method::PATCH, &format!("{path}/status"), MERGE, status).await?;
        written.accepted().with_context(|| kind.kind)?;
        let version = written.body["metadata"]["resourceVersion"].clone();
        for _ in 0..2 {
            assert_eq!(apply().await?, version, "{} was written by an apply that changes nothing", kind.kind);
        }
    }
    Ok(())
}

/// A short name that two kinds share means whichever is found first.
#[tokio::test]
async fn each_name_of_a_kind_belongs_to_it_alone() -> Result<()> {
    let lab = defined().await?;
    let client = lab.client().await?;
    let mut lists = vec![get(&client, "/api/v1").await?.body];
    for group in get(&client, "/apis").await?.body["groups"].as_array().context("no groups")? {
        let version = group["preferredVersion"]["groupVersion"].as_str().context("no version")?;
        lists.push(get(&client, &format!("/apis/{version}")).await?.body);
    }
    let mut owners: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut ours = BTreeSet::new();
    for list in &lists {
        for resource in list["resources"].as_array().into_iter().flatten().filter(|resource| !is_subresource(resource))
        {
            let plural = resource["name"].as_str().unwrap_or_default();
            let owner = format!("{plural} of {}", list["groupVersion"]);
            let names = [&resource["name"], &resource["singularName"]].into_iter();
            for name in names.chain(resource["shortNames"].as_array().into_iter().flatten()).filter_map(Value::as_str) {
                owners.entry(name.to_owned()).or_default().insert(owner.clone());
            }
            if list["groupVersion"] == "tf.tungsten.io/v1alpha1" {
                assert_eq!(resource["categories"], json!(["tf"]), "{plural}");
                assert_eq!(resource["shortNames"].as_array().map(Vec::len), Some(1), "{plural}");
                ours.insert(plural.to_owned());
            }
        }
    }
    assert_eq!(ours, kinds::ALL.iter().map(|kind| kind.plural.to_owned()).collect());
    let shared: Vec<_> = owners
        .iter()
        .filter(|(_, owners)| owners.len() > 1 && owners.iter().any(|owner| owner.contains("tf.tungsten.io")))
        .collect();
    assert!(shared.is_empty(), "{shared:?}");
    Ok(())
}

fn is_subresource(resource: &Value) -> bool {
    resource["name"].as_str().is_some_and(|name| name.contains('/'))
}
