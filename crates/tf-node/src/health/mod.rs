//! The health monitor: the one that looks at the daemon of this container, and answers for it (ADR 0066).
//!
//! It sees that the daemon does not serve, which is reported by the state file sooner and in more words than the kubelet has; what the daemon is not
//! connected to although it serves; and that it hangs, so that it has to be restarted. The kubelet and the operator get its latest result
//! ([`View::health`]). When it looks is decided in [`schedule`], what follows from what it saw in [`seen`]; here is the task that carries it out.

mod access;
mod broker;
mod kernel;
pub mod schedule;
mod seen;
mod view;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use tf_agent_api::{
    launch::{Launch, Probe},
    state::{Health, State},
};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep},
};

pub use self::view::View;
use self::{
    access::Access,
    broker::Broker,
    kernel::{Processes, Sockets},
    schedule::{Next, Outcome, Schedule},
    seen::{FORBEARANCE, Seen},
    view::Latest,
};
use crate::{
    keeping::Keeping,
    paths::Paths,
    pod::Pod,
    probe::{Looker, Observation, Page, workers::Run},
    state_file,
};

/// What is said of a process that nobody has seen serve. It needs no forbearance: the one before it has ended.
const BEGUN: &str = "it has begun and was not seen to serve yet";

/// What there is to tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The process that this is about.
    pub pid: Option<i32>,
    /// Why the daemon does not serve, or does not live where that is the question, if it has not for a while.
    pub unwell: Option<String>,
    /// What the daemon is not connected to although it serves, if it has not been for a while.
    pub lacks: Option<String>,
    /// Whether it serves as who takes over from the member that is elected.
    pub standby: bool,
    /// What it says that it is connected to, and whether it is: a connection that is down for a moment is up.
    pub connections: BTreeMap<String, bool>,
    /// The process that hangs, if it does.
    pub hangs: Option<i32>,
    /// The process that was seen to serve, if it does.
    pub serving: Option<i32>,
    /// Since when it has done so without a break.
    pub serving_since: Option<Timestamp>,
    /// The process that has served at some time.
    pub answered: Option<i32>,
    /// The same, where to stand by is to serve.
    pub shown: Option<i32>,
}

/// Looks after the daemon of one container.
pub struct Monitor {
    paths: Paths,
    daemon: String,
    pod: Pod,
    looking: Keeping<Launch>,
    told: watch::Sender<Report>,
    latest: watch::Sender<Option<Latest>>,
    stirred: Arc<Notify>,
}

impl Monitor {
    /// Looks at nothing yet.
    pub fn new(paths: Paths, daemon: &str, pod: Pod) -> Self {
        Self {
            paths,
            daemon: daemon.to_owned(),
            pod,
            looking: Keeping::default(),
            told: watch::Sender::default(),
            latest: watch::Sender::default(),
            stirred: Arc::default(),
        }
    }

    /// Looks at what this launch file runs, from now on.
    pub fn follow(&mut self, launch: &Launch) {
        if !self.looking.end_other(Some(launch)) {
            // Its files are others, or it is about to be started.
            self.stirred.notify_one();
            return;
        }
        // The process is the same.
        self.told.send_modify(|told| *told = Report { shown: told.shown, ..Report::default() });
        self.latest.send_replace(None);
        let is_visible = launch.alive.is_some() || !matches!(launch.ready, Probe::Process);
        if is_visible {
            let watcher = Watcher {
                looker: Looker::new(self.paths.clone(), self.pod.address),
                paths: self.paths.clone(),
                daemon: self.daemon.clone(),
                schedule: Schedule::of(launch),
                run: Run::of(launch.alive.as_ref().unwrap_or(&launch.ready)),
                seen: Seen::default(),
                sockets: Sockets::default(),
                kubernetes: Access::default(),
                brokers: BTreeMap::new(),
                health: Health::new(false, BEGUN),
                launch: launch.clone(),
                told: self.told.clone(),
                latest: self.latest.clone(),
                stirred: Arc::clone(&self.stirred),
            };
            self.looking.start(launch.clone(), watcher.watch());
        }
    }

    /// What answers for the daemon.
    pub fn view(&self) -> View {
        View::new(self.told.subscribe(), self.latest.subscribe())
    }

    /// Why this process of the daemon does not serve, if it does not and no operator asks.
    pub fn unwell(&self, pid: Option<i32>) -> Option<String> {
        let launch = self.looking.present().filter(|launch| is_companion(launch))?;
        let told = self.told.borrow();
        let is_asked = launch.alive.is_none() && !matches!(launch.ready, Probe::Process);
        let is_new = is_asked && pid.is_some() && told.shown != pid;
        told.unwell.clone().or_else(|| is_new.then(|| BEGUN.to_owned()))
    }

    /// What the daemon is not connected to although it serves.
    pub fn lacks(&self) -> Option<String> {
        self.told.borrow().lacks.clone()
    }

    /// Whether it serves as who takes over from the member that is elected.
    pub fn is_standby(&self, pid: Option<i32>) -> bool {
        let told = self.told.borrow();
        told.standby && told.pid == pid
    }

    /// Since when this process of the daemon has been seen to serve without a break.
    pub fn serves_since(&self, pid: Option<i32>) -> Option<Timestamp> {
        let told = self.told.borrow();
        told.serving_since.filter(|_| pid.is_some() && told.serving == pid)
    }

    /// What this process of the daemon says that it is connected to, and whether it is.
    pub fn connections(&self, pid: Option<i32>) -> BTreeMap<String, bool> {
        let told = self.told.borrow();
        if told.pid == pid { told.connections.clone() } else { BTreeMap::new() }
    }

    /// Whether this process of the daemon was seen to serve; none where there is nothing to see, or an operator asks.
    pub fn serves(&self, pid: Option<i32>) -> Option<bool> {
        let launch = self.looking.present().filter(|launch| is_companion(launch))?;
        let is_visible = !matches!(launch.ready, Probe::Process);
        is_visible.then(|| pid.is_some() && self.told.borrow().serving == pid)
    }

    /// What there is to tell, now and later.
    pub fn told(&self) -> watch::Receiver<Report> {
        self.told.subscribe()
    }
}

/// The task that looks at the daemon of one launch file.
struct Watcher {
    looker: Looker,
    paths: Paths,
    daemon: String,
    launch: Launch,
    schedule: Schedule,
    run: Run,
    seen: Seen,
    sockets: Sockets,
    kubernetes: Access,
    /// Servers of connections, by type and name: those that the daemon names, and what is known of them.
    brokers: BTreeMap<String, (BTreeSet<SocketAddr>, Broker)>,
    /// What the last look showed.
    health: Health,
    told: watch::Sender<Report>,
    latest: watch::Sender<Option<Latest>>,
    stirred: Arc<Notify>,
}

impl Watcher {
    async fn watch(mut self) {
        loop {
            let (wait, mut next) = self.schedule.next(Instant::now());
            tokio::select! {
                () = sleep(wait) => {}
                () = self.stirred.notified() => {
                    self.schedule.stirred();
                    next = Next::Look;
                }
            }
            let begun = Instant::now();
            let state = state_file::read(&self.paths, &self.daemon);
            let pid = state.as_ref().and_then(|state| state.pid);
            if self.schedule.follow(pid) {
                next = Next::Look;
            }
            let is_silent = match self.glance(pid, next, begun).await {
                Next::Look => self.look(state.as_ref(), begun).await,
                Next::Connections => self.ask(state.as_ref(), begun).await,
                Next::Glance => false,
            };
            if let Some(reads) = &self.launch.kubernetes {
                self.kubernetes.look(reads, &self.paths, pid.is_some() && !self.health.standby, begun).await;
            }
            self.servers(pid, begun).await;
            self.report(pid, is_silent);
        }
    }

    /// What is seen without a request, and what is done then: a daemon that is stopped, or does not complete a handshake, is looked at.
    async fn glance(&mut self, pid: Option<i32>, next: Next, begun: Instant) -> Next {
        let Some(pid) = pid.filter(|_| self.schedule.rests()) else { return next };
        let Processes { is_stopped, sockets } = Processes::of(pid);
        if self.sockets.take(&sockets, begun) {
            self.schedule.changed(begun);
        }
        match next {
            Next::Look => next,
            _ if is_stopped => Next::Look,
            _ if self.looker.greets(&self.launch).await == Some(false) => Next::Look,
            next => next,
        }
    }

    /// Asks everything: whether there was no answer at all.
    async fn look(&mut self, state: Option<&State>, begun: Instant) -> bool {
        let look = self.looker.look(&self.launch, state, &mut self.run).await;
        self.seen.look(state.and_then(|state| state.pid), &look, self.launch.alive.is_some(), begun);
        let Observation { health, is_silent, page } = look;
        self.health = health;
        self.connections(page, begun).await;
        self.schedule.looked(self.outcome(), begun);
        is_silent
    }

    /// Asks what the daemon is connected to, which is everything where NodeStatus is how it is looked at: whether there was no answer to that.
    async fn ask(&mut self, state: Option<&State>, begun: Instant) -> bool {
        // What ended then is what it may not be connected to since.
        let since = self.schedule.changed_since().unwrap_or(begun);
        let mut is_silent = false;
        if matches!(self.launch.alive.as_ref().unwrap_or(&self.launch.ready), Probe::NodeStatus { .. }) {
            is_silent = self.look(state, since).await;
        } else {
            self.connections(None, since).await;
        }
        self.schedule.asked(self.outcome(), begun);
        is_silent
    }

    /// Takes in what the daemon says of its connections.
    async fn connections(&mut self, page: Option<Page>, begun: Instant) {
        let said = page.as_ref().map(Page::connections);
        if !self.health.serves || self.health.standby {
            self.seen.lacks(None, begun);
            self.seen.connections(said.unwrap_or_default(), begun);
            return;
        }
        let Some(asked) = &self.launch.connections else {
            self.seen.lacks(None, begun);
            self.seen.connections(said.unwrap_or_default(), begun);
            return;
        };
        // Where it does not say, nothing new is known.
        if let Some(told) = self.looker.connections(asked, page).await {
            self.seen.lacks(told.missing, begun);
            self.seen.connections(told.all, begun);
            for (name, servers) in told.servers {
                self.brokers.entry(name).or_default().0 = servers;
            }
        }
    }

    /// Finds out whether the servers answer that a daemon at work is connected to, where it does not notice that itself.
    async fn servers(&mut self, pid: Option<i32>, begun: Instant) {
        let at_work = pid.filter(|_| self.health.serves && !self.health.standby);
        for (servers, broker) in self.brokers.values_mut() {
            let Some(pid) = at_work else {
                broker.forget();
                continue;
            };
            if broker.is_due(begun) {
                let mut answers = BTreeMap::new();
                for server in broker::used(servers, &Processes::of(pid).sockets) {
                    answers.insert(server, self.looker.answers(server).await);
                }
                broker.take(&answers, begun);
            }
        }
    }

    fn outcome(&self) -> Outcome {
        match &self.health {
            // Who waits to be elected may have a port at which nobody answers yet.
            Health { serves: false, .. } if self.launch.alive.is_some() && !self.seen.is_amiss() => Outcome::Standby,
            Health { serves: false, .. } => Outcome::Unwell,
            Health { standby: true, .. } => Outcome::Standby,
            _ if self.seen.is_lacking() => Outcome::Lacking,
            _ => Outcome::Well,
        }
    }

    fn report(&self, pid: Option<i32>, is_silent: bool) {
        let Self { launch, seen, health, told, .. } = self;
        let now = Instant::now();
        let seconds = |of: Option<u32>| of.map(|seconds| Duration::from_secs(seconds.into()));
        let (patience, starting, recovering) =
            (seconds(launch.patience), seconds(launch.starting), seconds(launch.recovering));
        let lost_after = seconds(launch.connections.as_ref().and_then(|it| it.patience)).unwrap_or(FORBEARANCE);
        let mut connections = seen.connected(lost_after, now);
        connections.extend(self.kubernetes.connection(now));
        let is_lost = seen.is_lost(recovering, now) && !state_file::is_draining(&self.paths, &self.daemon);
        let hangs = pid.filter(|_| is_lost || seen.hangs(patience, now) || seen.is_stuck(starting, now));
        let lost = seen.lost(lost_after, now).map(str::to_owned);
        let silent = self.brokers.iter().filter_map(|(name, (_, broker))| Some((name, broker.lost(name)?)));
        let silent: Vec<String> = silent
            .map(|(name, lost)| {
                connections.insert(name.clone(), false);
                lost
            })
            .collect();
        let lacks: Vec<String> = lost.into_iter().chain(silent).chain(self.kubernetes.lost(now)).collect();
        let serving = pid.filter(|_| health.serves);
        let since = |told: &Report| told.serving_since.filter(|_| told.serving == serving);
        let report = Report {
            pid,
            unwell: seen.is_unwell(now).then(|| health.message.clone()),
            lacks: (!lacks.is_empty()).then(|| lacks.join(", ")),
            standby: health.standby,
            connections,
            hangs,
            serving,
            serving_since: serving.map(|_| since(&told.borrow()).unwrap_or_else(Timestamp::now)),
            answered: pid.filter(|_| seen.has_answered),
            shown: pid.filter(|pid| seen.has_shown || told.borrow().shown == Some(*pid)),
        };
        told.send_if_modified(|told| (*told != report).then(|| *told = report).is_some());
        let (wait, _) = self.schedule.next(now);
        self.latest.send_replace(pid.map(|pid| Latest::new(pid, health.clone(), is_silent, now + wait)));
    }
}

/// Whether operators do not ask about it.
fn is_companion(launch: &Launch) -> bool {
    launch.agent.is_none()
}
