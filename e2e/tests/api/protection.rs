//! What carries the annotation for it is not deleted by mistake: the API server refuses, by a policy of the charts.

use anyhow::{Context as _, Result, ensure};
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use tf_api::names::ANNOTATION_DELETION_PROTECTION;
use tf_testing::{helm::Rendering, operators, wait::eventually};

use crate::{
    declarations,
    support::{APPLY, Answer, JSON, MERGE, SOON, collection, defined, get, namespace, objects, path_of, send},
};

const RELEASE: &str = "protecting";

fn is_policy(object: &Value) -> bool {
    object["kind"].as_str().is_some_and(|kind| kind.starts_with("ValidatingAdmissionPolicy"))
}

/// The policy and the binding that a chart renders.
async fn policies(operator: &str, rendering: Rendering) -> Result<Vec<Value>> {
    let objects = objects(operator, &rendering.value("crds.install=false")).await?;
    Ok(objects.into_iter().filter(is_policy).collect())
}

async fn delete(client: &Client, path: &str) -> Result<Answer> {
    send(client, Method::DELETE, path, JSON, String::new()).await
}

async fn annotate(client: &Client, path: &str, value: Value) -> Result<()> {
    let wish = json!({"metadata": {"annotations": {ANNOTATION_DELETION_PROTECTION: value}}});
    send(client, Method::PATCH, path, MERGE, wish.to_string()).await?.accepted()
}

#[tokio::test]
async fn every_chart_protects_its_kinds_unless_that_is_switched_off() -> Result<()> {
    for declaration in declarations::all() {
        let operator = declaration.operator;
        let rendered = policies(operator, Rendering::new(operator, RELEASE)).await?;
        ensure!(rendered.len() == 2, "{operator}: a policy and its binding, not {rendered:?}");
        let name = &rendered[0]["metadata"]["name"];
        ensure!(rendered[1]["spec"]["policyName"] == *name, "{operator}: the binding is of another policy");
        let kinds = &rendered[0]["spec"]["matchConstraints"]["resourceRules"][0]["resources"];
        let protected = |own: &str| kinds.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == own));
        for own in declaration.reconciled() {
            ensure!(protected(own.plural), "{operator}: {} is not among {kinds}", own.plural);
        }
        let off = Rendering::new(operator, RELEASE).value("deletionProtection=false");
        ensure!(policies(operator, off).await?.is_empty(), "{operator} protects although it is told not to");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_protected_is_deleted_only_after_the_annotation_is_removed() -> Result<()> {
    let lab = defined().await?;
    let client = lab.client().await?;
    for name in [RELEASE, "protected"] {
        namespace(&client, name, json!({})).await?;
    }
    ensure!(operators::ALL.contains(&"zookeeper-op"));
    for object in policies("zookeeper-op", Rendering::new("zookeeper-op", RELEASE)).await? {
        let path = format!("{}?fieldManager=helm&force=true&fieldValidation=Strict", path_of(&object)?);
        send(&client, Method::PATCH, &path, APPLY, object.to_string()).await?.accepted().context(path)?;
    }
    let zookeepers = collection("protected", "zookeepers");
    for name in ["kept", "free"] {
        let object = json!({"apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Zookeeper", "metadata": {"name": name}});
        send(&client, Method::POST, &zookeepers, JSON, object.to_string()).await?.accepted()?;
    }
    let kept = format!("{zookeepers}/kept");
    annotate(&client, &kept, json!("true")).await?;

    // The API server takes a moment to go by a policy.
    let refused = eventually("the policy to be in force", SOON, async || {
        let answer = delete(&client, &format!("{kept}?dryRun=All")).await?;
        Ok((answer.code != 200).then_some(answer))
    })
    .await?;
    let message = refused.message();
    let advice = format!("kubectl annotate zookeepers kept {ANNOTATION_DELETION_PROTECTION}-");
    ensure!(
        refused.code == 403 && message.contains("Zookeeper kept is protected") && message.ends_with(&advice),
        "{message}"
    );

    // All of a kind at once; others go.
    let all = delete(&client, &zookeepers).await?;
    ensure!(all.code == 403, "{}", all.message());
    let free = format!("{zookeepers}/free");
    if get(&client, &free).await?.code == 200 {
        delete(&client, &free).await?.accepted()?;
    }
    ensure!(get(&client, &kept).await?.code == 200, "it is gone");

    let home = "/api/v1/namespaces/protected";
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/zookeepers.tf.tungsten.io";
    for path in [home, definition] {
        annotate(&client, path, json!("true")).await?;
        let refused = delete(&client, &format!("{path}?dryRun=All")).await?;
        annotate(&client, path, Value::Null).await?;
        ensure!(
            refused.code == 403 && refused.message().contains("is protected from deletion"),
            "{path}: {}",
            refused.message()
        );
        delete(&client, &format!("{path}?dryRun=All")).await?.accepted().context(path)?;
    }

    annotate(&client, &kept, json!("false")).await?;
    delete(&client, &kept).await?.accepted()?;
    ensure!(get(&client, &kept).await?.code == 404, "it is still there");
    Ok(())
}
