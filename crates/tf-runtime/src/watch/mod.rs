//! Watches: one independent task per kind and namespace.
//!
//! A dead or forbidden watch delays nothing else: each task has its own back-off and its own entry on the [`Board`]. What
//! arrives is reduced at once to what is used, kept in a [`Cache`], and reported only if the reduced form changed, so a
//! node's heartbeat wakes nobody.

mod board;
mod cache;
mod discovery;
mod reduce;
mod sink;

use std::{fmt::Debug, sync::Arc, time::Duration};

use futures::StreamExt;
use kube::{
    Api, Resource,
    runtime::watcher::{self, Event, watcher},
};
use serde::de::DeserializeOwned;
use tf_api::contract::Reason;
use tf_plan::observed::Unavailable;

pub use board::{Board, Purpose, State, Subject};
pub use cache::Cache;
pub use discovery::Discovery;
pub use reduce::{Child, PeerEntry, PodEntry, Primary, child, decode_peer, node, pod, primary, workload, workload_of};
pub use sink::{Changed, Kept, Sink};

use crate::{error::in_words, metrics::Metrics, object::Key};

/// Watches are renewed this often; a connection that has gone silent is noticed much earlier, because the API server
/// sends a bookmark about every minute and the client's read timeout is a little over two.
const WATCH_SECONDS: u32 = 1800;
/// Pause after the first error of a watch, doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Longest pause between attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// One watch: a kind in one namespace, or in all.
pub struct Watch<K, T> {
    /// What it is about.
    pub subject: Subject,
    /// Where to list and watch.
    pub api: Api<K>,
    /// Label selector; none for all objects.
    pub labels: Option<String>,
    /// Reduces an object to what is of interest.
    pub reduce: fn(K) -> (Key, T),
    /// Where the reduced objects go.
    pub sink: Arc<dyn Sink<T>>,
}

/// What every watch needs.
#[derive(Clone)]
pub struct Context {
    /// Where its state is shown.
    pub board: Arc<Board>,
    /// Which kinds of ours are installed.
    pub discovery: Discovery,
    /// Counts errors.
    pub metrics: Arc<Metrics>,
}

impl<K, T> Watch<K, T>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    T: Send + Sync + 'static,
{
    /// Runs until the task is dropped.
    pub async fn run(self, context: Context) {
        let mut pause = FIRST_PAUSE;
        context.board.set(&self.subject, State::Pending);
        loop {
            if self.subject.kind.group == tf_api::GROUP {
                self.wait_for_definition(&context).await;
            }
            let error = self.follow(&context, &mut pause).await;
            context.metrics.watch_errors.with_label_values(&[self.subject.kind.kind]).inc();
            tracing::warn!(kind = self.subject.kind.kind, namespace = self.subject.namespace, %error, "watch failed");
            self.fail(&context, &error);
            tokio::time::sleep(jittered(pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// While the definition of the kind is not installed there is nothing to watch, and that is a normal state.
    async fn wait_for_definition(&self, context: &Context) {
        let kind = self.subject.kind;
        if context.discovery.has(kind) {
            return;
        }
        let message = format!("the definition of kind {} is not installed", kind.kind);
        self.set(context, State::Failing(Unavailable { reason: Reason::CrdMissing, message }));
        self.sink.begin();
        self.sink.end(self.subject.namespace.as_deref());
        context.discovery.wait_for(kind).await;
    }

    /// Follows the watch until it has to be begun anew. Errors in between that kube's watcher recovers from are waited
    /// out here, because it does not wait by itself.
    async fn follow(&self, context: &Context, pause: &mut Duration) -> watcher::Error {
        let mut config = watcher::Config::default().timeout(WATCH_SECONDS);
        config.label_selector.clone_from(&self.labels);
        let mut events = Box::pin(watcher(self.api.clone(), config));
        loop {
            match events.next().await {
                Some(Ok(event)) => {
                    if matches!(event, Event::InitDone) {
                        self.set(context, State::Synced);
                    }
                    if !matches!(event, Event::Init) {
                        *pause = FIRST_PAUSE;
                    }
                    self.take(event);
                }
                Some(Err(error @ (watcher::Error::InitialListFailed(_) | watcher::Error::WatchStartFailed(_)))) => {
                    return error;
                }
                Some(Err(error)) => {
                    context.metrics.watch_errors.with_label_values(&[self.subject.kind.kind]).inc();
                    tracing::debug!(kind = self.subject.kind.kind, %error, "watch interrupted");
                    tokio::time::sleep(jittered(*pause)).await;
                    *pause = (*pause * 2).min(LONGEST_PAUSE);
                }
                None => return watcher::Error::NoResourceVersion,
            }
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

    fn fail(&self, context: &Context, error: &watcher::Error) {
        let (watcher::Error::InitialListFailed(cause) | watcher::Error::WatchStartFailed(cause)) = error else {
            return;
        };
        let status = match cause {
            kube::Error::Api(status) => Some(status),
            _ => None,
        };
        let reason = match status.map(|status| status.code) {
            Some(404) => {
                context.discovery.suspect(self.subject.kind);
                Reason::CrdMissing
            }
            Some(401 | 403) => Reason::Forbidden,
            _ => Reason::ApiError,
        };
        // What was seen before stays in use through a passing failure; being denied or gone is not passing.
        if reason == Reason::ApiError && context.board.get(&self.subject) == State::Synced {
            return;
        }
        let message = format!("cannot watch {}: {}", self.subject.kind.plural, in_words(cause));
        self.set(context, State::Failing(Unavailable { reason, message }));
    }

    fn set(&self, context: &Context, state: State) {
        let synced = i64::from(state == State::Synced);
        context.metrics.watch_synced.with_label_values(&[self.subject.kind.kind]).set(synced);
        context.board.set(&self.subject, state);
    }
}

/// The pause, plus up to a quarter of it, so that many watches do not return at the same moment.
pub fn jittered(pause: Duration) -> Duration {
    pause + pause.mul_f64(rand::random::<f64>() / 4.0)
}
