//! The interface itself: whether the vRouter can have what it receives.
//!
//! The kernel gives what an interface receives to one handler. The module asks for it when `vhost0` is connected, and gets
//! EBUSY if a bridge, bond, team, Open vSwitch, macvlan, ipvlan or MACsec has it (VR linux/vr_host_interface.c).

use super::{Finding, Id};
use crate::{
    HostFacts, Mode, Wanted,
    facts::{
        links::Link,
        network::{Network, VHOST0},
    },
    wanted::OVERLAY_HEADERS,
};

/// Kinds of interfaces that take what the interface below them receives.
const TAKERS: [&str; 5] = ["macvlan", "macvtap", "ipvlan", "ipvtap", "macsec"];
/// Kinds of interfaces that may carry the overlay; hardware has none.
const CARRIERS: [&str; 4] = ["bond", "vlan", "veth", "netdevsim"];
/// The module's default of `vr_interfaces`: 256 + 4096 + 3. In kernel mode it counts by the kernel's numbers of interfaces.
const INTERFACES: u32 = 4355;
/// Per cent of the numbers that are left before it is worth knowing.
const MANY: u64 = 80;

pub fn check(facts: &HostFacts, wanted: &Wanted, uplinks: &[&Link]) -> Vec<Finding> {
    let network = &facts.network;
    let mut findings = Vec::new();
    for link in uplinks {
        findings.extend(kind(network, link));
        findings.extend(port(network, link));
        findings.extend(children(network, link));
        findings.extend(programs(link));
        findings.extend(signal(link));
        findings.extend(mtu(link, wanted));
        findings.extend(bond(network, link));
    }
    findings.extend(several(uplinks));
    if let ([link], false) = (uplinks, wanted.multihomed) {
        findings.extend(above_other(network, link));
    }
    if wanted.mode == Mode::Kernel {
        findings.extend(indexes(facts, wanted, uplinks));
    }
    findings
}

/// Several have the same MTU, which `vhost0` gets, and are three at most (VR include/vr_interface.h, `VR_MAX_PHY_INF`).
fn several(uplinks: &[&Link]) -> Vec<Finding> {
    const MOST: usize = 3;
    let mut findings = Vec::new();
    let listed = |text: &dyn Fn(&Link) -> String| uplinks.iter().map(|link| text(link)).collect::<Vec<_>>().join(", ");
    if uplinks.len() > MOST {
        let cause = format!("the vRouter takes {MOST} interfaces, and {} are named", listed(&|link| link.name.clone()));
        findings.push(Finding::new(Id::UplinksTooMany, cause, "leave some out of physicalInterface"));
    }
    if uplinks.windows(2).any(|pair| pair[0].mtu != pair[1].mtu) {
        let cause = format!("MTUs differ: {}", listed(&|link| format!("{} of {}", link.mtu, link.name)));
        findings.push(Finding::new(Id::UplinkMtusDiffer, cause, "give all of them the same one"));
    }
    findings
}

/// Whether a `vhost0` that is there is one of the vRouter's: of its module, or of its forwarder, which makes a TAP.
pub fn check_vhost0(facts: &HostFacts, wanted: &Wanted) -> Option<Finding> {
    let kind = facts.network.link(VHOST0)?.kind.as_deref().unwrap_or("hardware");
    let other = match (kind, wanted.mode) {
        ("vhost", Mode::Kernel) | ("tun", Mode::Dpdk) => return None,
        ("vhost", Mode::Dpdk) => Some("the kernel module"),
        ("tun", Mode::Kernel) => Some("the forwarder of DPDK"),
        _ => None,
    };
    if let Some(other) = other {
        let cause = format!("vhost0 is one of {other}, and the node is to have the {} mode", wanted.mode);
        let action = "drain the node and take it out of its group first, so that its interface gets everything back";
        return Some(Finding::new(Id::Vhost0OfOtherMode, cause, action));
    }
    let cause = format!("vhost0 is an interface of the kind {kind}, which no vRouter made");
    Some(Finding::new(Id::Vhost0OfOtherKind, cause, "rename or remove it: the vRouter needs the name"))
}

/// `vhost0` has the MAC address of the interface below it.
fn above_other(network: &Network, link: &Link) -> Option<Finding> {
    let vhost0 = network.link(VHOST0).filter(|vhost0| vhost0.kind.as_deref() == Some("vhost"))?;
    let (found, own) = (vhost0.mac.as_ref()?, link.mac.as_ref()?);
    let other = network.links.iter().find(|other| other.name != VHOST0 && other.mac.as_ref() == Some(found));
    let other = other.map_or_else(|| format!("an interface with the MAC address {found}"), |other| other.name.clone());
    let cause = format!("vhost0 is above {other} and not above {}", link.name);
    let action = "set physicalInterface to that one, or take the node out of the vRouter first";
    (found != own).then(|| Finding::new(Id::Vhost0AboveOther, cause, action))
}

fn kind(network: &Network, link: &Link) -> Option<Finding> {
    let name = &link.name;
    let refused = |cause: String| {
        let action = "set physicalInterface to hardware, a bond, or a VLAN of these";
        Some(Finding::new(Id::UplinkKindNotSupported, cause, action))
    };
    if link.loopback {
        return refused(format!("{name} is the loopback interface"));
    }
    if let Some(kind) = link.kind.as_deref().filter(|kind| !CARRIERS.contains(kind)) {
        return refused(format!("{name} is an interface of the kind {kind}, which the vRouter does not take"));
    }
    if !link.ethernet {
        return refused(format!("{name} has no frames of Ethernet"));
    }
    let parent = network.link(link.parent.as_deref()?)?;
    let kind = parent.kind.as_deref().filter(|kind| !CARRIERS.contains(kind))?;
    refused(format!(
        "{name} is above {}, an interface of the kind {kind}, which the vRouter does not take",
        parent.name
    ))
}

fn port(network: &Network, link: &Link) -> Option<Finding> {
    let (name, master) = (&link.name, link.master.as_deref()?);
    let kind = network.link(master).and_then(|link| link.kind.as_deref()).unwrap_or("master");
    let (what, why) = match kind {
        "bridge" => ("a port of bridge", "so the vRouter cannot attach to it"),
        "bond" => ("a member of bond", "so the vRouter cannot attach to it"),
        "team" => ("a port of team", "so the vRouter cannot attach to it"),
        "openvswitch" => ("a port of Open vSwitch", "so the vRouter cannot attach to it"),
        "vrf" => ("in the VRF", "and the vRouter uses tables of the host only"),
        _ => ("a port of", "so the vRouter cannot attach to it"),
    };
    let cause = format!("{name} is {what} {master}, {why}");
    let action = if kind == "bond" {
        format!("set physicalInterface to {master}")
    } else {
        format!("name another physicalInterface or take {name} out of {master}")
    };
    Some(Finding::new(Id::UplinkIsPort, cause, action))
}

fn children(network: &Network, link: &Link) -> Option<Finding> {
    let name = &link.name;
    let takes =
        |child: &&Link| child.name != VHOST0 && child.kind.as_deref().is_some_and(|kind| TAKERS.contains(&kind));
    let found: Vec<String> = network
        .children_of(name)
        .filter(takes)
        .map(|child| format!("{} ({})", child.name, child.kind.as_deref().unwrap_or_default()))
        .collect();
    let cause =
        format!("{} above {name} takes what {name} receives, so the vRouter cannot attach to it", found.join(", "));
    let action = format!("remove it, or name another physicalInterface than {name}");
    (!found.is_empty()).then(|| Finding::new(Id::UplinkHasChildren, cause, action))
}

fn programs(link: &Link) -> Vec<Finding> {
    let name = &link.name;
    let mut findings = Vec::new();
    if link.xdp {
        let cause = format!("an XDP program is attached to {name} and reads its packets before the vRouter");
        let action = format!("detach it (ip link set dev {name} xdp off), or name another physicalInterface");
        findings.push(Finding::new(Id::UplinkHasXdp, cause, action));
    }
    if let Some(kind) = &link.ingress {
        let cause =
            format!("{name} has the queueing discipline {kind}, whose filters read its packets before the vRouter");
        let action =
            format!("look at them with tc filter show dev {name} ingress, and remove those that drop or redirect");
        findings.push(Finding::new(Id::UplinkHasFilters, cause, action));
    }
    findings
}

fn signal(link: &Link) -> Option<Finding> {
    let name = &link.name;
    if !link.up {
        let action = format!("set it up (ip link set dev {name} up) and have the host do so at boot");
        return Some(Finding::new(Id::UplinkDown, format!("{name} is down"), action));
    }
    let finding =
        || Finding::new(Id::UplinkNoCarrier, format!("{name} has no carrier"), "look at its cable and its switch");
    (!link.carrier).then(finding)
}

fn mtu(link: &Link, wanted: &Wanted) -> Option<Finding> {
    let needed = wanted.pod_mtu + OVERLAY_HEADERS;
    let cause = format!(
        "packets of {} bytes and headers of {OVERLAY_HEADERS} do not fit into {}, which has an MTU of {}",
        wanted.pod_mtu, link.name, link.mtu
    );
    let action =
        format!("raise the MTU to {needed} or more on the node and its switches, or let pods have a smaller one");
    (link.mtu < needed).then(|| Finding::new(Id::UplinkMtuSmall, cause, action))
}

fn bond(network: &Network, link: &Link) -> Option<Finding> {
    let bond = [Some(link), link.parent.as_deref().and_then(|parent| network.link(parent))]
        .into_iter()
        .flatten()
        .find(|link| link.bond.as_ref().is_some_and(|bond| bond.mac_of_active_member))?;
    let cause = format!(
        "{} changes its MAC address with its active member (fail_over_mac=active), and vhost0 keeps one",
        bond.name
    );
    Some(Finding::new(Id::BondMacChanges, cause, "set fail_over_mac=none"))
}

/// `vhost0` gets the number after the highest one.
fn indexes(facts: &HostFacts, wanted: &Wanted, uplinks: &[&Link]) -> Option<Finding> {
    const LIMIT: &str = "vr_interfaces";
    let network = &facts.network;
    let loaded = facts.module.loaded.as_ref().and_then(|module| module.parameters.get(LIMIT));
    let limit = loaded
        .or_else(|| wanted.module_parameters.get(LIMIT))
        .and_then(|limit| limit.parse().ok())
        .unwrap_or(INTERFACES);
    let highest = network.links.iter().map(|link| link.index).max()?;
    let vhost0 = network.link(VHOST0).map_or(highest + 1, |link| link.index);
    let needed = uplinks.iter().map(|link| link.index).max().unwrap_or_default().max(vhost0);
    let action = format!("raise {LIMIT} of the vrouter module, or reboot the node, which counts from 1 again");
    if needed >= limit {
        let cause = format!(
            "an interface of the vRouter has the number {needed}, and the vrouter module takes those below {limit}"
        );
        return Some(Finding::new(Id::InterfaceIndexTooHigh, cause, action));
    }
    let cause =
        format!("numbers of interfaces have come to {MANY} % of {limit}, and the vrouter module takes those below");
    (u64::from(highest) * 100 > u64::from(limit) * MANY).then(|| Finding::new(Id::InterfaceIndexHigh, cause, action))
}
