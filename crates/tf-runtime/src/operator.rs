//! Putting an operator together.

use std::{process::ExitCode, sync::Arc, time::Duration};

use clap::Parser;
use kube::{Api, Client, Config};
use tf_plan::{component::Component, observed::Operator};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::{filter::LevelFilter, fmt::layer, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::{
    agents::{Agents, Round},
    apply::Applier,
    arguments::{Arguments, LogFormat},
    client,
    controller::Controller,
    events::Events,
    finalizer::Finalizer,
    health::{Health, listen, serve},
    identity::{Authorities, Signer},
    leader::{Candidate, Permit, Timing, campaign},
    metrics::Metrics,
    observe::Observer,
    reconcile::Reconciler,
    registration::Registrar,
    status::StatusWriter,
    step::Stepper,
    view::View,
    watch::{Board, Context, Discovery},
    world::World,
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

/// The `main` of an operator: command line, logs, signals, and the component.
pub fn main<C: Component>() -> ExitCode {
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
        run::<C>(&arguments, Timing::DEFAULT, stop).await
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
    let declaration = C::declaration();
    let operator = declaration.operator;
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
    let guarded = client::guarded(config, permit.clone(), metrics.clone())?;

    let board = Arc::new(Board::default());
    let health = Arc::new(Health::new(board.clone(), declaration.primary));
    let world = Arc::new(World::<C::Cr>::new::<C>(arguments.scope(), board.clone()));
    let agents = Arc::new(Agents::default());
    let events = Arc::new(Events::new(guarded.clone(), operator, &identity));
    let versions = world.authorities.clone();
    let authorities = Arc::new(Authorities::new(guarded.clone(), operator, versions, events.clone()));
    let (sender, triggers) = mpsc::unbounded_channel();
    let proxy = arguments.config_api_proxy.clone().filter(|proxy| !proxy.is_empty());
    let registrar =
        Registrar::new(operator, authorities.clone(), permit.clone(), sender.clone(), metrics.clone(), proxy);
    let registrar = Arc::new(registrar);
    let view = View {
        world: world.clone(),
        agents: agents.clone(),
        authorities: authorities.clone(),
        registrar: registrar.clone(),
        permit: permit.clone(),
        metrics: metrics.clone(),
    };
    let server = tokio::spawn(serve(listener, health.clone(), Arc::new(move || view.page()), stop.clone()));

    let discovery = Discovery::start(plain.clone(), declaration.watched_kinds()).await;
    let context = Context { board: board.clone(), discovery, metrics: metrics.clone() };
    let watches = world.watch(&plain, &context, &sender);

    let mut tasks = JoinSet::new();
    if declaration.calls_agents {
        let cluster_domain = arguments.cluster_domain.clone();
        let signer = Signer::<C> {
            world: world.clone(),
            authorities: authorities.clone(),
            client: guarded.clone(),
            events: events.clone(),
            cluster_domain: cluster_domain.clone(),
        };
        tasks.spawn(signer.run());
        let round = Round::<C> {
            world: world.clone(),
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
            world: world.clone(),
            board: board.clone(),
            applier: applier.clone(),
            client: guarded.clone(),
            agents: agents.clone(),
            authorities: authorities.clone(),
            operator: Operator {
                version: env!("CARGO_PKG_VERSION").into(),
                cluster_domain: arguments.cluster_domain.clone(),
                images: arguments.image_overrides(),
            },
        },
        applier,
        statuses: StatusWriter::new(guarded.clone(), operator, declaration.primary),
        stepper: Stepper { client: guarded.clone(), agents, metrics: metrics.clone() },
        registrar,
        authorities,
        finalizer: Finalizer::new(guarded, &declaration),
        events,
        metrics,
        world,
    });
    Controller { reconciler, triggers, permit, board, health }.run(stop.clone()).await;

    // Watches end first, then the lease is released, so that a successor finds nothing under way.
    drop((watches, tasks));
    stop.cancel();
    release.cancel();
    let _ = election.await;
    let _ = server.await;
    tracing::info!(operator, "stopped");
    Ok(())
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
