//! Charts as they render, judged by Helm and by the API server.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use serde_json::{Value, json};
use tf_testing::{
    helm::{self, Rendering},
    operators,
};

use crate::support::{APPLY, JSON, PARALLEL, defined, modes, namespace, objects, path_of, send};

/// The namespace of the releases, and those of `ci/namespaces-values.yaml`.
const NAMESPACES: [&str; 3] = ["rendered", "tf-a", "tf-b"];

/// Every chart in every mode.
fn all() -> Result<Vec<(&'static str, String, Rendering)>> {
    let mut all = Vec::new();
    for operator in operators::ALL {
        let modes = modes(operator, NAMESPACES[0])?;
        let names: Vec<&str> = modes.keys().map(String::as_str).collect();
        ensure!(names == ["bootstrap", "cluster", "default", "namespaces"], "{operator} has the modes {names:?}");
        all.extend(modes.into_iter().map(|(mode, rendering)| (operator, mode, rendering)));
    }
    Ok(all)
}

#[tokio::test]
async fn every_chart_passes_the_strict_linter_in_every_mode() -> Result<()> {
    let lint = |(operator, mode, rendering): (&'static str, String, Rendering)| async move {
        let said = helm::lint(operator, &rendering).await.context(mode)?;
        ensure!(said.contains("1 chart(s) linted, 0 chart(s) failed"), "{operator}: {said}");
        // An icon is for shops of charts.
        let remarks: Vec<&str> = said.lines().filter(|line| line.starts_with('[') && !line.contains("icon")).collect();
        ensure!(remarks.is_empty(), "{operator}: {remarks:?}");
        Ok(())
    };
    stream::iter(all()?).map(lint).buffer_unordered(PARALLEL).try_collect().await
}

#[tokio::test]
async fn every_rendered_object_is_taken_by_the_api_server_without_a_warning() -> Result<()> {
    let lab = defined().await?;
    let client = lab.client().await?;
    for name in NAMESPACES {
        // What the restricted profile has against the pods of a Deployment is told as a warning.
        namespace(&client, name, json!({"pod-security.kubernetes.io/warn": "restricted"})).await?;
    }
    let judge = |(operator, mode, rendering): (&'static str, String, Rendering)| {
        let client = &client;
        async move {
            // Definitions are the same in every mode, and most of the work.
            let install = format!("crds.install={}", mode == "default");
            let objects = objects(operator, &rendering.value(install)).await.with_context(|| mode.clone())?;
            ensure!(objects.iter().any(|object| object["kind"] == "CustomResourceDefinition") == (mode == "default"));
            ensure!(objects.iter().any(|object| object["kind"] == "Deployment"), "{operator} {mode}: no Deployment");
            for object in objects {
                let path = path_of(&object).with_context(|| format!("{operator} {mode}"))?;
                let try_it = format!("{path}?fieldManager=helm&force=true&fieldValidation=Strict&dryRun=All");
                let answer = send(client, Method::PATCH, &try_it, APPLY, object.to_string()).await?;
                answer.accepted().with_context(|| format!("{operator} {mode}: {path}"))?;
                // In the node's network before there is another one: that is beyond any profile but `privileged`.
                let bootstraps = mode == "bootstrap" && object["kind"] == "Deployment";
                ensure!(answer.warnings.is_empty() || bootstraps, "{operator} {mode}: {path}: {:?}", answer.warnings);
            }
            anyhow::Ok(())
        }
    };
    stream::iter(all()?).map(judge).buffer_unordered(PARALLEL).try_collect().await
}

/// YAML has numbers, and 2 is a good name for a namespace.
#[tokio::test]
async fn a_release_and_namespaces_whose_names_look_like_numbers_are_names() -> Result<()> {
    let lab = defined().await?;
    let client = lab.client().await?;
    for name in ["2", "3e4"] {
        namespace(&client, name, json!({})).await?;
    }
    let file = lab.folder().path().join("numbers.yaml");
    fs::write(&file, "watch: {scope: namespaces, namespaces: ['3e4']}\nreplicaCount: 2\n")?;
    let mut rendering = Rendering::new("zookeeper-op", "2").file(file);
    rendering.release = "1".to_owned();
    for object in objects("zookeeper-op", &rendering).await? {
        let path = path_of(&object)?;
        let try_it = format!("{path}?fieldManager=helm&force=true&fieldValidation=Strict&dryRun=All");
        send(&client, Method::PATCH, &try_it, APPLY, object.to_string()).await?.accepted().context(path)?;
    }
    Ok(())
}

fn deployment(objects: &[Value]) -> Result<&Value> {
    objects.iter().find(|object| object["kind"] == "Deployment").context("no Deployment")
}

#[tokio::test]
async fn pods_of_operators_are_let_in_where_the_restricted_profile_is_enforced() -> Result<()> {
    const HOME: &str = "restricted";
    let lab = defined().await?;
    let client = lab.client().await?;
    namespace(&client, HOME, json!({"pod-security.kubernetes.io/enforce": "restricted"})).await?;
    for operator in operators::ALL {
        for (mode, rendering) in modes(operator, HOME)? {
            let objects = objects(operator, &rendering.value("crds.install=false")).await?;
            let template = &deployment(&objects)?["spec"]["template"];
            let pod =
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": operator}, "spec": template["spec"]});
            let path = format!("/api/v1/namespaces/{HOME}/pods?fieldValidation=Strict&dryRun=All");
            let answer = send(&client, Method::POST, &path, JSON, pod.to_string()).await?;
            if mode == "bootstrap" {
                let port = &template["spec"]["containers"][0]["ports"][0]["containerPort"];
                let expected = format!(
                    "violates PodSecurity \"restricted:latest\": host namespaces (hostNetwork=true), hostPort (container \"operator\" \
                     uses hostPort {port})"
                );
                assert!(answer.message().ends_with(&expected), "{operator}: {}", answer.message());
            } else {
                answer.accepted().with_context(|| format!("{operator} {mode}"))?;
            }
        }
    }
    Ok(())
}

/// What no profile asks for and nobody wants to be without.
#[tokio::test]
async fn operators_are_probed_bounded_and_write_to_no_file_system() -> Result<()> {
    for operator in operators::ALL {
        let objects = objects(operator, &Rendering::new(operator, "tf").value("crds.install=false")).await?;
        let deployment = deployment(&objects)?;
        let containers = deployment.pointer("/spec/template/spec/containers").and_then(Value::as_array);
        let [container] = containers.context("no containers")?.as_slice() else { panic!("{operator}: {containers:?}") };
        let at = |pointer: &str| container.pointer(pointer).cloned().unwrap_or_default();
        assert_eq!(at("/livenessProbe/httpGet"), json!({"path": "/healthz", "port": "http"}), "{operator}");
        assert_eq!(at("/readinessProbe/httpGet"), json!({"path": "/readyz", "port": "http"}), "{operator}");
        assert_eq!(at("/securityContext/readOnlyRootFilesystem"), true, "{operator}");
        for bound in ["requests/cpu", "requests/memory", "limits/memory"] {
            assert!(at(&format!("/resources/{bound}")).is_string(), "{operator}: no {bound}");
        }
        // A replaced pod must not make the standby wait for an image that nobody has tested: one tag, no `latest`.
        let image = at("/image").as_str().unwrap_or_default().to_owned();
        assert!(image.ends_with(&format!("/{operator}:{}", env!("CARGO_PKG_VERSION"))), "{operator}: {image}");
    }
    Ok(())
}
