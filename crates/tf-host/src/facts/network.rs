//! The network of a node, and questions that several checks ask about it.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{
    addresses::Address,
    links::Link,
    neighbours::Neighbour,
    routes::{Hop, MAIN, Route},
    rules::Rule,
};

/// The interface that the vRouter takes the place of its physical interface with.
pub const VHOST0: &str = "vhost0";

/// The network of a node, each list in the kernel's order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Network {
    /// Interfaces.
    pub links: Vec<Link>,
    /// Addresses.
    pub addresses: Vec<Address>,
    /// Routes of all tables but `local`.
    pub routes: Vec<Route>,
    /// Rules that choose a table.
    pub rules: Vec<Rule>,
    /// Neighbours.
    pub neighbours: Vec<Neighbour>,
}

impl Network {
    /// An interface by its name.
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }

    /// Addresses of an interface.
    pub fn addresses_of<'a>(&'a self, link: &'a str) -> impl Iterator<Item = &'a Address> {
        self.addresses.iter().filter(move |address| address.link == link)
    }

    /// Ports or members of an interface.
    pub fn members_of<'a>(&'a self, master: &'a str) -> impl Iterator<Item = &'a Link> {
        self.links.iter().filter(move |link| link.master.as_deref() == Some(master))
    }

    /// Interfaces above an interface: its VLANs, macvlans, ... in this network namespace.
    pub fn children_of<'a>(&'a self, parent: &'a str) -> impl Iterator<Item = &'a Link> {
        self.links
            .iter()
            .filter(move |link| link.parent.as_deref() == Some(parent) && link.kind.as_deref() != Some("veth"))
    }

    /// Default routes of the main table for IPv4, the best first.
    pub fn default_routes(&self) -> Vec<&Route> {
        let is_ours = |route: &&Route| route.table == MAIN && route.is_default() && route.destination.addr().is_ipv4();
        let mut routes: Vec<&Route> = self.routes.iter().filter(is_ours).collect();
        routes.sort_by_key(|route| route.metric.unwrap_or(0));
        routes
    }

    /// The hops that packets to an address take by the main table: the longest prefix, then the smallest metric. None where
    /// rules other than the kernel's own may choose another table, or where no route leads there.
    pub fn hops_to(&self, address: IpAddr) -> Option<&[Hop]> {
        if self.rules.iter().any(|rule| rule.ipv6 == address.is_ipv6() && !rule.is_default()) {
            return None;
        }
        let leads_there = |route: &&Route| {
            route.table == MAIN && route.tos == 0 && route.from.is_none() && route.destination.contains(&address)
        };
        let routes = self.routes.iter().filter(leads_there);
        let best = routes.min_by_key(|route| (u8::MAX - route.destination.prefix_len(), route.metric.unwrap_or(0)))?;
        Some(&best.hops)
    }
}
