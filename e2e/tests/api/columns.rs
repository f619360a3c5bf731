//! What `kubectl get`, `scale` and `explain` are made of, asked for as kubectl asks: no kubectl is needed for this.

use anyhow::{Context as _, Result};
use http::{Method, Request};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tf_api::{KindInfo, kinds};
use tf_testing::wait::eventually;

use crate::support::{JSON, MERGE, SOON, answer, collection, defined, get, namespace, send};

/// A status as operators write it.
fn status() -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": message, "observedGeneration": 1,
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    json!({
        "observedGeneration": 1,
        "membersReady": "2/3",
        "replicas": 3,
        "selector": "app=x",
        "version": {"deployed": "R1"},
        "endpoint": "api.tf.svc",
        "conditions": [
            condition("Available", "True", "Succeeded", "usable"),
            condition("Ready", "False", "ReplicasUnavailable", "2 of 3 members are ready"),
        ],
    })
}

async fn create(client: &Client, kind: KindInfo, home: &str) -> Result<String> {
    let path = collection(home, kind.plural);
    let object = json!({"apiVersion": "tf.tungsten.io/v1alpha1", "kind": kind.kind, "metadata": {"name": "one"}});
    send(client, Method::POST, &path, JSON, object.to_string()).await?.accepted().with_context(|| kind.kind)?;
    Ok(format!("{path}/one"))
}

/// The table of a kind: names of its columns with their priority, and the cells of its one row.
async fn table(client: &Client, kind: KindInfo, home: &str) -> Result<Vec<(String, i64, Value)>> {
    let request =
        Request::get(collection(home, kind.plural)).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let table = answer(client, request.body(Body::empty())?).await?.body;
    let columns = table["columnDefinitions"].as_array().context("no columns")?;
    let cells = table["rows"][0]["cells"].as_array().context("no row")?;
    let cell = |(column, cell): (&Value, &Value)| {
        Some((column["name"].as_str()?.to_owned(), column["priority"].as_i64()?, cell.clone()))
    };
    columns.iter().zip(cells).map(cell).collect::<Option<_>>().context("a column without a name")
}

#[tokio::test]
async fn the_columns_of_every_kind_say_whether_it_is_ready_and_why_not() -> Result<()> {
    let lab = defined().await?;
    let client = lab.client().await?;
    namespace(&client, "columns", json!({})).await?;
    for kind in kinds::ALL {
        let path = create(&client, kind, "columns").await?;
        let fresh = table(&client, kind, "columns").await?;
        assert!(!fresh.iter().any(|(_, _, cell)| cell == "True" || cell == "False"), "{}: {fresh:?}", kind.kind);

        let body = json!({"status": status()}).to_string();
        let written =
            send(&client, Method::PATCH, &format!("{path}/status?fieldValidation=Strict"), MERGE, body).await?;
        // Only kinds with a Service in front of their members have that field.
        if kind.endpoint_column {
            written.accepted().with_context(|| kind.kind)?;
        } else {
            assert!(
                written.message().contains("unknown field \"status.endpoint\""),
                "{}: {}",
                kind.kind,
                written.message()
            );
            let mut status = status();
            status.as_object_mut().context("no object")?.remove("endpoint");
            let body = json!({"status": status}).to_string();
            send(&client, Method::PATCH, &format!("{path}/status?fieldValidation=Strict"), MERGE, body)
                .await?
                .accepted()?;
        }
        let row = table(&client, kind, "columns").await?;
        let shown: Vec<(&str, &Value)> =
            row.iter().filter(|(_, priority, _)| *priority == 0).map(|(name, _, cell)| (name.as_str(), cell)).collect();
        let age = row.last().map(|(_, _, cell)| cell.clone()).context("no columns")?;
        let expected = [
            ("Name", json!("one")),
            ("Ready", json!("False")),
            ("Reason", json!("ReplicasUnavailable")),
            ("Members", json!("2/3")),
            ("Version", json!("R1")),
            ("Age", age),
        ];
        assert_eq!(shown, expected.each_ref().map(|(name, cell)| (*name, cell)), "{}", kind.kind);
        let wide: Vec<(&str, &Value)> =
            row.iter().filter(|(_, priority, _)| *priority > 0).map(|(name, _, cell)| (name.as_str(), cell)).collect();
        let (endpoint, message) = (json!("api.tf.svc"), json!("2 of 3 members are ready"));
        let mut expected = vec![("Endpoint", &endpoint), ("Message", &message)];
        expected.retain(|(name, _)| *name == "Message" || kind.endpoint_column);
        assert_eq!(wide, expected, "{}", kind.kind);
    }
    Ok(())
}

#[tokio::test]
async fn kinds_with_members_can_be_scaled_and_the_others_say_that_they_cannot() -> Result<()> {
    let lab = defined().await?;
    let client = lab.client().await?;
    namespace(&client, "scaled", json!({})).await?;
    for kind in kinds::ALL {
        let path = create(&client, kind, "scaled").await?;
        let scale = format!("{path}/scale");
        let body = json!({"spec": {"replicas": 5}}).to_string();
        let scaled = send(&client, Method::PATCH, &scale, MERGE, body).await?;
        if !kind.scales {
            assert_eq!(scaled.code, 404, "{}", kind.kind);
            continue;
        }
        scaled.accepted().with_context(|| kind.kind)?;
        let spec = &get(&client, &path).await?.body["spec"];
        assert_eq!(spec["commonConfiguration"]["replicas"], 5, "{}: {spec}", kind.kind);

        let status = json!({"status": {"observedGeneration": 1, "replicas": 3, "selector": "app=x"}}).to_string();
        send(&client, Method::PATCH, &format!("{path}/status"), MERGE, status).await?.accepted()?;
        let told = get(&client, &scale).await?.body;
        assert_eq!(told["spec"], json!({"replicas": 5}), "{}", kind.kind);
        assert_eq!(told["status"], json!({"replicas": 3, "selector": "app=x"}), "{}", kind.kind);

        // `kubectl scale --replicas=0` would ask for what cannot be.
        let none = json!({"spec": {"replicas": 0}}).to_string();
        let refused = send(&client, Method::PATCH, &scale, MERGE, none).await?;
        assert!(refused.is_refused() && refused.message().contains("replicas"), "{}: {}", kind.kind, refused.message());
    }
    Ok(())
}

/// Fields below `schema` that explain nothing.
fn unexplained(path: &str, schema: &Value, found: &mut Vec<String>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if field["description"].as_str().is_none_or(|text| text.trim().is_empty()) && !path.ends_with(".metadata") {
            found.push(path.clone());
        }
        unexplained(&path, field, found);
    }
    for values in ["items", "additionalProperties"] {
        if schema[values].is_object() {
            unexplained(&format!("{path}[]"), &schema[values], found);
        }
    }
}

#[tokio::test]
async fn every_field_of_every_kind_can_be_explained() -> Result<()> {
    let lab = defined().await?;
    let client = lab.client().await?;
    // The API server publishes schemas a moment after it serves their kinds.
    let schemas = eventually("the schemas of all kinds to be published", SOON, async || {
        let published = get(&client, "/openapi/v3/apis/tf.tungsten.io/v1alpha1").await?.body;
        let schemas = published["components"]["schemas"].clone();
        let there = kinds::ALL.iter().all(|kind| schemas[format!("io.tungsten.tf.v1alpha1.{}", kind.kind)].is_object());
        Ok(there.then_some(schemas))
    })
    .await?;
    let mut found = Vec::new();
    for kind in kinds::ALL {
        let schema = &schemas[format!("io.tungsten.tf.v1alpha1.{}", kind.kind)];
        assert!(schema["description"].is_string(), "{}", kind.kind);
        for part in ["spec", "status"] {
            let fields = &schema["properties"][part];
            assert!(fields["properties"].as_object().is_some_and(|fields| !fields.is_empty()), "{}.{part}", kind.kind);
            unexplained(&format!("{}.{part}", kind.kind), fields, &mut found);
        }
    }
    assert!(found.is_empty(), "{} fields without a word:\n{}", found.len(), found.join("\n"));
    Ok(())
}
