//! Answers about addresses.

use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_route::{
    AddressFamily,
    address::{AddressAttribute, AddressFlags, AddressMessage, AddressProtocol, CacheInfo},
};

use super::{
    Names,
    names::{SCOPES, named, number},
};
use crate::facts::addresses::{Address, Flag};

/// A lifetime that never ends.
const FOR_EVER: u32 = u32::MAX;

const FLAGS: [(AddressFlags, Flag); 12] = [
    (AddressFlags::Secondary, Flag::Secondary),
    (AddressFlags::Nodad, Flag::NoDad),
    (AddressFlags::Optimistic, Flag::Optimistic),
    (AddressFlags::Dadfailed, Flag::DadFailed),
    (AddressFlags::Homeaddress, Flag::HomeAddress),
    (AddressFlags::Deprecated, Flag::Deprecated),
    (AddressFlags::Tentative, Flag::Tentative),
    (AddressFlags::Permanent, Flag::Permanent),
    (AddressFlags::Managetempaddr, Flag::ManageTempAddr),
    (AddressFlags::Noprefixroute, Flag::NoPrefixRoute),
    (AddressFlags::Mcautojoin, Flag::McAutoJoin),
    (AddressFlags::StablePrivacy, Flag::StablePrivacy),
];

/// None for families other than IP.
pub fn fact(message: &AddressMessage, names: &Names) -> Option<Address> {
    let header = &message.header;
    let link = names.of(header.index);
    let (mut local, mut address, mut broadcast, mut label) = (None, None, None, None);
    let (mut valid, mut preferred, mut metric, mut protocol) = (None, None, None, None);
    let mut flags = AddressFlags::from_bits_retain(u32::from(header.flags.bits()));
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(found) => local = Some(*found),
            AddressAttribute::Address(found) => address = Some(*found),
            AddressAttribute::Broadcast(found) => broadcast = Some(IpAddr::V4(*found)),
            AddressAttribute::Label(found) if *found != link => label = Some(found.clone()),
            AddressAttribute::Flags(found) => flags = *found,
            AddressAttribute::CacheInfo(lifetimes) => {
                let limited = |seconds: u32| (seconds != FOR_EVER).then_some(seconds);
                (valid, preferred) = (limited(lifetimes.ifa_valid), limited(lifetimes.ifa_preferred));
            }
            AddressAttribute::RoutePriority(found) => metric = Some(*found),
            AddressAttribute::Protocol(found) => protocol = Some(u8::from(*found)),
            _ => {}
        }
    }
    // IPv6 has `IFA_LOCAL` only where there is a peer.
    let own = local.or(address)?;
    Some(Address {
        link,
        address: IpNet::new(own, header.prefix_len).ok()?,
        peer: address.filter(|peer| *peer != own),
        broadcast,
        label,
        scope: named(u8::from(header.scope), SCOPES),
        flags: FLAGS.iter().filter(|(bit, _)| flags.contains(*bit)).map(|(_, flag)| *flag).collect(),
        valid,
        preferred,
        metric,
        protocol,
    })
}

/// Flags that a setter states; the others are what the kernel found out.
const STATED: [Flag; 5] = [Flag::NoDad, Flag::HomeAddress, Flag::ManageTempAddr, Flag::NoPrefixRoute, Flag::McAutoJoin];

/// What sets or deletes an address.
pub fn message(address: &Address, index: u32) -> AddressMessage {
    let own = address.address.addr();
    let mut message = AddressMessage::default();
    message.header.family = if own.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.header.prefix_len = address.address.prefix_len();
    message.header.scope = number(&address.scope, SCOPES).into();
    message.header.index = index;
    let mut attributes = vec![AddressAttribute::Local(own), AddressAttribute::Address(address.peer.unwrap_or(own))];
    if let Some(IpAddr::V4(broadcast)) = address.broadcast {
        attributes.push(AddressAttribute::Broadcast(broadcast));
    }
    attributes.extend(address.label.clone().map(AddressAttribute::Label));
    let stated = FLAGS.iter().filter(|(_, flag)| STATED.contains(flag) && address.flags.contains(flag));
    let flags = stated.fold(AddressFlags::empty(), |flags, (bit, _)| flags | *bit);
    attributes.push(AddressAttribute::Flags(flags));
    let mut lifetimes = CacheInfo::default();
    lifetimes.ifa_valid = address.valid.unwrap_or(FOR_EVER);
    lifetimes.ifa_preferred = address.preferred.unwrap_or(FOR_EVER);
    attributes.push(AddressAttribute::CacheInfo(lifetimes));
    attributes.extend(address.metric.map(AddressAttribute::RoutePriority));
    attributes.extend(address.protocol.map(|protocol| AddressAttribute::Protocol(AddressProtocol::from(protocol))));
    message.attributes = attributes;
    message
}
