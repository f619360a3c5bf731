//! A Redis server hands over the writes to another one.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufReader, Read, Write},
    net::{IpAddr, Ipv4Addr, TcpListener},
    num::NonZeroU16,
    process::Output,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use common::{
    Container, DAEMON, files,
    redis::request,
    shell,
    tls::{Authority, trust},
};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tf_agent_api::{
    launch::{OnChange, Probe},
    redis::{DIRECTORY, PASSWORD_FILE, PEER_PASSWORD_FILE, Replication},
};

/// The server that takes writes at first.
const OWN: u8 = 1;
/// The one that takes them when a Sentinel has made it.
const NEXT: u8 = 3;
const MASTER: &str = "redis1";
/// From the begin of a failover to its end.
const FAILOVER: Duration = Duration::from_millis(700);

/// What a Sentinel does when it is asked to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Begins,
    BeginsAndHangs,
    Declines,
}

/// Three members.
#[derive(Debug)]
struct World {
    port: u16,
    master: u8,
    /// Who copies [`OWN`] and gets what changes.
    online: BTreeSet<u8>,
    /// Whose servers do not answer.
    down: BTreeSet<u8>,
    asked: BTreeMap<u8, Asked>,
    /// What was done, in order.
    said: Vec<String>,
    fails_over: bool,
    /// Whether a copy starts anew when clients wait.
    leaves_when_paused: bool,
}

type Shared = Arc<Mutex<World>>;

fn address(index: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, index)
}

/// A port of all three addresses.
fn listen() -> (u16, Vec<TcpListener>) {
    loop {
        let first = TcpListener::bind((address(1), 0)).unwrap();
        let port = first.local_addr().unwrap().port();
        let others = [2, 3].map(|index| TcpListener::bind((address(index), port)));
        if let [Ok(second), Ok(third)] = others {
            return (port, vec![first, second, third]);
        }
    }
}

fn serve(
    listener: TcpListener,
    config: &Arc<ServerConfig>,
    answer: impl Fn(&[&str]) -> Option<String> + Clone + Send + 'static,
) {
    let config = Arc::clone(config);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (config, answer) = (Arc::clone(&config), answer.clone());
            thread::spawn(move || {
                let stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
                answer_all(BufReader::new(stream), answer);
            });
        }
    });
}

fn answer_all(mut stream: BufReader<impl Read + Write>, answer: impl Fn(&[&str]) -> Option<String>) {
    while let Some(words) = request(&mut stream) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some(answer) = answer(&words) else { return };
        if stream.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
        let _ = stream.get_mut().flush();
    }
}

fn text(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn info(world: &World, index: u8) -> String {
    let World { port, master, online, .. } = world;
    let mut lines = vec!["redis_version:7.0.15".to_owned(), "loading:0".into()];
    if index == *master {
        lines.extend(["role:master".into(), "master_repl_offset:42".into()]);
        let copies = online.iter().zip(0..);
        lines.extend(
            copies
                .map(|(copy, at)| format!("slave{at}:ip={},port={port},state=online,offset=42,lag=0", address(*copy))),
        );
    } else {
        let host = address(*master);
        lines.extend(["role:slave".into(), format!("master_host:{host}"), format!("master_port:{port}")]);
        lines.extend(["master_link_status:up".into(), "slave_repl_offset:42".into()]);
    }
    lines.join("\r\n")
}

fn of_server(world: &Shared, index: u8, words: &[&str]) -> Option<String> {
    let mut world = world.lock().unwrap();
    if world.down.contains(&index) {
        return None;
    }
    let done = |world: &mut World, what: &str| {
        world.said.push(format!("{index}: {what}"));
        "+OK\r\n".to_owned()
    };
    Some(match words {
        ["AUTH", ..] => "+OK\r\n".into(),
        ["INFO"] => text(&info(&world, index)),
        ["CLIENT", "PAUSE", _, "WRITE"] => {
            if world.leaves_when_paused {
                world.online.remove(&2);
            }
            done(&mut world, "pause")
        }
        ["CLIENT", "UNPAUSE"] => done(&mut world, "unpause"),
        ["REPLICAOF", host, _] => {
            assert_eq!(*host, address(world.master).to_string());
            done(&mut world, "copies")
        }
        other => format!("-ERR {other:?}\r\n"),
    })
}

fn of_sentinel(shared: &Shared, index: u8, words: &[&str]) -> Option<String> {
    let mut world = shared.lock().unwrap();
    Some(match words {
        ["AUTH", ..] | ["SENTINEL", "CKQUORUM", MASTER] => "+OK\r\n".into(),
        ["SENTINEL", "MASTER", MASTER] => {
            let ip = address(world.master).to_string();
            let words = ["ip", &ip, "config-epoch", "1", "num-other-sentinels", "2"].map(text);
            format!("*{}\r\n{}", words.len(), words.concat())
        }
        ["SENTINEL", "FAILOVER", MASTER] if world.fails_over => "-INPROG Failover already in progress\r\n".into(),
        ["SENTINEL", "FAILOVER", MASTER] => {
            let asked = world.asked[&index];
            if asked == Asked::Declines {
                return Some("-NOGOODSLAVE No suitable replica to promote\r\n".into());
            }
            world.said.push(format!("{index}: begins"));
            world.fails_over = true;
            drop(world);
            let shared = Arc::clone(shared);
            thread::spawn(move || {
                thread::sleep(FAILOVER);
                let mut world = shared.lock().unwrap();
                (world.master, world.fails_over) = (NEXT, false);
            });
            if asked == Asked::BeginsAndHangs {
                thread::sleep(Duration::from_secs(3));
                return None;
            }
            "+OK\r\n".into()
        }
        other => format!("-ERR {other:?}\r\n"),
    })
}

/// The members, and the container of the first one.
fn members(change: impl FnOnce(&mut World)) -> (Shared, Container) {
    let authority = Authority::new();
    let config = authority.leaf("redis").server();
    let ((port, servers), (sentinel, sentinels)) = (listen(), listen());
    let mut world = World {
        port,
        master: OWN,
        online: [2, 3].into(),
        down: BTreeSet::new(),
        asked: [1, 2, 3].map(|index| (index, Asked::Begins)).into(),
        said: Vec::new(),
        fails_over: false,
        leaves_when_paused: false,
    };
    change(&mut world);
    let world = Arc::new(Mutex::new(world));
    for (listener, index) in servers.into_iter().zip(1..) {
        let world = Arc::clone(&world);
        serve(listener, &config, move |words| of_server(&world, index, words));
    }
    for (listener, index) in sentinels.into_iter().zip(1..) {
        let world = Arc::clone(&world);
        serve(listener, &config, move |words| of_sentinel(&world, index, words));
    }
    let mut launch = shell("while :; do sleep 0.05; done");
    let replication = Replication {
        master: MASTER.into(),
        sentinel: NonZeroU16::new(sentinel).unwrap(),
        members: [1, 2, 3].map(|index| IpAddr::V4(address(index))).into(),
    };
    launch.ready = Probe::Redis { port: NonZeroU16::new(port).unwrap(), replication: Some(replication) };
    let passwords = [PASSWORD_FILE, PEER_PASSWORD_FILE];
    launch.files = passwords.map(|name| (name.to_owned(), OnChange::Nothing)).into();
    let mut container = Container::new();
    trust(&container, &authority);
    fs::create_dir_all(container.path(DIRECTORY)).unwrap();
    let hash = container.configure(&launch, &files(passwords.map(|name| (name, "secret"))));
    container.annotate(Some(&hash));
    container.run();
    container.running(&hash);
    (world, container)
}

fn step_down(container: &Container) -> Output {
    container.command(&["step-down", DAEMON]).output().unwrap()
}

fn said(world: &Shared) -> Vec<String> {
    world.lock().unwrap().said.clone()
}

#[test]
fn of_two_that_have_it_hand_over_the_second_one_waits_and_finds_it_done() {
    let (world, container) = members(|_| {});
    thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| step_down(&container)));
        for one in both {
            let output = one.join().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
    });
    assert_eq!(said(&world), ["1: pause", "2: begins", "1: copies", "1: unpause"]);
}

#[test]
fn no_second_sentinel_begins_where_the_first_one_may_have() {
    let (world, container) = members(|world| {
        world.asked.insert(2, Asked::BeginsAndHangs);
    });
    assert!(step_down(&container).status.success());
    assert_eq!(said(&world), ["1: pause", "2: begins", "1: copies", "1: unpause"]);
}

#[test]
fn the_next_sentinel_begins_where_one_declines_to() {
    let (world, container) = members(|world| {
        world.asked.insert(2, Asked::Declines);
    });
    assert!(step_down(&container).status.success());
    assert_eq!(said(&world), ["1: pause", "3: begins", "1: copies", "1: unpause"]);
}

#[test]
fn clients_write_again_where_no_sentinel_begins() {
    let (world, container) = members(|world| world.asked.values_mut().for_each(|asked| *asked = Asked::Declines));
    let output = step_down(&container);
    assert!(!output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains("NOGOODSLAVE"));
    assert_eq!(said(&world), ["1: pause", "1: unpause"]);
}

#[test]
fn a_server_that_has_just_started_is_waited_for_before_clients_have_to_wait() {
    let (world, container) = members(|world| {
        world.online.remove(&2);
    });
    let starting = Arc::clone(&world);
    thread::spawn(move || {
        thread::sleep(Duration::from_secs(1));
        let mut world = starting.lock().unwrap();
        world.online.insert(2);
        world.said.push("2: copies".into());
    });
    assert!(step_down(&container).status.success());
    assert_eq!(said(&world), ["2: copies", "1: pause", "2: begins", "1: copies", "1: unpause"]);
}

#[test]
fn a_server_that_answers_and_copies_nobody_could_be_chosen_and_nothing_is_handed_over() {
    let (world, container) = members(|world| {
        world.online.remove(&2);
    });
    let output = step_down(&container);
    assert!(!output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains("127.0.0.2 answers and does not copy it yet"));
    assert_eq!(said(&world), <[&str; 0]>::default());
}

#[test]
fn a_server_that_does_not_answer_is_not_waited_for() {
    let (world, container) = members(|world| {
        world.online.remove(&2);
        world.down.insert(2);
    });
    assert!(step_down(&container).status.success());
    assert_eq!(said(&world), ["1: pause", "2: begins", "1: copies", "1: unpause"]);
}

#[test]
fn a_copy_that_starts_anew_while_clients_wait_is_waited_for() {
    let (world, container) = members(|world| world.leaves_when_paused = true);
    assert!(!step_down(&container).status.success());
    assert_eq!(said(&world), ["1: pause", "1: unpause"]);
}
