//! The loop: triggers in, passes out.

use std::{sync::Arc, time::Duration};

use tf_api::Managed;
use tf_plan::component::Component;
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    apply::Owner,
    backoff::Backoff,
    health::Health,
    leader::Permit,
    object::Key,
    queue::Queue,
    reconcile::{Next, RESYNC, Reconciler, is_ready},
    watch::{Board, Primary, jittered},
    world::Trigger,
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
    pub board: Arc<Board>,
    /// Liveness.
    pub health: Arc<Health>,
}

struct Work {
    queue: Queue,
    backoff: Backoff,
    tasks: JoinSet<(Key, Next)>,
}

impl<C: Component> Controller<C> {
    /// Runs until `stop`; then lets passes finish.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut work = Work { queue: Queue::default(), backoff: Backoff::default(), tasks: JoinSet::new() };
        // The first snapshot needs every watch to have had its say; one that fails has had it.
        tokio::select! {
            () = self.board.tried() => {}
            () = stop.cancelled() => return,
        }
        self.add_all(&mut work.queue);
        loop {
            self.health.beat();
            let leads = self.permit.until().is_some();
            let free = leads && work.tasks.len() < CONCURRENCY;
            let board = self.board.clone();
            tokio::select! {
                () = stop.cancelled() => break,
                trigger = self.triggers.recv() => match trigger {
                    Some(trigger) => self.take(trigger, &mut work),
                    None => break,
                },
                key = work.queue.next(), if free => self.start(key, &mut work),
                Some(ended) = work.tasks.join_next() => self.end(ended, &mut work),
                alive = self.permit.changed() => {
                    if !alive { break }
                    self.add_all(&mut work.queue);
                }
                // A watch that began or ceased to work may be what a condition waits for.
                () = board.changed() => self.add_all(&mut work.queue),
                () = tokio::time::sleep(Health::INTERVAL) => {}
            }
        }
        self.finish(work).await;
    }

    fn take(&self, trigger: Trigger, work: &mut Work) {
        match trigger {
            Trigger::One(key) => work.queue.add(key),
            Trigger::Gone(key, uid) => {
                self.reconciler.applier.forget(Owner { uid: &uid });
                work.queue.forget(&key);
                work.backoff.succeeded(&key);
                self.reconciler.statuses.forget(&key);
                self.reconciler.world.inputs.forget(&key);
                // Others may have waited for its place.
                self.add_all(&mut work.queue);
            }
            Trigger::All => self.add_all(&mut work.queue),
        }
    }

    fn add_all(&self, queue: &mut Queue) {
        for key in self.reconciler.world.primaries.keys() {
            queue.add(key);
        }
    }

    fn start(&self, key: Key, work: &mut Work) {
        let reconciler = self.reconciler.clone();
        let failures = work.backoff.failures(&key);
        work.tasks.spawn(async move {
            let next = reconciler.reconcile(&key, failures).await;
            (key, next)
        });
    }

    fn end(&self, ended: Result<(Key, Next), tokio::task::JoinError>, work: &mut Work) {
        let Ok((key, next)) = ended else {
            tracing::error!("a pass ended abnormally");
            return;
        };
        work.queue.done(&key);
        if next == Next::Retry {
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
        let metrics = &self.reconciler.metrics;
        metrics.in_backoff.set(work.backoff.len() as i64);
        metrics.resources.reset();
        for (_, primary) in self.reconciler.world.primaries.select(|_, _| true) {
            let contract = match &*primary {
                Primary::Valid(cr) => cr.contract(),
                Primary::Undecodable { .. } => None,
            };
            metrics.resources.with_label_values(&[is_ready(contract)]).inc();
        }
    }

    async fn finish(&self, mut work: Work) {
        let until = Instant::now() + STOP_LIMIT;
        tracing::info!(under_way = work.tasks.len(), "stopping");
        while let Ok(Some(_)) = tokio::time::timeout_at(until, work.tasks.join_next()).await {}
    }
}
