//! Answers about neighbours.

use std::net::IpAddr;

use netlink_packet_route::{
    AddressFamily,
    neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage},
};

use super::{
    Names,
    names::{mac, mac_bytes, named, number},
};
use crate::facts::neighbours::Neighbour;

const STATES: &[(u16, &str)] = &[
    (0, "none"),
    (0x01, "incomplete"),
    (0x02, "reachable"),
    (0x04, "stale"),
    (0x08, "delay"),
    (0x10, "probe"),
    (0x20, "failed"),
    (0x40, "noarp"),
    (0x80, "permanent"),
];

/// None for families other than IP, and for multicast addresses, which the kernel maps by itself.
pub fn fact(message: &NeighbourMessage, names: &Names) -> Option<Neighbour> {
    let header = &message.header;
    let mut neighbour = Neighbour {
        link: names.of(header.ifindex),
        address: message.attributes.iter().find_map(address)?,
        mac: None,
        state: named(u16::from(header.state), STATES),
        router: header.flags.contains(NeighbourFlags::Router),
    };
    for attribute in &message.attributes {
        if let NeighbourAttribute::LinkLayerAddress(bytes) = attribute {
            neighbour.mac = mac(bytes);
        }
    }
    (!neighbour.address.is_multicast()).then_some(neighbour)
}

fn address(attribute: &NeighbourAttribute) -> Option<IpAddr> {
    match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(address)) => Some((*address).into()),
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(address)) => Some((*address).into()),
        _ => None,
    }
}

/// What adds or deletes a neighbour.
pub fn message(neighbour: &Neighbour, index: u32) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    let (family, address) = match neighbour.address {
        IpAddr::V4(address) => (AddressFamily::Inet, NeighbourAddress::Inet(address)),
        IpAddr::V6(address) => (AddressFamily::Inet6, NeighbourAddress::Inet6(address)),
    };
    message.header.family = family;
    message.header.ifindex = index;
    message.header.state = number(&neighbour.state, STATES).into();
    if neighbour.router {
        message.header.flags = NeighbourFlags::Router;
    }
    message.attributes = vec![NeighbourAttribute::Destination(address)];
    let mac = neighbour.mac.as_deref().and_then(mac_bytes);
    message.attributes.extend(mac.map(NeighbourAttribute::LinkLayerAddress));
    message
}
