//! A real ZooKeeper on real nodes: the operator runs as a pod of its chart, the servers as the operator's pods.

mod adoption;
mod clients;
mod crash;
mod disaster;
mod faults;
mod host_files;
mod identity;
mod issuer;
pub mod journal;
pub mod membership;
mod rest;
mod rollout;
mod secrets;
mod storage;
mod tls;
mod watchman;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, EvictParams, ListParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tf_api::contract::MemberStatus;
use tf_api::kinds::ZOOKEEPER;
use tf_plan::metrics;
use tf_testing::Lab;
use tf_testing::real::{image, operator};
use tf_testing::resources::{self, Resource};
use tf_testing::sample::Sample;
use tf_testing::skip;
use tf_testing::wait::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::told;
use tokio::time::timeout;

use crate::store::{self, BRING_UP, NAMESPACE, Store, Turn, members};

const NAME: &str = "zookeeper1";
pub const CLIENT_PORT: u16 = 2181;
/// Where servers tell their metrics.
const METRICS_PORT: u16 = 7000;
/// From the loss of a node to Kubernetes saying so: its lease, the controller's look, the pod's condition.
const NOTICED: Duration = Duration::from_mins(2);

/// The operator.
const OPERATOR: &str = "zookeeper-op";
/// Archives of the images that every node needs.
const IMAGES: [&str; 3] = [OPERATOR, "tf-node", image::ZOOKEEPER_ARCHIVE];
pub const STORE: Store =
    Store { operator: OPERATOR, kind: ZOOKEEPER, name: NAME, images: &IMAGES, values: &[image::ZOOKEEPER] };

/// Tests that take minutes each. A run tries some of them, `cargo xtask soak life` every one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Long {
    Growth,
    Release,
    Tls,
    Clients,
    Renewal,
    Rotation,
    Issuer,
    HostFiles,
    Storage,
    Disaster,
    Replacement,
    Adoption,
    Recreation,
    Mistake,
    Rest,
    Strangers,
    Ports,
    Hibernation,
}

impl Long {
    pub const ALL: usize = Self::Hibernation as usize + 1;

    /// Whether it is tried in this run; else it is counted as skipped.
    fn is_drawn(self) -> Result<bool> {
        STORE.is_drawn(self as usize)
    }
}

/// A test in a lab of control-plane nodes with the operator installed from its chart. Where the images cannot be made there is
/// none.
async fn with_lab(nodes: u32, test: impl AsyncFnOnce(&Lab, &Client) -> Result<()>) -> Result<()> {
    with(nodes, &[], &[], test).await
}

/// The same, with further values of the chart and further images.
async fn with(
    nodes: u32,
    values: &[&str],
    images: &[&str],
    test: impl AsyncFnOnce(&Lab, &Client) -> Result<()>,
) -> Result<()> {
    STORE.with(nodes, values, images, test).await
}

/// Waits until the operator can ask every member.
async fn certified(client: &Client) -> Result<Resource> {
    STORE.certified(client).await
}

/// The pods of the ensemble, by name.
async fn pods(client: &Client) -> Result<BTreeMap<String, Pod>> {
    STORE.pods(client).await
}

/// Deletes the resource, and waits until nothing that it owns is left. What members keep on their nodes stays.
async fn deleted(client: &Client) -> Result<()> {
    STORE.deleted::<zookeeper_op::Component>(client).await
}

/// What a server answers to a four-letter word.
async fn ask(address: IpAddr, word: &str) -> Result<String> {
    exchange(address, CLIENT_PORT, word).await
}

/// What a server tells Prometheus, with the headers.
async fn server_metrics(address: IpAddr) -> Result<String> {
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
    exchange(address, METRICS_PORT, &request).await
}

/// What is said until the connection is closed.
async fn exchange(address: IpAddr, port: u16, request: &str) -> Result<String> {
    let answer = async {
        let mut stream = TcpStream::connect((address, port)).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        anyhow::Ok(answer)
    };
    timeout(Duration::from_secs(5), answer).await?
}

/// The part that each server plays, sorted.
pub async fn modes(addresses: &[IpAddr]) -> Result<Vec<String>> {
    let mut modes = Vec::new();
    for address in addresses {
        let answer = ask(*address, "srvr").await?;
        let mode = answer.lines().find_map(|line| line.strip_prefix("Mode: "));
        modes.push(mode.with_context(|| format!("{address} answered {answer:?}"))?.to_owned());
    }
    modes.sort();
    Ok(modes)
}

/// One pod may be evicted while all serve, and no other one before it serves again.
async fn one_is_evicted_at_a_time(lab: &Lab, client: &Client) -> Result<()> {
    // A client of a real drain asks again; this one is told.
    let mut config = tf_testing::lab::client_config(lab.kubeconfig()).await?;
    config.default_retry = false;
    let api: Api<Pod> = Api::namespaced(Client::try_from(config)?, NAMESPACE);
    let before = pods(client).await?;
    let [first, second, ..] = before.keys().collect::<Vec<_>>()[..] else { bail!("{before:?}") };
    api.evict(first, &EvictParams::default()).await?;
    let refused = api.evict(second, &EvictParams::default()).await;
    ensure!(
        matches!(&refused, Err(kube::Error::Api(status)) if status.code == 429),
        "{second} was evicted beside {first}: {refused:?}"
    );
    let is_back = async || {
        let now = pods(client).await?;
        Ok(now.get(first).is_some_and(|pod| pod.uid() != before[first].uid()).then_some(()))
    };
    eventually("another pod", BRING_UP, is_back).await?;
    resources::ready(client, ZOOKEEPER, NAMESPACE, NAME, BRING_UP).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ensemble_of_three_real_servers_forms_and_outlives_a_node_without_power() -> Result<()> {
    with_lab(3, async |lab, client| {
        let nodes = lab.real_nodes()?;
        let spec = json!({"serviceConfiguration": {"metricsPort": METRICS_PORT}});
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, spec).await?;
        resources::ready(client, ZOOKEEPER, NAMESPACE, NAME, BRING_UP).await?;

        let addresses = nodes.addresses()?;
        assert_eq!(modes(&addresses).await?, ["follower", "follower", "leader"], "Ready means that all three serve");
        let mut pages = Vec::new();
        for address in &addresses {
            let told = server_metrics(*address).await?;
            let is_told = |metric: &str| told.lines().any(|line| line == metric);
            assert!(told.starts_with("HTTP/1.1 200") && is_told("quorum_size 3.0"), "{address}: {told}");
            pages.push(told);
        }
        told::by_servers(&metrics::ZOOKEEPER, &pages)?;

        one_is_evicted_at_a_time(lab, client).await?;

        // Not the operator's own node: its pod is made anew elsewhere only half a minute after the loss is noticed.
        let lost = STORE.node_without_operator(lab, client).await?;
        nodes.stop(lost.name()).await?;
        let others: Vec<IpAddr> = addresses.iter().copied().filter(|address| *address != lost.address()).collect();
        eventually("the others to serve", Duration::from_secs(30), async || {
            Ok(modes(&others).await.ok().filter(|modes| modes == &["follower", "leader"]))
        })
        .await?;
        let is_known = |zookeeper: &Resource| !zookeeper.is_ready() && zookeeper.is("Available", "True");
        resources::until(client, ZOOKEEPER, NAMESPACE, NAME, "not Ready and Available", NOTICED, is_known).await?;

        nodes.start(lost.name()).await?;
        resources::ready(client, ZOOKEEPER, NAMESPACE, NAME, BRING_UP).await?;
        assert_eq!(modes(&addresses).await?, ["follower", "follower", "leader"]);
        Ok(())
    })
    .await
}
