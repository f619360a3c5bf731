//! What the health monitor makes of a daemon that is asked by HTTP: of several workers behind one port, and of one at rest.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{
    collections::BTreeSet,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener},
    num::{NonZeroU16, NonZeroU32},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use common::{
    Container, files, shell,
    tls::{Authority, certify, trust},
};
use rustls::{ServerConnection, StreamOwned};
use tf_agent_api::launch::{Launch, Probe};

/// Two workers behind one port, to which connections are dealt in turn.
struct Workers {
    port: NonZeroU16,
    ready: [Arc<AtomicBool>; 2],
    answers: Arc<AtomicU32>,
}

impl Workers {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = NonZeroU16::new(listener.local_addr().unwrap().port()).unwrap();
        let ready = [true, false].map(|ready| Arc::new(AtomicBool::new(ready)));
        let (workers, answers) = (ready.clone(), Arc::new(AtomicU32::new(0)));
        let answered = Arc::clone(&answers);
        thread::spawn(move || {
            for (number, mut stream) in listener.incoming().flatten().enumerate() {
                let _ = stream.read(&mut [0; 4096]);
                let is_ready = workers[number % 2].load(Ordering::SeqCst);
                let status = if is_ready { "200 OK" } else { "503 Service Unavailable" };
                let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                answered.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { port, ready, answers }
    }

    fn set(&self, worker: usize, is_ready: bool) {
        self.ready[worker].store(is_ready, Ordering::SeqCst);
    }

    fn probe(&self, workers: u32) -> Launch {
        let mut launch = shell("while :; do sleep 0.05; done");
        let workers = NonZeroU32::new(workers).unwrap();
        launch.ready =
            Probe::Http { port: self.port, path: "/".into(), host: None, tls: false, contains: None, workers };
        launch
    }
}

#[test]
fn two_workers_behind_one_port_serve_when_both_answer_well_and_not_before() {
    let workers = Workers::start();
    let mut container = Container::new();
    let hash = container.configure(&workers.probe(2), &files([]));
    container.annotate(Some(&hash));
    container.run();
    let why = container.wait("what is missing", |state| state.unwell.as_ref().is_some_and(|why| why.contains("50")));
    assert_eq!(why.serves, Some(false));
    // For as long as one of the two says that it does not serve, no look takes the other's word for both.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        assert_eq!(container.state().unwrap().serves, Some(false));
        assert_eq!(container.probe(&[]).0, Some(1), "nor does who asks once");
        thread::sleep(Duration::from_millis(100));
    }
    let before = workers.answers.load(Ordering::SeqCst);
    workers.set(1, true);
    let state = container.wait("both", |state| state.serves == Some(true));
    assert!(workers.answers.load(Ordering::SeqCst) - before >= 6);
    assert_eq!((container.probe(&[]).0, state.restarts), (Some(0), 0));

    workers.set(0, false);
    container.wait("one of them", |state| state.serves == Some(false));
    workers.set(0, true);
    container.wait("both again", |state| state.serves == Some(true) && state.unwell.is_none());
}

#[test]
fn one_worker_serves_with_its_first_good_answer() {
    let workers = Workers::start();
    let mut container = Container::new();
    let hash = container.configure(&workers.probe(1), &files([]));
    container.annotate(Some(&hash));
    container.run();
    container.wait("one good answer", |state| state.serves == Some(true));
}

/// Introspection over TLS that counts: what was asked, how many handshakes were completed, and how many connections ended within one.
#[derive(Default)]
struct Counts {
    requests: AtomicU32,
    greetings: AtomicU32,
    broken: AtomicU32,
    hangs: AtomicBool,
}

fn introspection(counts: &Arc<Counts>, authority: &Authority) -> NonZeroU16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = NonZeroU16::new(listener.local_addr().unwrap().port()).unwrap();
    let (config, counts) = (authority.server(&authority.leaf("pod-0")), Arc::clone(counts));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            while counts.hangs.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(20));
            }
            let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            while connection.is_handshaking() {
                if connection.complete_io(&mut stream).is_err() {
                    counts.broken.fetch_add(1, Ordering::SeqCst);
                    break;
                }
            }
            counts.greetings.fetch_add(1, Ordering::SeqCst);
            let mut stream = StreamOwned::new(connection, stream);
            // An error where the connection does not end in order.
            match stream.read(&mut [0; 4096]) {
                Ok(0) => continue,
                Ok(_) => {}
                Err(_) => {
                    counts.broken.fetch_add(1, Ordering::SeqCst);
                    continue;
                }
            }
            counts.requests.fetch_add(1, Ordering::SeqCst);
            let page =
                "<__NodeStatusUVE_list><ProcessStatus><state>Functional</state></ProcessStatus></__NodeStatusUVE_list>";
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{page}", page.len());
            let _ = stream.flush();
            let _ = stream.read(&mut [0; 1]);
        }
    });
    port
}

#[test]
fn a_daemon_at_rest_is_rarely_asked_and_its_silence_is_seen_all_the_same() {
    let (counts, authority) = (Arc::new(Counts::default()), Authority::new());
    let port = introspection(&counts, &authority);
    let mut container = Container::new();
    trust(&container, &authority);
    certify(&container, &authority.leaf("pod-0"));
    let mut launch = shell("while :; do sleep 0.05; done");
    launch.ready = Probe::NodeStatus { port, tls: true, functional: true, optional: BTreeSet::new(), elected: false };
    let hash = container.configure(&launch, &files([]));
    container.annotate(Some(&hash));
    container.run();
    container.wait("serving", |state| state.serves == Some(true));
    thread::sleep(Duration::from_secs(34));
    let count = || (counts.requests.load(Ordering::SeqCst), counts.greetings.load(Ordering::SeqCst));
    let before = count();
    thread::sleep(Duration::from_secs(30));
    let (requests, greetings) = (count().0 - before.0, count().1 - before.1);
    assert!((1..=2).contains(&requests), "{requests} requests within 30 s");
    assert!((10..=16).contains(&greetings), "{greetings} connections within 30 s");
    assert_eq!(container.state().unwrap().serves, Some(true));

    // Nobody answers, for longer than a look waits: the handshakes that have begun are completed all the same.
    counts.hangs.store(true, Ordering::SeqCst);
    let begun = Instant::now();
    let told = container.wait("its silence", |state| state.unwell.is_some());
    let took = begun.elapsed();
    println!("seen after {took:.1?}");
    assert!(took < Duration::from_secs(8), "seen after {took:?}");
    assert_eq!((told.unwell.as_deref(), told.serves), (Some("no answer within 1500 ms"), Some(false)));
    counts.hangs.store(false, Ordering::SeqCst);
    container.wait("an answer", |state| state.serves == Some(true) && state.unwell.is_none());
    assert_eq!(counts.broken.load(Ordering::SeqCst), 0, "no connection was dropped");
    assert_eq!(container.state().unwrap().restarts, 0);
}
