//! The decision about a leader lease: a pure function of what was observed.
//!
//! Time is counted from when *we* last saw the lease change, on our own monotonic clock, never from timestamps in the
//! object: clocks of nodes differ. A write goes out with the resource version that was read, so of two candidates
//! one loses.

use std::time::Duration;

/// Durations of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a lease is respected after its last change. Others take over after it.
    pub lease: Duration,
    /// How long a leader goes on without a successful renewal. Shorter than `lease` by more than a request may take.
    pub deadline: Duration,
    /// How often a leader renews.
    pub renew: Duration,
    /// How soon a failed write is tried again.
    pub retry: Duration,
}

impl Timing {
    /// 30 s lease, 20 s deadline, renewed every 12 s: five writes a minute, and one renewal may fail without harm.
    pub const DEFAULT: Self = Self {
        lease: Duration::from_secs(30),
        deadline: Duration::from_secs(20),
        renew: Duration::from_secs(12),
        retry: Duration::from_secs(2),
    };
}

/// The lease as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing is known about it yet.
    Unknown,
    /// It does not exist.
    Absent,
    /// Nobody holds it.
    Free,
    /// We hold it; our own last successful write was this long ago.
    Ours {
        /// Age of our last successful write.
        renewed: Duration,
    },
    /// Somebody else holds it; we saw it change this long ago.
    Theirs {
        /// Age of the last change we saw.
        unchanged: Duration,
        /// How long the holder asks to be respected.
        lease: Duration,
    },
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Create the lease with us as holder.
    Create,
    /// Take the lease over.
    Take,
    /// Write a new renewal time.
    Renew,
    /// Look again after this time, or when the lease changes.
    Wait(Duration),
}

/// Decides what a candidate or leader does about the lease.
pub fn decide(seen: &Seen, timing: &Timing) -> Decision {
    match seen {
        Seen::Unknown => Decision::Wait(timing.retry),
        Seen::Absent => Decision::Create,
        Seen::Free => Decision::Take,
        Seen::Ours { renewed } if *renewed >= timing.renew => Decision::Renew,
        Seen::Ours { renewed } => Decision::Wait(timing.renew.saturating_sub(*renewed)),
        Seen::Theirs { unchanged, lease } if unchanged >= lease => Decision::Take,
        Seen::Theirs { unchanged, lease } => Decision::Wait(lease.saturating_sub(*unchanged)),
    }
}

/// How much longer a leader may write: nothing once its last successful renewal is older than the deadline.
pub fn may_write_for(seen: &Seen, timing: &Timing) -> Duration {
    match seen {
        Seen::Ours { renewed } => timing.deadline.saturating_sub(*renewed),
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIMING: Timing = Timing::DEFAULT;

    #[test]
    fn a_lease_of_another_is_respected_until_it_expires_by_our_own_clock() {
        let theirs = |secs| Seen::Theirs { unchanged: Duration::from_secs(secs), lease: TIMING.lease };
        assert_eq!(decide(&theirs(29), &TIMING), Decision::Wait(Duration::from_secs(1)));
        assert_eq!(decide(&theirs(30), &TIMING), Decision::Take);
    }

    #[test]
    fn a_released_or_missing_lease_is_taken_at_once() {
        assert_eq!(decide(&Seen::Free, &TIMING), Decision::Take);
        assert_eq!(decide(&Seen::Absent, &TIMING), Decision::Create);
    }

    #[test]
    fn renewals_are_at_most_six_a_minute() {
        assert!(TIMING.renew >= Duration::from_secs(10));
    }

    proptest! {
        /// A leader cut off from the API server stops writing before anybody else may begin, with room for a request
        /// that was under way.
        #[test]
        fn the_former_leader_has_stopped_before_another_takes_over(since_renewal in 0_u64..120) {
            let age = Duration::from_secs(since_renewal);
            let leader = may_write_for(&Seen::Ours { renewed: age }, &TIMING);
            let other = decide(&Seen::Theirs { unchanged: age, lease: TIMING.lease }, &TIMING);
            if other == Decision::Take {
                prop_assert_eq!(leader, Duration::ZERO);
                let in_flight = Duration::from_secs(5);
                prop_assert!(age >= TIMING.deadline + in_flight);
            }
        }

        /// Nobody writes the lease of another before it expired, and a holder renews in time for a second attempt.
        #[test]
        fn decisions_are_safe_for_any_age(millis in 0_u64..200_000, lease in 1_u64..120) {
            let age = Duration::from_millis(millis);
            let lease = Duration::from_secs(lease);
            match decide(&Seen::Theirs { unchanged: age, lease }, &TIMING) {
                Decision::Take => prop_assert!(age >= lease),
                Decision::Wait(left) => prop_assert_eq!(age + left, lease),
                other => prop_assert!(false, "{other:?}"),
            }
            if let Decision::Wait(left) = decide(&Seen::Ours { renewed: age }, &TIMING) {
                prop_assert!(age + left + TIMING.retry < TIMING.deadline);
            }
        }
    }
}
