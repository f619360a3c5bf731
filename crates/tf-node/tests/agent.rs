//! The agent API, as an operator and as everybody else sees it.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{
    fs,
    io::Write as _,
    net::{Ipv4Addr, TcpListener, TcpStream},
    num::NonZeroU16,
};

use common::{
    Container, files, shell,
    tls::{Authority, certify, trust},
};
use rustls::version::{TLS12, TLS13};
use tf_plan::node::{
    self,
    launch::{Agent, Probe},
    state::{Phase, Status},
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
fn the_port_follows_the_configuration() {
    let (container, _) = member();
    let authority = Authority::new();
    trust(&container, &authority);
    certify(&container, &authority.leaf("pod-0"));
    let port = free_port();
    let mut launch = shell("while :; do sleep 0.05; done");
    launch.agent = Some(Agent { port, client: OPERATOR.into() });
    launch.ready = Probe::Tcp { port: free_port(), host: None };
    let hash = container.configure(&launch, &files([]));
    let pid = container.state().unwrap().pid;
    container.annotate(Some(&hash));
    assert_eq!(container.running(&hash).pid, pid, "the daemon is not touched");
    let operator = authority.leaf(OPERATOR);
    let answer =
        container.wait_for("answer", || authority.get(Some(&operator), &[&TLS13], port.get(), "/v1/status").ok());
    assert!(!body(&answer).health.unwrap().serves, "nobody listens where the probe asks");
}
