//! What the Go tf-operator leaves behind, as its sources have it: names, labels, owner, no headless Service, files in a ConfigMap. That operator itself cannot
//! run here.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tf_api::contract::MemberStatus;
use tf_api::names::AUTHORITY;
use tf_pki::authority::Authority;
use tf_testing::RealNode;
use tf_testing::wait::eventually;

use crate::store::{BRING_UP, NAMESPACE, Store};

/// What belongs to a resource of its.
pub struct Former<'a> {
    /// The resource's store.
    pub store: &'a Store,
    /// The resource's uid.
    pub uid: &'a str,
}

impl Former<'_> {
    /// The kind in lower case, which names and labels have.
    fn kind(&self) -> String {
        self.store.kind.kind.to_lowercase()
    }

    /// Labels of everything of it, by which it selects pods, too.
    pub fn labels(&self) -> Value {
        let kind = self.kind();
        json!({"tf_manager": kind, kind: self.store.name})
    }

    /// Of an object.
    pub fn metadata(&self, name: &str) -> Value {
        json!({
            "name": name, "namespace": NAMESPACE, "labels": self.labels(),
            "ownerReferences": [{
                "apiVersion": "tf.tungsten.io/v1alpha1", "kind": self.store.kind.kind, "name": self.store.name, "uid": self.uid,
                "controller": true, "blockOwnerDeletion": true,
            }],
        })
    }

    /// Name of the StatefulSet.
    pub fn workload_name(&self) -> String {
        format!("{}-{}-statefulset", self.store.name, self.kind())
    }

    /// Name of the ConfigMap.
    pub fn files_name(&self) -> String {
        format!("{}-{}-configmap", self.store.name, self.kind())
    }

    /// The StatefulSet of three with this container and these volumes.
    pub fn workload(&self, container: &Value, volumes: &Value) -> Value {
        let (kind, labels) = (self.kind(), self.labels());
        json!({
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": self.metadata(&self.workload_name()),
            "spec": {
                "replicas": 3, "podManagementPolicy": "Parallel", "serviceName": "", "selector": {"matchLabels": labels},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet",
                        "priorityClassName": "system-node-critical",
                        "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
                        "tolerations": [
                            {"operator": "Exists", "effect": "NoSchedule"}, {"operator": "Exists", "effect": "NoExecute"}
                        ],
                        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                            "labelSelector": {
                                "matchExpressions": [{"key": kind, "operator": "In", "values": [self.store.name]}]
                            },
                            "topologyKey": "kubernetes.io/hostname",
                        }]}},
                        "containers": [container],
                        "volumes": volumes,
                    },
                },
            },
        })
    }

    /// The ConfigMap with these files.
    pub fn files(&self, data: &Value) -> Value {
        let metadata = json!({"name": self.files_name(), "namespace": NAMESPACE});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    }

    /// Servers by the ordinals of pods, when each has a node.
    pub async fn placed(&self, client: &Client, nodes: &[RealNode]) -> Result<Vec<MemberStatus>> {
        eventually("every pod to have a node", BRING_UP, async || {
            let mut members = Vec::new();
            for (name, pod) in self.store.pods(client).await? {
                let Some(name_of_node) = pod.spec.and_then(|spec| spec.node_name) else { return Ok(None) };
                let node = nodes.iter().find(|node| node.name() == name_of_node).context("another node")?;
                let ordinal: u32 = name.rsplit_once('-').context("no ordinal")?.1.parse()?;
                members.push(MemberStatus { id: ordinal + 1, node: name_of_node, address: node.address().to_string() });
            }
            Ok((members.len() == 3).then_some(members))
        })
        .await
    }
}

/// Its authority: where that operator keeps it, where a person puts it for ours, and where its pods read whom they trust.
pub fn authorities(authority: &Authority) -> [Value; 3] {
    let data = json!({"tls.crt": authority.certificates_pem(), "tls.key": authority.key_pem()});
    let metadata = |name: &str| json!({"name": name, "namespace": NAMESPACE});
    let secret =
        |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata(name), "stringData": data});
    let trusted = json!({"ca-bundle.crt": authority.certificates_pem()});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("csr-signer-ca"), "data": trusted});
    [secret("contrail-ca-certificate"), secret(AUTHORITY), map]
}

/// Has nodes find each other under these names, as its servers do.
pub async fn find_each_other(nodes: &[RealNode], name: impl Fn(&str) -> String) -> Result<()> {
    let hosts: Vec<String> = nodes.iter().map(|node| format!("{} {}", node.address(), name(node.name()))).collect();
    for node in nodes {
        node.run("sh", &["-c", &format!("echo '{}' >>/etc/hosts", hosts.join("\n"))]).await?;
    }
    Ok(())
}

/// Says how many pods of the operator there shall be.
pub async fn scale(client: &Client, replicas: i32) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let name = deployments.list(&ListParams::default()).await?.items.pop().context("no Deployment")?.name_any();
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    deployments.patch(&name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Every pod is another one, on the node where the former one was.
pub async fn are_replaced(store: &Store, client: &Client, before: &BTreeMap<String, Pod>) -> Result<()> {
    let after = store.pods(client).await?;
    ensure!(after.keys().eq(before.keys()), "{:?}", after.keys());
    let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    for (name, pod) in &after {
        ensure!(pod.uid() != before[name].uid(), "{name} is the former pod");
        ensure!(node(pod) == node(&before[name]), "{name} moved");
    }
    Ok(())
}
