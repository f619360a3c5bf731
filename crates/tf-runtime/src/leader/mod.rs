//! Leader election by a Lease, and the permission to write that comes with it.
//!
//! [`Permit`] is asked before every mutating request (see [`crate::client`]): it holds until the renewal deadline and not
//! a moment longer, whatever the election loop is doing. Losing the lease ends no process: reconciling stops, and the
//! loop goes on trying to get the lease back.

mod decision;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Api,
    api::PostParams,
    runtime::watcher::{self, Event, watcher},
};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

pub use decision::Timing;
use decision::{Decision, Seen, decide, may_write_for};

use crate::{error::in_words, metrics::Metrics, object::resource_version, watch::resumes};

/// Until when this process may write. Cheap to clone and to ask.
#[derive(Clone, Debug)]
pub struct Permit(Source);

#[derive(Clone, Debug)]
enum Source {
    /// There is no election.
    Unconditional,
    /// The election says.
    Lease(watch::Receiver<Option<Instant>>),
}

impl Permit {
    /// A permit that never ends, for processes without election.
    pub fn forever() -> Self {
        Self(Source::Unconditional)
    }

    /// A permit that is already over.
    #[cfg(test)]
    pub fn ended() -> Self {
        Self(Source::Lease(watch::channel(None).1))
    }

    /// A permit that ends after the given time.
    #[cfg(test)]
    pub fn ending_in(time: Duration) -> Self {
        Self(Source::Lease(watch::channel(Some(Instant::now() + time)).1))
    }

    /// A permit that ends after the given time unless it is renewed.
    #[cfg(test)]
    pub fn renewable(time: Duration) -> (watch::Sender<Option<Instant>>, Self) {
        let (sender, receiver) = watch::channel(Some(Instant::now() + time));
        (sender, Self(Source::Lease(receiver)))
    }

    /// The moment at which writing has to stop; none if it must not happen now.
    pub fn until(&self) -> Option<Instant> {
        match &self.0 {
            // About a century; `Instant` has no maximum.
            Source::Unconditional => Some(Instant::now() + Duration::from_hours(1_000_000)),
            Source::Lease(deadline) => deadline.borrow().filter(|deadline| Instant::now() < *deadline),
        }
    }

    /// Completes when the permit is gained or lost; false when nobody campaigns any more. A permit for ever is neither.
    pub async fn changed(&mut self) -> bool {
        match &mut self.0 {
            Source::Unconditional => std::future::pending().await,
            Source::Lease(deadline) => deadline.changed().await.is_ok(),
        }
    }
}

/// Who campaigns for which lease.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease, that of the operator.
    pub name: String,
    /// Name of this process, unique.
    pub identity: String,
    /// Durations.
    pub timing: Timing,
}

/// Campaigns until `stop`, then releases the lease. The returned permit follows the lease.
pub fn campaign(
    api: Api<Lease>,
    candidate: Candidate,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) -> (Permit, tokio::task::JoinHandle<()>) {
    let (sender, receiver) = watch::channel(None);
    let election = Election {
        api,
        candidate,
        permit: sender,
        metrics,
        leads: false,
        lease: Sight::Unknown,
        last_change: Instant::now(),
        renewed: None,
    };
    (Permit(Source::Lease(receiver)), tokio::spawn(election.run(stop)))
}

/// What is known of the lease object.
enum Sight {
    Unknown,
    Absent,
    Present(Box<Lease>),
}

impl Sight {
    fn lease(&self) -> Option<&Lease> {
        match self {
            Self::Present(lease) => Some(lease),
            Self::Unknown | Self::Absent => None,
        }
    }
}

impl From<Option<Lease>> for Sight {
    fn from(lease: Option<Lease>) -> Self {
        lease.map_or(Self::Absent, |lease| Self::Present(Box::new(lease)))
    }
}

struct Election {
    api: Api<Lease>,
    candidate: Candidate,
    permit: watch::Sender<Option<Instant>>,
    metrics: Arc<Metrics>,
    /// What was told last.
    leads: bool,
    /// As last seen.
    lease: Sight,
    /// When we saw it change.
    last_change: Instant,
    /// When our last successful write was sent.
    renewed: Option<Instant>,
}

impl Election {
    async fn run(mut self, stop: CancellationToken) {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.candidate.name)).timeout(1800);
        let api = self.api.clone();
        let watch = move || Box::pin(watcher(api.clone(), config.clone()));
        let mut changes = watch();
        let mut pause = Duration::ZERO;
        loop {
            let next_change = async {
                tokio::time::sleep(pause).await;
                changes.next().await
            };
            let wait = self.wait();
            tokio::select! {
                () = stop.cancelled() => break,
                event = next_change => {
                    if matches!(&event, Some(Err(watcher::Error::WatchStartFailed(error))) if !resumes(error)) {
                        changes = watch();
                    }
                    pause = self.note(event);
                }
                () = tokio::time::sleep(wait) => {}
            }
            self.act().await;
        }
        self.release().await;
    }

    fn seen(&self) -> Seen {
        let lease = match &self.lease {
            Sight::Unknown => return Seen::Unknown,
            Sight::Absent => return Seen::Absent,
            Sight::Present(lease) => lease,
        };
        let spec = lease.spec.clone().unwrap_or_default();
        match spec.holder_identity.as_deref() {
            None | Some("") => Seen::Free,
            Some(holder) if holder == self.candidate.identity => match self.renewed {
                Some(renewed) => Seen::Ours { renewed: renewed.elapsed() },
                // A former process of our name held it; it is ours to take.
                None => Seen::Free,
            },
            Some(_) => {
                let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default();
                let lease = if seconds == 0 { self.candidate.timing.lease } else { Duration::from_secs(seconds) };
                Seen::Theirs { unchanged: self.last_change.elapsed(), lease }
            }
        }
    }

    fn wait(&self) -> Duration {
        match decide(&self.seen(), &self.candidate.timing) {
            Decision::Wait(duration) => duration,
            // The last attempt failed, or it would have changed what we see.
            _ => self.candidate.timing.retry,
        }
    }

    /// Takes in what the watch says. Returns how long to leave the watch alone.
    fn note(&mut self, event: Option<Result<Event<Lease>, watcher::Error>>) -> Duration {
        match event {
            Some(Ok(Event::InitApply(lease) | Event::Apply(lease))) => self.see(Some(lease)),
            Some(Ok(Event::Delete(_))) => self.see(None),
            Some(Ok(Event::InitDone)) if matches!(self.lease, Sight::Unknown) => self.see(None),
            Some(Ok(Event::Init | Event::InitDone)) => {}
            Some(Err(error)) => {
                tracing::warn!(%error, "watching the leader lease failed");
                return self.candidate.timing.retry;
            }
            None => return self.candidate.timing.retry,
        }
        Duration::ZERO
    }

    fn see(&mut self, lease: Option<Lease>) {
        let known = self.lease.lease().and_then(|lease| resource_version(&lease.metadata));
        let arrived = lease.as_ref().and_then(|lease| resource_version(&lease.metadata));
        // The watch may still deliver what our own write has overtaken.
        let stale = known.zip(arrived).is_some_and(|(known, arrived)| arrived < known);
        if !stale {
            self.replace(lease);
        }
        self.publish();
    }

    /// Takes what is there for true. Its age counts from now if it is another version than the one known.
    fn replace(&mut self, lease: Option<Lease>) {
        let version = |lease: Option<&Lease>| lease.and_then(|lease| resource_version(&lease.metadata));
        if matches!(self.lease, Sight::Unknown) || version(self.lease.lease()) != version(lease.as_ref()) {
            self.lease = lease.into();
            self.last_change = Instant::now();
        }
    }

    async fn act(&mut self) {
        let decision = decide(&self.seen(), &self.candidate.timing);
        if !matches!(decision, Decision::Wait(_)) {
            self.write(decision).await;
        }
        self.publish();
    }

    async fn write(&mut self, decision: Decision) {
        let sent = Instant::now();
        let desired = self.desired(decision);
        let name = &self.candidate.name;
        let request = async {
            match decision {
                Decision::Create => self.api.create(&PostParams::default(), &desired).await,
                _ => self.api.replace(name, &PostParams::default(), &desired).await,
            }
        };
        match timeout(self.candidate.timing.retry * 2, request).await {
            Ok(Ok(lease)) => {
                self.lease = Some(lease).into();
                self.last_change = sent;
                self.renewed = Some(sent);
            }
            Ok(Err(kube::Error::Api(status)))
                if status.is_conflict() || status.is_already_exists() || status.is_not_found() =>
            {
                tracing::info!("the leader lease is no longer what it was; another process may have written it first");
                self.refresh().await;
            }
            Ok(Err(error)) => tracing::warn!(error = in_words(&error), ?decision, "writing the leader lease failed"),
            Err(_) => tracing::warn!(?decision, "writing the leader lease did not finish in time"),
        }
    }

    /// Reads the lease after a lost race, so that the next decision does not rest on what was just proved stale. What is
    /// read counts whatever its version: after a restore of the cluster from a snapshot, versions are lower than before.
    async fn refresh(&mut self) {
        if let Ok(Ok(lease)) = timeout(self.candidate.timing.retry, self.api.get_opt(&self.candidate.name)).await {
            self.replace(lease);
        }
    }

    fn desired(&self, decision: Decision) -> Lease {
        let now = MicroTime(Timestamp::now());
        let before = self.lease.lease().cloned().unwrap_or_default();
        let spec = before.spec.unwrap_or_default();
        let taken_over = decision != Decision::Renew;
        Lease {
            metadata: ObjectMeta {
                name: Some(self.candidate.name.clone()),
                namespace: Some(self.candidate.namespace.clone()),
                resource_version: before.metadata.resource_version,
                labels: Some(BTreeMap::from([(
                    tf_api::names::LABEL_MANAGED_BY.to_owned(),
                    self.candidate.name.clone(),
                )])),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.candidate.identity.clone()),
                lease_duration_seconds: i32::try_from(self.candidate.timing.lease.as_secs()).ok(),
                acquire_time: if taken_over { Some(now.clone()) } else { spec.acquire_time },
                lease_transitions: Some(spec.lease_transitions.unwrap_or_default() + i32::from(taken_over)),
                renew_time: Some(now),
                ..LeaseSpec::default()
            }),
        }
    }

    fn publish(&mut self) {
        let left = may_write_for(&self.seen(), &self.candidate.timing);
        let deadline = (left > Duration::ZERO).then(|| Instant::now() + left);
        let leads = deadline.is_some();
        self.metrics.leader.set(i64::from(leads));
        // Compared with what was told, not with the deadline: that passes without anybody telling.
        let turned = leads != std::mem::replace(&mut self.leads, leads);
        if turned {
            tracing::info!(leader = leads, identity = self.candidate.identity, "leadership changed");
        }
        // Where only the date moved, those who ask see it; those who wait for a change of fortune are not woken.
        self.permit.send_if_modified(|current| {
            *current = deadline;
            turned
        });
    }

    async fn release(&mut self) {
        let Seen::Ours { .. } = self.seen() else { return };
        let mut lease = self.desired(Decision::Renew);
        if let Some(spec) = lease.spec.as_mut() {
            spec.holder_identity = None;
            spec.lease_duration_seconds = Some(1);
        }
        self.permit.send_replace(None);
        let parameters = PostParams::default();
        let request = self.api.replace(&self.candidate.name, &parameters, &lease);
        if let Ok(Err(error)) = timeout(self.candidate.timing.retry, request).await {
            tracing::warn!(error = in_words(&error), "releasing the leader lease failed; others wait until it expires");
        }
    }
}
