//! A real ZooKeeper on real nodes: the operator runs as a pod of its chart, the servers as the operator's pods.

mod crash;
mod faults;
mod identity;
mod journal;
mod membership;
mod rollout;
mod storage;
mod tls;
mod watchman;

use std::net::Ipv4Addr;
use std::ops::Deref;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ListParams};
use serde_json::json;
use tf_api::kinds::ZOOKEEPER;
use tf_testing::Lab;
use tf_testing::real::{image, operator};
use tf_testing::resources::{self, Resource};
use tf_testing::wait::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;

const NAMESPACE: &str = "tf";
const NAME: &str = "zookeeper1";
const CLIENT_PORT: u16 = 2181;
/// Three servers in Java start at once on a small machine.
const BRING_UP: Duration = Duration::from_mins(4);
/// From the loss of a node to Kubernetes saying so: its lease, the controller's look, the pod's condition.
const NOTICED: Duration = Duration::from_mins(2);

/// The operator.
const OPERATOR: &str = "zookeeper-op";

/// A lab that is the only one with an ensemble: where several share two cores, servers miss the ticks of their leader, and what
/// is measured is the machine.
struct Turn {
    lab: Lab,
    _turn: MutexGuard<'static, ()>,
}

impl Deref for Turn {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        &self.lab
    }
}

/// A lab of control-plane nodes with the operator installed from its chart. `None` where the images cannot be made.
async fn lab(nodes: u32) -> Result<Option<Turn>> {
    lab_with(nodes, &[]).await
}

/// The same, with further values of the chart.
async fn lab_with(nodes: u32, values: &[&str]) -> Result<Option<Turn>> {
    static TURN: Mutex<()> = Mutex::const_new(());
    let Some(archives) = image::archives(&[OPERATOR, "tf-node", image::ZOOKEEPER_ARCHIVE])? else { return Ok(None) };
    let turn = TURN.lock().await;
    let values = [&[image::ZOOKEEPER], values].concat();
    let lab = operator::installed(nodes, OPERATOR, NAMESPACE, &archives, &values).await?;
    Ok(Some(Turn { lab, _turn: turn }))
}

/// What a server answers to a four-letter word.
async fn ask(address: Ipv4Addr, word: &str) -> Result<String> {
    let answer = async {
        let mut stream = TcpStream::connect((address, CLIENT_PORT)).await?;
        stream.write_all(word.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        anyhow::Ok(answer)
    };
    timeout(Duration::from_secs(5), answer).await?
}

/// The part that each server plays, sorted.
async fn modes(addresses: &[Ipv4Addr]) -> Result<Vec<String>> {
    let mut modes = Vec::new();
    for address in addresses {
        let answer = ask(*address, "srvr").await?;
        let mode = answer.lines().find_map(|line| line.strip_prefix("Mode: "));
        modes.push(mode.with_context(|| format!("{address} answered {answer:?}"))?.to_owned());
    }
    modes.sort();
    Ok(modes)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ensemble_of_three_real_servers_forms_and_outlives_a_node_without_power() -> Result<()> {
    let Some(lab) = lab(3).await? else { return Ok(()) };
    let nodes = lab.real_nodes()?;
    let client = lab.client().await?;
    resources::apply(&client, ZOOKEEPER, NAMESPACE, NAME, json!({})).await?;
    resources::ready(&client, ZOOKEEPER, NAMESPACE, NAME, BRING_UP).await?;

    let addresses: Vec<Ipv4Addr> = nodes.all()?.iter().map(tf_testing::RealNode::address).collect();
    assert_eq!(modes(&addresses).await?, ["follower", "follower", "leader"], "Ready means that all three serve");

    // Not the operator's own node: its pod would be made anew elsewhere only after the five minutes that Kubernetes
    // grants a node to come back.
    let operator = operator::node_of(&client, OPERATOR, NAMESPACE).await?;
    let lost = nodes.all()?.into_iter().find(|node| node.name() != operator).context("one node")?;
    nodes.stop(lost.name()).await?;
    let others: Vec<Ipv4Addr> = addresses.iter().copied().filter(|address| *address != lost.address()).collect();
    eventually("the others to serve", Duration::from_secs(30), async || {
        Ok(modes(&others).await.ok().filter(|modes| modes == &["follower", "leader"]))
    })
    .await?;
    let is_known = |zookeeper: &Resource| !zookeeper.is_ready() && zookeeper.is("Available", "True");
    resources::until(&client, ZOOKEEPER, NAMESPACE, NAME, "not Ready and Available", NOTICED, is_known).await?;

    nodes.start(lost.name()).await?;
    resources::ready(&client, ZOOKEEPER, NAMESPACE, NAME, BRING_UP).await?;
    assert_eq!(modes(&addresses).await?, ["follower", "follower", "leader"]);
    Ok(())
}
