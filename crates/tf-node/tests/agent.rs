//! The agent API, as an operator and as everybody else sees it.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    num::NonZeroU16,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use common::{
    Container, files, shell,
    tls::{Authority, certify, put, trust},
};
use rustls::version::{TLS12, TLS13};
use tf_agent_api::{
    launch::{Agent, OnChange, Probe, one_worker},
    node,
    state::{Network, Phase, Status},
};

const OPERATOR: &str = "zookeeper-op.tf.svc";

fn free_port() -> NonZeroU16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    NonZeroU16::new(listener.local_addr().unwrap().port()).unwrap()
}

/// A member with an agent that has no certificate yet.
fn member() -> (Container, NonZeroU16) {
    let mut container = Container::new();
    let port = free_port();
    let mut launch = shell("while :; do sleep 0.05; done");
    launch.agent = Some(Agent { port, client: OPERATOR.into() });
    let hash = container.configure(&launch, &files([]));
    // The directories are volumes, which are there from the beginning.
    fs::create_dir_all(container.path(node::CERTIFICATE_DIR)).unwrap();
    fs::create_dir_all(container.path(node::CA_DIR)).unwrap();
    container.run();
    container.running(&hash);
    (container, port)
}

fn body(answer: &str) -> Status {
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn the_operator_gets_the_status_and_nobody_else_gets_anything() {
    let (container, port) = member();
    let port = port.get();
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err(), "not served without a certificate");
    let authority = Authority::new();
    trust(&container, &authority);
    let member = authority.leaf("pod-0");
    certify(&container, &member);
    let operator = authority.leaf(OPERATOR);
    let answer = container.wait_for("answer", || authority.get(Some(&operator), &[&TLS13], port, "/v1/status").ok());
    let status = body(&answer);
    assert_eq!((status.pod.as_str(), status.node.as_str(), status.address.as_str()), ("pod-0", "node-0", "127.0.0.1"));
    assert_eq!(Some(&status.daemons["d"]), container.state().as_ref());
    assert_eq!(status.daemons["d"].phase, Phase::Running);
    assert!(status.health.unwrap().serves);
    let other_path = authority.get(Some(&operator), &[&TLS13], port, "/").unwrap();
    assert!(other_path.starts_with("HTTP/1.1 404 "), "{other_path}");

    let stranger = Authority::new();
    let refused = |what: &str, answer: std::io::Result<String>| assert!(answer.is_err(), "{what} was let in");
    refused("a client without a certificate", authority.get(None, &[&TLS13], port, "/v1/status"));
    refused("another member", authority.get(Some(&member), &[&TLS13], port, "/v1/status"));
    refused(
        "another operator",
        authority.get(Some(&authority.leaf("cassandra-op.tf.svc")), &[&TLS13], port, "/v1/status"),
    );
    refused(
        "a namesake of another authority",
        authority.get(Some(&stranger.leaf(OPERATOR)), &[&TLS13], port, "/v1/status"),
    );
    refused("TLS 1.2", authority.get(Some(&operator), &[&TLS12], port, "/v1/status"));
    let mut plain = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let _ = plain.write_all(b"GET /v1/status HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut plain, &mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP"), "plain text was answered");
}

#[test]
fn new_certificates_and_authorities_count_at_once_and_broken_ones_change_nothing() {
    let (container, port) = member();
    let port = port.get();
    let old = Authority::new();
    trust(&container, &old);
    certify(&container, &old.leaf("pod-0"));
    let client = old.leaf(OPERATOR);
    container.wait_for("answer", || old.get(Some(&client), &[&TLS13], port, "/v1/status").ok());

    fs::write(container.path(node::CERTIFICATE), "garbage").unwrap();
    container
        .wait_for("trouble", || container.log().contains("the member's certificate is not readable").then_some(()));
    old.get(Some(&client), &[&TLS13], port, "/v1/status").unwrap();

    let new = Authority::new();
    trust(&container, &new);
    certify(&container, &new.leaf("pod-0"));
    let new_client = new.leaf(OPERATOR);
    container.wait_for("answer", || new.get(Some(&new_client), &[&TLS13], port, "/v1/status").ok());
    assert!(
        old.get(Some(&client), &[&TLS13], port, "/v1/status").is_err(),
        "the old authority is not trusted any more"
    );
}

#[test]
fn what_the_node_has_in_a_network_is_told_where_that_is_asked_for() {
    let (container, port) = member();
    let authority = Authority::new();
    trust(&container, &authority);
    certify(&container, &authority.leaf("pod-0"));
    let operator = authority.leaf(OPERATOR);
    let told = || {
        let answer = authority.get(Some(&operator), &[&TLS13], port.get(), "/v1/status").ok()?;
        Some(body(&answer).network)
    };
    assert_eq!(container.wait_for("answer", told), None);
    for (network, addresses) in [("127.0.0.0/24", vec!["127.0.0.1"]), ("127.0.9.0/24", vec![])] {
        let mut launch = shell("while :; do sleep 0.05; done");
        launch.agent = Some(Agent { port, client: OPERATOR.into() });
        launch.network = Some(network.parse().unwrap());
        let pid = container.state().unwrap().pid;
        let hash = container.configure(&launch, &files([]));
        container.annotate(Some(&hash));
        assert_eq!(container.running(&hash).pid, pid, "the daemon is not touched");
        let addresses = addresses.into_iter().map(|address| address.parse().unwrap()).collect();
        let expected = Network { network: network.parse().unwrap(), addresses };
        container.wait_for("addresses", || told()?.filter(|told| *told == expected));
    }
}

#[test]
fn a_namesake_of_an_authority_above_the_operators_is_not_let_in() {
    let (container, port) = member();
    let port = port.get();
    let (own, above) = (Authority::new(), Authority::new());
    put(&container.path(node::CA_BUNDLE), &[own.pem.as_str(), &above.pem].concat());
    put(&container.path(node::CA_SIGNERS), &own.pem);
    certify(&container, &own.leaf("pod-0"));
    let [operator, namesake] = [&own, &above].map(|authority| authority.leaf(OPERATOR));
    container.wait_for("answer", || own.get(Some(&operator), &[&TLS13], port, "/v1/status").ok());
    assert!(own.get(Some(&namesake), &[&TLS13], port, "/v1/status").is_err());
}

#[test]
fn the_port_follows_the_configuration() {
    let (container, _) = member();
    let authority = Authority::new();
    trust(&container, &authority);
    certify(&container, &authority.leaf("pod-0"));
    let port = free_port();
    let mut launch = shell("while :; do sleep 0.05; done");
    launch.agent = Some(Agent { port, client: OPERATOR.into() });
    launch.ready = Probe::Dns { port: free_port() };
    let hash = container.configure(&launch, &files([]));
    let pid = container.state().unwrap().pid;
    container.annotate(Some(&hash));
    assert_eq!(container.running(&hash).pid, pid, "the daemon is not touched");
    let operator = authority.leaf(OPERATOR);
    let answer =
        container.wait_for("answer", || authority.get(Some(&operator), &[&TLS13], port.get(), "/v1/status").ok());
    assert!(!body(&answer).health.unwrap().serves, "nobody listens where the probe asks");
}

#[test]
fn an_operator_that_asks_often_costs_the_daemon_nothing() {
    let (container, _) = member();
    let authority = Authority::new();
    trust(&container, &authority);
    certify(&container, &authority.leaf("pod-0"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let daemon = NonZeroU16::new(listener.local_addr().unwrap().port()).unwrap();
    let requests = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&requests);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            *counted.lock().unwrap() += 1;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    let port = free_port();
    let mut launch = shell("while :; do sleep 0.05; done");
    launch.agent = Some(Agent { port, client: OPERATOR.into() });
    let workers = one_worker();
    launch.ready = Probe::Http { port: daemon, path: "/".into(), host: None, tls: false, contains: None, workers };
    let hash = container.configure(&launch, &files([]));
    container.annotate(Some(&hash));
    container.running(&hash);
    let operator = authority.leaf(OPERATOR);
    let serves = || {
        let answer = authority.get(Some(&operator), &[&TLS13], port.get(), "/v1/status").ok()?;
        body(&answer).health.filter(|health| health.serves)
    };
    container.wait_for("health", serves);
    thread::sleep(Duration::from_secs(3));
    let before = *requests.lock().unwrap();
    let begun = Instant::now();
    (0..100).for_each(|_| assert!(serves().is_some()));
    let looks = begun.elapsed().as_secs() / 2 + 2;
    let asked = *requests.lock().unwrap() - before;
    assert!(asked <= looks, "{asked} requests within {:?}", begun.elapsed());
}

/// The side of a ZooKeeper server in its protocol: it notes what it is asked, and answers a change with this error and data.
fn zookeeper(error: i32, data: &'static [u8]) -> (NonZeroU16, Arc<Mutex<Vec<Vec<u8>>>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = NonZeroU16::new(listener.local_addr().unwrap().port()).unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&asked);
    let frame = |parts: &[&[u8]]| {
        let body = parts.concat();
        [&(body.len() as i32).to_be_bytes()[..], &body].concat()
    };
    let head =
        move |xid: i32, error: i32| [&xid.to_be_bytes()[..], &7_i64.to_be_bytes(), &error.to_be_bytes()].concat();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut length = [0; 4];
            while stream.read_exact(&mut length).is_ok() {
                let Ok(length) = usize::try_from(i32::from_be_bytes(length)) else { break };
                // A four-letter word has no length.
                if length > 1 << 20 {
                    break;
                }
                let mut message = vec![0; length];
                stream.read_exact(&mut message).unwrap();
                let answer = match message.get(4..8).map(|kind| i32::from_be_bytes(kind.try_into().unwrap())) {
                    Some(100) => frame(&[&head(-4, 0)]),
                    Some(16) => {
                        let length = (data.len() as i32).to_be_bytes();
                        frame(&[&head(1, error), &length, data])
                    }
                    Some(-11) => break,
                    // The beginning of a session: version, timeout, session, password.
                    _ => frame(&[&0_i32.to_be_bytes(), &4000_i32.to_be_bytes(), &[0; 8], &[0; 4]]),
                };
                notes.lock().unwrap().push(message);
                stream.write_all(&answer).unwrap();
            }
        }
    });
    (port, asked)
}

const PASSWORD: &str = "hunter2-of-super";

/// A member whose daemon is a ZooKeeper server on this port, with the password of `super` or without.
fn zookeeper_member(port: NonZeroU16, password: bool) -> (Container, impl Fn(&str, &str) -> io::Result<String>) {
    let mut container = Container::new();
    let agent = free_port();
    let mut launch = shell("while :; do sleep 0.05; done");
    launch.agent = Some(Agent { port: agent, client: OPERATOR.into() });
    launch.ready = Probe::ZooKeeper { port, host: None, tls: false };
    if password {
        launch.files.insert("super".into(), OnChange::Restart);
        container.publish(&container.paths().secret_dir(), &files([("super", PASSWORD)]));
    }
    container.configure(&launch, &files([]));
    let authority = Authority::new();
    trust(&container, &authority);
    certify(&container, &authority.leaf("pod-0"));
    container.run();
    let operator = authority.leaf(OPERATOR);
    let ask = move |method: &str, body: &str| {
        let length = body.len();
        let request = format!(
            "{method} /v1/zookeeper/reconfig HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let agent = SocketAddr::from((Ipv4Addr::LOCALHOST, agent.get()));
        authority.ask(Some(&operator), &[&TLS13], agent, &request)
    };
    container.wait_for("served", || ask("GET", "").ok());
    (container, ask)
}

const REMOVE: &str = r#"{"kind":"Remove","id":2,"version":4294967298}"#;
const ADD: &str = r#"{"kind":"Add","id":2,"server":{"address":"fd00::2","quorumPort":2888,"electionPort":3888,"votes":true,"clientAddress":"fd00::2","clientPort":2181},"version":4294967298}"#;

#[test]
fn the_operator_changes_the_list_of_members() {
    let (port, asked) = zookeeper(0, b"server.1=10.0.0.1:2888:3888:participant;10.0.0.1:2181\nversion=100000003");
    let (container, ask) = zookeeper_member(port, true);
    for body in [ADD, REMOVE] {
        let answer = ask("POST", body).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"version\":4294967299"), "{answer}");
    }
    let asked = asked.lock().unwrap();
    let [_, password, add, _, _, remove] = &asked[..] else { panic!("{asked:?}") };
    assert!(password.ends_with(format!("\0\0\0\x06digest\0\0\0\x16super:{PASSWORD}").as_bytes()));
    let text = |text: &str| [&(text.len() as i32).to_be_bytes()[..], text.as_bytes()].concat();
    let (nothing, version) = ((-1_i32).to_be_bytes(), 0x1_0000_0002_i64.to_be_bytes());
    let entry = text("server.2=[fd00::2]:2888:3888:participant;[fd00::2]:2181");
    assert_eq!(add[8..], [&entry[..], &nothing, &nothing, &version].concat());
    assert_eq!(remove[8..], [&nothing[..], &text("2"), &nothing, &version].concat());
    assert!(!container.log().contains(PASSWORD));
}

#[test]
fn a_change_that_is_refused_or_cannot_be_asked_for_is_answered_with_the_reason() {
    let expect = |answer: io::Result<String>, status: u16, text: &str| {
        let answer = answer.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(text), "{answer}");
    };
    let (port, asked) = zookeeper(-103, b"");
    let (container, ask) = zookeeper_member(port, true);
    expect(ask("GET", ""), 405, "only POST");
    expect(ask("POST", ""), 400, "not a change");
    expect(ask("POST", &" ".repeat(20_000)), 400, "too long");
    expect(ask("POST", &ADD.replace("fd00::2", "a,server.3=b")), 400, "neither an address nor a name");
    assert!(asked.lock().unwrap().is_empty());
    expect(ask("POST", REMOVE), 409, r#"{"error":"BadVersion"}"#);

    let (_member, ask) = zookeeper_member(zookeeper(-102, b"").0, true);
    expect(ask("POST", REMOVE), 503, "does not know this password");
    let (_member, ask) = zookeeper_member(free_port(), true);
    expect(ask("POST", REMOVE), 503, "connect to 127.0.0.1");
    let (_member, ask) = zookeeper_member(port, false);
    expect(ask("POST", REMOVE), 503, "has no file");
    assert!(!container.log().contains(PASSWORD));

    let (container, port) = member();
    let authority = Authority::new();
    trust(&container, &authority);
    certify(&container, &authority.leaf("pod-0"));
    let operator = authority.leaf(OPERATOR);
    let get = || authority.get(Some(&operator), &[&TLS13], port.get(), "/v1/zookeeper/reconfig").ok();
    expect(Ok(container.wait_for("answer", get)), 404, "error");
}
