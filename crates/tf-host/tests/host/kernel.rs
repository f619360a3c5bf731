//! A network namespace of a test, set up by netlink and by no program.

use std::{
    env,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    net::IpAddr,
    thread,
};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressMessage},
    link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use tf_host::{HostFacts, Root, observe};

/// The kernel, as seen from the network namespace of this thread.
pub struct Kernel {
    socket: Socket,
}

/// Runs a test in a network namespace of its own, which goes when the test's thread does. Without the right to make one the
/// test is counted as skipped.
pub fn in_namespace(test: impl FnOnce(&Kernel)) {
    if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
        return skip(&format!("no network namespace ({error}); needs root"));
    }
    test(&open());
}

/// The same on a node whose kernel has the vRouter's module, as far as files say: in a mount namespace of its own, too.
pub fn on_node(test: impl FnOnce(&Kernel)) {
    in_namespace(|kernel| {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
        mount(None::<&str>, "/sys/module", Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
        fs::create_dir("/sys/module/vrouter").unwrap();
        test(kernel);
    });
}

/// The kernel, as seen from here.
pub fn open() -> Kernel {
    let mut socket = Socket::new(NETLINK_ROUTE).unwrap();
    socket.bind_auto().unwrap();
    socket.connect(&SocketAddr::new(0, 0)).unwrap();
    Kernel { socket }
}

/// As `tf_testing::skip::this_test`, without the dependencies of that crate.
fn skip(reason: &str) {
    let line = format!("{}: {reason}\n", thread::current().name().unwrap_or_default());
    // Not `eprint!`, which the test harness captures.
    io::stderr().write_all(format!("SKIP {line}").as_bytes()).unwrap();
    if let Some(file) = env::var_os("TF_TEST_SKIPS") {
        OpenOptions::new().append(true).open(file).unwrap().write_all(line.as_bytes()).unwrap();
    }
}

impl Kernel {
    /// The network, and nothing of the files of this machine.
    #[expect(clippy::unused_self, reason = "it is the kernel of the thread that has this")]
    pub fn observe(&self) -> HostFacts {
        let empty = tempfile::tempdir().unwrap();
        let facts = observe(&Root::below(empty.path()));
        let missed: Vec<&str> = facts.unread.iter().map(|unread| unread.what.as_str()).collect();
        assert_eq!(missed, ["/proc/sys/kernel/osrelease"]);
        facts
    }

    /// Has the kernel make something.
    pub fn request(&self, message: RouteNetlinkMessage) -> io::Result<()> {
        self.send(message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Has the kernel do something.
    pub fn send(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut answer = Vec::with_capacity(65536);
        self.socket.recv(&mut answer, 0)?;
        match NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer).unwrap().payload {
            NetlinkPayload::Error(error) => error.code.map_or(Ok(()), |_| Err(error.to_io())),
            other => panic!("{other:?}"),
        }
    }

    pub fn add(&self, name: &str, kind: InfoKind, data: Option<InfoData>, attributes: Vec<LinkAttribute>) {
        let mut link = LinkMessage::default();
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        let info = std::iter::once(LinkInfo::Kind(kind)).chain(data.map(LinkInfo::Data)).collect();
        link.attributes = vec![LinkAttribute::IfName(name.into()), LinkAttribute::LinkInfo(info)];
        link.attributes.extend(attributes);
        self.request(RouteNetlinkMessage::NewLink(link)).unwrap_or_else(|error| panic!("add {name}: {error}"));
    }

    /// An interface that plays hardware, with a peer that gives it a carrier.
    pub fn add_pair(&self, name: &str, peer: &str) {
        let mut other = LinkMessage::default();
        other.attributes = vec![LinkAttribute::IfName(peer.into())];
        self.add(name, InfoKind::Veth, Some(InfoData::Veth(InfoVeth::Peer(other))), vec![]);
        self.set(peer, vec![]);
    }

    /// Sets an interface up, and other things of it.
    pub fn set(&self, name: &str, attributes: Vec<LinkAttribute>) {
        let mut link = LinkMessage::default();
        link.header.index = self.index(name);
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        link.attributes = attributes;
        self.request(RouteNetlinkMessage::SetLink(link)).unwrap_or_else(|error| panic!("set {name}: {error}"));
    }

    pub fn index(&self, name: &str) -> u32 {
        self.observe().network.link(name).unwrap_or_else(|| panic!("no interface {name}")).index
    }

    pub fn address(&self, link: &str, address: &str, attributes: Vec<AddressAttribute>) {
        let network: ipnet::IpNet = address.parse().unwrap();
        let own: IpAddr = network.addr();
        let mut message = AddressMessage::default();
        message.header.family = if own.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        message.header.prefix_len = network.prefix_len();
        message.header.index = self.index(link);
        message.attributes = vec![AddressAttribute::Local(own), AddressAttribute::Address(own)];
        message.attributes.extend(attributes);
        self.request(RouteNetlinkMessage::NewAddress(message)).unwrap_or_else(|error| panic!("{address}: {error}"));
    }
}
