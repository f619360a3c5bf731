//! A router in a network namespace of its own, which answers datagrams and TCP connections, and a probe that finds out how many
//! answers were lost.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket},
    os::fd::{AsRawFd as _, RawFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use netlink_packet_route::{
    address::{AddressAttribute, AddressFlags},
    link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkMessage},
};

use crate::kernel::{Kernel, open};

/// What is behind the router.
pub const FAR: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
pub const PORT: u16 = 7007;
const EVERY: Duration = Duration::from_millis(2);

/// A router. It ends when it is dropped.
pub struct Router {
    namespace: File,
    go: mpsc::Sender<()>,
    ready: mpsc::Receiver<()>,
    is_over: Arc<AtomicBool>,
}

impl Router {
    pub fn start() -> Self {
        let (go, went) = mpsc::channel();
        let (send, ready) = mpsc::channel();
        let (send_namespace, namespace) = mpsc::channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        thread::spawn(move || {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            send_namespace.send(File::open("/proc/thread-self/ns/net").unwrap()).unwrap();
            if went.recv().is_err() {
                return;
            }
            let kernel = open();
            kernel.set("lo", vec![]);
            kernel.set("peer0", vec![]);
            kernel.address("peer0", "10.0.0.1/24", vec![]);
            let no_check = || vec![AddressAttribute::Flags(AddressFlags::Nodad)];
            kernel.address("peer0", "2001:db8::1/64", no_check());
            kernel.address("lo", "198.51.100.1/32", vec![]);
            let datagrams = UdpSocket::bind((FAR, PORT)).unwrap();
            let listener = TcpListener::bind((FAR, PORT)).unwrap();
            thread::spawn(move || {
                for mut stream in listener.incoming().map_while(Result::ok) {
                    thread::spawn(move || io::copy(&mut stream.try_clone().unwrap(), &mut stream));
                }
            });
            send.send(()).unwrap();
            datagrams.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            let mut buffer = [0; 64];
            while !over.load(Ordering::Relaxed) {
                if let Ok((length, from)) = datagrams.recv_from(&mut buffer) {
                    let _ = datagrams.send_to(&buffer[..length], from);
                }
            }
        });
        Self { namespace: namespace.recv().unwrap(), go, ready, is_over }
    }

    /// Connects the uplink of a node with it.
    pub fn connect(&self, kernel: &Kernel, uplink: &str) {
        let descriptor: RawFd = self.namespace.as_raw_fd();
        let mut peer = LinkMessage::default();
        peer.attributes = vec![LinkAttribute::IfName("peer0".into()), LinkAttribute::NetNsFd(descriptor)];
        kernel.add(uplink, InfoKind::Veth, Some(InfoData::Veth(InfoVeth::Peer(peer))), vec![]);
        self.go.send(()).unwrap();
        self.ready.recv().unwrap();
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Asks what is behind the router, every 2 ms, from the moment it is made.
pub struct Probe {
    is_over: Arc<AtomicBool>,
    thread: thread::JoinHandle<Loss>,
    stream: TcpStream,
}

/// What a probe has found out.
#[derive(Debug)]
pub struct Loss {
    pub sent: u64,
    pub refused: u64,
    pub lost: u64,
}

impl Probe {
    /// From the network namespace of this thread. Waits for the first answer.
    pub fn start() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        socket.connect((FAR, PORT)).unwrap();
        let stream = TcpStream::connect_timeout(&(FAR, PORT).into(), Duration::from_secs(5)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            // Timeouts of a socket are as coarse as the kernel's clock.
            socket.set_nonblocking(true).unwrap();
            let (mut sent, mut refused, mut received) = (0_u64, 0, 0);
            let mut buffer = [0; 8];
            while !over.load(Ordering::Relaxed) {
                let next = Instant::now() + EVERY;
                match socket.send(&sent.to_be_bytes()) {
                    Ok(_) => sent += 1,
                    Err(_) => refused += 1,
                }
                thread::sleep(next.saturating_duration_since(Instant::now()));
                while socket.recv(&mut buffer).is_ok() {
                    received += 1;
                }
            }
            socket.set_nonblocking(false).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            while received < sent && socket.recv(&mut buffer).is_ok() {
                received += 1;
            }
            Loss { sent, refused, lost: sent - received }
        });
        let mut probe = Self { is_over, thread, stream };
        probe.exchange();
        probe
    }

    /// Says something over the connection that was made at the beginning, and gets it back.
    pub fn exchange(&mut self) {
        self.stream.write_all(b"still here").unwrap();
        let mut answer = [0; 10];
        self.stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"still here");
    }

    pub fn end(mut self) -> Loss {
        self.exchange();
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
