//! The switch to the kernel mode: make before break.
//!
//! Addresses are on both interfaces when the data plane begins to move what arrives from the uplink to `vhost0`; routes follow
//! one by one, each replaced in one act; addresses leave the uplink last. So at no time the node has no way out, no address
//! takes others or routes with it when it goes, and TCP connections stay. What arrives on `vhost0` while routes are still over
//! the uplink passes the reverse-path filter, which is set to loose before.

use super::{Plan, Step, moves::Move};
use crate::{
    Finding, HostFacts, Mode, Wanted,
    facts::{links::Link, network::VHOST0},
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

/// The MAC address of `vhost0` above several uplinks.
const VRRP: &str = "00:00:5e:00:01:00";

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlan {
    /// Something about the node.
    #[error("{0}")]
    Blocked(Finding),
    /// With DPDK the forwarder has the interface for itself.
    #[error("plans are for the kernel mode")]
    NotKernelMode,
}

/// What is left to do so that `vhost0` has all that the uplink has. Call [`crate::preflight()`] first: this looks only at what it
/// needs.
///
/// # Errors
/// Why there is no plan.
pub fn switch(facts: &HostFacts, wanted: &Wanted) -> Result<Plan, NoPlan> {
    if wanted.mode != Mode::Kernel {
        return Err(NoPlan::NotKernelMode);
    }
    let uplinks = choose(facts, wanted).map_err(NoPlan::Blocked)?;
    if wanted.multihomed {
        let links: Vec<&Link> = uplinks.iter().map(|uplink| uplink.link).collect();
        return Ok(several(facts, &links));
    }
    let uplink = uplinks.first().ok_or(NoPlan::NotKernelMode)?.link;
    if let Some(finding) = immovable(&facts.network, uplink, VHOST0) {
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
    let moves = Move { network, from: &uplink.name, to: VHOST0 };
    let (routes, rules) = (moves.routes(), moves.rules());
    steps.extend(moves.addresses_made());
    steps.extend(moves.routers_learnt());
    if vhost0.is_none() || !moves.addresses().is_empty() || !routes.is_empty() || !rules.is_empty() {
        steps.extend([Step::AddPhysical, Step::Attach]);
    }
    steps.extend(routes);
    steps.extend(rules);
    // When this is undone the uplink has to know them before routes are over it again: while `vhost0` is connected with it,
    // answers to what the uplink asks arrive on `vhost0`.
    steps.extend(moves.routers_forgotten());
    steps.extend(moves.addresses_deleted());
    steps.extend(advertisements(facts, uplink));
    Ok(Plan { uplink: uplink.name.clone(), steps })
}

/// With several uplinks (L3MH) addresses and routes stay where they are. `vhost0` has none, and the MAC address of VRRP (AF `init_vhost0_l3mh`).
fn several(facts: &HostFacts, uplinks: &[&Link]) -> Plan {
    let vhost0 = facts.network.link(VHOST0);
    let mtu = uplinks.iter().map(|link| link.mtu).min().unwrap_or_default();
    let mut steps = Vec::new();
    if vhost0.is_none() {
        steps.push(Step::CreateVhost { mac: VRRP.into(), mtu });
    }
    steps.extend(uplinks.first().into_iter().flat_map(|uplink| settings(facts, uplink)));
    if !vhost0.is_some_and(|link| link.up) {
        steps.push(Step::SetUp);
    }
    Plan { uplink: names(uplinks), steps }
}

/// Several as the data plane is given them.
pub(super) fn names(uplinks: &[&Link]) -> String {
    uplinks.iter().map(|link| link.name.as_str()).collect::<Vec<_>>().join(",")
}

pub(super) fn setting<'a>(facts: &'a HostFacts, link: &str, name: &str) -> Option<&'a String> {
    facts.sysctls.links.get(link)?.get(name)
}

/// Kernel settings of `vhost0`, which takes some from the uplink.
pub(crate) fn settings(facts: &HostFacts, uplink: &Link) -> Vec<Step> {
    let copied = COPIED.iter().filter_map(|name| Some((*name, setting(facts, &uplink.name, name)?.clone())));
    // Later the uplink has other values than it had, since router advertisements are switched off there.
    let is_new = facts.network.link(VHOST0).is_none();
    let copied = copied.filter(|_| is_new);
    // A kernel without IPv6 has none of its settings, so they would be missing for ever.
    let is_absent = |name: &str| facts.sysctls.links.get("default").is_some_and(|known| !known.contains_key(name));
    let own = OWN.iter().filter(|(name, _)| !is_absent(name)).map(|(name, value)| (*name, (*value).to_owned()));
    let differing = copied.chain(own).filter(|(name, value)| setting(facts, VHOST0, name) != Some(value));
    let step = |(name, value): (&str, String)| Step::SetSysctl {
        link: VHOST0.into(),
        name: name.into(),
        value,
        before: setting(facts, VHOST0, name).cloned(),
    };
    differing.map(step).collect()
}

/// Router advertisements come to `vhost0` now.
fn advertisements(facts: &HostFacts, uplink: &Link) -> Option<Step> {
    let name = "ipv6.accept_ra";
    let before = setting(facts, &uplink.name, name).filter(|value| *value != "0")?;
    let link = uplink.name.clone();
    Some(Step::SetSysctl { link, name: name.into(), value: "0".into(), before: Some(before.clone()) })
}
