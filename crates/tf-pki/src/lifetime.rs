//! When certificates are renewed, and what their ages mean.
//!
//! Time is a parameter. Waiting times are durations to be measured on a monotonic clock and never longer than an hour, so a
//! wall clock that jumps is noticed; no jump leads to requests without pause, and a certificate in use is not replaced
//! by one that is good at another time only.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Longest time between two looks at a certificate.
pub const LONGEST_WAIT: Duration = Duration::from_hours(1);
/// Shortest time between two looks, and between two requests.
pub const SHORTEST_WAIT: Duration = Duration::from_secs(10);

/// The time a certificate is good for, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Validity {
    /// First second.
    pub not_before: Timestamp,
    /// Last second.
    pub not_after: Timestamp,
}

/// Where in its life a certificate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// It begins later: this clock or the issuer's is wrong. A new certificate would not help.
    NotYetValid,
    /// Good, and not due.
    Fresh,
    /// Good, and to be renewed.
    Due,
    /// Good, and half of the time for its renewal is gone.
    Overdue,
    /// No longer good.
    Expired,
}

impl Age {
    /// Whether peers accept the certificate.
    pub fn is_good(self) -> bool {
        matches!(self, Self::Fresh | Self::Due | Self::Overdue)
    }

    /// Whether another one is to be asked for.
    pub fn wants_renewal(self) -> bool {
        matches!(self, Self::Due | Self::Overdue | Self::Expired)
    }
}

impl Validity {
    /// Its length; nothing when the ends are the wrong way round.
    pub fn length(&self) -> SignedDuration {
        self.not_after.duration_since(self.not_before).max(SignedDuration::ZERO)
    }

    /// When the holder asks for the next certificate: at two thirds, or up to a fifteenth of the lifetime earlier. How much
    /// earlier depends on the holder's name alone, so members that started together do not renew together.
    pub fn renewal(&self, holder: &str) -> Timestamp {
        let length = self.length();
        self.not_before + length * 2 / 3 - length.mul_f64(fraction(holder) / 15.0)
    }

    /// When a certificate that is still not renewed is worth a warning: five sixths.
    pub fn overdue(&self) -> Timestamp {
        self.not_before + self.length() * 5 / 6
    }

    /// Where in its life the certificate of `holder` is.
    pub fn age(&self, holder: &str, now: Timestamp) -> Age {
        if now > self.not_after {
            Age::Expired
        } else if now < self.not_before {
            Age::NotYetValid
        } else if now >= self.overdue() {
            Age::Overdue
        } else if now >= self.renewal(holder) {
            Age::Due
        } else {
            Age::Fresh
        }
    }

    /// How long to wait before looking again: until the next age begins where that is sooner, and between two requests for a
    /// renewal a hundredth of the lifetime; always from [`SHORTEST_WAIT`] to [`LONGEST_WAIT`].
    pub fn next_check(&self, holder: &str, now: Timestamp) -> Duration {
        let wait = match self.age(holder, now) {
            Age::NotYetValid => self.not_before.duration_since(now),
            Age::Fresh => self.renewal(holder).duration_since(now),
            Age::Due | Age::Overdue | Age::Expired => self.length() / 100,
        };
        Duration::try_from(wait).unwrap_or_default().clamp(SHORTEST_WAIT, LONGEST_WAIT)
    }

    /// Whether a certificate with this validity may take the place of `current`: it has to be good now and to last longer,
    /// unless there is none or it is of no use. Guards against an issuer whose clock is wrong and against an old answer.
    pub fn replaces(&self, current: Option<&Self>, now: Timestamp) -> bool {
        let good = |validity: &Self| validity.not_before <= now && now <= validity.not_after;
        good(self) && current.is_none_or(|current| !good(current) || current.not_after < self.not_after)
    }
}

/// From 0 to 1, the same for the same name.
fn fraction(holder: &str) -> f64 {
    let digest = Sha256::digest(holder);
    let number = digest.iter().take(4).fold(0u32, |value, byte| value << 8 | u32::from(*byte));
    f64::from(number) / f64::from(u32::MAX)
}

/// What is known of one holder's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holding {
    /// Name of the holder.
    pub holder: String,
    /// The certificate in use; none when none was issued.
    pub validity: Option<Validity>,
}

/// What condition `CertificatesReady` says about a set of holders: the worst case, with those it is about in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All have one and none is late.
    Ready,
    /// These have none yet.
    Pending(Vec<String>),
    /// These are late with their renewal.
    Expiring(Vec<String>),
    /// Those of these begin later: a clock is wrong.
    NotYetValid(Vec<String>),
    /// Those of these have expired.
    Expired(Vec<String>),
}

/// Ages of a set of holders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The condition.
    pub verdict: Verdict,
    /// The earliest end of all certificates, for the expiry metric.
    pub earliest_end: Option<Timestamp>,
    /// How long this stays as it is at most, see [`Validity::next_check`]; the time to look again.
    pub next_check: Duration,
}

/// Sums up certificates at a time.
pub fn summarise(holdings: &[Holding], now: Timestamp) -> Summary {
    let (mut pending, mut late, mut early, mut expired) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for Holding { holder, validity } in holdings {
        let group = match validity.map(|validity| validity.age(holder, now)) {
            None => &mut pending,
            Some(Age::Expired) => &mut expired,
            Some(Age::NotYetValid) => &mut early,
            Some(Age::Overdue) => &mut late,
            Some(Age::Fresh | Age::Due) => continue,
        };
        group.push(holder.clone());
    }
    for group in [&mut pending, &mut late, &mut early, &mut expired] {
        group.sort();
    }
    let verdict = if !expired.is_empty() {
        Verdict::Expired(expired)
    } else if !early.is_empty() {
        Verdict::NotYetValid(early)
    } else if !pending.is_empty() {
        Verdict::Pending(pending)
    } else if !late.is_empty() {
        Verdict::Expiring(late)
    } else {
        Verdict::Ready
    };
    let dated = || holdings.iter().filter_map(|holding| Some((&holding.holder, holding.validity?)));
    Summary {
        verdict,
        earliest_end: dated().map(|(_, validity)| validity.not_after).min(),
        next_check: dated().map(|(holder, validity)| validity.next_check(holder, now)).min().unwrap_or(LONGEST_WAIT),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: i64 = 86_400;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn of_days(days: i64) -> Validity {
        Validity { not_before: at(0), not_after: at(days * DAY) }
    }

    fn holding(holder: &str, validity: Option<Validity>) -> Holding {
        Holding { holder: holder.into(), validity }
    }

    #[test]
    fn a_certificate_of_90_days_is_renewed_between_day_54_and_day_60() {
        for holder in ["zk-0", "zk-1", "zk-2", "cassandra-7"] {
            let renewal = of_days(90).renewal(holder);
            assert!(at(54 * DAY) <= renewal && renewal <= at(60 * DAY), "{holder}: {renewal}");
        }
        assert_ne!(of_days(90).renewal("zk-0"), of_days(90).renewal("zk-1"));
    }

    #[test]
    fn ages_follow_each_other() {
        let age = |day| of_days(90).age("zk-0", at(day * DAY));
        assert_eq!(
            [-1, 0, 53, 60, 75, 90, 91].map(age),
            [Age::NotYetValid, Age::Fresh, Age::Fresh, Age::Due, Age::Overdue, Age::Overdue, Age::Expired]
        );
    }

    #[test]
    fn a_certificate_from_the_future_is_kept_and_looked_at_again_within_the_hour() {
        let validity = of_days(90);
        assert!(!validity.age("zk-0", at(-300 * DAY)).wants_renewal());
        assert_eq!(validity.next_check("zk-0", at(-300 * DAY)), LONGEST_WAIT);
    }

    #[test]
    fn a_good_certificate_is_replaced_only_by_one_that_is_good_and_lasts_longer() {
        let current = of_days(90);
        let later = Validity { not_before: at(DAY), not_after: at(91 * DAY) };
        assert!(later.replaces(Some(&current), at(2 * DAY)));
        assert!(!later.replaces(Some(&current), at(0)), "not good yet");
        assert!(!current.replaces(Some(&later), at(2 * DAY)), "an old answer");
        assert!(current.replaces(Some(&later), at(0)), "what is there is of no use");
        assert!(current.replaces(None, at(0)));
    }

    #[test]
    fn the_worst_case_is_reported_with_those_it_is_about() {
        let (good, none) = (holding("a", Some(of_days(90))), holding("b", None));
        let (short, late) = (holding("d", Some(of_days(1))), holding("c", Some(of_days(12))));
        let verdict = |holdings: &[&Holding]| {
            let holdings: Vec<Holding> = holdings.iter().copied().cloned().collect();
            summarise(&holdings, at(11 * DAY)).verdict
        };
        assert_eq!(verdict(&[&good]), Verdict::Ready);
        assert_eq!(verdict(&[&good, &late]), Verdict::Expiring(vec!["c".into()]));
        assert_eq!(verdict(&[&none, &good, &late]), Verdict::Pending(vec!["b".into()]));
        assert_eq!(verdict(&[&none, &short, &good, &late]), Verdict::Expired(vec!["d".into()]));
        let summary = summarise(&[good, late, none], at(11 * DAY));
        assert_eq!(summary.earliest_end, Some(at(12 * DAY)));
        assert_eq!(
            summarise(&[], at(0)),
            Summary { verdict: Verdict::Ready, earliest_end: None, next_check: LONGEST_WAIT }
        );
    }

    proptest! {
        #[test]
        fn no_clock_leads_to_haste_or_to_sleep(now in -4_000_000_000i64..4_000_000_000, seconds in 0i64..400_000_000, holder in "[a-z0-9-]{1,20}") {
            let validity = Validity { not_before: at(0), not_after: at(seconds) };
            let wait = validity.next_check(&holder, at(now));
            prop_assert!((SHORTEST_WAIT..=LONGEST_WAIT).contains(&wait));
        }

        #[test]
        fn who_follows_the_waiting_times_renews_before_the_last_fourth(seconds in 600i64..1_000_000, holder in "[a-z0-9-]{1,20}") {
            let validity = Validity { not_before: at(0), not_after: at(seconds) };
            let mut now = at(0);
            while !validity.age(&holder, now).wants_renewal() {
                now += validity.next_check(&holder, now);
            }
            prop_assert!(now.duration_since(at(0)) < SignedDuration::from_secs(seconds * 3 / 4));
        }

        #[test]
        fn ages_only_rise_with_time(seconds in 0i64..40_000_000, mut moments in prop::collection::vec(-1000i64..50_000_000, 2..20)) {
            let validity = Validity { not_before: at(0), not_after: at(seconds) };
            moments.sort_unstable();
            let ages: Vec<u8> = moments.iter().map(|moment| validity.age("zk-0", at(*moment)) as u8).collect();
            prop_assert!(ages.is_sorted());
        }
    }
}
