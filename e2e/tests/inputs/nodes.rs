//! Nodes that are not as one expects.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tf_api::kinds::{
    ANALYTICS, CASSANDRA, CONFIG, CONTROL, KUBEMANAGER, MANAGER, QUERY_ENGINE, RABBITMQ, REDIS, VROUTER, WEBUI,
    ZOOKEEPER,
};
use tf_testing::{
    Cluster, IpFamily, Options, operators,
    resources::{self, Resource},
    sample::has_turn,
    wait::eventually,
};

use crate::support::{SOON, alone, cluster, made, member, told};

#[tokio::test]
async fn a_selector_that_matches_no_node_is_said_and_the_first_node_is_taken() -> Result<()> {
    let cluster = cluster("in-nowhere", &["zookeeper-op"]).await?;
    member(&cluster, ZOOKEEPER, "zk", json!({})).await?;
    let message = told(&cluster, ZOOKEEPER, "zk", ("Ready", "False", "NoMatchingNodes")).await?;
    assert!(message.contains("lab.tungsten.io/cluster"), "the selector is not named: {message}");
    assert!(made::<StatefulSet>(&cluster, "zk").await?.is_empty());
    cluster.nodes(1, 0).await?;
    cluster.ready(ZOOKEEPER, "zk").await?;
    Ok(())
}

#[tokio::test]
async fn twelve_control_nodes_carry_as_many_members_as_are_of_use() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let cluster = cluster("in-twelve", &operators::ALL).await?;
    cluster.nodes(12, 0).await?;
    cluster.example().await?;
    cluster.manager_ready("sdn").await?;
    let wanted = [
        (CASSANDRA, "configdb1", "7/7"),
        (CASSANDRA, "analyticsdb1", "7/7"),
        (ZOOKEEPER, "zookeeper1", "5/5"),
        (RABBITMQ, "rabbitmq1", "5/5"),
        (REDIS, "redis1", "12/12"),
        (CONFIG, "config1", "12/12"),
        (CONTROL, "control1", "12/12"),
        (KUBEMANAGER, "kubemanager1", "12/12"),
        (ANALYTICS, "analytics1", "12/12"),
        (QUERY_ENGINE, "queryengine1", "12/12"),
        (WEBUI, "webui1", "12/12"),
    ];
    for (kind, name, members) in wanted {
        let resource = cluster.get(kind, name).await?;
        assert_eq!(resource.status.members_ready.as_deref(), Some(members), "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn nodes_with_ipv6_addresses_give_a_cluster_and_files_with_brackets() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let options = Options { ip_family: IpFamily::V6, ..Options::fleet(0, 0) };
    let cluster = alone(options, "in-ipv6", &operators::ALL).await?;
    cluster.nodes(3, 1).await?;
    cluster.example().await?;

    // The port of the default is one that the config daemons cannot use over IPv6: it is said, not worked around.
    let message = told(&cluster, CONFIG, "config1", ("CassandraReady", "False", "InvalidSpec")).await?;
    assert!(message.contains("9042") && message.contains("cqlPort"), "{message}");
    let mut manager = cluster.example_manager()?;
    manager["spec"]["services"]["cassandras"][0]["spec"]["serviceConfiguration"]["cqlPort"] = json!(9042);
    manager["spec"]["services"]["cassandras"][1]["spec"]["serviceConfiguration"]["cqlPort"] = json!(9043);
    cluster.apply_object(&manager).await?;
    cluster.ready(CONFIG, "config1").await?;
    // Control nodes find no store over IPv6, whatever its port.
    let message = told(&cluster, CONTROL, "control1", ("CassandraReady", "False", "InvalidSpec")).await?;
    assert!(message.contains("IPv4 addresses and names only"), "{message}");
    // Nor does kube-manager find an API server.
    let message = told(&cluster, KUBEMANAGER, "kubemanager1", ("Stalled", "True", "InvalidSpec")).await?;
    assert!(message.contains("kubernetesAPIServer") && message.contains("IPv4"), "{message}");
    // Nor do collectors find a store.
    let message = told(&cluster, ANALYTICS, "analytics1", ("CassandraReady", "False", "InvalidSpec")).await?;
    assert!(message.contains("IPv4 addresses and names only"), "{message}");
    // The web UI shows the DNS of control nodes, and waits for them.
    told(&cluster, WEBUI, "webui1", ("ControlReady", "False", "DependencyNotReady")).await?;
    let services = manager["spec"]["services"].as_object_mut().context("no services")?;
    let is_left = |name: &str| {
        !name.starts_with("analytics") && !["controls", "kubemanager", "queryengine", "webui"].contains(&name)
    };
    services.retain(|name, _| is_left(name));
    cluster.apply_object(&manager).await?;
    // Agents without control nodes would forward nothing.
    told(&cluster, VROUTER, "vrouter1", ("Ready", "False", "DependencyNotReady")).await?;
    manager["spec"]["services"].as_object_mut().context("no services")?.remove("vrouters");
    cluster.apply_object(&manager).await?;
    cluster.manager_ready("sdn").await?;

    let zookeeper = cluster.get(ZOOKEEPER, "zookeeper1").await?;
    let addresses: Vec<String> = zookeeper.object.data["status"]["members"]
        .as_array()
        .context("no members")?
        .iter()
        .filter_map(|member| Some(member["address"].as_str()?.to_owned()))
        .collect();
    ensure!(addresses.len() == 3 && addresses.iter().all(|address| address.contains(':')), "{addresses:?}");
    let files = every_config_map(&cluster).await?;
    for address in addresses {
        ensure!(files.contains(&format!("[{address}]")), "no file has [{address}]");
    }
    Ok(())
}

async fn every_config_map(cluster: &Cluster) -> Result<String> {
    let api: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let maps = api.list(&ListParams::default()).await?;
    Ok(maps.items.into_iter().filter_map(|map| map.data).flat_map(BTreeMap::into_values).collect())
}

/// kubeadm has not set the older label `master` since Kubernetes 1.24; the Go tf-operator's manifest selects it.
#[tokio::test]
async fn control_plane_nodes_without_the_old_label_are_found_with_and_without_a_selector() -> Result<()> {
    let cluster = alone(Options::fleet(3, 1), "in-labels", &["manager-op", "zookeeper-op"]).await?;
    let api: Api<k8s_openapi::api::core::v1::Node> = Api::all(cluster.client.clone());
    let old = api.list(&ListParams::default().labels("node-role.kubernetes.io/master")).await?;
    ensure!(old.items.is_empty(), "the nodes of this lab should not have the old label");

    let manager = |spec: Value| json!({"services": {"zookeeper": {"metadata": {"name": "zk"}, "spec": spec}}});
    let apply = async |spec: Value| resources::apply(&cluster.client, MANAGER, "in-labels", "sdn", manager(spec)).await;
    apply(json!({})).await?;
    cluster.manager_ready("sdn").await?;
    let before = pods(&cluster).await?;
    ensure!(before.len() == 3 && before.iter().all(|(_, node)| node.starts_with("control-plane")), "{before:?}");

    apply(json!({"commonConfiguration": {"nodeSelector": {"node-role.kubernetes.io/master": ""}}})).await?;
    cluster.manager_ready("sdn").await?;
    assert_eq!(pods(&cluster).await?, before, "the same nodes under another name");
    Ok(())
}

/// Uid and node of every pod.
async fn pods(cluster: &Cluster) -> Result<Vec<(String, String)>> {
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let mut pods: Vec<_> = api
        .list(&ListParams::default())
        .await?
        .items
        .into_iter()
        .filter_map(|pod| Some((pod.metadata.uid?, pod.spec?.node_name?)))
        .collect();
    pods.sort();
    Ok(pods)
}

/// A member's node that is deleted while nobody looks is a member that is missing, not a reason to forget it.
#[tokio::test]
async fn a_node_that_is_removed_is_said_and_taken_back_with_its_member() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let cluster = cluster("in-removed", &["zookeeper-op"]).await?;
    let nodes = cluster.nodes(3, 0).await?;
    member(&cluster, ZOOKEEPER, "zk", json!({})).await?;
    let before = cluster.ready(ZOOKEEPER, "zk").await?.object.data["status"]["members"].clone();
    let api = cluster.lab.nodes().await?;
    let lost = api.api().get(&nodes[2]).await?;
    api.delete(&nodes[2]).await?;
    let seen = cluster.until(ZOOKEEPER, "zk", "not Ready", |zk| zk.is("Ready", "False")).await?;
    let message = &seen.condition("Ready").context("no Ready")?.message;
    ensure!(message.contains(&nodes[2]), "the node is not named: {message}");
    assert!(seen.is("Available", "True"), "two of three serve: {}", seen.explain("Available"));
    assert_eq!(seen.object.data["status"]["members"], before, "members are kept");

    let mut back = lost;
    (back.metadata.uid, back.metadata.resource_version, back.metadata.managed_fields) = (None, None, None);
    api.api().create(&kube::api::PostParams::default(), &back).await?;
    let after = cluster.ready(ZOOKEEPER, "zk").await?;
    assert_eq!(after.object.data["status"]["members"], before);
    Ok(())
}

/// Uids and addresses of the pods of ZooKeeper that do not end, by their nodes.
async fn places(cluster: &Cluster) -> Result<BTreeMap<String, (String, String)>> {
    let pods = resources::pods(&cluster.client, ZOOKEEPER, &cluster.namespace).await?;
    let stay = pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let place = |pod: Pod| {
        let (uid, node) = (pod.metadata.uid?, pod.spec?.node_name?);
        Some((node, (uid, pod.status?.pod_ip?)))
    };
    Ok(stay.filter_map(place).collect())
}

#[tokio::test]
async fn a_node_that_gets_another_address_keeps_its_member_where_it_is_until_the_pod_is_replaced() -> Result<()> {
    let cluster = cluster("in-moved", &["zookeeper-op"]).await?;
    let nodes = cluster.nodes(3, 0).await?;
    member(&cluster, ZOOKEEPER, "zk", json!({})).await?;
    cluster.ready(ZOOKEEPER, "zk").await?;
    let before = places(&cluster).await?;
    let (moved, new) = (&nodes[1], "10.9.9.9");
    let addresses = json!({"status": {"addresses": [{"type": "InternalIP", "address": new}, {"type": "Hostname", "address": moved}]}});
    let api = cluster.lab.nodes().await?;
    api.api().patch_status(moved, &PatchParams::default(), &Patch::Strategic(addresses)).await?;

    let address = |zk: &Resource| {
        let members = zk.object.data["status"]["members"].as_array()?;
        let member = members.iter().find(|member| member["node"] == **moved)?;
        member["address"].as_str().map(str::to_owned)
    };
    let (old, mut seen) = (before[moved].1.clone(), BTreeSet::new());
    eventually("the member at its new address", SOON, async || {
        let zk = cluster.get(ZOOKEEPER, "zk").await?;
        let now = places(&cluster).await?;
        let at = address(&zk).context("no such member")?;
        // The status was read before the pods.
        let is_replaced = now.get(moved).is_none_or(|(uid, _)| *uid != before[moved].0);
        ensure!(at == old || at == new, "{at}");
        ensure!(at == old || is_replaced, "it moved while its pod keeps the old address");
        seen.insert(zk.explain("WorkloadReady"));
        Ok((at == new && zk.is_ready() && now.get(moved).is_some_and(|place| place.1 == new)).then_some(()))
    })
    .await
    .with_context(|| format!("{seen:#?}"))?;
    let after = places(&cluster).await?;
    for node in [&nodes[0], &nodes[2]] {
        ensure!(before[node] == after[node], "{node}: {before:?}, {after:?}");
    }
    Ok(())
}
