//! A cluster of the Go tf-operator changes hands: our definitions over its own, its resources kept.
//!
//! Its definitions are rebuilt from the list of their fields in `crates/tf-api/testdata/go-tf-operator/fields.txt`.

use std::{collections::BTreeMap, fs};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use kube::Client;
use serde_json::{Map, Value, json};
use tf_api::KindInfo;
use tf_testing::{Lab, Options, manifests::documents, operators, wait::eventually};

use crate::support::{JSON, MERGE, PARALLEL, SOON, collection, define, definitions, get, namespace, send};

fn facts(file: &str) -> Result<String> {
    let path = operators::repository().join("crates/tf-api/testdata/go-tf-operator").join(file);
    fs::read_to_string(&path).with_context(|| format!("{}", path.display()))
}

/// The definitions as the Go tf-operator installs them.
fn its_definitions() -> Result<Vec<Value>> {
    let mut schemas: BTreeMap<String, Value> = BTreeMap::new();
    for line in facts("fields.txt")?.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let (kind, path, type_) = (words.next(), words.next(), words.next());
        let (Some(kind), Some(path), Some(type_)) = (kind, path, type_) else { continue };
        let root = schemas.entry(kind.to_owned()).or_insert_with(|| json!({"type": "object"}));
        insert(root, path, type_, &words.collect::<Vec<_>>()).with_context(|| line.to_owned())?;
    }
    schemas.into_iter().map(|(kind, schema)| definition(&kind, schema)).collect()
}

fn insert(root: &mut Value, path: &str, type_: &str, flags: &[&str]) -> Result<()> {
    let steps = path.replace("[]", ".[]").replace("{}", ".{}");
    let mut steps: Vec<&str> = steps.split('.').filter(|step| !step.is_empty()).collect();
    let last = steps.pop().context("an empty path")?;
    let mut parent = root;
    for step in steps {
        parent = child(parent, step);
    }
    if flags.contains(&"required") {
        let required = parent.as_object_mut().context("no object")?.entry("required").or_insert_with(|| json!([]));
        required.as_array_mut().context("no list")?.push(json!(last));
    }
    let field = child(parent, last);
    field["type"] = json!(type_);
    if let Some(choices) = flags.iter().find_map(|flag| flag.strip_prefix("enum=")) {
        field["enum"] = choices.split(',').collect();
    }
    Ok(())
}

fn child<'a>(parent: &'a mut Value, step: &str) -> &'a mut Value {
    match step {
        "[]" => &mut parent["items"],
        "{}" => &mut parent["additionalProperties"],
        name => &mut parent["properties"][name],
    }
}

fn definition(kind: &str, schema: Value) -> Result<Value> {
    let info = KindInfo::of(kind).with_context(|| format!("{kind} is not a kind of ours"))?;
    Ok(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", info.plural, tf_api::GROUP)},
        "spec": {
            "group": tf_api::GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": info.plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": tf_api::VERSION,
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            }],
        },
    }))
}

/// The default Manager and what that operator makes of it, with the status it leaves behind.
fn its_resources() -> Result<Vec<Value>> {
    let manager = documents(&facts("default-manager.yaml")?)?.pop().context("no Manager")?;
    let known = facts("fields.txt")?;
    let mut resources = Vec::new();
    for (service, entries) in manager["spec"]["services"].as_object().context("no services")? {
        let kind = tf_api::kinds::ALL
            .into_iter()
            .find(|info| service.to_lowercase().trim_end_matches('s') == info.kind.to_lowercase().trim_end_matches('s'))
            .with_context(|| format!("no kind for {service}"))?;
        let entries = entries.as_array().cloned().unwrap_or_else(|| vec![entries.clone()]);
        for mut entry in entries {
            let fields = entry.as_object_mut().context("no object")?;
            fields.insert("apiVersion".into(), manager["apiVersion"].clone());
            fields.insert("kind".into(), json!(kind.kind));
            entry["metadata"]["namespace"] = manager["metadata"]["namespace"].clone();
            entry["status"] = json!({"active": true, "nodes": {"pod-0": {"ip": "10.0.0.1", "hostname": "node1"}}});
            if known.contains(&format!("\n{} .status.degraded boolean\n", kind.kind)) {
                entry["status"]["degraded"] = json!(false);
            }
            resources.push(entry);
        }
    }
    resources.push(manager);
    Ok(resources)
}

fn path_of(resource: &Value) -> Result<(String, String)> {
    let kind = resource["kind"].as_str().and_then(KindInfo::of).context("no kind of ours")?;
    let name = resource["metadata"]["name"].as_str().context("no name")?;
    let namespace = resource["metadata"]["namespace"].as_str().context("no namespace")?;
    Ok((collection(namespace, kind.plural), name.to_owned()))
}

async fn create(client: &Client, resource: &Value) -> Result<()> {
    let (collection, name) = path_of(resource)?;
    let created =
        send(client, Method::POST, &format!("{collection}?fieldValidation=Strict"), JSON, resource.to_string()).await?;
    created.accepted().with_context(|| format!("creating {name}"))?;
    if !resource["status"].is_null() {
        let path = format!("{collection}/{name}/status?fieldValidation=Strict");
        let body = json!({"status": resource["status"]}).to_string();
        send(client, Method::PATCH, &path, MERGE, body)
            .await?
            .accepted()
            .with_context(|| format!("status of {name}"))?;
    }
    Ok(())
}

/// Every field of `part` is in `whole` with the same value.
fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(name, value)| whole.get(name).is_some_and(|found| is_part(value, found)))
        }
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(part, whole)| is_part(part, whole))
        }
        (part, whole) => part == whole,
    }
}

#[tokio::test]
async fn resources_of_the_go_tf_operator_keep_every_field_under_our_definitions_and_can_be_changed() -> Result<()> {
    // A lab of its own: the definitions of all others are ours from the beginning.
    let lab = Lab::start(Options::api()).await?;
    let client = lab.client().await?;
    namespace(&client, "tf", json!({})).await?;
    for definition in its_definitions()? {
        define(&client, definition.to_string(), "kubectl").await?.accepted()?;
    }
    let resources = its_resources()?;
    for resource in &resources {
        let collection = path_of(resource)?.0;
        eventually(&collection, SOON, async || Ok((get(&client, &collection).await?.code == 200).then_some(())))
            .await?;
        create(&client, resource).await?;
    }

    let apply = async |text| define(&client, text, "lab").await?.accepted();
    stream::iter(definitions()?).map(apply).buffer_unordered(PARALLEL).try_collect::<Vec<_>>().await?;

    for resource in &resources {
        let (collection, name) = path_of(resource)?;
        let path = format!("{collection}/{name}");
        // The new schema is in force when a field is known that the old one did not have.
        eventually(&format!("our schema to be in force at {path}"), SOON, async || {
            let field = json!({"spec": {"paused": true}}).to_string();
            let tried =
                send(&client, Method::PATCH, &format!("{path}?fieldValidation=Strict&dryRun=All"), MERGE, field)
                    .await?;
            Ok((!tried.is_refused()).then_some(()))
        })
        .await?;
        let found = get(&client, &path).await?.body;
        for field in ["spec", "status"] {
            if !resource[field].is_null() {
                assert!(
                    is_part(&resource[field], &found[field]),
                    "{path}: {}\nbecame {}",
                    resource[field],
                    found[field]
                );
            }
        }
        // No field is unknown, and what that operator left in status stands in nobody's way.
        let mut changed = found.clone();
        changed["metadata"]["labels"] = json!({"changed": "yes"});
        let replaced =
            send(&client, Method::PUT, &format!("{path}?fieldValidation=Strict"), JSON, changed.to_string()).await?;
        replaced.accepted().with_context(|| path.clone())?;
        ensure!(replaced.warnings.is_empty(), "{path}: {:?}", replaced.warnings);
        assert!(is_part(&resource["spec"], &replaced.body["spec"]), "{path} lost a field by a change");
    }
    Ok(())
}

#[test]
fn the_facts_cover_fourteen_kinds_and_one_resource_of_each() {
    let definitions = its_definitions().unwrap();
    assert_eq!(definitions.len(), 14);
    let mut kinds: Vec<Value> = its_resources().unwrap().iter().map(|resource| resource["kind"].clone()).collect();
    kinds.sort_by_key(ToString::to_string);
    kinds.dedup();
    assert_eq!(kinds.len(), 14, "{kinds:?}");
    assert!(!is_part(&json!({"a": 1}), &Value::Object(Map::new())));
}
