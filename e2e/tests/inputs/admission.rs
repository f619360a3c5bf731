//! What the API server does not let in (Pod Security, a quota, a policy) is in a condition with its words, and is made within a minute after it is let in.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;
use tf_api::kinds::ZOOKEEPER;
use tf_testing::{
    Cluster,
    audit::{Count, count_by_user, service_account},
    resources,
    sample::has_turn,
};

use crate::support::{cluster, member, told};

const NAME: &str = "zookeeper1";
const LABEL: &str = "pod-security.kubernetes.io/enforce";
/// Within which members are Ready after a rule is lifted.
const HEALED: Duration = Duration::from_mins(1);

/// Sets labels of the namespace.
async fn label(cluster: &Cluster, labels: serde_json::Value) -> Result<()> {
    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
    Api::<Namespace>::all(cluster.client.clone()).patch(&cluster.namespace, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Waits until the resource is Ready after what refused it is gone.
async fn heals(cluster: &Cluster) -> Result<()> {
    let begun = Instant::now();
    resources::ready(&cluster.client, ZOOKEEPER, &cluster.namespace, NAME, HEALED).await?;
    println!("{}: Ready {:.0?} after the rule was lifted", cluster.namespace, begun.elapsed());
    Ok(())
}

#[tokio::test]
async fn pods_that_pod_security_refuses_are_the_cause_with_few_writes_and_are_made_when_the_namespace_lets_them()
-> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let cluster = cluster("in-pod-security", &["zookeeper-op"]).await?;
    cluster.nodes(3, 0).await?;
    label(&cluster, json!({ LABEL: "restricted" })).await?;
    member(&cluster, ZOOKEEPER, NAME, json!({})).await?;
    let message = told(&cluster, ZOOKEEPER, NAME, ("WorkloadReady", "False", "AdmissionDenied")).await?;
    let parts = [
        "violates PodSecurity \"restricted:latest\": host namespaces (hostNetwork=true)",
        "uses restricted volume type \"hostPath\"",
        "label the namespace pod-security.kubernetes.io/enforce=privileged",
        "0 of 3 members are ready",
    ];
    ensure!(parts.iter().all(|part| message.contains(part)), "{message}");
    told(&cluster, ZOOKEEPER, NAME, ("Ready", "False", "AdmissionDenied")).await?;

    // Requests to try again included.
    let begin = cluster.lab.audit_mark().await?;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let entries = cluster.lab.audit().window(begin, cluster.lab.audit_mark().await?)?;
    let counts = count_by_user(&entries);
    let writes = counts.get(&service_account(&cluster.namespace, "zookeeper-op")).map_or(0, Count::writes);
    ensure!(writes <= 4, "{writes} writes in a minute while refused");

    label(&cluster, json!({ LABEL: null })).await?;
    heals(&cluster).await
}

#[tokio::test]
async fn pods_that_a_quota_refuses_are_the_cause_and_are_made_when_the_quota_is_gone() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    let cluster = cluster("in-quota", &["zookeeper-op"]).await?;
    cluster.nodes(3, 0).await?;
    let quota = |hard: serde_json::Value| json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small", "namespace": cluster.namespace}, "spec": {"hard": hard}});
    cluster.apply_object(&quota(json!({"requests.cpu": "4", "pods": "2"}))).await?;
    member(&cluster, ZOOKEEPER, NAME, json!({})).await?;
    let message = told(&cluster, ZOOKEEPER, NAME, ("WorkloadReady", "False", "AdmissionDenied")).await?;
    // Until the quota's controller has counted, the API server says that it does not know yet.
    let says =
        |words: &'static str| move |resource: &resources::Resource| resource.explain("WorkloadReady").contains(words);
    if !message.contains("must specify requests.cpu") {
        cluster.until(ZOOKEEPER, NAME, "saying what the quota wants", says("must specify requests.cpu")).await?;
    }
    cluster.until(ZOOKEEPER, NAME, "saying what to do", says("raise or delete that quota")).await?;
    Api::<ResourceQuota>::namespaced(cluster.client.clone(), &cluster.namespace)
        .delete("small", &DeleteParams::default())
        .await?;
    heals(&cluster).await
}

#[tokio::test]
async fn what_a_policy_refuses_is_told_in_its_words_and_made_when_it_is_lifted() -> Result<()> {
    let cluster = cluster("in-policy", &["zookeeper-op"]).await?;
    cluster.nodes(3, 0).await?;
    label(&cluster, json!({"images": "pinned"})).await?;
    let group = "admissionregistration.k8s.io/v1";
    let rule = "object.spec.template.spec.containers.all(c, c.image.contains('@sha256:') || (c.image.contains(':') && !c.image.endsWith(':latest')))";
    let policy = json!({
        "apiVersion": group,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-latest"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [
                {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["statefulsets", "daemonsets"]},
            ]},
            "validations": [{"expression": rule, "message": "images must be pinned: no tag latest in namespaces labelled images=pinned"}],
        },
    });
    let binding = json!({
        "apiVersion": group,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-latest"},
        "spec": {
            "policyName": "no-latest",
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"images": "pinned"}}},
        },
    });
    cluster.apply_object(&policy).await?;
    cluster.apply_object(&binding).await?;
    // Each API server compiles a policy a moment after it was made.
    tokio::time::sleep(Duration::from_secs(5)).await;
    member(&cluster, ZOOKEEPER, NAME, json!({})).await?;
    for condition in ["ConfigReady", "Ready"] {
        let message = told(&cluster, ZOOKEEPER, NAME, (condition, "False", "AdmissionDenied")).await?;
        ensure!(
            message.contains("images must be pinned: no tag latest in namespaces labelled images=pinned"),
            "{message}"
        );
    }
    let stalled = cluster.get(ZOOKEEPER, NAME).await?;
    ensure!(!stalled.is("Stalled", "True"), "{}", stalled.explain("Stalled"));
    label(&cluster, json!({"images": null})).await?;
    heals(&cluster).await
}
