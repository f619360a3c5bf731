//! A new ring takes in a backup before it is called Ready.
//!
//! Every folder of the backup has to be before some member, which takes it in; a full repair brings each row to all of them then. Servers say what they have
//! taken in, so an operator or an agent that was stopped goes on where the ring stands (ADR 0032). A ring that was brought up takes in nothing.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;
use tf_agent_api::cassandra::{
    AUTH_KEYSPACE, Change, Facts,
    backup::{Backup, Folder, Found, Restored},
};
use tf_api::{
    Cassandra, Managed as _, RestoreSource, RestoredStatus,
    contract::{ConditionType, Draft, MemberStatus, Reason},
};
use tf_plan::{
    not_ready::NotReady,
    observed::{Observed, Pod},
    plan::{News, Plan},
    reports::{AgentCoverage, Reports},
    status::whole_seconds,
    step::Step,
};

use crate::procedure;

/// Until what did not succeed is tried again, and until somebody looks again who found something amiss.
const AGAIN: SignedDuration = SignedDuration::from_mins(1);

/// Field of the status.
pub const FIELD: &str = "restored";

type Seen<'a> = (&'a MemberStatus, &'a Pod, &'a Facts);

/// How far it is.
#[derive(Clone, Debug, PartialEq)]
enum Progress {
    /// All of it was taken in.
    Done,
    /// Something goes on, or has to happen first.
    Waits(String),
    /// This is to be done next.
    Next(Step),
    /// Somebody has to do something about it. It is looked at again.
    Refused(String, Option<Step>),
}

/// The backup that the spec names, if it can be one.
///
/// # Errors
/// `InvalidSpec` when it cannot be.
pub fn source(cr: &Cassandra, has_volume: bool) -> Result<Option<Backup>, NotReady> {
    let Some(of) = named(cr) else { return Ok(None) };
    let invalid = |why: &str| Err(NotReady::invalid(Reason::InvalidSpec, format!("serviceConfiguration.{why}")));
    if of.directory().is_none() {
        return invalid("restoreFrom: no backup can be called so; name it as status.backups does");
    }
    if !has_volume {
        return invalid("restoreFrom: there is no volume to find it on; name it in serviceConfiguration.backup");
    }
    Ok(Some(of))
}

/// Has a ring that was not brought up yet take in a backup, and says so of one that did.
pub fn take_in(plan: &mut Plan, cr: &Cassandra, observed: &Observed<Cassandra>, source: Option<Backup>) {
    if let Some(restored) = cr.status.as_ref().and_then(|status| status.own.restored.as_ref()) {
        plan.own_status.insert(FIELD.to_owned(), json!(restored));
        return;
    }
    let Some(of) = source else { return };
    let what = format!("backup {} of {}/{}", of.name, of.namespace, of.ring);
    let why = match look(&of, &plan.members, &Reports::of_observed(observed), observed.now) {
        Progress::Done => {
            let of = RestoredStatus {
                completed: Some(Time(whole_seconds(observed.now))),
                of: format!("{}/{}", of.namespace, of.ring),
                backup: of.name,
            };
            plan.own_status.insert(FIELD.to_owned(), json!(of));
            plan.news.push(News { is_bad: false, reason: "RestoreCompleted", note: format!("{what} was taken in") });
            return;
        }
        Progress::Waits(why) => why,
        Progress::Next(step) => {
            let why = step.explain();
            plan.step = plan.step.take().or(Some(step));
            why
        }
        Progress::Refused(why, step) => {
            plan.step = plan.step.take().or(step);
            plan.again = Some(AGAIN.unsigned_abs());
            let held = (Reason::InvalidSpec, format!("{what} is not taken in: {why}"));
            plan.held = plan.held.take().or(Some(held));
            why
        }
    };
    if plan.held.is_none() {
        plan.under_way = plan.under_way.take().or(Some(format!("{what} is taken in: {why}")));
    }
    // Whoever comes now finds less than there will be.
    let empty =
        Draft::fails(ConditionType::Available, Reason::DataMigrationRunning, format!("{what} is not taken in yet"));
    plan.drafts.push(empty);
}

fn named(cr: &Cassandra) -> Option<Backup> {
    let RestoreSource { namespace, name, backup } = cr.spec.service_configuration.restore_from.clone()?;
    let namespace = namespace.unwrap_or_else(|| cr.home().to_owned());
    Some(Backup { namespace, ring: name, name: backup })
}

/// Looks at a ring that was not brought up yet.
fn look(of: &Backup, members: &[MemberStatus], reports: &Reports<'_>, now: Timestamp) -> Progress {
    if reports.clarity() != AgentCoverage::Complete {
        return Progress::Waits("its members cannot be asked yet".to_owned());
    }
    match procedure::whole(members, reports) {
        Ok(ring) => proceed(of, &ring, now),
        Err(why) => Progress::Waits(why),
    }
}

fn proceed(of: &Backup, ring: &[Seen<'_>], now: Timestamp) -> Progress {
    if let Some(why) = in_use(of, ring) {
        return Progress::Refused(why, None);
    }
    if let Some((pod, why)) = ring.iter().find_map(|(_, pod, facts)| Some((pod, failed(facts, now)?))) {
        return Progress::Refused(format!("pod {}: {why}", pod.name), None);
    }
    let look = |(_, pod, _): &Seen<'_>| {
        let why = format!("pod {} looks for backup {}", pod.name, of.name);
        procedure::ask(pod, Change::Look { of: of.clone() }, why)
    };
    // What it found may be gone where it could not take it in.
    let has_failed_since = |facts: &Facts, found: &Found| {
        facts.failed.as_ref().is_some_and(|failed| failed.of.is_restore() && found.at <= failed.at)
    };
    let is_unsure = |facts: &Facts| found(of, facts).is_none_or(|found| has_failed_since(facts, found));
    if let Some(unasked) = ring.iter().find(|(_, _, facts)| is_unsure(facts)) {
        return Progress::Next(look(unasked));
    }
    let folders = match folders(of, ring) {
        Ok(folders) => folders,
        Err(why) => {
            let is_old =
                |(_, _, facts): &&Seen<'_>| found(of, facts).is_some_and(|it| now.duration_since(it.at).abs() >= AGAIN);
            return Progress::Refused(why, ring.iter().find(is_old).map(look));
        }
    };
    if !ring.iter().any(|(_, _, facts)| facts.restored.as_ref().is_some_and(|it| it.schema)) {
        return schema(of, ring);
    }
    rows(of, ring, &folders).unwrap_or_else(|| repair(ring))
}

/// What keeps a ring from taking in this backup at all.
fn in_use(of: &Backup, ring: &[Seen<'_>]) -> Option<String> {
    let restored: Vec<&Restored> = ring.iter().filter_map(|(_, _, facts)| facts.restored.as_ref()).collect();
    if let Some(other) = restored.iter().find(|it| it.of != *of) {
        let Backup { namespace, ring, name } = &other.of;
        return Some(format!(
            "rows of backup {name} of {namespace}/{ring} were taken in already; make another resource"
        ));
    }
    let all = ring.iter().flat_map(|(_, _, facts)| facts.keyspaces.keys().map(String::as_str));
    let keyspaces: BTreeSet<&str> = all.filter(|keyspace| *keyspace != AUTH_KEYSPACE).collect();
    let has_data = restored.is_empty() && !keyspaces.is_empty();
    has_data.then(|| {
        let keyspaces = keyspaces.into_iter().collect::<Vec<_>>().join(", ");
        format!("the ring has keyspaces of clients already ({keyspaces}); empty the members' directories, or remove restoreFrom")
    })
}

fn failed(facts: &Facts, now: Timestamp) -> Option<&str> {
    let failed = facts.failed.as_ref().filter(|failed| failed.of.is_restore() || failed.of.is_upkeep())?;
    (now.duration_since(failed.at) < AGAIN).then_some(failed.why.as_str())
}

fn found<'a>(of: &Backup, facts: &'a Facts) -> Option<&'a Found> {
    facts.found.as_ref().filter(|found| found.of == *of)
}

/// Numbers of the folders that the backup consists of.
///
/// # Errors
/// One that nobody has before it, and what is wrong with the others.
fn folders(of: &Backup, ring: &[Seen<'_>]) -> Result<BTreeSet<u32>, String> {
    let all: Vec<&Found> = ring.iter().filter_map(|(_, _, facts)| found(of, facts)).collect();
    let trouble = |(member, _, facts): &Seen<'_>| {
        let trouble = found(of, facts)?.trouble.as_ref()?;
        Some(format!("node {}: {trouble}", member.node))
    };
    if let Some(trouble) = ring.iter().find_map(trouble) {
        return Err(trouble);
    }
    let Backup { namespace, ring: source, name } = of;
    let any: Option<&Folder> = all.iter().find_map(|found| found.folders.values().next());
    let Some(Folder { resource, members }) = any else {
        return Err(format!("no member has a folder {namespace}/{source}/{name} on its backup volume"));
    };
    if all
        .iter()
        .flat_map(|found| found.folders.values())
        .any(|other| (&other.resource, &other.members) != (resource, members))
    {
        return Err(format!(
            "folders of {namespace}/{source}/{name} are of different backups; keep those of one of them"
        ));
    }
    let is_there = |member: &u32| all.iter().any(|found| found.folders.contains_key(member));
    match members.iter().find(|(member, _)| !is_there(member)) {
        Some((member, node)) => Err(format!(
            "no member has folder {namespace}/{source}/{name}/{member} on its backup volume, which was written on node {node}; \
             copy it to the volume of a member"
        )),
        None => Ok(members.keys().copied().collect()),
    }
}

/// Has one member make keyspaces and tables.
fn schema(of: &Backup, ring: &[Seen<'_>]) -> Progress {
    if let Some(why) = busy(ring) {
        return Progress::Waits(why);
    }
    // Whoever began before goes on.
    let has_begun = |(_, _, facts): &&Seen<'_>| facts.restored.is_some();
    let has_folder = |(_, _, facts): &&Seen<'_>| found(of, facts).is_some_and(|found| !found.folders.is_empty());
    let who = ring.iter().find(|it| has_begun(it) && has_folder(it)).or_else(|| ring.iter().find(has_folder));
    let folder = who.and_then(|(_, _, facts)| found(of, facts)?.folders.keys().next().copied());
    let (Some((_, pod, _)), Some(folder)) = (who, folder) else {
        return Progress::Waits("no member has a folder".to_owned());
    };
    let factor = u32::try_from(ring.len()).unwrap_or_default();
    let why = format!("pod {} makes the keyspaces and tables of backup {}", pod.name, of.name);
    Progress::Next(procedure::ask(pod, Change::RestoreSchema { of: of.clone(), folder, factor }, why))
}

/// Has members take in folders that nobody has taken in; none when there is none left.
fn rows(of: &Backup, ring: &[Seen<'_>], folders: &BTreeSet<u32>) -> Option<Progress> {
    let done: BTreeSet<u32> = ring
        .iter()
        .filter_map(|(_, _, facts)| facts.restored.as_ref())
        .flat_map(|it| it.folders.iter().copied())
        .collect();
    let mut parts: BTreeMap<u32, BTreeSet<u32>> =
        ring.iter().map(|(member, ..)| (member.id, BTreeSet::new())).collect();
    for folder in folders.difference(&done) {
        let has_it = |(_, _, facts): &&Seen<'_>| found(of, facts).is_some_and(|it| it.folders.contains_key(folder));
        let load = |(member, ..): &&Seen<'_>| parts.get(&member.id).map(BTreeSet::len);
        // Nobody takes in a second one while another member that has it before it has none.
        let Some((member, ..)) = ring.iter().filter(has_it).min_by_key(load) else {
            return Some(Progress::Waits(format!("no member has folder {folder} before it")));
        };
        parts.entry(member.id).or_default().insert(*folder);
    }
    let lacking =
        || ring.iter().filter_map(|seen| Some((seen, parts.get(&seen.0.id).filter(|part| !part.is_empty())?)));
    if let Some((_, pod, _)) =
        ring.iter().find(|(_, _, facts)| matches!(facts.doing, Some(Change::RestoreSchema { .. })))
    {
        return Some(Progress::Waits(format!("pod {} makes its keyspaces and tables", pod.name)));
    }
    lacking().next()?;
    // What is taken in by one may be left to another by the parts of now, which are made of what is not taken in yet.
    let under_way: BTreeSet<u32> = ring
        .iter()
        .filter_map(|(_, _, facts)| match &facts.doing {
            Some(Change::RestoreRows { folders, .. }) => Some(folders.iter().copied()),
            _ => None,
        })
        .flatten()
        .collect();
    for ((_, pod, facts), part) in lacking() {
        let left: BTreeSet<u32> = part.difference(&under_way).copied().collect();
        if facts.doing.is_none() && !left.is_empty() {
            let why = format!("pod {} takes in the rows of backup {} that members {left:?} held", pod.name, of.name);
            return Some(Progress::Next(procedure::ask(
                pod,
                Change::RestoreRows { of: of.clone(), folders: left },
                why,
            )));
        }
    }
    Some(Progress::Waits(busy(ring).unwrap_or_default()))
}

/// Brings each row to all members, after the last one has taken in its rows.
fn repair(ring: &[Seen<'_>]) -> Progress {
    if let Some(why) = busy(ring) {
        return Progress::Waits(why);
    }
    // By its own clock: those of others may differ.
    let last = ring.iter().filter_map(|seen| Some((seen, seen.2.restored.as_ref()?.at))).max_by_key(|(_, at)| *at);
    let Some(((_, pod, facts), at)) = last.filter(|_| ring.len() > 1) else { return Progress::Done };
    let is_repaired = |keyspace: &String| facts.repaired_at.get(keyspace).is_some_and(|repaired| *repaired >= at);
    let Some((keyspace, factor)) = facts.keyspaces.iter().find(|(keyspace, _)| !is_repaired(keyspace)) else {
        return Progress::Done;
    };
    let why = format!("pod {} brings each row of keyspace {keyspace} to all members", pod.name);
    Progress::Next(procedure::ask(
        pod,
        Change::Repair { keyspace: keyspace.clone(), factor: *factor, routine: true },
        why,
    ))
}

fn busy(ring: &[Seen<'_>]) -> Option<String> {
    ring.iter().find_map(|(_, pod, facts)| {
        let what = match facts.doing.as_ref()? {
            Change::RestoreSchema { .. } => "makes its keyspaces and tables".to_owned(),
            Change::RestoreRows { .. } => "takes in its rows".to_owned(),
            Change::Repair { keyspace, .. } => format!("repairs keyspace {keyspace}"),
            _ => "does something else".to_owned(),
        };
        Some(format!("pod {} {what}", pod.name))
    })
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use tf_agent_api::cassandra::Failed;

    use super::*;
    use crate::whole::{asked, members, observed};

    const NOW: &str = "2026-11-21T10:00:00Z";

    fn backup() -> Backup {
        Backup { namespace: "tf".into(), ring: "configdb1".into(), name: "first".into() }
    }

    /// Folders of a backup of these members.
    fn found(folders: &[u32], of: &[u32]) -> Found {
        let members: BTreeMap<u32, String> = of.iter().map(|member| (*member, format!("cp{member}"))).collect();
        let folder = Folder { resource: "u".into(), members };
        let folders = folders.iter().map(|number| (*number, folder.clone())).collect();
        Found { of: backup(), at: NOW.parse().unwrap(), folders, trouble: None }
    }

    fn restored(schema: bool, folders: &[u32]) -> Restored {
        let folders = folders.iter().copied().collect();
        Restored { of: backup(), schema, folders, at: "2026-11-21T09:00:00Z".parse().unwrap() }
    }

    fn looked(says: impl Fn(usize, &mut Facts)) -> Progress {
        let observed = observed(says);
        look(&backup(), &members(), &Reports::of_observed(&observed), observed.now)
    }

    fn next(says: impl Fn(usize, &mut Facts)) -> (usize, Change) {
        match looked(says) {
            Progress::Next(step) => asked(&step),
            other => panic!("{other:?}"),
        }
    }

    fn refused(says: impl Fn(usize, &mut Facts)) -> String {
        match looked(says) {
            Progress::Refused(why, _) => why,
            other => panic!("{other:?}"),
        }
    }

    /// Each member has the folder of its own node.
    fn own(index: usize, facts: &mut Facts) {
        facts.found = Some(found(&[index as u32 + 1], &[1, 2, 3]));
    }

    #[test]
    fn one_step_follows_the_other_up_to_the_repair() {
        assert!(matches!(next(|_, _| {}), (0, Change::Look { .. })));
        assert!(matches!(
            next(|index, facts| if index != 2 {
                own(index, facts);
            }),
            (2, Change::Look { .. })
        ));
        assert!(matches!(next(own), (0, Change::RestoreSchema { folder: 1, factor: 3, .. })));
        let made = |index: usize, facts: &mut Facts| {
            own(index, facts);
            facts.keyspaces.insert("lab".into(), 3);
            facts.restored = (index == 0).then(|| restored(true, &[]));
        };
        let rows = |folder: u32| Change::RestoreRows { of: backup(), folders: [folder].into() };
        assert_eq!(next(made), (0, rows(1)));
        let begun = |index: usize, facts: &mut Facts| {
            made(index, facts);
            facts.doing = (index == 0).then(|| rows(1));
        };
        assert_eq!(next(begun), (1, rows(2)), "members take in their rows beside each other");
        let taken = |index: usize, facts: &mut Facts| {
            made(index, facts);
            facts.restored = Some(restored(index == 0, &[index as u32 + 1]));
        };
        let (_, repair) = next(taken);
        assert_eq!(repair, Change::Repair { keyspace: "lab".into(), factor: 3, routine: true });
        let repairs = |index: usize, facts: &mut Facts| {
            taken(index, facts);
            facts.doing = (index == 2).then(|| repair.clone());
        };
        assert!(matches!(looked(repairs), Progress::Waits(_)));
        let repaired = |at: &'static str| {
            move |index: usize, facts: &mut Facts| {
                taken(index, facts);
                facts.repaired_at.insert("lab".into(), at.parse().unwrap());
            }
        };
        assert!(matches!(looked(repaired("2026-11-21T08:59:00Z")), Progress::Next(_)), "what was repaired before");
        assert_eq!(looked(repaired("2026-11-21T09:01:00Z")), Progress::Done);
    }

    #[test]
    fn folders_that_all_members_see_are_taken_in_once_each() {
        let all = |index: usize, facts: &mut Facts| {
            facts.found = Some(found(&[4, 5, 6, 7], &[4, 5, 6, 7]));
            facts.restored = (index == 0).then(|| restored(true, &[4]));
        };
        let mut taken = BTreeSet::new();
        let mut doing: BTreeMap<usize, Change> = BTreeMap::new();
        while let Progress::Next(step) = looked(|index, facts| {
            all(index, facts);
            facts.doing = doing.get(&index).cloned();
        }) {
            let (index, change) = asked(&step);
            let Change::RestoreRows { folders, .. } = &change else { panic!("{change:?}") };
            assert!(folders.iter().all(|folder| taken.insert(*folder)), "{folders:?}");
            assert_eq!(doing.insert(index, change.clone()), None);
        }
        assert_eq!(taken, [5, 6, 7].into());
    }

    #[test]
    fn a_member_that_stopped_between_the_tables_goes_on() {
        let begun = |index: usize, facts: &mut Facts| {
            own(index, facts);
            facts.keyspaces.insert("lab".into(), 3);
            facts.restored = (index == 1).then(|| restored(false, &[]));
        };
        assert!(matches!(next(begun), (1, Change::RestoreSchema { folder: 2, .. })));
    }

    #[test]
    fn a_ring_with_data_of_clients_is_left_alone() {
        let why = refused(|index, facts| {
            own(index, facts);
            facts.keyspaces.insert("config_db_uuid".into(), 3);
        });
        assert!(why.contains("config_db_uuid"), "{why}");
        let other = refused(|_, facts| {
            facts.restored = Some(Restored { of: Backup { name: "b".into(), ..backup() }, ..restored(true, &[1]) });
        });
        assert!(other.contains("backup b of tf/configdb1"), "{other}");
    }

    #[test]
    fn what_is_missing_or_damaged_is_named_before_anything_is_made() {
        let missing = refused(|index, facts| {
            facts.found = Some(if index == 2 { found(&[], &[]) } else { found(&[index as u32 + 1], &[1, 2, 3]) });
        });
        assert!(missing.contains("tf/configdb1/first/3") && missing.contains("node cp3"), "{missing}");
        let nothing = refused(|_, facts| facts.found = Some(found(&[], &[])));
        assert!(nothing.contains("no member has a folder tf/configdb1/first"), "{nothing}");
        let damaged = refused(|index, facts| {
            own(index, facts);
            if index == 1 {
                facts.found.as_mut().unwrap().trouble = Some("manifest.json is damaged".into());
            }
        });
        assert!(damaged.contains("node cp2: manifest.json is damaged"), "{damaged}");
        let mixed = refused(|index, facts| {
            own(index, facts);
            if index == 1 {
                facts.found = Some(found(&[2], &[1, 2, 4]));
            }
        });
        assert!(mixed.contains("of different backups"), "{mixed}");
    }

    #[test]
    fn what_was_amiss_is_looked_for_again_after_a_minute() {
        let step = |at: &'static str| {
            let progress = looked(move |_, facts| {
                facts.found = Some(Found { at: at.parse().unwrap(), ..found(&[], &[]) });
            });
            matches!(progress, Progress::Refused(_, Some(_)))
        };
        assert!(step("2026-11-21T09:58:59Z") && !step("2026-11-21T09:59:30Z"));
    }

    #[test]
    fn a_member_that_could_not_is_told_and_tries_again_after_a_minute() {
        let failed = |at: &'static str| {
            move |index: usize, facts: &mut Facts| {
                own(index, facts);
                facts.restored = (index == 0).then(|| restored(true, &[]));
                let of = Change::RestoreRows { of: backup(), folders: [2].into() };
                let at = at.parse().unwrap();
                facts.failed = (index == 1).then(|| Failed { of, why: "x-Data.db is damaged".into(), at });
            }
        };
        assert!(refused(failed("2026-11-21T09:59:30Z")).contains("statefulset-1: x-Data.db is damaged"));
        assert!(matches!(looked(failed("2026-11-21T09:58:00Z")), Progress::Next(_)));
        let looks_again = looked(|index, facts| {
            failed("2026-11-21T09:58:00Z")(index, facts);
            facts.found =
                facts.found.take().map(|found| Found { at: "2026-11-21T09:50:00Z".parse().unwrap(), ..found });
        });
        let Progress::Next(step) = looks_again else { panic!("{looks_again:?}") };
        assert!(matches!(asked(&step), (1, Change::Look { .. })), "what it found may be gone");
    }

    #[test]
    fn nothing_is_taken_in_by_a_ring_that_is_not_whole() {
        let silent = looked(|index, facts| {
            own(index, facts);
            if index == 1 {
                facts.host_id = String::new();
            }
        });
        assert!(matches!(silent, Progress::Waits(_)), "{silent:?}");
    }
}
