//! What kind of lab to start.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How much of a cluster runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// etcd and the API server: objects are stored and validated, nothing acts on them. Namespaces never finish
    /// deleting, nothing is garbage collected, ServiceAccounts are not made for namespaces (pods may be created
    /// without).
    Api,
    /// And the controller manager: workloads make pods, owners and namespaces are collected. No pod is scheduled.
    Controllers,
    /// And the scheduler and simulated nodes (kwok): pods are scheduled and become Ready without running anything.
    Fleet,
    /// And the scheduler and [real nodes](crate::real): pods run. Needs root.
    Real,
}

/// The address family of nodes, pods and Services. The ranges are those of simulated nodes and their pods; what real ones
/// have is said by [their network](crate::real::network).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IpFamily {
    /// Nodes in 10.77.0.0/16, Services in 10.96.0.0/16, pods in 10.244.0.0/16.
    #[default]
    V4,
    /// Nodes in fd77::/64, Services in fd96::/112, pods in fd44::/112.
    V6,
}

impl IpFamily {
    /// The range Service addresses are taken from.
    pub fn service_range(self) -> &'static str {
        match self {
            Self::V4 => "10.96.0.0/16",
            Self::V6 => "fd96::/112",
        }
    }

    /// The address of the `kubernetes` Service: the first of the range.
    pub fn kubernetes_service(self) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::new(10, 96, 0, 1).into(),
            Self::V6 => Ipv6Addr::new(0xfd96, 0, 0, 0, 0, 0, 0, 1).into(),
        }
    }

    /// The address of the Service of [DNS](crate::real::dns), the usual one.
    pub fn dns_service(self) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::new(10, 96, 0, 10).into(),
            Self::V6 => Ipv6Addr::new(0xfd96, 0, 0, 0, 0, 0, 0, 10).into(),
        }
    }

    /// The range of pods that are not on the host network.
    pub fn pod_range(self) -> &'static str {
        match self {
            Self::V4 => "10.244.0.0/16",
            Self::V6 => "fd44::/112",
        }
    }
}

/// What to start. [`Options::api`], [`Options::fleet`] and [`Options::real`] are the usual beginnings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Options {
    /// Name of the lab; `None` makes one up. A name is needed to [attach](crate::Lab::attach) later.
    pub name: Option<String>,
    /// How much of a cluster.
    pub tier: Tier,
    /// Simulated nodes with the control-plane role, named `control-plane-1` and so on. Tier fleet only.
    pub control_plane_nodes: u32,
    /// Simulated nodes without a role, named `worker-1` and so on. Tier fleet only.
    pub worker_nodes: u32,
    /// Real nodes, named `node-1` and so on. Tier real only.
    #[serde(default)]
    pub real_nodes: u32,
    /// Archives of images (of docker save, or OCI layouts) that every real node has from its start.
    #[serde(default)]
    pub images: Vec<PathBuf>,
    /// The address family of nodes, pods and Services. Without real nodes the control plane itself listens on IPv4 in any
    /// case.
    pub ip_family: IpFamily,
    /// Duration of the nodes' leases in seconds; a quarter of it is the time between renewals.
    /// A kubelet uses 40. Renewals are most of what an idle fleet costs (500 nodes: 50 a second, a third of a core in
    /// all). A silent node is noticed after 5/4 of it, so short leases make quick tests and long ones cheap fleets.
    pub node_lease_seconds: u32,
    /// The lab outlives the program that starts it, until it is taken down by name.
    pub background: bool,
}

impl Options {
    /// etcd and the API server only.
    pub fn api() -> Self {
        Self {
            name: None,
            tier: Tier::Api,
            control_plane_nodes: 0,
            worker_nodes: 0,
            real_nodes: 0,
            images: Vec::new(),
            ip_family: IpFamily::V4,
            node_lease_seconds: 40,
            background: false,
        }
    }

    /// Everything, with this many simulated nodes.
    pub fn fleet(control_plane_nodes: u32, worker_nodes: u32) -> Self {
        Self { tier: Tier::Fleet, control_plane_nodes, worker_nodes, ..Self::api() }
    }

    /// Everything, with this many real nodes. A node that has gone is noticed after 20 s.
    pub fn real(nodes: u32) -> Self {
        Self { tier: Tier::Real, real_nodes: nodes, node_lease_seconds: 16, ..Self::api() }
    }

    /// Adds images to the real nodes.
    #[must_use]
    pub fn with_images(mut self, archives: impl IntoIterator<Item = PathBuf>) -> Self {
        self.images.extend(archives);
        self
    }

    /// Sets the name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}
