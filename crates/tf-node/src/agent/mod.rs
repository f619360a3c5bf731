//! The agent API: HTTP/1.1 over mutual TLS on the member's address, for the component's operator and nobody else.
//!
//! It is served as soon as the member has a certificate, and goes over to new files when they change. A problem of its own
//! never touches the daemon.

mod readiness;
mod routes;

use std::{env, net::SocketAddr, sync::Arc, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use serde_json::json;
use tf_agent_api::launch::{self, Launch};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, Semaphore, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    cni::Cni,
    command::Commands,
    health::View,
    identity::{Identity, Report},
    keeping::Keeping,
    log,
    paths::Paths,
    pod::Pod,
    queues::Queues,
    settings::Settings,
    store::{Memory, redis::relay},
    tls,
    vhost0::Vhost0,
};

/// Connections at a time.
const CONNECTIONS: usize = 32;
/// For a handshake, and for the head of a request.
const PATIENCE: Duration = Duration::from_secs(5);
/// After it a client has to show its certificate again.
const LIFETIME: Duration = Duration::from_secs(600);
/// Between attempts to get the port.
const RETRY: Duration = Duration::from_secs(10);

/// The server of one container, which may have nothing to serve, and the certificate that it serves with.
pub struct Agent {
    context: routes::Context,
    identity: Identity,
    serving: Keeping<Launch>,
    relaying: Keeping<launch::Relay>,
    cni: Cni,
    settings: Settings,
    queues: Queues,
    vhost0: Vhost0,
    files_changed: Arc<Notify>,
}

impl Agent {
    /// An agent that does not serve yet. `view`: what is seen of the daemon all the time.
    pub fn new(paths: Paths, daemon: &str, pod: Pod, view: View) -> Self {
        let files_changed = Arc::default();
        let commands = Commands::default();
        let identity = Identity::new(paths.clone(), daemon, pod.clone(), commands.clone(), Arc::clone(&files_changed));
        let report = identity.report();
        let cni = Cni::new(paths.clone(), view.clone());
        let settings = Settings::new(paths.clone());
        let queues = Queues::new(paths.clone());
        let vhost0 = Vhost0::new(paths.clone(), env::current_exe().unwrap_or_default());
        let context = routes::Context {
            paths,
            daemon: daemon.to_owned(),
            pod,
            report,
            view,
            cni: cni.trouble(),
            settings: settings.problem(),
            queues: queues.problem(),
            vhost0: vhost0.problem(),
            changing: Arc::default(),
            commands,
            memory: Memory::default(),
        };
        Self {
            context,
            identity,
            serving: Keeping::default(),
            relaying: Keeping::default(),
            cni,
            settings,
            queues,
            vhost0,
            files_changed,
        }
    }

    /// Serves what the launch file says, from now on, and looks after the certificate that it says.
    pub fn serve(&mut self, launch: &Launch) {
        self.identity.follow(launch);
        self.relay(launch.relay.as_ref());
        self.cni.follow(launch.cni.as_ref());
        self.settings.follow(launch.settings.as_ref());
        if launch.agent.is_some() {
            self.queues.follow(launch.queues.as_ref());
            self.vhost0.follow(launch.vhost0.as_ref());
        }
        if !self.serving.end_other(Some(launch)) {
            return;
        }
        if let Some(agent) = launch.agent.clone() {
            let context = Arc::new((self.context.clone(), launch.clone()));
            let readiness = readiness::serve(Arc::clone(&context), agent.port);
            let api = serve(context, agent, Arc::clone(&self.files_changed));
            let both = async move {
                tokio::join!(readiness, api);
            };
            self.serving.start(launch.clone(), both);
        }
    }

    fn relay(&mut self, relay: Option<&launch::Relay>) {
        if self.relaying.end_other(relay)
            && let Some(relay) = relay
        {
            self.relaying.start(relay.clone(), relay::run(relay.clone(), self.context.paths.clone()));
        }
    }

    /// The certificates may be others now.
    pub fn files_changed(&self) {
        self.files_changed.notify_one();
        self.identity.files_changed();
        self.settings.files_changed();
    }

    /// The commands that it runs.
    pub fn commands(&self) -> &Commands {
        &self.context.commands
    }

    /// What there is to tell about the certificate.
    pub fn report(&self) -> watch::Receiver<Report> {
        self.identity.report()
    }
}

type Shared = Arc<(routes::Context, Launch)>;

async fn serve(context: Shared, agent: launch::Agent, files_changed: Arc<Notify>) {
    let address = SocketAddr::new(context.0.pod.address, agent.port.get());
    let mut config: Option<Arc<ServerConfig>> = None;
    let mut listener: Option<TcpListener> = None;
    let mut trouble: Option<String> = None;
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    let mut tasks = JoinSet::new();
    loop {
        let mut now = None;
        match tls::server(&context.0.paths, &agent.client) {
            // What was good before stays until something better comes.
            Ok(new) => config = new.map(Arc::new).or(config),
            Err(error) => now = Some(format!("{error:#}")),
        }
        if listener.is_none() && config.is_some() {
            match TcpListener::bind(address).await {
                Ok(bound) => listener = Some(bound),
                Err(error) => now = Some(format!("bind {address}: {error}")),
            }
        }
        if now != trouble {
            match &now {
                Some(error) => log::warn("the agent API has trouble", &json!({"error": error})),
                None => log::info("the agent API is well", &json!({"address": address})),
            }
            trouble = now;
        }
        loop {
            let retry = trouble.is_some();
            tokio::select! {
                () = files_changed.notified() => break,
                () = tokio::time::sleep(RETRY), if retry => break,
                Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
                accepted = accept(listener.as_ref(), &connections) => {
                    let (Some((stream, permit)), Some(config)) = (accepted, &config) else { continue };
                    let connection = connection(stream, Arc::clone(config), Arc::clone(&context));
                    tasks.spawn(async move {
                        let _ = timeout(LIFETIME, connection).await;
                        drop(permit);
                    });
                }
            }
        }
    }
}

async fn accept(
    listener: Option<&TcpListener>,
    connections: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let Some(listener) = listener else { return std::future::pending().await };
    let permit = Arc::clone(connections).acquire_owned().await.ok()?;
    let Ok((stream, _)) = listener.accept().await else {
        // Out of file descriptors, say.
        tokio::time::sleep(Duration::from_secs(1)).await;
        return None;
    };
    Some((stream, permit))
}

/// Whoever does not get through the handshake learns nothing and is not worth a line.
async fn connection(stream: TcpStream, config: Arc<ServerConfig>, context: Shared) {
    let Ok(Ok(stream)) = timeout(PATIENCE, TlsAcceptor::from(config).accept(stream)).await else { return };
    let service = service_fn(|request| {
        let context = Arc::clone(&context);
        async move { Ok::<_, std::convert::Infallible>(routes::answer(&context.0, &context.1, request).await) }
    });
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
