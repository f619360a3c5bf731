//! VrouterProfiles are watched: a change reaches the groups that name a profile and no other, and one that is not there changes nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{ConfigMap, Secret},
};
use kube::{
    ResourceExt as _,
    api::{Api, DeleteParams, ListParams},
};
use serde_json::{Value, json};
use tf_agent_api::node::PARAMETERS_FILE;
use tf_api::kinds::{VROUTER, VROUTER_PROFILE};
use tf_testing::{
    Cluster,
    cluster::NODE_LABEL,
    manifests::documents,
    operators::repository,
    resources::{self, Resource},
    wait::eventually,
};

use crate::support::{SOON, cluster, made, told};

const RACK: &str = "rack";

async fn profile(cluster: &Cluster, spec: Value) -> Result<()> {
    resources::apply(&cluster.client, VROUTER_PROFILE, &cluster.namespace, "shared", spec).await.map(drop)
}

/// Uids of the pods of each group.
async fn pods(cluster: &Cluster) -> Result<[BTreeSet<String>; 2]> {
    let mut groups = [BTreeSet::new(), BTreeSet::new()];
    for pod in resources::pods(&cluster.client, VROUTER, &cluster.namespace).await? {
        groups[usize::from(pod.name_any().contains("-b-"))].insert(pod.uid().context("no uid")?);
    }
    Ok(groups)
}

#[tokio::test]
async fn a_changed_profile_changes_the_group_that_names_it_and_a_missing_one_changes_nothing() -> Result<()> {
    let cluster = cluster("in-profiles", &["vrouter-op"]).await?;
    let nodes = cluster.nodes(0, 4).await?;
    let api = cluster.lab.nodes().await?;
    for (node, rack) in nodes.iter().zip(["a", "a", "b", "b"]) {
        api.label(node, RACK, Some(rack)).await?;
    }
    let selector = |rack: &str| json!({NODE_LABEL: cluster.namespace, RACK: rack});
    let spec = json!({
        "groups": [
            {"name": "a", "nodeSelector": selector("a"), "profiles": ["shared"]},
            {"name": "b", "nodeSelector": selector("b")},
        ],
        "serviceConfiguration": {"envVariablesConfig": {"CONTROL_NODES": "192.0.2.1"}},
    });
    resources::apply(&cluster.client, VROUTER, &cluster.namespace, "vrouter1", spec).await?;
    let missing = ("InputsReady", "False", "DependencyNotFound");
    let said = told(&cluster, VROUTER, "vrouter1", missing).await?;
    ensure!(
        said.starts_with("VrouterProfile in-profiles/shared does not exist, and spec.groups[a].profiles names it"),
        "{said}"
    );
    ensure!(made::<DaemonSet>(&cluster, "vrouter1").await?.is_empty(), "half of it runs");

    profile(&cluster, json!({"other": {"moreConfig": {"LOG_DIR": "/var/log/one"}}})).await?;
    let is_everywhere = |it: &Resource| it.is_ready_on(4);
    cluster.until(VROUTER, "vrouter1", "on all nodes", is_everywhere).await?;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let listed: BTreeMap<String, String> = maps.get("vrouter1-parameters").await?.data.context("an empty ConfigMap")?;
    ensure!(listed["a"].contains("LOG_DIR  # VrouterProfile shared: other.moreConfig[LOG_DIR]\n"), "{listed:?}");

    let before = pods(&cluster).await?;
    profile(&cluster, json!({"other": {"moreConfig": {"LOG_DIR": "/var/log/two"}}})).await?;
    eventually("other pods of the group", SOON, async || {
        let now = pods(&cluster).await?;
        ensure!(now[1] == before[1], "the other group was touched");
        Ok((now[0].len() == 2 && now[0].is_disjoint(&before[0])).then_some(()))
    })
    .await?;
    cluster.until(VROUTER, "vrouter1", "on all nodes", is_everywhere).await?;

    let before = pods(&cluster).await?;
    let profiles = resources::api(&cluster.client, VROUTER_PROFILE, &cluster.namespace);
    profiles.delete("shared", &DeleteParams::default()).await?;
    told(&cluster, VROUTER, "vrouter1", missing).await?;
    ensure!(pods(&cluster).await? == before, "a profile that is gone touches pods");
    profile(&cluster, json!({"dpdk": {"coreMask": "2"}})).await?;
    let said = told(&cluster, VROUTER, "vrouter1", ("Stalled", "True", "InvalidSpec")).await?;
    ensure!(said.starts_with("VrouterProfile shared: dpdk.coreMask: write a mask with 0x, or a list"), "{said}");
    profile(&cluster, json!({"other": {"moreConfig": {"LOG_DIR": "/var/log/two"}}})).await?;
    cluster.until(VROUTER, "vrouter1", "on all nodes", is_everywhere).await?;
    ensure!(pods(&cluster).await? == before, "the same profile again touches pods");
    Ok(())
}

/// The groups of the design of 2019 (`examples/vrouter-profiles.yaml`): nodes with DPDK, with virtual functions, and plain ones.
#[tokio::test]
async fn each_group_of_the_example_is_on_its_nodes_with_its_gateway_and_what_forwards_its_packets() -> Result<()> {
    let cluster = cluster("in-example", &["vrouter-op"]).await?;
    let nodes = cluster.nodes(0, 3).await?;
    let api = cluster.lab.nodes().await?;
    for (node, card) in nodes.iter().zip(["x710", "sriov", "plain"]) {
        api.label(node, "nic", Some(card)).await?;
    }
    for mut object in documents(&fs::read_to_string(repository().join("examples/vrouter-profiles.yaml"))?)? {
        object["metadata"]["namespace"] = cluster.namespace.clone().into();
        if object["kind"] == VROUTER.kind {
            let variables = json!({"CONTROL_NODES": "192.0.2.9"});
            object["spec"]["serviceConfiguration"] = json!({"envVariablesConfig": variables});
        }
        cluster.apply_object(&object).await?;
    }
    cluster.until(VROUTER, "vrouter1", "on all nodes", |it| it.is_ready_on(3)).await?;

    let mut placed = BTreeMap::new();
    for pod in resources::pods(&cluster.client, VROUTER, &cluster.namespace).await? {
        let spec = pod.spec.context("a pod without spec")?;
        let containers: Vec<String> = spec.containers.iter().map(|container| container.name.clone()).collect();
        let inits: Vec<String> =
            spec.init_containers.iter().flatten().map(|container| container.name.clone()).collect();
        placed.insert(spec.node_name.context("a pod without node")?, (containers, inits));
    }
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let mut parameters = BTreeMap::new();
    for secret in secrets.list(&ListParams::default()).await? {
        let file = secret.data.as_ref().and_then(|data| data.get(PARAMETERS_FILE));
        if let Some(file) = file {
            parameters.insert(secret.name_any(), String::from_utf8(file.0.clone())?);
        }
    }
    for (node, group, gateway, (is_dpdk, has_functions)) in [
        (&nodes[0], "dpdk", "192.0.2.1", (true, false)),
        (&nodes[1], "sriov", "192.0.2.2", (false, true)),
        (&nodes[2], "kernel", "192.0.2.3", (false, false)),
    ] {
        let (containers, inits) = placed.get(node).with_context(|| format!("no pod on {node}: {placed:?}"))?;
        ensure!(containers.iter().any(|name| name == "vrouteragentdpdk") == is_dpdk, "{group}: {containers:?}");
        ensure!(inits.iter().any(|name| name == "virtual-functions") == has_functions, "{group}: {inits:?}");
        let of_group = parameters.iter().find(|(name, _)| name.contains(&format!("-{group}-")));
        let (_, file) = of_group.with_context(|| format!("no parameters of {group}: {:?}", parameters.keys()))?;
        ensure!(file.contains(&format!("VROUTER_GATEWAY='{gateway}'")), "{group}:\n{file}");
    }
    ensure!(placed.len() == 3, "{placed:?}");
    Ok(())
}
