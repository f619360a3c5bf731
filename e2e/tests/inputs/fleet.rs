//! A change goes through many vRouters as their upgradeStrategy says: never more nodes than it states are without an agent, and all get it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tf_api::kinds::VROUTER;
use tf_testing::{
    Cluster,
    resources::{self, Resource, is_pod_ready},
};

use crate::support::{cluster, run};

/// Nodes of each of two groups.
const NODES: usize = 12;
const RACK: &str = "rack";
const ROLLED: Duration = Duration::from_mins(3);

/// Two groups. The second one has a strategy of its own.
fn spec(cluster: &Cluster, grace: i64, own: &Value) -> Value {
    let selector = |rack: &str| json!({tf_testing::cluster::NODE_LABEL: cluster.namespace, RACK: rack});
    json!({
        "commonConfiguration": {"podOverrides": {"spec": {"terminationGracePeriodSeconds": grace}}},
        "groups": [
            {"name": "a", "nodeSelector": selector("a")},
            {"name": "b", "nodeSelector": selector("b"), "upgradeStrategy": own},
        ],
        "upgradeStrategy": {"maxUnavailable": "25%"},
        "serviceConfiguration": {"envVariablesConfig": {"CONTROL_NODES": "192.0.2.1"}},
    })
}

async fn apply(cluster: &Cluster, spec: Value) -> Result<()> {
    resources::apply(&cluster.client, VROUTER, &cluster.namespace, "vrouter1", spec).await.map(drop)
}

/// Uids of the pods of each group by their nodes, and whether they are Ready.
type Group = BTreeMap<String, (String, bool)>;

async fn groups(cluster: &Cluster) -> Result<[Group; 2]> {
    let mut groups = [Group::new(), Group::new()];
    for pod in resources::pods(&cluster.client, VROUTER, &cluster.namespace).await? {
        let group = usize::from(pod.name_any().contains("-b-"));
        let is_ready = is_pod_ready(&pod) && pod.metadata.deletion_timestamp.is_none();
        let (uid, node) = (pod.uid().context("no uid")?, pod.spec.and_then(|spec| spec.node_name));
        let Some(node) = node else { continue };
        let place = groups[group].entry(node).or_insert_with(|| (uid.clone(), is_ready));
        // A node may have the former pod, which ends, beside the new one.
        if is_ready {
            *place = (uid, true);
        }
    }
    Ok(groups)
}

/// Looks until every pod of these groups is another one and Ready. Out: how many were away at most at the same time, of each group, and in how many looks
/// there were others than before.
async fn rolled(cluster: &Cluster, before: &[Group; 2], changes: [bool; 2]) -> Result<([usize; 2], [usize; 2])> {
    let begun = Instant::now();
    let (mut most, mut waves, mut last) = ([0; 2], [0; 2], [BTreeSet::new(), BTreeSet::new()]);
    loop {
        let now = groups(cluster).await?;
        let mut is_done = true;
        for index in [0, 1] {
            let well = now[index].values().filter(|(_, is_ready)| *is_ready).count();
            most[index] = most[index].max(NODES.saturating_sub(well));
            let is_other =
                |(node, (uid, _)): &(&String, &(String, bool))| before[index].get(*node).map(|it| &it.0) != Some(uid);
            let others: BTreeSet<String> = now[index].iter().filter(is_other).map(|(node, _)| node.clone()).collect();
            waves[index] += usize::from(others != last[index]);
            let wanted = if changes[index] { NODES } else { 0 };
            is_done &= well == NODES && others.len() == wanted;
            last[index] = others;
        }
        if is_done {
            return Ok((most, waves));
        }
        ensure!(begun.elapsed() < ROLLED, "{last:?} are other pods");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_change_goes_through_a_fleet_by_its_strategy_and_is_left_to_people_where_that_says_so() -> Result<()> {
    let cluster = cluster("in-fleet", &["vrouter-op"]).await?;
    let nodes = cluster.nodes(0, 2 * NODES as u32).await?;
    let api = cluster.lab.nodes().await?;
    for (index, node) in nodes.iter().enumerate() {
        api.label(node, RACK, Some(if index % 2 == 0 { "a" } else { "b" })).await?;
    }
    apply(&cluster, spec(&cluster, 30, &json!({"maxUnavailable": 5}))).await?;
    let is_everywhere = |it: &Resource| it.is_ready_on(2 * NODES);
    cluster.until(VROUTER, "vrouter1", "on all nodes", is_everywhere).await?;

    let before = groups(&cluster).await?;
    apply(&cluster, spec(&cluster, 31, &json!({"maxUnavailable": 5}))).await?;
    let begun = Instant::now();
    let (most, waves) = rolled(&cluster, &before, [true; 2]).await?;
    println!("{NODES} and {NODES} nodes: {:.1?}, at most {most:?} away, {waves:?} looks with others", begun.elapsed());
    // A quarter of twelve.
    ensure!(most[0] <= 3 && most[1] <= 5, "{most:?} were away");
    ensure!(most[0] > 1 && most[1] > 1, "one after the other: {most:?}");
    cluster.until(VROUTER, "vrouter1", "on all nodes", is_everywhere).await?;

    let before = groups(&cluster).await?;
    apply(&cluster, spec(&cluster, 32, &json!({"type": "OnDelete"}))).await?;
    rolled(&cluster, &before, [true, false]).await?;
    let says = |it: &Resource| {
        let ready = it.explain("WorkloadReady");
        ready.contains(&format!("{NODES} pods are not up to date and are not replaced, as upgradeStrategy says"))
    };
    cluster
        .until(VROUTER, "vrouter1", "saying that pods are left to people", |it| is_everywhere(it) && says(it))
        .await?;
    let pod: Option<Pod> = resources::pods(&cluster.client, VROUTER, &cluster.namespace)
        .await?
        .into_iter()
        .find(|pod| pod.name_any().contains("-b-"));
    run(&cluster, &["delete", "pod", &pod.context("no pod of b")?.name_any()])?;
    let says = |it: &Resource| it.explain("WorkloadReady").contains(&format!("{} pods are not up to date", NODES - 1));
    cluster.until(VROUTER, "vrouter1", "one pod less", |it| is_everywhere(it) && says(it)).await?;

    apply(&cluster, spec(&cluster, 32, &json!({"maxUnavailable": 0}))).await.err().context("0 nodes are let in")?;
    apply(&cluster, spec(&cluster, 32, &json!({"maxUnavailable": "0%"}))).await.err().context("0% are let in")?;
    apply(&cluster, spec(&cluster, 32, &json!({"maxUnavailable": "100%"}))).await?;
    let is_done = |it: &Resource| is_everywhere(it) && !it.explain("WorkloadReady").contains("not up to date");
    cluster.until(VROUTER, "vrouter1", "up to date everywhere", is_done).await.map(drop)
}
