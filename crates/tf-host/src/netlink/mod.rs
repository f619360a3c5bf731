//! Questions to the kernel over one blocking netlink socket. The crates of rust-netlink are used in this module only: their API
//! breaks every month or two.
//!
//! [`network`] returns facts with names in place of the kernel's numbers; it sends dump requests only, which change nothing.
//! [`Writer`] changes what a plan says.

mod address;
mod link;
mod names;
mod neighbour;
mod qdisc;
mod route;
mod rule;
mod socket;
mod write;

use std::{collections::BTreeMap, io};

use netlink_packet_core::{Emitable, Parseable};
use netlink_packet_route::{
    address::AddressMessage, link::LinkMessage, neighbour::NeighbourMessage, route::RouteMessage, rule::RuleMessage,
};

use crate::{facts::network::Network, root::Reader};
use socket::Socket;
pub(crate) use write::Writer;

// Requests of `linux/rtnetlink.h`; the answer to each has the number of its `RTM_NEW...`, two less.
const GET_LINK: u16 = 18;
const GET_ADDRESS: u16 = 22;
const GET_ROUTE: u16 = 26;
const GET_NEIGHBOUR: u16 = 30;
const GET_RULE: u16 = 34;
const GET_QDISC: u16 = 38;

/// Names of interfaces by their numbers.
struct Names(BTreeMap<u32, String>);

impl Names {
    /// The name, or the number where the interface has gone since.
    fn of(&self, index: u32) -> String {
        self.0.get(&index).cloned().unwrap_or_else(|| format!("#{index}"))
    }
}

/// The network of this network namespace.
pub(crate) fn network(reader: &Reader<'_>) -> Network {
    let mut socket = match Socket::open() {
        Ok(socket) => socket,
        Err(error) => {
            reader.missed("netlink", error);
            return Network::default();
        }
    };
    let links: Vec<LinkMessage> = dump(&mut socket, reader, "interfaces", GET_LINK, &LinkMessage::default());
    let names = Names(links.iter().map(|message| (message.header.index, link::name(message))).collect());
    let mut links: Vec<_> = links.iter().map(|message| link::fact(message, &names)).collect();
    match socket.dump(GET_QDISC, &qdisc::request()) {
        Ok(messages) => messages.iter().filter_map(|message| qdisc::ingress(message)).for_each(|(index, kind)| {
            if let Some(link) = links.iter_mut().find(|link| link.index == index) {
                link.ingress = Some(kind);
            }
        }),
        // A kernel without traffic control has none.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
        Err(error) => reader.missed("netlink: queueing disciplines", error),
    }
    let addresses: Vec<AddressMessage> =
        dump(&mut socket, reader, "addresses", GET_ADDRESS, &AddressMessage::default());
    let routes: Vec<RouteMessage> = dump(&mut socket, reader, "routes", GET_ROUTE, &RouteMessage::default());
    let rules: Vec<RuleMessage> = dump(&mut socket, reader, "rules", GET_RULE, &RuleMessage::default());
    let neighbours: Vec<NeighbourMessage> =
        dump(&mut socket, reader, "neighbours", GET_NEIGHBOUR, &NeighbourMessage::default());
    Network {
        links,
        addresses: addresses.iter().filter_map(|message| address::fact(message, &names)).collect(),
        routes: routes.iter().filter_map(|message| route::fact(message, &names)).collect(),
        rules: rules.iter().filter_map(rule::fact).collect(),
        neighbours: neighbours.iter().filter_map(|message| neighbour::fact(message, &names)).collect(),
    }
}

/// The MAC address of an interface. None if there is no such interface, or it has none.
pub(crate) fn mac_of(name: &str) -> io::Result<Option<String>> {
    let messages = Socket::open()?.dump(GET_LINK, &bytes(&LinkMessage::default()))?;
    let mut links = messages.iter().filter_map(|message| LinkMessage::parse(message).ok());
    let found = links.find(|message| link::name(message) == name);
    Ok(found.and_then(|message| link::fact(&message, &Names(BTreeMap::new())).mac))
}

/// All messages of one type. One that cannot be parsed is missed, and the others count.
fn dump<M: Parseable<[u8]> + Emitable>(
    socket: &mut Socket,
    reader: &Reader<'_>,
    what: &str,
    kind: u16,
    request: &M,
) -> Vec<M> {
    let messages = socket.dump(kind, &bytes(request)).unwrap_or_else(|error| {
        reader.missed(format!("netlink: {what}"), error);
        Vec::new()
    });
    let parse =
        |message: &Vec<u8>| M::parse(message).map_err(|error| reader.missed(format!("netlink: {what}"), error)).ok();
    messages.iter().filter_map(parse).collect()
}

/// A message as it is sent.
fn bytes(message: &impl Emitable) -> Vec<u8> {
    let mut bytes = vec![0; message.buffer_len()];
    message.emit(&mut bytes);
    bytes
}
