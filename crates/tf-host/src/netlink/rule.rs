//! Answers about rules.

use ipnet::IpNet;
use netlink_packet_route::{
    AddressFamily,
    rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage},
};

use super::names::{PROTOCOLS, named, number};
use crate::facts::rules::Rule;

const ACTIONS: &[(u8, &str)] =
    &[(1, "lookup"), (2, "goto"), (3, "nop"), (6, "blackhole"), (7, "unreachable"), (8, "prohibit")];

/// None for families other than IP.
pub fn fact(message: &RuleMessage) -> Option<Rule> {
    let header = &message.header;
    let ipv6 = match header.family {
        AddressFamily::Inet => false,
        AddressFamily::Inet6 => true,
        _ => return None,
    };
    let mut rule = Rule {
        ipv6,
        priority: 0,
        from: None,
        to: None,
        incoming: None,
        outgoing: None,
        mark: None,
        tos: header.tos,
        action: named(u8::from(header.action), ACTIONS),
        table: (header.action == RuleAction::ToTable).then(|| u32::from(header.table)),
        inverted: header.flags.contains(RuleFlags::Invert),
        vrf: false,
        protocol: None,
        incomplete: matches!(header.action, RuleAction::Goto | RuleAction::Other(_)),
    };
    let (mut mark, mut bits) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Priority(priority) => rule.priority = *priority,
            RuleAttribute::Source(address) => rule.from = IpNet::new(*address, header.src_len).ok(),
            RuleAttribute::Destination(address) => rule.to = IpNet::new(*address, header.dst_len).ok(),
            RuleAttribute::Iifname(name) => rule.incoming = Some(name.clone()),
            RuleAttribute::Oifname(name) => rule.outgoing = Some(name.clone()),
            RuleAttribute::FwMark(found) => mark = Some(*found),
            RuleAttribute::FwMask(found) => bits = Some(*found),
            RuleAttribute::Table(table) if rule.table.is_some() => rule.table = Some(*table),
            RuleAttribute::L3MDev(is_set) => rule.vrf = *is_set,
            RuleAttribute::Protocol(protocol) => rule.protocol = Some(named(u8::from(*protocol), PROTOCOLS)),
            // What each rule has: nothing is suppressed, and the table once more, read above where it counts.
            RuleAttribute::SuppressPrefixLen(u32::MAX)
            | RuleAttribute::SuppressIfGroup(u32::MAX)
            | RuleAttribute::Table(_) => {}
            _ => rule.incomplete = true,
        }
    }
    rule.mark = mark.map(|mark| (mark, bits.unwrap_or(u32::MAX)));
    Some(rule)
}

/// What adds or deletes a rule.
pub fn message(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    let header = &mut message.header;
    header.family = if rule.ipv6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
    header.tos = rule.tos;
    header.action = number(&rule.action, ACTIONS).into();
    if rule.inverted {
        header.flags = RuleFlags::Invert;
    }
    let mut attributes = vec![RuleAttribute::Priority(rule.priority)];
    if let Some(from) = rule.from {
        header.src_len = from.prefix_len();
        attributes.push(RuleAttribute::Source(from.addr()));
    }
    if let Some(to) = rule.to {
        header.dst_len = to.prefix_len();
        attributes.push(RuleAttribute::Destination(to.addr()));
    }
    attributes.extend(rule.incoming.clone().map(RuleAttribute::Iifname));
    attributes.extend(rule.outgoing.clone().map(RuleAttribute::Oifname));
    if let Some((mark, mask)) = rule.mark {
        attributes.extend([RuleAttribute::FwMark(mark), RuleAttribute::FwMask(mask)]);
    }
    attributes.extend(rule.table.map(RuleAttribute::Table));
    if rule.vrf {
        attributes.push(RuleAttribute::L3MDev(true));
    }
    let protocol = rule.protocol.as_deref().map(|protocol| number(protocol, PROTOCOLS));
    attributes.extend(protocol.map(|protocol| RuleAttribute::Protocol(protocol.into())));
    message.attributes = attributes;
    message
}
