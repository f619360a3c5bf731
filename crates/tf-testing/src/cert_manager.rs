//! cert-manager in a lab: its definitions, and its controllers for issuers that sign with a key of their own.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Client,
    api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    Lab,
    assets::{self, CERT_MANAGER_DEFINITIONS, Tool},
    process::{Process, Spec},
    wait::eventually,
};

/// For what its controllers do on a busy machine.
const SOON: Duration = Duration::from_secs(60);
/// Where issuers of the cluster have their Secrets.
const NAMESPACE: &str = "default";

/// Installs and starts it. It ends with what is returned.
///
/// # Errors
/// When the API server does not take the definitions, or the program cannot be started.
pub async fn start(lab: &Lab) -> Result<Process> {
    let folder = tokio::task::spawn_blocking(assets::all).await??;
    let definitions = folder.join(CERT_MANAGER_DEFINITIONS);
    let definitions = fs::read_to_string(&definitions).with_context(|| format!("reading {}", definitions.display()))?;
    lab.apply(&definitions).await?;
    let kubeconfig = format!("--kubeconfig={}", lab.kubeconfig().display());
    let namespace = format!("--cluster-resource-namespace={NAMESPACE}");
    lab.spawn(Spec::new("certmanager", folder.join(Tool::CertManager.name())).args([kubeconfig, namespace]))
}

/// Makes a root and a `ClusterIssuer` of this name that signs with it. The certificate of the root in PEM.
///
/// # Errors
/// When it does not come about.
pub async fn cluster_issuer(lab: &Lab, name: &str) -> Result<String> {
    lab.apply(&format!(
        "
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {{name: {name}-root}}
spec: {{selfSigned: {{}}}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {{name: {name}-root, namespace: {NAMESPACE}}}
spec:
  secretName: {name}-root
  isCA: true
  commonName: root of {name}
  issuerRef: {{kind: ClusterIssuer, name: {name}-root}}
---
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {{name: {name}}}
spec: {{ca: {{secretName: {name}-root}}}}
"
    ))
    .await?;
    let secrets: Api<Secret> = Api::namespaced(lab.client().await?, NAMESPACE);
    let secret = eventually("the key of the root", SOON, async || {
        secrets.get_opt(&format!("{name}-root")).await.map_err(Into::into)
    });
    let data = secret.await?.data.unwrap_or_default();
    Ok(String::from_utf8(data.get("tls.crt").context("no certificate")?.0.clone())?)
}

/// Has a certificate issued anew, as `cmctl renew` does.
///
/// # Errors
/// When the API server refuses.
pub async fn renew(client: &Client, namespace: &str, name: &str) -> Result<()> {
    let now = k8s_openapi::jiff::Timestamp::now();
    let issuing = json!({"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "a test", "lastTransitionTime": now});
    let api = certificates(client, namespace);
    let mut conditions = api.get(name).await?.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.push(issuing);
    let body = json!({"status": {"conditions": conditions}});
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(&body)).await?;
    Ok(())
}

/// The `Certificates` of a namespace.
pub fn certificates(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("cert-manager.io", "v1", "Certificate");
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind))
}
