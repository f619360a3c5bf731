//! Stores and their agents on nodes that have IPv6 addresses and no others: whoever comes, comes over IPv6, too.

use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ListParams};
use serde_json::json;
use tf_api::kinds::ZOOKEEPER;
use tf_testing::real::network;
use tf_testing::resources::{self, Resource};
use tf_testing::wait::eventually;
use tf_testing::{IpFamily, Lab, Options, skip};

use crate::{
    SOON, cassandra, rabbitmq, redis,
    store::{NAMESPACE, Store, members},
    zookeeper::{self, journal::Journal, membership},
};

/// A test of a store on so many nodes.
async fn with(store: Store, nodes: u32, test: impl AsyncFnOnce(&Lab, &Client) -> Result<()>) -> Result<()> {
    if !network::has(IpFamily::V6) {
        return skip::this_test("this machine has no IPv6");
    }
    let options = Options { ip_family: IpFamily::V6, ..Options::real(nodes) };
    let test = async |lab: &Lab, client: &Client| {
        test(lab, client).await?;
        kubelet_reaches_operator(store, client).await
    };
    store.with_options(options, &[], &[], test).await
}

/// The same, as one of the long tests of its store.
async fn drawn(
    store: Store,
    number: usize,
    nodes: u32,
    test: impl AsyncFnOnce(&Lab, &Client) -> Result<()>,
) -> Result<()> {
    if store.is_drawn(number)? { with(store, nodes, test).await } else { Ok(()) }
}

/// An operator that does not answer where its kubelet asks is never Ready, and ended after a minute.
async fn kubelet_reaches_operator(store: Store, client: &Client) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let own = ListParams::default().labels(&format!("app.kubernetes.io/name={}", store.operator));
    eventually("the operator to be Ready", SOON, async || {
        Ok(pods.list(&own).await?.iter().any(resources::is_pod_ready).then_some(()))
    })
    .await
}

/// The members are where the nodes are, and so are the addresses that others are told to connect to.
fn is_told(resource: &Resource, addresses: &[IpAddr]) -> Result<()> {
    let expected: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let found: Vec<String> = members(resource).into_iter().map(|member| member.address).collect();
    ensure!(addresses.iter().all(IpAddr::is_ipv6) && found == expected, "{found:?}, not {expected:?}");
    let endpoints = resource.object.data["status"]["endpoints"].as_array().context("no endpoints")?;
    ensure!(!endpoints.is_empty() && endpoints.iter().all(|it| it["nodes"] == json!(expected)), "{endpoints:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn zookeeper_s_members_find_each_other_and_keep_what_each_was_told() -> Result<()> {
    with(zookeeper::STORE, 3, async |lab, client| {
        resources::apply(client, ZOOKEEPER, NAMESPACE, zookeeper::STORE.name, json!({})).await?;
        let zookeeper = zookeeper::STORE.certified(client).await?;
        let addresses = lab.real_nodes()?.addresses()?;
        is_told(&zookeeper, &addresses)?;
        let (voting, _) = membership::voting(&members(&zookeeper)).await?;
        ensure!(voting == addresses, "{voting:?}");
        ensure!(zookeeper::modes(&addresses).await? == ["follower", "follower", "leader"]);
        for address in &addresses {
            let journal = Journal::begin(&[*address]).await.with_context(|| format!("{address}"))?;
            journal.goes_on().await?;
            journal.stop().is_kept_by(&addresses).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_s_members_form_one_cluster_that_loses_no_message() -> Result<()> {
    drawn(rabbitmq::STORE, rabbitmq::Long::Ipv6 as usize, 3, async |lab, client| {
        let (access, addresses) = rabbitmq::three(lab, client).await?;
        is_told(&rabbitmq::STORE.through(client, "the bring-up").await?, &addresses)?;
        let summary = rabbitmq::traffic::Traffic::begin(&access, &addresses).await?.end().await?;
        ensure!(summary.lost == 0, "{summary}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_keeps_what_it_was_told() -> Result<()> {
    drawn(redis::STORE, redis::Long::Ipv6 as usize, 1, async |lab, client| {
        let (login, addresses) = redis::three(lab, client).await?;
        is_told(&redis::STORE.through(client, "the bring-up").await?, &addresses)?;
        let mut session = login.connect(addresses[0]).await?;
        session.ask(&["SET", "word", "kept"]).await?;
        let word = login.connect(addresses[0]).await?.ask(&["GET", "word"]).await?;
        ensure!(word == "kept", "{word}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn cassandra_keeps_what_it_was_told() -> Result<()> {
    drawn(cassandra::STORE, cassandra::Long::Ipv6 as usize, 1, async |lab, client| {
        let (access, addresses) = cassandra::three(lab, client).await?;
        is_told(&cassandra::STORE.through(client, "the bring-up").await?, &addresses)?;
        cassandra::table(&access, &addresses).await?;
        access.connect(addresses[0]).await?.execute("INSERT INTO lab.journal (number) VALUES (1)").await?;
        let read = access.connect(addresses[0]).await?.count("lab.journal").await?;
        ensure!(read == 1, "{read} rows");
        Ok(())
    })
    .await
}
