//! Watches: one independent task per kind and namespace.
//!
//! A dead or forbidden watch delays nothing else: each task has its own back-off and its own entry on the [`WatchStatuses`]. What
//! arrives is reduced at once to what is used, kept in a [`Cache`], and reported only if the reduced form changed, so a
//! node's heartbeat wakes nobody.

mod cache;
mod discovery;
mod node;
mod reduce;
mod sink;
mod status;
#[cfg(test)]
mod tests;

use std::{fmt::Debug, sync::Arc, time::Duration};

use futures::StreamExt;
use kube::{
    Api, Resource,
    runtime::watcher::{self, Event, watcher},
};
use serde::de::DeserializeOwned;
use tf_api::contract::Reason;
use tf_plan::observed::Unavailable;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};

pub use cache::Cache;
pub use discovery::Discovery;
pub use node::{LeanNode, node};
pub use reduce::{
    Child, PeerEntry, PodEntry, Primary, Refusal, child, claim, part, pod, primary, refusal, service, unbound,
    workload, workload_of,
};
pub use sink::{Changed, Kept, Sink};
pub use status::{Purpose, State, Subject, WatchStatuses};

use crate::{error::in_words, metrics::Metrics, object::Key};

/// Watches are renewed this often; a connection that has gone silent is noticed much earlier, because the API server
/// sends a bookmark about every minute and the client's read timeout is a little over two.
const WATCH_SECONDS: u32 = 1800;
/// Objects per page of a list. The allocator keeps the room of a page: one of 200 Nodes costs 4 MiB.
const PAGE: u32 = 50;
/// Objects per page where there may be many and only their metadata is asked for. 10,000 foreign Secrets cost 2 MiB with kube's
/// own 500.
const INPUTS_PAGE: u32 = 200;
/// Pause after the first error of a watch, doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Longest pause between attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// An error counts when nothing has been seen for this long: until then the first passes wait. Who lists while an API server begins or goes
/// over to another one would tell everybody of it otherwise.
const PATIENCE: Duration = Duration::from_secs(5);
/// A watch that goes on for this long without an error works. That it was accepted cannot be seen from outside of kube's
/// watcher; that it was refused can, at once.
const PROOF: Duration = Duration::from_secs(5);
/// A page of a list arrives within this time or not at all. The limit of the client ends with the head of the answer.
const PAGE_LIMIT: Duration = Duration::from_secs(30);

/// Which objects of a kind a watch is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// Every one.
    All,
    /// Those with these labels.
    Labels(String),
    /// Those with these fields.
    Fields(String),
}

/// One watch: a kind in one namespace, or in all.
pub struct Watch<K, T> {
    /// What it is about.
    pub subject: Subject,
    /// Where to list and watch.
    pub api: Api<K>,
    /// Which objects.
    pub selector: Selector,
    /// Reduces an object to what is of interest.
    pub reduce: fn(K) -> (Key, T),
    /// Where the reduced objects go.
    pub sink: Arc<dyn Sink<T>>,
}

/// What every watch needs.
#[derive(Clone)]
pub struct Context {
    /// Where its state is shown.
    pub watch_statuses: Arc<WatchStatuses>,
    /// The watch statuses of all components of the process.
    pub all_statuses: Arc<Vec<Arc<WatchStatuses>>>,
    /// Which kinds are installed.
    pub discovery: Discovery,
    /// Counts errors.
    pub metrics: Arc<Metrics>,
}

/// Why a list or a watch did not come about.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{}", in_words(.0))]
    Request(kube::Error),
    #[error("a list did not arrive within {} s", PAGE_LIMIT.as_secs())]
    Slow,
    #[error("the watch ended")]
    Ended,
}

/// How the attempts went so far.
struct Attempts {
    /// Since when nothing has worked.
    begun: Instant,
    /// How long to wait after the next error.
    pause: Duration,
    /// The watch was refused last time, so a list alone does not show that all is well again.
    refused: bool,
}

impl Attempts {
    fn none() -> Self {
        Self { begun: Instant::now(), pause: FIRST_PAUSE, refused: false }
    }

    async fn wait(&mut self) {
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        tokio::time::sleep(jittered(pause)).await;
    }
}

/// What is expected next.
#[derive(Clone, Copy)]
enum Stage {
    /// Pages of a list.
    Listing,
    /// Changes, or soon an error.
    Starting { proven: Instant },
    /// Changes.
    Proven,
}

impl Stage {
    fn starting() -> Self {
        Self::Starting { proven: Instant::now() + PROOF }
    }

    fn limit(self) -> Option<Instant> {
        match self {
            Self::Listing => Some(Instant::now() + PAGE_LIMIT),
            Self::Starting { proven } => Some(proven),
            Self::Proven => None,
        }
    }
}

impl<K, T> Watch<K, T>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    T: Send + Sync + 'static,
{
    /// Starts a task for it. The statuses have an entry at once, so that the others are not taken for all.
    pub fn start(self, context: &Context, tasks: &mut JoinSet<()>) {
        self.set(context, State::Pending);
        tasks.spawn(self.run(context.clone()));
    }

    /// Runs until the task is dropped.
    async fn run(self, context: Context) {
        let mut attempts = Attempts::none();
        loop {
            if context.discovery.follows(self.subject.kind) {
                self.wait_for_definition(&context, &attempts).await;
            }
            let failure = self.follow(&context, &mut attempts).await;
            self.fail(&context, &attempts, &failure);
            attempts.wait().await;
        }
    }

    /// While the definition of the kind is not installed there is nothing to watch, and that is a normal state.
    async fn wait_for_definition(&self, context: &Context, attempts: &Attempts) {
        let kind = self.subject.kind;
        let mut changes = context.discovery.changes();
        loop {
            let (reason, message) = match context.discovery.has(kind) {
                Some(true) => return,
                Some(false) => (Reason::CrdMissing, format!("the definition of kind {} is not installed", kind.kind)),
                None => (Reason::ApiError, format!("whether kind {} is installed is not known yet", kind.kind)),
            };
            self.conclude(context, attempts, Unavailable { reason, message });
            if reason == Reason::CrdMissing {
                self.sink.begin();
                self.sink.end(self.subject.namespace.as_deref());
            }
            // The sender lives as long as the context.
            if context.watch_statuses.get(&self.subject) == State::Pending {
                let _ = timeout_at(attempts.begun + PATIENCE, changes.changed()).await;
            } else {
                let _ = changes.changed().await;
            }
        }
    }

    /// Follows the watch until it has to be begun anew. Errors in between that kube's watcher recovers from, going on
    /// where it was, are waited out here, because it does not wait by itself.
    async fn follow(&self, context: &Context, attempts: &mut Attempts) -> Failure {
        let mut config = watcher::Config::default().timeout(WATCH_SECONDS).page_size(self.page());
        match &self.selector {
            Selector::All => {}
            Selector::Labels(labels) => config.label_selector = Some(labels.clone()),
            Selector::Fields(fields) => config.field_selector = Some(fields.clone()),
        }
        let mut events = Box::pin(watcher(self.api.clone(), config));
        let mut stage = Stage::Listing;
        loop {
            let next = match stage.limit() {
                Some(limit) => timeout_at(limit, events.next()).await,
                None => Ok(events.next().await),
            };
            if let Stage::Starting { proven } = stage
                && Instant::now() >= proven
                && !matches!(next, Ok(Some(Err(_))))
            {
                *attempts = Attempts::none();
                self.set(context, State::Synced);
                stage = Stage::Proven;
            }
            match (next, stage) {
                (Ok(Some(Ok(event))), _) => {
                    let listed = matches!(event, Event::InitDone);
                    if matches!(event, Event::Init) {
                        stage = Stage::Listing;
                    }
                    self.take(event);
                    if listed {
                        stage = Stage::starting();
                        if !attempts.refused {
                            self.set(context, State::Synced);
                        }
                    }
                }
                (Ok(Some(Err(watcher::Error::InitialListFailed(error)))), _) => return Failure::Request(error),
                (Ok(Some(Err(watcher::Error::WatchStartFailed(error)))), _) => {
                    let resumes = resumes(&error);
                    let failure = Failure::Request(error);
                    if !resumes {
                        return failure;
                    }
                    attempts.refused = true;
                    self.fail(context, attempts, &failure);
                    attempts.wait().await;
                    stage = Stage::starting();
                }
                (Ok(Some(Err(error))), _) => {
                    context.metrics.watch_errors.with_label_values(&[self.subject.kind.kind]).inc();
                    tracing::debug!(kind = self.subject.kind.kind, %error, "watch interrupted");
                    attempts.wait().await;
                    stage = Stage::starting();
                }
                (Ok(None), _) => return Failure::Ended,
                (Err(_), Stage::Listing) => return Failure::Slow,
                (Err(_), Stage::Starting { .. } | Stage::Proven) => {}
            }
        }
    }

    fn page(&self) -> u32 {
        match self.subject.purpose {
            Purpose::Input => INPUTS_PAGE,
            Purpose::Work | Purpose::Authority | Purpose::Claims => PAGE,
        }
    }

    fn take(&self, event: Event<K>) {
        match event {
            Event::Init => self.sink.begin(),
            Event::InitDone => self.sink.end(self.subject.namespace.as_deref()),
            Event::InitApply(object) | Event::Apply(object) => {
                let (key, value) = (self.reduce)(object);
                self.sink.put(key, value);
            }
            Event::Delete(object) => self.sink.remove(&Key::of(object.meta())),
        }
    }

    fn fail(&self, context: &Context, attempts: &Attempts, failure: &Failure) {
        let kind = self.subject.kind;
        context.metrics.watch_errors.with_label_values(&[kind.kind]).inc();
        tracing::warn!(kind = kind.kind, namespace = self.subject.namespace, error = %failure, "watch failed");
        let reason = match failure {
            Failure::Request(kube::Error::Api(status)) => match status.code {
                // Whether it is gone those tell who answer for all kinds.
                404 if context.discovery.follows(kind) => {
                    context.discovery.suspect(kind);
                    Reason::ApiError
                }
                404 => Reason::CrdMissing,
                401 | 403 => Reason::Forbidden,
                _ => Reason::ApiError,
            },
            _ => Reason::ApiError,
        };
        let message = format!("cannot watch {}: {failure}", kind.plural);
        self.conclude(context, attempts, Unavailable { reason, message });
    }

    /// Tells why it does not work. What was seen before stays in use through a passing failure, and what was not seen yet is tried for a while;
    /// being denied or gone is not passing.
    fn conclude(&self, context: &Context, attempts: &Attempts, why: Unavailable) {
        let is_borne = match context.watch_statuses.get(&self.subject) {
            State::Synced => true,
            State::Pending => attempts.begun.elapsed() < PATIENCE,
            State::Failing(_) => false,
        };
        if why.reason != Reason::ApiError || !is_borne {
            self.set(context, State::Failing(why));
        }
    }

    fn set(&self, context: &Context, state: State) {
        context.watch_statuses.set(&self.subject, state);
        // The metric is one for all watches of the kind: it holds if it holds for each.
        let synced = i64::from(
            context.all_statuses.iter().all(|watch_statuses| watch_statuses.synced(self.subject.kind) != Some(false)),
        );
        context.metrics.watch_synced.with_label_values(&[self.subject.kind.kind]).set(synced);
    }
}

/// Whether a watch that was refused like this can go on where it was: not if what it watched is gone, or the version it
/// would go on from.
pub fn resumes(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 401 | 403 | 408 | 429) || status.code >= 500,
        _ => true,
    }
}

/// The pause, plus up to a quarter of it, so that many watches do not return at the same moment.
pub fn jittered(pause: Duration) -> Duration {
    pause + pause.mul_f64(rand::random::<f64>() / 4.0)
}
