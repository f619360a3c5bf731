//! Simulated nodes: Node objects that kwok keeps alive, and on which it plays the pods.
//!
//! A node is registered as a kubelet would (addresses, capacity, labels, taints); the stages in `e2e/lab/stages` then
//! post its conditions. Its leases are renewed every quarter of [`Options::node_lease_seconds`] and its status every
//! five minutes, as a kubelet does.
//!
//! [`Options::node_lease_seconds`]: crate::Options::node_lease_seconds

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeSpec, NodeStatus, NodeSystemInfo, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tf_api::names::NODE_CONTROL_PLANE;

use crate::{options::IpFamily, wait::eventually};

/// The label, as `key=value`, of nodes that kwok plays; a real node in the same lab does not have it.
pub const MANAGED: &str = "lab.tungsten.io/node=simulated";

/// Annotation of a node or pod: `"false"` makes it not Ready, anything else or none Ready.
pub const READY_ANNOTATION: &str = "lab.tungsten.io/ready";

/// Annotation of a pod: the time between scheduled and Ready, such as `3s`.
pub const READY_AFTER_ANNOTATION: &str = "lab.tungsten.io/ready-after";

/// How many requests are under way while many nodes are made.
const PARALLEL: usize = 8;

/// What a node is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Label and taint `node-role.kubernetes.io/control-plane`, as kubeadm sets them.
    ControlPlane,
    /// Neither.
    Worker,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::ControlPlane => "control-plane",
            Self::Worker => "worker",
        }
    }
}

/// A node to register.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// Name, also the value of the label `kubernetes.io/hostname`.
    pub name: String,
    /// Role label and taint.
    pub role: Role,
    /// InternalIP, and so the address of host-network pods.
    pub address: IpAddr,
    /// Further labels.
    pub labels: BTreeMap<String, String>,
}

impl Simulated {
    /// Node number `index` (from 1) of a role: `worker-7` has an address that no other node of the lab has.
    pub fn new(role: Role, index: u32, family: IpFamily) -> Self {
        Self {
            name: format!("{}-{index}", role.name()),
            role,
            address: address(role, index, family),
            labels: BTreeMap::new(),
        }
    }

    /// The object to create.
    pub fn node(&self) -> Node {
        let (key, value) = MANAGED.split_once('=').unwrap_or((MANAGED, ""));
        let mut labels = self.labels.clone();
        labels.insert(key.into(), value.into());
        labels.insert("kubernetes.io/hostname".into(), self.name.clone());
        labels.insert("kubernetes.io/os".into(), "linux".into());
        labels.insert("kubernetes.io/arch".into(), "amd64".into());
        let mut taints = None;
        if self.role == Role::ControlPlane {
            labels.insert(NODE_CONTROL_PLANE.into(), String::new());
            taints =
                Some(vec![Taint { key: NODE_CONTROL_PLANE.into(), effect: "NoSchedule".into(), ..Taint::default() }]);
        }
        let address = |kind: &str, address: String| NodeAddress { address, type_: kind.into() };
        // More than any test places on one node. Huge pages as an administrator sets them aside before the kubelet starts:
        // the Go tf-operator's default Manager asks for them.
        let resources: BTreeMap<String, Quantity> = [
            ("cpu", "64"),
            ("memory", "256Gi"),
            ("hugepages-2Mi", "32Gi"),
            ("hugepages-1Gi", "32Gi"),
            ("ephemeral-storage", "4Ti"),
            ("pods", "1000"),
        ]
        .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
        .into();
        Node {
            metadata: ObjectMeta { name: Some(self.name.clone()), labels: Some(labels), ..ObjectMeta::default() },
            spec: Some(NodeSpec { taints, ..NodeSpec::default() }),
            status: Some(NodeStatus {
                addresses: Some(vec![
                    address("InternalIP", self.address.to_string()),
                    address("Hostname", self.name.clone()),
                ]),
                allocatable: Some(resources.clone()),
                capacity: Some(resources),
                node_info: Some(NodeSystemInfo {
                    architecture: "amd64".into(),
                    container_runtime_version: "kwok://simulated".into(),
                    kernel_version: "simulated".into(),
                    kubelet_version: crate::assets::KUBERNETES.into(),
                    operating_system: "linux".into(),
                    os_image: "simulated".into(),
                    machine_id: self.name.clone(),
                    system_uuid: self.name.clone(),
                    ..NodeSystemInfo::default()
                }),
                ..NodeStatus::default()
            }),
        }
    }
}

/// The nodes of a lab.
#[derive(Clone)]
pub struct Nodes {
    api: Api<Node>,
    family: IpFamily,
}

impl Nodes {
    pub(crate) fn new(client: Client, family: IpFamily) -> Self {
        Self { api: Api::all(client), family }
    }

    /// Registers `count` more nodes of a role, numbered on from the highest there is, and returns their names.
    /// They become Ready a moment later, see [`Nodes::wait_ready`].
    pub async fn add(&self, role: Role, count: u32) -> Result<Vec<String>> {
        let prefix = format!("{}-", role.name());
        let present = self.api.list(&ListParams::default()).await?;
        let highest = present.iter().filter_map(|node| {
            let number = node.metadata.name.as_ref()?.strip_prefix(&prefix)?;
            number.parse::<u32>().ok()
        });
        let first = highest.max().unwrap_or(0) + 1;
        let nodes: Vec<Simulated> =
            (first..first + count).map(|index| Simulated::new(role, index, self.family)).collect();
        self.create(&nodes).await?;
        Ok(nodes.into_iter().map(|node| node.name).collect())
    }

    /// Registers these nodes.
    pub async fn create(&self, nodes: &[Simulated]) -> Result<()> {
        stream::iter(nodes)
            .map(|node| async {
                let created = self.api.create(&PostParams::default(), &node.node()).await;
                created.with_context(|| format!("registering node {}", node.name))
            })
            .buffer_unordered(PARALLEL)
            .try_for_each(async |_| Ok(()))
            .await
    }

    /// Removes a node from the cluster. Its pods stay until the controllers collect them, 40 to 60 s later (as in a real
    /// cluster), or until they are deleted with grace period 0.
    pub async fn delete(&self, name: &str) -> Result<()> {
        self.api.delete(name, &DeleteParams::default()).await.with_context(|| format!("deleting node {name}"))?;
        Ok(())
    }

    /// Sets a label of any node of the lab, or removes it with `None`.
    pub async fn label(&self, name: &str, key: &str, value: Option<&str>) -> Result<()> {
        self.patch(name, json!({ "metadata": { "labels": { key: value } } })).await
    }

    /// Marks a node as (un)schedulable, as `kubectl cordon` does.
    pub async fn cordon(&self, name: &str, cordoned: bool) -> Result<()> {
        self.patch(name, json!({ "spec": { "unschedulable": cordoned } })).await
    }

    /// Makes a node report that it is Ready or not. Its leases go on: the kubelet lives and says it is unwell.
    pub async fn set_ready(&self, name: &str, ready: bool) -> Result<()> {
        let value = if ready { Value::Null } else { "false".into() };
        self.patch(name, json!({ "metadata": { "annotations": { READY_ANNOTATION: value } } })).await
    }

    /// Lets a node fall silent: no more leases, no status, its pods frozen as they are. After 5/4 of
    /// [`Options::node_lease_seconds`](crate::Options::node_lease_seconds) its condition Ready is `Unknown` and it is
    /// tainted unreachable. `false` brings it back.
    pub async fn silence(&self, name: &str, silent: bool) -> Result<()> {
        let (key, value) = MANAGED.split_once('=').unwrap_or((MANAGED, ""));
        self.label(name, key, (!silent).then_some(value)).await
    }

    /// Waits until every node that the lab looks after is Ready and free of the taints of a new node.
    pub async fn wait_ready(&self) -> Result<()> {
        let limit = Duration::from_mins(2);
        eventually("all nodes to be Ready", limit, async || {
            let nodes = self.api.list(&ListParams::default().labels(MANAGED)).await?;
            Ok(nodes.iter().all(|node| is_ready(node) && !has_condition_taint(node)).then_some(()))
        })
        .await
    }

    /// The InternalIP of a node.
    pub async fn address(&self, name: &str) -> Result<IpAddr> {
        let node = self.api.get(name).await?;
        let addresses = node.status.unwrap_or_default().addresses.unwrap_or_default();
        let internal = addresses.iter().find(|address| address.type_ == "InternalIP").context("no InternalIP")?;
        internal.address.parse().with_context(|| format!("address of node {name}"))
    }

    /// The objects themselves.
    pub fn api(&self) -> &Api<Node> {
        &self.api
    }

    async fn patch(&self, name: &str, patch: Value) -> Result<()> {
        let patched = self.api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.with_context(|| format!("changing node {name}"))?;
        Ok(())
    }
}

/// True when the node's condition Ready is True.
pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// True while the node carries a taint that follows from its conditions, such as the one of a new node.
fn has_condition_taint(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let cordoned = "node.kubernetes.io/unschedulable";
    taints.iter().any(|taint| taint.key.starts_with("node.kubernetes.io/") && taint.key != cordoned)
}

/// 10.77.0.0/16 or fd77::/64: control-plane nodes in the first 255 addresses, up to 63,750 workers behind them.
fn address(role: Role, index: u32, family: IpFamily) -> IpAddr {
    let offset = match role {
        Role::ControlPlane => index,
        Role::Worker => 256 + (index - 1) / 250 * 256 + (index - 1) % 250 + 1,
    };
    match family {
        IpFamily::V4 => Ipv4Addr::from_bits(Ipv4Addr::new(10, 77, 0, 0).to_bits() + offset).into(),
        IpFamily::V6 => {
            Ipv6Addr::from_bits(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0).to_bits() + u128::from(offset)).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kube::ResourceExt as _;

    use super::*;

    #[test]
    fn no_two_of_five_thousand_nodes_share_an_address() {
        for family in [IpFamily::V4, IpFamily::V6] {
            let control_plane = (1..=200).map(|index| address(Role::ControlPlane, index, family));
            let all: Vec<IpAddr> =
                control_plane.chain((1..=5000).map(|index| address(Role::Worker, index, family))).collect();
            assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        }
    }

    #[test]
    fn addresses_stay_in_their_network_and_avoid_its_ends() {
        assert_eq!(address(Role::ControlPlane, 1, IpFamily::V4).to_string(), "10.77.0.1");
        assert_eq!(address(Role::Worker, 1, IpFamily::V4).to_string(), "10.77.1.1");
        assert_eq!(address(Role::Worker, 250, IpFamily::V4).to_string(), "10.77.1.250");
        assert_eq!(address(Role::Worker, 251, IpFamily::V4).to_string(), "10.77.2.1");
        assert_eq!(address(Role::Worker, 5000, IpFamily::V4).to_string(), "10.77.20.250");
        assert_eq!(address(Role::Worker, 5000, IpFamily::V6).to_string(), "fd77::14fa");
    }

    #[test]
    fn roles_are_told_by_label_and_taint_as_kubeadm_does() {
        let labels = |role| Simulated::new(role, 1, IpFamily::V4).node();
        let control_plane = labels(Role::ControlPlane);
        assert_eq!(control_plane.labels().get(NODE_CONTROL_PLANE).map(String::as_str), Some(""));
        assert_eq!(control_plane.spec.unwrap().taints.unwrap()[0].effect, "NoSchedule");
        let worker = labels(Role::Worker);
        assert!(!worker.labels().contains_key(NODE_CONTROL_PLANE));
        assert!(worker.spec.unwrap().taints.is_none());
    }
}
