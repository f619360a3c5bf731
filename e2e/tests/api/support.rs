//! What the tests of this tier share: a lab with every definition, and requests whose warnings are seen.

use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tf_api::kinds;
use tf_testing::{
    Lab, Options, SharedLab,
    helm::{self, Rendering},
    manifests::documents,
    operators,
    wait::eventually,
};
use tokio::sync::Mutex;

/// For what needs a second or two when the machine is not otherwise busy.
pub const SOON: Duration = Duration::from_secs(30);

/// How many requests, or programs, a test has under way.
pub const PARALLEL: usize = 8;

/// Server-side apply.
pub const APPLY: &str = "application/apply-patch+yaml";
/// A whole object.
pub const JSON: &str = "application/json";
/// Part of an object.
pub const MERGE: &str = "application/merge-patch+json";

static DEFINED: SharedLab = SharedLab::new(Options::api);

/// The lab in which all definitions of `crds/` are served.
pub async fn defined() -> Result<Arc<Lab>> {
    static APPLYING: Mutex<()> = Mutex::const_new(());
    let lab = DEFINED.get().await?;
    let client = lab.client().await?;
    let _alone = APPLYING.lock().await;
    if !served(&client).await? {
        let apply = |text| async { define(&client, text, "lab").await?.accepted() };
        stream::iter(definitions()?).map(apply).buffer_unordered(PARALLEL).try_collect::<Vec<_>>().await?;
        eventually("all kinds to be served", SOON, async || Ok(served(&client).await?.then_some(()))).await?;
    }
    Ok(lab)
}

/// The files of `crds/`, in the order of their names.
pub fn definitions() -> Result<Vec<String>> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(operators::repository().join("crds"))?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    files.into_iter().map(|file| Ok(fs::read_to_string(file)?)).collect()
}

/// Applies a definition as `manager`.
pub async fn define(client: &Client, definition: String, manager: &str) -> Result<Answer> {
    let object: Value = serde_saphyr::from_str(&definition)?;
    let name = object["metadata"]["name"].as_str().context("a definition without a name")?;
    let path = format!(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}?fieldManager={manager}&force=true&fieldValidation=Strict"
    );
    send(client, Method::PATCH, &path, APPLY, definition).await
}

/// Whether each of our kinds can be listed.
pub async fn served(client: &Client) -> Result<bool> {
    for kind in kinds::ALL {
        if get(client, &collection("default", kind.plural)).await?.code != 200 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Path of our kinds in a namespace.
pub fn collection(namespace: &str, plural: &str) -> String {
    format!("/apis/{}/{}/namespaces/{namespace}/{plural}", tf_api::GROUP, tf_api::VERSION)
}

/// Path of an object as charts render them. What a chart may contain is what is listed here.
pub fn path_of(object: &Value) -> Result<String> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let plural = match kind {
        "ClusterRole" => "clusterroles",
        "ClusterRoleBinding" => "clusterrolebindings",
        "ConfigMap" => "configmaps",
        "CustomResourceDefinition" => "customresourcedefinitions",
        "Deployment" => "deployments",
        "PodDisruptionBudget" => "poddisruptionbudgets",
        "Role" => "roles",
        "RoleBinding" => "rolebindings",
        "Service" => "services",
        "ServiceAccount" => "serviceaccounts",
        "ValidatingAdmissionPolicy" => "validatingadmissionpolicies",
        "ValidatingAdmissionPolicyBinding" => "validatingadmissionpolicybindings",
        _ => bail!("a chart has no business with {kind:?}"),
    };
    let version = object["apiVersion"].as_str().context("no apiVersion")?;
    let root = if version.contains('/') { "/apis" } else { "/api" };
    let name = object["metadata"]["name"].as_str().context("no name")?;
    Ok(match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{root}/{version}/namespaces/{namespace}/{plural}/{name}"),
        None => format!("{root}/{version}/{plural}/{name}"),
    })
}

/// The ways a chart is meant to be used: its files `ci/<name>-values.yaml`, by name.
pub fn modes(operator: &str, namespace: &str) -> Result<BTreeMap<String, Rendering>> {
    let mut modes = BTreeMap::new();
    for file in fs::read_dir(operators::chart(operator).join("ci"))? {
        let path = file?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix("-values.yaml"));
        let name = name.with_context(|| format!("{} is no file of values", path.display()))?.to_owned();
        modes.insert(name, Rendering::new(operator, namespace).file(path));
    }
    Ok(modes)
}

/// The objects of a rendered chart.
pub async fn objects(operator: &str, rendering: &Rendering) -> Result<Vec<Value>> {
    documents(&helm::template(operator, rendering).await?)
}

/// Makes a namespace, if it is not there.
pub async fn namespace(client: &Client, name: &str, labels: Value) -> Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    let path = format!("/api/v1/namespaces/{name}?fieldManager=lab&force=true");
    send(client, Method::PATCH, &path, APPLY, object.to_string()).await?.accepted()
}

/// What the API server said.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub code: u16,
    /// The object, or the Status that says why not.
    pub body: Value,
    /// Warning headers: what `kubectl` would show to the user.
    pub warnings: Vec<String>,
}

impl Answer {
    /// The words of a refusal.
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// Whether the request was refused.
    pub fn is_refused(&self) -> bool {
        self.code >= 400
    }

    /// An error unless the request was let in.
    pub fn accepted(&self) -> Result<()> {
        ensure!(!self.is_refused(), "{}: {}", self.code, self.message());
        Ok(())
    }
}

/// A request, whatever its answer.
pub async fn send(client: &Client, method: Method, path: &str, kind: &str, body: impl Into<Vec<u8>>) -> Result<Answer> {
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    answer(client, request.body(Body::from(body.into()))?).await
}

/// What is at a path.
pub async fn get(client: &Client, path: &str) -> Result<Answer> {
    answer(client, Request::get(path).body(Body::empty())?).await
}

/// The answer to any request.
pub async fn answer(client: &Client, request: Request<Body>) -> Result<Answer> {
    let what = format!("{} {}", request.method(), request.uri());
    let response = client.send(request).await.with_context(|| what.clone())?;
    let code = response.status().as_u16();
    let warnings =
        response.headers().get_all("warning").iter().map(|value| value.to_str().unwrap_or("?").to_owned()).collect();
    let bytes = response.into_body().collect().await.with_context(|| what.clone())?.to_bytes();
    // Unknown paths are answered in plain text.
    let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!({"message": String::from_utf8_lossy(&bytes)}));
    Ok(Answer { code, body, warnings })
}
