//! Whether a vRouter can be set up on a node: facts compared with what is wanted. Pure.
//!
//! Each [`Finding`] has the cause first and then what to do. What [`Severity::Blocks`] is a reason to leave the node as it is;
//! what [`Severity::Warns`] is worth knowing before. Findings follow from facts that were read: what is in
//! [`HostFacts::unread`] makes one finding of its own, and no other.
//!
//! Not seen from here, with the reason:
//!
//! - **The API server's path**, pods of an earlier operator, Node.spec.podCIDR, kube-proxy's mode: known to Kubernetes. Control
//!   nodes and networks of pods can be passed in [`Wanted`].
//! - **Policies of nftables and iptables**, firewalld's runtime zones: tables need a decoder of their own, and firewalld D-Bus.
//!   Permanent zones are read from files.
//! - **LRO and hardware GRO** (ethtool): needs an ioctl, and so `unsafe` code, or a further netlink family.
//! - **Who holds a port or a virtual function**: other network namespaces and the processes of other containers are not looked
//!   into. A macvlan whose interface is in a pod is not seen for the same reason.
//! - **Whose signature a module has**: the kernel finds out when it loads it.
//! - **Compressed modules** (`.ko.xz`, `.ko.zst`): there is no decompressor in this program, so nothing is concluded from them.
//! - **Containers of Docker or Podman** by name: their API. The agent of such an installation is found among the processes.
//! - **SELinux**: a fact, and never a finding, since privileged pods run as `spc_t`, which it lets do all of this.
//! - **What the container runtime has loaded** (CRI `Status`): its files are read, if they are at the common places.

mod address;
mod cni;
mod dpdk;
pub(crate) mod kernel;
mod memory;
mod path;
mod services;
mod uplink;
pub(crate) mod virtual_functions;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{HostFacts, Mode, Wanted, uplink::choose};
pub(crate) use dpdk::{BESIDE, hardware};
pub(crate) use path::immovable;

/// Something about a node that keeps a vRouter from working on it, or may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// What it is about.
    pub id: Id,
    /// How bad it is.
    pub severity: Severity,
    /// The cause, with names of interfaces and files.
    pub cause: String,
    /// What to do.
    pub action: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Severity {
    /// A vRouter cannot be set up.
    Blocks,
    /// It may be, and something will not be as expected.
    Warns,
}

impl Finding {
    /// A finding with the severity of its id.
    pub fn new(id: Id, cause: impl Into<String>, action: impl Into<String>) -> Self {
        Self { id, severity: id.severity(), cause: cause.into(), action: action.into() }
    }

    /// Whether it keeps a vRouter from being set up.
    pub fn blocks(&self) -> bool {
        self.severity == Severity::Blocks
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.cause, self.action)
    }
}

/// Declares ids with their severities, so that no id is without one.
macro_rules! ids {
    ($($(#[doc = $doc:literal])+ $name:ident: $severity:ident,)*) => {
        /// What a finding is about. Names are stable: scripts and alerts may use them.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
            strum::Display, strum::VariantArray,
        )]
        #[serde(rename_all = "kebab-case")]
        #[strum(serialize_all = "kebab-case")]
        pub enum Id {
            $($(#[doc = $doc])+ $name,)*
        }

        impl Id {
            /// How bad such a finding is.
            pub const fn severity(self) -> Severity {
                match self {
                    $(Self::$name => Severity::$severity,)*
                }
            }
        }
    };
}

ids! {
    /// A file or a netlink dump could not be read.
    FactsUnread: Warns,

    /// The kernel loads no modules.
    KernelWithoutModules: Blocks,
    /// The module is to be compiled on the node, and there are no headers of its kernel.
    KernelHeadersMissing: Blocks,
    /// The module is to be on the node, and is not there for its kernel.
    ModuleMissing: Blocks,
    /// The module is to be put on the node, and cannot be.
    ModulesReadOnly: Blocks,
    /// The module's file is for another kernel.
    ModuleForOtherKernel: Blocks,
    /// `modprobe` does not find the module's file.
    ModuleNotIndexed: Warns,
    /// The kernel refuses the module's file, which has no signature.
    ModuleNotSigned: Blocks,
    /// The loaded module has another version.
    ModuleVersionDiffers: Warns,
    /// The loaded module has other parameters.
    ModuleParametersDiffer: Warns,
    /// A parameter names a CPU that is not there.
    ModuleParameterCpuMissing: Blocks,
    /// A newer kernel is installed, and the module is not.
    NextKernelWithoutModule: Warns,
    /// Arguments of the kernel are missing.
    KernelArgumentsMissing: Warns,

    /// There is no interface to take.
    UplinkNotFound: Blocks,
    /// There are several, and nothing says which.
    UplinkAmbiguous: Blocks,
    /// There are more than the module takes.
    UplinksTooMany: Blocks,
    /// Several have different MTUs.
    UplinkMtusDiffer: Blocks,
    /// The interface is of a kind that the vRouter does not take.
    UplinkKindNotSupported: Blocks,
    /// The interface is a port or member of another one.
    UplinkIsPort: Blocks,
    /// Interfaces above it take what it receives.
    UplinkHasChildren: Blocks,
    /// An XDP program reads its packets first.
    UplinkHasXdp: Blocks,
    /// Traffic-control filters read its packets first.
    UplinkHasFilters: Warns,
    /// The interface is down.
    UplinkDown: Blocks,
    /// The interface has no carrier.
    UplinkNoCarrier: Blocks,
    /// Packets of the overlay do not fit.
    UplinkMtuSmall: Warns,
    /// The bond changes its MAC address with the active member.
    BondMacChanges: Warns,
    /// Numbers of interfaces are beyond the module's limit.
    InterfaceIndexTooHigh: Blocks,
    /// Numbers of interfaces come near to the module's limit.
    InterfaceIndexHigh: Warns,
    /// There is a `vhost0` above another interface.
    Vhost0AboveOther: Blocks,
    /// There is a `vhost0` that is none of the vRouter's.
    Vhost0OfOtherKind: Blocks,
    /// There is a `vhost0` of the other mode.
    Vhost0OfOtherMode: Blocks,

    /// The interface has no address for IPv4.
    UplinkWithoutIpv4: Blocks,
    /// A node with several interfaces has no address of its own.
    LoopbackAddressMissing: Blocks,
    /// The agent refuses the address, whose network is a single host.
    UplinkHostPrefix: Warns,
    /// The address is leased, and would not be renewed.
    UplinkAddressLeased: Blocks,
    /// A program would set the address again.
    UplinkAddressOwned: Warns,
    /// DHCP of a cloud has rules of its own.
    CloudDhcp: Warns,
    /// Networks of pods and of the node overlap.
    PodNetworkOverlaps: Warns,

    /// The default route is not over the interface, and no gateway is stated.
    GatewayNotOnUplink: Warns,
    /// The gateway is in no network of the interface.
    GatewayOutsideNetworks: Warns,
    /// The gateway does not answer.
    GatewayUnreachable: Warns,
    /// Control nodes are reached over different interfaces.
    ControlNodesApart: Blocks,
    /// A route or rule of the interface cannot be moved to `vhost0`.
    RouteNotMovable: Blocks,
    /// All of the node's traffic is over the interface.
    UplinkCarriesAll: Warns,
    /// The kernel drops what `vhost0` receives.
    RpFilterStrict: Warns,

    /// No huge pages are mounted.
    HugePagesNotMounted: Blocks,
    /// There are too few huge pages.
    HugePagesTooFew: Blocks,
    /// DPDK has no huge pages near the interface.
    HugePagesFarFromUplink: Warns,
    /// Free memory is in small pieces.
    MemoryFragmented: Warns,

    /// DPDK does not get the interface, which is not on PCI.
    UplinkWithoutPci: Blocks,
    /// DPDK has no driver for the interface.
    DpdkDriverUnknown: Blocks,
    /// There is no IOMMU.
    IommuOff: Blocks,
    /// Other devices share the IOMMU group.
    IommuGroupShared: Blocks,
    /// The kernel refuses the driver in lockdown.
    LockdownForbidsDriver: Blocks,
    /// CPUs are stated that the node does not have.
    CoresNotAvailable: Blocks,
    /// Fewer than two CPUs forward.
    CoresTooFew: Blocks,
    /// DPDK takes no bond of so many members.
    BondTooLarge: Blocks,
    /// Other VLANs of the interface, or addresses of the one below, would be lost.
    UplinkVlansLost: Blocks,

    /// The hardware does not have so many virtual functions.
    VirtualFunctionsTooFew: Blocks,
    /// There is another number of virtual functions, and one of them is used.
    VirtualFunctionsDiffer: Blocks,
    /// The interface carries the node's own traffic.
    VirtualFunctionsOnUplink: Blocks,
    /// sriov-network-operator manages the hardware.
    VirtualFunctionsManaged: Warns,

    /// The CNI configuration cannot be put on the node.
    CniDirectoryNotWritable: Blocks,
    /// The container runtime reads CNI configurations elsewhere.
    CniDirectoryDiffers: Warns,
    /// Another network's CNI configuration comes first.
    CniOtherNetworkFirst: Warns,
    /// A CNI configuration of an earlier installation counts before ours.
    CniConfigurationStale: Warns,
    /// A CNI configuration cannot be parsed, and the runtime loads none.
    CniConfigurationBroken: Warns,

    /// Another program has a port of the agent.
    PortTaken: Blocks,
    /// An agent runs already.
    AgentRuns: Warns,
    /// Another data plane is on the node.
    OtherDataPlane: Warns,
    /// A zone of firewalld names the interface.
    FirewallZone: Warns,
}

/// Findings, those that block first.
pub fn preflight(facts: &HostFacts, wanted: &Wanted) -> Vec<Finding> {
    let mut findings: Vec<Finding> = unread(facts).into_iter().collect();
    findings.extend(kernel::check(facts, wanted));
    findings.extend(memory::check(facts, wanted));
    findings.extend(cni::check(facts, wanted));
    findings.extend(services::check(facts, wanted));
    findings.extend(virtual_functions::check(facts, wanted));
    findings.extend(uplink::check_vhost0(facts, wanted));
    match choose(facts, wanted) {
        Ok(uplinks) => {
            let links: Vec<_> = uplinks.iter().map(|uplink| uplink.link).collect();
            findings.extend(uplink::check(facts, wanted, &links));
            findings.extend(address::check(facts, wanted, &links));
            findings.extend(path::check(facts, wanted, &links));
            if wanted.mode == Mode::Dpdk {
                findings.extend(dpdk::check(facts, wanted, &links));
            }
        }
        Err(finding) => findings.push(finding),
    }
    findings.sort_by_key(|finding| (finding.severity, finding.id));
    findings
}

/// Findings for people, a line each.
pub(crate) fn lines(findings: &[Finding]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn unread(facts: &HostFacts) -> Option<Finding> {
    let first = facts.unread.first()?;
    let others = facts.unread.len() - 1;
    let more = if others == 0 { String::new() } else { format!(" and {others} more") };
    let cause = format!("{} could not be read ({}){more}", first.what, first.error);
    Some(Finding::new(
        Id::FactsUnread,
        cause,
        "run this as root, with the node's / at the root; what was not read is not checked",
    ))
}
