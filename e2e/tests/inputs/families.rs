//! Nodes with addresses of both IP families, in either order.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{ConfigMap, Node},
};
use kube::{
    ResourceExt as _,
    api::{Api, ListParams, Patch, PatchParams},
};
use serde_json::json;
use tf_api::{
    KindInfo,
    kinds::{RABBITMQ, REDIS, ZOOKEEPER},
};
use tf_testing::Cluster;

use crate::support::{cluster, member, told};

const KINDS: [(KindInfo, &str); 3] = [(ZOOKEEPER, "zk"), (RABBITMQ, "mq"), (REDIS, "redis")];

/// Has a node list these internal addresses, and an external one before them.
async fn list(cluster: &Cluster, node: &str, internal: &[&str]) -> Result<()> {
    let internal = internal.iter().map(|address| json!({"type": "InternalIP", "address": address}));
    let addresses: Vec<_> =
        [json!({"type": "ExternalIP", "address": "203.0.113.3"})].into_iter().chain(internal).collect();
    let api: Api<Node> = Api::all(cluster.client.clone());
    let patch = Patch::Merge(json!({"status": {"addresses": addresses}}));
    api.patch_status(node, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Generations of StatefulSets and versions of ConfigMaps.
async fn made(cluster: &Cluster) -> Result<BTreeMap<String, String>> {
    let sets: Api<StatefulSet> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let sets = sets.list(&ListParams::default()).await?.items.into_iter();
    let maps = maps.list(&ListParams::default()).await?.items.into_iter();
    let sets = sets.map(|set| (set.name_any(), set.metadata.generation.unwrap_or_default().to_string()));
    let maps = maps.map(|map| (format!("file {}", map.name_any()), map.resource_version().unwrap_or_default()));
    Ok(sets.chain(maps).collect())
}

#[tokio::test]
async fn members_on_dual_stack_nodes_have_addresses_of_ipv4_whatever_the_order_and_other_nodes_are_named() -> Result<()>
{
    let cluster = cluster("in-families", &["zookeeper-op", "rabbitmq-op", "redis-op"]).await?;
    let nodes = cluster.nodes(4, 0).await?;
    let api = cluster.lab.nodes().await?;
    let mut ipv4 = Vec::new();
    for node in &nodes {
        ipv4.push(api.address(node).await?.to_string());
    }
    list(&cluster, &nodes[0], &[&ipv4[0], "fd00:9::1"]).await?;
    list(&cluster, &nodes[1], &["fd00:9::2", &ipv4[1]]).await?;
    list(&cluster, &nodes[3], &["fd00:9::4"]).await?;
    for (kind, name) in KINDS {
        member(&cluster, kind, name, json!({})).await?;
        cluster.ready(kind, name).await?;
        let status = &cluster.get(kind, name).await?.object.data["status"];
        let members = status["members"].as_array().context("no members")?;
        let addresses: BTreeSet<_> = members.iter().filter_map(|member| member["address"].as_str()).collect();
        ensure!(addresses == ipv4[..3].iter().map(String::as_str).collect(), "{name}: {addresses:?}");
    }
    // What is ready writes nothing more.
    let before = made(&cluster).await?;
    list(&cluster, &nodes[0], &["fd00:9::1", &ipv4[0]]).await?;
    list(&cluster, &nodes[1], &[&ipv4[1], "fd00:9::2"]).await?;

    // That operators have seen this shows when they name the fourth node.
    member(&cluster, RABBITMQ, "mq", json!({"commonConfiguration": {"replicas": 5}})).await?;
    let message = told(&cluster, RABBITMQ, "mq", ("Ready", "False", "NoMatchingNodes")).await?;
    let named = format!("node {} has no InternalIP of IPv4, the IP family of the members", nodes[3]);
    ensure!(message.contains(&named), "{message}");
    let after = made(&cluster).await?;
    ensure!(before == after, "{before:?}\n{after:?}");
    Ok(())
}
