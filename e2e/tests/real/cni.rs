//! Nodes without a network plugin become Ready by the vRouter's CNI configuration, which is there when the agent serves and not before, and
//! pods get addresses of the played agent.

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Event, Node, Pod, Service};
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tf_api::names::TAINT_AGENT_NOT_READY;
use tf_testing::wait::eventually;
use tf_testing::{Lab, RealNode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::{
    SOON, load_tools, run, says,
    vhost0::{self, AGENTS},
};

/// The lab's configuration of a node, and the vRouter's.
const LAB: &str = "10-lab.conflist";
const FILE: &str = "10-tf-cni.conf";
/// What the installation by another operator may have left, which comes before the vRouter's.
const EARLIER: &str = "10-contrail.conf";
/// XMPP of a control node.
const XMPP: u16 = 5269;
/// For pods of the vRouter to be changed on one node after the other, and to serve.
const CHANGED: Duration = Duration::from_mins(4);
/// Between two looks at a configuration is less.
const REPAIRED: Duration = Duration::from_secs(30);

/// Takes the lab's network plugin from two nodes, and gives them the vRouter's.
pub async fn nodes_become_ready_by_it(lab: &Lab, client: &Client, nodes: &[RealNode]) -> Result<()> {
    let network = lab.real_nodes()?.network();
    for (number, node) in (1_u8..).zip(nodes) {
        // The lab's own plugin has given addresses of the other half.
        let pods = network.pods(number).to_string().replace(".0/24", ".128/25");
        fs::write(node.machine().path("/var/lib/contrail/tf-sim-network")?, pods)?;
        fs::remove_file(file(node, LAB)?)?;
        ensure!(!file(node, FILE)?.exists(), "a configuration is there although no agent serves plugins");
    }
    let [first, second] = nodes else { anyhow::bail!("{} nodes, not two", nodes.len()) };
    let plugin = json!({"cniVersion": "0.3.1", "name": "contrail-k8s-cni", "type": "contrail-k8s-cni"});
    fs::write(file(second, EARLIER)?, plugin.to_string())?;
    is_ready(client, first, false).await?;

    // No control node is known yet, so the plugin would have pods wait for nothing.
    apply(client, nodes, json!({})).await?;
    AGENTS.until(client, "serving without a control node", CHANGED, |it| it.is("WorkloadReady", "True")).await?;
    ensure!(!file(first, FILE)?.exists(), "a configuration is there although the agent knows no control node");
    for node in [first, second] {
        is_tainted(client, node, true).await?;
    }

    let control = control_node(network.api_server()).await?;
    let begun = Instant::now();
    apply(client, nodes, json!({"CONTROL_NODES": control.to_string()})).await?;
    for node in nodes {
        is_ready(client, node, true).await?;
        is_tainted(client, node, false).await?;
    }
    AGENTS.until(client, "serving", CHANGED, |it| it.is("WorkloadReady", "True")).await?;
    println!("nodes Ready by the CNI configuration after {:.0?}", begun.elapsed());
    ensure!(file(first, FILE)?.exists() && file(second, FILE)?.exists(), "a node has no configuration");
    ensure!(!file(second, EARLIER)?.exists(), "the earlier configuration is still what the runtime reads");
    ensure!(file(second, &format!("{EARLIER}.tf_bak"))?.exists(), "the earlier configuration is gone");
    pods_reach_each_other(lab, client, [first, second]).await?;

    let before = fs::read(file(first, FILE)?)?;
    let mtu: u64 = first.run("cat", &["/sys/class/net/vhost0/mtu"]).await?.trim().parse()?;
    let configuration: Value = serde_json::from_slice(&before)?;
    ensure!(configuration["contrail"]["mtu"] == mtu - 64, "{configuration}");
    fs::write(file(first, FILE)?, "{}")?;
    fs::remove_file(file(second, FILE)?)?;
    eventually("both configurations", REPAIRED, async || {
        let is_back = |node| Ok::<_, anyhow::Error>(fs::read(file(node, FILE)?).ok().as_ref() == Some(&before));
        Ok((is_back(first)? && is_back(second)?).then_some(()))
    })
    .await?;
    for node in nodes {
        is_ready(client, node, true).await?;
    }
    Ok(())
}

/// A pod that is made now on a node gets a network.
pub async fn another_pod_is_connected(lab: &Lab, node: &RealNode) -> Result<()> {
    load_tools(lab).await?;
    run(lab, &format!("another-on-{}", node.name()), node.name(), "sleep 600", "").await.map(drop)
}

/// Pods on two nodes, by address and by Service. What keeps them from that is in events.
async fn pods_reach_each_other(lab: &Lab, client: &Client, nodes: [&RealNode; 2]) -> Result<()> {
    match pods_are_connected(lab, client, nodes).await {
        Ok(()) => Ok(()),
        Err(error) => {
            let events: Api<Event> = Api::default_namespaced(client.clone());
            let events = events.list(&ListParams::default()).await?.items;
            let messages: Vec<_> = events.into_iter().filter_map(|event| event.message).collect();
            Err(error.context(format!("{messages:#?}")))
        }
    }
}

async fn pods_are_connected(lab: &Lab, client: &Client, [first, second]: [&RealNode; 2]) -> Result<()> {
    load_tools(lab).await?;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "overlay"},
        "spec": {"selector": {"app": "overlay"}, "ports": [{"port": 80, "targetPort": 8080}]},
    });
    lab.apply(&service.to_string()).await?;
    let service: Service = Api::default_namespaced(client.clone()).get("overlay").await?;
    let service = service.spec.and_then(|spec| spec.cluster_ip).context("no address of the Service")?;
    let server = run(lab, "overlay", first.name(), "while true; do echo hello | nc -l -p 8080; done", "").await?;
    let address = address(&server)?;
    ensure!(lab.real_nodes()?.network().pods(1).contains(&address), "{address} is none that the agent gave");
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let label = json!({"metadata": {"labels": {"app": "overlay"}}});
    pods.patch("overlay", &PatchParams::default(), &Patch::Merge(label)).await?;
    let ask = |name: &str, port: u16| format!("while ! nc -w 2 {name} {port} </dev/null 2>/dev/null; do sleep 1; done");
    let script = format!("{}; {}; echo both; sleep 600", ask(&address.to_string(), 8080), ask(&service, 80));
    run(lab, "overlay-client", second.name(), &script, "").await?;
    let said = says(lab, "overlay-client", "both").await?;
    ensure!(said == "hello\nhello\nboth\n", "{said}");
    Ok(())
}

fn address(pod: &Pod) -> Result<IpAddr> {
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_ref()).context("a pod without an address")?;
    Ok(address.parse()?)
}

/// A Vrouter whose agents speak no TLS with control nodes and whose pods bring the CNI plugin, with these variables besides.
async fn apply(client: &Client, nodes: &[RealNode], variables: Value) -> Result<()> {
    let configuration = json!({
        "xmppSslEnable": false,
        "agentNotReadyTaint": true,
        "containers": [{"name": "vrouteragent"}, {"name": "vroutercni"}],
        "envVariablesConfig": variables,
    });
    vhost0::apply(client, nodes, configuration).await
}

/// Plays a control node that knows every virtual-router, until the test has ended. Out: its address.
async fn control_node(address: IpAddr) -> Result<IpAddr> {
    let listener = TcpListener::bind((address, XMPP)).await?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut name = [0; 256];
                let _ = stream.read(&mut name).await;
                let _ = stream.write_all(b"1").await;
            });
        }
    });
    Ok(address)
}

fn file(node: &RealNode, name: &str) -> Result<PathBuf> {
    node.machine().path(&format!("/etc/cni/net.d/{name}"))
}

/// Waits until a node is Ready, or is not.
pub async fn is_ready(client: &Client, node: &RealNode, wanted: bool) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let limit = if wanted { CHANGED } else { SOON };
    eventually(&format!("{} to be Ready: {wanted}", node.name()), limit, async || {
        let status = nodes.get(node.name()).await?.status.unwrap_or_default();
        let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
        Ok(ready.is_some_and(|ready| (ready.status == "True") == wanted).then_some(()))
    })
    .await
}

/// Waits until a node has the taint by which no pod is scheduled there, or has not.
async fn is_tainted(client: &Client, node: &RealNode, wanted: bool) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    eventually(&format!("{} to be tainted: {wanted}", node.name()), CHANGED, async || {
        let spec = nodes.get(node.name()).await?.spec.unwrap_or_default();
        let has = spec.taints.iter().flatten().any(|taint| taint.key == TAINT_AGENT_NOT_READY);
        Ok((has == wanted).then_some(()))
    })
    .await
}
