//! Pods are evicted from a node that a plan names: those that use the pod network, as their budgets allow, and with rights that are given apart.

use std::{fs, time::Duration};

use anyhow::{Result, ensure};
use e2e::probe::{DRAINED, OPERATOR, UNDRAINED};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tf_api::{kinds::ZOOKEEPER, names::TAINT_DRAIN};
use tf_plan::object::{Kind, NODE};
use tf_testing::{
    operators::{Run, repository},
    wait::eventually,
};

use crate::support::{FLEET, PROBE, Stage, level};

/// For what controllers do on a busy machine.
const SOON: Duration = Duration::from_mins(1);

const HOSTNAME: &str = "kubernetes.io/hostname";

/// Workloads of the test: `apart` on the node's network, `guarded` with a budget that allows no eviction, `each` on each node.
fn workloads(namespace: &str) -> String {
    let workload = |kind: &str, name: &str, extra: Value| {
        let mut spec = json!({
            "nodeSelector": {HOSTNAME: format!("{namespace}-0")},
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "none"}],
        });
        for (key, value) in extra.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let labels = json!({"name": name});
        let template = json!({"metadata": {"labels": labels}, "spec": spec});
        json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        })
    };
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "guarded", "namespace": namespace},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"name": "guarded"}}},
    });
    let alone = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone", "namespace": namespace},
        "spec": {"nodeSelector": {HOSTNAME: format!("{namespace}-0")}, "containers": [{"name": "c", "image": "none"}]},
    });
    let items = [
        workload("Deployment", "plain", json!({})),
        workload("Deployment", "guarded", json!({})),
        workload("Deployment", "apart", json!({"hostNetwork": true})),
        workload("DaemonSet", "each", json!({})),
        budget,
        alone,
    ];
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// Names of the workloads whose pods are on the node of the test, and do not end.
async fn there(stage: &Stage) -> Result<Vec<String>> {
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let pods = pods.list(&ListParams::default()).await?.items.into_iter();
    let is_there = |pod: &Pod| {
        let has_node = pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref() == Some("draining-0"));
        has_node && pod.metadata.deletion_timestamp.is_none()
    };
    let name = |pod: Pod| pod.labels().get("name").cloned().unwrap_or_else(|| pod.name_any());
    let mut names: Vec<String> = pods.filter(is_there).map(name).collect();
    names.sort();
    Ok(names)
}

async fn until_there(stage: &Stage, expected: &[&str]) -> Result<()> {
    let mut last = Vec::new();
    let what = format!("pods of {expected:?} on the node");
    let end = eventually(&what, SOON, async || {
        last = there(stage).await?;
        Ok((last == expected).then_some(()))
    });
    let end = end.await;
    let resource = stage.get(PROBE, "a").await.map(|it| it.object.data["status"]["conditions"].to_string());
    ensure!(end.is_ok(), "there are {last:?} and not {expected:?}: {resource:?}");
    Ok(())
}

async fn annotate(stage: &Stage, key: &str, node: &str) -> Result<()> {
    let all = [DRAINED, UNDRAINED].map(|it| (it.to_owned(), if it == key { json!(node) } else { Value::Null }));
    let annotations: serde_json::Map<String, Value> = all.into_iter().collect();
    stage.edit(Kind::custom(PROBE), "a", json!({"metadata": {"annotations": annotations}})).await?;
    Ok(())
}

async fn says(stage: &Stage, what: &str) -> Result<()> {
    let has =
        |it: &tf_testing::resources::Resource| serde_json::to_string(&it.object).is_ok_and(|text| text.contains(what));
    stage.until(PROBE, "a", &format!("to say {what:?}"), SOON, has).await.map(drop)
}

async fn is_tainted(stage: &Stage, node: &str) -> Result<bool> {
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let taints = nodes.get(node).await?.spec.and_then(|spec| spec.taints).unwrap_or_default();
    Ok(taints.iter().any(|taint| taint.key == TAINT_DRAIN))
}

#[tokio::test]
async fn pods_that_use_the_pod_network_are_evicted_as_budgets_allow_and_the_others_are_named() -> Result<()> {
    let stage = Stage::set(FLEET.get().await?, "draining", &[PROBE, ZOOKEEPER]).await?;
    stage.nodes(2).await?;
    let node = "draining-0";
    stage.install_probe(&["draining"]).await?;
    let _operator = stage.probe(Run::default()).await?;
    stage.lab.apply(&workloads(&stage.namespace)).await?;
    until_there(&stage, &["alone", "apart", "each", "guarded", "plain"]).await?;
    let mut spec = level("info");
    spec["commonConfiguration"]["nodeSelector"] = json!({HOSTNAME: "draining-1"});
    spec["commonConfiguration"]["replicas"] = json!(1);
    stage.apply(PROBE, "a", spec).await?;
    stage.ready(PROBE, "a").await?;

    annotate(&stage, DRAINED, node).await?;
    says(&stage, "listing the pods of node draining-0").await?;
    says(&stage, "bind a ClusterRole that may list pods and create pods/eviction").await?;
    ensure!(!is_tainted(&stage, node).await?, "nothing is begun without the right");
    until_there(&stage, &["alone", "apart", "each", "guarded", "plain"]).await?;

    let rights = fs::read_to_string(repository().join("examples/vrouter-drain.yaml"))?;
    let rights = rights
        .replace("name: vrouter-op\n", &format!("name: {OPERATOR}\n"))
        .replace("namespace: tf\n", "namespace: draining\n");
    stage.lab.apply(&rights).await?;
    until_there(&stage, &["alone", "apart", "guarded"]).await?;
    ensure!(is_tainted(&stage, node).await?);
    says(&stage, "pod draining/alone on node draining-0 is not evicted: it has no controller").await?;
    says(&stage, "and 1 more").await?;

    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), &stage.namespace);
    pods.delete("alone", &DeleteParams::default().grace_period(0)).await?;
    says(&stage, "disruption budget").await?;
    let any = Patch::Merge(json!({"spec": {"maxUnavailable": 1}}));
    let budgets: Api<k8s_openapi::api::policy::v1::PodDisruptionBudget> =
        Api::namespaced(stage.client.clone(), &stage.namespace);
    budgets.patch("guarded", &PatchParams::default(), &any).await?;
    until_there(&stage, &["apart"]).await?;

    annotate(&stage, UNDRAINED, node).await?;
    stage.object(NODE, node, "without the taint", SOON, |node| !node.data.to_string().contains(TAINT_DRAIN)).await?;
    until_there(&stage, &["apart", "each", "guarded", "plain"]).await
}
