//! One blocking socket for rtnetlink, and dumps over it.

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP, NetlinkBuffer,
};
use netlink_sys::{SocketAddr, protocols::NETLINK_ROUTE};
use rustix::net::RecvFlags;

const HEADER: usize = 16;
const ALIGNMENT: usize = 4;
/// How often a dump is begun again when something changed in its course.
const ATTEMPTS: u32 = 5;

/// A socket for rtnetlink.
pub struct Socket {
    inner: netlink_sys::Socket,
    sequence: u32,
}

impl Socket {
    pub fn open() -> io::Result<Self> {
        let mut inner = netlink_sys::Socket::new(NETLINK_ROUTE)?;
        inner.bind_auto()?;
        inner.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { inner, sequence: 0 })
    }

    /// Payloads of the answers to a dump request of this type. Answers of other types are left out.
    pub fn dump(&mut self, kind: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        for _ in 0..ATTEMPTS {
            if let Some(messages) = self.dump_once(kind, body)? {
                return Ok(messages);
            }
        }
        Err(io::Error::other("changed during each of 5 dumps"))
    }

    /// None if something changed in the course of it.
    fn dump_once(&mut self, kind: u16, body: &[u8]) -> io::Result<Option<Vec<Vec<u8>>>> {
        self.send(kind, NLM_F_DUMP, body)?;
        let (mut messages, mut is_consistent) = (Vec::new(), true);
        loop {
            let datagram = self.receive()?;
            let mut rest = &datagram[..];
            while rest.len() >= HEADER {
                let message = NetlinkBuffer::new_checked(rest).map_err(io::Error::other)?;
                let length = (message.length() as usize).next_multiple_of(ALIGNMENT).min(rest.len());
                // What is left of an earlier dump that was not read to its end.
                if message.sequence_number() == self.sequence {
                    is_consistent &= message.flags() & NLM_F_DUMP_INTR == 0;
                    match message.message_type() {
                        NLMSG_DONE => {
                            if let Some(error) = error(message.payload()) {
                                return Err(error);
                            }
                            return Ok(is_consistent.then_some(messages));
                        }
                        NLMSG_ERROR => {
                            return Err(error(message.payload()).unwrap_or_else(|| io::Error::other("no answer")));
                        }
                        NLMSG_NOOP => {}
                        answer if answer + 2 == kind => messages.push(message.payload().to_vec()),
                        _ => {}
                    }
                }
                rest = &rest[length..];
            }
        }
    }

    /// Has the kernel do something, and waits until it has.
    pub fn change(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.send(kind, flags | NLM_F_ACK, body)?;
        loop {
            let datagram = self.receive()?;
            let message = NetlinkBuffer::new_checked(&datagram[..]).map_err(io::Error::other)?;
            if message.sequence_number() == self.sequence && message.message_type() == NLMSG_ERROR {
                return error(message.payload()).map_or(Ok(()), Err);
            }
        }
    }

    fn send(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.sequence += 1;
        let sent = self.inner.send(&request(kind, flags, self.sequence, body), 0)?;
        if sent == HEADER + body.len() { Ok(()) } else { Err(io::Error::other("sent in part")) }
    }

    /// One datagram, however long it is.
    fn receive(&self) -> io::Result<Vec<u8>> {
        let flags = |flags: RecvFlags| i32::try_from(flags.bits()).unwrap_or_default();
        let length = retried(|| self.inner.recv(&mut Vec::new(), flags(RecvFlags::PEEK | RecvFlags::TRUNC)))?;
        let mut datagram = Vec::with_capacity(length.max(1));
        let received = retried(|| self.inner.recv(&mut datagram, flags(RecvFlags::TRUNC)))?;
        if received > datagram.len() { Err(io::Error::other("received in part")) } else { Ok(datagram) }
    }
}

fn request(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER + body.len()];
    let mut message = NetlinkBuffer::new(&mut bytes);
    message.set_length((HEADER + body.len()) as u32);
    message.set_message_type(kind);
    message.set_flags(NLM_F_REQUEST | flags);
    message.set_sequence_number(sequence);
    message.payload_mut().copy_from_slice(body);
    bytes
}

/// The error at the beginning of a payload: a negative number, or 0 for none.
fn error(payload: &[u8]) -> Option<io::Error> {
    let code = i32::from_ne_bytes(*payload.first_chunk()?);
    (code != 0).then(|| io::Error::from_raw_os_error(code.saturating_abs()))
}

fn retried<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
