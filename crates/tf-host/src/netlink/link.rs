//! Answers about interfaces.

use netlink_packet_route::link::{
    BondFailOverMac, BondLacpRate, InfoBond, InfoData, InfoVlan, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType,
    LinkMessage, LinkXdp, XdpAttached,
};

use super::{Names, names::mac};
use crate::facts::links::{Bond, Link};

/// The interface's name.
pub fn name(message: &LinkMessage) -> String {
    let name = message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    });
    name.unwrap_or_else(|| format!("#{}", message.header.index))
}

pub fn fact(message: &LinkMessage, names: &Names) -> Link {
    let header = &message.header;
    let mut link = Link {
        name: name(message),
        index: header.index,
        up: header.flags.contains(LinkFlags::Up),
        carrier: header.flags.contains(LinkFlags::LowerUp),
        loopback: header.flags.contains(LinkFlags::Loopback),
        ethernet: header.link_layer_type == LinkLayerType::Ether,
        ..Link::default()
    };
    let mut is_parent_elsewhere = false;
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::Address(bytes) => link.mac = mac(bytes),
            LinkAttribute::PermAddress(bytes) => link.permanent_mac = mac(bytes),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Link(index) if *index != 0 && *index != header.index => link.parent = Some(names.of(*index)),
            LinkAttribute::Controller(index) if *index != 0 => link.master = Some(names.of(*index)),
            LinkAttribute::LinkNetNsId(_) => is_parent_elsewhere = true,
            LinkAttribute::Xdp(xdp) => link.xdp = has_program(xdp),
            LinkAttribute::LinkInfo(info) => info.iter().for_each(|info| add_info(&mut link, info)),
            _ => {}
        }
    }
    if is_parent_elsewhere {
        link.parent = None;
    }
    link
}

fn add_info(link: &mut Link, info: &LinkInfo) {
    match info {
        LinkInfo::Kind(kind) => link.kind = Some(kind.to_string()),
        LinkInfo::Data(InfoData::Vlan(settings)) => {
            link.vlan = settings.iter().find_map(|setting| match setting {
                InfoVlan::Id(id) => Some(*id),
                _ => None,
            });
        }
        LinkInfo::Data(InfoData::Bond(settings)) => {
            let mut bond = Bond::default();
            for setting in settings {
                match setting {
                    InfoBond::Mode(mode) => bond.mode = mode.to_string(),
                    InfoBond::FailOverMac(follows) => bond.mac_of_active_member = *follows == BondFailOverMac::Active,
                    InfoBond::XmitHashPolicy(policy) => bond.policy = policy.to_string(),
                    InfoBond::AdLacpRate(rate) => bond.fast = *rate == BondLacpRate::Fast,
                    _ => {}
                }
            }
            link.bond = Some(bond);
        }
        _ => {}
    }
}

fn has_program(xdp: &[LinkXdp]) -> bool {
    xdp.iter().any(|part| matches!(part, LinkXdp::Attached(attached) if *attached != XdpAttached::None))
}
