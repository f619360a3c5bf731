//! When a daemon counts as serving of which several processes take connections at one port.
//!
//! The kernel hands a connection to any of them, and one after the other becomes ready, so an answer says something about the process that gave it
//! and nothing about the others. In: answers, one for each connection. Out: whether so many in a row were good that none of the processes can
//! have been left out. Pure.

use std::num::NonZeroU32;

use tf_agent_api::{
    launch::{PER_WORKER, Probe, one_worker},
    state::Health,
};

/// Good answers in a row of one process of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    needed: u32,
    good: u32,
    pid: Option<i32>,
}

impl Run {
    /// No answer yet. One worker needs one good answer, several need [`PER_WORKER`] for each of them.
    pub fn behind(workers: NonZeroU32) -> Self {
        let needed = if workers == one_worker() { 1 } else { workers.get().saturating_mul(PER_WORKER) };
        Self { needed, good: 0, pid: None }
    }

    /// No answer yet to this probe.
    pub fn of(probe: &Probe) -> Self {
        match probe {
            Probe::Http { workers, .. } => Self::behind(*workers),
            _ => Self::behind(one_worker()),
        }
    }

    /// Whether more than one good answer is needed.
    pub fn is_long(&self) -> bool {
        self.needed > 1
    }

    /// Whether the process was seen to answer well as often as is needed, and since then never badly.
    pub fn is_complete(&self) -> bool {
        self.good >= self.needed
    }

    /// Requests of the next look, at least one.
    pub fn requests(&self) -> u32 {
        self.needed.saturating_sub(self.good).max(1)
    }

    /// The next answers come from this process. Those of another one do not count.
    pub fn follow(&mut self, pid: Option<i32>) {
        if self.pid != pid {
            (self.pid, self.good) = (pid, 0);
        }
    }

    /// Takes an answer, or its absence, which is not good.
    pub fn take(&mut self, is_good: bool) {
        self.good = if is_good { self.good.saturating_add(1).min(self.needed) } else { 0 };
    }

    /// What the last answer says of the daemon as a whole.
    pub fn judge(&self, health: Health) -> Health {
        if !health.serves || self.is_complete() {
            return health;
        }
        let Self { needed, good, .. } = self;
        Health::new(
            false,
            format!("{good} of {needed} requests in a row are answered well, until each worker is: {}", health.message),
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(workers: u32) -> Run {
        Run::behind(NonZeroU32::new(workers).unwrap())
    }

    fn judged(run: &Run, serves: bool) -> bool {
        run.judge(Health::new(serves, "")).serves
    }

    #[test]
    fn one_worker_serves_with_its_first_good_answer() {
        let mut one = run(1);
        one.follow(Some(7));
        assert!(!one.is_long() && !judged(&one, true));
        one.take(true);
        assert!(judged(&one, true) && !judged(&one, false));
    }

    #[test]
    fn two_workers_serve_after_six_good_answers_in_a_row_and_then_with_single_ones() {
        let mut two = run(2);
        two.follow(Some(7));
        assert_eq!(two.requests(), 6);
        for good in [true, true, true, true, true, false, true, false] {
            two.take(good);
            assert!(!judged(&two, good));
        }
        (0..5).for_each(|_| two.take(true));
        assert!(!judged(&two, true) && two.requests() == 1);
        two.take(true);
        assert!(judged(&two, true) && two.requests() == 1);
        two.take(true);
        assert!(judged(&two, true));
        two.take(false);
        assert!(!judged(&two, true) && two.requests() == 6, "one bad answer, and all are needed again");
    }

    #[test]
    fn answers_of_the_process_before_do_not_count() {
        let mut two = run(2);
        two.follow(Some(7));
        (0..6).for_each(|_| two.take(true));
        two.follow(Some(7));
        assert!(two.is_complete());
        two.follow(Some(8));
        assert!(!two.is_complete() && two.requests() == 6);
    }

    proptest! {
        /// However the kernel deals connections to workers, as long as it leaves none out of twice as many as there are: while one of them
        /// answers badly the daemon never counts as serving.
        #[test]
        fn a_worker_that_answers_badly_is_seen(
            workers in 2_u32..9, bad in 0_u32..9, deals in prop::collection::vec(Just((0_u32..9).collect::<Vec<_>>()).prop_shuffle(), 1..20)
        ) {
            let bad = bad % workers;
            let mut seen = run(workers);
            for worker in deals.concat().into_iter().filter(|worker| *worker < workers) {
                seen.take(worker != bad);
                prop_assert!(!seen.is_complete());
            }
        }
    }
}
