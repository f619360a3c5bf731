//! What was seen so far of one process of a daemon, and what follows from it. In: what looks showed, and when. Out: whether the daemon is unhealthy,
//! hangs, or lacks a connection, each of them only after it was so for a while. Pure: the clock is the caller's.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use crate::probe::Observation;

/// How long a daemon may not serve before it is said: two looks. One that is merely busy answers late now and then.
pub const FORBEARANCE: Duration = Duration::from_secs(3);

/// What was seen so far of one process of a daemon.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pid: Option<i32>,
    /// When it was seen first.
    first: Option<Instant>,
    /// Whether it has served at some time.
    pub has_answered: bool,
    /// The same, where to stand by is to serve.
    pub has_shown: bool,
    unwell_since: Option<Instant>,
    lacks: Option<(String, Instant)>,
    silent_since: Option<Instant>,
    connections: BTreeMap<String, Connected>,
}

/// What a daemon has said so far of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connected {
    Up,
    /// It is down in every look since then, and was up before.
    Lost(Instant),
    /// It has never been up.
    Down,
}

impl Seen {
    /// Takes in what a look showed that began at this moment. `lives`: whether the question was only that.
    pub fn look(&mut self, pid: Option<i32>, look: &Observation, lives: bool, begun: Instant) {
        let Observation { health, is_silent, .. } = look;
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
    pub fn lacks(&mut self, what: Option<String>, begun: Instant) {
        let since = self.lacks.take().map_or(begun, |(_, since)| since);
        self.lacks = what.map(|what| (what, since));
    }

    /// Whether it lacks a connection, maybe for a moment.
    pub fn is_lacking(&self) -> bool {
        self.lacks.is_some()
    }

    /// What it has not been connected to for as long as this.
    pub fn lost(&self, patience: Duration, now: Instant) -> Option<&str> {
        let (what, since) = self.lacks.as_ref()?;
        (now.duration_since(*since) >= patience).then_some(what)
    }

    /// Takes in each connection that the daemon has named at this moment, and whether it is up.
    pub fn connections(&mut self, said: BTreeMap<String, bool>, begun: Instant) {
        let before = std::mem::take(&mut self.connections);
        let taken = |(name, is_up): (String, bool)| {
            let now = match (is_up, before.get(&name)) {
                (true, _) => Connected::Up,
                (false, Some(Connected::Up)) => Connected::Lost(begun),
                (false, Some(earlier)) => *earlier,
                (false, None) => Connected::Down,
            };
            (name, now)
        };
        self.connections = said.into_iter().map(taken).collect();
    }

    /// The connections, and whether each is up: one that was up counts as such until it has been down for as long as this, so that a moment
    /// changes nothing that is reported.
    pub fn connected(&self, patience: Duration, now: Instant) -> BTreeMap<String, bool> {
        let is_up = |connected: &Connected| match connected {
            Connected::Up => true,
            Connected::Lost(since) => now.duration_since(*since) < patience,
            Connected::Down => false,
        };
        self.connections.iter().map(|(name, connected)| (name.clone(), is_up(connected))).collect()
    }

    /// Whether it does not serve, maybe for a moment.
    pub fn is_amiss(&self) -> bool {
        self.unwell_since.is_some()
    }

    /// Whether it has not served for a while.
    pub fn is_unwell(&self, now: Instant) -> bool {
        self.unwell_since.is_some_and(|since| now.duration_since(since) >= FORBEARANCE)
    }

    /// Whether it has not served since it was started, for longer than that takes.
    pub fn is_stuck(&self, starting: Option<Duration>, now: Instant) -> bool {
        let is_long = |(starting, first)| now.duration_since(first) >= starting;
        !self.has_answered && starting.zip(self.first).is_some_and(is_long)
    }

    /// Whether it has served, and has not for longer than it takes to do so again by itself.
    pub fn is_lost(&self, recovering: Option<Duration>, now: Instant) -> bool {
        let is_long = |(recovering, since)| now.duration_since(since) >= recovering;
        self.has_answered && recovering.zip(self.unwell_since).is_some_and(is_long)
    }

    /// Whether it has answered, and has not answered at all for longer than this.
    pub fn hangs(&self, patience: Option<Duration>, now: Instant) -> bool {
        let is_long = |since: Instant| patience.is_some_and(|patience| now.duration_since(since) >= patience);
        self.has_answered && self.silent_since.is_some_and(is_long)
    }
}

#[cfg(test)]
mod tests {
    use tf_agent_api::state::Health;

    use super::*;
    use crate::health::schedule::PERIOD;

    const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

    /// After looks every two seconds at this process.
    fn after(seen: &mut Seen, looks: u32, pid: i32, look: &Observation, lives: bool, start: Instant) -> Instant {
        (0..looks).for_each(|number| seen.look(Some(pid), look, lives, start + PERIOD * number));
        start + PERIOD * looks
    }

    fn well() -> Observation {
        Observation { health: Health::new(true, ""), is_silent: false, page: None }
    }

    fn refuses() -> Observation {
        Observation { health: Health::new(false, "refused"), is_silent: false, page: None }
    }

    fn silent() -> Observation {
        Observation { health: Health::new(false, "no answer"), is_silent: true, page: None }
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
        assert_eq!(seen.lost(FORBEARANCE, now + PERIOD), None);
        seen.lacks(Some("Zookeeper:Zookeeper".into()), now + PERIOD);
        assert_eq!(seen.lost(FORBEARANCE, now + FORBEARANCE), Some("Zookeeper:Zookeeper"));
        seen.lacks(None, now + FORBEARANCE);
        seen.lacks(Some("Zookeeper:Zookeeper".into()), now + 2 * FORBEARANCE);
        assert_eq!(seen.lost(FORBEARANCE, now + 2 * FORBEARANCE + PERIOD), None);
    }

    #[test]
    fn a_connection_that_is_down_for_a_moment_again_and_again_changes_nothing_and_one_that_stays_down_does() {
        let patience = Duration::from_secs(15);
        let (mut seen, mut now) = (Seen::default(), Instant::now());
        let name = "Database:RabbitMQ";
        let say = |seen: &mut Seen, is_up: bool, now: Instant| {
            seen.connections([(name.to_owned(), is_up)].into(), now);
            seen.lacks((!is_up).then(|| name.to_owned()), now);
        };
        say(&mut seen, false, now);
        assert!(!seen.connected(patience, now)[name], "it has never been up");
        for number in 0..100 {
            say(&mut seen, number % 3 > 0 || number == 0, now);
            assert!(seen.connected(patience, now)[name] && seen.lost(patience, now).is_none());
            now += PERIOD;
        }
        say(&mut seen, true, now);
        for _ in 0..8 {
            say(&mut seen, false, now);
            assert!(seen.connected(patience, now)[name] && seen.lost(patience, now).is_none());
            now += PERIOD;
        }
        say(&mut seen, false, now);
        assert_eq!((seen.connected(patience, now)[name], seen.lost(patience, now)), (false, Some(name)));
        say(&mut seen, true, now + PERIOD);
        assert!(seen.connected(patience, now + PERIOD)[name]);
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
        let standby =
            Observation { health: Health { standby: true, ..Health::new(true, "") }, is_silent: false, page: None };
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
