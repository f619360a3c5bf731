//! Pods of a Vrouter give `vhost0` the place of their node's interface before their agent starts, on real nodes with a stand-in for
//! the kernel module (`tf_sim::module`).

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tf_api::kinds::VROUTER;
use tf_testing::real::{image, operator, whole};
use tf_testing::resources::{self, Resource};
use tf_testing::wait::eventually;
use tf_testing::{Lab, Options, RealNode};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::{
    cni, kubectl_tf,
    managers::Manager,
    removal,
    store::{NAMESPACE, Store, Turn},
};

const OPERATOR: &str = "vrouter-op";
/// The Vrouter, for what is looked at when the test fails.
pub const AGENTS: Store = Store { operator: OPERATOR, kind: VROUTER, name: "vrouter1", images: &[], values: &[] };
/// A pod that failed is started again after 10 s, 20 s, and so on.
const MADE: Duration = Duration::from_mins(3);
/// Of a node that cannot be set up the cause is in the status then.
const NAMED: Duration = Duration::from_mins(1);
/// The label of nodes with an agent.
const LABEL: &str = "agent";
/// The kubelet of a node.
const KUBELET: u16 = 10250;
/// For it to answer.
const ANSWER: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn pods_make_vhost0_before_their_agent_starts_and_again_after_a_reboot_and_a_node_that_has_another_one_is_named()
-> Result<()> {
    let Some(archives) = image::archives([OPERATOR, "tf-node", "tf-sim"])? else { return Ok(()) };
    let values = whole::values(OPERATOR);
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let made = operator::installed(Options::real(2), OPERATOR, NAMESPACE, &archives, &values);
    let lab = Turn::take(made).await?;
    let client = lab.client().await?;
    match story(&lab, &client).await {
        Ok(()) => Ok(()),
        Err(error) => Err(AGENTS.with_testimony(error, &client).await),
    }
}

async fn story(lab: &Lab, client: &Client) -> Result<()> {
    let nodes = lab.real_nodes()?.all()?;
    let [first, second] = &nodes[..] else { anyhow::bail!("{} nodes, not two", nodes.len()) };
    for node in [first, second] {
        module_is_loaded(node).await?;
        label(client, node, Some("")).await?;
    }
    second.run("ip", &["link", "add", "vhost0", "type", "bridge"]).await?;
    let managers = [(first, Manager::NetworkManager), (second, Manager::Networkd)];
    for (node, manager) in managers {
        manager.start(node).await?;
    }
    let ready = ready_since(client).await?;
    apply(client, &nodes, json!({"containers": [{"name": "vrouteragent"}]})).await?;

    is_switched(first).await?;
    agent_runs(client, first).await?;
    settings_are_kept(first).await?;
    // The other node is named with the cause, and nothing on it was touched.
    let says = |vrouter: &Resource, words: &[&str]| {
        let condition = vrouter.condition("WorkloadReady");
        condition.is_some_and(|it| it.status == "False" && words.iter().all(|words| it.message.contains(words)))
    };
    let words = [second.name(), "vhost0 is an interface of the kind bridge", "nothing was touched"];
    AGENTS.until(client, "naming the node", NAMED, |vrouter| says(vrouter, &words)).await?;
    ensure!(addresses(second, "eth0").await?.contains(&second.address().to_string()), "the other node was touched");
    nodes_are_shown(lab, first, second).await?;
    second.run("ip", &["link", "delete", "vhost0"]).await?;
    is_switched(second).await?;
    agent_runs(client, second).await?;
    AGENTS.until(client, "naming no node", NAMED, |vrouter| !says(vrouter, &words[..1])).await?;
    ensure!(ready_since(client).await? == ready, "a node was not Ready for a while");
    is_reached(first).await?;
    for (node, manager) in managers {
        manager.stays_away(node).await?;
    }

    // Another pod finds it made.
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let former = pod_of(client, first).await?.context("no pod")?;
    let before = addresses(first, "vhost0").await?;
    pods.delete(former.metadata.name.as_deref().unwrap_or_default(), &DeleteParams::default()).await?;
    eventually("another pod", MADE, async || {
        let present = pod_of(client, first).await?;
        Ok(present.filter(|pod| pod.metadata.uid != former.metadata.uid).map(drop))
    })
    .await?;
    agent_runs(client, first).await?;
    ensure!(addresses(first, "vhost0").await? == before, "vhost0 was made again");

    cni::nodes_become_ready_by_it(lab, client, &nodes).await?;

    // After a reboot the node has a plain interface, and no vhost0.
    let away = if operator::node_of(client, OPERATOR, NAMESPACE).await? == first.name() { second } else { first };
    lab.real_nodes()?.stop(away.name()).await?;
    lab.real_nodes()?.start(away.name()).await?;
    let begun = Instant::now();
    module_is_loaded(away).await?;
    is_switched(away).await?;
    println!("vhost0 after a reboot: {:.0?}", begun.elapsed());
    agent_runs(client, away).await?;
    is_reached(away).await?;
    cni::is_ready(client, away, true).await?;
    cni::another_pod_is_connected(lab, away).await?;
    removal::gives_everything_back(client, [first, second]).await?;
    // The one that was booted has none any more.
    for (node, manager) in managers.into_iter().filter(|(node, _)| node.name() != away.name()) {
        manager.is_back(node).await?;
    }

    // A second installation finds nodes as the first one did.
    apply(client, &nodes, json!({"containers": [{"name": "vrouteragent"}]})).await?;
    for node in [first, second] {
        is_switched(node).await?;
        agent_runs(client, node).await?;
        is_reached(node).await?;
    }
    Ok(())
}

/// `kubectl tf nodes` has a line for each node, with what blocks the second one, and prints all that its pod saw.
async fn nodes_are_shown(lab: &Lab, first: &RealNode, second: &RealNode) -> Result<()> {
    let ask = async |arguments: &[&str]| kubectl_tf::program(lab.kubeconfig(), arguments, "").await;
    let (_, table, _) = ask(&["nodes", "-n", NAMESPACE]).await?;
    let line = |node: &RealNode, words: &[&str]| {
        let mut lines = table.lines().filter(|line| line.starts_with(&format!("{} ", node.name())));
        lines.any(|line| words.iter().all(|word| line.split_whitespace().any(|it| it == *word)))
    };
    // Its pod looked before it made vhost0.
    ensure!(line(first, &["vrouter1", "eth0", "none", "loaded"]), "no line of {}:\n{table}", first.name());
    ensure!(
        line(second, &["not", "ready", "blocking,"]) || line(second, &["not", "ready", "blocking"]),
        "no line of {}:\n{table}",
        second.name()
    );
    for words in ["blocks  vhost0-of-other-kind: vhost0 is an interface of the kind bridge", "nothing was touched"] {
        ensure!(table.contains(words), "no {words:?} in\n{table}");
    }
    let (_, all, _) = ask(&["nodes", "-n", NAMESPACE, second.name()]).await?;
    for words in ["vhost0          bridge", "default route   via ", "Findings: 2 blocking"] {
        ensure!(all.contains(words), "no {words:?} in\n{all}");
    }
    let (code, ..) = ask(&["nodes", "-n", NAMESPACE, "--check"]).await?;
    ensure!(code == 1, "--check ended with {code}");
    Ok(())
}

/// A Vrouter whose pods make `vhost0`, with this configuration besides. The lab's nodes have the network of a single host each.
pub async fn apply(client: &Client, nodes: &[RealNode], mut configuration: Value) -> Result<()> {
    let address = nodes.first().context("no node")?.address().to_string();
    let (network, _) = address.rsplit_once('.').context("no address of IPv4")?;
    configuration["vhost0"] = "Managed".into();
    configuration["dataSubnet"] = format!("{network}.0/24").into();
    let spec = json!({"commonConfiguration": {"nodeSelector": {LABEL: ""}}, "serviceConfiguration": configuration});
    resources::apply(client, VROUTER, NAMESPACE, AGENTS.name, spec).await.map(drop)
}

/// Has a node selected, or not.
pub async fn label(client: &Client, node: &RealNode, value: Option<&str>) -> Result<()> {
    let body = json!({"metadata": {"labels": {LABEL: value}}});
    let nodes: Api<Node> = Api::all(client.clone());
    Ok(nodes.patch(node.name(), &PatchParams::default(), &Patch::Merge(&body)).await.map(drop)?)
}

/// As far as files say: the stand-in needs no module.
async fn module_is_loaded(node: &RealNode) -> Result<()> {
    node.run("mount", &["-t", "tmpfs", "tmpfs", "/sys/module"]).await?;
    node.run("mkdir", &["/sys/module/vrouter"]).await.map(drop)
}

/// Waits until `vhost0` has the node's address and its default route, and the interface has neither.
pub async fn is_switched(node: &RealNode) -> Result<()> {
    let own = node.address().to_string();
    let begun = Instant::now();
    eventually(&format!("vhost0 on {}", node.name()), MADE, async || {
        // It may be booting.
        let (Ok(vhost0), Ok(eth0)) = (addresses(node, "vhost0").await, addresses(node, "eth0").await) else {
            return Ok(None);
        };
        let routes = node.run("ip", &["route", "show", "default"]).await?;
        let is_switched = vhost0.contains(&own) && !eth0.contains(&own) && routes.contains("dev vhost0");
        Ok(is_switched.then_some(()))
    })
    .await?;
    println!("{}: vhost0 after {:.0?}", node.name(), begun.elapsed());
    Ok(())
}

pub async fn addresses(node: &RealNode, link: &str) -> Result<String> {
    node.run("ip", &["-4", "-o", "address", "show", "dev", link]).await
}

/// The node has the kernel settings of the release. Its limits of memory are those of this machine, so only settings of the network are looked at.
async fn settings_are_kept(node: &RealNode) -> Result<()> {
    let keepalive = ["time", "probes", "intvl"].map(|name| format!("/proc/sys/net/ipv4/tcp_keepalive_{name}"));
    let files: Vec<&str> = keepalive.iter().map(String::as_str).collect();
    eventually("kernel settings", NAMED, async || {
        let values = node.run("cat", &files).await?;
        Ok((values.split_whitespace().eq(["5", "5", "1"])).then_some(()))
    })
    .await
}

pub async fn pod_of(client: &Client, node: &RealNode) -> Result<Option<Pod>> {
    let is_on = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node.name());
    let mut pods = resources::pods(client, VROUTER, NAMESPACE).await?.into_iter();
    Ok(pods.find(|pod| is_on(pod) && pod.metadata.deletion_timestamp.is_none()))
}

/// Waits until the agent's container runs.
async fn agent_runs(client: &Client, node: &RealNode) -> Result<()> {
    eventually(&format!("the agent of {}", node.name()), MADE, async || {
        let pod = pod_of(client, node).await?;
        let mut containers = pod.iter().filter_map(|pod| pod.status.as_ref()?.container_statuses.as_ref()).flatten();
        let runs = containers.any(|container| container.state.as_ref().is_some_and(|state| state.running.is_some()));
        Ok(runs.then_some(()))
    })
    .await
}

/// Since when each node is Ready.
async fn ready_since(client: &Client) -> Result<Vec<Option<Timestamp>>> {
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?;
    let since = |node: &Node| {
        let conditions = node.status.as_ref()?.conditions.as_ref()?;
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
        Some(ready.last_transition_time.as_ref()?.0)
    };
    Ok(nodes.iter().map(since).collect())
}

async fn is_reached(node: &RealNode) -> Result<()> {
    let connected = timeout(ANSWER, TcpStream::connect((node.address(), KUBELET))).await;
    connected.with_context(|| format!("{} does not answer", node.name()))?.map(drop).map_err(Into::into)
}
