//! A stand-in for the vRouter's kernel module: `vhost0` is one end of a pair, and filters pass what arrives on the uplink to the
//! other end, and back. As with the module, all packets that arrive are taken before the host sees them, and none that the
//! host sends by the uplink. Unlike the module it is no receive handler, so a bridge port is not refused.

use std::{fs, io};

use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage},
    tc::{
        TcAction, TcActionAttribute, TcActionGeneric, TcActionMirrorOption, TcActionOption, TcActionType, TcAttribute,
        TcFilterU32Option, TcHandle, TcMessage, TcMirror, TcMirrorActionType, TcOption, TcU32Key, TcU32Selector,
        TcU32SelectorFlags,
    },
};
use rustix::io::Errno;
use tf_host::data_path::DataPath;

use crate::kernel::Kernel;

const VHOST0: &str = "vhost0";
pub const OTHER_END: &str = "vhx";
/// All protocols, in the byte order of the network, and a priority.
const ALL_PROTOCOLS: u32 = (1 << 16) | 0x0300;
const INGRESS: TcHandle = TcHandle { major: 0xffff, minor: 0 };
const ABOVE_INGRESS: TcHandle = TcHandle { major: 0xffff, minor: 0xfff1 };

pub struct StandIn<'a> {
    pub kernel: &'a Kernel,
}

impl StandIn<'_> {
    fn is_there(&self, link: &str) -> bool {
        self.kernel.observe().network.link(link).is_some()
    }

    fn qdisc(&self, link: &str) -> TcMessage {
        let mut message = TcMessage::default();
        message.header.index = self.kernel.index(link).cast_signed();
        message.header.handle = INGRESS;
        message.header.parent = ABOVE_INGRESS;
        message.attributes = vec![TcAttribute::Kind("ingress".into())];
        message
    }

    fn add_qdisc(&self, link: &str) -> io::Result<()> {
        done(self.kernel.request(RouteNetlinkMessage::NewQueueDiscipline(self.qdisc(link))), Errno::EXIST)
    }

    /// Takes its filters, too.
    fn remove_qdisc(&self, link: &str) -> io::Result<()> {
        if !self.is_there(link) {
            return Ok(());
        }
        let result = self.kernel.send(RouteNetlinkMessage::DelQueueDiscipline(self.qdisc(link)), 0);
        done(done(result, Errno::INVAL), Errno::NOENT)
    }

    /// Passes all that arrives on an interface to another one.
    fn redirect(&self, from: &str, to: &str) -> io::Result<()> {
        let mut mirror = TcMirror::default();
        mirror.eaction = TcMirrorActionType::EgressRedir;
        mirror.ifindex = self.kernel.index(to);
        mirror.generic = TcActionGeneric::default();
        mirror.generic.action = TcActionType::Stolen;
        let mut action = TcAction::default();
        action.tab = 1;
        action.attributes = vec![
            TcActionAttribute::Kind("mirred".into()),
            TcActionAttribute::Options(vec![TcActionOption::Mirror(TcActionMirrorOption::Parms(mirror))]),
        ];
        let mut selector = TcU32Selector::default();
        selector.flags = TcU32SelectorFlags::Terminal;
        selector.nkeys = 1;
        selector.keys = vec![TcU32Key::default()];
        let mut message = TcMessage::default();
        message.header.index = self.kernel.index(from).cast_signed();
        message.header.parent = INGRESS;
        message.header.info = ALL_PROTOCOLS;
        message.attributes = vec![
            TcAttribute::Kind("u32".into()),
            TcAttribute::Options(vec![
                TcOption::U32(TcFilterU32Option::Selector(selector)),
                TcOption::U32(TcFilterU32Option::Action(vec![action])),
            ]),
        ];
        self.kernel.request(RouteNetlinkMessage::NewTrafficFilter(message))
    }
}

impl DataPath for StandIn<'_> {
    fn create(&mut self, mac: &str, mtu: u32) -> io::Result<()> {
        if self.is_there(VHOST0) {
            return Ok(());
        }
        let mac: Vec<u8> = mac.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        let mut other = LinkMessage::default();
        other.attributes = vec![LinkAttribute::IfName(OTHER_END.into()), LinkAttribute::Mtu(mtu)];
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(VHOST0.into()),
            LinkAttribute::Address(mac),
            LinkAttribute::Mtu(mtu),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other))),
            ]),
        ];
        self.kernel.request(RouteNetlinkMessage::NewLink(message))?;
        // Nothing but packets of `vhost0` and of the uplink.
        fs::write(format!("/proc/sys/net/ipv6/conf/{OTHER_END}/disable_ipv6"), "1")?;
        self.kernel.set(OTHER_END, vec![]);
        Ok(())
    }

    fn remove(&mut self) -> io::Result<()> {
        if !self.is_there(VHOST0) {
            return Ok(());
        }
        let mut message = LinkMessage::default();
        message.header.index = self.kernel.index(VHOST0);
        message.header.flags = LinkFlags::empty();
        self.kernel.send(RouteNetlinkMessage::DelLink(message), 0)
    }

    fn add_physical(&mut self, uplink: &str) -> io::Result<()> {
        if self.kernel.observe().network.link(OTHER_END).is_some_and(|link| link.ingress.is_some()) {
            return Ok(());
        }
        self.add_qdisc(OTHER_END)?;
        self.redirect(OTHER_END, uplink)
    }

    fn remove_physical(&mut self, _uplink: &str) -> io::Result<()> {
        self.remove_qdisc(OTHER_END)
    }

    fn attach(&mut self, uplink: &str) -> io::Result<()> {
        if self.kernel.observe().network.link(uplink).is_some_and(|link| link.ingress.is_some()) {
            return Ok(());
        }
        self.add_qdisc(uplink)?;
        self.redirect(uplink, OTHER_END)
    }

    fn detach(&mut self, uplink: &str) -> io::Result<()> {
        self.remove_qdisc(uplink)
    }

    fn prepare(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn is_attached(&mut self, uplink: &str) -> io::Result<bool> {
        let network = self.kernel.observe().network;
        Ok([uplink, OTHER_END].iter().all(|name| network.link(name).is_some_and(|link| link.ingress.is_some())))
    }

    fn users(&mut self) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

fn done(result: io::Result<()>, errno: Errno) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(errno.raw_os_error()) => Ok(()),
        result => result,
    }
}
