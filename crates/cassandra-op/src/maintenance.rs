//! What a ring at rest is kept by.
//!
//! Files in the format of an earlier line of releases are rewritten, one member after the other, once all that answer run releases of the same line: nobody
//! takes such files from a server (`BigVersion.isCompatibleForStreaming`), so joins, leaves and repairs wait for it, and it waits for none of them.
//!
//! Repairs are done from time to time: a copy that has not heard of a deletion before the others forget it brings back what was deleted.
//!
//! Each row is on every member (ADR 0028), so one member that repairs a keyspace makes all copies alike. It is done long before the shortest
//! `gc_grace_seconds` of a keyspace's tables is over (10 days in Tungsten Fabric's; docs/upstream/cassandra.md#repair), by whoever has not done it
//! for longest, and while nothing else is to be done.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use tf_agent_api::cassandra::{Change, Facts, Failed};
use tf_api::contract::MemberStatus;
use tf_plan::{observed::Pod, reports::Reports, step::Step};

use crate::procedure;

/// Share of the time that deletions are remembered, after which a keyspace is repaired: what is left is for what goes wrong.
const SHARE: (i64, i64) = (7, 10);
/// Keyspaces that remember deletions for a shorter time are not repaired more often.
const SOONEST: SignedDuration = SignedDuration::from_hours(24);
/// Until a repair is tried again that did not succeed.
const AGAIN: SignedDuration = SignedDuration::from_hours(1);

/// By which the clocks of nodes may differ.
const SKEW: SignedDuration = SignedDuration::from_hours(1);

/// How well a ring is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maintenance {
    /// Whether these are all keyspaces that remember deletions: none changes how many members its rows are on, and every member tells.
    pub is_whole: bool,
    /// Since when every keyspace that remembers deletions has been repaired, where each has been.
    pub repaired_since: Option<Timestamp>,
    /// When what was deleted in the first of them may come back.
    pub repair_by: Option<Timestamp>,
    /// Keyspaces in which what was deleted may come back, for people.
    pub overdue: Vec<String>,
    /// The repair that is due, if one is.
    pub repair: Option<Step>,
    /// What has a member rewrite files of an earlier release, if one is to.
    pub upgrade: Option<Step>,
    /// Keyspaces that nobody here looks after, for people.
    pub left_alone: Option<String>,
    /// Members that could not rewrite such files, with the cause, for people.
    pub not_upgraded: Vec<String>,
}

/// Looks at a ring all members of which tell; nothing is known of others.
pub fn look(members: &[MemberStatus], reports: &Reports<'_>, now: Timestamp) -> Maintenance {
    let answering = procedure::answering(members, reports);
    let upgrade = upgrade(members, reports, &answering, now);
    let left_alone = left_alone(&answering);
    let not_upgraded = answering.iter().filter_map(|(pod, facts)| not_upgraded(pod, facts)).collect();
    let Some(ring) = procedure::told(members, reports) else {
        return Maintenance { upgrade, left_alone, not_upgraded, ..Maintenance::default() };
    };
    // One member has nobody to differ from.
    let keyspaces = if members.len() > 1 { keyspaces(&ring, members.len()) } else { BTreeMap::new() };
    let last = |keyspace: &str| ring.iter().filter_map(|(_, facts)| repaired(facts, keyspace, now)).max();
    let is_past = |keyspace: &str, span| last(keyspace).is_none_or(|last| now.duration_since(last) >= span);
    let due = keyspaces.iter().find(|(keyspace, grace)| is_past(keyspace, interval(**grace)));
    let repair_by = |keyspace: &str, grace: u32| last(keyspace)?.checked_add(forgotten(grace)).ok();
    let overdue = keyspaces.iter().filter(|(keyspace, grace)| repair_by(keyspace, **grace).is_some_and(|by| by <= now));
    Maintenance {
        is_whole: members.len() == 1 || ring.first().is_some_and(|(_, facts)| facts.grace.len() == keyspaces.len()),
        // One that never was comes before every time.
        repaired_since: keyspaces.keys().map(|keyspace| last(keyspace)).min().flatten(),
        repair_by: keyspaces.iter().filter_map(|(keyspace, grace)| repair_by(keyspace, *grace)).min(),
        overdue: overdue.map(|(keyspace, grace)| explain(keyspace, *grace, &ring)).collect(),
        repair: due.and_then(|(keyspace, _)| repair(keyspace, members.len(), &ring, now)),
        upgrade,
        left_alone,
        not_upgraded,
    }
}

/// Keyspaces that somebody placed by data centre: how many members hold a row of theirs is not for the operator to change, and one member that repairs what
/// it holds does not make all copies alike.
fn left_alone(answering: &[(&Pod, &Facts)]) -> Option<String> {
    let names: BTreeSet<&str> =
        answering.iter().flat_map(|(_, facts)| facts.placed.keys()).map(String::as_str).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    (!names.is_empty()).then(|| {
        format!("keyspaces that are placed by data centre are neither repaired nor put on another number of members: {names}")
    })
}

/// When a server last repaired a keyspace. What its clock said when it was wrong would keep the next repair away for as long.
fn repaired(facts: &Facts, keyspace: &str, now: Timestamp) -> Option<Timestamp> {
    facts.repaired_at.get(keyspace).copied().filter(|at| at.duration_since(now) <= SKEW)
}

/// Keyspaces of which every member has each row, as all say, with the seconds that deletions are remembered.
fn keyspaces<'a>(ring: &[(&Pod, &'a Facts)], members: usize) -> BTreeMap<&'a str, u32> {
    let Some((_, first)) = ring.first() else { return BTreeMap::new() };
    let is_everywhere = |keyspace: &str| {
        ring.iter().all(|(_, facts)| facts.keyspaces.get(keyspace).is_some_and(|factor| *factor as usize == members))
    };
    let graces = first.grace.iter().map(|(keyspace, grace)| (keyspace.as_str(), *grace));
    graces.filter(|(keyspace, _)| is_everywhere(keyspace)).collect()
}

/// For how long deletions are remembered, as far as repairs follow.
fn forgotten(grace: u32) -> SignedDuration {
    SignedDuration::from_secs(grace.into()).max(SOONEST)
}

fn interval(grace: u32) -> SignedDuration {
    SignedDuration::from_secs(i64::from(grace) * SHARE.0 / SHARE.1).max(SOONEST)
}

/// Whether servers are of different releases, which do not exchange data in all of them (docs/upstream/cassandra.md#mixed-releases).
fn is_mixed(ring: &[(&Pod, &Facts)]) -> bool {
    ring.windows(2).any(|pair| matches!(pair, [(_, one), (_, other)] if one.release != other.release))
}

/// Has a member rewrite files of an earlier release. One that could not waits, and the others do not wait for it.
fn upgrade(
    members: &[MemberStatus],
    reports: &Reports<'_>,
    answering: &[(&Pod, &Facts)],
    now: Timestamp,
) -> Option<Step> {
    let something_goes_on = || procedure::busy(members, reports).or_else(|| procedure::routine(members, reports));
    // Those of one line have files in one format: a member that has to join before the last of them takes another release waits for that.
    if procedure::mixed(answering).or_else(something_goes_on).is_some() {
        return None;
    }
    let is_lately = |failed: &Failed| now.duration_since(failed.at) < AGAIN;
    let may_be_asked = |facts: &Facts| facts.older > 0 && !upgrade_failed(facts).is_some_and(is_lately);
    let (pod, facts) = answering.iter().find(|(_, facts)| may_be_asked(facts))?;
    let why = format!("pod {} rewrites {} files of an earlier release", pod.name, facts.older);
    Some(procedure::ask(pod, Change::UpgradeSstables, why))
}

fn upgrade_failed(facts: &Facts) -> Option<&Failed> {
    facts.failed.as_ref().filter(|failed| failed.of == Change::UpgradeSstables)
}

fn not_upgraded(pod: &Pod, facts: &Facts) -> Option<String> {
    let why = &upgrade_failed(facts).filter(|_| facts.older > 0)?.why;
    Some(format!("pod {} has {} files of an earlier release: {why}", pod.name, facts.older))
}

/// Has one member repair a keyspace, unless no member may be asked now.
fn repair(keyspace: &str, members: usize, ring: &[(&Pod, &Facts)], now: Timestamp) -> Option<Step> {
    let failed_lately = |facts: &Facts| failed(facts).is_some_and(|it| now.duration_since(it.at) < AGAIN);
    if is_mixed(ring) || ring.iter().any(|(_, facts)| facts.older > 0 || failed_lately(facts)) {
        return None;
    }
    let (pod, _) = ring.iter().min_by_key(|(_, facts)| repaired(facts, keyspace, now))?;
    let factor = u32::try_from(members).ok()?;
    let change = Change::Repair { keyspace: keyspace.to_owned(), factor, routine: true };
    let why = format!("pod {} repairs keyspace {keyspace}, as is done from time to time", pod.name);
    Some(procedure::ask(pod, change, why))
}

fn failed(facts: &Facts) -> Option<&Failed> {
    facts.failed.as_ref().filter(|failed| failed.of.is_upkeep())
}

fn explain(keyspace: &str, grace: u32, ring: &[(&Pod, &Facts)]) -> String {
    let days = grace / (24 * 3600);
    let failed = ring.iter().find_map(|(pod, facts)| Some(format!(": pod {}: {}", pod.name, failed(facts)?.why)));
    format!(
        "keyspace {keyspace} was not repaired for more than {days} days, and what was deleted may come back{}",
        failed.unwrap_or_default()
    )
}
