//! contrail-vrouter-agent, as far as it goes without the kernel module: nothing is forwarded, and over the connections to control nodes and
//! DNS daemons no XMPP is spoken.
//!
//! It looks whether the interfaces and addresses of its file are those of the node, connects to the servers that are named there, and says
//! by introspection what it has: never `Functional`, since nobody gives it the configuration of its node (tf-components 1.9).

pub mod options;

use std::{
    collections::BTreeMap,
    fs,
    net::{IpAddr, Ipv4Addr, UdpSocket},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use hyper::StatusCode;
use tokio::time::{sleep, timeout};

use self::options::Options;
use crate::{
    exit::{Exit, exception, usage},
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
/// For a connection.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two attempts, and two looks at a connection.
const PERIOD: Duration = Duration::from_secs(2);

/// How connections to DNS daemons are called.
const DNS: &str = "dns-server:";

type Tls = Option<(Pair, PathBuf)>;

/// Who it is connected to.
#[derive(Default)]
struct Connections(Mutex<BTreeMap<(&'static str, String), State>>);

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
    let text = fs::read_to_string(file).map_err(|error| exception(format!("{file}: {error}")))?;
    let options = Options::read(&text)?;
    look(&options)?;
    let connections = Arc::new(Connections::default());
    let (address, pair) = options.introspect.clone();
    let (name, told, has_control) = (options.name.clone(), Arc::clone(&connections), !options.control.is_empty());
    introspect::serve(address, pair, "text/xml", move || told.page(&name, has_control)).await?;
    let ports = http::listen((Ipv4Addr::UNSPECIFIED.into(), options.rest)).await?;
    let unknown = |_: Question| async { (StatusCode::NOT_FOUND, "application/json", "{}".to_owned()) };
    tokio::spawn(http::serve(ports, None, unknown));
    for (kind, prefix, servers, tls) in [
        ("XMPP", "control-node:", options.control.iter().take(USED), &options.xmpp_tls),
        ("XMPP", DNS, options.dns.iter().take(USED), &options.xmpp_tls),
        ("Collector", "", options.collectors.iter().take(1), &options.collector_tls),
    ] {
        for server in servers {
            let host = server.rsplit_once(':').map_or(server.as_str(), |(host, _)| host);
            let name = if prefix.is_empty() { kind.to_owned() } else { format!("{prefix}{host}") };
            let server = if prefix == DNS { format!("{host}:{DNS_XMPP}") } else { server.clone() };
            connections.set(kind, &name, State::Initializing);
            tokio::spawn(watch(Arc::clone(&connections), kind, name, server, tls.clone()));
        }
    }
    if options.control.is_empty() {
        log::say("No control-nodes configured");
    }
    Ok(())
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

/// Keeps a connection to a server. Nothing is said over it.
async fn watch(connections: Arc<Connections>, kind: &'static str, name: String, server: String, tls: Tls) {
    loop {
        let connected = timeout(PATIENCE, tls::connect(&server, tls.as_ref())).await;
        let state = match connected.context("no answer").flatten() {
            Ok(()) => State::Up(server.clone()),
            Err(error) => State::Down(format!("{error:#}")),
        };
        connections.set(kind, &name, state);
        sleep(PERIOD).await;
    }
}

impl Connections {
    fn set(&self, kind: &'static str, name: &str, state: State) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.insert((kind, name.to_owned()), state.clone());
        match (&before, &state) {
            (Some(before), now) if before == now => {}
            (Some(State::Down(_)), State::Down(_)) | (_, State::Initializing) => {}
            (_, State::Up(server)) => log::say(&format!("{name}: connection up, {server}")),
            (_, State::Down(why)) => log::say(&format!("{name}: connection down, {why}")),
        }
    }

    /// Why it is not functional: it has no control nodes, all of them are lost, or none has told it what its node is.
    fn page(&self, node: &str, has_control: bool) -> String {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let connections: Vec<Connection> =
            all.into_iter().map(|((kind, name), state)| Connection { kind, name, state }).collect();
        let is_control = |connection: &&Connection| connection.name.starts_with("control-node:");
        let control: Vec<Connection> = connections.iter().filter(is_control).cloned().collect();
        let is_lost = !control.iter().any(|connection| matches!(connection.state, State::Up(_)));
        let why = match (has_control, is_lost) {
            (false, _) => "No control-nodes configured".to_owned(),
            (true, true) => status::down(&connections).unwrap_or_default(),
            (true, false) => "No Configuration for self".to_owned(),
        };
        let process = Process { table: "ObjectVRouter", module: NAME, instance: "0" };
        status::page(&process, node, &connections, Some(&why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_never_functional_and_says_what_it_lacks() {
        let connections = Connections::default();
        assert!(connections.page("n", false).contains(">No control-nodes configured<"));
        connections.set("XMPP", "control-node:10.0.0.1", State::Down("refused".into()));
        assert!(connections.page("n", true).contains("XMPP:control-node:10.0.0.1[refused] connection down"));
        connections.set("XMPP", "control-node:10.0.0.1", State::Up("10.0.0.1:5269".into()));
        let page = connections.page("n", true);
        assert!(page.contains(">No Configuration for self<") && page.contains(">Non-Functional<"), "{page}");
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
