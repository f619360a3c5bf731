//! The loop: triggers in, passes out.

#[cfg(test)]
mod tests;

use std::{collections::HashMap, pin::pin, sync::Arc, time::Duration};

use tf_api::Managed as _;
use tf_plan::component::Component;
use tokio::{
    sync::mpsc,
    task::{self, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    backoff::Backoff,
    caches::Trigger,
    health::Health,
    leader::Permit,
    object::Key,
    queue::Queue,
    reconcile::{Next, RESYNC, Reconciler},
    watch::{WatchStatuses, jittered},
};

/// Passes at the same time.
const CONCURRENCY: usize = 4;
/// How long passes that are under way may go on after a request to stop.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// Runs passes while this process leads.
pub struct Controller<C: Component> {
    /// Does the passes.
    pub reconciler: Arc<Reconciler<C>>,
    /// What wakes it.
    pub triggers: mpsc::UnboundedReceiver<Trigger>,
    /// Until when it may write.
    pub permit: Permit,
    /// State of the watches.
    pub watch_statuses: Arc<WatchStatuses>,
    /// Liveness.
    pub health: Arc<Health>,
}

/// A pass under way.
struct Pass {
    key: Key,
    uid: String,
}

#[derive(Default)]
struct Work {
    queue: Queue,
    backoff: Backoff,
    tasks: JoinSet<Next>,
    passes: HashMap<task::Id, Pass>,
}

impl<C: Component> Controller<C> {
    /// Runs until `stop`; then lets passes finish.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut work = Work::default();
        let mut changes = self.watch_statuses.changes();
        // The first snapshot needs every watch to have had its say; one that fails has had it.
        let watch_statuses = self.watch_statuses.clone();
        let mut tried = pin!(watch_statuses.tried());
        loop {
            self.health.beat();
            tokio::select! {
                () = &mut tried => break,
                () = stop.cancelled() => return,
                () = tokio::time::sleep(Health::INTERVAL) => {}
            }
        }
        changes.mark_unchanged();
        self.add_all(&mut work.queue);
        loop {
            self.health.beat();
            let leads = self.permit.until().is_some();
            let free = leads && work.tasks.len() < CONCURRENCY;
            tokio::select! {
                () = stop.cancelled() => break,
                trigger = self.triggers.recv() => match trigger {
                    Some(trigger) => self.take(trigger, &mut work),
                    None => break,
                },
                key = work.queue.next(), if free => self.start(key, &mut work),
                Some(ended) = work.tasks.join_next_with_id() => self.end(ended, &mut work),
                alive = self.permit.changed() => {
                    if !alive { break }
                    self.add_all(&mut work.queue);
                }
                // A watch that began or ceased to work may be what a condition waits for.
                Ok(()) = changes.changed() => self.add_all(&mut work.queue),
                () = tokio::time::sleep(Health::INTERVAL) => {}
            }
        }
        self.finish(work).await;
    }

    fn take(&self, trigger: Trigger, work: &mut Work) {
        match trigger {
            Trigger::One(key) => work.queue.add(key),
            Trigger::Gone(key, uid) => {
                self.forget(&key, &uid, work);
                self.measure(work);
                // Others may have waited for its place.
                self.add_all(&mut work.queue);
            }
            Trigger::All => self.add_all(&mut work.queue),
        }
    }

    /// Keeps nothing of a resource that is gone, unless another one has taken its name.
    fn forget(&self, key: &Key, uid: &str, work: &mut Work) {
        self.reconciler.applier.forget(uid);
        self.reconciler.authorities.forget(uid);
        if self.reconciler.caches.primaries.get(key).is_none() {
            work.queue.forget(key);
            work.backoff.succeeded(key);
            self.reconciler.statuses.forget(key);
            self.reconciler.registrar.forget(key);
            self.reconciler.observer.logins.forget(key);
            self.reconciler.caches.inputs.forget(key);
        }
    }

    fn add_all(&self, queue: &mut Queue) {
        for key in self.reconciler.caches.primaries.keys() {
            queue.add(key);
        }
    }

    /// Uid of the resource that has this name now.
    fn uid(&self, key: &Key) -> Option<String> {
        Some(self.reconciler.caches.primaries.get(key)?.metadata().uid.clone().unwrap_or_default())
    }

    fn start(&self, key: Key, work: &mut Work) {
        let Some(uid) = self.uid(&key) else {
            work.queue.done(&key);
            return work.queue.forget(&key);
        };
        let reconciler = self.reconciler.clone();
        let failures = work.backoff.failures(&key);
        let pass = Pass { key: key.clone(), uid };
        let task = work.tasks.spawn(async move { reconciler.reconcile(&key, failures).await });
        work.passes.insert(task.id(), pass);
    }

    fn end(&self, ended: Result<(task::Id, Next), task::JoinError>, work: &mut Work) {
        let (id, next) = ended.unwrap_or_else(|error| {
            tracing::error!(%error, "a pass ended abnormally");
            (error.id(), Next::Retry)
        });
        let Some(Pass { key, uid }) = work.passes.remove(&id) else { return };
        work.queue.done(&key);
        if self.uid(&key).as_ref() != Some(&uid) {
            // It was deleted meanwhile, and what the pass remembered of it is new since we were told so.
            self.forget(&key, &uid, work);
        } else if next == Next::Retry {
            let delay = work.backoff.failed(&key);
            work.queue.add_after(key, delay);
        } else {
            work.backoff.succeeded(&key);
            match next {
                Next::Within(delay) => work.queue.add_after(key, delay.min(RESYNC)),
                Next::Resync => work.queue.add_after(key, jittered(RESYNC)),
                Next::Rest | Next::Retry => {}
            }
        }
        self.measure(work);
    }

    fn measure(&self, work: &Work) {
        self.reconciler.metrics.retries(C::Cr::INFO.kind, work.backoff.len());
    }

    async fn finish(&self, mut work: Work) {
        let until = Instant::now() + STOP_LIMIT;
        tracing::info!(under_way = work.tasks.len(), "stopping");
        while let Ok(Some(_)) = tokio::time::timeout_at(until, work.tasks.join_next()).await {}
    }
}
