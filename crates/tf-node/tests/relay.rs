//! A Redis on the loopback address for daemons that neither speak TLS nor log in.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use common::{
    Container, files,
    redis::request,
    shell,
    tls::{Authority, trust},
};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tf_agent_api::launch::{OnChange, Relay};

const PASSWORD: &str = "Redis-Pass 0123";

/// As much of Redis as asks for a password and answers `PING`, and nobody while it is switched off.
fn redis(config: Arc<ServerConfig>) -> (NonZeroU16, Arc<AtomicBool>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = NonZeroU16::new(listener.local_addr().unwrap().port()).unwrap();
    let on = Arc::new(AtomicBool::new(true));
    let is_on = Arc::clone(&on);
    thread::spawn(move || {
        for stream in listener.incoming().flatten().filter(|_| is_on.load(Ordering::Relaxed)) {
            let config = Arc::clone(&config);
            thread::spawn(move || {
                serve(BufReader::new(StreamOwned::new(ServerConnection::new(config).unwrap(), stream)));
            });
        }
    });
    (port, on)
}

fn serve(mut stream: BufReader<impl Read + Write>) {
    let mut known = false;
    while let Some(words) = request(&mut stream) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        known |= words == ["AUTH", PASSWORD];
        let answer = match words[..] {
            ["AUTH", PASSWORD] => "+OK",
            ["AUTH", _] => "-WRONGPASS",
            _ if !known => "-NOAUTH Authentication required.",
            ["PING"] => "+PONG",
            _ => "-ERR",
        };
        if stream.get_mut().write_all(format!("{answer}\r\n").as_bytes()).is_err() {
            return;
        }
        let _ = stream.get_mut().flush();
    }
}

/// What a client that speaks neither TLS nor logs in is answered.
fn ask(port: NonZeroU16) -> Option<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port.get())).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(b"PING\r\n").ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    (!line.is_empty()).then(|| line.trim_end().to_owned())
}

fn free_port() -> NonZeroU16 {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    NonZeroU16::new(port).unwrap()
}

fn configured(container: &Container, relay: &Relay, password: &str) {
    let mut launch = shell("while :; do sleep 0.05; done");
    launch.files.insert("redis-password".into(), OnChange::Nothing);
    launch.relay = Some(relay.clone());
    let hash = container.configure(&launch, &files([("redis-password", password)]));
    container.annotate(Some(&hash));
    if container.child.is_some() {
        container.running(&hash);
    }
}

#[test]
fn a_client_without_tls_and_password_is_carried_to_a_server_that_asks_for_both() {
    let authority = Authority::new();
    let (server, on) = redis(authority.leaf("redis").server());
    let port = free_port();
    let relay = Relay {
        port,
        host: "127.0.0.1".into(),
        server,
        tls: true,
        authorities: None,
        password: Some("redis-password".into()),
    };
    let mut container = Container::new();
    trust(&container, &authority);
    configured(&container, &relay, PASSWORD);
    container.run();
    container.wait("running", |state| state.pid.is_some());
    container.wait_for("an answer", || ask(port).filter(|answer| answer == "+PONG"));
    assert_eq!(container.probe(&[]), (Some(0), "its process runs".into()));

    // A server of somebody else's is not talked to, and the daemon does not serve.
    trust(&container, &Authority::new());
    assert_eq!(ask(port), None);
    let (code, text) = container.probe(&[]);
    assert!(code == Some(1) && text.starts_with(&format!("Redis 127.0.0.1:{server}: TLS")), "{text}");
    trust(&container, &authority);

    // The password is read for each connection, and told to nobody.
    configured(&container, &relay, "another-one");
    container.wait_for("no answer", || ask(port).is_none().then_some(()));
    let (code, text) = container.probe(&[]);
    assert!(code == Some(1) && text.contains("WRONGPASS"), "{text}");
    assert!(!container.log().contains("another-one") && !container.log().contains(PASSWORD));
    configured(&container, &relay, PASSWORD);
    container.wait_for("an answer", || ask(port).filter(|answer| answer == "+PONG"));

    // A server that goes and comes.
    on.store(false, Ordering::Relaxed);
    assert_eq!(container.probe(&[]).0, Some(1));
    on.store(true, Ordering::Relaxed);
    container.wait_for("an answer", || ask(port).filter(|answer| answer == "+PONG"));
    assert_eq!(container.probe(&[]).0, Some(0));
}

#[test]
fn where_the_relay_leads_can_be_changed_and_it_ends_with_its_launch_file() {
    let authority = Authority::new();
    let (first, _) = redis(authority.leaf("redis").server());
    let (second, _) = redis(authority.leaf("redis").server());
    let relay = |port, server| Relay {
        port,
        host: "127.0.0.1".into(),
        server,
        tls: true,
        authorities: None,
        password: Some("redis-password".into()),
    };
    let port = free_port();
    let mut container = Container::new();
    trust(&container, &authority);
    configured(&container, &relay(port, first), PASSWORD);
    container.run();
    container.wait_for("an answer", || ask(port));
    configured(&container, &relay(port, second), PASSWORD);
    container.wait_for("an answer", || ask(port).filter(|answer| answer == "+PONG"));
    let other = free_port();
    configured(&container, &relay(other, second), PASSWORD);
    container.wait_for("an answer", || ask(other).filter(|answer| answer == "+PONG"));
    assert_eq!(ask(port), None, "nobody listens there any more");
}
