//! A real kernel: what was set is read back, and what stands in the way is found.

use std::net::Ipv4Addr;

use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressFlags, AddressProtocol, CacheInfo},
    link::{InfoData, InfoKind, InfoMacVlan, LinkAttribute, LinkFlags, LinkMessage, MacVlanMode},
    neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState},
    route::{RouteAddress, RouteAttribute, RouteFlags, RouteMetric, RouteProtocol, RouteType},
    rule::{RuleAction, RuleAttribute, RuleMessage},
    tc::{TcAttribute, TcHandle, TcMessage},
};
use tf_host::{
    HostFacts, Wanted,
    facts::{
        addresses::{Address, Flag},
        neighbours::Neighbour,
        routes::{Hop, Route},
        rules::Rule,
    },
    preflight,
    preflight::{Finding, Id},
};

use crate::{
    fixture::{hop, route},
    kernel::in_namespace,
    node::{add, message, next, over, via},
};

fn finding(facts: &HostFacts, id: Id) -> Finding {
    let wanted = Wanted { physical_interfaces: vec!["eth0".into()], ..Wanted::default() };
    let findings = preflight(facts, &wanted);
    findings.iter().find(|finding| finding.id == id).unwrap_or_else(|| panic!("{id} is not in {findings:#?}")).clone()
}

fn ids(facts: &HostFacts) -> Vec<Id> {
    let wanted = Wanted { physical_interfaces: vec!["eth0".into()], ..Wanted::default() };
    preflight(facts, &wanted).iter().map(|finding| finding.id).collect()
}

#[test]
fn a_port_of_a_bridge_blocks_until_it_is_taken_out() {
    in_namespace(|kernel| {
        kernel.add_pair("eth0", "peer0");
        kernel.add("br0", InfoKind::Bridge, None, vec![]);
        kernel.set("eth0", vec![LinkAttribute::Controller(kernel.index("br0"))]);
        let found = finding(&kernel.observe(), Id::UplinkIsPort);
        assert_eq!(
            found.to_string(),
            "eth0 is a port of bridge br0, so the vRouter cannot attach to it; \
             name another physicalInterface or take eth0 out of br0"
        );
        assert!(found.blocks());
        kernel.set("eth0", vec![LinkAttribute::Controller(0)]);
        let facts = kernel.observe();
        assert!(!ids(&facts).contains(&Id::UplinkIsPort));
        let (bridge, port) = (facts.network.link("br0").unwrap(), facts.network.link("eth0").unwrap());
        assert_eq!((bridge.kind.as_deref(), port.kind.as_deref()), (Some("bridge"), Some("veth")));
        assert_eq!((port.parent.as_deref(), port.up, port.carrier, port.mtu), (Some("peer0"), true, true, 1500));
    });
}

#[test]
fn a_macvlan_above_it_blocks() {
    in_namespace(|kernel| {
        kernel.add_pair("eth0", "peer0");
        assert!(!ids(&kernel.observe()).contains(&Id::UplinkHasChildren));
        let data = InfoData::MacVlan(vec![InfoMacVlan::Mode(MacVlanMode::Bridge)]);
        kernel.add("pod0", InfoKind::MacVlan, Some(data), vec![LinkAttribute::Link(kernel.index("eth0"))]);
        assert_eq!(
            finding(&kernel.observe(), Id::UplinkHasChildren).to_string(),
            "pod0 (macvlan) above eth0 takes what eth0 receives, so the vRouter cannot attach to it; \
             remove it, or name another physicalInterface than eth0"
        );
    });
}

#[test]
fn filters_for_what_arrives_are_seen() {
    in_namespace(|kernel| {
        kernel.add_pair("eth0", "peer0");
        let mut qdisc = TcMessage::default();
        qdisc.header.index = kernel.index("eth0").cast_signed();
        qdisc.header.handle = TcHandle { major: 0xffff, minor: 0 };
        qdisc.header.parent = TcHandle { major: 0xffff, minor: 0xfff1 };
        qdisc.attributes = vec![TcAttribute::Kind("clsact".into())];
        kernel.request(RouteNetlinkMessage::NewQueueDiscipline(qdisc)).unwrap();
        let facts = kernel.observe();
        assert_eq!(facts.network.link("eth0").unwrap().ingress.as_deref(), Some("clsact"));
        assert_eq!(facts.network.link("peer0").unwrap().ingress, None);
        assert!(ids(&facts).contains(&Id::UplinkHasFilters));
    });
}

fn lifetimes(valid: u32, preferred: u32) -> AddressAttribute {
    let mut info = CacheInfo::default();
    info.ifa_valid = valid;
    info.ifa_preferred = preferred;
    AddressAttribute::CacheInfo(info)
}

#[test]
fn addresses_are_read_as_they_were_set() {
    in_namespace(|kernel| {
        kernel.add_pair("eth0", "peer0");
        let broadcast = AddressAttribute::Broadcast(Ipv4Addr::new(10, 0, 0, 255));
        kernel.address("eth0", "10.0.0.7/24", vec![broadcast, AddressAttribute::RoutePriority(100)]);
        kernel.address("eth0", "10.0.0.8/24", vec![AddressAttribute::Label("eth0:1".into()), lifetimes(3600, 1800)]);
        let flags = AddressAttribute::Flags(AddressFlags::Noprefixroute);
        kernel.address("eth0", "192.0.2.7/32", vec![flags, AddressAttribute::Protocol(AddressProtocol::Other(42))]);
        let flags = AddressAttribute::Flags(AddressFlags::Nodad | AddressFlags::Noprefixroute);
        kernel.address("eth0", "2001:db8::7/64", vec![flags, lifetimes(7200, 0)]);

        let plain =
            |address: &str| Address { flags: [Flag::Permanent].into(), ..crate::fixture::address("eth0", address) };
        let expected = [
            Address { broadcast: Some([10, 0, 0, 255].into()), metric: Some(100), ..plain("10.0.0.7/24") },
            Address {
                label: Some("eth0:1".into()),
                flags: [Flag::Secondary].into(),
                valid: Some(3600),
                preferred: Some(1800),
                ..plain("10.0.0.8/24")
            },
            Address {
                flags: [Flag::Permanent, Flag::NoPrefixRoute].into(),
                protocol: Some(42),
                ..plain("192.0.2.7/32")
            },
            Address {
                flags: [Flag::NoDad, Flag::Deprecated, Flag::NoPrefixRoute].into(),
                valid: Some(7200),
                preferred: Some(0),
                ..plain("2001:db8::7/64")
            },
        ];
        let facts = kernel.observe();
        let mut found: Vec<Address> =
            facts.network.addresses_of("eth0").filter(|address| address.is_global()).cloned().collect();
        // A second may have passed since.
        for (found, expected) in found.iter_mut().zip(&expected) {
            for (left, set) in [(&mut found.valid, expected.valid), (&mut found.preferred, expected.preferred)] {
                if left.zip(set).is_some_and(|(left, set)| left < set && left + 2 >= set) {
                    *left = set;
                }
            }
        }
        found.sort_by_key(|address| address.address);
        assert_eq!(found, expected);
        let leased = HostFacts {
            network: tf_host::facts::network::Network { addresses: vec![found[1].clone()], ..facts.network.clone() },
            ..facts
        };
        let text = finding(&leased, Id::UplinkAddressLeased).to_string();
        assert!(text.starts_with("10.0.0.8/24 of eth0 is leased, and nothing would renew the lease"), "{text}");
    });
}

#[test]
fn routes_of_all_tables_are_read_as_they_were_set() {
    in_namespace(|kernel| {
        for (name, peer, address) in [("eth0", "peer0", "10.0.0.7/24"), ("eth1", "peer1", "10.1.0.7/24")] {
            kernel.add_pair(name, peer);
            kernel.address(name, address, vec![]);
        }
        kernel.address("eth0", "2001:db8::7/64", vec![AddressAttribute::Flags(AddressFlags::Nodad)]);
        let [eth0, eth1] = ["eth0", "eth1"].map(|name| kernel.index(name));
        let metrics = RouteAttribute::Metrics(vec![RouteMetric::Mtu(1400), RouteMetric::InitCwnd(20)]);
        let source = RouteAttribute::PrefSource(RouteAddress::Inet([10, 0, 0, 7].into()));
        let priority = RouteAttribute::Priority(100);
        add(kernel, message("0.0.0.0/0", 254, vec![over(eth0), via("10.0.0.1"), priority, metrics, source]));
        let hops = RouteAttribute::MultiPath(vec![next(eth0, "10.0.0.1", 1), next(eth1, "10.1.0.1", 3)]);
        add(kernel, message("198.51.100.0/24", 254, vec![hops]));
        let mut onlink = message("203.0.113.0/24", 1000, vec![over(eth0), via("10.9.0.1")]);
        onlink.header.flags = RouteFlags::Onlink;
        onlink.header.protocol = RouteProtocol::Dhcp;
        add(kernel, onlink);
        let mut blackhole = message("192.0.2.0/24", 1000, vec![]);
        blackhole.header.kind = RouteType::BlackHole;
        add(kernel, blackhole);
        let expires = RouteAttribute::Expires(1800);
        let mut advertised =
            message("::/0", 254, vec![over(eth0), via("2001:db8::1"), expires, RouteAttribute::Priority(512)]);
        advertised.header.protocol = RouteProtocol::Ra;
        add(kernel, advertised);

        let facts = kernel.observe();
        let mut found: Vec<Route> = facts.network.routes.clone();
        let multicast: ipnet::IpNet = "ff00::/8".parse().unwrap();
        found.retain(|route| route.destination != multicast && !route.destination.to_string().starts_with("fe80"));
        found.sort_by_key(|route| (route.table, route.destination));
        for route in &mut found {
            // A second may have passed since.
            route.expires = route.expires.map(|left| if (1797..=1800).contains(&left) { 1800 } else { left });
        }
        let expected = [
            Route {
                metric: Some(100),
                source: Some([10, 0, 0, 7].into()),
                metrics: [("mtu".to_owned(), 1400), ("initcwnd".to_owned(), 20)].into(),
                ..route("0.0.0.0/0", vec![hop("eth0", Some("10.0.0.1"))], "static")
            },
            Route { source: Some([10, 0, 0, 7].into()), ..route("10.0.0.0/24", vec![hop("eth0", None)], "kernel") },
            Route { source: Some([10, 1, 0, 7].into()), ..route("10.1.0.0/24", vec![hop("eth1", None)], "kernel") },
            route(
                "198.51.100.0/24",
                vec![hop("eth0", Some("10.0.0.1")), Hop { weight: 3, ..hop("eth1", Some("10.1.0.1")) }],
                "static",
            ),
            Route {
                metric: Some(512),
                expires: Some(1800),
                preference: Some("medium".into()),
                ..route("::/0", vec![hop("eth0", Some("2001:db8::1"))], "ra")
            },
            Route {
                metric: Some(256),
                preference: Some("medium".into()),
                scope: "global".into(),
                ..route("2001:db8::/64", vec![hop("eth0", None)], "kernel")
            },
            Route {
                table: 1000,
                kind: "blackhole".into(),
                scope: "global".into(),
                ..route("192.0.2.0/24", vec![], "static")
            },
            Route {
                table: 1000,
                ..route("203.0.113.0/24", vec![Hop { onlink: true, ..hop("eth0", Some("10.9.0.1")) }], "dhcp")
            },
        ];
        assert_eq!(found, expected);
        let towards = |address: [u8; 4]| facts.network.hops_to(address.into()).unwrap()[0].link.clone();
        assert_eq!([towards([10, 1, 0, 9]), towards([8, 8, 8, 8])], ["eth1", "eth0"]);
    });
}

#[test]
fn rules_and_neighbours_are_read_as_they_were_set() {
    in_namespace(|kernel| {
        kernel.add_pair("eth0", "peer0");
        kernel.address("eth0", "10.0.0.7/24", vec![]);
        let mut rule = RuleMessage::default();
        rule.header.family = AddressFamily::Inet;
        rule.header.action = RuleAction::ToTable;
        rule.header.src_len = 32;
        rule.attributes = vec![
            RuleAttribute::Priority(1000),
            RuleAttribute::Source([10, 0, 0, 7].into()),
            RuleAttribute::Iifname("eth0".into()),
            RuleAttribute::FwMark(1),
            RuleAttribute::FwMask(0xff),
            RuleAttribute::Table(1000),
        ];
        kernel.request(RouteNetlinkMessage::NewRule(rule)).unwrap();
        let mut neighbour = NeighbourMessage::default();
        neighbour.header.family = AddressFamily::Inet;
        neighbour.header.ifindex = kernel.index("eth0");
        neighbour.header.state = NeighbourState::Permanent;
        neighbour.attributes = vec![
            NeighbourAttribute::Destination(NeighbourAddress::Inet([10, 0, 0, 1].into())),
            NeighbourAttribute::LinkLayerAddress(vec![0x52, 0x54, 0, 0, 0, 9]),
        ];
        kernel.request(RouteNetlinkMessage::NewNeighbour(neighbour)).unwrap();

        let facts = kernel.observe();
        let rules: Vec<&Rule> = facts.network.rules.iter().filter(|rule| !rule.is_default()).collect();
        let expected = Rule {
            ipv6: false,
            priority: 1000,
            from: Some("10.0.0.7/32".parse().unwrap()),
            to: None,
            incoming: Some("eth0".into()),
            outgoing: None,
            mark: Some((1, 0xff)),
            tos: 0,
            action: "lookup".into(),
            table: Some(1000),
            inverted: false,
            vrf: false,
            protocol: Some("unspec".into()),
            incomplete: false,
        };
        assert_eq!(rules, [&expected]);
        assert!(facts.network.rules.len() > 1, "the kernel's own rules are there, too");
        let known: Vec<&Neighbour> = facts.network.neighbours.iter().filter(|found| found.address.is_ipv4()).collect();
        let router = Neighbour {
            link: "eth0".into(),
            address: [10, 0, 0, 1].into(),
            mac: Some("52:54:00:00:00:09".into()),
            state: "permanent".into(),
            router: false,
        };
        assert_eq!(known, [&router]);
    });
}

#[test]
fn an_interface_whose_peer_is_down_has_no_carrier() {
    in_namespace(|kernel| {
        kernel.add_pair("eth0", "peer0");
        let mut peer = LinkMessage::default();
        peer.header.index = kernel.index("peer0");
        peer.header.change_mask = LinkFlags::Up;
        kernel.request(RouteNetlinkMessage::SetLink(peer)).unwrap();
        let facts = kernel.observe();
        let link = facts.network.link("eth0").unwrap();
        assert_eq!((link.up, link.carrier), (true, false));
        let found = ids(&facts);
        assert!(found.contains(&Id::UplinkNoCarrier) && !found.contains(&Id::UplinkDown), "{found:?}");
    });
}
