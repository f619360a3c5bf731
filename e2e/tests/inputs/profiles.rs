//! VrouterProfiles are watched: a change reaches the groups that name a profile and no other, and one that is not there changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::ConfigMap};
use kube::{
    ResourceExt as _,
    api::{Api, DeleteParams},
};
use serde_json::{Value, json};
use tf_api::kinds::{VROUTER, VROUTER_PROFILE};
use tf_testing::{
    Cluster,
    cluster::NODE_LABEL,
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
