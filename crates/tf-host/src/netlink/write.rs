//! Changes of addresses, routes, rules and neighbours, one message each, with the kernel's answer waited for. What is done
//! already is no error.

use std::{collections::BTreeMap, io};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, Parseable as _};
use netlink_packet_route::link::{InfoData, InfoKind, InfoVlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use rustix::io::Errno;

use super::{GET_LINK, address, bytes, link, neighbour, route, rule, socket::Socket};
use crate::facts::{addresses::Address, neighbours::Neighbour, routes::Route, rules::Rule};

// Requests of `linux/rtnetlink.h`.
const NEW_LINK: u16 = 16;
const DELETE_LINK: u16 = 17;
const SET_LINK: u16 = 19;
const NEW_ADDRESS: u16 = 20;
const DELETE_ADDRESS: u16 = 21;
const NEW_ROUTE: u16 = 24;
const NEW_NEIGHBOUR: u16 = 28;
const DELETE_NEIGHBOUR: u16 = 29;
const NEW_RULE: u16 = 32;
const DELETE_RULE: u16 = 33;

/// What the kernel answers when something is not there, or its interface is not.
const ABSENT: [Errno; 5] = [Errno::ADDRNOTAVAIL, Errno::NODEV, Errno::NOENT, Errno::SRCH, Errno::NXIO];

/// Changes the network of a network namespace.
pub(crate) struct Writer {
    socket: Socket,
    indexes: BTreeMap<String, u32>,
}

impl Writer {
    pub fn open() -> io::Result<Self> {
        let mut writer = Self { socket: Socket::open()?, indexes: BTreeMap::new() };
        writer.learn()?;
        Ok(writer)
    }

    /// Learns the kernel's numbers of interfaces: after one was made or removed.
    pub fn learn(&mut self) -> io::Result<()> {
        let messages = self.socket.dump(GET_LINK, &bytes(&LinkMessage::default()))?;
        let links = messages.iter().filter_map(|message| LinkMessage::parse(message).ok());
        self.indexes = links.map(|message| (link::name(&message), message.header.index)).collect();
        Ok(())
    }

    pub fn set_up(&mut self, name: &str) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = self.index(name)?;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.socket.change(SET_LINK, 0, &bytes(&message))
    }

    pub fn set_mac(&mut self, name: &str, mac: &str) -> io::Result<()> {
        let bytes: Result<Vec<u8>, _> = mac.split(':').map(|byte| u8::from_str_radix(byte, 16)).collect();
        self.set(name, LinkAttribute::Address(bytes.map_err(io::Error::other)?))
    }

    /// Gives an interface another name. It has to be down.
    pub fn rename(&mut self, name: &str, new: &str) -> io::Result<()> {
        self.set(name, LinkAttribute::IfName(new.into()))?;
        self.learn()
    }

    /// Makes an interface a member of another one. It has to be down.
    pub fn set_master(&mut self, name: &str, master: &str) -> io::Result<()> {
        let master = self.index(master)?;
        self.set(name, LinkAttribute::Controller(master))
    }

    /// Makes a VLAN above an interface.
    pub fn add_vlan(&mut self, name: &str, parent: &str, id: u16) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(name.into()),
            LinkAttribute::Link(self.index(parent)?),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Vlan),
                LinkInfo::Data(InfoData::Vlan(vec![InfoVlan::Id(id)])),
            ]),
        ];
        unless(&[Errno::EXIST], self.socket.change(NEW_LINK, NLM_F_CREATE | NLM_F_EXCL, &bytes(&message)))
    }

    pub fn set_mtu(&mut self, name: &str, mtu: u32) -> io::Result<()> {
        self.set(name, LinkAttribute::Mtu(mtu))
    }

    fn set(&mut self, name: &str, attribute: LinkAttribute) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = self.index(name)?;
        message.attributes = vec![attribute];
        self.socket.change(SET_LINK, 0, &bytes(&message))
    }

    pub fn remove_link(&mut self, name: &str) -> io::Result<()> {
        let Ok(index) = self.index(name) else { return Ok(()) };
        let mut message = LinkMessage::default();
        message.header.index = index;
        unless(&ABSENT, self.socket.change(DELETE_LINK, 0, &bytes(&message)))
    }

    pub fn add_address(&mut self, address: &Address) -> io::Result<()> {
        let message = address::message(address, self.index(&address.link)?);
        unless(&[Errno::EXIST], self.socket.change(NEW_ADDRESS, NLM_F_CREATE | NLM_F_EXCL, &bytes(&message)))
    }

    pub fn delete_address(&mut self, address: &Address) -> io::Result<()> {
        let Ok(index) = self.index(&address.link) else { return Ok(()) };
        unless(&ABSENT, self.socket.change(DELETE_ADDRESS, 0, &bytes(&address::message(address, index))))
    }

    pub fn replace_route(&mut self, route: &Route) -> io::Result<()> {
        let index = |name: &str| self.indexes.get(name).copied();
        let message = route::message(route, &index).ok_or_else(|| absent("an interface of the route"))?;
        self.socket.change(NEW_ROUTE, NLM_F_CREATE | NLM_F_REPLACE, &bytes(&message))
    }

    pub fn add_rule(&mut self, rule: &Rule) -> io::Result<()> {
        unless(&[Errno::EXIST], self.socket.change(NEW_RULE, NLM_F_CREATE | NLM_F_EXCL, &bytes(&rule::message(rule))))
    }

    pub fn delete_rule(&mut self, rule: &Rule) -> io::Result<()> {
        unless(&ABSENT, self.socket.change(DELETE_RULE, 0, &bytes(&rule::message(rule))))
    }

    pub fn add_neighbour(&mut self, neighbour: &Neighbour) -> io::Result<()> {
        let message = neighbour::message(neighbour, self.index(&neighbour.link)?);
        self.socket.change(NEW_NEIGHBOUR, NLM_F_CREATE | NLM_F_REPLACE, &bytes(&message))
    }

    pub fn delete_neighbour(&mut self, neighbour: &Neighbour) -> io::Result<()> {
        let Ok(index) = self.index(&neighbour.link) else { return Ok(()) };
        unless(&ABSENT, self.socket.change(DELETE_NEIGHBOUR, 0, &bytes(&neighbour::message(neighbour, index))))
    }

    fn index(&self, name: &str) -> io::Result<u32> {
        self.indexes.get(name).copied().ok_or_else(|| absent(name))
    }
}

fn absent(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{what} is not there"))
}

/// These errors mean that it is done already.
fn unless(done: &[Errno], result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if done.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error())) => Ok(()),
        result => result,
    }
}
