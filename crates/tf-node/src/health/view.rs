//! What answers for a daemon without asking it once more: the latest result of the monitor, as long as it is fresh.

use std::time::Duration;

use tf_agent_api::{
    launch::{Launch, Probe},
    state::Health,
};
use tokio::{sync::watch, time::Instant};

use super::{BEGUN, Report};
use crate::probe::workers::Run;

/// How much later than it should the monitor may say something new: a handshake and a look that get no answer, the requests that several workers
/// need, and a busy machine.
const SLACK: Duration = Duration::from_secs(6);

/// What the monitor has seen of one process.
#[derive(Clone, Debug)]
pub struct Latest {
    pid: i32,
    health: Health,
    is_silent: bool,
    next: Instant,
}

impl Latest {
    /// `is_silent`: whether the daemon did not answer at all. `next`: when there will be something new to say.
    pub fn new(pid: i32, health: Health, is_silent: bool, next: Instant) -> Self {
        Self { pid, health, is_silent, next }
    }
}

/// The view of a monitor that others have.
#[derive(Clone, Debug)]
pub struct View {
    report: watch::Receiver<Report>,
    latest: watch::Receiver<Option<Latest>>,
}

impl View {
    /// The view of a monitor that says this.
    pub fn new(report: watch::Receiver<Report>, latest: watch::Receiver<Option<Latest>>) -> Self {
        Self { report, latest }
    }

    /// Whether this process of a daemon serves, as far as the monitor can answer for it: of daemons that are asked by HTTP, if its latest result is
    /// fresh. A daemon with several workers is not asked by anybody else: one look says nothing of all of them.
    pub fn health(&self, launch: &Launch, pid: Option<i32>, now: Instant) -> Option<Health> {
        if launch.alive.is_some() || !matches!(launch.ready, Probe::Http { .. } | Probe::NodeStatus { .. }) {
            return None;
        }
        let run = Run::of(&launch.ready);
        let latest = self.latest.borrow();
        let fresh = latest.as_ref().filter(|latest| Some(latest.pid) == pid && now <= latest.next + SLACK);
        let Some(latest) = fresh else { return run.is_long().then(|| Health::new(false, BEGUN)) };
        let report = self.report.borrow();
        let has_answered = report.answered.is_some() && report.answered == pid;
        if latest.is_silent && has_answered && report.unwell.is_none() && !run.is_long() {
            return Some(Health::new(true, "it answers late"));
        }
        Some(latest.health.clone())
    }

    /// What is seen of the daemon, now and later.
    pub fn reports(&self) -> watch::Receiver<Report> {
        self.report.clone()
    }

    /// What is seen of the daemon all the time.
    pub fn report(&self) -> watch::Ref<'_, Report> {
        self.report.borrow()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        num::{NonZeroU16, NonZeroU32},
    };

    use super::*;

    const PID: Option<i32> = Some(7);

    fn http(workers: u32) -> Launch {
        let (port, workers) = (NonZeroU16::new(8082).unwrap(), NonZeroU32::new(workers).unwrap());
        let ready = Probe::Http { port, path: "/".into(), host: None, tls: true, contains: None, workers };
        Launch { ready, ..Launch::new(vec!["a".into()]) }
    }

    /// What is said of process 7 of this daemon, by what the monitor has seen of process 7 in the moment before.
    fn said(
        launch: &Launch,
        report: Report,
        serves: bool,
        is_silent: bool,
        pid: Option<i32>,
        later: Duration,
    ) -> Option<Health> {
        let next = Instant::now();
        let latest = Latest::new(7, Health::new(serves, "seen"), is_silent, next);
        let view = View::new(watch::channel(report).1, watch::channel(Some(latest)).1);
        view.health(launch, pid, next + later)
    }

    #[tokio::test]
    async fn the_latest_result_answers_while_it_is_fresh_and_of_this_process() {
        let fresh = Duration::from_secs(1);
        for serves in [true, false] {
            let health = said(&http(1), Report::default(), serves, false, PID, fresh);
            assert_eq!(health, Some(Health::new(serves, "seen")));
        }
        assert_eq!(said(&http(1), Report::default(), true, false, PID, SLACK + fresh), None);
        assert_eq!(said(&http(1), Report::default(), true, false, Some(8), fresh), None);
        assert_eq!(said(&http(1), Report::default(), true, false, None, fresh), None);
        let store = Launch { ready: Probe::Kafka { port: NonZeroU16::MIN }, ..http(1) };
        assert_eq!(said(&store, Report::default(), true, false, PID, fresh), None);
        let port = NonZeroU16::MIN;
        let alive = Probe::NodeStatus { port, tls: true, functional: false, optional: BTreeSet::new(), elected: true };
        let other_question = Launch { alive: Some(alive), ..http(1) };
        assert_eq!(said(&other_question, Report::default(), true, false, PID, fresh), None);
    }

    #[tokio::test]
    async fn of_several_workers_nobody_else_can_say() {
        for (pid, later) in [(PID, SLACK + Duration::from_secs(1)), (Some(8), Duration::ZERO)] {
            let health = said(&http(2), Report::default(), true, false, pid, later).unwrap();
            assert!(!health.serves, "{health:?}");
        }
        assert!(said(&http(2), Report::default(), true, false, PID, Duration::ZERO).unwrap().serves);
    }

    #[tokio::test]
    async fn one_that_has_served_and_answers_late_serves_until_that_lasts() {
        let served = Report { answered: PID, ..Report::default() };
        let late = |launch: &Launch, report: &Report, is_silent| {
            said(launch, report.clone(), false, is_silent, PID, Duration::ZERO).unwrap()
        };
        assert_eq!(late(&http(1), &served, true), Health::new(true, "it answers late"));
        assert!(!late(&http(1), &served, false).serves, "an answer is an answer");
        assert!(!late(&http(1), &Report::default(), true).serves, "it has never served");
        assert!(!late(&http(1), &Report { unwell: Some("no answer".into()), ..served.clone() }, true).serves);
        assert!(!late(&http(2), &served, true).serves, "who knows which worker it was");
    }
}
