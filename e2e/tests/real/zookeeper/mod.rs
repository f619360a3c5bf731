//! A real ZooKeeper on real nodes: the operator runs as a pod of its chart, the servers as the operator's pods.
//!
mod identity;
mod journal;
mod membership;
mod rollout;

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ListParams};
use serde_json::json;
use tf_api::kinds::ZOOKEEPER;
use tf_testing::operators::Install;
use tf_testing::real::image;
use tf_testing::resources::{self, Resource};
use tf_testing::wait::eventually;
use tf_testing::{Lab, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const NAMESPACE: &str = "tf";
const NAME: &str = "zookeeper1";
const STORE: &str = "zookeeper-3.9.4";
const CLIENT_PORT: u16 = 2181;
/// Three servers in Java start at once on a small machine.
const BRING_UP: Duration = Duration::from_mins(4);
/// From the loss of a node to Kubernetes saying so: its lease, the controller's look, the pod's condition.
const NOTICED: Duration = Duration::from_mins(2);

/// The images that operator and members run, loaded into every node. `None` where they cannot be made.
async fn load_images(lab: &Lab) -> Result<Option<()>> {
    let Some(archives) = image::archives(&["zookeeper-op", "tf-node", STORE])? else { return Ok(None) };
    lab.real_nodes()?.load(&archives).await?;
    Ok(Some(()))
}

/// A lab of control-plane nodes with the operator installed from its chart. `None` where the images cannot be made.
async fn lab(nodes: u32) -> Result<Option<Lab>> {
    let lab = Lab::start(Options::real(nodes)).await?;
    for node in lab.real_nodes()?.all()? {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": node.name(), "labels": {"node-role.kubernetes.io/control-plane": ""}},
        });
        lab.apply(&node.to_string()).await?;
    }
    if load_images(&lab).await?.is_none() {
        return Ok(None);
    }
    let values = ["replicaCount=1", "operands.images.external-zookeeper=tungstenfabric/lab-zookeeper:3.9.4"];
    let install = Install { values: values.map(String::from).to_vec(), ..Install::default() };
    lab.install("zookeeper-op", NAMESPACE, &install).await?;
    Ok(Some(lab))
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

/// The node of the operator's pod.
async fn operator_node(client: &Client) -> Result<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let selector = ListParams::default().labels("app.kubernetes.io/name=zookeeper-op");
    let pod = pods.list(&selector).await?.items.into_iter().next().context("the operator has no pod")?;
    pod.spec.and_then(|spec| spec.node_name).context("the operator's pod has no node")
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
    let operator = operator_node(&client).await?;
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
