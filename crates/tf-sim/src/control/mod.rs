//! contrail-control and contrail-dns, as far as they go without routes and names: they read the configuration's database, hear the message
//! bus, connect to a collector, let agents in over TLS, and say by introspection how all that is. Neither XMPP nor BGP is spoken.
//!
//! contrail-control lacks its configuration until the API was told of a bgp-router of its name, and lets every agent go meanwhile; the real
//! one hears of it over the message bus, this one looks into the database. In place of an agent's configuration, which the real one distributes
//! over XMPP, this one answers an agent's name with whether the database has a virtual-router of that name. Whose tables these are, [`directory`] says. contrail-dns writes the files of the name server ([`named`]) once.

pub mod directory;
pub mod named;
pub mod options;

use std::{fs, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader},
    net::TcpListener,
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

use self::{
    directory::Directory,
    options::{Daemon, Options},
};
use crate::{
    collector,
    exit::{Exit, exception, usage},
    hangup, http, introspect, log,
    options::Tls,
    status::{Peer, Status},
    stores::{cassandra::Database, rabbitmq::Bus},
    tls,
};

/// For a connection.
const PATIENCE: Duration = Duration::from_secs(5);
/// Of a line that an agent says, in bytes.
const LONGEST: u64 = 512;
/// Between two looks.
const PERIOD: Duration = Duration::from_secs(2);
/// What it says that lacks its bgp-router.
const NO_ROUTER: &str = "No BGP configuration for self";

/// The type of what a control node is in the configuration.
pub const BGP_ROUTER: &str = "bgp-router";
/// The type of what an agent is there.
pub const VIRTUAL_ROUTER: &str = "virtual-router";

/// Under which key the database has the bgp-router or virtual-router of a node; none for what is no name of one.
pub fn key(kind: &str, name: &str) -> Option<String> {
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    is_name.then(|| format!("{kind}:{name}"))
}

/// Plays one until somebody ends it.
///
/// # Errors
/// What ends it.
pub async fn run(daemon: Daemon, arguments: &[String]) -> Result<(), Exit> {
    let [option, file] = arguments else { return Err(usage("unrecognised option")) };
    if option != "--conf_file" {
        return Err(usage("unrecognised option"));
    }
    let options = read_file(daemon, file)?;
    let directory = Directory::of_environment()?;
    let mut peers = vec![Peer::Cassandra, Peer::RabbitMq];
    peers.extend((!options.collectors.is_empty()).then_some(Peer::Collector));
    let status = Status::new(daemon.name(), "0", &options.name, &peers).in_table("ObjectBgpRouter");
    let status = Arc::new(status);
    if daemon == Daemon::Control {
        status.lacks(Some(NO_ROUTER));
    }
    let page = Arc::clone(&status);
    let (address, pair) = options.introspect.clone();
    introspect::serve(address, pair, introspect::NATIVE, move || page.page()).await?;
    let database = Database::new(&options.cassandra, &status);
    // Agents and peers are let in at that address alone (upstream `main.cc`, `CreateXmppServer`; `bgp_session_manager.cc`; `agent_xmpp_init.cc`).
    let agents = http::listen((options.address, options.xmpp)).await?;
    let told = (daemon == Daemon::Control).then(|| (Arc::clone(&database), directory));
    tokio::spawn(admit(agents, options.xmpp_tls.clone(), Arc::clone(&status), told));
    if let Some(port) = options.bgp {
        let peers = http::listen((options.address, port)).await?;
        tokio::spawn(admit(peers, None, Arc::clone(&status), None));
    }
    if let Some(named) = &options.named {
        named::write(named).map_err(|error| exception(format!("{error:#}")))?;
    }
    let collectors = hangup::followed(options.collectors.clone(), again(daemon, file.clone()))?;
    tokio::spawn(collector::report(collectors, options.collector_tls.clone(), Arc::clone(&status)));
    tokio::spawn(read((database, directory), options.name.clone(), daemon, Arc::clone(&status)));
    tokio::spawn(hear(options, status));
    Ok(())
}

fn read_file(daemon: Daemon, file: &str) -> Result<Options, Exit> {
    let text = fs::read_to_string(file).map_err(|error| exception(format!("{file}: {error}")))?;
    Options::read(daemon, &text)
}

/// Of its file it reads the list of collectors again, and the database and message bus, for which we start it anew.
fn again(daemon: Daemon, file: String) -> impl Fn() -> Result<Vec<String>, Exit> {
    move || Ok(read_file(daemon, &file)?.collectors)
}

/// Where objects are looked up, and whose tables those are.
type AgentReport = (Arc<Database>, Directory);

/// Lets in who connects, and keeps them as long as they like; those of a daemon that lacks its configuration go at once. `told`: where what
/// they ask for is looked up.
async fn admit(listener: TcpListener, tls: Tls, status: Arc<Status>, told: Option<AgentReport>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PERIOD).await;
            continue;
        };
        let (tls, status, told) = (tls.clone(), Arc::clone(&status), told.clone());
        tokio::spawn(async move {
            match tls {
                None => keep(stream, &status, told).await,
                Some((pair, authorities)) => {
                    let Ok(config) = tls::mutual(&pair, &authorities) else { return };
                    let accepted = timeout(PATIENCE, TlsAcceptor::from(config).accept(stream)).await;
                    let Ok(Ok(stream)) = accepted else { return };
                    keep(stream, &status, told).await;
                }
            }
        });
    }
}

/// Keeps a connection. A line with the name of an agent is answered with 1 or 0: whether there is a virtual-router of that name.
async fn keep(stream: impl AsyncRead + AsyncWrite + Unpin, status: &Status, told: Option<AgentReport>) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while status.lack().is_none() && matches!((&mut stream).take(LONGEST).read_line(&mut line).await, Ok(1..)) {
        let name = line.trim();
        if let Some((database, directory)) = told.as_ref().filter(|_| key(VIRTUAL_ROUTER, name).is_some()) {
            let Ok(is_there) = directory.has(database, VIRTUAL_ROUTER, name).await else { return };
            if stream.write_u8(if is_there { b'1' } else { b'0' }).await.is_err() || stream.flush().await.is_err() {
                return;
            }
        }
        line.clear();
    }
}

/// Reads the database, again and again. A real one ends at none of its errors.
async fn read((database, directory): AgentReport, name: String, daemon: Daemon, status: Arc<Status>) {
    let mut last = None;
    loop {
        if let Ok(is_there) = directory.has(&database, BGP_ROUTER, &name).await
            && daemon == Daemon::Control
        {
            status.lacks((!is_there).then_some(NO_ROUTER));
            if last.replace(is_there) != Some(is_there) {
                log::say(if is_there { "its bgp-router is configured" } else { NO_ROUTER });
            }
        }
        sleep(PERIOD).await;
    }
}

/// Hears the message bus. One that does not let it in is asked again.
async fn hear(options: Options, status: Arc<Status>) {
    let queue = format!("{}.{}", options.daemon.name(), options.name);
    let bus = Bus::new(&options.rabbitmq, queue, &status);
    loop {
        let (refused, _) = mpsc::channel(1);
        Arc::clone(&bus).run(refused).await;
        sleep(PERIOD).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::State;

    #[test]
    fn the_name_of_a_node_is_a_key_and_nothing_else_is() {
        assert_eq!(key(BGP_ROUTER, "cp-1.example.org").as_deref(), Some("bgp-router:cp-1.example.org"));
        for name in ["", "' OR 'a' = 'a", "a b", "é"] {
            assert_eq!(key(BGP_ROUTER, name), None, "{name}");
        }
    }

    #[test]
    fn it_is_functional_once_it_is_connected_and_configured() {
        let status = Status::new("contrail-control", "0", "n", &[Peer::Cassandra]).in_table("ObjectBgpRouter");
        status.lacks(Some(NO_ROUTER));
        assert!(status.page().contains("Database:Cassandra[] connection down, No BGP configuration for self"));
        status.set(Peer::Cassandra, State::Up("10.0.0.1:9041".into()));
        assert!(status.page().contains(">No BGP configuration for self<"));
        status.lacks(None);
        let page = status.page();
        assert!(page.contains(">Functional<") && page.contains("key=\"ObjectBgpRouter\""), "{page}");
    }
}
