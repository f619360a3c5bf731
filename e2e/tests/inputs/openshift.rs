//! What a cluster says of itself comes late, changes, and goes, and kube-manager follows. Nobody runs OpenShift here: its definitions and
//! objects are there, and the operator reads them with the rights that its chart gives.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, api::DeleteParams};
use serde_json::{Value, json};
use tf_api::kinds::KUBEMANAGER;
use tf_plan::cluster::{INFRASTRUCTURE, NETWORK};
use tf_testing::{
    Cluster, IpFamily, Options, openshift,
    resources::{self, Resource},
    sample::has_turn,
    wait::eventually,
};

use crate::support::{SOON, alone, member, secret};

const NAME: &str = "kubemanager1";

/// One member whose services nobody has to run.
fn spec() -> Value {
    let at = |endpoint: &str, port: u16| json!({"external": {"endpoints": [{"name": endpoint, "port": port, "nodes": ["192.0.2.9"]}]}});
    let mut rabbitmq = at("amqp", 5673);
    rabbitmq["external"]["secretRef"] = json!({"name": "rabbitmq"});
    json!({
        "commonConfiguration": {"replicas": 1},
        "dependencies": {
            "cassandra": at("cql", 9041),
            "zookeeper": at("client", 2181),
            "rabbitmq": rabbitmq,
            "config": at("api", 8082),
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
    // The token stays out of the words of a test.
    found.with_context(|| last.lines().filter(|line| line.contains("subnets")).collect::<Vec<_>>().join("\n"))
}

/// Waits until `InputsReady` has this status and these words.
async fn says(cluster: &Cluster, status: &str, words: &str) -> Result<()> {
    let wanted = |resource: &Resource| {
        resource.condition("InputsReady").is_some_and(|seen| seen.status == status && seen.message.contains(words))
    };
    cluster.until(KUBEMANAGER, NAME, &format!("InputsReady={status} with {words}"), wanted).await?;
    Ok(())
}

/// What the lab states as kubeadm would.
async fn goes_by_kubeadm(cluster: &Cluster) -> Result<()> {
    let pods = IpFamily::V4.pod_range();
    rendered(cluster, &format!("pod_subnets = {pods}")).await?;
    says(
        cluster,
        "True",
        &format!("pods are in {pods} by networking.podSubnet of ConfigMap kube-system/kubeadm-config"),
    )
    .await
}

async fn deployed(cluster: &Cluster, pods: &[&str]) -> Result<()> {
    cluster.apply_object(&openshift::network(pods, &["172.30.0.0/16"])).await
}

#[tokio::test]
async fn objects_of_openshift_come_late_change_and_go_and_kube_manager_is_told() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let cluster = alone(Options::fleet(0, 0), "in-openshift", &["kubemanager-op"]).await?;
    cluster.nodes(1, 0).await?;
    secret(&cluster, "rabbitmq", json!({"username": "user", "password": "password", "vhost": "sdn"})).await?;
    member(&cluster, KUBEMANAGER, NAME, spec()).await?;
    // No definition of OpenShift is there.
    goes_by_kubeadm(&cluster).await?;

    openshift::define(&cluster.lab).await?;
    cluster.apply_object(&openshift::infrastructure("https://api-int.ocp.example.org:6443")).await?;
    deployed(&cluster, &["10.128.0.0/14", "10.140.0.0/16", "fd01::/48"]).await?;
    rendered(&cluster, "pod_subnets = 10.128.0.0/14 10.140.0.0/16 fd01::/48").await?;
    rendered(&cluster, "service_subnets = 172.30.0.0/16").await?;
    rendered(&cluster, "kubernetes_api_server = api-int.ocp.example.org").await?;
    let pods = "pods are in 10.128.0.0/14,10.140.0.0/16,fd01::/48 by status.clusterNetwork of Network cluster";
    says(&cluster, "True", pods).await?;
    let server = "api-int.ocp.example.org:6443 by status.apiServerInternalURI of Infrastructure cluster";
    says(&cluster, "True", server).await?;

    deployed(&cluster, &["10.128.0.0/14"]).await?;
    rendered(&cluster, "pod_subnets = 10.128.0.0/14").await?;

    // What is malformed is named, nothing stands in for it, and what was made before stays.
    deployed(&cluster, &["everything"]).await?;
    says(&cluster, "False", "status.clusterNetwork of Network cluster of config.openshift.io is no list").await?;
    rendered(&cluster, "pod_subnets = 10.128.0.0/14").await?;

    deployed(&cluster, &["10.132.0.0/14"]).await?;
    rendered(&cluster, "pod_subnets = 10.132.0.0/14").await?;
    for kind in [NETWORK, INFRASTRUCTURE] {
        resources::objects(&cluster.client, kind, "").delete("cluster", &DeleteParams::default()).await?;
    }
    goes_by_kubeadm(&cluster).await
}
