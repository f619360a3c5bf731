//! Pods that the Go tf-operator made, and a StatefulSet of its kind. Members are simulated here and have no agents, so the kubelet's
//! word is all there is; `real` takes over servers that run.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{ConfigMap, Pod, Secret},
};
use kube::{ResourceExt as _, api::Api};
use serde_json::{Value, json};
use tf_api::kinds::{CASSANDRA, KindInfo, RABBITMQ, ZOOKEEPER};
use tf_testing::{
    Cluster,
    operators::{Install, Run},
    resources::{self, Resource},
    wait::eventually,
};

use crate::{
    former::{self, members, pods, running},
    support::{SOON, cluster, told},
};

#[tokio::test]
async fn pods_of_the_go_tf_operator_are_taken_over_where_they_are_once_each_has_a_node_and_finds_its_data() -> Result<()>
{
    let mut cluster = cluster("in-adoption", &[]).await?;
    cluster.nodes(4, 0).await?;
    let (client, namespace) = (cluster.client.clone(), cluster.namespace.clone());
    let owner = former::owner(ZOOKEEPER);
    let elsewhere = json!({"commonConfiguration": {"nodeSelector": cluster.control_plane()}});
    let resource = resources::apply(&client, ZOOKEEPER, &namespace, &owner, elsewhere).await?;
    let uid = resource.uid().context("no uid")?;
    let former = |replicas| former::workload(ZOOKEEPER, &namespace, &cluster.control_plane(), &uid, replicas);
    let (too_many, as_many) = (former(5), former(3));
    cluster.apply_object(&too_many).await?;
    running(&client, ZOOKEEPER, &namespace, 5, 4).await?;

    cluster.add(&["zookeeper-op"], &Install::default(), &Run::default()).await?;
    let message = told(&cluster, ZOOKEEPER, &owner, ("Ready", "False", "ReplicasUnavailable")).await?;
    ensure!(message.contains("cannot take over its pods: pod") && message.contains("has no node yet"), "{message}");
    let name = former::workload_name(ZOOKEEPER);
    let workloads: Api<StatefulSet> = Api::namespaced(client.clone(), &namespace);
    ensure!(workloads.get(&name).await?.spec.context("no spec")?.replicas == Some(5), "it was touched");

    cluster.apply_object(&as_many).await?;
    let before = running(&client, ZOOKEEPER, &namespace, 3, 3).await?;
    let wanted = members(&before)?;
    let message = told(&cluster, ZOOKEEPER, &owner, ("Ready", "False", "InvalidSpec")).await?;
    ensure!(message.contains("new ones would not find their data"), "{message}");
    let spec = workloads.get(&name).await?.spec.and_then(|spec| spec.template.spec).context("no spec")?;
    ensure!(spec.containers.iter().any(|container| container.name == "sidecar"), "{:?}", spec.containers);
    ensure!(uids(&pods(&client, ZOOKEEPER, &namespace).await?) == uids(&before), "pods were replaced");

    let spec = former::spec(&namespace, &cluster.control_plane());
    resources::apply(&client, ZOOKEEPER, &namespace, &owner, spec).await?;
    eventually("every pod to be ours", 4 * SOON, async || {
        Ok(former::are_replaced(&client, ZOOKEEPER, &namespace, &before).await?.then_some(()))
    })
    .await?;
    let resource = cluster.ready(ZOOKEEPER, &owner).await?;
    let recorded = former::recorded(&resource)?;
    ensure!(recorded == wanted, "{recorded:?}, not {wanted:?}");
    ensure!(members(&pods(&client, ZOOKEEPER, &namespace).await?)? == wanted, "pods have moved");
    let template = workloads.get(&name).await?.spec.and_then(|spec| spec.template.spec).context("no spec")?;
    ensure!(template.containers.iter().all(|container| container.name != "sidecar"), "{:?}", template.containers);
    Ok(())
}

/// Waits until `Ready` of a resource of the Go tf-operator says this.
async fn says(cluster: &Cluster, kind: KindInfo, what: &str) -> Result<Resource> {
    let is_said = |resource: &Resource| resource.condition("Ready").is_some_and(|it| it.message.contains(what));
    cluster.until(kind, &former::owner(kind), what, is_said).await
}

#[tokio::test]
async fn a_ring_of_the_go_tf_operator_is_taken_over_with_its_image_its_data_and_its_authority_alone() -> Result<()> {
    let mut cluster = cluster("in-ring", &[]).await?;
    cluster.nodes(3, 0).await?;
    let (client, namespace, selector) = (cluster.client.clone(), cluster.namespace.clone(), cluster.control_plane());
    let owner = former::owner(CASSANDRA);
    let ring = async |common: Value, image: &str| {
        let mut spec = json!({"serviceConfiguration": {"containers": [{"name": "cassandra", "image": image}]}});
        spec["commonConfiguration"] = common;
        spec["commonConfiguration"]["nodeSelector"] = selector.clone();
        resources::apply(&client, CASSANDRA, &namespace, &owner, spec).await
    };
    let uid = ring(json!({}), "ours").await?.uid().context("no uid")?;
    let mut workload = former::workload(CASSANDRA, &namespace, &selector, &uid, 3);
    let pod = &mut workload["spec"]["template"]["spec"];
    pod["volumes"] = json!([{"name": "data", "hostPath": {"path": "/var/lib/contrail/database"}}]);
    pod["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/var/lib/cassandra"}]);
    cluster.apply_object(&workload).await?;
    let before = running(&client, CASSANDRA, &namespace, 3, 3).await?;
    cluster.add(&["cassandra-op"], &Install::default(), &Run::default()).await?;

    says(&cluster, CASSANDRA, "runs image theirs, and new ones would run ours").await?;
    ring(json!({}), former::IMAGE).await?;
    says(&cluster, CASSANDRA, "set storage.hostPath.path to /var/lib/contrail/database").await?;
    ring(json!({"storage": {"hostPath": {"path": "/var/lib/contrail/database"}}}), former::IMAGE).await?;
    says(&cluster, CASSANDRA, "ConfigMap csr-signer-ca with ca-bundle.crt does not exist").await?;
    let (authority, published) = former::authority(&namespace)?;
    cluster.apply_object(&published).await?;
    says(&cluster, CASSANDRA, "there is none yet").await?;
    let (other, _) = former::authority("elsewhere")?;
    cluster.apply_object(&former::signed_by(&other, &namespace)).await?;
    let refused = says(&cluster, CASSANDRA, "the one in use is").await?;
    let status = &refused.object.data["status"];
    ensure!(status["members"].is_null() && status["clusterName"].is_null(), "{status:#}");
    ensure!(uids(&pods(&client, CASSANDRA, &namespace).await?) == uids(&before), "pods were replaced");

    cluster.apply_object(&former::signed_by(&authority, &namespace)).await?;
    eventually("every pod to be ours", 4 * SOON, async || {
        Ok(former::are_replaced(&client, CASSANDRA, &namespace, &before).await?.then_some(()))
    })
    .await?;
    let resource = cluster.ready(CASSANDRA, &owner).await?;
    ensure!(former::recorded(&resource)? == members(&before)?, "{:?}", former::recorded(&resource)?);
    let name = &resource.object.data["status"]["clusterName"];
    ensure!(name == "ContrailConfigDB", "{name}");
    Ok(())
}

#[tokio::test]
async fn a_cluster_of_rabbitmq_is_taken_over_with_its_release_its_files_and_its_authority_alone() -> Result<()> {
    let mut cluster = cluster("in-rabbit", &[]).await?;
    cluster.nodes(3, 0).await?;
    let (client, namespace, selector) = (cluster.client.clone(), cluster.namespace.clone(), cluster.control_plane());
    let owner = former::owner(RABBITMQ);
    let wish = async |common: Value, image: &str| {
        let mut spec = json!({"serviceConfiguration": {"containers": [{"name": "rabbitmq", "image": image}]}});
        spec["commonConfiguration"] = common;
        spec["commonConfiguration"]["nodeSelector"] = selector.clone();
        resources::apply(&client, RABBITMQ, &namespace, &owner, spec).await
    };
    let uid = wish(json!({}), "ours").await?.uid().context("no uid")?;
    let mut workload = former::workload(RABBITMQ, &namespace, &selector, &uid, 3);
    let pod = &mut workload["spec"]["template"]["spec"];
    pod["volumes"] = json!([{"name": "data", "hostPath": {"path": "/var/lib/contrail/rabbitmq"}}]);
    pod["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/var/lib/rabbitmq"}]);
    cluster.apply_object(&workload).await?;
    let before = running(&client, RABBITMQ, &namespace, 3, 3).await?;
    cluster.add(&["rabbitmq-op"], &Install::default(), &Run::default()).await?;

    says(&cluster, RABBITMQ, "runs image theirs, and new ones would run ours").await?;
    wish(json!({}), former::IMAGE).await?;
    says(&cluster, RABBITMQ, "the release of their servers is not known").await?;
    former::state_release(&client, &namespace, "3.7.28").await?;
    says(&cluster, RABBITMQ, "says \"3.7.28\", and servers of 3.10 to 3.13 alone").await?;
    former::state_release(&client, &namespace, "3.10.7").await?;
    says(&cluster, RABBITMQ, "set storage.hostPath.path to /var/lib/contrail/rabbitmq").await?;
    wish(json!({"storage": {"hostPath": {"path": "/var/lib/contrail/rabbitmq"}}}), former::IMAGE).await?;
    says(&cluster, RABBITMQ, "the name of the server on node").await?;
    for object in former::of_rabbitmq(&client, &namespace, &uid).await? {
        cluster.apply_object(&object).await?;
    }
    says(&cluster, RABBITMQ, "ConfigMap csr-signer-ca with ca-bundle.crt does not exist").await?;
    let (authority, published) = former::authority(&namespace)?;
    cluster.apply_object(&published).await?;
    let refused = says(&cluster, RABBITMQ, "there is none yet").await?;
    let status = &refused.object.data["status"];
    ensure!(status["members"].is_null() && status["distribution"].is_null(), "{status:#}");
    ensure!(uids(&pods(&client, RABBITMQ, &namespace).await?) == uids(&before), "pods were replaced");

    cluster.apply_object(&former::signed_by(&authority, &namespace)).await?;
    eventually("every pod to be ours", 4 * SOON, async || {
        Ok(former::are_replaced(&client, RABBITMQ, &namespace, &before).await?.then_some(()))
    })
    .await?;
    let resource = cluster.ready(RABBITMQ, &owner).await?;
    ensure!(former::recorded(&resource)? == members(&before)?, "{:?}", former::recorded(&resource)?);
    let distribution = &resource.object.data["status"]["distribution"];
    ensure!(*distribution == json!({"tls": false, "delegates": 16}), "{distribution}");
    // Its clients log in as before, and its servers have the names and the cookie that they had.
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    let connection = secrets.get("rabbitmq1-rabbitmq-connection").await?.data.context("no data")?;
    ensure!(connection["password"].0 == former::PASSWORD.as_bytes(), "another password");
    let files = secrets.get("rabbitmq1-rabbitmq-secret-files").await?.data.context("no data")?;
    ensure!(files[".erlang.cookie"].0 == b"THEIRS", "another cookie");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let hosts = maps.get("rabbitmq1-rabbitmq-files").await?.data.context("no data")?;
    ensure!(hosts["erl_hosts"].matches(".theirs.example").count() == 3, "{}", hosts["erl_hosts"]);
    Ok(())
}

fn uids(pods: &BTreeMap<String, Pod>) -> Vec<Option<String>> {
    pods.values().map(Pod::uid).collect()
}
