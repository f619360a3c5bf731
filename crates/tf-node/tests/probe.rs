//! Probes of daemons that listen.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    num::NonZeroU16,
    sync::Arc,
    thread,
};

use common::{
    Container, files, shell,
    tls::{Authority, certify, trust},
};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tf_agent_api::launch::{Agent, Probe, one_worker};

/// Answers every connection in a thread.
fn server(answer: impl Fn(TcpStream) + Send + Sync + 'static) -> NonZeroU16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || listener.incoming().flatten().for_each(&answer));
    NonZeroU16::new(port).unwrap()
}

/// A daemon that runs, with this probe.
fn probed(ready: Probe) -> Container {
    let mut container = Container::new();
    change(&container, ready);
    container.run();
    container.wait("running", |state| state.pid.is_some());
    container
}

/// Another probe, which the next question already goes by.
fn change(container: &Container, ready: Probe) {
    let mut launch = shell("while :; do sleep 0.05; done");
    launch.ready = ready;
    let hash = container.configure(&launch, &files([]));
    container.annotate(Some(&hash));
    if container.child.is_some() {
        container.running(&hash);
    }
}

#[test]
fn a_daemon_without_a_port_serves_where_another_one_may_be_elected_and_not_where_its_port_says_nothing() {
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let of = |port: u16, elected| {
        let port = NonZeroU16::new(port).unwrap();
        Probe::NodeStatus { port, tls: false, functional: true, optional: BTreeSet::new(), elected }
    };
    let container = probed(of(closed, true));
    let (code, text) = container.probe(&[]);
    assert!(code == Some(0) && text.contains("another member is elected, or none is yet"), "{text}");
    change(&container, of(closed, false));
    assert_eq!(container.probe(&[]).0, Some(1));
    change(&container, of(server(drop).get(), true));
    assert_eq!(container.probe(&[]).0, Some(1), "who is elected has to say how it is");
}

/// Reads a request and answers `/good` well, `/moved` elsewhere, `/hangs` never and everything else badly.
fn http(mut stream: impl Read + Write) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if !stream.read(&mut byte).is_ok_and(|length| length == 1) {
            return;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let status = match head.split(' ').nth(1).unwrap() {
        "/good" => "200 OK",
        "/moved" => "301 Moved Permanently",
        "/hangs" => return thread::sleep(std::time::Duration::from_secs(60)),
        _ => "500 Internal Server Error",
    };
    let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 10\r\n\r\nFunctional");
    let _ = stream.flush();
}

fn get(port: NonZeroU16, path: &str, tls: bool, contains: Option<&str>) -> Probe {
    Probe::Http {
        port,
        path: path.into(),
        host: None,
        tls,
        contains: contains.map(str::to_owned),
        workers: one_worker(),
    }
}

#[test]
fn http_serves_when_the_answer_is_as_it_should_be() {
    let port = server(|stream| drop(thread::spawn(move || http(stream))));
    let container = probed(get(port, "/good", false, Some("Functional")));
    assert_eq!(container.probe(&[]), (Some(0), format!("GET http://127.0.0.1:{port}/good: status 200")));
    change(&container, get(port, "/moved", false, None));
    assert_eq!(container.probe(&[]).0, Some(0));
    change(&container, get(port, "/bad", false, None));
    assert_eq!(container.probe(&[]), (Some(1), format!("GET http://127.0.0.1:{port}/bad: status 500")));
    change(&container, get(port, "/good", false, Some("Initializing")));
    let told = format!("GET http://127.0.0.1:{port}/good: the answer does not contain \"Initializing\"");
    assert_eq!(container.probe(&[]), (Some(1), told));
    change(&container, get(port, "/hangs", false, None));
    assert_eq!(container.probe(&[]), (Some(1), "no answer within 2500 ms".into()));
}

#[test]
fn over_tls_both_sides_show_certificates_of_one_authority() {
    let authority = Authority::new();
    let config = authority.server(&authority.leaf("pod-0"));
    let port = server(move |stream| http(tls(stream, &config)));
    let container = probed(get(port, "/good", true, None));
    let (code, text) = container.probe(&[]);
    assert_eq!((code, text.as_str()), (Some(1), "there are no certificates of authorities yet"));
    trust(&container, &authority);
    assert_eq!(container.probe(&[]).0, Some(1), "the server wants to see a certificate");
    certify(&container, &authority.leaf("pod-0"));
    assert_eq!(container.probe(&[]), (Some(0), format!("GET https://127.0.0.1:{port}/good: status 200")));
    trust(&container, &Authority::new());
    let (code, text) = container.probe(&[]);
    assert_eq!(code, Some(1));
    assert!(text.contains("UnknownIssuer") || text.contains("certificate"), "{text}");
}

#[test]
fn a_rabbitmq_server_serves_when_it_speaks_tls_and_not_when_the_kernel_alone_takes_connections() {
    let authority = Authority::new();
    let config = authority.server(&authority.leaf("pod-0"));
    let port = server(move |stream| drop(tls(stream, &config).read(&mut [0])));
    let rabbitmq = |port| Probe::RabbitMq { port, management: port, definitions: None };
    let container = probed(rabbitmq(port));
    trust(&container, &authority);
    certify(&container, &authority.leaf("pod-0"));
    assert_eq!(container.probe(&[]), (Some(0), format!("port {port} accepts connections")));
    let hangs = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = NonZeroU16::new(hangs.local_addr().unwrap().port()).unwrap();
    change(&container, rabbitmq(port));
    assert_eq!(container.probe(&[]), (Some(1), "no answer within 2500 ms".into()));
    drop(hangs);
    let (code, text) = container.probe(&[]);
    assert_eq!(code, Some(1));
    assert!(text.starts_with(&format!("connect to 127.0.0.1:{port}")), "{text}");
}

fn tls(stream: TcpStream, config: &Arc<ServerConfig>) -> StreamOwned<ServerConnection, TcpStream> {
    StreamOwned::new(ServerConnection::new(Arc::clone(config)).unwrap(), stream)
}

/// Answers words of exactly four bytes.
fn zookeeper(stream: impl Read + Write, isro: &str, role: &str) {
    let mut stream = stream;
    let mut word = [0; 5];
    let length = stream.read(&mut word).unwrap_or(0);
    let answer = match &word[..length] {
        b"isro" => isro.to_owned(),
        b"conf" => format!("serverId=1\nmembership: \nserver.1=127.0.0.1:2888:3888:{role};127.0.0.1:2181\nversion=0"),
        _ => String::new(),
    };
    let _ = stream.write_all(answer.as_bytes());
}

#[test]
fn a_zookeeper_server_serves_as_a_voting_member_of_a_quorum() {
    let with = |isro: &'static str, role: &'static str| Probe::ZooKeeper {
        port: server(move |stream| zookeeper(stream, isro, role)),
        host: None,
        tls: false,
    };
    let container = probed(with("rw", "participant"));
    assert_eq!(container.probe(&[]), (Some(0), "server 1 is a voting member of a quorum".into()));
    change(&container, with("null", "participant"));
    let (code, text) = container.probe(&[]);
    assert_eq!((code, text.as_str()), (Some(1), "the server is not part of a quorum that writes: isro says \"null\""));
    change(&container, with("rw", "observer"));
    assert_eq!(container.probe(&[]), (Some(1), "server 1 follows the quorum and has no vote in it".into()));
}

#[test]
fn a_zookeeper_server_is_found_on_the_loopback_address_too_and_over_tls_is_not_looked_for_there() {
    // Nobody can be connected to there.
    let host = Some(Ipv4Addr::BROADCAST.into());
    let port = server(|stream| zookeeper(stream, "rw", "participant"));
    let container = probed(Probe::ZooKeeper { port, host, tls: false });
    assert_eq!(container.probe(&[]), (Some(0), "server 1 is a voting member of a quorum".into()));
    let failed = |probe: Probe| {
        change(&container, probe);
        let (code, text) = container.probe(&[]);
        assert_eq!(code, Some(1), "{text}");
        ["255.255.255.255", "127.0.0.1"].map(|host| text.contains(&format!("connect to {host}:")))
    };
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let closed = NonZeroU16::new(closed).unwrap();
    assert_eq!(failed(Probe::ZooKeeper { port: closed, host, tls: false }), [true, true]);
    assert_eq!(failed(Probe::ZooKeeper { port, host, tls: true }), [true, false]);
}

/// What the kubelet is answered.
fn kubelet(port: NonZeroU16, path: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port.get())).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    Some((head.split(' ').nth(1).unwrap().to_owned(), body.trim().to_owned()))
}

#[test]
fn the_kubelet_is_answered_without_a_certificate_on_the_loopback_address_alone() {
    let mut container = Container::new();
    container.environment.push(("POD_IP".into(), "127.0.0.2".into()));
    let agent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let agent = NonZeroU16::new(agent).unwrap();
    let open = server(http);
    let launch = |port| {
        let mut launch = shell("while :; do sleep 0.05; done");
        let host = Some(Ipv4Addr::LOCALHOST.into());
        launch.ready =
            Probe::Http { port, path: "/good".into(), host, tls: false, contains: None, workers: one_worker() };
        launch.agent = Some(Agent { port: agent, client: "o".into() });
        launch
    };
    let hash = container.configure(&launch(open), &files([]));
    container.run();
    container.running(&hash);
    let answer = container.wait_for("answer", || kubelet(agent, "/ready/d"));
    assert_eq!(answer, ("200".into(), format!("GET http://127.0.0.1:{open}/good: status 200")));
    assert_eq!(kubelet(agent, "/ready/e").unwrap(), ("503".into(), "no node agent supervises it".into()));
    assert_eq!(kubelet(agent, "/").unwrap().0, "404");
    assert!(TcpStream::connect(("127.0.0.2", agent.get())).is_err(), "at another address");
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let hash = container.configure(&launch(NonZeroU16::new(closed).unwrap()), &files([]));
    container.annotate(Some(&hash));
    container.running(&hash);
    let (code, why) = container.wait_for("a refusal", || kubelet(agent, "/ready/d").filter(|(code, _)| code == "503"));
    assert!(code == "503" && why.contains("refused"), "{why}");
}
