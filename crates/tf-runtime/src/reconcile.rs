//! One pass over one resource: guard, observe, plan, apply, step, assess, status, next.

mod deletion;
mod objects;
pub mod refused;
mod reporting;

use std::{sync::Arc, time::Duration};

use tf_api::{
    Managed, Resource,
    contract::{ConditionType, Reason},
};
use tf_plan::{
    assess::Outcome,
    component::Component,
    not_ready::{NotReady, Obstacle},
    observed::Observed,
    plan::{Hibernation, Plan},
    registration::{self, Progress},
    status,
    step::Step,
};

use self::{objects::with_answers, refused::Refused, reporting::is_recorded};
use crate::{
    apply::{Applier, ApplyError},
    caches::Caches,
    drainer::{self, Drainer},
    error::RequestError,
    events::Events,
    finalizer::Finalizer,
    identity::{Authorities, AuthorityFailure, LACKING, ROTATING},
    marker::Marker,
    metrics::Metrics,
    object::{Key, resource_version},
    observe::Observer,
    pruned::pruned,
    queue::SPREAD,
    registration::Registrar,
    status::{Known, StatusError, StatusWriter, Target},
    step::{Stepper, Taken},
    watch::Primary,
};

/// A pass may take this long; then it is given up and said so.
pub const DEADLINE: Duration = Duration::from_mins(1);
/// A resource is looked at again after this time even if nothing happens, plus jitter.
pub const RESYNC: Duration = Duration::from_mins(10);

/// When the resource is looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// After the resync interval, or when something changes.
    Resync,
    /// After this time at the latest.
    Within(Duration),
    /// By the back-off.
    Retry,
    /// Not before something changes.
    Rest,
}

impl Next {
    /// The same, but not later than this.
    fn at_latest(self, limit: Duration) -> Self {
        match self {
            Self::Within(wait) => Self::Within(wait.min(limit)),
            Self::Resync | Self::Rest => Self::Within(limit),
            Self::Retry => Self::Retry,
        }
    }
}

/// Everything a pass needs.
pub struct Reconciler<C: Component> {
    /// Caches.
    pub caches: Arc<Caches<C::Cr>>,
    /// Takes snapshots.
    pub observer: Observer<C>,
    /// Applies objects.
    pub applier: Arc<Applier>,
    /// Writes status.
    pub statuses: StatusWriter,
    /// Takes steps.
    pub stepper: Stepper,
    /// Marks nodes.
    pub marker: Marker,
    /// Evicts pods from nodes.
    pub drainer: Drainer,
    /// Has controllers try again to make pods that the API server refused.
    pub refused: Refused,
    /// Tells the config API what is in the cluster.
    pub registrar: Arc<Registrar>,
    /// Authorities of members' certificates.
    pub authorities: Arc<Authorities>,
    /// Releases resources that are being deleted.
    pub finalizer: Finalizer,
    /// Tells people.
    pub events: Arc<Events>,
    /// Counts.
    pub metrics: Arc<Metrics>,
}

/// A pass that did not get to its end.
#[derive(Debug, thiserror::Error)]
enum PassError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error(transparent)]
    Status(#[from] StatusError),
    #[error(transparent)]
    Authority(#[from] AuthorityFailure),
    /// What comes next would rest on what nobody knows after a restart.
    #[error(
        "the installed definition of {0} does not keep {1} in the status; nothing is done before the definitions of this \
         release are installed"
    )]
    Unrecorded(&'static str, String),
}

impl PassError {
    fn reason(&self) -> Reason {
        match self {
            Self::Request(error) | Self::Status(StatusError::Request(error)) => error.reason(),
            Self::Apply(error) => error.reason(),
            Self::Status(StatusError::Contract(_)) | Self::Unrecorded(..) => Reason::ApiError,
            Self::Authority(failure) => failure.reason(),
        }
    }

    fn request(&self) -> Option<&RequestError> {
        match self {
            Self::Request(error)
            | Self::Status(StatusError::Request(error))
            | Self::Apply(ApplyError::Request(error))
            | Self::Authority(AuthorityFailure::Request(error)) => Some(error),
            _ => None,
        }
    }
}

/// The resource of a pass, with its status as it is known.
struct Subject<'a, Cr> {
    key: &'a Key,
    cr: Arc<Cr>,
    uid: String,
    generation: i64,
    before: Known,
}

impl<Cr: Managed> Subject<'_, Cr> {
    fn target(&self) -> Target<'_> {
        let version = resource_version(self.cr.meta()).unwrap_or_default();
        Target { key: self.key, uid: &self.uid, version, generation: self.generation }
    }
}

impl<C: Component> Reconciler<C> {
    /// Looks at one resource. `failures` are its failed passes in a row.
    pub async fn reconcile(&self, key: &Key, failures: u32) -> Next {
        let begun = tokio::time::Instant::now();
        let Some(primary) = self.caches.primaries.get(key) else { return Next::Rest };
        let pass = async {
            match &*primary {
                Primary::Valid(cr) => self.pass(key, cr, failures).await,
                Primary::Undecodable { metadata, .. } if metadata.deletion_timestamp.is_some() => {
                    ("deleting", self.release(key, metadata, None).await.0)
                }
                Primary::Undecodable { metadata, error } => ("invalid", self.undecodable(key, metadata, error).await),
            }
        };
        let (outcome, next) = match tokio::time::timeout(DEADLINE, pass).await {
            Ok(end) => end,
            Err(_) => ("failed", self.overdue(key, &primary).await),
        };
        self.metrics.reconciled(outcome, begun.elapsed());
        next
    }

    async fn pass(&self, key: &Key, cr: &Arc<C::Cr>, failures: u32) -> (&'static str, Next) {
        let subject = self.subject(key, cr);
        if cr.meta().deletion_timestamp.is_some() {
            return ("deleting", self.finalize(&subject).await);
        }
        match self.finalizer.ensure(key, cr.meta()).await {
            Ok(false) => {}
            // The resource is another version now, which wakes it.
            Ok(true) => return ("waiting", Next::Resync),
            Err(error) => return ("failed", self.failed(&subject, &error.into(), failures).await),
        }
        let end = match self.observer.observe(key, &subject.cr).await {
            Ok(observed) => self.carry_out(&subject, &observed).await,
            Err(error) => Err(error.into()),
        };
        match end {
            Ok(end) => end,
            Err(error) => ("failed", self.failed(&subject, &error, failures).await),
        }
    }

    /// The resource with the status that we wrote last. Plans rest on it: members keep their numbers also while the cache
    /// has not seen that they got them.
    fn subject<'a>(&self, key: &'a Key, cached: &Arc<C::Cr>) -> Subject<'a, C::Cr> {
        let meta = cached.meta();
        let uid = meta.uid.clone().unwrap_or_default();
        let generation = meta.generation.unwrap_or_default();
        let newer = self.statuses.newer(key, &uid, resource_version(meta).unwrap_or_default());
        let mut value = serde_json::to_value(&**cached).unwrap_or_default();
        let Some(status) = newer else {
            let before = Known::of(value["status"].take());
            return Subject { key, cr: Arc::clone(cached), uid, generation, before };
        };
        value["status"].clone_from(&status);
        let cr = serde_json::from_value(value).map_or_else(|_| Arc::clone(cached), Arc::new);
        Subject { key, cr, uid, generation, before: Known::of(status) }
    }

    /// Plans and does what the plan says. Status is written before the first change and after the last.
    async fn carry_out(
        &self,
        subject: &Subject<'_, C::Cr>,
        observed: &Observed<C::Cr>,
    ) -> Result<(&'static str, Next), PassError> {
        match C::plan(&subject.cr, observed) {
            Ok(mut plan) => {
                plan.ignored.extend(pruned(&*subject.cr));
                let before = self.announce(subject, observed, &plan).await?;
                for news in plan.news.iter().filter(|_| !subject.cr.paused()) {
                    self.events.told(&*subject.cr, news).await;
                }
                if self.caches.declaration.calls_agents && !subject.cr.paused() {
                    match self.authorities.ensure(&*subject.cr, &observed.agents).await {
                        Err(failure @ AuthorityFailure::Awaited(..)) => {
                            let not_ready = NotReady::waiting(failure.reason(), failure.to_string());
                            let next = self.wait(subject, observed, &not_ready).await?;
                            return Ok(("waiting", next.at_latest(LACKING)));
                        }
                        ensured => ensured?,
                    }
                }
                self.register(subject, &before, &mut plan);
                let mut applied = self.apply(subject, &plan).await?;
                let mut is_marked = true;
                if !subject.cr.paused() {
                    match self.marker.mark(&plan.marks).await {
                        Ok(all) => is_marked = all,
                        Err(error) if error.is_transient() => return Err(error.into()),
                        Err(error) => applied.report.refused.push((error.reason(), error.to_string())),
                    }
                    let hindrances = self.drainer.drain(&self.marker, &plan.drains).await?;
                    if let Some(first) = hindrances.first() {
                        let more = hindrances.len() - 1;
                        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
                        plan.explain(format!("{first}{more}"));
                    }
                }
                let observed = with_answers(observed, &applied.answers);
                let has_refused_pods = self.try_again(subject, &observed).await?;
                // A step rests on what was observed; what this pass changed has to be observed first.
                let settled = applied.answers.is_empty() && applied.report.is_complete();
                let step = plan.step.as_ref().filter(|_| settled && !subject.cr.paused());
                let taken = match step {
                    Some(step) => Some(self.step(subject, step, &plan.batch).await?),
                    None => None,
                };
                let refused = matches!(taken, Some(Taken::Refused(_)));
                if let Some(Taken::Refused(why)) = taken {
                    plan.explain(why);
                }
                let outcome = Outcome::Planned(&plan, &applied.report);
                let next = self.conclude(subject, &before, &observed, outcome).await?;
                // Nothing that happens would wake this resource. What was refused may be let in later, and what a former
                // resource left be removed; and the next plan rests on what this pass recorded.
                let next = if refused || !applied.report.refused.is_empty() || applied.leftovers || !is_marked {
                    Next::Retry
                } else if subject.cr.paused() {
                    next
                } else if !is_recorded(&plan, &subject.before) {
                    next.at_latest(SPREAD)
                } else if self.authorities.waits(&subject.key.namespace).is_some() {
                    next.at_latest(ROTATING)
                } else if self.authorities.lacks(&subject.uid).is_some() {
                    next.at_latest(LACKING)
                } else if has_refused_pods {
                    next.at_latest(refused::PAUSE)
                } else if !plan.drains.is_empty() {
                    next.at_latest(drainer::PAUSE)
                } else {
                    next
                };
                Ok(("planned", next))
            }
            Err(mut not_ready) => {
                not_ready.ignored.extend(pruned(&*subject.cr));
                self.apply_all(subject, &not_ready.prepared).await?;
                let outcome = match not_ready.obstacle {
                    Obstacle::Waiting => "waiting",
                    Obstacle::Invalid => "invalid",
                };
                let next = self.wait(subject, observed, &not_ready).await?;
                Ok((outcome, next))
            }
        }
    }

    /// Has what the plan wants told to the config API, and adds how far that has got. Nothing waits for it here.
    fn register(&self, subject: &Subject<'_, C::Cr>, before: &Known, plan: &mut Plan) {
        let Some(registration) = &plan.registration else { return self.registrar.forget(subject.key) };
        let idle = subject.cr.paused() || plan.hibernation == Hibernation::Asleep;
        let progress = if idle {
            self.registrar.forget(subject.key);
            Progress::Unknown
        } else if registration.is_early && self.registrar.wanted(subject.key).is_none() {
            Progress::Unknown
        } else {
            self.registrar.want(subject.key, &subject.uid, registration.clone())
        };
        // What was true before this process began, or before it rested, counts until somebody has looked.
        let carried = || status::draft(before.contract.as_ref()?, ConditionType::Provisioned);
        let pending = || {
            registration::draft(&Progress::Pending(
                "the objects for the config API are about to be written to it".into(),
            ))
        };
        plan.drafts.extend(registration::draft(&progress).or_else(carried).or_else(pending));
    }

    /// Has the controllers of workloads try again whose pods the API server refuses. Whether there are any.
    async fn try_again(&self, subject: &Subject<'_, C::Cr>, observed: &Observed<C::Cr>) -> Result<bool, RequestError> {
        let Some(kind) = self.caches.declaration.workload_kinds().next().filter(|_| !subject.cr.paused()) else {
            return Ok(false);
        };
        self.refused.try_again(kind, &subject.key.namespace, observed.workloads.values()).await
    }

    /// Takes a step and those beside it, and publishes one event for all.
    async fn step(&self, subject: &Subject<'_, C::Cr>, step: &Step, beside: &[Step]) -> Result<Taken, PassError> {
        self.caches.forget_deleted();
        let taken = self.take(subject, step).await?;
        match &taken {
            Taken::Done => self.events.stepped(&*subject.cr, step, beside.len()).await,
            Taken::Gone => {}
            Taken::Refused(why) => self.events.refused(&*subject.cr, step, why).await,
        }
        for step in beside {
            self.take(subject, step).await?;
        }
        Ok(taken)
    }

    async fn take(&self, subject: &Subject<'_, C::Cr>, step: &Step) -> Result<Taken, PassError> {
        let taken = self.stepper.take(subject.key, step).await?;
        if let (Step::Restart(target), Taken::Done) = (step, &taken) {
            self.caches.was_deleted(&target.uid);
        }
        Ok(taken)
    }
}
