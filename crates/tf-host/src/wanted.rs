//! What a vRouter needs of a node.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::CpuList;

/// What headers of the overlay take at most, in bytes: Ethernet, VLAN, IPv4, UDP and VXLAN or MPLS (upstream has 50 to 64).
pub const OVERLAY_HEADERS: u32 = 64;
/// The smallest MTU that IPv6 works with (RFC 8200).
const LEAST_POD_MTU: u32 = 1280;

/// MTU of pods that fits a node, by that of its uplink.
pub fn pod_mtu(uplink: u32) -> u32 {
    uplink.saturating_sub(OVERLAY_HEADERS).max(LEAST_POD_MTU)
}

/// What forwards packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::Display, strum::EnumString)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Mode {
    /// The kernel module.
    #[default]
    Kernel,
    /// A program that has the physical interface for itself.
    Dpdk,
}

/// Where the kernel module comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::Display, strum::EnumString)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum ModuleSource {
    /// The pod's init container compiles it on the node.
    #[default]
    Image,
    /// It is on the node: a package, DKMS, an operating system's image.
    Host,
}

/// What the forwarder of the DPDK mode needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Dpdk {
    /// CPUs of the forwarder (`CPU_CORE_MASK`). None: it chooses.
    pub cores: Option<CpuList>,
    /// Those among them for its service threads (`SERVICE_CORE_MASK`). None: all CPUs.
    pub service_cores: Option<CpuList>,
    /// Those among them for the threads of DPDK itself (`DPDK_CTRL_THREAD_MASK`). None: the forwarder chooses.
    pub control_cores: Option<CpuList>,
    /// The driver that DPDK gets the interface by (`DPDK_UIO_DRIVER`).
    pub driver: String,
    /// MiB of huge pages for packets on each NUMA node that has some (`DPDK_MEM_PER_SOCKET`).
    pub memory_per_node: u32,
    /// Whether the interface computes checksums (`NIC_OFFLOAD_ENABLE`).
    pub offloads: bool,
    /// Whether frames of other VLANs go to an interface of the host (`DPDK_ENABLE_VLAN_FWRD`).
    pub vlan_forwarding: bool,
    /// Further arguments of the forwarder (`DPDK_COMMAND_ADDITIONAL_ARGS`).
    pub arguments: Vec<String>,
}

impl Default for Dpdk {
    fn default() -> Self {
        Self {
            cores: None,
            service_cores: None,
            control_cores: None,
            driver: "vfio-pci".into(),
            memory_per_node: 1024,
            offloads: false,
            vlan_forwarding: false,
            arguments: Vec::new(),
        }
    }
}

impl Dpdk {
    /// CPUs that forward packets: those of the forwarder without those of other threads (VR dpdk/dpdk_vrouter.c). None: it chooses.
    pub fn forwarding(&self) -> Option<CpuList> {
        let others = [&self.service_cores, &self.control_cores].into_iter().flatten();
        Some(others.fold(self.cores.clone()?, |left, taken| left.without(taken)))
    }
}

/// What a vRouter needs of a node. [`Wanted::default()`] is a kernel-mode vRouter that finds everything itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Wanted {
    /// What forwards packets.
    pub mode: Mode,
    /// The interface that has `vhost0` above it in this boot, as the journal has it. None where no journal says so: then it is found by its MAC address.
    pub below_vhost0: Option<String>,
    /// Where the kernel module comes from.
    pub module: ModuleSource,
    /// The version that the module has to have.
    pub module_version: Option<String>,
    /// Parameters of the module, which count when it is loaded.
    pub module_parameters: BTreeMap<String, String>,
    /// Interfaces that the vRouter takes. Empty: it is found, see [`crate::uplink::choose`]. Several are for `multihomed` only.
    pub physical_interfaces: Vec<String>,
    /// Whether the address of the node is on the loopback interface and routes lead there over several uplinks (`l3mhCidr`).
    pub multihomed: bool,
    /// Network of that address (`l3mhCidr`).
    pub loopback_subnet: Option<IpNet>,
    /// Network of the overlay's packets; it says the prefix length where the interface has the network of a single host.
    pub data_subnet: Option<IpNet>,
    /// The router of the overlay's packets.
    pub gateway: Option<IpAddr>,
    /// Control nodes.
    pub control_nodes: Vec<IpAddr>,
    /// Huge pages by their size in bytes. Empty: tables of the kernel mode are in ordinary memory.
    pub huge_pages: BTreeMap<u64, u64>,
    /// MTU of pods in bytes, where one is stated; else pods have what fits, and this is the least that IPv6 works with.
    pub pod_mtu: u32,
    /// What the forwarder of the DPDK mode needs.
    pub dpdk: Dpdk,
    /// Virtual functions by interface.
    pub virtual_functions: BTreeMap<String, u32>,
    /// Networks of pods and Services.
    pub pod_networks: Vec<IpNet>,
    /// Where the container runtime reads CNI configurations.
    pub cni_directory: String,
    /// Where it finds CNI programs.
    pub cni_programs: String,
    /// The vRouter's CNI configuration, a file in that directory.
    pub cni_file: String,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            below_vhost0: None,
            mode: Mode::default(),
            module: ModuleSource::default(),
            module_version: None,
            module_parameters: BTreeMap::new(),
            physical_interfaces: Vec::new(),
            multihomed: false,
            loopback_subnet: None,
            data_subnet: None,
            gateway: None,
            control_nodes: Vec::new(),
            huge_pages: BTreeMap::new(),
            pod_mtu: LEAST_POD_MTU,
            dpdk: Dpdk::default(),
            virtual_functions: BTreeMap::new(),
            pod_networks: Vec::new(),
            cni_directory: "/etc/cni/net.d".into(),
            cni_programs: "/opt/cni/bin".into(),
            cni_file: "10-tf-cni.conf".into(),
        }
    }
}
