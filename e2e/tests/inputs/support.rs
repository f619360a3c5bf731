//! What the tests of this folder share.

use std::{process::Command, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tf_api::KindInfo;
use tf_testing::{
    Cluster, Lab, Options, SharedLab, assets,
    cluster::define_all,
    operators::{Install, Run},
    resources::{self, Resource},
};

/// For what controllers do on a busy machine.
pub const SOON: Duration = Duration::from_secs(60);

static FLEET: SharedLab = SharedLab::new(|| Options::fleet(0, 0));

/// A namespace with these operators.
pub async fn cluster(namespace: &str, operators: &[&'static str]) -> Result<Cluster> {
    let lab = FLEET.get().await?;
    let mut cluster = Cluster::empty(&lab, namespace).await?;
    define_all(&lab).await?;
    cluster.add(operators, &Install::default(), &Run::default()).await?;
    Ok(cluster)
}

/// A namespace with these operators, in a lab that nobody shares.
pub async fn alone(options: Options, namespace: &str, operators: &[&'static str]) -> Result<Cluster> {
    let lab = Arc::new(Lab::start(options).await?);
    let mut cluster = Cluster::empty(&lab, namespace).await?;
    define_all(&lab).await?;
    cluster.add(operators, &Install::default(), &Run::default()).await?;
    Ok(cluster)
}

/// Applies a resource whose pods go to the nodes of the cluster with a control-plane role.
pub async fn member(cluster: &Cluster, kind: KindInfo, name: &str, mut spec: Value) -> Result<()> {
    spec["commonConfiguration"]["nodeSelector"] = cluster.control_plane();
    resources::apply(&cluster.client, kind, &cluster.namespace, name, spec).await?;
    Ok(())
}

/// Config with stores that no operator runs, the Secret `mq-login` for RabbitMQ, and a Keystone whose password is in the Secret `keystone`.
pub fn config_with_keystone(parameters: &Value) -> Value {
    let external = |name: &str, protocol: &str, port: u16, secret: Option<&str>| {
        let endpoint = json!({"name": name, "protocol": protocol, "port": port, "nodes": ["10.9.0.1"]});
        let mut external = json!({ "endpoints": [endpoint] });
        if let Some(name) = secret {
            external["secretRef"] = json!({ "name": name });
        }
        json!({ "external": external })
    };
    json!({
        "commonConfiguration": {"authParameters": {
            "authMode": "keystone",
            "keystoneSecretName": "keystone",
            "keystoneAuthParameters": parameters,
        }},
        "dependencies": {
            "cassandra": external("cql", "TCP", 9042, None),
            "zookeeper": external("client", "TCP", 2181, None),
            "rabbitmq": external("amqp", "AMQP", 5672, Some("mq-login")),
        },
    })
}

/// Waits until a condition has this status and reason; returns its message.
pub async fn told(
    cluster: &Cluster,
    kind: KindInfo,
    name: &str,
    (condition, status, reason): (&str, &str, &str),
) -> Result<String> {
    let what = format!("{condition}={status} {reason}");
    let wanted = |resource: &Resource| {
        resource.condition(condition).is_some_and(|seen| seen.status == status && seen.reason == reason)
    };
    let resource = cluster.until(kind, name, &what, wanted).await?;
    Ok(resource.condition(condition).context("no condition")?.message.clone())
}

/// Names of the objects of a kind that a resource made.
pub async fn made<K>(cluster: &Cluster, owner: &str) -> Result<Vec<String>>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + k8s_openapi::serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let list = api.list(&ListParams::default()).await?;
    let is_its = |object: &K| object.meta().owner_references.iter().flatten().any(|reference| reference.name == owner);
    Ok(list.items.iter().filter(|object| is_its(object)).filter_map(|object| object.meta().name.clone()).collect())
}

/// Writes a Secret as a user would.
pub async fn secret(cluster: &Cluster, name: &str, data: Value) -> Result<()> {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": cluster.namespace},
        "stringData": data,
    });
    cluster.apply_object(&object).await
}

/// kubectl, acting on the cluster's namespace as a person with all rights. Caches and plugins of the user have no say.
pub fn kubectl(cluster: &Cluster) -> Result<Command> {
    let mut command = assets::kubectl()?;
    command.env("HOME", cluster.lab.folder().path()).env("KUBECONFIG", cluster.lab.kubeconfig());
    command.args(["--namespace", &cluster.namespace]);
    Ok(command)
}

/// Runs kubectl in the namespace of the cluster.
pub fn run(cluster: &Cluster, arguments: &[&str]) -> Result<()> {
    let output = kubectl(cluster)?.args(arguments).output()?;
    ensure!(output.status.success(), "kubectl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Changes part of a resource.
pub async fn merge(cluster: &Cluster, kind: KindInfo, name: &str, patch: Value) -> Result<DynamicObject> {
    let api = resources::api(&cluster.client, kind, &cluster.namespace);
    Ok(api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
}
