//! A node that is not selected any more, and each node of a Vrouter that is deleted, is as it was before: its interface has addresses and
//! routes back, and no file of CNI is left.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams};
use tf_api::kinds::VROUTER;
use tf_api::names::LABEL_VROUTER;
use tf_testing::RealNode;
use tf_testing::resources;
use tf_testing::wait::eventually;

use crate::{
    store::NAMESPACE,
    vhost0::{AGENTS, addresses, is_switched, label, pod_of},
};

/// For an agent to stop, and what it left to be undone.
const REMOVED: Duration = Duration::from_mins(2);
/// What the vRouter puts on a node.
const FILES: [&str; 2] = ["/etc/cni/net.d/10-tf-cni.conf", "/opt/cni/bin/contrail-k8s-cni"];

/// First from one of two nodes, which is set up again, and then from both.
pub async fn gives_everything_back(client: &Client, nodes: [&RealNode; 2]) -> Result<()> {
    // Pods of the overlay have gone, as by a drain.
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    eventually("no pod of the overlay", REMOVED, async || {
        Ok(pods.list(&ListParams::default()).await?.items.is_empty().then_some(()))
    })
    .await?;
    let [first, second] = nodes;
    label(client, second, None).await?;
    is_given_back(client, second).await?;
    ensure!(addresses(first, "vhost0").await?.contains(&first.address().to_string()), "the other node was touched");
    label(client, second, Some("")).await?;
    is_switched(second).await?;
    eventually("the label of the node", REMOVED, async || Ok(owner(client, second).await?.is_some().then_some(())))
        .await?;

    let vrouters = resources::api(client, VROUTER, NAMESPACE);
    vrouters.delete(AGENTS.name, &DeleteParams::default()).await?;
    for node in nodes {
        is_given_back(client, node).await?;
    }
    eventually("the Vrouter to be gone", REMOVED, async || {
        Ok(vrouters.get_opt(AGENTS.name).await?.is_none().then_some(()))
    })
    .await?;
    Ok(())
}

async fn is_given_back(client: &Client, node: &RealNode) -> Result<()> {
    let own = node.address().to_string();
    let begun = Instant::now();
    let mut last = String::new();
    eventually(&format!("{} to be as it was", node.name()), REMOVED, async || {
        let links = node.run("ip", &["-o", "link", "show"]).await?;
        let eth0 = addresses(node, "eth0").await?;
        let routes = node.run("ip", &["route", "show", "default"]).await?;
        let files: Vec<_> =
            FILES.iter().filter(|path| node.machine().path(path).is_ok_and(|path| path.exists())).collect();
        let owner = owner(client, node).await?;
        let pod = pod_of(client, node).await?.and_then(|pod| pod.metadata.name);
        last = format!("{links}{eth0}{routes}{files:?}, owner {owner:?}, {pod:?}");
        let is_back = !links.contains("vhost0") && eth0.contains(&own) && routes.contains("dev eth0");
        Ok((is_back && files.is_empty() && owner.is_none()).then_some(()))
    })
    .await
    .with_context(|| last.clone())?;
    println!("{}: as it was after {:.0?}", node.name(), begun.elapsed());
    Ok(())
}

/// Whose vRouter changed a node, by its label.
async fn owner(client: &Client, node: &RealNode) -> Result<Option<String>> {
    let node = Api::<Node>::all(client.clone()).get(node.name()).await?;
    Ok(node.metadata.labels.and_then(|mut labels| labels.remove(LABEL_VROUTER)))
}
