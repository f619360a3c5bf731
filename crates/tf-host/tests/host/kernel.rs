//! A network namespace of a test, set up by netlink and by no program.

use std::{
    env,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    net::IpAddr,
    thread,
};

use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressMessage},
    link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage},
};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use tf_host::{HostFacts, Root, observe};
use tf_sim::module;

/// The kernel, as seen from the network namespace of this thread.
pub struct Kernel(module::Kernel);

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
        // Programs of this machine that set addresses read files there.
        mount(None::<&str>, "/run", Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
        test(kernel);
    });
}

/// The kernel, as seen from here.
pub fn open() -> Kernel {
    Kernel(module::Kernel::open().unwrap())
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
        self.0.request(message)
    }

    /// Has the kernel do something.
    pub fn send(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.0.send(message, flags)
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
