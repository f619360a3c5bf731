//! DPDK: whether a program can have the hardware, and CPUs and memory near it.

use super::{Finding, Id};
use crate::{
    HostFacts, Wanted,
    facts::{devices::Device, kernel::Lockdown, links::Link, network::Network},
    wanted::Dpdk,
};

/// Kernel drivers of hardware that DPDK has drivers for.
const SUPPORTED: [&str; 30] = [
    "atlantic",
    "bnx2x",
    "bnxt_en",
    "cxgb4",
    "e1000",
    "e1000e",
    "ena",
    "enic",
    "fm10k",
    "hns3",
    "i40e",
    "iavf",
    "i40evf",
    "ice",
    "igb",
    "igbvf",
    "igc",
    "igb_uio",
    "ixgbe",
    "ixgbevf",
    "liquidio",
    "mlx4_core",
    "mlx5_core",
    "nfp",
    "qede",
    "sfc",
    "uio_pci_generic",
    "vfio-pci",
    "virtio-pci",
    "vmxnet3",
];
/// Drivers that DPDK works beside: the interface stays with the kernel.
pub(crate) const BESIDE: [&str; 2] = ["mlx4_core", "mlx5_core"];
/// Drivers that may have other devices of an IOMMU group.
const HARMLESS: [&str; 3] = ["vfio-pci", "pci-stub", "pcieport"];
/// Drivers that give programs access to all memory.
const UIO: [&str; 2] = ["uio_pci_generic", "igb_uio"];
const MOST_MEMBERS: usize = 6;
const FEWEST_CORES: usize = 2;

pub fn check(facts: &HostFacts, wanted: &Wanted, uplinks: &[&Link]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for link in uplinks {
        let pci = |link: &&Link| facts.devices.get(&link.name)?.pci.as_deref();
        let taken: Vec<&str> = hardware(&facts.network, link).iter().filter_map(pci).collect();
        for hardware in hardware(&facts.network, link) {
            findings.extend(of_hardware(facts, wanted, &hardware.name, &taken));
        }
        findings.extend(too_large(&facts.network, link));
        findings.extend(vlans(&facts.network, link));
    }
    let driver = wanted.dpdk.driver.as_str();
    if UIO.contains(&driver) && facts.kernel.lockdown != Lockdown::None {
        let cause = format!("the kernel is in lockdown ({}) and refuses {driver}", facts.kernel.lockdown);
        findings.push(Finding::new(Id::LockdownForbidsDriver, cause, "use vfio-pci, or switch secure boot off"));
    }
    findings.extend(of_cores(facts, &wanted.dpdk));
    findings
}

/// The hardware below an interface: of a VLAN its parent's, of a bond its members.
pub(crate) fn hardware<'a>(network: &'a Network, link: &'a Link) -> Vec<&'a Link> {
    let lower = match (link.kind.as_deref(), link.parent.as_deref().and_then(|parent| network.link(parent))) {
        (Some("vlan"), Some(parent)) => parent,
        _ => link,
    };
    let members: Vec<&Link> = network.members_of(&lower.name).collect();
    if lower.kind.as_deref() == Some("bond") && !members.is_empty() { members } else { vec![lower] }
}

/// `taken`: PCI addresses of all hardware that DPDK takes for the uplink, members of a bond for example.
fn of_hardware(facts: &HostFacts, wanted: &Wanted, name: &str, taken: &[&str]) -> Vec<Finding> {
    let device = facts.devices.get(name);
    let Some((device, pci)) = device.and_then(|device| Some((device, device.pci.as_ref()?))) else {
        let cause = format!("{name} is not on PCI, so DPDK cannot have it");
        return vec![Finding::new(
            Id::UplinkWithoutPci,
            cause,
            "use the kernel mode, or name another physicalInterface",
        )];
    };
    let driver = device.driver.as_deref().unwrap_or("no driver");
    let mut findings = Vec::new();
    if !SUPPORTED.contains(&driver) {
        let cause = format!("{name} ({pci}) has the driver {driver}, for whose hardware DPDK has none");
        findings.push(Finding::new(
            Id::DpdkDriverUnknown,
            cause,
            "use the kernel mode, or name another physicalInterface",
        ));
    }
    if wanted.dpdk.driver == "vfio-pci" && !BESIDE.contains(&driver) {
        findings.extend(iommu(facts, device, name, taken));
    }
    findings.extend(far(facts, device, name));
    let functions = device.virtual_functions.as_ref().map_or(0, |functions| functions.configured);
    if functions > 0 && !BESIDE.contains(&driver) {
        let cause = format!("{name} has {functions} virtual functions, which end when DPDK takes it");
        let action = "make none on it, or name another physicalInterface";
        findings.push(Finding::new(Id::VirtualFunctionsOnUplink, cause, action));
    }
    findings
}

fn iommu(facts: &HostFacts, device: &Device, name: &str, taken: &[&str]) -> Option<Finding> {
    if !facts.passthrough.iommu && !facts.passthrough.unsafe_no_iommu {
        let cause = format!("vfio-pci needs an IOMMU for {name}, and the kernel has no IOMMU groups");
        let action = "enable VT-d or AMD-Vi in the BIOS and add intel_iommu=on iommu=pt to the kernel's arguments; in a virtual machine use uio_pci_generic";
        return Some(Finding::new(Id::IommuOff, cause, action));
    }
    let group = device.iommu.as_ref()?;
    let in_use = |(address, driver): (&String, &Option<String>)| {
        let driver =
            driver.as_deref().filter(|driver| !HARMLESS.contains(driver) && !taken.contains(&address.as_str()))?;
        Some(format!("{address} ({driver})"))
    };
    let others: Vec<String> = group.others.iter().filter_map(in_use).collect();
    let cause =
        format!("{name} shares its IOMMU group {} with {}, and a group has one owner", group.number, others.join(", "));
    let action = "put the card into another slot, or bind all devices of the group to vfio-pci";
    (!others.is_empty()).then(|| Finding::new(Id::IommuGroupShared, cause, action))
}

fn far(facts: &HostFacts, device: &Device, name: &str) -> Option<Finding> {
    let node = device.numa_node?;
    let pages = |node: u32| -> u64 {
        facts.memory.huge_pages.values().filter_map(|pages| pages.total_by_node.get(&node)).sum()
    };
    let elsewhere = facts.cpus.nodes.keys().any(|other| *other != node && pages(*other) > 0);
    let cause = format!("{name} is at NUMA node {node}, which has no huge pages, and other nodes have some");
    let action = format!("write a number to /sys/devices/system/node/node{node}/hugepages/*/nr_hugepages");
    (elsewhere && pages(node) == 0).then(|| Finding::new(Id::HugePagesFarFromUplink, cause, action))
}

fn too_large(network: &Network, link: &Link) -> Option<Finding> {
    let members = hardware(network, link).len();
    let cause =
        format!("the bond of {} has {members} members, and the vRouter with DPDK takes {MOST_MEMBERS}", link.name);
    (members > MOST_MEMBERS).then(|| Finding::new(Id::BondTooLarge, cause, "take members out of the bond"))
}

/// The forwarder has the whole hardware, and carries one interface of it: addresses of the one below, and other VLANs, go with its driver.
fn vlans(network: &Network, link: &Link) -> Option<Finding> {
    let is_vlan = |other: &&Link| other.kind.as_deref() == Some("vlan") && other.name != link.name;
    let lower = if link.kind.as_deref() == Some("vlan") { link.parent.as_deref()? } else { &link.name };
    let vlans = network.children_of(lower).filter(is_vlan).map(|other| other.name.clone());
    let own = network.addresses_of(lower).filter(|address| lower != link.name && address.is_global());
    let others: Vec<String> = vlans.chain(own.map(|address| address.address.to_string())).collect();
    let cause = format!("{} of {lower} would stop working: DPDK takes the hardware as a whole", others.join(", "));
    (!others.is_empty()).then(|| Finding::new(Id::UplinkVlansLost, cause, "move them to other hardware"))
}

fn of_cores(facts: &HostFacts, wanted: &Dpdk) -> Vec<Finding> {
    let mut findings = Vec::new();
    let stated = [("coreMask", &wanted.cores), ("SERVICE_CORE_MASK", &wanted.service_cores)];
    let stated = stated.into_iter().chain([("DPDK_CTRL_THREAD_MASK", &wanted.control_cores)]);
    for (name, cores) in stated.filter_map(|(name, cores)| Some((name, cores.as_ref()?))) {
        let absent = cores.without(&facts.cpus.online);
        // Those of its cpuset, in a container.
        let forbidden = cores.without(&absent).without(&facts.cpus.allowed);
        if !absent.is_empty() {
            let cause = format!("CPUs {absent} are in {name}, and the node has {}", facts.cpus.online);
            findings.push(Finding::new(Id::CoresNotAvailable, cause, format!("set {name} to CPUs that are online")));
        } else if !forbidden.is_empty() && !facts.cpus.allowed.is_empty() {
            let cause = format!("CPUs {forbidden} are in {name}, and this pod may use {}", facts.cpus.allowed);
            let action = "set reservedSystemCPUs of the kubelet so that they are left to the vRouter, or choose others";
            findings.push(Finding::new(Id::CoresNotAvailable, cause, action));
        }
    }
    if let Some(forwarding) = wanted.forwarding().filter(|cores| cores.len() < FEWEST_CORES) {
        let found = if forwarding.is_empty() { "no CPU is".to_owned() } else { format!("CPU {forwarding} alone is") };
        let cause =
            format!("{found} left for forwarding, and the vRouter with DPDK starts with {FEWEST_CORES} or more");
        findings.push(Finding::new(
            Id::CoresTooFew,
            cause,
            "set coreMask to more CPUs, or take some from the other masks",
        ));
    }
    findings
}
