//! The member's certificate: asked for, taken and renewed while the daemon runs.
//!
//! Key and request are made here ([`request`]); the operator approves and signs; whether a certificate is needed and whether one
//! that was handed out is taken is decided in [`decide`]. The key never leaves the pod. What is in use stays until something
//! better is complete, and a problem here never touches the daemon.
//!
//! With that certificate the agent serves its API. The daemon shows it, too, unless the launch file has it use what the
//! administrator put on the node ([`host`]).

pub mod decide;
mod files;
pub mod host;
mod reload;
pub mod request;

use std::{collections::BTreeSet, net::IpAddr, sync::Arc, time::Duration};

use anyhow::Result;
use jiff::Timestamp;
use serde_json::json;
use tf_agent_api::{
    content::ContentHash,
    launch::{self, Launch},
    state,
};
use tf_pki::member::{self, Member};
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::{Instant, sleep},
};

use self::{
    decide::{Pair, Step},
    files::{Held, Trust},
    host::Taken,
    reload::{How, Reload},
    request::{Answer, Pending},
};
use crate::{back_off::BackOff, command::Commands, kubernetes::Api, log, paths::Paths, pod::Pod};

/// Between looks at a request, from the first to all later ones, and between attempts to reach the API server.
const POLLS: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(30)];
/// After a request that led to nothing.
const REFUSALS: [Duration; 2] = [Duration::from_secs(10), Duration::from_mins(5)];
/// Without something that has to be mounted first, where nothing tells of changes.
const SAFETY_NET: Duration = Duration::from_secs(30);

/// What the member tells about its certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The one in use.
    pub certificate: Option<state::Certificate>,
    /// What the next one is waited for, or why there is none.
    pub message: Option<String>,
    /// What became of the node's files, where they are used.
    pub host_files: Option<state::HostFiles>,
}

impl Report {
    /// What is not as it should be, for people.
    pub fn trouble(&self) -> Option<&str> {
        let files = || self.host_files.as_ref()?.problem.as_deref();
        self.message.as_deref().or_else(files)
    }
}

/// What a launch file says of the certificate.
#[derive(Clone, PartialEq, Eq)]
struct Wish {
    identity: launch::Identity,
    addresses: BTreeSet<IpAddr>,
}

impl Wish {
    fn of(launch: &Launch) -> Option<Self> {
        let Launch { identity, addresses, .. } = launch;
        Some(Self { identity: identity.clone()?, addresses: addresses.clone() })
    }

    /// The member that a pod is by it.
    fn member(&self, pod: &Pod) -> Member {
        Member {
            pod: pod.name.clone(),
            node: pod.node.clone(),
            addresses: self.addresses.iter().copied().chain([pod.address]).collect(),
            services: self.identity.services.clone(),
            lifetime_seconds: self.identity.lifetime_seconds,
        }
    }
}

/// Looks after the certificate of a pod, where a launch file says so.
pub struct Identity {
    paths: Paths,
    daemon: String,
    pod: Pod,
    commands: Commands,
    keeping: Option<(Wish, JoinHandle<()>)>,
    files_changed: Arc<Notify>,
    taken: Arc<Notify>,
    report: Arc<watch::Sender<Report>>,
}

impl Identity {
    /// Nothing is asked for yet. `taken` is notified of every new certificate.
    pub fn new(paths: Paths, daemon: &str, pod: Pod, commands: Commands, taken: Arc<Notify>) -> Self {
        let (report, daemon) = (Arc::new(watch::Sender::default()), daemon.to_owned());
        Self { paths, daemon, pod, commands, keeping: None, files_changed: Arc::default(), taken, report }
    }

    /// Looks after the certificate that a launch file asks for, from now on.
    pub fn follow(&mut self, launch: &Launch) {
        let wish = Wish::of(launch);
        if self.keeping.as_ref().map(|(present, _)| present) == wish.as_ref() {
            return;
        }
        if let Some((_, task)) = self.keeping.take() {
            task.abort();
        }
        if wish.is_none() {
            self.report.send_replace(Report::default());
        }
        if let Some(wish) = wish {
            let keeper = Keeper {
                member: wish.member(&self.pod),
                address: self.pod.address,
                host_files: wish.identity.host_files,
                paths: self.paths.clone(),
                report: Arc::clone(&self.report),
                taken: Arc::clone(&self.taken),
                asked: None,
                due: Instant::now(),
                polls: BackOff::between(POLLS[0], POLLS[1]),
                refusals: BackOff::between(REFUSALS[0], REFUSALS[1]),
                message: None,
                reload: Reload::new(self.paths.clone(), &self.daemon, self.commands.clone(), How::of(&wish.identity)),
                read: None,
            };
            let task = tokio::spawn(keeper.keep(Arc::clone(&self.files_changed)));
            self.keeping = Some((wish, task));
        }
    }

    /// Certificates, authorities or the token may be others now.
    pub fn files_changed(&self) {
        self.files_changed.notify_one();
    }

    /// What to tell about the certificate, and when that changes.
    pub fn report(&self) -> watch::Receiver<Report> {
        self.report.subscribe()
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        if let Some((_, task)) = &self.keeping {
            task.abort();
        }
    }
}

/// Names the certificate and authorities that a daemon reads which starts now ([`state::State::certificate`]).
pub fn hash(paths: &Paths) -> ContentHash {
    files::hash(paths)
}

/// The first of these addresses for which the member's certificate is not, or nothing can be said of it.
pub fn lacks(paths: &Paths, addresses: &BTreeSet<IpAddr>) -> Option<IpAddr> {
    // Most members have none, and nothing is read for them.
    addresses.first()?;
    let certificate = files::held(paths).ok().flatten().and_then(|held| held.certificate());
    let named = certificate.map(|certificate| certificate.addresses()).unwrap_or_default();
    addresses.difference(&named).next().copied()
}

struct Keeper {
    member: Member,
    address: IpAddr,
    /// What the daemon does with the node's files.
    host_files: Option<launch::HostFiles>,
    paths: Paths,
    report: Arc<watch::Sender<Report>>,
    taken: Arc<Notify>,
    asked: Option<Asked>,
    /// Before it nothing more is done for a new certificate.
    due: Instant,
    polls: BackOff,
    refusals: BackOff,
    /// What is waited for, or went wrong last.
    message: Option<String>,
    /// Has the daemon read what it shows and trusts.
    reload: Reload,
    /// The certificate that it goes by.
    read: Option<state::Certificate>,
}

/// A request and whether the API server has it.
struct Asked {
    pending: Pending,
    name: String,
    created: bool,
}

/// What came of one step towards a certificate.
enum Progress {
    /// The request is to be looked at again.
    Waits,
    /// The certificate was taken.
    Taken,
    /// The request led to nothing: another one, later.
    Over(String),
}

impl Keeper {
    async fn keep(mut self, files_changed: Arc<Notify>) {
        let identity = match member::Identity::member(&self.member) {
            Ok(identity) => identity,
            // Until there is another launch file.
            Err(error) => {
                self.has_trouble(format!("no certificate can be asked for: {error}"));
                return self.tell(None, self.message.clone());
            }
        };
        loop {
            let wait = match self.look(&identity).await {
                Ok(wait) => wait,
                Err(error) => {
                    self.has_trouble(format!("{error:#}"));
                    let certificate = self.report.borrow().certificate.clone();
                    self.tell(certificate, self.message.clone());
                    SAFETY_NET
                }
            };
            tokio::select! {
                () = sleep(wait) => {}
                () = files_changed.notified() => {}
            }
        }
    }

    /// Looks at what is there and does what is due. Returns when to look again.
    async fn look(&mut self, identity: &member::Identity) -> Result<Duration> {
        let trust = files::trust(&self.paths)?;
        let held = files::held(&self.paths)?;
        let now = Timestamp::now();
        let supplied = self.supply(held.as_ref(), &trust, now);
        // One of several may have been written before it failed.
        if *supplied.as_ref().unwrap_or(&true) {
            self.reload.files_changed();
        }
        supplied?;
        if self.reload.settle().await {
            self.read = held.as_ref().and_then(|held| facts(held, &trust));
        }
        let unread = self.reload.trouble().map(str::to_owned);
        let unused = self.reload.unused().cloned();
        let certificate = self.read.clone().map(|read| state::Certificate { unread, unused, ..read });
        let wait = self.ask(identity, &trust, held.as_ref(), certificate, now).await;
        Ok(self.reload.wait().map_or(wait, |reload| reload.min(wait)))
    }

    /// Asks for a certificate if another one is needed. Returns when to look again.
    async fn ask(
        &mut self,
        identity: &member::Identity,
        trust: &Trust,
        held: Option<&Held>,
        certificate: Option<state::Certificate>,
        now: Timestamp,
    ) -> Duration {
        match decide::decide(held.map(Held::pair), identity, &trust.bundle, now) {
            Step::Keep(wait) => {
                self.refusals.reset();
                self.settled();
                self.message = None;
                self.tell(certificate, None);
                wait
            }
            Step::KeepEarly(wait) => {
                self.has_trouble("the certificate is not valid yet; is this node's clock right?".into());
                self.tell(certificate, self.message.clone());
                wait
            }
            Step::Ask(why) => {
                self.tell(certificate.clone(), self.message.clone().or_else(|| Some(why.clone())));
                if Instant::now() >= self.due {
                    self.advance(identity, trust, held, &why).await;
                    if self.message.is_none() {
                        return Duration::ZERO;
                    }
                    self.tell(certificate, self.message.clone());
                }
                self.due.saturating_duration_since(Instant::now())
            }
        }
    }

    /// Lets the daemon have what it shows and trusts. The operators' authority is trusted by all, so its certificate takes the place
    /// of one of the node that is not there. Whether that is another thing than before.
    fn supply(&self, held: Option<&Held>, trust: &Trust, now: Timestamp) -> Result<bool> {
        let own = held.map(Held::pair);
        let mut said = None;
        let is_other;
        if let Some(wish) = self.host_files {
            let found = files::of_host(&self.paths, self.address);
            let (taken, problem) = self.take_host_files(&found, now)?;
            let shown = host::shown(taken.as_ref(), wish, now);
            let authorities = taken.as_ref().map_or_else(|| host::authorities(&found), Taken::bundle);
            let trusted = trust.bundle.merged(&authorities);
            is_other = files::keep_stores(&self.paths, shown.map(Taken::pair).or(own), &trusted)?;
            let validity = taken.as_ref().and_then(Taken::validity);
            let not_before = validity.map(|validity| validity.not_before);
            let not_after = validity.map(|validity| validity.not_after);
            said = Some(state::HostFiles { not_before, not_after, problem, shown: shown.is_some() });
        } else {
            is_other = files::keep_stores(&self.paths, own, &trust.bundle)?;
            files::forget(&self.paths, files::TAKEN);
        }
        self.report.send_if_modified(|report| std::mem::replace(&mut report.host_files, said.clone()) != said);
        Ok(is_other)
    }

    /// Takes what the node has if it is good; what was taken before otherwise, with what is wrong.
    fn take_host_files(&self, found: &host::Files, now: Timestamp) -> Result<(Option<Taken>, Option<String>)> {
        let before: Option<Taken> = files::kept(&self.paths, files::TAKEN);
        match host::accept(found, self.address, now) {
            Ok(taken) => {
                if before.as_ref() != Some(&taken) {
                    files::keep(&self.paths, files::TAKEN, &taken)?;
                    log::info("took the node's files", &json!({"until": taken.validity().map(|it| it.not_after)}));
                }
                Ok((Some(taken), None))
            }
            Err(unfit) => {
                let problem = unfit.to_string();
                let known = self.report.borrow().host_files.as_ref().and_then(|files| files.problem.clone());
                if known.as_ref() != Some(&problem) {
                    log::warn("cannot use the node's files", &json!({"error": problem}));
                }
                Ok((before, Some(problem)))
            }
        }
    }

    /// One step towards a certificate. Afterwards there is a message, unless one was taken.
    async fn advance(&mut self, identity: &member::Identity, trust: &Trust, held: Option<&Held>, why: &str) {
        let wait = match self.step(identity, trust, held, why).await {
            Ok(Progress::Taken) => {
                self.settled();
                // Should it not be what was asked for after all, the next request takes its time.
                self.message = None;
                self.refusals.wait()
            }
            Ok(Progress::Waits) => {
                let name = self.asked.as_ref().map_or("", |asked| &asked.name);
                self.message = Some(format!("waits for the certificate request {name} to be approved"));
                self.polls.wait()
            }
            Ok(Progress::Over(why)) => {
                self.has_trouble(why);
                self.settled();
                self.refusals.wait()
            }
            Err(error) => {
                self.has_trouble(format!("{error:#}"));
                self.polls.wait()
            }
        };
        self.due = Instant::now() + wait;
    }

    async fn step(
        &mut self,
        identity: &member::Identity,
        trust: &Trust,
        held: Option<&Held>,
        why: &str,
    ) -> Result<Progress> {
        let asked = match &mut self.asked {
            Some(asked) if asked.pending.revision == trust.revision => asked,
            asked => {
                let pending = pending(&self.paths, &self.member, identity, trust)?;
                self.polls.reset();
                asked.insert(Asked { name: pending.name()?, pending, created: false })
            }
        };
        let api = Api::from_environment(self.paths.clone())?;
        if !asked.created {
            api.create(&asked.pending.object()?).await?;
            asked.created = true;
            self.polls.reset();
            log::info("asked for a certificate", &json!({"request": asked.name, "why": why}));
            return Ok(Progress::Waits);
        }
        let Some(object) = api.get(&asked.name).await? else {
            return Ok(Progress::Over(format!("the certificate request {} is gone", asked.name)));
        };
        let certificates = match request::answer(&object) {
            Answer::Pending => return Ok(Progress::Waits),
            Answer::Over(why) => return Ok(Progress::Over(format!("{}: {why}", asked.name))),
            Answer::Issued(certificates) => certificates,
        };
        let issued = Pair { key: &asked.pending.key, certificates: &certificates };
        let now = Timestamp::now();
        if let Err(unfit) = decide::improves(issued, held.map(Held::pair), identity, &trust.bundle, now) {
            return Ok(Progress::Over(format!("what was issued for {} is not taken: {unfit}", asked.name)));
        }
        files::take(&self.paths, issued)?;
        log::info("took a certificate", &json!({"request": asked.name, "why": why}));
        self.taken.notify_one();
        Ok(Progress::Taken)
    }

    /// No request is waited for.
    fn settled(&mut self) {
        self.asked = None;
        files::forget(&self.paths, files::PENDING);
    }

    fn has_trouble(&mut self, trouble: String) {
        if self.message.as_ref() != Some(&trouble) {
            log::warn("has trouble with its certificate", &json!({"error": trouble}));
            self.message = Some(trouble);
        }
    }

    fn tell(&self, certificate: Option<state::Certificate>, message: Option<String>) {
        self.report.send_if_modified(|report| {
            let new = Report { certificate, message, host_files: report.host_files.clone() };
            let is_other = *report != new;
            *report = new;
            is_other
        });
    }
}

/// The request of an earlier run if it is still the right one, or a new one.
fn pending(paths: &Paths, member: &Member, identity: &member::Identity, trust: &Trust) -> Result<Pending> {
    let earlier: Option<Pending> = files::kept(paths, files::PENDING);
    if let Some(pending) = earlier.filter(|it| it.member == *member && it.revision == trust.revision) {
        return Ok(pending);
    }
    let pending = Pending::new(member, identity, trust.revision)?;
    files::keep(paths, files::PENDING, &pending)?;
    Ok(pending)
}

fn facts(held: &Held, trust: &Trust) -> Option<state::Certificate> {
    let certificate = held.certificate()?;
    let issuer = decide::issuer(held.pair().certificates, &trust.bundle);
    Some(state::Certificate {
        not_before: Some(certificate.validity().not_before),
        not_after: certificate.validity().not_after,
        issuer: issuer.map(|issuer| issuer.fingerprint().to_string()),
        revision: trust.revision,
        unread: None,
        unused: None,
    })
}
