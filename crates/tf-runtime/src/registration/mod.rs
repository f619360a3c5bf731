//! Makes the config API say what resources register, beside everything else: a pass leaves here what its plan wants, reads how far that has
//! got, and goes on. What comes of an attempt wakes the resource.
//!
//! Each resource has a task of its own. It looks at the API when something else is wanted, by a back-off while that does not come true, and
//! every few minutes afterwards. What was there before the API stopped answering counts as there. Kubernetes is asked for nothing.

mod attempt;
mod client;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tf_config_api::decide::Wanted;
use tf_plan::registration::{Api, Progress, Registration};
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
    time::timeout,
};

use self::{
    attempt::{End, attempt},
    client::{Client, Unable},
};
use crate::{
    caches::Trigger,
    http_client::Route,
    identity::Authorities,
    keystone::token::{token, trusting},
    leader::Permit,
    lock::lock,
    metrics::Metrics,
    object::Key,
    watch::jittered,
};

/// Between two looks at an API that says what it shall.
const RECHECK: Duration = Duration::from_mins(5);
/// Between two attempts that fail: at first, and at most. It doubles.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// For an attempt over all members.
const PATIENCE: Duration = Duration::from_mins(3);
/// So many attempts in a row find no member of any use before that is called a failure.
const SILENT: u32 = 3;

/// Everything that attempts need.
pub struct Registrar {
    /// Whom members of the API have certificates of.
    pub authorities: Arc<Authorities>,
    /// Whether this process leads.
    pub permit: Permit,
    /// Whom to wake.
    pub triggers: mpsc::UnboundedSender<Trigger>,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// Proxy on the way to the API.
    pub proxy: Option<String>,
    jobs: Mutex<HashMap<Key, Job>>,
}

/// What is done for one resource.
struct Job {
    uid: String,
    wanted: watch::Sender<Registration>,
    /// What came of it, and of what.
    judged: Option<(Wanted, Progress)>,
    missing: usize,
    /// Whether the API did not answer when that was found.
    silent: bool,
    task: AbortHandle,
}

impl Drop for Job {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Registrar {
    /// One that does nothing yet.
    pub fn new(
        authorities: Arc<Authorities>,
        permit: Permit,
        triggers: mpsc::UnboundedSender<Trigger>,
        metrics: Arc<Metrics>,
        proxy: Option<String>,
    ) -> Self {
        Self { authorities, permit, triggers, metrics, proxy, jobs: Mutex::default() }
    }

    /// Sees to it that the API will say what a resource wants. How far that has got.
    pub fn want(self: &Arc<Self>, key: &Key, uid: &str, mut registration: Registration) -> Progress {
        let mut jobs = lock(&self.jobs);
        if jobs.get(key).is_none_or(|job| job.uid != uid) {
            let (wanted, receiver) = watch::channel(registration.clone());
            let task = tokio::spawn(Arc::clone(self).work(key.clone(), receiver)).abort_handle();
            jobs.insert(
                key.clone(),
                Job { uid: uid.to_owned(), wanted, judged: None, missing: 0, silent: false, task },
            );
        }
        let Some(job) = jobs.get_mut(key) else { return Progress::Unknown };
        job.wanted.send_if_modified(|present| {
            let judged = job.judged.as_ref().filter(|(of, _)| *of == present.wanted).map(|(_, progress)| progress);
            // A node whose agent is away for a moment is no reason to look again, and nothing that was done is undone.
            if matches!(judged, Some(Progress::Done { .. })) && registration.wanted.is_covered_by(&present.wanted) {
                registration.wanted.clone_from(&present.wanted);
            }
            let is_changed = *present != registration;
            // That members of the API come and go is no reason to ask one, unless nobody could be asked before, or by others than now.
            let is_news = present.wanted != registration.wanted
                || present.api.hosts.is_empty()
                || present.api.ca != registration.api.ca
                || present.api.keystone != registration.api.keystone;
            present.clone_from(&registration);
            is_changed && is_news
        });
        match &job.judged {
            None => Progress::Unknown,
            Some((wanted, progress)) if *wanted == registration.wanted => progress.clone(),
            Some(_) => {
                Progress::Pending("the objects for the config API have changed and are being written to it".into())
            }
        }
    }

    /// What a resource wanted last.
    pub fn wanted(&self, key: &Key) -> Option<Registration> {
        lock(&self.jobs).get(key).map(|job| job.wanted.borrow().clone())
    }

    /// How many objects of a resource are not in the API as they shall be, as far as anybody has looked.
    pub fn missing(&self, key: &Key) -> Option<i64> {
        let jobs = lock(&self.jobs);
        let job = jobs.get(key)?;
        job.judged.as_ref().and_then(|_| i64::try_from(job.missing).ok())
    }

    /// Does nothing more for a resource.
    pub fn forget(&self, key: &Key) {
        lock(&self.jobs).remove(key);
    }

    async fn work(self: Arc<Self>, key: Key, mut receiver: watch::Receiver<Registration>) {
        let mut failures = 0;
        loop {
            let registration = receiver.borrow_and_update().clone();
            let result = match timeout(PATIENCE, self.over_any(&key, &registration, failures)).await {
                Ok(result) => result,
                Err(_) => Err(Unable::Silent(format!("no end within {} s", PATIENCE.as_secs()))),
            };
            failures = if matches!(result, Ok(End::Done { .. })) { 0 } else { failures + 1 };
            if self.judge(&key, &registration, result, failures) {
                let _ = self.triggers.send(Trigger::One(key.clone()));
            }
            let pause = match failures {
                0 => RECHECK,
                _ => RETRY.1.min(RETRY.0 * 2_u32.saturating_pow(failures.min(10) - 1)),
            };
            match timeout(jittered(pause), receiver.changed()).await {
                Err(_) => {}
                Ok(Ok(())) => failures = 0,
                Ok(Err(_)) => return,
            }
        }
    }

    /// An attempt over one member of the API after the other, another one first each time, until one is of use.
    async fn over_any(&self, key: &Key, registration: &Registration, turn: u32) -> Result<End, Unable> {
        let Registration { wanted, api, .. } = registration;
        let mut last = Unable::Silent("no member of the config API serves yet".into());
        let first = turn as usize % api.hosts.len().max(1);
        for host in api.hosts[first..].iter().chain(&api.hosts[..first]) {
            let result = async { attempt(&self.client(key, api, host).await?, wanted, &self.metrics).await };
            match result.await {
                Err(Unable::NotLeader) => return Err(Unable::NotLeader),
                Err(unable) => last = unable,
                Ok(end) => return Ok(end),
            }
        }
        Err(last)
    }

    async fn client<'a>(&'a self, key: &Key, api: &Api, host: &'a str) -> Result<Client<'a>, Unable> {
        let silent = |why: String| Unable::Silent(why);
        let checked = || self.authorities.client_of_daemons(&key.namespace);
        let tls = match &api.ca {
            _ if !api.tls => None,
            // It knows the operator by its token alone.
            Some(ca) => Some(trusting(ca).map_err(|error| silent(format!("the config API at {host}: {error}")))?),
            None => Some(checked().map_err(silent)?),
        };
        let token = match &api.keystone {
            None => None,
            Some(keystone) => Some(token(keystone, checked, self.proxy.clone()).await?),
        };
        let way = Route { tls, proxy: self.proxy.clone() };
        Ok(Client { host, port: api.port, way, token, permit: &self.permit, idle: Mutex::default() })
    }

    /// Keeps what came of an attempt. Whether that is news.
    fn judge(&self, key: &Key, of: &Registration, result: Result<End, Unable>, failures: u32) -> bool {
        let mut jobs = lock(&self.jobs);
        let Some(job) = jobs.get_mut(key) else { return false };
        let before = job.judged.as_ref().filter(|(wanted, _)| *wanted == of.wanted).map(|(_, progress)| progress);
        let was_done = matches!(before, Some(Progress::Done { .. }));
        let all = of.wanted.records.len();
        let was_silent = std::mem::replace(&mut job.silent, matches!(result, Err(Unable::Silent(_))));
        let (progress, missing) = match result {
            Ok(End::Done { notes }) => (Progress::Done { objects: all, notes }, 0),
            Ok(End::Failed { why, missing }) => {
                tracing::warn!(resource = %key, why, "the config API does not say what it shall");
                (Progress::Failed(why), missing)
            }
            Err(Unable::NotLeader) => return false,
            Err(unable) => {
                tracing::warn!(resource = %key, %unable, failures, "the config API cannot be asked");
                match unable {
                    // Nothing is known anew, or another member says the same in other words.
                    Unable::Silent(_) if was_done || was_silent && matches!(before, Some(Progress::Failed(_))) => {
                        return false;
                    }
                    Unable::Silent(why) if failures < SILENT || of.api.hosts.is_empty() => {
                        (Progress::Pending(why), all)
                    }
                    unable => (Progress::Failed(unable.to_string()), all),
                }
            }
        };
        let is_news = before != Some(&progress);
        job.missing = missing;
        job.judged = Some((of.wanted.clone(), progress));
        is_news
    }
}
