//! Whether a server hears the others: no table of it says so, but what it counts of them grows only while it does. Gossip has a
//! number for each, which its server raises every second, and keeps it for ever when it is heard no more.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    time::{Duration, Instant},
};

/// A server is given up by its own failure detector after about this time (measured: 18.7 to 20.6 s).
const SILENCE: Duration = Duration::from_secs(20);
/// One that is heard of anew is taken for well after this time: others mark it up a second or two after they hear it.
const SETTLED: Duration = Duration::from_secs(5);

/// What was not looked at for so long is looked at for the first time. A count that stood still meanwhile was silent, one that grew was not.
const GAP: Duration = Duration::from_mins(1);

/// What a server counts of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Count {
    /// Time at which the other one was started.
    pub(super) generation: i32,
    /// Seconds, more or less, that it has been running since.
    pub(super) heartbeat: i32,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    count: Count,
    looked: Instant,
    grew: Instant,
    /// Since when it has been looked at without a gap, and without having been started anew.
    since: Instant,
}

/// What was seen before.
#[derive(Debug, Default)]
pub(super) struct Heartbeats(BTreeMap<IpAddr, Seen>);

impl Heartbeats {
    /// Whether each of these is heard, which are all there are now. None where that cannot be told yet.
    pub(super) fn look(&mut self, counts: &BTreeMap<IpAddr, Count>, now: Instant) -> BTreeMap<IpAddr, Option<bool>> {
        self.0.retain(|address, _| counts.contains_key(address));
        counts.iter().map(|(address, count)| (*address, self.is_heard(*address, *count, now))).collect()
    }

    /// What was last counted of one of them.
    pub(super) fn count(&self, address: &IpAddr) -> Option<Count> {
        Some(self.0.get(address)?.count)
    }

    fn is_heard(&mut self, address: IpAddr, count: Count, now: Instant) -> Option<bool> {
        let known = self
            .0
            .get(&address)
            .copied()
            .filter(|seen| now.duration_since(seen.looked) < GAP && seen.count.generation == count.generation);
        let seen = match known {
            Some(seen) if seen.count == count => Seen { looked: now, ..seen },
            Some(seen) => Seen { count, looked: now, grew: now, ..seen },
            None => Seen { count, looked: now, grew: now, since: now },
        };
        self.0.insert(address, seen);
        let is_silent = now.duration_since(seen.grew) >= SILENCE;
        (is_silent || seen.grew.duration_since(seen.since) >= SETTLED).then_some(!is_silent)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    /// What is said of a peer that is looked at at these seconds with these counts.
    fn heard(looks: &[(u64, i32, i32)]) -> Option<bool> {
        let (mut heartbeats, begun) = (Heartbeats::default(), Instant::now());
        let mut heard = None;
        for (second, generation, heartbeat) in looks {
            let counts = BTreeMap::from([(PEER, Count { generation: *generation, heartbeat: *heartbeat })]);
            heard = heartbeats.look(&counts, begun + Duration::from_secs(*second))[&PEER];
        }
        heard
    }

    #[test]
    fn one_whose_count_has_grown_for_a_while_is_heard() {
        assert_eq!(heard(&[(0, 1, 10)]), None);
        assert_eq!(heard(&[(0, 1, 10), (2, 1, 12), (4, 1, 14)]), None);
        assert_eq!(heard(&[(0, 1, 10), (2, 1, 12), (4, 1, 14), (6, 1, 16)]), Some(true));
    }

    #[test]
    fn one_whose_count_stands_still_is_not_heard() {
        let looks = |last| -> Vec<_> { (0..=last).step_by(2).map(|second| (second, 1, 10)).collect() };
        assert_eq!(heard(&looks(18)), None);
        assert_eq!(heard(&looks(20)), Some(false));
        let mut back = looks(20);
        back.push((22, 1, 11));
        assert_eq!(heard(&back), Some(true), "it was there all the time");
    }

    #[test]
    fn one_that_was_started_anew_is_taken_for_well_after_a_while() {
        let running = [(0, 1, 10), (3, 1, 13), (6, 1, 16)];
        assert_eq!(heard(&[&running[..], &[(8, 2, 1)]].concat()), None);
        assert_eq!(heard(&[&running[..], &[(8, 2, 1), (11, 2, 4), (14, 2, 7)]].concat()), Some(true));
    }

    #[test]
    fn nothing_is_concluded_from_before_a_time_in_which_nobody_looked() {
        let running = [(0, 1, 10), (3, 1, 13), (6, 1, 16)];
        assert_eq!(heard(&[&running[..], &[(66, 1, 70)]].concat()), None);
        assert_eq!(heard(&[&running[..], &[(36, 1, 46)]].concat()), Some(true));
        assert_eq!(heard(&[&running[..], &[(36, 1, 16)]].concat()), Some(false));
    }
}
