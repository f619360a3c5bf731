//! contrail-vrouter-agent, as far as it goes without the kernel module: nothing is forwarded, and over the connections to control nodes and
//! DNS daemons no XMPP is spoken.
//!
//! It looks whether the interfaces and addresses of its file are those of the node, connects to the servers that are named there, and says
//! by introspection what it has. It is `Functional` when a control node says that there is a virtual-router of its name
//! (docs/upstream/daemons.md#reasons): it asks the played ones by that name, over the connection that they let it have.

pub mod cni;
pub mod options;
mod ports;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{IpAddr, Ipv4Addr, UdpSocket},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::watch,
    task::AbortHandle,
    time::{sleep, timeout},
};

use self::{options::Options, ports::Ports};
use crate::{
    exit::{Exit, exception, usage},
    hangup,
    http::{self, Question},
    introspect, log,
    options::Pair,
    status::{self, Connection, Process, State},
    tls,
};

/// Name of the program, and of the module in NodeStatus.
pub const NAME: &str = "contrail-vrouter-agent";
const FILE: &str = "/etc/contrail/contrail-vrouter-agent.conf";
/// Where DNS daemons listen for agents, whatever port of theirs the file names for machines (upstream `controller_init.cc`).
const DNS_XMPP: u16 = 8093;
/// Of the control nodes and DNS servers it uses so many.
const USED: usize = 2;
/// What it says whose virtual-router no control node knows.
const NO_ROUTER: &str = "No Configuration for self";
/// For a connection.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two attempts, and two looks at a connection.
const PERIOD: Duration = Duration::from_secs(2);

/// The kind of the connection to a collector, and its name.
const COLLECTOR: &str = "Collector";
/// How connections to control nodes are called.
const CONTROL: &str = "control-node:";
/// How connections to DNS daemons are called.
const DNS: &str = "dns-server:";

type Tls = Option<(Pair, PathBuf)>;
/// Kind and name of a connection.
type Name = (&'static str, String);
type Servers = BTreeMap<Name, String>;

/// Who it is connected to.
#[derive(Default)]
struct Connections {
    states: Mutex<BTreeMap<Name, State>>,
    /// Control nodes that know a virtual-router of its name.
    informed: Mutex<BTreeSet<String>>,
}

/// Plays it until somebody ends it.
///
/// # Errors
/// What ends it.
pub async fn run(arguments: &[String]) -> Result<(), Exit> {
    let file = match arguments {
        [] => FILE,
        [option, file] if option == "--config_file" => file,
        _ => return Err(usage("unrecognised option")),
    };
    let options = read(file)?;
    look(&options)?;
    let connections = Arc::new(Connections::default());
    let (address, pair) = options.introspect.clone();
    let (name, told) = (options.name.clone(), Arc::clone(&connections));
    introspect::serve(address, pair, introspect::NATIVE, move || told.page(&name)).await?;
    let rest = http::listen((Ipv4Addr::UNSPECIFIED.into(), options.rest)).await?;
    let ports = Arc::new(Ports::kept());
    let answer = move |question: Question| {
        let ports = Arc::clone(&ports);
        async move { ports.answer(&question) }
    };
    tokio::spawn(http::serve(rest, None, http::Server::Native, answer));
    if options.control.is_empty() {
        log::say("No control-nodes configured");
    }
    let file = file.to_owned();
    let lists = hangup::followed(servers(&options), move || Ok(servers(&read(&file)?)))?;
    tokio::spawn(connect(connections, lists, options));
    Ok(())
}

fn read(file: &str) -> Result<Options, Exit> {
    let text = fs::read_to_string(file).map_err(|error| exception(format!("{file}: {error}")))?;
    Options::read(&text)
}

/// The servers that it connects to, by kind and name of the connection.
fn servers(options: &Options) -> Servers {
    let host = |server: &str| server.rsplit_once(':').map_or(server, |(host, _)| host).to_owned();
    let control = |server: &String| (("XMPP", format!("{CONTROL}{}", host(server))), server.clone());
    let dns = |server: &String| {
        let host = host(server);
        (("XMPP", format!("{DNS}{host}")), format!("{host}:{DNS_XMPP}"))
    };
    let collector = |server: &String| ((COLLECTOR, COLLECTOR.to_owned()), server.clone());
    let xmpp = options.control.iter().take(USED).map(control).chain(options.dns.iter().take(USED).map(dns));
    xmpp.chain(options.collectors.first().map(collector)).collect()
}

/// Keeps connections to the servers of the lists. Those that are in no list any more are let go, and those that stay go on.
async fn connect(connections: Arc<Connections>, mut lists: watch::Receiver<Servers>, options: Options) {
    let mut kept: BTreeMap<Name, (String, AbortHandle)> = BTreeMap::new();
    loop {
        let wanted = lists.borrow_and_update().clone();
        kept.retain(|name, (server, task)| {
            let stays = wanted.get(name) == Some(server);
            if !stays {
                task.abort();
                connections.forget(name);
            }
            stays
        });
        for (name, server) in wanted {
            if kept.contains_key(&name) {
                continue;
            }
            connections.set(&name, State::Initializing);
            let asked = name.1.starts_with(CONTROL).then(|| options.name.clone());
            let tls = if name.0 == COLLECTOR { &options.collector_tls } else { &options.xmpp_tls };
            let task = tokio::spawn(keep(Arc::clone(&connections), name.clone(), server.clone(), tls.clone(), asked));
            kept.insert(name, (server, task.abort_handle()));
        }
        if lists.changed().await.is_err() {
            return;
        }
    }
}

/// Whether the node is as the file says. The agent itself asks the kernel module, which is not there.
fn look(options: &Options) -> Result<(), Exit> {
    for name in options.interfaces.iter().chain([&options.vhost0]) {
        if !Path::new("/sys/class/net").join(name).exists() {
            return Err(exception(format!("there is no interface {name}")));
        }
    }
    if options.interfaces.is_empty() || options.addresses.is_empty() {
        return Err(exception("physical_interface or compute_node_address is missing"));
    }
    let own = |address: &IpAddr| UdpSocket::bind((*address, 0)).is_ok();
    let addresses = options.addresses.iter().copied().chain(options.ip.map(|(address, _)| address));
    match addresses.into_iter().find(|address| !own(address)) {
        Some(address) => Err(exception(format!("{address} is not an address of this node"))),
        None => Ok(()),
    }
}

/// Looks whether a server is there, again and again. `asked`: who it is asked for. Nothing else is said.
async fn keep(connections: Arc<Connections>, name: Name, server: String, tls: Tls, asked: Option<String>) {
    loop {
        let connected = timeout(PATIENCE, tls::connect(&server, tls.as_ref())).await;
        let state = match connected.context("no answer").flatten() {
            Ok(stream) => {
                if let Some(asked) = &asked {
                    let answer = timeout(PATIENCE, ask(stream, asked)).await;
                    connections.inform(&name.1, answer.context("no answer").flatten().unwrap_or_default());
                }
                State::Up(server.clone())
            }
            Err(error) => State::Down(format!("{error:#}")),
        };
        connections.set(&name, state);
        sleep(PERIOD).await;
    }
}

/// Whether a control node knows a virtual-router of this name. One that lacks its own configuration says nothing.
async fn ask(mut stream: Box<dyn tls::Stream>, name: &str) -> Result<bool> {
    stream.write_all(format!("{name}\n").as_bytes()).await?;
    stream.flush().await?;
    Ok(stream.read_u8().await? == b'1')
}

impl Connections {
    fn inform(&self, name: &str, knows: bool) {
        let mut informed = self.informed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = if knows { informed.insert(name.to_owned()) } else { informed.remove(name) };
        if is_news {
            log::say(&format!("{name}: {}", if knows { "there is a virtual-router of its name" } else { NO_ROUTER }));
        }
    }

    fn forget(&self, name: &Name) {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        self.inform(&name.1, false);
        log::say(&format!("{}: connection closed", name.1));
    }

    fn set(&self, name: &Name, state: State) {
        let mut all = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.insert(name.clone(), state.clone());
        let name = &name.1;
        match (&before, &state) {
            (Some(before), now) if before == now => {}
            (Some(State::Down(_)), State::Down(_)) | (_, State::Initializing) => {}
            (_, State::Up(server)) => log::say(&format!("{name}: connection up, {server}")),
            (_, State::Down(why)) => log::say(&format!("{name}: connection down, {why}")),
        }
    }

    /// Why it is not functional: it has no control nodes, all of them are lost, or none has told it what its node is.
    fn page(&self, node: &str) -> String {
        let all = self.states.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let connections: Vec<Connection> =
            all.into_iter().map(|((kind, name), state)| Connection { kind, name, state }).collect();
        let is_control = |connection: &&Connection| connection.name.starts_with(CONTROL);
        let control: Vec<Connection> = connections.iter().filter(is_control).cloned().collect();
        let is_lost = !control.iter().any(|connection| matches!(connection.state, State::Up(_)));
        let informed = self.informed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_up = |connection: &Connection| matches!(connection.state, State::Up(_));
        let is_known = control.iter().any(|connection| is_up(connection) && informed.contains(&connection.name));
        let why = match (!control.is_empty(), is_lost) {
            (false, _) => Some("No control-nodes configured".to_owned()),
            (true, true) => Some(status::down(&connections).unwrap_or_default()),
            (true, false) => (!is_known).then(|| NO_ROUTER.to_owned()),
        };
        let process = Process { table: "ObjectVRouter", module: NAME, instance: "0" };
        status::page(&process, node, &connections, why.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_functional_when_a_control_node_knows_it_and_says_what_it_lacks() {
        let connections = Connections::default();
        assert!(connections.page("n").contains(">No control-nodes configured<"));
        let control: Name = ("XMPP", "control-node:10.0.0.1".into());
        connections.set(&control, State::Down("refused".into()));
        assert!(connections.page("n").contains("XMPP:control-node:10.0.0.1[refused] connection down"));
        connections.set(&control, State::Up("10.0.0.1:5269".into()));
        let page = connections.page("n");
        assert!(page.contains(">No Configuration for self<") && page.contains(">Non-Functional<"), "{page}");
        connections.inform("control-node:10.0.0.1", true);
        assert!(connections.page("n").contains(">Functional<"));
        connections.set(&control, State::Down("refused".into()));
        assert!(!connections.page("n").contains(">Functional<"), "what it was told is from before");
        connections.set(&control, State::Up("10.0.0.1:5269".into()));
        assert!(connections.page("n").contains(">Functional<"));
        connections.forget(&control);
        assert!(!connections.page("n").contains(">Functional<"), "it knows of no control node");
    }

    #[test]
    fn interfaces_and_addresses_are_those_of_the_node() {
        let with = |interface: &str, address: &str| {
            let text = format!(
                "[DEFAULT]\nhostname = n\nagent_name = n\n[VIRTUAL-HOST-INTERFACE]\nname = lo\n\
                 physical_interface = {interface}\ncompute_node_address = {address}\n"
            );
            look(&Options::read(&text).unwrap()).map_err(|exit| exit.why)
        };
        assert_eq!(with("lo", "127.0.0.1"), Ok(()));
        assert!(with("eth99", "127.0.0.1").unwrap_err().contains("no interface eth99"));
        assert!(with("lo", "192.0.2.199").unwrap_err().contains("192.0.2.199 is not an address"));
        assert!(with("", "127.0.0.1").is_err());
    }
}
