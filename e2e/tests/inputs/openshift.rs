//! What a cluster says of itself comes late, changes, and goes, and kube-manager follows. Nobody runs OpenShift here: its definitions and
//! objects are there, and the operator reads them with the rights that its chart gives.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, api::DeleteParams};
use serde_json::{Value, json};
use tf_api::kinds::KUBEMANAGER;
use tf_plan::cluster::{INFRASTRUCTURE, NETWORK};
use tf_testing::{Cluster, Options, openshift, resources, wait::eventually};

use crate::support::{SOON, alone, member, secret, told};

const READY: (&str, &str, &str) = ("InputsReady", "True", "Succeeded");
const MISSING: (&str, &str, &str) = ("InputsReady", "False", "ConfigMapNotFound");
const NAME: &str = "kubemanager1";

/// One member whose services nobody has to run.
fn spec() -> Value {
    let at = |endpoint: &str, port: u16| json!({"external": {"endpoints": [{"name": endpoint, "port": port, "nodes": ["192.0.2.9"]}]}});
    let mut rabbitmq = at("amqp", 5673);
    rabbitmq["external"]["secretRef"] = json!({"name": "rabbitmq"});
    json!({
        "commonConfiguration": {"replicas": 1},
        "dependencies": {
            "cassandra": at("cql", 9041), "zookeeper": at("client", 2181), "rabbitmq": rabbitmq, "config": at("api", 8082),
        },
    })
}

/// Waits until the file of the member has this line.
async fn rendered(cluster: &Cluster, line: &str) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let mut last = String::new();
    let found = eventually(&format!("a file with {line}"), SOON, async || {
        let files = secrets.get_opt(&format!("{NAME}-kubemanager-secret-files")).await?;
        let data = files.and_then(|secret| secret.data).unwrap_or_default();
        last = data.into_values().map(|file| String::from_utf8_lossy(&file.0).into_owned()).collect();
        Ok(last.lines().any(|found| found.trim() == line).then_some(()))
    })
    .await;
    // The token stays out of the test's words.
    found.with_context(|| last.lines().filter(|line| line.contains("subnets") || line.contains("api_s")).collect::<String>())
}

async fn deployed(cluster: &Cluster, pods: &[&str]) -> Result<()> {
    cluster.apply_object(&openshift::network(pods, &["172.30.0.0/16"])).await
}

#[tokio::test]
async fn objects_of_openshift_come_late_change_and_go_and_kube_manager_is_told() -> Result<()> {
    let cluster = alone(Options::fleet(0, 0), "in-openshift", &["kubemanager-op"]).await?;
    cluster.nodes(1, 0).await?;
    secret(&cluster, "rabbitmq", json!({"username": "user", "password": "password", "vhost": "sdn"})).await?;
    member(&cluster, KUBEMANAGER, NAME, spec()).await?;
    // No definition of OpenShift is there, and nobody states subnets.
    let message = told(&cluster, KUBEMANAGER, NAME, MISSING).await?;
    ensure!(message.contains("kube-system/kubeadm-config") && message.contains("podSubnet"), "{message}");

    openshift::define(&cluster.lab).await?;
    cluster.apply_object(&openshift::infrastructure("https://api-int.ocp.example.org:6443")).await?;
    deployed(&cluster, &["10.128.0.0/14", "10.140.0.0/16", "fd01::/48"]).await?;
    rendered(&cluster, "pod_subnets = 10.128.0.0/14 10.140.0.0/16 fd01::/48").await?;
    rendered(&cluster, "service_subnets = 172.30.0.0/16").await?;
    rendered(&cluster, "kubernetes_api_server = api-int.ocp.example.org").await?;
    let message = told(&cluster, KUBEMANAGER, NAME, READY).await?;
    for part in [
        "pods are in 10.128.0.0/14,10.140.0.0/16,fd01::/48 by status.clusterNetwork of Network cluster",
        "the API server is api-int.ocp.example.org:6443 by status.apiServerInternalURI of Infrastructure cluster",
    ] {
        ensure!(message.contains(part), "{message}");
    }

    deployed(&cluster, &["10.128.0.0/14"]).await?;
    rendered(&cluster, "pod_subnets = 10.128.0.0/14").await?;

    // What is malformed is named, and what was made before stays.
    deployed(&cluster, &["everything"]).await?;
    let message = told(&cluster, KUBEMANAGER, NAME, MISSING).await?;
    ensure!(message.contains("status.clusterNetwork of Network cluster of config.openshift.io"), "{message}");
    rendered(&cluster, "pod_subnets = 10.128.0.0/14").await?;

    deployed(&cluster, &["10.132.0.0/14"]).await?;
    rendered(&cluster, "pod_subnets = 10.132.0.0/14").await?;
    for kind in [NETWORK, INFRASTRUCTURE] {
        resources::objects(&cluster.client, kind, "").delete("cluster", &DeleteParams::default()).await?;
    }
    let message = told(&cluster, KUBEMANAGER, NAME, MISSING).await?;
    ensure!(message.contains("kube-system/kubeadm-config"), "{message}");
    Ok(())
}
