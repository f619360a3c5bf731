//! What the agent sees of its own daemon without being asked: that it does not serve, which is told by the state file sooner and in more
//! words than the kubelet has, for daemons that no operator asks about; what it is not connected to although it serves; and that it hangs, so
//! that it has to be started anew.

use std::{collections::BTreeMap, time::Duration};

use tf_plan::node::launch::{Launch, Probe, Reads};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{
    kubernetes,
    paths::Paths,
    pod::Pod,
    probe::{self, Look, Page},
    state_file,
};

/// Between two looks, at a daemon that is well and at one that is not.
const PERIOD: Duration = Duration::from_secs(2);
const SOON: Duration = Duration::from_millis(500);
/// Between two questions to the Kubernetes API.
const ASKING: Duration = Duration::from_secs(5);
/// The connection to it, by type and name like those that daemons tell.
const KUBERNETES: &str = "Kubernetes:API";
/// How long a daemon may not serve before it is said: two looks. One that is merely busy answers late now and then.
const FORBEARANCE: Duration = Duration::from_secs(3);
/// What is said of a process that nobody has seen serve. It needs no forbearance: the one before it has ended.
const BEGUN: &str = "it has begun and was not seen to serve yet";

/// What there is to tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Why the daemon does not serve, or does not live where that is the question, if it has not for a while.
    pub unwell: Option<String>,
    /// What the daemon is not connected to although it serves, if it has not been for a while.
    pub lacks: Option<String>,
    /// Whether it serves as who takes over from the member that is elected.
    pub standby: bool,
    /// What it says that it is connected to, and whether it is.
    pub connections: BTreeMap<String, bool>,
    /// The process that hangs, if it does.
    pub hangs: Option<i32>,
    /// The process that was seen to serve, if it does.
    pub serving: Option<i32>,
    /// The process that has served at some time.
    pub answered: Option<i32>,
    /// The same, where to stand by is to serve.
    pub shown: Option<i32>,
}

/// What was seen so far of one process of a daemon.
#[derive(Clone, Debug, Default)]
struct Seen {
    pid: Option<i32>,
    /// When it was seen first.
    first: Option<Instant>,
    has_answered: bool,
    has_shown: bool,
    unwell_since: Option<Instant>,
    lacks: Option<(String, Instant)>,
    silent_since: Option<Instant>,
}

impl Seen {
    /// Takes in what a look showed that began at this moment. `lives`: whether the question was only that.
    fn look(&mut self, pid: Option<i32>, look: &Look, lives: bool, begun: Instant) {
        let Look { health, is_silent, .. } = look;
        if self.pid != pid {
            *self = Self {
                pid,
                first: Some(begun),
                unwell_since: self.unwell_since,
                lacks: self.lacks.take(),
                ..Self::default()
            };
        }
        self.has_answered |= health.serves && !health.standby;
        self.has_shown |= health.serves;
        // A daemon that waits to be elected may have a port open at which nobody answers yet.
        let is_unwell = if lives { *is_silent && self.has_answered } else { !health.serves };
        let since = |is: bool, since: Option<Instant>| is.then(|| since.unwrap_or(begun));
        self.unwell_since = since(is_unwell, self.unwell_since);
        self.silent_since = since(*is_silent, self.silent_since);
    }

    /// Takes in what the daemon is not connected to, by what it said at this moment.
    fn lacks(&mut self, what: Option<String>, begun: Instant) {
        let since = self.lacks.take().map_or(begun, |(_, since)| since);
        self.lacks = what.map(|what| (what, since));
    }

    /// What it has not been connected to for a while.
    fn lost(&self, now: Instant) -> Option<&str> {
        let (what, since) = self.lacks.as_ref()?;
        (now.duration_since(*since) >= FORBEARANCE).then_some(what)
    }

    fn is_unwell(&self, now: Instant) -> bool {
        self.unwell_since.is_some_and(|since| now.duration_since(since) >= FORBEARANCE)
    }

    /// Whether it has not served since it was started, for longer than that takes.
    fn is_stuck(&self, starting: Option<Duration>, now: Instant) -> bool {
        let is_long = |(starting, first)| now.duration_since(first) >= starting;
        !self.has_answered && starting.zip(self.first).is_some_and(is_long)
    }

    /// Whether it has served, and has not for longer than it takes to do so again by itself.
    fn is_lost(&self, recovering: Option<Duration>, now: Instant) -> bool {
        let is_long = |(recovering, since)| now.duration_since(since) >= recovering;
        self.has_answered && recovering.zip(self.unwell_since).is_some_and(is_long)
    }

    fn hangs(&self, patience: Option<Duration>, now: Instant) -> bool {
        let is_long = |since: Instant| patience.is_some_and(|patience| now.duration_since(since) >= patience);
        self.has_answered && self.silent_since.is_some_and(is_long)
    }
}

/// Whether the Kubernetes API lets the daemon read what it follows, which such a daemon does not say (ADR 0055).
#[derive(Debug, Default)]
struct Access {
    asked: Option<Instant>,
    /// How often it was asked for one list after the other.
    turns: usize,
    /// Its last answer: what is refused, in its words.
    answer: Option<Result<(), String>>,
    /// Why the daemon's own way to it leads nowhere, and since when.
    unreachable: Option<(String, Instant)>,
}

impl Access {
    /// Asks, if it is time to. Whoever is not at work is refused nothing, and what the API does not say is as it was.
    async fn look(&mut self, reads: &Reads, paths: &Paths, is_at_work: bool, begun: Instant) {
        if !is_at_work {
            *self = Self::default();
            return;
        }
        let is_time = self.asked.is_none_or(|asked| begun.duration_since(asked) >= ASKING);
        if let Some(server) = reads.server.filter(|_| is_time || self.unreachable.is_some()) {
            let since = self.unreachable.take().map_or(begun, |(_, since)| since);
            self.unreachable = kubernetes::unreachable(server).await.map(|why| (why, since));
        }
        if is_time {
            self.asked = Some(begun);
            // A daemon that is let in is asked for one list at a time: who loses its token, or its rights, is refused whichever it is.
            let lists: Vec<&String> = match (&self.answer, self.turns.checked_rem(reads.lists.len())) {
                (Some(Ok(())), Some(turn)) => reads.lists.iter().skip(turn).take(1).collect(),
                _ => reads.lists.iter().collect(),
            };
            if let Ok(refused) = kubernetes::refused(&reads.token, &lists, paths).await {
                self.turns += lists.len();
                self.answer = Some(refused.map_or(Ok(()), Err));
            }
        }
    }

    /// As other connections are told.
    fn connection(&self, now: Instant) -> Option<(String, bool)> {
        let is_known = self.answer.is_some() || self.unreachable.is_some();
        is_known.then(|| (KUBERNETES.to_owned(), self.lost(now).is_none()))
    }

    /// What it has not been connected to, as other lost connections are told. A refusal is an answer; one that was not reached may be a moment
    /// later.
    fn lost(&self, now: Instant) -> Option<String> {
        let unreachable = self.unreachable.as_ref();
        let unreachable =
            unreachable.filter(|(_, since)| now.duration_since(*since) >= FORBEARANCE).map(|(why, _)| why);
        let why = unreachable.or(self.answer.as_ref().and_then(|answer| answer.as_ref().err()))?;
        Some(format!("{KUBERNETES} ({why})"))
    }
}

/// Looks after the daemon of one container.
pub struct Wellness {
    paths: Paths,
    daemon: String,
    pod: Pod,
    looking: Option<(Launch, JoinHandle<()>)>,
    told: watch::Sender<Report>,
}

impl Wellness {
    /// Looks at nothing yet.
    pub fn new(paths: Paths, daemon: &str, pod: Pod) -> Self {
        Self { paths, daemon: daemon.to_owned(), pod, looking: None, told: watch::Sender::default() }
    }

    /// Looks at what this launch file runs, from now on.
    pub fn follow(&mut self, launch: &Launch) {
        if self.looking.as_ref().is_some_and(|(present, _)| present == launch) {
            return;
        }
        if let Some((_, task)) = self.looking.take() {
            task.abort();
        }
        // The process is the same.
        self.told.send_modify(|told| *told = Report { shown: told.shown, ..Report::default() });
        let is_visible = launch.alive.is_some() || !matches!(launch.ready, Probe::Process);
        if is_visible {
            let (paths, daemon, address) = (self.paths.clone(), self.daemon.clone(), self.pod.address);
            let (look, told) = (launch.clone(), self.told.clone());
            let task = tokio::spawn(async move {
                let (mut seen, mut kubernetes) = (Seen::default(), Access::default());
                let seconds = |of: Option<u32>| of.map(|seconds| Duration::from_secs(seconds.into()));
                let (patience, starting) = (seconds(look.patience), seconds(look.starting));
                let recovering = seconds(look.recovering);
                loop {
                    let is_well = seen.unwell_since.is_none() && seen.lacks.is_none();
                    sleep(if is_well { PERIOD } else { SOON }).await;
                    let begun = Instant::now();
                    let state = state_file::read(&paths, &daemon);
                    let seen_now = probe::look(&look, state.as_ref(), &paths, address).await;
                    let pid = state.and_then(|state| state.pid);
                    seen.look(pid, &seen_now, look.alive.is_some(), begun);
                    let Look { health, page, .. } = seen_now;
                    let mut connections = page.as_ref().map(Page::connections).unwrap_or_default();
                    match &look.connections {
                        Some(asked) if health.serves && !health.standby => {
                            // Of one that does not say nothing is known anew.
                            if let Some(told) = probe::connections(asked, page, &paths, address).await {
                                seen.lacks(told.missing, begun);
                                connections = told.all;
                            }
                        }
                        _ => seen.lacks = None,
                    }
                    if let Some(reads) = &look.kubernetes {
                        kubernetes.look(reads, &paths, pid.is_some() && !health.standby, begun).await;
                    }
                    let now = Instant::now();
                    connections.extend(kubernetes.connection(now));
                    let standby = health.standby;
                    let unwell = seen.is_unwell(now).then(|| health.message.clone());
                    let is_lost = seen.is_lost(recovering, now) && !state_file::is_draining(&paths, &daemon);
                    let hangs = pid.filter(|_| is_lost || seen.hangs(patience, now) || seen.is_stuck(starting, now));
                    let serving = pid.filter(|_| health.serves);
                    let answered = pid.filter(|_| seen.has_answered);
                    let shown = pid.filter(|pid| seen.has_shown || told.borrow().shown == Some(*pid));
                    let lacks: Vec<String> =
                        seen.lost(now).map(str::to_owned).into_iter().chain(kubernetes.lost(now)).collect();
                    let lacks = (!lacks.is_empty()).then(|| lacks.join(", "));
                    let report = Report { unwell, lacks, standby, connections, hangs, serving, answered, shown };
                    told.send_if_modified(|told| (*told != report).then(|| *told = report).is_some());
                }
            });
            self.looking = Some((launch.clone(), task));
        }
    }

    /// Why this process of the daemon does not serve, if it does not and no operator asks.
    pub fn unwell(&self, pid: Option<i32>) -> Option<String> {
        let (launch, _) = self.looking.as_ref().filter(|(launch, _)| is_companion(launch))?;
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
    pub fn is_standby(&self) -> bool {
        self.told.borrow().standby
    }

    /// What the daemon says that it is connected to, and whether it is.
    pub fn connections(&self) -> BTreeMap<String, bool> {
        self.told.borrow().connections.clone()
    }

    /// Whether this process of the daemon was seen to serve; none where there is nothing to see, or an operator asks.
    pub fn serves(&self, pid: Option<i32>) -> Option<bool> {
        let (launch, _) = self.looking.as_ref().filter(|(launch, _)| is_companion(launch))?;
        let is_visible = !matches!(launch.ready, Probe::Process);
        is_visible.then(|| pid.is_some() && self.told.borrow().serving == pid)
    }

    /// What there is to tell, now and later.
    pub fn told(&self) -> watch::Receiver<Report> {
        self.told.subscribe()
    }
}

/// Whether operators do not ask about it.
fn is_companion(launch: &Launch) -> bool {
    launch.agent.is_none()
}

impl Drop for Wellness {
    fn drop(&mut self) {
        if let Some((_, task)) = &self.looking {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use tf_plan::node::state::Health;

    use super::*;

    const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

    /// After looks every two seconds at this process.
    fn after(seen: &mut Seen, looks: u32, pid: i32, look: &Look, lives: bool, start: Instant) -> Instant {
        (0..looks).for_each(|number| seen.look(Some(pid), look, lives, start + PERIOD * number));
        start + PERIOD * looks
    }

    fn well() -> Look {
        Look { health: Health::new(true, ""), is_silent: false, page: None }
    }

    fn refuses() -> Look {
        Look { health: Health::new(false, "refused"), is_silent: false, page: None }
    }

    fn silent() -> Look {
        Look { health: Health::new(false, "no answer"), is_silent: true, page: None }
    }

    #[tokio::test]
    async fn a_daemon_that_has_answered_and_falls_silent_hangs_when_patience_ends() {
        let mut seen = Seen::default();
        let now = after(&mut seen, 3, 7, &well(), false, Instant::now());
        let now = after(&mut seen, 29, 7, &silent(), false, now);
        assert!(seen.is_unwell(now) && !seen.hangs(PATIENCE, now));
        let now = after(&mut seen, 1, 7, &silent(), false, now);
        assert!(seen.hangs(PATIENCE, now) && !seen.hangs(None, now));
        // The next process has not answered yet.
        let now = after(&mut seen, 90, 8, &silent(), false, now);
        assert!(seen.is_unwell(now) && !seen.hangs(PATIENCE, now));
    }

    #[tokio::test]
    async fn a_server_that_does_not_come_up_is_stuck_and_one_that_has_served_never_is() {
        let starting = Some(Duration::from_mins(1));
        let mut seen = Seen::default();
        let now = after(&mut seen, 29, 7, &refuses(), false, Instant::now());
        assert!(!seen.is_stuck(starting, now));
        let now = after(&mut seen, 2, 7, &silent(), false, now);
        assert!(seen.is_stuck(starting, now) && !seen.is_stuck(None, now));
        let now = after(&mut seen, 29, 8, &refuses(), false, now);
        assert!(!seen.is_stuck(starting, now), "it has been started anew");
        let now = after(&mut seen, 1, 8, &well(), false, now);
        let now = after(&mut seen, 90, 8, &refuses(), false, now);
        assert!(!seen.is_stuck(starting, now));
    }

    #[tokio::test]
    async fn a_server_that_has_served_and_does_not_for_longer_than_it_may_is_lost() {
        let recovering = Some(Duration::from_mins(1));
        let mut seen = Seen::default();
        let now = after(&mut seen, 90, 7, &refuses(), false, Instant::now());
        assert!(!seen.is_lost(recovering, now), "it has never served");
        let now = after(&mut seen, 1, 7, &well(), false, now);
        let now = after(&mut seen, 29, 7, &refuses(), false, now);
        assert!(!seen.is_lost(recovering, now));
        let now = after(&mut seen, 1, 7, &well(), false, now);
        let now = after(&mut seen, 29, 7, &refuses(), false, now);
        assert!(!seen.is_lost(recovering, now), "it served meanwhile");
        let now = after(&mut seen, 1, 7, &refuses(), false, now);
        assert!(seen.is_lost(recovering, now) && !seen.is_lost(None, now));
    }

    #[tokio::test]
    async fn what_is_lost_is_told_after_a_while_whatever_else_is_lost_then() {
        let (mut seen, now) = (Seen::default(), Instant::now());
        seen.lacks(Some("Database:RabbitMQ".into()), now);
        assert_eq!(seen.lost(now + PERIOD), None);
        seen.lacks(Some("Zookeeper:Zookeeper".into()), now + PERIOD);
        assert_eq!(seen.lost(now + FORBEARANCE), Some("Zookeeper:Zookeeper"));
        seen.lacks(None, now + FORBEARANCE);
        seen.lacks(Some("Zookeeper:Zookeeper".into()), now + 2 * FORBEARANCE);
        assert_eq!(seen.lost(now + 2 * FORBEARANCE + PERIOD), None);
    }

    #[tokio::test]
    async fn one_answer_is_enough_and_one_that_refuses_does_not_hang() {
        let mut seen = Seen::default();
        let now = after(&mut seen, 1, 7, &well(), false, Instant::now());
        let now = after(&mut seen, 29, 7, &silent(), false, now);
        let now = after(&mut seen, 1, 7, &refuses(), false, now);
        let now = after(&mut seen, 29, 7, &silent(), false, now);
        assert!(seen.is_unwell(now) && !seen.hangs(PATIENCE, now));
        let now = after(&mut seen, 90, 7, &refuses(), false, now);
        assert!(seen.is_unwell(now) && !seen.hangs(PATIENCE, now));
        let now = after(&mut seen, 1, 7, &well(), false, now);
        assert!(!seen.is_unwell(now));
    }

    #[tokio::test]
    async fn where_the_question_is_whether_it_lives_only_one_that_has_answered_and_is_silent_is_unwell() {
        let mut seen = Seen::default();
        let standby = Look { health: Health { standby: true, ..Health::new(true, "") }, is_silent: false, page: None };
        let mut now = Instant::now();
        for look in [&standby, &silent(), &refuses()] {
            now = after(&mut seen, 90, 7, look, true, now);
            assert!(!seen.is_unwell(now) && !seen.hangs(PATIENCE, now), "{look:?}");
        }
        now = after(&mut seen, 1, 7, &well(), true, now);
        now = after(&mut seen, 3, 7, &silent(), true, now);
        assert!(seen.is_unwell(now));
    }
}
