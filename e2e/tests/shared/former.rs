//! A StatefulSet as the Go tf-operator makes it, and its pods.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Client, ResourceExt as _,
    api::{Api, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tf_api::{
    contract::MemberStatus,
    kinds::{KindInfo, RABBITMQ},
    names::ANNOTATION_FORMER_RELEASE,
};
use tf_pki::authority::{AUTHORITY_LIFETIME, Authority, Curve};
use tf_testing::{
    resources::{self, Resource},
    wait::eventually,
};

/// For its controller, the scheduler and simulated kubelets on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// The resource it belongs to, as that operator calls it.
pub fn owner(kind: KindInfo) -> String {
    format!("{}1", kind_of(kind))
}

/// A spec for nodes of this selector. Who keeps data has to be told where it is: only certain names have the directories of that operator.
pub fn spec(namespace: &str, nodes: &Value) -> Value {
    let path = format!("/var/lib/contrail/{namespace}");
    json!({"commonConfiguration": {"nodeSelector": nodes, "storage": {"hostPath": {"path": path}}}})
}

/// What it calls a kind.
pub fn kind_of(kind: KindInfo) -> String {
    kind.kind.to_lowercase()
}

/// The name of the StatefulSet.
pub fn workload_name(kind: KindInfo) -> String {
    format!("{}-{}-statefulset", owner(kind), kind_of(kind))
}

/// The StatefulSet, for the resource of this uid and nodes of this selector.
pub fn workload(kind: KindInfo, namespace: &str, nodes: &Value, uid: &str, replicas: i32) -> Value {
    let daemon = kind_of(kind);
    let labels = json!({"tf_manager": daemon, daemon.as_str(): owner(kind)});
    let alone = json!({"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"});
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {
            "name": workload_name(kind), "namespace": namespace, "labels": labels,
            "ownerReferences": [{
                "apiVersion": "tf.tungsten.io/v1alpha1", "kind": kind.kind, "name": owner(kind), "uid": uid, "controller": true,
            }],
        },
        "spec": {
            "replicas": replicas, "podManagementPolicy": "Parallel", "serviceName": "", "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": nodes,
                    "priorityClassName": "system-node-critical",
                    "tolerations": [{"operator": "Exists"}],
                    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [alone]}},
                    "containers": [{"name": daemon, "image": IMAGE}, {"name": "sidecar", "image": IMAGE}],
                },
            },
        },
    })
}

/// Image of its containers.
pub const IMAGE: &str = "theirs";

/// What it made of a cluster of RabbitMQ besides: what clients log in with, with a hash that is no text, and what servers are called on all nodes.
pub async fn of_rabbitmq(client: &Client, namespace: &str, uid: &str) -> Result<[Value; 2]> {
    let owner = json!([{
        "apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Rabbitmq", "name": owner(RABBITMQ), "uid": uid, "controller": true,
    }]);
    let mut files = BTreeMap::from([(
        "rabbitmq-common.env".to_owned(),
        "export RABBITMQ_ERLANG_COOKIE=THEIRS\nexport ERL_EPMD_PORT=4371\n".to_owned(),
    )]);
    for node in Api::<Node>::all(client.clone()).list(&ListParams::default()).await?.items {
        let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
        let name = format!("RABBITMQ_NODENAME=rabbit@{}.theirs.example\n", node.name_any());
        files.extend(addresses.map(|it| (format!("rabbitmq-env.conf.{}", it.address), name.clone())));
    }
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": "rabbitmq1-secret", "namespace": namespace, "ownerReferences": owner},
        "stringData": {"user": "theirs", "password": PASSWORD, "vhost": "theirs"},
        "data": {"salted_password": "/".repeat(48)},
    });
    let files = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "rabbitmq1-rabbitmq-configmap", "namespace": namespace, "ownerReferences": owner},
        "data": files,
    });
    Ok([secret, files])
}

/// What its clients log in with.
pub const PASSWORD: &str = "theirs-too";

/// States of which release its servers are, as a person does who looked.
pub async fn state_release(client: &Client, namespace: &str, release: &str) -> Result<()> {
    let stated = json!({"metadata": {"annotations": {ANNOTATION_FORMER_RELEASE: release}}});
    let api = resources::api(client, RABBITMQ, namespace);
    api.patch(&owner(RABBITMQ), &PatchParams::default(), &Patch::Merge(&stated)).await?;
    Ok(())
}

/// An authority, and the ConfigMap in which that operator tells its pods to trust it.
pub fn authority(namespace: &str) -> Result<(Authority, Value)> {
    let authority = Authority::generate("tf_csr_singer", Curve::P256, AUTHORITY_LIFETIME, Timestamp::now())?;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "csr-signer-ca", "namespace": namespace},
        "data": {"ca-bundle.crt": authority.certificates_pem()},
    });
    Ok((authority, map))
}

/// The Secret by which new members are signed by an authority.
pub fn signed_by(authority: &Authority, namespace: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": {"name": "tf-ca", "namespace": namespace},
        "stringData": {"tls.crt": authority.certificates_pem(), "tls.key": authority.key_pem()},
    })
}

/// The pods it selects, by name.
pub async fn pods(client: &Client, kind: KindInfo, namespace: &str) -> Result<BTreeMap<String, Pod>> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let list = api.list(&ListParams::default().labels(&format!("{}={}", kind_of(kind), owner(kind)))).await?;
    Ok(list.items.into_iter().map(|pod| (pod.name_any(), pod)).collect())
}

/// Waits for so many pods, of which so many are Ready.
pub async fn running(
    client: &Client,
    kind: KindInfo,
    namespace: &str,
    count: usize,
    ready: usize,
) -> Result<BTreeMap<String, Pod>> {
    eventually("pods of the former operator", SOON, async || {
        let pods = pods(client, kind, namespace).await?;
        Ok((pods.len() == count && pods.values().filter(|pod| is_ready(pod)).count() == ready).then_some(pods))
    })
    .await
}

/// Whether it is Ready, and stays.
fn is_ready(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && resources::is_pod_ready(pod)
}

/// Whether each of these pods has been replaced by one that is Ready.
///
/// # Errors
/// When two are away at once.
pub async fn are_replaced(
    client: &Client,
    kind: KindInfo,
    namespace: &str,
    before: &BTreeMap<String, Pod>,
) -> Result<bool> {
    let now = pods(client, kind, namespace).await?;
    let away = before.len() - now.values().filter(|pod| is_ready(pod)).count();
    ensure!(away <= 1, "{away} pods are away at once");
    let is_other = |name: &String| before.get(name).is_some_and(|former| former.uid() != now[name].uid());
    Ok(now.len() == before.len() && away == 0 && now.keys().all(is_other))
}

/// The members that a resource has recorded: identity and node.
pub fn recorded(resource: &Resource) -> Result<Vec<(u32, String)>> {
    let members: Vec<MemberStatus> = serde_json::from_value(resource.object.data["status"]["members"].clone())?;
    Ok(members.into_iter().map(|member| (member.id, member.node)).collect())
}

/// What the pods' names and places say of the members: identity and node.
pub fn members(pods: &BTreeMap<String, Pod>) -> Result<Vec<(u32, String)>> {
    let member = |(name, pod): (&String, &Pod)| {
        let ordinal: u32 = name.rsplit_once('-').context("no ordinal")?.1.parse()?;
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("no node")?;
        Ok((ordinal + 1, node))
    };
    pods.iter().map(member).collect()
}
