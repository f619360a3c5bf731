//! Which interface the vRouter takes. Pure.
//!
//! The first of these: the stated one; the one below an existing `vhost0`; the one towards the stated gateway; the one towards the
//! first control node; the one with an address in the stated network; that of the default route. Upstream's scripts choose in
//! the same order, and look at the routing table where this looks at facts.

use serde::{Deserialize, Serialize};

use crate::{
    HostFacts, Mode, Wanted,
    facts::{
        links::Link,
        network::{Network, VHOST0},
        routes::Hop,
    },
    preflight::{Finding, Id},
};

/// The interface that the vRouter takes, and how it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uplink<'a> {
    /// The interface.
    pub link: &'a Link,
    /// What it follows from.
    pub source: Source,
}

/// What the choice of an interface follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// It was named.
    #[strum(serialize = "named")]
    Named,
    /// The journal of this boot has it, or it has the MAC address of `vhost0`.
    #[strum(serialize = "below vhost0")]
    BelowVhost0,
    /// It leads to the gateway that was named.
    #[strum(serialize = "towards the gateway")]
    Gateway,
    /// It leads to the first control node.
    #[strum(serialize = "towards the first control node")]
    ControlNode,
    /// It has an address in the network that was named.
    #[strum(serialize = "has an address in the data subnet")]
    DataSubnet,
    /// The best default route for IPv4 leads over it.
    #[strum(serialize = "of the default route")]
    DefaultRoute,
}

/// The interfaces that the vRouter takes: several only if it is multihomed; none if the forwarder of DPDK has taken them, since
/// the kernel does not see them any more.
///
/// # Errors
/// Why there is none.
pub fn choose<'a>(facts: &'a HostFacts, wanted: &Wanted) -> Result<Vec<Uplink<'a>>, Finding> {
    let network = &facts.network;
    let vhost0 = network.link(VHOST0);
    if wanted.mode == Mode::Dpdk && vhost0.and_then(|link| link.kind.as_deref()) == Some("tun") {
        return Ok(Vec::new());
    }
    if !wanted.physical_interfaces.is_empty() {
        let named = wanted.physical_interfaces.iter().map(|name| {
            let link = network.link(name).ok_or_else(|| absent(network, name))?;
            Ok(Uplink { link, source: Source::Named })
        });
        return named.collect();
    }
    if wanted.multihomed {
        let cause = "several uplinks cannot be found by themselves";
        return Err(Finding::new(Id::UplinkNotFound, cause, "set physicalInterface to all of them"));
    }
    if let Some(vhost0) = vhost0 {
        let noted = wanted.below_vhost0.as_deref().and_then(|name| network.link(name));
        let link = match noted.filter(|link| link.mac == vhost0.mac) {
            Some(link) => link,
            None => below(network, vhost0)?,
        };
        return Ok(vec![Uplink { link, source: Source::BelowVhost0 }]);
    }
    let towards = |address| network.hops_to(address).map(|hops| usable(network, hops));
    let candidates = [
        (Source::Gateway, wanted.gateway.and_then(towards)),
        (Source::ControlNode, wanted.control_nodes.first().copied().and_then(towards)),
        (Source::DataSubnet, wanted.data_subnet.map(|subnet| within(network, subnet))),
        (Source::DefaultRoute, network.default_routes().first().map(|route| usable(network, &route.hops))),
    ];
    for (source, links) in candidates {
        match links.as_deref() {
            Some([link]) => return Ok(vec![Uplink { link, source }]),
            Some([]) | None => {}
            Some(several) => return Err(ambiguous(network, several, source)),
        }
    }
    let cause =
        format!("no default route for IPv4 says which interface the vRouter takes; the node has {}", all(network));
    Err(Finding::new(Id::UplinkNotFound, cause, "set physicalInterface or dataSubnet"))
}

/// Different interfaces of hops, without the loopback interface.
fn usable<'a>(network: &'a Network, hops: &[Hop]) -> Vec<&'a Link> {
    let is_hop = |link: &&Link| !link.loopback && hops.iter().any(|hop| hop.link == link.name);
    network.links.iter().filter(is_hop).collect()
}

fn within(network: &Network, subnet: ipnet::IpNet) -> Vec<&Link> {
    let has_one = |link: &&Link| {
        !link.loopback && network.addresses_of(&link.name).any(|address| subnet.contains(&address.address.addr()))
    };
    network.links.iter().filter(has_one).collect()
}

/// The interface with the MAC address of `vhost0`: a VLAN before a bond before any other, as upstream's scripts prefer. Members
/// of a bond have its MAC address and do not count.
fn below<'a>(network: &'a Network, vhost0: &Link) -> Result<&'a Link, Finding> {
    let is_below = |link: &&Link| {
        link.name != VHOST0 && !link.loopback && link.master.is_none() && link.mac.is_some() && link.mac == vhost0.mac
    };
    let found: Vec<&Link> = network.links.iter().filter(is_below).collect();
    for kind in ["vlan", "bond"] {
        let of_kind: Vec<&Link> = found.iter().filter(|link| link.kind.as_deref() == Some(kind)).copied().collect();
        match of_kind[..] {
            [] => {}
            [link] => return Ok(link),
            // The one below them would be the wrong one as well: addresses would go to another network.
            _ => return Err(ambiguous(network, &of_kind, Source::BelowVhost0)),
        }
    }
    match found[..] {
        [link] => Ok(link),
        [] => {
            let cause = format!("no interface has the MAC address of vhost0; the node has {}", all(network));
            Err(Finding::new(Id::UplinkNotFound, cause, "set physicalInterface to the one below vhost0"))
        }
        _ => Err(ambiguous(network, &found, Source::BelowVhost0)),
    }
}

fn absent(network: &Network, name: &str) -> Finding {
    let cause = format!("the node has no interface {name}; it has {}", all(network));
    Finding::new(Id::UplinkNotFound, cause, "set physicalInterface to one of these")
}

fn ambiguous(network: &Network, links: &[&Link], source: Source) -> Finding {
    let names: Vec<String> = links.iter().map(|link| described(network, link)).collect();
    let cause = match source {
        Source::BelowVhost0 => format!("{} have the MAC address of vhost0", names.join(", ")),
        Source::DataSubnet => format!("{} have addresses in the data subnet", names.join(", ")),
        Source::Gateway => format!("the route to the gateway leads over {}", names.join(", ")),
        Source::ControlNode => format!("the route to the first control node leads over {}", names.join(", ")),
        Source::DefaultRoute | Source::Named => format!("the default route leads over {}", names.join(", ")),
    };
    Finding::new(Id::UplinkAmbiguous, cause, "set physicalInterface to one of them")
}

/// Interfaces that may be meant: those of hardware, bonds and VLANs.
fn all(network: &Network) -> String {
    let is_meant = |link: &&Link| {
        !link.loopback && link.master.is_none() && matches!(link.kind.as_deref(), None | Some("bond" | "vlan"))
    };
    let names: Vec<String> = network.links.iter().filter(is_meant).map(|link| described(network, link)).collect();
    if names.is_empty() { "no suitable one".into() } else { names.join(", ") }
}

fn described(network: &Network, link: &Link) -> String {
    let addresses: Vec<String> = network
        .addresses_of(&link.name)
        .filter(|address| address.is_global())
        .map(|address| address.address.to_string())
        .collect();
    if addresses.is_empty() { link.name.clone() } else { format!("{} ({})", link.name, addresses.join(" ")) }
}
