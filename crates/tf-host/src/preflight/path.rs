//! Paths to the gateway and to control nodes.

use std::{collections::BTreeSet, net::IpAddr};

use super::{Finding, Id};
use crate::{
    HostFacts, Wanted,
    facts::{
        addresses::Address,
        links::Link,
        network::{Network, VHOST0},
        routes::Route,
        rules::Rule,
    },
};

pub fn check(facts: &HostFacts, wanted: &Wanted, uplinks: &[&Link]) -> Vec<Finding> {
    let names: Vec<&str> = uplinks.iter().map(|link| link.name.as_str()).chain([VHOST0]).collect();
    let mut findings = Vec::new();
    findings.extend(gateway(&facts.network, wanted, &names));
    findings.extend(unreachable(&facts.network, wanted, &names));
    if !wanted.multihomed {
        findings.extend(uplinks.iter().filter_map(|link| immovable(&facts.network, link, VHOST0)));
        findings.extend(apart(&facts.network, wanted, &names));
        findings.extend(only_way(&facts.network, uplinks, &names));
    }
    findings.extend(strict(facts));
    findings
}

/// The first route or rule of an interface that has something which facts do not have, so that it would be lost.
pub(crate) fn immovable(network: &Network, link: &Link, to: &str) -> Option<Finding> {
    let name = Some(link.name.as_str());
    let is_lost = |route: &&Route| route.is_over(&link.name) && (route.incomplete || route.next_hop_object.is_some());
    let route = network.routes.iter().find(is_lost).map(|route| match route.next_hop_object {
        Some(object) => {
            format!("the route to {} in table {} uses the next-hop object {object}", route.destination, route.table)
        }
        None => format!(
            "the route to {} in table {} has an encapsulation, a realm or a congestion algorithm",
            route.destination, route.table
        ),
    });
    let is_of_link = |rule: &Rule| rule.incoming.as_deref() == name || rule.outgoing.as_deref() == name;
    let rule = || {
        let rule = network.rules.iter().find(|rule| rule.incomplete && is_of_link(rule))?;
        Some(format!("the rule with the priority {} has conditions on ports, users or the like", rule.priority))
    };
    let cause = format!("{}, which cannot be moved from {} to {to}", route.or_else(rule)?, link.name);
    Some(Finding::new(Id::RouteNotMovable, cause, "replace it by one without, or name another physicalInterface"))
}

/// Gateways of default routes for IPv4 over these interfaces.
fn default_gateways<'a>(network: &'a Network, names: &'a [&str]) -> impl Iterator<Item = IpAddr> + 'a {
    let hops = network.default_routes().into_iter().flat_map(|route| &route.hops);
    hops.filter(|hop| names.contains(&hop.link.as_str())).filter_map(|hop| hop.gateway)
}

fn gateway(network: &Network, wanted: &Wanted, names: &[&str]) -> Option<Finding> {
    let uplink = names.first()?;
    let Some(gateway) = wanted.gateway else {
        let over: Vec<String> =
            network.default_routes().iter().flat_map(|route| &route.hops).map(|hop| hop.link.clone()).collect();
        if over.iter().any(|link| names.contains(&link.as_str())) {
            return None;
        }
        let cause = match over.first() {
            Some(link) => format!("the default route is over {link} and not over {uplink}"),
            None => "the node has no default route for IPv4".into(),
        };
        let action = "set vrouterGateway if control nodes or other vRouters are behind a router";
        return Some(Finding::new(Id::GatewayNotOnUplink, cause, action));
    };
    let mut own = names.iter().flat_map(|name| network.addresses_of(name));
    let is_known = own.any(|address| address.address.contains(&gateway))
        || network
            .routes
            .iter()
            .flat_map(|route| &route.hops)
            .any(|hop| hop.gateway == Some(gateway) && names.contains(&hop.link.as_str()));
    let cause = format!("the gateway {gateway} is in no network of {uplink}");
    let finding =
        || Finding::new(Id::GatewayOutsideNetworks, cause, "correct vrouterGateway, or name another physicalInterface");
    (!is_known).then(finding)
}

fn unreachable(network: &Network, wanted: &Wanted, names: &[&str]) -> Option<Finding> {
    let gateways: Vec<IpAddr> = wanted.gateway.into_iter().chain(default_gateways(network, names)).collect();
    let failed = network.neighbours.iter().find(|neighbour| {
        neighbour.has_failed() && names.contains(&neighbour.link.as_str()) && gateways.contains(&neighbour.address)
    })?;
    let cause = format!("the gateway {} does not answer on {}", failed.address, failed.link);
    Some(Finding::new(Id::GatewayUnreachable, cause, "look at the router, the VLAN and the cable"))
}

fn apart(network: &Network, wanted: &Wanted, names: &[&str]) -> Option<Finding> {
    let mut ways: BTreeSet<&str> = BTreeSet::new();
    for node in &wanted.control_nodes {
        // `vhost0` is the same way as the interface below it.
        let links = network.hops_to(*node).into_iter().flatten().map(|hop| hop.link.as_str());
        ways.extend(links.map(|link| if names.contains(&link) { names[0] } else { link }));
    }
    let cause = format!(
        "control nodes are reached over different interfaces: {}",
        ways.iter().copied().collect::<Vec<_>>().join(", ")
    );
    let action = "route all of them over one interface, or set l3mhCidr";
    (ways.len() > 1).then(|| Finding::new(Id::ControlNodesApart, cause, action))
}

/// Whether the node would be cut off if the interface were lost. Not once the addresses are on `vhost0`.
fn only_way(network: &Network, uplinks: &[&Link], names: &[&str]) -> Option<Finding> {
    let link = uplinks.first()?;
    let has_address = |name: &str| network.addresses_of(name).any(Address::is_global);
    let is_other_way = |other: &&Link| {
        !other.loopback
            && !names.contains(&other.name.as_str())
            && other.up
            && matches!(other.kind.as_deref(), None | Some("bond" | "vlan"))
            && has_address(&other.name)
    };
    if has_address(VHOST0) || !has_address(&link.name) || network.links.iter().any(|other| is_other_way(&other)) {
        return None;
    }
    let cause = format!("all traffic of the node, to the API server as well, is over {}", link.name);
    let action = "try it on one node first and keep a console to it; a network of its own for the overlay is safest";
    Some(Finding::new(Id::UplinkCarriesAll, cause, action))
}

/// The kernel takes the larger one of `all` and the interface: 1 drops what arrives where routes do not lead.
fn strict(facts: &HostFacts) -> Option<Finding> {
    facts.network.link(VHOST0)?;
    let value = |link: &str| facts.sysctls.of(link, "ipv4.rp_filter");
    let counts = value("all").max(value(VHOST0))?;
    let cause = "net.ipv4.conf.vhost0.rp_filter is 1 (the larger one of all and vhost0 counts), so the kernel drops packets that come back another way";
    (counts == 1).then(|| Finding::new(Id::RpFilterStrict, cause, "set net.ipv4.conf.vhost0.rp_filter to 2"))
}
