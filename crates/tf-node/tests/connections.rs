//! What a daemon that serves is not connected to, by what it says, its workers say, and the Kubernetes API says.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{
    collections::BTreeSet,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use common::{
    Container,
    api_server::ApiServer,
    files, settle, shell,
    tls::{Authority, certify, trust},
};
use http::StatusCode;
use rustls::ServerConnection;
use tf_agent_api::launch::{Connections, Launch, OnChange, Probe, Reads};

const BUS: &str = "Database:RabbitMQ";

/// A daemon's introspection.
struct Introspection {
    port: NonZeroU16,
    is_up: Arc<AtomicBool>,
}

impl Introspection {
    /// It says that the daemon is connected to the bus.
    fn start() -> Self {
        Self::naming("")
    }

    /// The same, to one of these servers.
    fn naming(servers: &str) -> Self {
        let servers = servers.to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = NonZeroU16::new(listener.local_addr().unwrap().port()).unwrap();
        let is_up = Arc::new(AtomicBool::new(true));
        let told = Arc::clone(&is_up);
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 4096]);
                let status = if told.load(Ordering::SeqCst) { "Up" } else { "Down" };
                let page = format!(
                    "<__NodeStatusUVE_list><ProcessStatus><state>Functional</state><connection_infos><ConnectionInfo><type>Database</type>\
                     <name>RabbitMQ</name><server_addrs>{servers}</server_addrs><status>{status}</status><description>refused</description></ConnectionInfo>\
                     </connection_infos></ProcessStatus></__NodeStatusUVE_list>"
                );
                let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{page}", page.len());
            }
        });
        Self { port, is_up }
    }

    fn say(&self, is_up: bool) {
        self.is_up.store(is_up, Ordering::SeqCst);
    }
}

fn serves(port: NonZeroU16) -> Launch {
    let mut launch = shell("while :; do sleep 0.05; done");
    launch.ready = Probe::NodeStatus { port, tls: false, functional: true, optional: BTreeSet::new(), elected: true };
    launch
}

#[test]
fn each_worker_is_asked_and_named_by_its_number() {
    let (first, second) = (Introspection::start(), Introspection::start());
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let third = NonZeroU16::new(closed.local_addr().unwrap().port()).unwrap();
    let mut launch = serves(first.port);
    let connections = |workers| Connections {
        port: first.port,
        tls: false,
        optional: BTreeSet::new(),
        patience: None,
        servers: BTreeSet::new(),
        workers,
    };
    launch.connections = Some(connections(vec![second.port]));
    let mut container = Container::new();
    let hash = container.configure(&launch, &files([]));
    container.annotate(Some(&hash));
    container.run();
    container.wait("both up", |state| state.connections.get(BUS) == Some(&true) && state.lacks.is_none());

    second.say(false);
    let told = container.wait("the second one's loss", |state| state.lacks.is_some());
    assert_eq!(told.lacks.as_deref(), Some("worker 1: Database:RabbitMQ (refused)"));
    assert_eq!(told.connections.get(BUS), Some(&false), "it is up for one of two");
    second.say(true);
    container.wait("no loss", |state| state.lacks.is_none());

    drop(closed);
    launch.connections = Some(connections(vec![second.port, third]));
    let hash = container.configure(&launch, &files([]));
    container.annotate(Some(&hash));
    let told = container.wait("the third one's silence", |state| state.lacks.is_some()).lacks.unwrap();
    assert!(told.starts_with(&format!("worker 2: connect to 127.0.0.1:{third}")), "{told}");
}

#[test]
fn a_broker_that_falls_silent_is_named_by_the_agent_of_a_daemon_that_does_not_notice() {
    let broker = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = broker.local_addr().unwrap();
    // Servers that it names and does not use, nobody asks: these would not answer.
    let unused = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let names = format!("<element>{}</element><element>{address}</element>", unused.local_addr().unwrap());
    let daemon = Introspection::naming(&names);
    let authority = Authority::new();
    let mut container = Container::new();
    trust(&container, &authority);
    certify(&container, &authority.leaf("pod-0"));
    let mut launch = serves(daemon.port);
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}; while :; do sleep 0.05; done", address.port());
    launch.argv = ["/bin/bash", "-c", &script].map(str::to_owned).to_vec();
    launch.connections = Some(Connections {
        port: daemon.port,
        tls: false,
        optional: BTreeSet::new(),
        patience: None,
        servers: [BUS.to_owned()].into(),
        workers: Vec::new(),
    });
    let hash = container.configure(&launch, &files([]));
    container.annotate(Some(&hash));
    container.run();
    container.wait("serving", |state| state.serves == Some(true) && state.connections.get(BUS) == Some(&true));
    assert_eq!(container.state().unwrap().lacks, None, "one silence is none");
    thread::sleep(Duration::from_secs(10));
    let told = container.wait("its silence", |state| state.lacks.is_some());
    let expected = format!("{BUS} (broker {address} does not answer)");
    assert_eq!((told.lacks, told.connections.get(BUS)), (Some(expected), Some(&false)));
    assert_eq!((told.serves, told.restarts), (Some(true), 0));

    let config = authority.server(&authority.leaf("pod-0"));
    thread::spawn(move || {
        for mut stream in broker.incoming().flatten() {
            let config = Arc::clone(&config);
            thread::spawn(move || {
                let mut connection = ServerConnection::new(config).unwrap();
                while connection.complete_io(&mut stream).is_ok_and(|(read, _)| read > 0) {}
            });
        }
    });
    container.wait("its answer", |state| state.lacks.is_none() && state.connections.get(BUS) == Some(&true));
}

/// A daemon that reads these lists with a token of its own, from where it may be that nobody listens.
fn reading_from(container: &Container, port: NonZeroU16, lists: &[&str], server: Option<SocketAddr>) {
    let mut launch = serves(port);
    launch.files.insert("kubernetes.token".into(), OnChange::Nothing);
    let lists = lists.iter().map(|&list| list.to_owned()).collect();
    launch.kubernetes = Some(Reads { token: "kubernetes.token".into(), lists, server });
    let hash = container.configure(&launch, &files([("kubernetes.token", "of the daemon")]));
    container.annotate(Some(&hash));
}

fn reading(container: &Container, port: NonZeroU16, lists: &[&str]) {
    reading_from(container, port, lists, None);
}

#[test]
fn an_address_of_the_kubernetes_api_that_leads_nowhere_is_told_and_nobody_is_stopped_for_it() {
    let (daemon, server) = (Introspection::start(), ApiServer::start());
    let mut container = Container::new();
    server.mount(&mut container, "of the pod");
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    reading_from(&container, daemon.port, &["/api/v1/pods"], Some(nobody));
    container.run();
    let told = container.wait("told", |state| state.lacks.is_some());
    let expected = format!("Kubernetes:API (connect to {nobody}: ");
    assert!(told.lacks.as_deref().is_some_and(|lacks| lacks.starts_with(&expected)), "{:?}", told.lacks);
    assert_eq!((told.serves, told.connections.get("Kubernetes:API")), (Some(true), Some(&false)));

    let _somebody = TcpListener::bind(nobody).unwrap();
    let told = container.wait("reached", |state| state.lacks.is_none());
    assert_eq!((told.restarts, told.connections.get("Kubernetes:API")), (0, Some(&true)));
}

#[test]
fn what_the_kubernetes_api_refuses_a_daemon_that_is_at_work_is_told_in_its_words() {
    let (daemon, server) = (Introspection::start(), ApiServer::start());
    let mut container = Container::new();
    server.mount(&mut container, "of the pod");
    reading(&container, daemon.port, &["/api/v1/pods", "/api/v1/services"]);
    container.run();
    container.wait("let in", |state| state.connections.get("Kubernetes:API") == Some(&true) && state.lacks.is_none());
    assert_eq!(server.last_token().as_deref(), Some("Bearer of the daemon"));

    for (list, status) in [("/api/v1/services", StatusCode::FORBIDDEN), ("/api/v1/pods", StatusCode::UNAUTHORIZED)] {
        server.refuse(list, Some(status));
        let told = container.wait("refused", |state| state.lacks.is_some());
        let expected = format!("Kubernetes:API (GET {list}: status {}: {list} is forbidden)", status.as_u16());
        assert_eq!((told.lacks, told.connections.get("Kubernetes:API")), (Some(expected), Some(&false)));
        server.refuse(list, None);
        container.wait("let in again", |state| state.lacks.is_none());
    }
}

#[test]
fn an_api_that_fails_refuses_nobody_and_who_waits_for_its_turn_does_not_ask() {
    let (daemon, server) = (Introspection::start(), ApiServer::start());
    server.refuse("/api/v1/pods", Some(StatusCode::SERVICE_UNAVAILABLE));
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let mut container = Container::new();
    server.mount(&mut container, "of the pod");
    reading(&container, NonZeroU16::new(closed).unwrap(), &["/api/v1/pods"]);
    container.run();
    container.wait("standby", |state| state.standby);
    assert_eq!(server.last_token(), None, "who waits asked");

    reading(&container, daemon.port, &["/api/v1/pods"]);
    container.wait("asked", |_| server.last_token().is_some());
    settle();
    let told = container.state().unwrap();
    assert_eq!((told.lacks, told.connections.get("Kubernetes:API")), (None, None));
    server.refuse("/api/v1/pods", None);
    container.wait("let in", |state| state.connections.get("Kubernetes:API") == Some(&true));
}
