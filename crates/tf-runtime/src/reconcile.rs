//! One pass over one resource: guard, observe, plan, apply, step, assess, status, next.

use std::{sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde_json::Value;
use tf_api::{
    Managed, Resource,
    contract::{ConditionType, Reason},
};
use tf_plan::{
    assess::{Applied, Assessment, Outcome, Situation, assess},
    component::Component,
    hibernation::Hibernation,
    object::{Kind, Object},
    observed::Observed,
    plan::{NotReady, Obstacle, Plan},
    registration::{self, Progress, Registration},
    status,
    step::Step,
};

use crate::{
    apply::{Act, Applier, ApplyError, Owner},
    error::RequestError,
    events::Events,
    finalizer::{Cleanup, Finalizer},
    identity::{Authorities, AuthorityFailure, LACKING, ROTATING},
    metrics::Metrics,
    object::{Key, resource_version},
    observe::Observer,
    queue::SPREAD,
    registration::Registrar,
    status::{Known, StatusError, StatusWriter, Target, Urgency, Write, kind_specific},
    step::{Stepper, Taken},
    watch::Primary,
    world::World,
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
    pub world: Arc<World<C::Cr>>,
    /// Takes snapshots.
    pub observer: Observer<C>,
    /// Applies objects.
    pub applier: Arc<Applier>,
    /// Writes status.
    pub statuses: StatusWriter,
    /// Takes steps.
    pub stepper: Stepper,
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
        let Some(primary) = self.world.primaries.get(key) else { return Next::Rest };
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
            return ("deleting", self.say_goodbye(&subject).await);
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
                let before = self.announce(subject, observed, &plan).await?;
                for news in plan.news.iter().filter(|_| !subject.cr.paused()) {
                    self.events.told(&*subject.cr, news).await;
                }
                if self.world.declaration.calls_agents && !subject.cr.paused() {
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
                let applied = self.apply(subject, &plan).await?;
                let observed = with_answers(observed, &applied.answers);
                // A step rests on what was observed; what this pass changed has to be observed first.
                let settled = applied.answers.is_empty() && applied.report.is_complete();
                let step = plan.step.as_ref().filter(|_| settled && !subject.cr.paused());
                let taken = match step {
                    Some(step) => Some(self.step(subject, step).await?),
                    None => None,
                };
                let refused = matches!(taken, Some(Taken::Refused(_)));
                if let Some(Taken::Refused(why)) = taken {
                    plan.under_way = Some(plan.under_way.into_iter().chain([why]).collect::<Vec<_>>().join(": "));
                }
                let outcome = Outcome::Planned(&plan, &applied.report);
                let next = self.conclude(subject, &before, &observed, outcome).await?;
                // Nothing that happens would wake this resource. What was refused may be let in later, and what a former
                // resource left be removed; and the next plan rests on what this pass recorded.
                let next = if refused || !applied.report.refused.is_empty() || applied.leftovers {
                    Next::Retry
                } else if subject.cr.paused() {
                    next
                } else if !is_recorded(&plan, &subject.before) {
                    next.at_latest(SPREAD)
                } else if self.authorities.waits(&subject.key.namespace).is_some() {
                    next.at_latest(ROTATING)
                } else if self.authorities.lacks(&subject.uid).is_some() {
                    next.at_latest(LACKING)
                } else {
                    next
                };
                Ok(("planned", next))
            }
            Err(not_ready) => {
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
        let pending = || registration::draft(&Progress::Pending("the config API is about to be told".into()));
        plan.drafts.extend(registration::draft(&progress).or_else(carried).or_else(pending));
    }

    /// What of a resource that is being deleted is still in the config API. Where that goes, too, nobody asks.
    async fn deregister(&self, key: &Key, cr: &C::Cr) -> Option<String> {
        let observed = self.observer.observe(key, cr).await.ok();
        let planned = observed.map(|observed| C::plan(cr, &observed));
        let (registration, drafts, why) = match planned {
            Some(Ok(plan)) => (plan.registration, plan.drafts, String::new()),
            Some(Err(not_ready)) => (None, not_ready.drafts, format!(" ({})", not_ready.message)),
            None => (None, Vec::new(), String::new()),
        };
        let api = drafts.into_iter().find(|draft| draft.kind == ConditionType::ConfigApiReady);
        let is_asked_for = api.as_ref().is_none_or(|api| api.reason != Reason::NotRequested);
        if api.is_some_and(|api| registration::is_gone(&api)) || registration.is_none() && !is_asked_for {
            return None;
        }
        let Some(registration) = registration.or_else(|| self.registrar.wanted(key)) else {
            return Some(format!("what it has in the config API, of which nothing is known{why}"));
        };
        let uid = cr.meta().uid.as_deref().unwrap_or_default();
        let wanted = registration.wanted.nothing();
        match self.registrar.want(key, uid, Registration { wanted, ..registration }) {
            Progress::Done { notes, .. } => {
                if !notes.is_empty() {
                    let left = format!("what is left in the config API: {}", notes.join("; "));
                    self.events.abandoned(&self.reference(key, cr.meta()), &left).await;
                }
                None
            }
            Progress::Unknown => Some("what it has in the config API".into()),
            Progress::Pending(why) | Progress::Failed(why) => Some(format!("what it has in the config API ({why})")),
        }
    }

    /// Takes a step and tells of it.
    async fn step(&self, subject: &Subject<'_, C::Cr>, step: &Step) -> Result<Taken, PassError> {
        let taken = self.stepper.take(subject.key, step).await?;
        match &taken {
            Taken::Done => self.events.stepped(&*subject.cr, step).await,
            Taken::Gone => {}
            Taken::Refused(why) => self.events.refused(&*subject.cr, step, why).await,
        }
        Ok(taken)
    }

    async fn wait(
        &self,
        subject: &Subject<'_, C::Cr>,
        observed: &Observed<C::Cr>,
        not_ready: &NotReady,
    ) -> Result<Next, PassError> {
        let outcome = Outcome::NotReady(not_ready);
        self.conclude(subject, &subject.before, observed, outcome).await
    }

    /// Before the first change of a new generation: says that it was seen, and stores the members it is carried out with.
    async fn announce(
        &self,
        subject: &Subject<'_, C::Cr>,
        observed: &Observed<C::Cr>,
        plan: &Plan,
    ) -> Result<Known, PassError> {
        let before = &subject.before;
        let seen = before.contract.as_ref().is_some_and(|contract| contract.observed_generation == subject.generation);
        if subject.cr.paused() || seen && is_recorded(plan, before) {
            return Ok(before.clone());
        }
        let mut assessment = if seen {
            // Nothing is known anew but what is recorded.
            let contract = before.contract.clone().unwrap_or_default();
            Assessment { contract, own: None, again: None }
        } else {
            self.assess(subject, before, observed, Outcome::Started)
        };
        assessment.contract.members.clone_from(&plan.members);
        let mut own = kind_specific(&before.value);
        for field in plan.record {
            match plan.own_status.get(*field) {
                Some(value) => own.insert((*field).to_owned(), value.clone()),
                None => own.remove(*field),
            };
        }
        assessment.own = Some(own);
        self.write(subject, before, &assessment, Urgency::Now).await?;
        let mut value = serde_json::to_value(&assessment.contract).unwrap_or(Value::Null);
        if let (Some(fields), Some(own)) = (value.as_object_mut(), assessment.own) {
            fields.extend(own);
        }
        // An older definition drops what it does not have.
        let target = subject.target();
        let stored = self.statuses.newer(target.key, target.uid, target.version).map(Known::of);
        let lost = stored.map(|stored| unrecorded(plan, &stored)).unwrap_or_default();
        if !lost.is_empty() {
            return Err(PassError::Unrecorded(C::Cr::INFO.kind, lost.join(", ")));
        }
        Ok(Known { contract: Some(assessment.contract), value })
    }

    /// Applies the objects in order; then prunes what is ours and no longer planned.
    async fn apply(&self, subject: &Subject<'_, C::Cr>, plan: &Plan) -> Result<Results, PassError> {
        let results = self.apply_all(subject, &plan.objects).await?;
        if !subject.cr.paused() {
            self.prune(subject, plan).await?;
        }
        Ok(results)
    }

    async fn apply_all(&self, subject: &Subject<'_, C::Cr>, objects: &[Object]) -> Result<Results, PassError> {
        let dry = subject.cr.paused();
        let owner = Owner {
            kind: self.world.declaration.primary,
            namespace: &subject.key.namespace,
            name: &subject.key.name,
            uid: &subject.uid,
        };
        let mut results = Results::default();
        for object in objects {
            let key = Key::new(object.namespace.clone().unwrap_or_default(), object.name.clone());
            let seen = self.world.child(object.kind, &key);
            match self.applier.apply(object, owner, seen.as_ref(), dry).await {
                Ok(Act::Unchanged) => {}
                Ok(Act::Applied(answer)) => results.answers.push((object.kind, answer)),
                Ok(Act::Pending) => results.report.pending.push(object.describe()),
                Ok(Act::Terminating) => results.report.leaving.push(object.describe()),
                Ok(Act::GivesWay) => {
                    results.leftovers = true;
                    results.report.leaving.push(format!("{} of another operator, without its pods", object.describe()));
                }
                Ok(Act::Leftover) => {
                    results.leftovers = true;
                    results.report.leaving.push(format!("{} of a former resource of this name", object.describe()));
                }
                Ok(Act::LeftBehind) => {
                    results.leftovers = true;
                    results.report.leaving.push(format!("{}, which stays as the resource goes", object.describe()));
                }
                Ok(Act::Partly(omitted)) => {
                    results.report.conflicts.extend(omitted.held);
                    results.report.unknown.extend(omitted.unknown);
                }
                // Objects that stand for themselves do not hold each other up.
                Err(error) if object.independent && !is_ours_to_retry(&error) => {
                    results.report.refused.push((error.reason(), error.to_string()));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(results)
    }

    async fn prune(&self, subject: &Subject<'_, C::Cr>, plan: &Plan) -> Result<(), PassError> {
        for owned in self.world.declaration.owned.iter().filter(|owned| !owned.kind.is_kept()) {
            for (key, child) in self.world.children_of(owned.kind, &subject.uid) {
                let planned = plan.objects.iter().any(|object| {
                    let namespace = object.namespace.as_deref().unwrap_or_default();
                    object.kind == owned.kind && object.name == key.name && namespace == key.namespace
                });
                // What is planned may rest on whether a kind can be seen at all: nothing is removed in the dark.
                if !planned && !child.terminating && self.world.is_synced(owned.kind, &key.namespace) {
                    self.applier.delete(owned.kind, &key, &child.uid).await?;
                }
            }
        }
        Ok(())
    }

    async fn conclude(
        &self,
        subject: &Subject<'_, C::Cr>,
        before: &Known,
        observed: &Observed<C::Cr>,
        outcome: Outcome<'_>,
    ) -> Result<Next, PassError> {
        let planned = match &outcome {
            Outcome::Planned(plan, _) => plan.again,
            _ => None,
        };
        let assessment = self.assess(subject, before, observed, outcome);
        let deferred = match self.write(subject, before, &assessment, Urgency::Usual).await? {
            Write::Deferred(wait) => Some(wait),
            Write::Done | Write::Unchanged => None,
        };
        let soonest = [assessment.again, deferred, planned].into_iter().flatten().min();
        Ok(soonest.map_or(Next::Resync, Next::Within))
    }

    fn assess(
        &self,
        subject: &Subject<'_, C::Cr>,
        before: &Known,
        observed: &Observed<C::Cr>,
        outcome: Outcome<'_>,
    ) -> Assessment {
        let empty = Vec::new();
        let told = match outcome {
            Outcome::Planned(..) => None,
            _ => C::told(&subject.cr, observed),
        };
        assess(&Situation {
            generation: subject.generation,
            paused: subject.cr.paused(),
            previous: before.contract.as_ref(),
            availability: C::AVAILABILITY,
            workloads: &observed.workloads,
            pods: observed.pods.known().unwrap_or(&empty),
            told,
            operator: &self.observer.operator.version,
            now: observed.now,
            outcome,
        })
    }

    async fn write(
        &self,
        subject: &Subject<'_, C::Cr>,
        before: &Known,
        assessment: &Assessment,
        urgency: Urgency,
    ) -> Result<Write, StatusError> {
        let own = assessment.own.as_ref();
        let write = self.statuses.write(subject.target(), before, &assessment.contract, own, urgency).await?;
        if write == Write::Done {
            self.events.conditions_changed(&*subject.cr, before.contract.as_ref(), &assessment.contract).await;
        }
        Ok(write)
    }

    /// A failure is written into status, except a first one that may be gone a moment later: a resource that is fine does
    /// not stop being so because a request got lost.
    async fn failed(&self, subject: &Subject<'_, C::Cr>, error: &PassError, failures: u32) -> Next {
        if error.request().is_some_and(RequestError::is_not_leader) {
            return Next::Rest; // Gaining the lease wakes every resource.
        }
        tracing::warn!(resource = %subject.key, %error, failures, "a pass failed");
        let transient = error.request().is_some_and(RequestError::is_transient);
        if transient && failures == 0 || matches!(error, PassError::Status(_)) {
            return Next::Retry;
        }
        // The pass may have written already: the members it announced have to stay.
        let subject = self.subject(subject.key, &subject.cr);
        let observed = self.observer.cached(subject.key, &subject.uid);
        let message = error.to_string();
        let outcome = Outcome::Failed(error.reason(), &message);
        let assessment = self.assess(&subject, &subject.before, &observed, outcome);
        if let Err(error) = self.write(&subject, &subject.before, &assessment, Urgency::Usual).await {
            tracing::warn!(resource = %subject.key, %error, "the failure could not be written into status");
        }
        Next::Retry
    }

    async fn overdue(&self, key: &Key, primary: &Primary<C::Cr>) -> Next {
        tracing::warn!(resource = %key, "a pass did not end in time");
        let Primary::Valid(cr) = primary else { return Next::Retry };
        let subject = self.subject(key, cr);
        let observed = self.observer.cached(key, &subject.uid);
        let message = format!("a pass did not end within {} s; it is tried again", DEADLINE.as_secs());
        let assessment = self.assess(&subject, &subject.before, &observed, Outcome::Failed(Reason::ApiError, &message));
        let write = self.write(&subject, &subject.before, &assessment, Urgency::Usual);
        if !matches!(tokio::time::timeout(DEADLINE / 4, write).await, Ok(Ok(_))) {
            tracing::warn!(resource = %key, "the missed deadline could not be written into status");
        }
        Next::Retry
    }

    async fn say_goodbye(&self, subject: &Subject<'_, C::Cr>) -> Next {
        let registered = if C::declaration().deregisters && self.finalizer.is_set(subject.cr.meta()) {
            self.deregister(subject.key, &subject.cr).await
        } else {
            None
        };
        let (next, waiting) = self.release(subject.key, subject.cr.meta(), registered).await;
        if let Some(message) = waiting {
            let observed = self.observer.cached(subject.key, &subject.uid);
            let assessment = self.assess(subject, &subject.before, &observed, Outcome::Deleting(&message));
            if let Err(error) = self.write(subject, &subject.before, &assessment, Urgency::Usual).await {
                tracing::debug!(resource = %subject.key, %error, "status of a deleted resource was not written");
            }
        }
        next
    }

    /// Lets a resource go that is being deleted, or says what that waits for.
    async fn release(&self, key: &Key, metadata: &ObjectMeta, registered: Option<String>) -> (Next, Option<String>) {
        let uid = metadata.uid.as_deref().unwrap_or_default();
        match self.finalizer.release(key, metadata, uid, &self.world, &self.applier, registered).await {
            Ok(Cleanup::Nothing | Cleanup::Finished) => (Next::Rest, None),
            Ok(Cleanup::Abandoned(left)) => {
                self.events.abandoned(&self.reference(key, metadata), &left).await;
                (Next::Rest, None)
            }
            Ok(Cleanup::Waiting(message)) => (Next::Within(Duration::from_secs(5)), Some(message)),
            Err(error) => {
                tracing::warn!(resource = %key, %error, "cleaning up failed");
                (Next::Retry, None)
            }
        }
    }
}

/// What applying led to.
#[derive(Default)]
struct Results {
    report: Applied,
    /// Whether an object of a former resource or of another operator is in the way.
    leftovers: bool,
    answers: Vec<(Kind, Box<DynamicObject>)>,
}

/// Whether the status holds the members of a plan, and what else the next plan rests on.
fn is_recorded(plan: &Plan, status: &Known) -> bool {
    unrecorded(plan, status).is_empty()
}

/// Fields of which the status does not hold what the plan has.
fn unrecorded(plan: &Plan, status: &Known) -> Vec<&'static str> {
    let members = status.contract.as_ref().map(|contract| contract.members.as_slice()).unwrap_or_default();
    let differs = |field: &&&str| status.value.get(**field) != plan.own_status.get(**field);
    let own = plan.record.iter().filter(differs).copied();
    (members != plan.members).then_some("members").into_iter().chain(own).collect()
}

/// The snapshot, with workloads as the API server answered: the watch delivers them only a moment later.
fn with_answers<Cr: Clone>(observed: &Observed<Cr>, answers: &[(Kind, Box<DynamicObject>)]) -> Observed<Cr> {
    let mut observed = observed.clone();
    for (kind, answer) in answers {
        if let Some(workload) = crate::watch::workload_of(*kind, answer) {
            observed.workloads.insert(workload.name.clone(), workload);
        }
    }
    observed
}

fn is_ours_to_retry(error: &ApplyError) -> bool {
    matches!(error, ApplyError::Request(request) if request.is_transient())
}
