//! Whether the servers answer that a daemon is connected to, for one that does not notice when they fall silent (ADR 0066).
//!
//! In: the servers that NodeStatus names for a connection, the sockets of the daemon, and the kernel's table of connections; which of them the daemon
//! uses shows there alone. Out: the server that did not complete a TLS handshake twice in a row. No data is sent, and a handshake that fails is an
//! answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use tokio::time::Instant;

/// Between two handshakes with one server.
const ASKING: Duration = Duration::from_secs(15);
/// Handshakes in a row that a server leaves without an answer until that is reported.
const SILENCES: u32 = 2;
/// State of an established connection in the kernel's table (`include/net/tcp_states.h`).
const ESTABLISHED: &str = "01";

/// What is known of the servers of one connection.
#[derive(Clone, Debug, Default)]
pub struct Broker {
    asked: Option<Instant>,
    silent: BTreeMap<SocketAddr, u32>,
}

impl Broker {
    /// Whether it is time to ask.
    pub fn is_due(&self, now: Instant) -> bool {
        self.asked.is_none_or(|asked| now.duration_since(asked) >= ASKING)
    }

    /// Takes in which of the servers that the daemon uses at this moment answer. What was known of others is forgotten.
    pub fn take(&mut self, answers: &BTreeMap<SocketAddr, bool>, now: Instant) {
        let before = std::mem::take(&mut self.silent);
        let silent = answers.iter().filter(|(_, answers)| !**answers);
        self.silent = silent
            .map(|(server, _)| (*server, before.get(server).copied().unwrap_or_default().saturating_add(1)))
            .collect();
        self.asked = Some(now);
    }

    /// The daemon is not at work: nothing is known.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// What a connection of this type and name lacks.
    pub fn lost(&self, name: &str) -> Option<String> {
        let (server, _) = self.silent.iter().find(|(_, silences)| **silences >= SILENCES)?;
        Some(format!("{name} (broker {server} does not answer)"))
    }
}

/// Those of these servers that one of these sockets is connected to.
pub fn used(servers: &BTreeSet<SocketAddr>, sockets: &BTreeSet<u64>) -> BTreeSet<SocketAddr> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    tables.iter().flat_map(|table| peers(table, sockets)).filter(|peer| servers.contains(peer)).collect()
}

/// The other ends of these sockets, of established connections, in `/proc/net/tcp` or `/proc/net/tcp6` (proc(5)).
fn peers(table: &str, sockets: &BTreeSet<u64>) -> BTreeSet<SocketAddr> {
    let peer = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, _, remote, state, _, _, _, _, _, inode, ..] = fields[..] else { return None };
        let is_one = state == ESTABLISHED && sockets.contains(&inode.parse().ok()?);
        is_one.then(|| address(remote))?
    };
    table.lines().filter_map(peer).collect()
}

/// An address and a port in hexadecimal: words of four octets, the first octet last.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let word = |from: usize| Some(u32::from_str_radix(address.get(from..from + 8)?, 16).ok()?.swap_bytes());
    let ip = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let octets = words.iter().fold(0_u128, |all, word| (all << 32) | u128::from(*word));
            // One with IPv4 over a socket for IPv6.
            IpAddr::V6(Ipv6Addr::from(octets)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::health::kernel;

    #[test]
    fn a_server_that_is_silent_twice_in_a_row_is_named_until_it_answers() {
        let (mut broker, mut now) = (Broker::default(), Instant::now());
        let server: SocketAddr = "10.0.0.1:5673".parse().unwrap();
        let mut say = |broker: &mut Broker, answers: bool| {
            assert!(broker.is_due(now));
            broker.take(&[(server, answers)].into(), now);
            assert!(!broker.is_due(now + ASKING - Duration::from_secs(1)));
            now += ASKING;
            broker.lost("Database:RabbitMQ")
        };
        for answers in [true, false, true, false] {
            assert_eq!(say(&mut broker, answers), None);
        }
        let lost = Some("Database:RabbitMQ (broker 10.0.0.1:5673 does not answer)".to_owned());
        assert_eq!((say(&mut broker, false), say(&mut broker, false)), (lost.clone(), lost));
        assert_eq!(say(&mut broker, true), None);
        assert_eq!((say(&mut broker, false), say(&mut broker, false).is_some()), (None, true));
        // The daemon has another one now.
        broker.take(&[("10.0.0.2:5673".parse().unwrap(), false)].into(), now);
        assert_eq!(broker.lost("Database:RabbitMQ"), None);
        broker.forget();
        assert!(broker.is_due(now));
    }

    #[test]
    fn the_tables_of_the_kernel_are_read_for_both_families() {
        let table = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 41 1 0 100 0 0 10 0
   1: 0100000A:C350 0200000A:1629 01 00000000:00000000 00:00000000 00000000     0        0 42 1 0 20 4 30 10 -1
   2: 0100000A:C351 0300000A:1629 01 00000000:00000000 00:00000000 00000000     0        0 43 1 0 20 4 30 10 -1
   3: 0100000A:C352 0400000A:1629 08 00000000:00000000 00:00000000 00000000     0        0 44 1 0 20 4 30 10 -1
";
        assert_eq!(peers(table, &[41, 42, 44, 45].into()), ["10.0.0.2:5673".parse().unwrap()].into());
        assert_eq!(address("B80D01200000000000000000010000000:1629"), None);
        assert_eq!(address("B80D0120000000000000000001000000:1629"), Some("[2001:db8::1]:5673".parse().unwrap()));
        assert_eq!(address("0000000000000000FFFF00000200000A:1629"), Some("10.0.0.2:5673".parse().unwrap()));
        assert_eq!(address(""), None);
    }

    #[test]
    fn the_server_that_this_process_is_connected_to_is_found() {
        let [one, other] = [(); 2].map(|()| TcpListener::bind(("127.0.0.1", 0)).unwrap());
        let [one, other] = [&one, &other].map(|listener| listener.local_addr().unwrap());
        let _stream = TcpStream::connect(one).unwrap();
        let group = rustix::process::getpgrp().as_raw_nonzero().get();
        let sockets = kernel::Processes::of(group).sockets;
        assert_eq!(used(&[one, other].into(), &sockets), [one].into());
    }
}
