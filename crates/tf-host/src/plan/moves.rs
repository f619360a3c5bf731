//! What an interface has, on its way to another one. Pure.
//!
//! Routes to networks of addresses belong to the kernel: it makes them for the other interface beside those of the first, and
//! takes the latter with the address. Only the others are moved.

use std::{collections::BTreeSet, net::IpAddr};

use super::Step;
use crate::facts::{
    addresses::{Address, Flag},
    neighbours::Neighbour,
    network::Network,
    routes::{Hop, Route},
    rules::Rule,
};

/// States of neighbours whose MAC address may be wrong or is none.
const UNKNOWN: [&str; 4] = ["none", "incomplete", "failed", "noarp"];
/// Routes that the agent makes for its own services, and makes again (TC vnswif, `rt_protos` has no name for it).
const AGENT: &str = "109";

/// Everything of one interface that another one is to have.
pub struct Move<'a> {
    /// The network of the node.
    pub network: &'a Network,
    /// The interface that has it.
    pub from: &'a str,
    /// The interface that is to have it.
    pub to: &'a str,
}

impl<'a> Move<'a> {
    /// Addresses that are moved: not those of the link, which the kernel makes from the MAC address.
    pub fn addresses(&self) -> Vec<&'a Address> {
        let is_moved =
            |address: &&Address| !matches!(address.address.addr(), IpAddr::V6(own) if own.is_unicast_link_local());
        self.network.addresses_of(self.from).filter(is_moved).collect()
    }

    /// Addresses that the other interface does not have yet.
    pub fn addresses_made(&self) -> Vec<Step> {
        let has = |address: &Address| self.network.addresses_of(self.to).any(|other| other.address == address.address);
        let copy = |address: &Address| {
            let mut copy = address.clone();
            copy.link = self.to.into();
            copy.label = address.label.as_ref().map(|label| label.replacen(self.from, self.to, 1));
            // The first interface has it, too, and the check for duplicates would find that.
            if address.address.addr().is_ipv6() {
                copy.flags.insert(Flag::NoDad);
            }
            Step::AddAddress(copy)
        };
        self.addresses().into_iter().filter(|address| !has(address)).map(copy).collect()
    }

    /// Secondary addresses before the primary one, which would take them with it.
    pub fn addresses_deleted(&self) -> Vec<Step> {
        self.addresses().into_iter().rev().cloned().map(Step::DeleteAddress).collect()
    }

    /// Routers that routes over the interface lead to and whose MAC addresses are known, as they are to be set.
    fn routers(&self) -> Vec<Neighbour> {
        let hops = self.network.routes.iter().flat_map(|route| &route.hops).filter(|hop| hop.link == self.from);
        let gateways: BTreeSet<IpAddr> = hops.filter_map(|hop| hop.gateway).collect();
        let is_known = |neighbour: &&Neighbour| {
            neighbour.link == self.from
                && neighbour.mac.is_some()
                && gateways.contains(&neighbour.address)
                && !UNKNOWN.contains(&neighbour.state.as_str())
        };
        let stated = |neighbour: &Neighbour| {
            let state = if neighbour.state == "permanent" { "permanent" } else { "reachable" };
            Neighbour { state: state.into(), ..neighbour.clone() }
        };
        self.network.neighbours.iter().filter(is_known).map(stated).collect()
    }

    /// Routers that the other interface does not know yet, so that the first packet over it does not wait.
    pub fn routers_learnt(&self) -> Vec<Step> {
        let knows = |router: &Neighbour| {
            self.network.neighbours.iter().any(|other| other.link == self.to && other.address == router.address)
        };
        let copy = |router: Neighbour| Step::AddNeighbour(Neighbour { link: self.to.into(), ..router });
        self.routers().into_iter().filter(|router| !knows(router)).map(copy).collect()
    }

    /// The same routers, no longer known to the first interface.
    pub fn routers_forgotten(&self) -> Vec<Step> {
        self.routers().into_iter().map(Step::DeleteNeighbour).collect()
    }

    /// Routes to networks first, which make routers reachable; then routes by routers; default routes last.
    pub fn routes(&self) -> Vec<Step> {
        let is_moved = |route: &&Route| {
            route.is_over(self.from)
                && !route.destination.addr().is_multicast()
                && route.protocol != AGENT
                && !self.is_of_kernel(route)
        };
        let mut routes: Vec<&Route> = self.network.routes.iter().filter(is_moved).collect();
        routes.sort_by_key(|route| (route.hops.iter().any(|hop| hop.gateway.is_some()), route.is_default()));
        let moved = |hop: &Hop| {
            if hop.link == self.from { Hop { link: self.to.into(), ..hop.clone() } } else { hop.clone() }
        };
        let step = |route: &Route| {
            let to = Route { hops: route.hops.iter().map(moved).collect(), ..route.clone() };
            Step::ReplaceRoute { from: Box::new(route.clone()), to: Box::new(to) }
        };
        routes.into_iter().map(step).collect()
    }

    /// Whether the kernel made it with an address, and takes it with the address.
    fn is_of_kernel(&self, route: &Route) -> bool {
        let makes = |address: &Address| {
            !address.flags.contains(&Flag::NoPrefixRoute) && address.address.trunc() == route.destination
        };
        let is_plain = route.protocol == "kernel" && route.hops.iter().all(|hop| hop.gateway.is_none());
        is_plain && self.network.addresses_of(self.from).any(makes)
    }

    /// Rules that name the interface, each made for the other one before it is deleted.
    pub fn rules(&self) -> Vec<Step> {
        let name = Some(self.from);
        let moved =
            |link: &Option<String>| if link.as_deref() == name { Some(self.to.to_owned()) } else { link.clone() };
        let is_named = |rule: &&Rule| [&rule.incoming, &rule.outgoing].iter().any(|link| link.as_deref() == name);
        let steps = |rule: &Rule| {
            let copy = Rule { incoming: moved(&rule.incoming), outgoing: moved(&rule.outgoing), ..rule.clone() };
            [Step::AddRule(copy), Step::DeleteRule(rule.clone())]
        };
        self.network.rules.iter().filter(is_named).flat_map(steps).collect()
    }
}
