//! `tf-node probe`: whether a daemon serves, found out from itself.

mod dns;
pub mod exchange;
pub mod http;
mod kafka;
mod node_status;
pub mod workers;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    num::NonZeroU16,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use rustls::pki_types::ServerName;
use tf_agent_api::{
    launch::{Connections, Launch, Probe},
    state::{Health, Phase, State},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    join,
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

pub use self::node_status::Page;
use self::{
    exchange::{Exchanges, Greeting},
    node_status::LONGEST,
    workers::Run,
};
use crate::{
    materialise::RunDir,
    paths::Paths,
    place,
    pod::Pod,
    state_file,
    store::{self, redis::relay},
    tls,
};

/// The kubelet waits for 3 s.
const PATIENCE: Duration = Duration::from_millis(2500);

/// For a look that nobody waits for.
const GLANCE: Duration = Duration::from_millis(1500);

/// For the requests of one look at several workers. What is left of them has time until the next one.
const SERIES: Duration = Duration::from_millis(2500);

/// Where a daemon listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Address.
    pub host: IpAddr,
    /// Port.
    pub port: u16,
    /// Whether it speaks TLS.
    pub tls: bool,
}

/// A connection with or without TLS.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Which question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Does it serve?
    Ready,
    /// Does it live? A daemon that waits for its configuration or its next start does: a new container would wait as well.
    Alive,
}

/// Answers the kubelet: the exit code counts, the text is shown in an event.
pub async fn answer(paths: &Paths, daemon: &str, question: Question) -> Result<ExitCode> {
    let pod = Pod::from_environment()?;
    let state = state_file::read(paths, daemon);
    let set = RunDir::new(paths.run_dir()).load(daemon)?;
    let health = match (&set, question) {
        (Some(set), Question::Ready) => ready(&set.launch, state.as_ref(), paths, pod.address).await,
        (Some(set), Question::Alive) => alive(&set.launch, state.as_ref(), paths, pod.address).await,
        (None, Question::Alive) if state.is_some() => Health::new(true, "waits"),
        (None, _) => process(state.as_ref()).unwrap_or_else(|unwell| unwell),
    };
    if let (Some(set), Question::Ready, true) = (&set, question, health.serves) {
        place::note_served(&set.launch, paths)?;
    }
    println!("{}", health.message);
    Ok(if health.serves { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether a daemon serves.
pub async fn ready(launch: &Launch, state: Option<&State>, paths: &Paths, address: IpAddr) -> Health {
    if let Err(unwell) = process(state) {
        return unwell;
    }
    with_relay(launch, paths, run(&launch.ready, paths, address)).await
}

/// The same, where it is known of the daemon itself.
pub async fn with_relay(launch: &Launch, paths: &Paths, health: impl Future<Output = Health>) -> Health {
    let Some(relay) = &launch.relay else { return health.await };
    // The daemon goes on without what it keeps there, and nobody could log in.
    let (health, redis) = join!(health, timeout(PATIENCE, relay::serves(relay, paths)));
    match redis {
        _ if !health.serves => health,
        Ok(Ok(())) => health,
        Ok(Err(error)) => Health::new(false, format!("Redis {}:{}: {error:#}", relay.host, relay.server)),
        Err(_) => Health::new(false, format!("Redis {}:{}: no answer", relay.host, relay.server)),
    }
}

/// What an agent sees of its daemon.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Whether it serves, or lives if that is what there is to ask.
    pub health: Health,
    /// Whether it runs and did not answer at all.
    pub is_silent: bool,
    /// What it answered about itself, where that is how it is asked.
    pub page: Option<Page>,
}

/// Where and how one daemon is asked, again and again.
#[derive(Clone, Debug)]
pub struct Looker {
    paths: Paths,
    address: IpAddr,
    exchanges: Exchanges,
}

impl Looker {
    /// For the daemon of a container at this address of the member.
    pub fn new(paths: Paths, address: IpAddr) -> Self {
        Self { paths, address, exchanges: Exchanges::default() }
    }

    /// Looks at a daemon, no longer than an operator waits for all that there is to report, but for the requests that several workers need.
    /// `run`: the answers so far.
    pub async fn look(&self, launch: &Launch, state: Option<&State>, run: &mut Run) -> Observation {
        match process(state) {
            Ok(_) => {
                run.follow(state.and_then(|state| state.pid));
                self.series(launch.alive.as_ref().unwrap_or(&launch.ready), GLANCE, run).await
            }
            Err(health) => Observation { health, is_silent: false, page: None },
        }
    }

    /// Whether a daemon that speaks TLS completes a handshake, which is no line in its log. None where it has no such port.
    pub async fn greets(&self, launch: &Launch) -> Option<bool> {
        let (host, port) = match launch.alive.as_ref().unwrap_or(&launch.ready) {
            Probe::Http { host, port, tls: true, .. } => (*host, *port),
            Probe::NodeStatus { port, tls: true, .. } => (None, *port),
            _ => return None,
        };
        let target = Target { host: host.unwrap_or(self.address), port: port.get(), tls: true };
        Some(self.exchanges.greet(GLANCE, target, &self.paths).await == Greeting::Completed)
    }

    /// Whether a server of the daemon answers at all: a TLS handshake that fails is an answer.
    pub async fn answers(&self, server: SocketAddr) -> bool {
        let target = Target { host: server.ip(), port: server.port(), tls: true };
        Exchanges::default().greet(GLANCE, target, &self.paths).await != Greeting::Silent
    }

    /// As many requests, one connection each, as it takes to know of all workers: to the first that is not answered well.
    async fn series(&self, probe: &Probe, patience: Duration, run: &mut Run) -> Observation {
        let begun = Instant::now();
        let mut left = run.requests();
        loop {
            let mut look = self.ask(probe, patience).await;
            run.take(look.health.serves);
            left -= 1;
            if !look.health.serves || left == 0 || begun.elapsed() >= SERIES {
                look.health = run.judge(look.health);
                return look;
            }
        }
    }

    async fn ask(&self, probe: &Probe, patience: Duration) -> Observation {
        let (asked, paths, address) = (probe.clone(), self.paths.clone(), self.address);
        let exchange = Box::pin(async move {
            let mut page = None;
            let result = attempt(&asked, &paths, address, &mut page).await;
            (result, page)
        });
        let done = match probe {
            Probe::Http { .. } | Probe::NodeStatus { .. } => self.exchanges.within(patience, exchange).await,
            _ => timeout(patience, exchange).await.ok(),
        };
        let Some((result, page)) = done else {
            let health = Health::new(false, format!("no answer within {} ms", patience.as_millis()));
            return Observation { health, is_silent: true, page: None };
        };
        let health = match result {
            Ok(message) => Health::new(true, message),
            Err(error) if is_standby(probe, &error) => Health { standby: true, ..Health::new(true, STANDBY) },
            Err(error) => Health::new(false, format!("{error:#}")),
        };
        Observation { health, is_silent: false, page }
    }

    /// What a daemon says of its connections, and each of its further workers; `page` is what it has said already. None where it does not say. A
    /// worker that does not is missing.
    pub async fn connections(&self, asked: &Connections, page: Option<Page>) -> Option<Connected> {
        let ask = async |port: NonZeroU16| {
            let target = Target { host: self.address, port: port.get(), tls: asked.tls };
            let paths = self.paths.clone();
            match self.exchanges.within(GLANCE, async move { Page::ask(&target, &paths).await }).await {
                Some(page) => page,
                None => bail!("port {port} does not answer"),
            }
        };
        let first = match page {
            Some(page) => page,
            None => ask(asked.port).await.ok()?,
        };
        let servers = asked.servers.iter().map(|name| (name.clone(), first.servers(name))).collect();
        let mut connected = Connected { missing: first.missing(&asked.optional), all: first.connections(), servers };
        for (number, port) in (1..).zip(&asked.workers) {
            let missing = match ask(*port).await {
                Ok(page) => {
                    for (name, is_up) in page.connections() {
                        *connected.all.entry(name).or_insert(true) &= is_up;
                    }
                    page.missing(&asked.optional)
                }
                Err(error) => Some(format!("{error:#}")),
            };
            let told = missing.map(|missing| format!("worker {number}: {missing}"));
            connected.missing =
                [connected.missing, told].into_iter().flatten().reduce(|all, one| format!("{all}, {one}"));
        }
        connected.missing = connected.missing.map(|missing| missing.chars().take(LONGEST).collect());
        Some(connected)
    }
}

/// What a daemon is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connected {
    /// What is not up and needed, with why.
    pub missing: Option<String>,
    /// Each by type and name, and whether it is up: of several workers, for all.
    pub all: BTreeMap<String, bool>,
    /// The servers that the daemon names for those whose servers are asked, by type and name.
    pub servers: BTreeMap<String, BTreeSet<SocketAddr>>,
}

/// Whether a daemon lives.
async fn alive(launch: &Launch, state: Option<&State>, paths: &Paths, address: IpAddr) -> Health {
    match (state, &launch.alive) {
        (Some(State { phase: Phase::Running, .. }), Some(probe)) => run(probe, paths, address).await,
        (Some(_), _) => Health::new(true, "the agent looks after it"),
        (None, _) => Health::new(false, "no node agent supervises it"),
    }
}

/// Whether the process runs, as good news or bad.
///
/// # Errors
/// The bad news.
pub fn process(state: Option<&State>) -> Result<Health, Health> {
    let Some(state) = state else { return Err(Health::new(false, "no node agent supervises it")) };
    match state.down() {
        None => Ok(Health::new(true, "its process runs")),
        Some(why) => Err(Health::new(false, why)),
    }
}

/// The answer to who asks once: several workers have to answer in a row, right now.
async fn run(probe: &Probe, paths: &Paths, address: IpAddr) -> Health {
    let looker = Looker::new(paths.clone(), address);
    looker.series(probe, PATIENCE, &mut Run::of(probe)).await.health
}

/// Nobody can tell who waits for its turn from who has not found ZooKeeper yet.
const STANDBY: &str = "no port is open: another member is elected, or none is yet";

/// Whether a daemon that runs has no port because it is not the one that is elected.
fn is_standby(probe: &Probe, error: &anyhow::Error) -> bool {
    let refused = |cause: &std::io::Error| cause.kind() == std::io::ErrorKind::ConnectionRefused;
    matches!(probe, Probe::NodeStatus { elected: true, .. })
        && error.chain().filter_map(|cause| cause.downcast_ref()).any(refused)
}

/// `page`: takes what a daemon answers that is asked about itself.
async fn attempt(probe: &Probe, paths: &Paths, address: IpAddr, page: &mut Option<Page>) -> Result<String> {
    let target = |host: &Option<IpAddr>, port: u16, tls| Target { host: host.unwrap_or(address), port, tls };
    match probe {
        Probe::Dns { port } => {
            dns::probe(connect(&target(&None, port.get(), false), paths).await?.as_mut()).await?;
            Ok(format!("port {port} answers questions"))
        }
        Probe::Http { port, path, host, tls, contains, .. } => {
            http::probe(&target(host, port.get(), *tls), path, contains.as_deref(), paths).await
        }
        Probe::RabbitMq { port, .. } => {
            connect(&target(&None, port.get(), true), paths).await?.shutdown().await?;
            Ok(format!("port {port} accepts connections"))
        }
        Probe::ZooKeeper { port, host, tls } => store::zookeeper::serves(&target(host, port.get(), *tls), paths).await,
        Probe::Kafka { port } => {
            let target = target(&None, port.get(), true);
            kafka::probe(connect(&target, paths).await?.as_mut(), &target).await
        }
        Probe::Cassandra { port, .. } => store::cassandra::serves(&target(&None, port.get(), true), paths).await,
        Probe::Redis { port, .. } => store::redis::serves(&target(&None, port.get(), true), paths).await,
        Probe::Sentinel { port } => store::redis::sentinel::serves(&target(&None, port.get(), true), paths).await,
        Probe::NodeStatus { port, tls, functional, optional, .. } => {
            let needed = functional.then_some(optional);
            page.insert(Page::ask(&target(&None, port.get(), *tls), paths).await?).state(needed)
        }
        Probe::Process => Ok("its process runs".to_owned()),
    }
}

/// Connects to a daemon.
pub async fn connect(target: &Target, paths: &Paths) -> Result<Box<dyn Stream>> {
    connect_at(target.host, target, paths).await
}

/// Connects to a daemon at another address than the one that its certificate is for.
pub async fn connect_at(host: IpAddr, target: &Target, paths: &Paths) -> Result<Box<dyn Stream>> {
    let address = SocketAddr::new(host, target.port);
    let stream = TcpStream::connect(address).await.with_context(|| format!("connect to {address}"))?;
    if !target.tls {
        return Ok(Box::new(stream));
    }
    let connector = TlsConnector::from(Arc::new(tls::client(paths)?));
    match connector.connect(ServerName::IpAddress(target.host.into()), stream).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => bail!("TLS with {address}: {error}"),
    }
}
