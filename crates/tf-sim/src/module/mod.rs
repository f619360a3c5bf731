//! The vRouter's kernel module, as far as `vhost0` goes: `vhost0` is one end of a pair, and filters pass what arrives on the uplink to
//! the other end, and back. As with the module, all packets that arrive are taken before the host sees them, and none that the
//! host sends by the uplink. Unlike the module it is no receive handler, so a bridge port is not refused.

mod kernel;
pub mod loader;
pub mod vif;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

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
use tf_host::data_path::{DataPath, each};

pub use self::kernel::Kernel;

const VHOST0: &str = "vhost0";
/// The other end of `vhost0`.
pub const OTHER_END: &str = "vhx";
/// All protocols, in the byte order of the network, and a priority.
const ALL_PROTOCOLS: u32 = (1 << 16) | 0x0300;
const INGRESS: TcHandle = TcHandle { major: 0xffff, minor: 0 };
const ABOVE_INGRESS: TcHandle = TcHandle { major: 0xffff, minor: 0xfff1 };

/// The stand-in of the network namespace that this thread is in.
pub struct StandIn {
    kernel: Kernel,
    /// Where files say which module is loaded.
    root: PathBuf,
}

impl StandIn {
    /// The one of this network namespace.
    ///
    /// # Errors
    /// When the kernel gives no socket.
    pub fn open() -> io::Result<Self> {
        Self::below("/")
    }

    /// The same on a node whose files are below a directory.
    ///
    /// # Errors
    /// When the kernel gives no socket.
    pub fn below(root: impl Into<PathBuf>) -> io::Result<Self> {
        Ok(Self { kernel: Kernel::open()?, root: root.into() })
    }

    fn is_there(&self, link: &str) -> bool {
        self.kernel.network().link(link).is_some()
    }

    /// Whether what arrives on an interface is passed to another one.
    pub fn passes(&self, link: &str) -> bool {
        self.kernel.network().link(link).is_some_and(|link| link.ingress.is_some())
    }

    fn qdisc(&self, link: &str) -> io::Result<TcMessage> {
        let mut message = TcMessage::default();
        message.header.index = self.kernel.index(link)?.cast_signed();
        message.header.handle = INGRESS;
        message.header.parent = ABOVE_INGRESS;
        message.attributes = vec![TcAttribute::Kind("ingress".into())];
        Ok(message)
    }

    fn add_qdisc(&self, link: &str) -> io::Result<()> {
        done(self.kernel.request(RouteNetlinkMessage::NewQueueDiscipline(self.qdisc(link)?)), Errno::EXIST)
    }

    /// Takes its filters, too.
    fn remove_qdisc(&self, link: &str) -> io::Result<()> {
        if !self.is_there(link) {
            return Ok(());
        }
        let result = self.kernel.send(RouteNetlinkMessage::DelQueueDiscipline(self.qdisc(link)?), 0);
        done(done(result, Errno::INVAL), Errno::NOENT)
    }

    /// Passes all that arrives on an interface to another one.
    fn redirect(&self, from: &str, to: &str) -> io::Result<()> {
        let mut mirror = TcMirror::default();
        mirror.eaction = TcMirrorActionType::EgressRedir;
        mirror.ifindex = self.kernel.index(to)?;
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
        message.header.index = self.kernel.index(from)?.cast_signed();
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

    fn set_up(&self, link: &str) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = self.kernel.index(link)?;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.kernel.request(RouteNetlinkMessage::SetLink(message))
    }
}

impl DataPath for StandIn {
    fn prepare(&mut self) -> io::Result<()> {
        if loader::is_loaded(&self.root) { Ok(()) } else { loader::load_indexed(&self.root) }
    }

    fn unload(&mut self) -> io::Result<()> {
        if loader::is_loaded(&self.root) { loader::unload(&self.root) } else { Ok(()) }
    }

    fn load(&mut self, file: &Path) -> io::Result<()> {
        loader::load(&self.root, file)
    }

    fn create(&mut self, mac: &str, mtu: u32) -> io::Result<()> {
        if self.is_there(VHOST0) {
            return Ok(());
        }
        let bytes: Result<Vec<u8>, _> = mac.split(':').map(|byte| u8::from_str_radix(byte, 16)).collect();
        let mut other = LinkMessage::default();
        other.attributes = vec![LinkAttribute::IfName(OTHER_END.into()), LinkAttribute::Mtu(mtu)];
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(VHOST0.into()),
            LinkAttribute::Address(bytes.map_err(io::Error::other)?),
            LinkAttribute::Mtu(mtu),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other))),
            ]),
        ];
        self.kernel.request(RouteNetlinkMessage::NewLink(message))?;
        // Nothing but packets of `vhost0` and of the uplink.
        fs::write(format!("/proc/sys/net/ipv6/conf/{OTHER_END}/disable_ipv6"), "1")?;
        self.set_up(OTHER_END)
    }

    fn remove(&mut self) -> io::Result<()> {
        if !self.is_there(VHOST0) {
            return Ok(());
        }
        let mut message = LinkMessage::default();
        message.header.index = self.kernel.index(VHOST0)?;
        message.header.flags = LinkFlags::empty();
        self.kernel.send(RouteNetlinkMessage::DelLink(message), 0)
    }

    fn add_physical(&mut self, uplink: &str) -> io::Result<()> {
        if self.passes(OTHER_END) {
            return Ok(());
        }
        self.add_qdisc(OTHER_END)?;
        each(uplink).take(1).try_for_each(|uplink| self.redirect(OTHER_END, uplink))
    }

    fn remove_physical(&mut self, _uplink: &str) -> io::Result<()> {
        self.remove_qdisc(OTHER_END)
    }

    fn attach(&mut self, uplink: &str) -> io::Result<()> {
        if each(uplink).all(|uplink| self.passes(uplink)) || loader::is_silent(&self.root) {
            return Ok(());
        }
        each(uplink).try_for_each(|uplink| {
            self.add_qdisc(uplink)?;
            self.redirect(uplink, OTHER_END)
        })
    }

    fn detach(&mut self, uplink: &str) -> io::Result<()> {
        each(uplink).try_for_each(|uplink| self.remove_qdisc(uplink))
    }

    fn has(&mut self, link: &str) -> io::Result<bool> {
        Ok(match link {
            VHOST0 => self.is_there(OTHER_END),
            uplink => self.passes(OTHER_END) && each(uplink).all(|uplink| self.passes(uplink)),
        })
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
