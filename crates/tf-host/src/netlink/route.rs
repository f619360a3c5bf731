//! Answers about routes.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;
use netlink_packet_core::{DefaultNla, Nla as _};
use netlink_packet_route::{
    AddressFamily,
    route::{
        RouteAddress, RouteAttribute, RouteFlags, RouteLwEnCapType, RouteMessage, RouteMetric, RouteNextHop,
        RouteNextHopFlags, RoutePreference, RouteType, RouteVia,
    },
};

use super::{
    Names,
    names::{PROTOCOLS, SCOPES, named, number},
};
use crate::facts::routes::{Hop, Route};

/// Addresses of the host itself, which the kernel keeps.
const LOCAL: u32 = 255;
/// The kernel reports times of routes in hundredths of a second (`USER_HZ`).
const TICKS: u32 = 100;

/// None for the table `local`, for cached routes, and for families other than IP.
pub fn fact(message: &RouteMessage, names: &Names) -> Option<Route> {
    let header = &message.header;
    let any: IpAddr = match header.address_family {
        AddressFamily::Inet => [0, 0, 0, 0].into(),
        AddressFamily::Inet6 => [0_u16; 8].into(),
        _ => return None,
    };
    let is_kept =
        |kind| matches!(kind, RouteType::Local | RouteType::Broadcast | RouteType::Anycast | RouteType::Multicast);
    if header.flags.contains(RouteFlags::Cloned) || is_kept(header.kind) {
        return None;
    }
    let network = |address: Option<IpAddr>, length| IpNet::new(address.unwrap_or(any), length).ok();
    let attributes = &message.attributes;
    let table = find(attributes, |attribute| match attribute {
        RouteAttribute::Table(table) => Some(*table),
        _ => None,
    });
    let table = table.unwrap_or_else(|| u32::from(header.table));
    if table == LOCAL {
        return None;
    }
    let mut route = Route {
        table,
        destination: network(
            find(attributes, |attribute| match attribute {
                RouteAttribute::Destination(address) => ip(address),
                _ => None,
            }),
            header.destination_prefix_length,
        )?,
        from: None,
        kind: named(header.kind.into(), KINDS),
        protocol: named(header.protocol.into(), PROTOCOLS),
        scope: named(header.scope.into(), SCOPES),
        tos: header.tos,
        metric: None,
        source: None,
        hops: Vec::new(),
        metrics: BTreeMap::new(),
        expires: None,
        preference: None,
        incomplete: is_incomplete(attributes),
        next_hop_object: None,
    };
    let mut hops = Vec::new();
    for attribute in attributes {
        match attribute {
            RouteAttribute::Source(address) => route.from = network(ip(address), header.source_prefix_length),
            RouteAttribute::Priority(metric) => route.metric = Some(*metric),
            RouteAttribute::PrefSource(address) => route.source = ip(address),
            RouteAttribute::Metrics(metrics) => route.metrics = metrics.iter().filter_map(metric).collect(),
            RouteAttribute::CacheInfo(info) => {
                // A signed number: negative where it has ended and is not removed yet.
                let left = info.expires.cast_signed();
                route.expires = (left > 0).then_some(info.expires / TICKS);
            }
            RouteAttribute::Preference(preference) => route.preference = rank(*preference),
            RouteAttribute::NhId(id) => route.next_hop_object = Some(*id),
            RouteAttribute::MultiPath(found) => hops.extend(found.iter()),
            _ => {}
        }
    }
    route.incomplete |= hops.iter().any(|hop| is_incomplete(&hop.attributes));
    route.hops = if hops.is_empty() {
        single(attributes, header.flags.contains(RouteFlags::Onlink), names).into_iter().collect()
    } else {
        hops.into_iter().map(|hop| one_of_several(hop, names)).collect()
    };
    Some(route)
}

fn find<T>(attributes: &[RouteAttribute], pick: impl Fn(&RouteAttribute) -> Option<T>) -> Option<T> {
    attributes.iter().find_map(pick)
}

fn gateway(attributes: &[RouteAttribute]) -> Option<IpAddr> {
    find(attributes, |attribute| match attribute {
        RouteAttribute::Gateway(address) => ip(address),
        // IPv4 over a router with an IPv6 address.
        RouteAttribute::Via(RouteVia::Inet(address)) => Some((*address).into()),
        RouteAttribute::Via(RouteVia::Inet6(address)) => Some((*address).into()),
        _ => None,
    })
}

fn single(attributes: &[RouteAttribute], onlink: bool, names: &Names) -> Option<Hop> {
    let index = find(attributes, |attribute| match attribute {
        RouteAttribute::Oif(index) => Some(*index),
        _ => None,
    })?;
    Some(Hop { link: names.of(index), gateway: gateway(attributes), weight: 1, onlink })
}

fn one_of_several(hop: &RouteNextHop, names: &Names) -> Hop {
    Hop {
        link: names.of(hop.interface_index),
        gateway: gateway(&hop.attributes),
        weight: u16::from(hop.hops) + 1,
        onlink: hop.flags.contains(RouteNextHopFlags::Onlink),
    }
}

/// Whether there is something that facts do not have: another header, a realm, a congestion algorithm.
fn is_incomplete(attributes: &[RouteAttribute]) -> bool {
    attributes.iter().any(|attribute| match attribute {
        RouteAttribute::EncapType(kind) => *kind != RouteLwEnCapType::None,
        RouteAttribute::Metrics(metrics) => metrics.iter().any(|found| metric(found).is_none()),
        RouteAttribute::Realm(_) | RouteAttribute::NewDestination(_) | RouteAttribute::TtlPropagate(_) => true,
        _ => false,
    })
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

fn rank(preference: RoutePreference) -> Option<String> {
    let name = match preference {
        RoutePreference::Low => "low",
        RoutePreference::Medium => "medium",
        RoutePreference::High => "high",
        _ => return None,
    };
    Some(name.to_owned())
}

/// Kinds of routes.
const KINDS: &[(u8, &str)] =
    &[(1, "unicast"), (6, "blackhole"), (7, "unreachable"), (8, "prohibit"), (9, "throw"), (10, "nat")];

/// Numbers of `RTA_METRICS` by their names in `ip route`.
const METRICS: &[(u16, &str)] = &[
    (1, "lock"),
    (2, "mtu"),
    (3, "window"),
    (4, "rtt"),
    (5, "rttvar"),
    (6, "ssthresh"),
    (7, "cwnd"),
    (8, "advmss"),
    (9, "reordering"),
    (10, "hoplimit"),
    (11, "initcwnd"),
    (12, "features"),
    (13, "rto_min"),
    (14, "initrwnd"),
    (15, "quickack"),
    (17, "fastopen_no_cookie"),
];

/// A metric with its name. None for the name of a congestion algorithm, which is no number.
fn metric(metric: &RouteMetric) -> Option<(String, u32)> {
    let mut value = [0; 4];
    if metric.value_len() != value.len() || matches!(metric, RouteMetric::CcAlgo(_)) {
        return None;
    }
    metric.emit_value(&mut value);
    Some((named(metric.kind(), METRICS), u32::from_ne_bytes(value)))
}

/// What sets a route. None if an interface of it is not there.
pub fn message(route: &Route, index: &dyn Fn(&str) -> Option<u32>) -> Option<RouteMessage> {
    let mut message = RouteMessage::default();
    let header = &mut message.header;
    let is_ipv4 = route.destination.addr().is_ipv4();
    header.address_family = if is_ipv4 { AddressFamily::Inet } else { AddressFamily::Inet6 };
    header.destination_prefix_length = route.destination.prefix_len();
    header.tos = route.tos;
    header.protocol = number(&route.protocol, PROTOCOLS).into();
    header.scope = number(&route.scope, SCOPES).into();
    header.kind = number(&route.kind, KINDS).into();
    let mut attributes = vec![RouteAttribute::Table(route.table)];
    if route.destination.prefix_len() > 0 {
        attributes.push(RouteAttribute::Destination(route.destination.addr().into()));
    }
    if let Some(from) = route.from {
        header.source_prefix_length = from.prefix_len();
        attributes.push(RouteAttribute::Source(from.addr().into()));
    }
    attributes.extend(route.metric.map(RouteAttribute::Priority));
    attributes.extend(route.source.map(|source| RouteAttribute::PrefSource(source.into())));
    if !route.metrics.is_empty() {
        let metric = |(name, value): (&String, &u32)| {
            RouteMetric::Other(DefaultNla::new(number(name, METRICS), value.to_ne_bytes().to_vec()))
        };
        attributes.push(RouteAttribute::Metrics(route.metrics.iter().map(metric).collect()));
    }
    attributes.extend(route.expires.map(RouteAttribute::Expires));
    attributes.extend(route.preference.as_deref().map(|preference| RouteAttribute::Preference(of_rank(preference))));
    match &route.hops[..] {
        [] => {}
        [hop] => {
            if hop.onlink {
                header.flags = RouteFlags::Onlink;
            }
            attributes.push(RouteAttribute::Oif(index(&hop.link)?));
            attributes.extend(hop.gateway.map(|gateway| via(gateway, is_ipv4)));
        }
        several => {
            let next = |hop: &Hop| {
                let mut next = RouteNextHop::default();
                next.interface_index = index(&hop.link)?;
                next.hops = u8::try_from(hop.weight.saturating_sub(1)).unwrap_or(u8::MAX);
                next.attributes.extend(hop.gateway.map(|gateway| via(gateway, is_ipv4)));
                if hop.onlink {
                    next.flags = RouteNextHopFlags::Onlink;
                }
                Some(next)
            };
            attributes.push(RouteAttribute::MultiPath(several.iter().map(next).collect::<Option<_>>()?));
        }
    }
    message.attributes = attributes;
    Some(message)
}

/// A router; of another family than the destination only `RTA_VIA` can say it.
fn via(gateway: IpAddr, is_ipv4: bool) -> RouteAttribute {
    match gateway {
        IpAddr::V6(gateway) if is_ipv4 => RouteAttribute::Via(RouteVia::Inet6(gateway)),
        gateway => RouteAttribute::Gateway(gateway.into()),
    }
}

fn of_rank(preference: &str) -> RoutePreference {
    match preference {
        "low" => RoutePreference::Low,
        "high" => RoutePreference::High,
        _ => RoutePreference::Medium,
    }
}
