//! A real RabbitMQ on real nodes: the operator runs as a pod of its chart, the servers as the operator's pods.

mod traffic;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::json;
use tf_api::kinds::RABBITMQ;
use tf_testing::real::image;
use tf_testing::resources::{self, Resource};

use self::traffic::{Access, Traffic};
use crate::store::{BRING_UP, NAMESPACE, Store};

const NAME: &str = "rabbitmq1";
const AMQP_PORT: u16 = 5673;
const OPERATOR: &str = "rabbitmq-op";
const STORE: Store = Store {
    operator: OPERATOR,
    kind: RABBITMQ,
    name: NAME,
    images: &[OPERATOR, "tf-node", image::RABBITMQ_ARCHIVE],
    values: &[image::RABBITMQ],
};
/// For three servers, one after the other, each drained before.
const ROLL: Duration = Duration::from_mins(5);
/// Until a failure is told.
const TOLD: Duration = Duration::from_secs(10);

fn uids(pods: &BTreeMap<String, Pod>) -> BTreeMap<String, Option<String>> {
    pods.iter().map(|(name, pod)| (name.clone(), pod.uid())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn three_real_servers_form_one_cluster_that_lets_in_who_has_certificate_and_password() -> Result<()> {
    STORE
        .with(3, &[], &[], async |lab, client| {
            resources::apply(client, RABBITMQ, NAMESPACE, NAME, json!({})).await?;
            STORE.certified(client).await?;
            let addresses = lab.real_nodes()?.addresses()?;
            let access = Access::of(client).await?;
            for address in &addresses {
                access.connect(*address).await.with_context(|| format!("{address}"))?;
                ensure!(access.without_certificate().connect(*address).await.is_err(), "{address}: no certificate");
                ensure!(access.with_password("wrong").connect(*address).await.is_err(), "{address}: wrong password");
            }
            let traffic = Traffic::begin(&access, &addresses).await?;
            let summary = traffic.end().await?;
            ensure!(summary.lost == 0, "{summary}");
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_configuration_reaches_one_server_after_the_other_and_loses_no_message() -> Result<()> {
    STORE
        .with(3, &[], &[], async |lab, client| {
            resources::apply(client, RABBITMQ, NAMESPACE, NAME, json!({})).await?;
            STORE.certified(client).await?;
            let addresses = lab.real_nodes()?.addresses()?;
            let before = uids(&STORE.pods(client).await?);
            let traffic = Traffic::begin(&Access::of(client).await?, &addresses).await?;
            let changed = json!({"commonConfiguration": {"logLevel": "debug"}});
            resources::apply(client, RABBITMQ, NAMESPACE, NAME, changed).await?;
            let is_through = |rabbitmq: &Resource| rabbitmq.is_ready() && rabbitmq.is("Progressing", "False");
            resources::until(client, RABBITMQ, NAMESPACE, NAME, "the change", ROLL, is_through).await?;
            let summary = traffic.end().await?;
            println!("changed one after the other: {summary}");
            ensure!(summary.lost == 0, "{summary}");
            ensure!(uids(&STORE.pods(client).await?) == before, "pods are the same");
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_is_told_and_loses_no_message() -> Result<()> {
    STORE
        .with(3, &[], &[], async |lab, client| {
            resources::apply(client, RABBITMQ, NAMESPACE, NAME, json!({})).await?;
            STORE.certified(client).await?;
            let nodes = lab.real_nodes()?.all()?;
            let addresses: Vec<Ipv4Addr> = lab.real_nodes()?.addresses()?;
            let access = Access::of(client).await?;
            for node in &nodes {
                let traffic = Traffic::begin(&access, &addresses).await?;
                node.kill("beam.smp")?;
                let told = |rabbitmq: &Resource| !rabbitmq.is_ready();
                resources::until(client, RABBITMQ, NAMESPACE, NAME, "the loss", TOLD, told).await?;
                resources::ready(client, RABBITMQ, NAMESPACE, NAME, BRING_UP).await?;
                let summary = traffic.end().await?;
                println!("killed on {}: {summary}", node.name());
                ensure!(summary.lost == 0, "{summary}");
            }
            Ok(())
        })
        .await
}
