//! When the agent looks at its daemon next, and at what (ADR 0066).
//!
//! In: what looks and glances showed, and when. Out: how long to wait, and what to do then. A **look** sends requests, and each request on a port
//! for HTTP is a line in the log of a real daemon. A **glance** sends none: it opens a TLS connection and closes it in order, and reads what the
//! kernel knows of the processes. Pure: the clock is the caller's.
//!
//! Looks are frequent while the daemon starts, and as long as something is amiss. A daemon that was well for [`SETTLED`] is at rest: glances go on
//! as frequently, and looks become rare, at most [`LINES`] requests a minute together with those that glances call for.

use std::{collections::VecDeque, time::Duration};

use tf_agent_api::launch::{Launch, Probe};
use tokio::time::Instant;

/// Between two looks or glances at a daemon that is well.
pub const PERIOD: Duration = Duration::from_secs(2);
/// Between two looks at one that is not.
pub const SOON: Duration = Duration::from_millis(500);
/// How long a daemon is well until it is at rest.
pub const SETTLED: Duration = Duration::from_secs(30);
/// Requests to a process at rest in any minute, at most.
pub const LINES: u32 = 6;
const MINUTE: Duration = Duration::from_secs(60);

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Everything is asked.
    Look,
    /// The daemon is asked what it is connected to.
    Connections,
    /// Nothing is asked.
    Glance,
}

/// What a look showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The daemon serves and lacks nothing.
    Well,
    /// It waits for its turn, with no port open: a look costs it nothing.
    Standby,
    /// It serves and lacks a connection, maybe for a moment.
    Lacking,
    /// It does not serve.
    Unwell,
}

/// How rarely a daemon at rest is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rest {
    /// Between two looks.
    period: Duration,
    /// Questions about connections in any minute that glances may call for beside them.
    called: usize,
}

/// The schedule of one launch file.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// None where looks are no lines in a log, or are needed as they are: stores.
    rest: Option<Rest>,
    pid: Option<i32>,
    outcome: Option<Outcome>,
    well_since: Option<Instant>,
    looked: Option<Instant>,
    /// When a glance saw that connections of the daemon have ended, until it was asked about them.
    changed: Option<Instant>,
    /// The last questions that glances called for.
    called: VecDeque<Instant>,
}

impl Schedule {
    /// Nothing was looked at yet.
    pub fn of(launch: &Launch) -> Self {
        Self {
            rest: rest(launch),
            pid: None,
            outcome: None,
            well_since: None,
            looked: None,
            changed: None,
            called: VecDeque::new(),
        }
    }

    /// The process is this one now. Nothing is known of another one: whether it is another.
    pub fn follow(&mut self, pid: Option<i32>) -> bool {
        let is_other = self.pid != pid;
        if is_other {
            *self = Self { pid, outcome: None, well_since: None, looked: None, changed: None, ..self.clone() };
        }
        is_other
    }

    /// The daemon has another configuration, or is about to begin: it has to settle again.
    pub fn stirred(&mut self) {
        self.well_since = None;
    }

    /// Whether the daemon ever has a rest.
    pub fn rests(&self) -> bool {
        self.rest.is_some()
    }

    /// What is done after which time.
    pub fn next(&self, now: Instant) -> (Duration, Next) {
        let wait = match self.outcome {
            Some(Outcome::Well | Outcome::Standby) => PERIOD,
            Some(Outcome::Lacking | Outcome::Unwell) | None => SOON,
        };
        let then = now + wait;
        let Some(rest) = self.rest.filter(|_| self.is_at_rest(now)) else { return (wait, Next::Look) };
        let next = match self.looked {
            Some(looked) if then.duration_since(looked) < rest.period => {
                if self.changed.is_some() && self.may_call(rest, then) { Next::Connections } else { Next::Glance }
            }
            _ => Next::Look,
        };
        (wait, next)
    }

    /// A look that began at this moment showed this.
    pub fn looked(&mut self, outcome: Outcome, begun: Instant) {
        self.well_since = match outcome {
            Outcome::Well => self.well_since.or(Some(begun)),
            // It may be for a moment.
            Outcome::Lacking => self.well_since,
            Outcome::Standby | Outcome::Unwell => None,
        };
        (self.outcome, self.looked, self.changed) = (Some(outcome), Some(begun), None);
    }

    /// The daemon was asked at this moment what it is connected to, since a glance called for it.
    pub fn asked(&mut self, outcome: Outcome, begun: Instant) {
        (self.outcome, self.changed) = (Some(outcome), None);
        self.called.push_back(begun);
        while self.called.front().is_some_and(|first| begun.duration_since(*first) >= MINUTE) {
            self.called.pop_front();
        }
    }

    /// A glance saw at this moment that connections of the daemon have ended. It is asked about them with the next step: it may have to notice itself.
    pub fn changed(&mut self, seen: Instant) {
        self.changed = self.changed.or(Some(seen));
    }

    /// When a glance saw that connections have ended about which the daemon was not asked yet.
    pub fn changed_since(&self) -> Option<Instant> {
        self.changed
    }

    fn is_at_rest(&self, now: Instant) -> bool {
        self.outcome == Some(Outcome::Well) && self.well_since.is_some_and(|since| now.duration_since(since) >= SETTLED)
    }

    fn may_call(&self, rest: Rest, then: Instant) -> bool {
        self.called.iter().filter(|called| then.duration_since(**called) < MINUTE).count() < rest.called
    }
}

/// How rarely the daemon of a launch file is looked at. Each worker of several has a log and ports of its own.
fn rest(launch: &Launch) -> Option<Rest> {
    let probe = launch.alive.as_ref().unwrap_or(&launch.ready);
    let (tls, requests, says) = match probe {
        Probe::NodeStatus { tls, .. } => (*tls, 1, true),
        Probe::Http { tls, .. } => (*tls, 1 + u64::from(launch.connections.is_some()), launch.connections.is_some()),
        _ => return None,
    };
    // Without TLS only a request shows that the daemon hangs.
    let seconds = if tls { 10 + 10 * requests } else { 10 * requests };
    let regular = MINUTE.as_secs() / seconds * requests;
    let called = if says { u64::from(LINES).saturating_sub(regular) } else { 0 };
    Some(Rest { period: Duration::from_secs(seconds), called: usize::try_from(called).unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        num::{NonZeroU16, NonZeroU32},
    };

    use proptest::prelude::*;
    use tf_agent_api::launch::Connections;

    use super::*;

    const PORT: NonZeroU16 = NonZeroU16::new(8084).unwrap();

    fn http(tls: bool, workers: u32, connections: bool) -> Launch {
        let workers = NonZeroU32::new(workers).unwrap();
        let ready = Probe::Http { port: PORT, path: "/".into(), host: None, tls, contains: None, workers };
        let told = Connections {
            port: PORT,
            tls,
            optional: BTreeSet::new(),
            patience: None,
            servers: BTreeSet::new(),
            workers: Vec::new(),
        };
        Launch { ready, connections: connections.then_some(told), ..Launch::new(vec!["a".into()]) }
    }

    fn node_status(tls: bool) -> Launch {
        let ready = Probe::NodeStatus { port: PORT, tls, functional: true, optional: BTreeSet::new(), elected: false };
        Launch { ready, ..Launch::new(vec!["a".into()]) }
    }

    fn store() -> Launch {
        Launch { ready: Probe::Kafka { port: PORT }, ..Launch::new(vec!["a".into()]) }
    }

    /// Steps of a daemon that is well all the time, of which a glance sees connections end where `ends` says so: what was done and when, from
    /// the beginning.
    fn steps(launch: &Launch, length: u64, mut ends: impl FnMut() -> bool) -> Vec<(Duration, Next)> {
        let mut schedule = Schedule::of(launch);
        let start = Instant::now();
        let (mut now, mut steps) = (start, Vec::new());
        schedule.follow(Some(7));
        while now.duration_since(start) < Duration::from_secs(length) {
            let (wait, next) = schedule.next(now);
            now += wait;
            steps.push((now.duration_since(start), next));
            match next {
                Next::Look => schedule.looked(Outcome::Well, now),
                Next::Connections => schedule.asked(Outcome::Well, now),
                Next::Glance if ends() => schedule.changed(now),
                Next::Glance => {}
            }
        }
        steps
    }

    fn requests(launch: &Launch, next: Next) -> u32 {
        match next {
            Next::Look => 1 + u32::from(launch.connections.is_some()),
            Next::Connections => 1,
            Next::Glance => 0,
        }
    }

    #[test]
    fn a_daemon_that_is_well_is_looked_at_every_two_seconds_for_half_a_minute_and_then_rarely() {
        for (launch, period) in [
            (node_status(true), 20),
            (http(true, 1, true), 30),
            (http(true, 1, false), 20),
            (http(false, 1, false), 10),
            (node_status(false), 10),
        ] {
            let all = steps(&launch, 300, || false);
            let looks: Vec<Duration> = all.iter().filter(|(_, next)| *next == Next::Look).map(|(at, _)| *at).collect();
            let early = looks.iter().filter(|at| **at <= SETTLED + SOON).count();
            assert_eq!(early, 16, "{looks:?}");
            assert!(
                looks.windows(2).skip(early).all(|pair| pair[1].saturating_sub(pair[0]) == Duration::from_secs(period)),
                "{looks:?}"
            );
            assert!(
                all.windows(2).skip(1).all(|pair| pair[1].0.saturating_sub(pair[0].0) == PERIOD),
                "something is done every two seconds"
            );
        }
        assert!(steps(&store(), 300, || false).iter().all(|(_, next)| *next == Next::Look), "stores have no rest");
    }

    #[test]
    fn whoever_waits_for_its_turn_is_looked_at_as_before_and_so_is_who_has_just_begun() {
        let mut schedule = Schedule::of(&node_status(true));
        let mut now = Instant::now();
        schedule.follow(Some(7));
        assert_eq!(schedule.next(now), (SOON, Next::Look));
        for _ in 0..100 {
            schedule.looked(Outcome::Standby, now);
            assert_eq!(schedule.next(now), (PERIOD, Next::Look));
            now += PERIOD;
        }
        (0..100).for_each(|number| schedule.looked(Outcome::Well, now + PERIOD * number));
        now += PERIOD * 100;
        assert_eq!(schedule.next(now), (PERIOD, Next::Glance));
        schedule.stirred();
        assert_eq!(schedule.next(now), (PERIOD, Next::Look), "it may take its configuration badly");
        assert!(schedule.follow(Some(8)) && !schedule.follow(Some(8)));
        assert_eq!(schedule.next(now), (SOON, Next::Look));
    }

    #[test]
    fn a_connection_that_is_gone_for_a_moment_costs_looks_for_that_moment_alone() {
        let mut schedule = Schedule::of(&node_status(true));
        let mut now = Instant::now();
        schedule.follow(Some(7));
        (0..20).for_each(|number| schedule.looked(Outcome::Well, now + PERIOD * number));
        now += PERIOD * 20;
        schedule.looked(Outcome::Lacking, now);
        assert_eq!(schedule.next(now), (SOON, Next::Look));
        schedule.looked(Outcome::Well, now + SOON);
        assert_eq!(schedule.next(now + SOON), (PERIOD, Next::Glance));
        schedule.looked(Outcome::Unwell, now + PERIOD);
        schedule.looked(Outcome::Well, now + PERIOD + SOON);
        assert_eq!(schedule.next(now + PERIOD + SOON), (PERIOD, Next::Look), "after a fault it has to settle again");
    }

    fn any_launch() -> impl Strategy<Value = Launch> {
        prop_oneof![
            any::<bool>().prop_map(node_status),
            (any::<bool>(), 1_u32..5, any::<bool>()).prop_map(|(tls, workers, told)| http(tls, workers, told)),
        ]
    }

    proptest! {
        #[test]
        fn at_rest_a_process_gets_at_most_six_requests_in_any_minute(
            launch in any_launch(), ends in prop::collection::vec(any::<bool>(), 300)
        ) {
            let mut ends = ends.into_iter();
            let all = steps(&launch, 600, || ends.next().unwrap_or_default());
            let rest: Vec<_> = all.into_iter().skip_while(|(at, _)| *at <= SETTLED + SOON).collect();
            for (number, (from, _)) in rest.iter().enumerate() {
                let minute = rest.iter().skip(number).take_while(|(at, _)| at.saturating_sub(*from) < MINUTE);
                let sent: u32 = minute.map(|(_, next)| requests(&launch, *next)).sum();
                prop_assert!(sent <= LINES, "{sent} in the minute from {from:?}");
            }
        }

        #[test]
        fn whatever_was_seen_the_next_step_is_within_two_seconds_and_a_look_follows_what_is_amiss(
            launch in any_launch(), seen in prop::collection::vec(0_u8..6, 0..200)
        ) {
            let mut schedule = Schedule::of(&launch);
            let mut now = Instant::now();
            for what in seen {
                let (wait, next) = schedule.next(now);
                prop_assert!(wait >= SOON && wait <= PERIOD);
                if matches!(schedule.outcome, None | Some(Outcome::Lacking | Outcome::Unwell)) {
                    prop_assert_eq!((wait, next), (SOON, Next::Look));
                }
                now += wait;
                match (what, next) {
                    (0, _) => drop(schedule.follow(schedule.pid.map_or(Some(1), |pid| Some(pid + 1)))),
                    (1, _) => schedule.looked(Outcome::Unwell, now),
                    (2, _) => schedule.looked(Outcome::Standby, now),
                    (3, _) => schedule.looked(Outcome::Lacking, now),
                    (_, Next::Look) => schedule.looked(Outcome::Well, now),
                    (_, Next::Connections) => schedule.asked(Outcome::Well, now),
                    (_, Next::Glance) => schedule.changed(now),
                }
            }
        }

        #[test]
        fn the_step_after_a_connection_has_ended_asks_the_daemon(launch in any_launch(), at in 0_usize..100) {
            let mut glances = 0;
            let all = steps(&launch, 400, || {
                glances += 1;
                glances == at + 1
            });
            let ended = all.iter().enumerate().filter(|(_, (_, next))| *next == Next::Glance).nth(at);
            if let Some((number, _)) = ended.filter(|_| rest(&launch).is_some_and(|rest| rest.called > 0)) {
                prop_assert!(all.get(number + 1).is_none_or(|(_, next)| *next != Next::Glance));
            }
        }
    }
}
