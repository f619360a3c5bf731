//! A node with addresses, routes and rules of all sorts, and what of them has to last.

use std::net::IpAddr;

use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressFlags},
    route::{
        RouteAddress, RouteAttribute, RouteMessage, RouteMetric, RouteNextHop, RouteProtocol, RouteScope, RouteType,
    },
    rule::{RuleAction, RuleAttribute, RuleMessage},
};
use tf_host::{
    HostFacts, Root,
    facts::{addresses::Address, network::Network, routes::Route, rules::Rule},
    observe,
};

use crate::{kernel::Kernel, router::Router};

pub fn add(kernel: &Kernel, message: RouteMessage) {
    let text = format!("{message:?}");
    kernel.request(RouteNetlinkMessage::NewRoute(message)).unwrap_or_else(|error| panic!("{error}: {text}"));
}

pub fn message(destination: &str, table: u32, attributes: Vec<RouteAttribute>) -> RouteMessage {
    let network: ipnet::IpNet = destination.parse().unwrap();
    let mut message = RouteMessage::default();
    let header = &mut message.header;
    header.address_family = if network.addr().is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    header.destination_prefix_length = network.prefix_len();
    header.protocol = RouteProtocol::Static;
    header.scope = RouteScope::Universe;
    header.kind = RouteType::Unicast;
    message.attributes = attributes;
    message.attributes.push(RouteAttribute::Table(table));
    if network.prefix_len() > 0 {
        message.attributes.push(RouteAttribute::Destination(network.addr().into()));
    }
    message
}

pub fn over(index: u32) -> RouteAttribute {
    RouteAttribute::Oif(index)
}

pub fn via(gateway: &str) -> RouteAttribute {
    RouteAttribute::Gateway(RouteAddress::from(gateway.parse::<IpAddr>().unwrap()))
}

pub fn next(index: u32, gateway: &str, weight: u8) -> RouteNextHop {
    let mut hop = RouteNextHop::default();
    hop.interface_index = index;
    hop.hops = weight - 1;
    hop.attributes = vec![via(gateway)];
    hop
}

/// With this machine's files, since kernel settings are among them.
pub fn facts() -> HostFacts {
    observe(&Root::default())
}

/// A node with addresses, routes and rules of all sorts.
pub fn node(kernel: &Kernel, router: &Router) {
    kernel.set("lo", vec![]);
    router.connect(kernel, "eth0");
    kernel.add_pair("eth1", "peer1");
    kernel.address("eth1", "10.1.0.7/24", vec![]);
    kernel.address("eth0", "10.0.0.7/24", vec![]);
    kernel.address("eth0", "10.0.0.8/24", vec![AddressAttribute::Label("eth0:1".into())]);
    let unrouted = || AddressAttribute::Flags(AddressFlags::Noprefixroute);
    kernel.address("eth0", "10.9.0.7/24", vec![unrouted()]);
    kernel.address("eth0", "2001:db8::7/64", vec![AddressAttribute::Flags(AddressFlags::Nodad)]);
    let [eth0, eth1] = ["eth0", "eth1"].map(|name| kernel.index(name));
    let source = RouteAttribute::PrefSource(RouteAddress::Inet([10, 0, 0, 7].into()));
    let metrics = RouteAttribute::Metrics(vec![RouteMetric::Mtu(1400)]);
    let priority = RouteAttribute::Priority(100);
    // As NetworkManager makes it for an address of its own.
    let mut own = message("10.9.0.0/24", 254, vec![over(eth0), priority.clone()]);
    own.header.protocol = RouteProtocol::Kernel;
    own.header.scope = RouteScope::Link;
    add(kernel, own);
    add(kernel, message("0.0.0.0/0", 254, vec![over(eth0), via("10.0.0.1"), priority, metrics, source]));
    add(kernel, message("203.0.113.0/24", 1000, vec![over(eth0), via("10.0.0.1")]));
    let hops = RouteAttribute::MultiPath(vec![next(eth0, "10.0.0.1", 1), next(eth1, "10.1.0.1", 2)]);
    add(kernel, message("192.0.2.0/24", 254, vec![hops]));
    add(kernel, message("::/0", 254, vec![over(eth0), via("2001:db8::1"), RouteAttribute::Priority(512)]));
    let mut rule = RuleMessage::default();
    rule.header.family = AddressFamily::Inet;
    rule.header.action = RuleAction::ToTable;
    rule.attributes =
        vec![RuleAttribute::Priority(1000), RuleAttribute::Iifname("eth0".into()), RuleAttribute::Table(1000)];
    kernel.request(RouteNetlinkMessage::NewRule(rule)).unwrap();
}

/// Adds an address and a route to `vhost0`, and a route as the agent makes it.
pub fn add_to_vhost0(kernel: &Kernel) {
    kernel.address("vhost0", "10.0.0.9/24", vec![AddressAttribute::Label("vhost0:9".into())]);
    let vhost0 = kernel.index("vhost0");
    add(kernel, message("192.0.2.128/25", 254, vec![over(vhost0), via("10.0.0.1")]));
    let mut of_agent = message("169.254.7.0/24", 254, vec![over(vhost0)]);
    of_agent.header.protocol = RouteProtocol::Other(109);
    add(kernel, of_agent);
}

/// The interface has what was added to `vhost0`, but not what the agent made.
pub fn has_what_was_added(network: &Network) {
    let added = network.addresses.iter().find(|address| address.address.to_string() == "10.0.0.9/24").unwrap();
    assert_eq!((added.link.as_str(), added.label.as_deref()), ("eth0", Some("eth0:9")));
    let route = |to: &str| network.routes.iter().find(|route| route.destination.to_string() == to);
    assert_eq!(route("192.0.2.128/25").unwrap().hops[0].link, "eth0");
    assert_eq!(route("169.254.7.0/24"), None);
}

/// What has to be the same before and after, with another name for the interface, if one is given.
pub fn lasting(network: &Network, renamed: Option<(&str, &str)>) -> (Vec<Address>, Vec<Route>, Vec<Rule>) {
    let text = serde_json::to_string(network).unwrap();
    let text = match renamed {
        Some((from, to)) => text.replace(from, to),
        None => text,
    };
    let network: Network = serde_json::from_str(&text).unwrap();
    let is_of_link = |text: String| text.starts_with("fe80") || text.starts_with("ff");
    let mut addresses = network.addresses;
    addresses.retain(Address::is_global);
    let mut routes = network.routes;
    routes.retain(|route| !is_of_link(route.destination.to_string()));
    routes.sort_by_key(|route| serde_json::to_string(route).unwrap());
    addresses.sort_by_key(|address| address.link.clone());
    (addresses, routes, network.rules)
}
