//! Nodes lose what nodes lose: power, network, disk, the kubelet, and themselves.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams};
use tf_testing::real::partition::API_SERVER;
use tf_testing::wait::eventually;
use tf_testing::{Lab, Options, SharedLab};

use crate::{SOON, load_tools, reaches, ready, run};

/// Three nodes. Tests here run at the same time: each names the nodes that are its own.
static NODES: SharedLab = SharedLab::new(|| Options::real(3));

/// From the end of a node to its Node saying so: 20 s, and what a busy machine adds.
const NOTICED: Duration = Duration::from_secs(50);

/// Where a kubelet listens.
const KUBELET: u16 = 10250;

/// Waits until a Node's condition Ready has this status.
async fn ready_is(lab: &Lab, node: &str, wanted: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(lab.client().await?);
    eventually(&format!("Ready={wanted} of {node}"), NOTICED, async || {
        let status = nodes.get(node).await?.status.context("status")?;
        let mut conditions = status.conditions.iter().flatten();
        Ok(conditions.any(|condition| condition.type_ == "Ready" && condition.status == wanted).then_some(()))
    })
    .await
}

/// How often the container of a pod was started again.
async fn restarts(lab: &Lab, pod: &str) -> Result<i32> {
    let pods: Api<Pod> = Api::default_namespaced(lab.client().await?);
    let status = pods.get(pod).await?.status.context("status")?;
    Ok(status.container_statuses.iter().flatten().map(|container| container.restart_count).sum())
}

#[tokio::test]
async fn a_node_that_lost_its_power_is_noticed_and_comes_back_with_its_disk_and_its_pods() -> Result<()> {
    let lab = NODES.get().await?;
    load_tools(&lab).await?;
    let nodes = lab.real_nodes()?;
    let node = nodes.node("node-1")?;
    let volume = "volumes: [{name: disk, hostPath: {path: /var/lib/diary, type: DirectoryOrCreate}}]";
    let mount = "volumeMounts: [{name: disk, mountPath: /disk}]";
    crate::run_with(&lab, "survivor", "node-1", "echo up >>/disk/diary; sleep 600", volume, mount).await?;

    nodes.stop("node-1").await?;
    assert!(!node.is_running()? && node.run("true", &[]).await.is_err());
    assert!(!reaches(&nodes.node("node-3")?, node.address(), KUBELET).await);
    ready_is(&lab, "node-1", "Unknown").await?;

    nodes.start("node-1").await?;
    ready_is(&lab, "node-1", "True").await?;
    // Its status may be the one from before for a moment.
    eventually("the pod to be started again", NOTICED, async || {
        Ok((restarts(&lab, "survivor").await? > 0).then_some(()))
    })
    .await?;
    ready(&lab, "survivor", SOON).await?;
    assert_eq!(node.run("cat", &["/var/lib/diary/diary"]).await?, "up\nup\n");
    Ok(())
}

#[tokio::test]
async fn a_cut_hides_nodes_from_each_other_and_one_from_the_api_server_makes_a_node_not_ready() -> Result<()> {
    let lab = NODES.get().await?;
    load_tools(&lab).await?;
    let nodes = lab.real_nodes()?;
    let (two, three) = (nodes.node("node-2")?, nodes.node("node-3")?);
    assert!(reaches(&two, three.address(), KUBELET).await && reaches(&three, two.address(), KUBELET).await);

    nodes.cut(&["node-2"], &["node-3"]).await?;
    assert!(!reaches(&two, three.address(), KUBELET).await && !reaches(&three, two.address(), KUBELET).await);
    let api: std::net::SocketAddr = lab.endpoint()?.url.trim_start_matches("https://").parse()?;
    let server = nodes.network().api_server();
    assert!(reaches(&two, server, api.port()).await && reaches(&three, server, api.port()).await);
    // Neither of two cuts is undone by healing the other.
    nodes.cut(&["node-2"], &[API_SERVER, "node-3"]).await?;
    assert!(!reaches(&two, server, api.port()).await);
    nodes.heal(&["node-2"], &["node-3"]).await?;
    assert!(reaches(&two, three.address(), KUBELET).await);

    ready_is(&lab, "node-2", "Unknown").await?;
    nodes.heal(&["node-2"], &nodes.others(&["node-2"])?).await?;
    ready_is(&lab, "node-2", "True").await?;
    assert!(nodes.cut(&["node-2"], &["node-9"]).await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_full_disk_takes_nothing_until_it_is_freed_and_other_nodes_have_their_own() -> Result<()> {
    let lab = NODES.get().await?;
    // Now, since it goes to all nodes.
    load_tools(&lab).await?;
    let nodes = lab.real_nodes()?;
    let (full, other) = (nodes.add(1).await?.pop().context("a node")?, nodes.node("node-2")?);
    let write = ["-c", "echo word >/var/lib/word && cat /var/lib/word"];
    full.fill_disk()?;
    let refused = full.run("bash", &write).await.expect_err("the disk is full");
    assert!(format!("{refused:#}").contains("No space left on device"), "{refused:#}");
    assert_eq!(other.run("bash", &write).await?, "word\n");
    full.free_disk()?;
    assert_eq!(full.run("bash", &write).await?, "word\n");
    nodes.remove(full.name()).await
}

#[tokio::test]
async fn containers_run_on_without_their_kubelet() -> Result<()> {
    let lab = NODES.get().await?;
    load_tools(&lab).await?;
    let node = lab.real_nodes()?.node("node-3")?;
    let server = run(&lab, "orphan", "node-3", "while true; do echo hello | nc -l -p 8080; done", "").await?;
    let address = server.status.and_then(|status| status.pod_ip).context("an address")?.parse()?;
    node.kill_kubelet()?;
    assert!(node.check().is_err());
    assert!(!reaches(&node, node.address(), KUBELET).await);
    eventually("the pod's answer", SOON, async || Ok(reaches(&node, address, 8080).await.then_some(()))).await?;
    node.start_kubelet()?;
    lab.real_nodes()?.wait_ready(&[node]).await?;
    assert_eq!(restarts(&lab, "orphan").await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_node_is_replaced_by_one_with_another_name_and_address() -> Result<()> {
    let lab = NODES.get().await?;
    load_tools(&lab).await?;
    let nodes = lab.real_nodes()?;
    let old = nodes.add(1).await?.pop().context("a node")?;
    let new = nodes.replace(old.name()).await?;
    assert!(old.name() != new.name() && old.address() != new.address());
    assert!(nodes.node(old.name()).is_err());

    let objects: Api<Node> = Api::all(lab.client().await?);
    objects.delete(old.name(), &DeleteParams::default()).await?;
    ready_is(&lab, new.name(), "True").await?;
    nodes.remove(new.name()).await
}
