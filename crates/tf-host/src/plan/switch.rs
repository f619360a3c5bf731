//! The switch to the kernel mode: make before break.
//!
//! Addresses are on both interfaces when the data plane begins to move what arrives from the uplink to `vhost0`; routes follow
//! one by one, each replaced in one act; addresses leave the uplink last. So at no time the node has no way out, no address
//! takes others or routes with it when it goes, and TCP connections stay. What arrives on `vhost0` while routes are still over
//! the uplink passes the reverse-path filter, which is set to loose before.
//!
//! Routes to networks of addresses belong to the kernel: it makes them for `vhost0` beside those of the uplink, and takes the
//! latter with the address. Only the others are moved.

use std::{collections::BTreeSet, net::IpAddr};

use super::{Plan, Step};
use crate::{
    Finding, HostFacts, Mode, Wanted,
    facts::{
        addresses::{Address, Flag},
        links::Link,
        neighbours::Neighbour,
        network::{Network, VHOST0},
        routes::{Hop, Route},
        rules::Rule,
    },
    preflight::{Id, immovable},
    uplink::choose,
};

/// Settings that `vhost0` takes from the uplink.
const COPIED: [&str; 13] = [
    "ipv4.accept_local",
    "ipv4.arp_announce",
    "ipv4.arp_filter",
    "ipv4.arp_ignore",
    "ipv4.forwarding",
    "ipv4.promote_secondaries",
    "ipv4.src_valid_mark",
    "ipv6.accept_ra",
    "ipv6.accept_ra_rt_info_max_plen",
    "ipv6.addr_gen_mode",
    "ipv6.autoconf",
    "ipv6.forwarding",
    "ipv6.use_tempaddr",
];
/// Settings of `vhost0` whatever the uplink has: the loose reverse-path filter, and IPv6 addresses that stay when it goes down.
const OWN: [(&str, &str); 2] = [("ipv4.rp_filter", "2"), ("ipv6.keep_addr_on_down", "1")];
/// States of neighbours whose MAC address may be wrong or is none.
const UNKNOWN: [&str; 4] = ["none", "incomplete", "failed", "noarp"];

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlan {
    /// Something about the node.
    #[error("{0}")]
    Blocked(Finding),
    /// With DPDK the forwarder has the interface for itself, and with several uplinks addresses stay where they are.
    #[error("plans are for the kernel mode with one uplink")]
    NotKernelMode,
}

/// What is left to do so that `vhost0` has all that the uplink has. Call [`crate::preflight()`] first: this looks only at what it
/// needs.
///
/// # Errors
/// Why there is no plan.
pub fn switch(facts: &HostFacts, wanted: &Wanted) -> Result<Plan, NoPlan> {
    if wanted.mode != Mode::Kernel || wanted.multihomed {
        return Err(NoPlan::NotKernelMode);
    }
    let uplinks = choose(facts, wanted).map_err(NoPlan::Blocked)?;
    let uplink = uplinks.first().ok_or(NoPlan::NotKernelMode)?.link;
    if let Some(finding) = immovable(&facts.network, uplink) {
        return Err(NoPlan::Blocked(finding));
    }
    let mac = uplink.mac.clone().ok_or_else(|| {
        let cause = format!("{} has no MAC address", uplink.name);
        NoPlan::Blocked(Finding::new(Id::UplinkKindNotSupported, cause, "name another physicalInterface"))
    })?;
    let network = &facts.network;
    let vhost0 = network.link(VHOST0);
    let mut steps = Vec::new();
    if vhost0.is_none() {
        steps.push(Step::CreateVhost { mac, mtu: uplink.mtu });
    }
    steps.extend(settings(facts, uplink));
    if !vhost0.is_some_and(|link| link.up) {
        steps.push(Step::SetUp);
    }
    let addresses: Vec<&Address> = network.addresses_of(&uplink.name).filter(|address| is_moved(address)).collect();
    let routes = routes(network, uplink);
    steps.extend(added(network, uplink, &addresses));
    let known = routers(network, uplink);
    steps.extend(learnt(network, &known));
    let rules = rules(network, uplink);
    if vhost0.is_none() || !addresses.is_empty() || !routes.is_empty() || !rules.is_empty() {
        steps.extend([Step::AddPhysical, Step::Attach]);
    }
    steps.extend(routes);
    steps.extend(rules);
    // When this is undone the uplink has to know them before routes are over it again: while `vhost0` is connected with it,
    // answers to what the uplink asks arrive on `vhost0`.
    steps.extend(known.into_iter().map(Step::DeleteNeighbour));
    // Secondary addresses before the primary one, which would take them with it.
    steps.extend(addresses.into_iter().rev().cloned().map(Step::DeleteAddress));
    steps.extend(advertisements(facts, uplink));
    Ok(Plan { uplink: uplink.name.clone(), steps })
}

/// The kernel makes an interface's own link-local address from its MAC address.
fn is_moved(address: &Address) -> bool {
    !matches!(address.address.addr(), IpAddr::V6(own) if own.is_unicast_link_local())
}

fn setting<'a>(facts: &'a HostFacts, link: &str, name: &str) -> Option<&'a String> {
    facts.sysctls.links.get(link)?.get(name)
}

fn settings(facts: &HostFacts, uplink: &Link) -> Vec<Step> {
    let copied = COPIED.iter().filter_map(|name| Some((*name, setting(facts, &uplink.name, name)?.clone())));
    // Later the uplink has other values than it had, since router advertisements are switched off there.
    let is_new = facts.network.link(VHOST0).is_none();
    let copied = copied.filter(|_| is_new);
    let own = OWN.iter().map(|(name, value)| (*name, (*value).to_owned()));
    let differing = copied.chain(own).filter(|(name, value)| setting(facts, VHOST0, name) != Some(value));
    let step = |(name, value): (&str, String)| Step::SetSysctl {
        link: VHOST0.into(),
        name: name.into(),
        value,
        before: setting(facts, VHOST0, name).cloned(),
    };
    differing.map(step).collect()
}

/// Addresses of the uplink that `vhost0` does not have yet.
fn added(network: &Network, uplink: &Link, addresses: &[&Address]) -> Vec<Step> {
    let has = |address: &Address| network.addresses_of(VHOST0).any(|other| other.address == address.address);
    let copy = |address: &Address| {
        let mut copy = address.clone();
        copy.link = VHOST0.into();
        copy.label = address.label.as_ref().map(|label| label.replacen(&uplink.name, VHOST0, 1));
        // The uplink has it, too, and the check for duplicates would find that.
        if address.address.addr().is_ipv6() {
            copy.flags.insert(Flag::NoDad);
        }
        Step::AddAddress(copy)
    };
    addresses.iter().filter(|address| !has(address)).map(|address| copy(address)).collect()
}

/// Routers that routes over the uplink lead to and whose MAC addresses are known, as they are to be set.
fn routers(network: &Network, uplink: &Link) -> Vec<Neighbour> {
    let hops = network.routes.iter().flat_map(|route| &route.hops).filter(|hop| hop.link == uplink.name);
    let gateways: BTreeSet<IpAddr> = hops.filter_map(|hop| hop.gateway).collect();
    let is_known = |neighbour: &&Neighbour| {
        neighbour.link == uplink.name
            && neighbour.mac.is_some()
            && gateways.contains(&neighbour.address)
            && !UNKNOWN.contains(&neighbour.state.as_str())
    };
    let stated = |neighbour: &Neighbour| {
        let state = if neighbour.state == "permanent" { "permanent" } else { "reachable" };
        Neighbour { state: state.into(), ..neighbour.clone() }
    };
    network.neighbours.iter().filter(is_known).map(stated).collect()
}

/// Routers that `vhost0` does not know yet, so that the first packet over it does not wait.
fn learnt(network: &Network, routers: &[Neighbour]) -> Vec<Step> {
    let knows = |router: &Neighbour| {
        network.neighbours.iter().any(|other| other.link == VHOST0 && other.address == router.address)
    };
    let copy = |router: &Neighbour| Step::AddNeighbour(Neighbour { link: VHOST0.into(), ..router.clone() });
    routers.iter().filter(|router| !knows(router)).map(copy).collect()
}

/// Routes to networks first, which make routers reachable; then routes by routers; default routes last.
fn routes(network: &Network, uplink: &Link) -> Vec<Step> {
    let is_moved = |route: &&Route| {
        route.is_over(&uplink.name) && !route.destination.addr().is_multicast() && !is_of_kernel(network, route, uplink)
    };
    let mut routes: Vec<&Route> = network.routes.iter().filter(is_moved).collect();
    routes.sort_by_key(|route| (route.hops.iter().any(|hop| hop.gateway.is_some()), route.is_default()));
    let moved = |hop: &Hop| {
        if hop.link == uplink.name { Hop { link: VHOST0.into(), ..hop.clone() } } else { hop.clone() }
    };
    let step = |route: &Route| {
        let to = Route { hops: route.hops.iter().map(moved).collect(), ..route.clone() };
        Step::ReplaceRoute { from: Box::new(route.clone()), to: Box::new(to) }
    };
    routes.into_iter().map(step).collect()
}

/// Whether the kernel made it with an address, and takes it with the address.
fn is_of_kernel(network: &Network, route: &Route, uplink: &Link) -> bool {
    let makes = |address: &Address| {
        !address.flags.contains(&Flag::NoPrefixRoute) && address.address.trunc() == route.destination
    };
    let is_plain = route.protocol == "kernel" && route.hops.iter().all(|hop| hop.gateway.is_none());
    is_plain && network.addresses_of(&uplink.name).any(makes)
}

/// Rules that name the uplink, each made for `vhost0` before it is deleted.
fn rules(network: &Network, uplink: &Link) -> Vec<Step> {
    let name = Some(uplink.name.as_str());
    let moved = |link: &Option<String>| if link.as_deref() == name { Some(VHOST0.to_owned()) } else { link.clone() };
    let named =
        network.rules.iter().filter(|rule| [&rule.incoming, &rule.outgoing].iter().any(|link| link.as_deref() == name));
    named
        .flat_map(|rule| {
            let copy = Rule { incoming: moved(&rule.incoming), outgoing: moved(&rule.outgoing), ..rule.clone() };
            [Step::AddRule(copy), Step::DeleteRule(rule.clone())]
        })
        .collect()
}

/// Router advertisements come to `vhost0` now.
fn advertisements(facts: &HostFacts, uplink: &Link) -> Option<Step> {
    let name = "ipv6.accept_ra";
    let before = setting(facts, &uplink.name, name).filter(|value| *value != "0")?;
    let link = uplink.name.clone();
    Some(Step::SetSysctl { link, name: name.into(), value: "0".into(), before: Some(before.clone()) })
}
