//! The laboratory keeps its promises: what the other tests of this folder build on.

// Says to clippy that the helpers below are tests, too, and may unwrap.
#![cfg(test)]

mod audit;
mod fleet;
mod lifecycle;
mod proxy;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, ListParams};
use serde_json::json;
use tf_testing::wait::eventually;
use tf_testing::{Lab, Options, SharedLab, lab};

/// For tests that need nothing but an API and leave no trace the others would see.
static API: SharedLab = SharedLab::new(Options::api);

/// For what needs a second or two when the machine is not otherwise busy.
const SOON: Duration = Duration::from_secs(20);

/// A namespace with a ServiceAccount that may write ConfigMaps and nothing else.
async fn writer(lab: &Lab, namespace: &str) -> Result<PathBuf> {
    lab.apply(&format!(
        "
{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}
---
{{apiVersion: v1, kind: ServiceAccount, metadata: {{name: op, namespace: {namespace}}}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: op, namespace: {namespace}}}
rules:
- {{apiGroups: [''], resources: [configmaps], verbs: [get, list, watch, create, patch, delete]}}
- {{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: op, namespace: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: op}}
subjects: [{{kind: ServiceAccount, name: op, namespace: {namespace}}}]
"
    ))
    .await?;
    let kubeconfig = lab.service_account_kubeconfig(namespace, "op").await?;
    let maps: Api<ConfigMap> = Api::default_namespaced(impatient(&kubeconfig).await?);
    // The API server's authoriser learns of a new role by a watch of its own.
    eventually("the role to be effective", SOON, async || Ok(maps.list(&ListParams::default()).await.ok())).await?;
    Ok(kubeconfig)
}

/// A client that gives up at the first error: kube repeats 429, 503 and 504 otherwise.
async fn impatient(kubeconfig: &Path) -> Result<Client> {
    let mut config = lab::client_config(kubeconfig).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// An empty ConfigMap.
fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
}
