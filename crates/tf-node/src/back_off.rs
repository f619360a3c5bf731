//! How long to wait before something that failed is tried again: a daemon that ended by itself, a request.

use std::time::Duration;

/// The first wait of a daemon.
pub const SHORTEST: Duration = Duration::from_secs(1);
/// The last one, and the time of running that forgives all earlier failures.
pub const LONGEST: Duration = Duration::from_secs(60);

/// Counts failures in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOff {
    failures: u32,
    shortest: Duration,
    longest: Duration,
}

impl Default for BackOff {
    fn default() -> Self {
        Self::between(SHORTEST, LONGEST)
    }
}

impl BackOff {
    /// Waits that begin with the shortest and double up to the longest.
    pub fn between(shortest: Duration, longest: Duration) -> Self {
        Self { failures: 0, shortest, longest }
    }

    /// The next wait.
    pub fn wait(&mut self) -> Duration {
        let wait = self.shortest.saturating_mul(2_u32.saturating_pow(self.failures)).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        wait
    }

    /// The wait after a daemon that ran for this long. The time is that of a clock that nobody sets.
    pub fn after(&mut self, ran: Duration) -> Duration {
        if ran >= self.longest {
            self.failures = 0;
        }
        self.wait()
    }

    /// Forgets the failures: what was tried is another thing now, or has succeeded.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn waits_double_up_to_a_minute() {
        let mut back_off = BackOff::default();
        let waits: Vec<u64> = (0..8).map(|_| back_off.after(Duration::ZERO).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    proptest! {
        #[test]
        fn waits_stay_in_their_limits_and_grow_until_the_daemon_ran_for_a_minute(
            runs in prop::collection::vec(0_u64..120, 1..100)
        ) {
            let mut back_off = BackOff::default();
            let mut last = Duration::ZERO;
            for ran in runs.into_iter().map(Duration::from_secs) {
                let wait = back_off.after(ran);
                prop_assert!((SHORTEST..=LONGEST).contains(&wait));
                let least = if ran >= LONGEST { SHORTEST } else { last };
                prop_assert!(wait >= least && (ran < LONGEST || wait == SHORTEST));
                last = wait;
            }
        }
    }
}
