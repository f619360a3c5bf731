//! Putting an operator together.

use std::{process::ExitCode, sync::Arc, time::Duration};

use clap::Parser;
use futures::{FutureExt as _, future::BoxFuture};
use kube::{Api, Client, Config};
use tf_plan::{component::Component, declaration::Declaration, observed::Operator};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::{filter::LevelFilter, fmt::layer, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::{
    agents::{Agents, Round},
    apply::Applier,
    arguments::{Arguments, LogFormat},
    caches::Caches,
    client,
    controller::Controller,
    drainer::Drainer,
    events::Events,
    finalizer::Finalizer,
    health::{Health, listen, serve},
    identity::{Authorities, Signer},
    keystone::Logins,
    leader::{Candidate, Permit, Timing, campaign},
    marker::Marker,
    metrics::{Metrics, Snapshot},
    observe::Observer,
    reconcile::{Reconciler, refused::Refused},
    registration::Registrar,
    status::StatusWriter,
    step::Stepper,
    view::View,
    watch::{Context, Discovery, WatchStatuses},
};

/// A connection that stays silent this long is dead: the API server sends a bookmark on a watch about every minute.
const SILENCE_LIMIT: Duration = Duration::from_secs(150);

/// An operator could not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No usable connection to a Kubernetes API is configured.
    #[error("no usable configuration for the Kubernetes API: {0}")]
    Config(#[from] kube::config::InferConfigError),
    /// The client cannot be built.
    #[error("the Kubernetes client cannot be built: {0}")]
    Client(#[from] kube::Error),
    /// Metrics cannot be registered.
    #[error("metrics cannot be registered: {0}")]
    Metrics(#[from] prometheus::Error),
    /// The address for health and metrics cannot be listened on.
    #[error("cannot listen for health checks: {0}")]
    Listen(#[from] std::io::Error),
}

/// One of the components that an operator's process runs.
#[derive(Clone, Copy)]
pub struct Part {
    declaration: fn() -> Declaration,
    start: fn(&Process, usize, &Declaration) -> Started,
}

impl Part {
    /// This component.
    pub const fn of<C: Component>() -> Self {
        Self { declaration: C::declaration, start: start::<C> }
    }
}

/// The `main` of an operator with one component: command line, logs, signals, and the component.
pub fn main<C: Component>() -> ExitCode {
    main_of(&[Part::of::<C>()])
}

/// The `main` of an operator with several components, which share the process, its lease and its connections and nothing else. All
/// declare the same operator.
pub fn main_of(parts: &[Part]) -> ExitCode {
    let arguments = Arguments::parse();
    logs(&arguments);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "cannot start");
            return ExitCode::FAILURE;
        }
    };
    let stop = CancellationToken::new();
    let result = runtime.block_on(async {
        tokio::spawn(stop_on_signal(stop.clone()));
        run_all(parts, &arguments, Timing::DEFAULT, stop).await
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "cannot start");
            ExitCode::FAILURE
        }
    }
}

fn logs(arguments: &Arguments) {
    // The client logs every failed request itself; here each failure is told once, by who made the request.
    let filter = (arguments.log_level.clone())
        .with_target("kube_client", LevelFilter::OFF)
        .with_target("kube_runtime", LevelFilter::OFF)
        .with_target("hyper_util", LevelFilter::WARN)
        .with_target("rustls", LevelFilter::WARN);
    let registry = tracing_subscriber::registry().with(filter);
    let lines = layer().with_writer(std::io::stderr);
    match arguments.log_format {
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).init(),
        LogFormat::Text => registry.with(lines.compact()).init(),
    }
}

async fn stop_on_signal(stop: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    stop.cancel();
}

/// Runs a component until `stop`.
///
/// # Errors
/// When the operator cannot begin. Later failures are waited out.
pub async fn run<C: Component>(
    arguments: &Arguments,
    timing: Timing,
    stop: CancellationToken,
) -> Result<(), StartError> {
    run_all(&[Part::of::<C>()], arguments, timing, stop).await
}

/// What the components of a process share.
struct Process {
    arguments: Arguments,
    operator: &'static str,
    /// For reading.
    plain: Client,
    /// For writing, while this process leads.
    guarded: Client,
    /// The same, for evictions: it does not retry, where the component marks nodes.
    evicting: Client,
    permit: Permit,
    metrics: Arc<Metrics>,
    events: Arc<Events>,
    discovery: Discovery,
    /// What is known of watches, by component.
    all_statuses: Arc<Vec<Arc<WatchStatuses>>>,
    stop: CancellationToken,
}

/// A component at work.
struct Started {
    health: Arc<Health>,
    /// What is told of its resources.
    snapshot: Box<dyn Fn() -> Option<Snapshot> + Send + Sync>,
    /// Ends after the last pass, when it is told to stop.
    work: BoxFuture<'static, ()>,
}

async fn run_all(
    parts: &[Part],
    arguments: &Arguments,
    timing: Timing,
    stop: CancellationToken,
) -> Result<(), StartError> {
    let declarations: Vec<Declaration> = parts.iter().map(|part| (part.declaration)()).collect();
    let operator = declarations.first().map(|declaration| declaration.operator).unwrap_or_default();
    let metrics = Arc::new(Metrics::new(operator)?);
    let mut config = Config::infer().await?;
    config.read_timeout = Some(SILENCE_LIMIT);
    let identity = identity(arguments, operator);
    tracing::info!(operator, version = env!("CARGO_PKG_VERSION"), identity, scope = ?arguments.scope(), "starting");

    // Whoever finds its port in use ends before it campaigns.
    let listener = listen(arguments.listen).await?;
    let plain = client::plain(config.clone(), metrics.clone())?;
    // The lease is released after the last pass, not when the request to stop arrives.
    let release = CancellationToken::new();
    let (permit, election) = elect(arguments, timing, &plain, operator, &identity, &metrics, &release);
    let guarded = client::guarded(config.clone(), permit.clone(), metrics.clone())?;
    let evicting = if declarations.iter().any(|declaration| declaration.marks_nodes) {
        config.default_retry = false;
        client::guarded(config, permit.clone(), metrics.clone())?
    } else {
        guarded.clone()
    };
    let kinds = declarations.iter().flat_map(Declaration::defined_kinds).collect();
    let process = Process {
        arguments: arguments.clone(),
        operator,
        discovery: Discovery::start(plain.clone(), kinds).await,
        events: Arc::new(Events::new(guarded.clone(), operator, &identity)),
        plain,
        guarded,
        evicting,
        permit,
        metrics: metrics.clone(),
        all_statuses: Arc::new(declarations.iter().map(|_| Arc::default()).collect()),
        stop: stop.clone(),
    };
    let started = parts.iter().zip(&declarations).enumerate();
    let started: Vec<Started> =
        started.map(|(index, (part, declaration))| (part.start)(&process, index, declaration)).collect();
    let (mut healths, mut snapshots, mut work) = (Vec::new(), Vec::new(), Vec::new());
    for part in started {
        healths.push(part.health);
        snapshots.push(part.snapshot);
        work.push(part.work);
    }
    let page = Arc::new(move || metrics.page(&snapshots.iter().filter_map(|snapshot| snapshot()).collect::<Vec<_>>()));
    let server = tokio::spawn(serve(listener, healths, page, stop.clone()));
    futures::future::join_all(work).await;

    // Watches have ended; then the lease is released, so that a successor finds nothing under way.
    stop.cancel();
    release.cancel();
    let _ = election.await;
    let _ = server.await;
    tracing::info!(operator, "stopped");
    Ok(())
}

/// Starts a component: `index` is its place among those of the process.
fn start<C: Component>(process: &Process, index: usize, declaration: &Declaration) -> Started {
    let Process { arguments, operator, plain, guarded, permit, metrics, events, .. } = process;
    let operator = *operator;
    let watch_statuses = process.all_statuses[index].clone();
    let health = Arc::new(Health::new(watch_statuses.clone(), declaration.primary));
    let caches = Arc::new(Caches::<C::Cr>::new::<C>(arguments.scope(), watch_statuses.clone()));
    let agents = Arc::new(Agents::default());
    let versions = caches.authorities.clone();
    let authorities = Arc::new(Authorities::new(guarded.clone(), operator, versions, events.clone()));
    let (sender, triggers) = mpsc::unbounded_channel();
    let proxy = arguments.config_api_proxy.clone().filter(|proxy| !proxy.is_empty());
    let logins = Arc::new(Logins::new(authorities.clone(), sender.clone(), proxy.clone()));
    let registrar =
        Arc::new(Registrar::new(authorities.clone(), permit.clone(), sender.clone(), metrics.clone(), proxy));
    let view = View {
        caches: caches.clone(),
        agents: agents.clone(),
        authorities: authorities.clone(),
        registrar: registrar.clone(),
        permit: permit.clone(),
    };

    let context = Context {
        watch_statuses: watch_statuses.clone(),
        all_statuses: process.all_statuses.clone(),
        discovery: process.discovery.clone(),
        metrics: metrics.clone(),
    };
    let watches = caches.watch(plain, &context, &sender);

    let mut tasks = JoinSet::new();
    if declaration.calls_agents {
        let cluster_domain = arguments.cluster_domain.clone();
        let signer = Signer::<C> {
            caches: caches.clone(),
            authorities: authorities.clone(),
            client: guarded.clone(),
            events: events.clone(),
            cluster_domain: cluster_domain.clone(),
        };
        tasks.spawn(signer.run());
        let round = Round::<C> {
            caches: caches.clone(),
            authorities: authorities.clone(),
            permit: permit.clone(),
            triggers: sender.clone(),
            cluster_domain,
        };
        tasks.spawn(agents.clone().run(round));
    }

    let applier = Arc::new(Applier::new(guarded.clone(), operator, metrics.clone()));
    let reconciler = Arc::new(Reconciler::<C> {
        observer: Observer {
            caches: caches.clone(),
            watch_statuses: watch_statuses.clone(),
            applier: applier.clone(),
            client: guarded.clone(),
            agents: agents.clone(),
            authorities: authorities.clone(),
            logins,
            operator: Operator {
                version: env!("CARGO_PKG_VERSION").into(),
                cluster_domain: arguments.cluster_domain.clone(),
                images: arguments.image_overrides(),
            },
        },
        applier,
        statuses: StatusWriter::new(guarded.clone(), operator, declaration.primary),
        stepper: Stepper { client: guarded.clone(), agents, metrics: metrics.clone() },
        marker: Marker::new(guarded.clone()),
        drainer: Drainer::new(process.evicting.clone()),
        refused: Refused::new(guarded.clone(), operator),
        registrar,
        authorities,
        finalizer: Finalizer::new(guarded.clone(), declaration),
        events: events.clone(),
        metrics: metrics.clone(),
        caches,
    });
    let controller =
        Controller { reconciler, triggers, permit: permit.clone(), watch_statuses, health: health.clone() };
    let stop = process.stop.clone();
    let work = async move {
        controller.run(stop).await;
        drop((watches, tasks, sender));
    };
    Started { health, snapshot: Box::new(move || view.snapshot()), work: work.boxed() }
}

fn elect(
    arguments: &Arguments,
    timing: Timing,
    client: &Client,
    operator: &str,
    identity: &str,
    metrics: &Arc<Metrics>,
    release: &CancellationToken,
) -> (Permit, tokio::task::JoinHandle<()>) {
    if !arguments.leader_election {
        metrics.leader.set(1);
        return (Permit::forever(), tokio::spawn(async {}));
    }
    let candidate = Candidate {
        namespace: arguments.namespace.clone(),
        name: operator.to_owned(),
        identity: identity.to_owned(),
        timing,
    };
    let api = Api::namespaced(client.clone(), &arguments.namespace);
    campaign(api, candidate, metrics.clone(), release.clone())
}

/// Two processes that run must never have the same name. A kubelet starts the container of a pod only when the one before has ended,
/// and who is started in it by hand finds its port in use. Outside of pods names are made up.
fn identity(arguments: &Arguments, operator: &str) -> String {
    let name = arguments.identity.clone().unwrap_or_else(|| operator.to_owned());
    match arguments.pod_uid.as_deref().filter(|uid| !uid.is_empty()) {
        Some(uid) => format!("{name}-{uid}"),
        None => format!("{name}-{:08x}", rand::random::<u32>()),
    }
}
