//! When members are stopped of which one is elected to lead the others, and the others stand in line.

use std::time::Duration;

use jiff::Timestamp;

use crate::{
    node::state::Phase,
    observed::Pod,
    reports::Reports,
    rollout::{Change, Seat},
    step::Target,
};

/// Who leads is brought up to date last, and only when who is elected next is a process that runs. Who leads and has hardly begun, as where all have,
/// goes first, and so does who is elected then: their places in line go with them, and none of a process that is no more stays before the others'.
/// While nobody leads, who waits is not stopped as long as somebody is about to be elected.
#[derive(Clone, Copy, Debug)]
pub struct Election {
    /// Whether a pod's server leads.
    pub leads: fn(&Pod, &Reports<'_>) -> bool,
    /// For how long a place in line outlives its process. Zero where nobody stands in line.
    pub session: Duration,
}

/// Who stands in line.
pub(crate) struct Line<'a> {
    /// The daemon that is elected.
    pub daemon: &'static str,
    /// Pods of members whose nodes are there.
    pub pods: &'a [&'a Pod],
    /// What agents say.
    pub reports: &'a Reports<'a>,
    /// Since when not all members are well: who led may have been lost then.
    pub since: Timestamp,
    /// Now.
    pub now: Timestamp,
}

impl Election {
    /// Whether a pod goes last of those that serve.
    pub(crate) fn goes_last(self, pod: &Pod, line: &Line<'_>) -> bool {
        (self.leads)(pod, line.reports) != self.leader(line).is_some_and(|leader| self.has_hardly_begun(leader, line))
    }

    fn leader<'a>(self, line: &Line<'a>) -> Option<&'a Pod> {
        line.pods.iter().copied().find(|pod| (self.leads)(pod, line.reports))
    }

    fn has_hardly_begun(self, pod: &Pod, line: &Line<'_>) -> bool {
        line.started(pod).is_some_and(|begun| self.left(begun, line.now).is_some())
    }

    /// For how much longer this pod is not stopped, and why. None where it may be now, or is not stopped by what is done to it.
    pub(crate) fn turn(self, target: &Target, seats: &[Seat<'_>], line: &Line<'_>) -> Option<(Duration, String)> {
        let seat = seats.iter().find(|seat| seat.uid == target.uid)?;
        if !seat.serves || seat.change == Some(Change::Told) {
            return None;
        }
        let session = self.session.as_secs();
        let leader = self.leader(line);
        if let Some(leader) = leader.filter(|leader| leader.uid == target.uid) {
            if self.has_hardly_begun(leader, line) {
                return None;
            }
            let others = line.pods.iter().filter(|pod| pod.uid != target.uid);
            let left = others.filter_map(|pod| self.left(line.started(pod)?, line.now)).max()?;
            return Some((
                left,
                format!("who leads is stopped when the others have run for {session} s, and can be elected"),
            ));
        }
        if leader.is_some() {
            return None;
        }
        let begun = line.pods.iter().filter_map(|pod| line.started(pod)).chain([line.since]);
        let left = begun.filter_map(|begun| self.left(begun, line.now)).max()?;
        let why = format!(
            "nobody is elected, and who waits is not stopped for {session} s, after which places in line of processes that are no more are gone"
        );
        Some((left, why))
    }

    /// How much longer places in line from before this moment may be before those of others. Agents tell by their nodes' clocks when they
    /// started their daemons; one that is ahead by more than a session tells nothing.
    fn left(self, begun: Timestamp, now: Timestamp) -> Option<Duration> {
        let ran = now.duration_since(begun);
        let is_ahead = ran.is_negative() && ran.unsigned_abs() <= self.session;
        let ran = if is_ahead { Duration::ZERO } else { ran.unsigned_abs() };
        self.session.checked_sub(ran).filter(|left| !left.is_zero())
    }
}

impl Line<'_> {
    /// When the agent of this pod started the daemon that runs.
    fn started(&self, pod: &Pod) -> Option<Timestamp> {
        let state = self.reports.of(pod)?.daemons.get(self.daemon)?;
        (state.phase == Phase::Running).then_some(state.since)
    }
}
