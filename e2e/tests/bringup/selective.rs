//! Each operator works alone, and what is missing can be installed later.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, ListParams},
};
use serde_json::{Value, json};
use tf_api::{KindInfo, kinds};
use tf_testing::{
    Cluster, Options, SharedLab,
    operators::{Install, Run},
    resources::{self, Resource},
    wait::eventually,
};
use tokio::sync::Mutex;

use crate::support::{everything_in, label, settled};

/// Definitions are of the whole cluster, so these tests have a lab of their own and take turns in it.
static LAB: SharedLab = SharedLab::new(|| Options::fleet(0, 0));
static TURN: Mutex<()> = Mutex::const_new(());

/// Installs an operator with the definitions that its chart brings, and starts it.
async fn install(cluster: &mut Cluster, operator: &'static str) -> Result<()> {
    cluster.lab.install(operator, &cluster.namespace, &Install::default()).await?;
    let running = cluster.lab.operate(operator, &cluster.namespace, &Run::default()).await?;
    running.ready().await?;
    cluster.operators.push(running);
    Ok(())
}

/// Plural names of our kinds that are defined.
async fn defined(cluster: &Cluster) -> Result<Vec<String>> {
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let all = definitions.list(&ListParams::default()).await?.items.into_iter().map(|definition| definition.spec);
    Ok(all.filter(|spec| spec.group == tf_api::GROUP).map(|spec| spec.names.plural).collect())
}

/// Takes all definitions away, and with them all resources.
async fn undefine(cluster: &Cluster) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    for plural in defined(cluster).await? {
        definitions.delete(&format!("{plural}.{}", tf_api::GROUP), &DeleteParams::default()).await?;
    }
    eventually("the definitions to be gone", Duration::from_secs(30), async || {
        Ok(defined(cluster).await?.is_empty().then_some(()))
    })
    .await
}

/// A resource of each kind that needs no other, on one node.
fn specs() -> [(KindInfo, &'static str, Value); 5] {
    let endpoint = |name: &str, protocol: &str, port: u16| json!([{ "name": name, "protocol": protocol, "port": port, "nodes": ["192.0.2.1", "192.0.2.2", "192.0.2.3"] }]);
    let external = |endpoints: Value, secret: Option<&str>| match secret {
        Some(name) => json!({ "external": { "endpoints": endpoints, "secretRef": { "name": name } } }),
        None => json!({ "external": { "endpoints": endpoints } }),
    };
    let config = json!({ "dependencies": {
        "cassandra": external(endpoint("cql", "TCP", 9042), None),
        "zookeeper": external(endpoint("client", "TCP", 2181), None),
        "rabbitmq": external(endpoint("amqp", "AMQP", 5672), Some("rabbitmq-login")),
    } });
    [
        (kinds::CASSANDRA, "configdb1", json!({})),
        (kinds::CONFIG, "config1", config),
        (kinds::RABBITMQ, "rabbitmq1", json!({})),
        (kinds::VROUTER, "vrouter1", json!({})),
        (kinds::ZOOKEEPER, "zookeeper1", json!({})),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_operator_works_alone_with_only_its_own_definitions() -> Result<()> {
    let lab = LAB.get().await?;
    let _turn = TURN.lock().await;
    for (kind, name, mut spec) in specs() {
        let mut cluster = Cluster::empty(&lab, &format!("only-{}", kind.operator)).await?;
        cluster.nodes(1, 0).await?;
        install(&mut cluster, kind.operator).await?;
        let own: Vec<&str> =
            kinds::ALL.iter().filter(|other| other.operator == kind.operator).map(|own| own.plural).collect();
        ensure!(
            defined(&cluster).await? == own,
            "the chart of {} defines {:?}",
            kind.operator,
            defined(&cluster).await?
        );
        spec["commonConfiguration"] = json!({ "nodeSelector": cluster.everywhere() });
        let login = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "rabbitmq-login", "namespace": cluster.namespace },
            "stringData": { "username": "config", "password": "p&\"+%", "vhost": "/" },
        });
        cluster.apply_object(&login).await?;
        resources::apply(&cluster.client, kind, &cluster.namespace, name, spec).await?;
        let ready = cluster.ready(kind, name).await.with_context(|| format!("{} alone", kind.operator))?;
        ensure!(ready.status.members_ready.as_deref() == Some("1/1"), "{:?}", ready.status.members_ready);
        undefine(&cluster).await?;
    }

    let mut cluster = Cluster::empty(&lab, "only-manager-op").await?;
    install(&mut cluster, "manager-op").await?;
    ensure!(defined(&cluster).await? == ["managers"]);
    cluster.example().await?;
    let tells = |manager: &Resource| manager.condition("Ready").is_some_and(|ready| ready.reason == "CRDMissing");
    let manager = cluster.until(kinds::MANAGER, "sdn", "telling what is missing", tells).await?;
    for (kind, ..) in specs() {
        let shown = manager.explain(manager_op::condition(kind).as_ref());
        ensure!(shown.contains("CRDMissing") && shown.contains(kind.operator), "{shown}");
    }
    undefine(&cluster).await
}

/// What identifies an object and its content, as far as its operator decides it.
fn substance(object: &DynamicObject) -> (String, Option<String>, Option<i64>, Option<String>) {
    let meta = &object.metadata;
    // What has no status changes only if somebody writes it.
    let plain = matches!(label(object).split(' ').next(), Some("ConfigMap" | "Secret" | "Service" | "ServiceAccount"));
    (label(object), meta.uid.clone(), meta.generation, meta.resource_version.clone().filter(|_| plain))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_installed_later_completes_the_cluster_and_nothing_else_is_touched() -> Result<()> {
    let lab = LAB.get().await?;
    let _turn = TURN.lock().await;
    let mut cluster = Cluster::empty(&lab, "later").await?;
    cluster.nodes(1, 1).await?;
    for operator in ["cassandra-op", "config-op", "manager-op", "vrouter-op", "zookeeper-op"] {
        install(&mut cluster, operator).await?;
    }
    cluster.example().await?;
    for (kind, name) in
        [(kinds::CASSANDRA, "configdb1"), (kinds::ZOOKEEPER, "zookeeper1"), (kinds::VROUTER, "vrouter1")]
    {
        cluster.ready(kind, name).await?;
    }
    cluster.ready(kinds::CASSANDRA, "analyticsdb1").await?;
    let missing =
        |resource: &Resource| resource.condition("RabbitmqReady").is_some_and(|shown| shown.reason == "CRDMissing");
    cluster.until(kinds::CONFIG, "config1", "waiting for RabbitMQ", missing).await?;
    let manager = cluster.until(kinds::MANAGER, "sdn", "waiting for RabbitMQ", missing).await?;
    ensure!(
        !manager.is_ready() && manager.explain("RabbitmqReady").contains("rabbitmq-op"),
        "{}",
        manager.explain("Ready")
    );
    settled(&cluster, Duration::from_secs(1)).await?;
    let untouched = ["configdb1", "analyticsdb1", "zookeeper1"];
    let of_them = |object: &DynamicObject| {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        untouched.iter().any(|prefix| name.starts_with(prefix)) && !label(object).starts_with("Event ")
    };
    let snapshot = async |cluster: &Cluster| {
        let all = everything_in(&cluster.client, "later").await?;
        let of_them = all.iter().filter(|object| of_them(object)).map(|object| (label(object), substance(object)));
        anyhow::Ok(of_them.collect::<BTreeMap<_, _>>())
    };
    let before = snapshot(&cluster).await?;
    ensure!(before.len() > 3 * 6, "only {:?}", before.keys());

    install(&mut cluster, "rabbitmq-op").await?;
    cluster.manager_ready("sdn").await?;
    settled(&cluster, Duration::from_secs(1)).await?;
    let after = snapshot(&cluster).await?;
    let touched: Vec<_> =
        before.iter().filter(|(label, was)| after.get(*label) != Some(*was)).map(|(label, _)| label).collect();
    ensure!(touched.is_empty(), "these were changed or replaced: {touched:?}");
    ensure!(after.len() == before.len(), "new: {:?}", after.keys().filter(|label| !before.contains_key(*label)));
    undefine(&cluster).await
}
