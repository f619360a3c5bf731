//! Pods run where they are told to.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, LogParams};
use tf_testing::wait::eventually;

use crate::{NODES, SOON, load_tools, run};

#[tokio::test]
async fn nodes_are_ready_and_each_has_its_own_address() -> Result<()> {
    let lab = NODES.get().await?;
    let nodes: Api<Node> = Api::all(lab.client().await?);
    let mut addresses = BTreeSet::new();
    for node in nodes.list(&ListParams::default()).await? {
        let status = node.status.context("status")?;
        let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready").context("Ready")?;
        assert_eq!(ready.status, "True", "{ready:?}");
        let internal = status.addresses.into_iter().flatten().find(|address| address.type_ == "InternalIP");
        addresses.insert(internal.context("an address")?.address);
    }
    assert_eq!(addresses.len(), 3);
    Ok(())
}

#[tokio::test]
async fn a_pod_on_the_host_network_has_the_address_and_the_name_of_its_node() -> Result<()> {
    let lab = NODES.get().await?;
    load_tools(&lab).await?;
    let script = "hostname; ip -4 -o address show dev eth0; sleep 600";
    let pod = run(&lab, "on-host", "node-2", script, "hostNetwork: true").await?;
    let node = lab.real_nodes()?.node("node-2")?;
    let status = pod.status.context("status")?;
    assert_eq!(status.pod_ip, Some(node.address().to_string()));

    let pods: Api<Pod> = Api::default_namespaced(lab.client().await?);
    let log = eventually("its log", SOON, async || {
        let log = pods.logs("on-host", &LogParams::default()).await?;
        Ok((log.lines().count() >= 2).then_some(log))
    })
    .await?;
    assert!(log.starts_with("node-2\n") && log.contains(&format!("{}/32", node.address())), "{log}");
    Ok(())
}

#[tokio::test]
async fn a_pod_has_an_address_of_its_node_s_range_and_is_reached_there_from_another_node() -> Result<()> {
    let lab = NODES.get().await?;
    load_tools(&lab).await?;
    let server = run(&lab, "server", "node-1", "while true; do echo hello | nc -l -p 8080; done", "").await?;
    let address = server.status.context("status")?.pod_ip.context("an address")?;
    assert!(lab.real_nodes()?.network().pods(1).contains(&address.parse::<std::net::IpAddr>()?));

    let script = format!("while ! nc -w 2 {address} 8080 </dev/null; do sleep 1; done; sleep 600");
    run(&lab, "client", "node-3", &script, "").await?;
    let pods: Api<Pod> = Api::default_namespaced(lab.client().await?);
    eventually("the answer", SOON, async || {
        Ok((pods.logs("client", &LogParams::default()).await? == "hello\n").then_some(()))
    })
    .await
}
