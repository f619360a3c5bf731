//! Requests to the kernel of the network namespace that this thread is in.

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use tf_host::{Root, facts::network::Network, observe};

/// No files: only the network is looked at.
const NOWHERE: &str = "/proc/self/task/none";
/// For an answer.
const LARGEST: usize = 65536;

/// The kernel.
pub struct Kernel(Socket);

impl Kernel {
    /// As it is seen from here.
    ///
    /// # Errors
    /// When it gives no socket.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self(socket))
    }

    /// Interfaces and all that is on them.
    pub fn network(&self) -> Network {
        observe(&Root::below(NOWHERE)).network
    }

    /// The number of an interface.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn index(&self, name: &str) -> io::Result<u32> {
        let network = self.network();
        let link = network.link(name);
        link.map(|link| link.index).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no {name}")))
    }

    /// Has it make something.
    ///
    /// # Errors
    /// What it answers.
    pub fn request(&self, message: RouteNetlinkMessage) -> io::Result<()> {
        self.send(message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Has it do something.
    ///
    /// # Errors
    /// What it answers.
    pub fn send(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.0.send(&bytes, 0)?;
        let mut answer = Vec::with_capacity(LARGEST);
        self.0.recv(&mut answer, 0)?;
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer).map_err(io::Error::other)?;
        match answer.payload {
            NetlinkPayload::Error(error) => error.code.map_or(Ok(()), |_| Err(error.to_io())),
            other => Err(io::Error::other(format!("{other:?}"))),
        }
    }
}
