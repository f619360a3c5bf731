//! When members are stopped of which one is elected to lead the others, and the others stand by.
//!
//! A contender has an ephemeral znode in ZooKeeper, and the one with the lowest number leads. That of a leader which ends by SIGTERM goes at once; that of
//! a standby stays until its session expires, ahead of those that were made later, and while it is the lowest none is elected (ADR 0050).

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tf_agent_api::{
    content::ContentHash,
    state::{Phase, State},
};
use tf_api::contract::DaemonStatus;

use crate::{
    observed::{Observed, Pod},
    reports::Reports,
    rollout::{Change, PodSlot},
    status::{remaining, whole_seconds},
    step::Target,
};

/// What a handover takes besides the session of a leader that was killed: the election itself, and the next looks of agent and operator.
const HANDOVER: Duration = Duration::from_secs(5);

/// The leader is brought up to date last, and only when the next one to be elected is a process that runs. A leader that has hardly begun, as where all
/// have, goes first, and so does the one that is elected then: their znodes go with them, and none of a process that has ended stays ahead of the others'.
/// While none leads, standbys are not stopped as long as one of them is about to be elected.
#[derive(Clone, Copy, Debug)]
pub struct Election {
    /// Daemons that are elected, each by itself, by their containers.
    pub daemons: &'static [&'static str],
    /// Whether the daemon in this container leads.
    pub leads: fn(&Pod, &str, &Reports<'_>) -> bool,
    /// For how long a znode outlives its process. Zero where there are none.
    pub session: Duration,
}

/// The contenders.
pub(crate) struct Line<'a> {
    /// Pods of members whose nodes are there.
    pub pods: &'a [&'a Pod],
    /// What agents report.
    pub reports: &'a Reports<'a>,
    /// The configuration of the member on each node.
    pub contents: &'a BTreeMap<String, ContentHash>,
    /// Since when not all members are well: the leader may have been lost then.
    pub since: Timestamp,
    /// Now.
    pub now: Timestamp,
}

/// Whether the daemon in a container beside the one that speaks for its pod leads: its introspection answers, which that of a standby does not.
pub fn companion_leads(pod: &Pod, daemon: &str, reports: &Reports<'_>) -> bool {
    let state = reports.of(pod).and_then(|status| status.daemons.get(daemon));
    state.is_some_and(|state| state.amiss().is_none() && !state.standby && !state.connections.is_empty())
}

impl Election {
    /// Whether a pod goes last of those that serve.
    pub(crate) fn goes_last(self, pod: &Pod, line: &Line<'_>) -> bool {
        self.daemons.iter().any(|daemon| {
            let leader = self.leader(daemon, line);
            let has_hardly_begun = leader.is_some_and(|leader| self.has_hardly_begun(leader, daemon, line));
            leader.is_some() && (self.leads)(pod, daemon, line.reports) != has_hardly_begun
        })
    }

    /// Notes since when daemons have no leader, by what was noted `before`. Out: that one has had none for longer than a handover takes, and when that
    /// changes by the passing of time alone. A pod whose agent does not answer may have the leader, unless its node is lost.
    pub(crate) fn judge<Cr>(
        self,
        daemons: &mut [DaemonStatus],
        before: &[DaemonStatus],
        observed: &Observed<Cr>,
    ) -> (Option<String>, Option<Duration>) {
        let (reports, mut late, mut again) = (Reports::of_observed(observed), None, None::<Duration>);
        if self.session.is_zero() {
            return (None, None);
        }
        for status in daemons.iter_mut().filter(|status| self.daemons.contains(&status.name.as_str())) {
            let contenders: Vec<&Pod> =
                reports.pods.iter().filter(|pod| pod.images.contains_key(&status.name)).collect();
            let leads = |pod: &&Pod| (self.leads)(pod, &status.name, &reports);
            let is_known = |pod: &&Pod| reports.of(pod).is_some() || observed.is_lost(pod);
            if status.serving < 1 || contenders.iter().any(leads) || !contenders.iter().all(is_known) {
                continue;
            }
            let noted = before.iter().find(|before| before.name == status.name);
            let noted = noted.and_then(|before| before.unelected_since.as_ref()).map(|since| since.0);
            let since = noted.unwrap_or_else(|| whole_seconds(observed.now));
            status.unelected_since = Some(Time(since));
            let lasts = observed.now.duration_since(since);
            match (self.session + HANDOVER).checked_sub(lasts.unsigned_abs()).filter(|left| !left.is_zero()) {
                Some(left) if !lasts.is_negative() => again = again.into_iter().chain([left]).min(),
                _ => {
                    let DaemonStatus { name, serving, .. } = status;
                    late = late.or(Some(format!(
                        "no {name} is elected since {since}: all {serving} that run are standby; look in their logs for errors of ZooKeeper or of the API"
                    )));
                }
            }
        }
        (late, again)
    }

    fn leader<'a>(self, daemon: &str, line: &Line<'a>) -> Option<&'a Pod> {
        line.pods.iter().copied().find(|pod| (self.leads)(pod, daemon, line.reports))
    }

    fn has_hardly_begun(self, pod: &Pod, daemon: &str, line: &Line<'_>) -> bool {
        line.started(pod, daemon).is_some_and(|begun| self.left(begun, line.now).is_some())
    }

    /// For how much longer this pod is not stopped, and why. None where it may be now, or nothing in it that is elected is stopped.
    pub(crate) fn turn(self, target: &Target, slots: &[PodSlot<'_>], line: &Line<'_>) -> Option<(Duration, String)> {
        let slot = slots.iter().find(|slot| slot.uid == target.uid).filter(|slot| slot.serves)?;
        let pod = line.pods.iter().copied().find(|pod| pod.uid == target.uid)?;
        let turns = self.daemons.iter().filter(|daemon| line.stops(pod, daemon, slot.change));
        turns.filter_map(|daemon| self.turn_of(daemon, pod, line)).max()
    }

    /// The same for one daemon.
    fn turn_of(self, daemon: &str, target: &Pod, line: &Line<'_>) -> Option<(Duration, String)> {
        let session = self.session.as_secs();
        let leader = self.leader(daemon, line);
        if let Some(leader) = leader.filter(|leader| leader.uid == target.uid) {
            if self.has_hardly_begun(leader, daemon, line) {
                return None;
            }
            let others = line.pods.iter().filter(|pod| pod.uid != target.uid);
            let left = others.filter_map(|pod| self.left(line.started(pod, daemon)?, line.now)).max()?;
            return Some((
                left,
                format!("the active {daemon} is stopped when the others have run for {session} s and can be elected"),
            ));
        }
        if leader.is_some() {
            return None;
        }
        let begun = line.pods.iter().filter_map(|pod| line.started(pod, daemon)).chain([line.since]);
        let left = begun.filter_map(|begun| self.left(begun, line.now)).max()?;
        let why = format!(
            "no {daemon} is elected, and no standby is stopped for {session} s, after which ZooKeeper has removed the election znodes of former processes"
        );
        Some((left, why))
    }

    /// How much longer znodes from before this moment may be ahead of those of others.
    fn left(self, begun: Timestamp, now: Timestamp) -> Option<Duration> {
        remaining(self.session, begun, now)
    }
}

impl Line<'_> {
    /// When the agent of this pod started the daemon that runs.
    fn started(&self, pod: &Pod, daemon: &str) -> Option<Timestamp> {
        self.running(pod, daemon).map(|state| state.since)
    }

    fn running(&self, pod: &Pod, daemon: &str) -> Option<&State> {
        self.reports.of(pod)?.daemons.get(daemon).filter(|state| state.phase == Phase::Running)
    }

    /// Whether this change stops a daemon that runs: a configuration does where its agent does not say that the daemon has it, or would take it as it
    /// runs. One that fails contends for nothing.
    fn stops(&self, pod: &Pod, daemon: &str, change: Option<Change>) -> bool {
        let Some(state) = self.running(pod, daemon).filter(|state| state.amiss().is_none()) else { return false };
        let wanted = pod.node.as_ref().and_then(|node| self.contents.get(node));
        match change {
            None | Some(Change::HotReload | Change::UnderWay) => false,
            Some(Change::Template | Change::Certificate) => true,
            Some(Change::Configuration) => ![&state.active, &state.takes].contains(&&wanted.cloned()),
        }
    }
}
