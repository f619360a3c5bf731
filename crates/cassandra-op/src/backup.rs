//! Backups, one at a time, each under the name that the annotation gives.
//!
//! Clients write with a quorum, so what was acknowledged is with a majority of the members, whichever they are. A backup is complete when every
//! member has written what it holds: what was acknowledged before it was asked for is with at least one of them (ADR 0032). It needs no repair before, and no
//! member waits for another one.
//!
//! What members have written they say themselves. The status keeps since when and of which members a backup is, and what became of it.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaimVolumeSource, Volume},
    apimachinery::pkg::apis::meta::v1::Time,
};
use serde_json::json;
use tf_agent_api::cassandra::{
    Change, Facts,
    backup::{self, Backup, Saved},
};
use tf_api::{
    BackupState, BackupStatus, BackupVolume, Cassandra, CassandraConfiguration, Managed as _,
    contract::{MemberStatus, Reason},
    names::ANNOTATION_BACKUP,
};
use tf_plan::{
    build::storage::host_path,
    not_ready::NotReady,
    observed::{Observed, Pod},
    plan::{News, Plan},
    reports::Reports,
    status::whole_seconds,
    step::Step,
};

use crate::procedure;

/// Field of the status.
pub const FIELD: &str = "backups";
const VOLUME: &str = "backup";
/// Backups that the status lists.
const LISTED: usize = 10;
/// Until a backup is tried again that did not succeed.
const AGAIN: SignedDuration = SignedDuration::from_hours(1);

/// What there is to do and to tell.
#[derive(Clone, Debug, Default, PartialEq)]
struct Kept {
    /// Backups for the status, the newest first.
    list: Vec<BackupStatus>,
    /// Has a member write what it holds.
    step: Option<Step>,
    /// What has changed since the status was written.
    news: Option<News>,
    /// What a person should know.
    note: Option<String>,
}

/// The volume for backups, where there is one.
///
/// # Errors
/// `InvalidSpec` when it cannot be told which one.
pub fn volume(spec: &CassandraConfiguration) -> Result<Option<Volume>, NotReady> {
    let invalid = || {
        NotReady::invalid(
            Reason::InvalidSpec,
            "serviceConfiguration.backup has to name one volume: set hostPath.path or persistentVolumeClaim.claimName",
        )
    };
    let Some(BackupVolume { host_path: directory, persistent_volume_claim: claim }) = spec.backup.clone() else {
        return Ok(None);
    };
    match (directory.map(|directory| directory.path), claim) {
        (Some(Some(path)), None) if path.len() > 1 => Ok(Some(host_path(VOLUME, &path))),
        (None, Some(claim)) if !claim.claim_name.is_empty() => Ok(Some(Volume {
            name: VOLUME.into(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim.claim_name,
                ..PersistentVolumeClaimVolumeSource::default()
            }),
            ..Volume::default()
        })),
        _ => Err(invalid()),
    }
}

/// Says which backups there are. Gives back what is to be done for the next one, in a ring of which enough is known.
pub fn keep(plan: &mut Plan, cr: &Cassandra, observed: &Observed<Cassandra>, is_known: bool) -> Option<Step> {
    let kept = if is_known {
        look(cr, &plan.members, &Reports::of_observed(observed), observed.now)
    } else {
        Kept { list: known(cr), ..Kept::default() }
    };
    if !kept.list.is_empty() {
        plan.own_status.insert(FIELD.to_owned(), json!(kept.list));
    }
    plan.notes.extend(kept.note);
    plan.news.extend(kept.news);
    kept.step
}

/// The backups that were, for a ring about which nothing can be said now.
fn known(cr: &Cassandra) -> Vec<BackupStatus> {
    cr.status.as_ref().map(|status| status.own.backups.clone()).unwrap_or_default()
}

/// Looks at the backup that the annotation names.
fn look(cr: &Cassandra, members: &[MemberStatus], reports: &Reports<'_>, now: Timestamp) -> Kept {
    let mut kept = Kept { list: known(cr), ..Kept::default() };
    let wish = cr.metadata.annotations.as_ref().and_then(|annotations| annotations.get(ANNOTATION_BACKUP));
    let Some(name) = wish else { return kept };
    let note = |why: &str| Some(format!("annotation {ANNOTATION_BACKUP}: {why}"));
    if !backup::is_backup(name) {
        kept.note = note(
            "no backup can be called so; begin with a letter or digit and use these, '-', '_' and '.' alone, 63 at most",
        );
        return kept;
    }
    if cr.spec.service_configuration.backup.is_none() {
        kept.note = note("there is no volume for backups; name one in serviceConfiguration.backup");
        return kept;
    }
    let before = kept.list.iter().find(|it| it.name == *name).cloned();
    let ids: Vec<u32> = members.iter().map(|member| member.id).collect();
    let started = || Some(Time(whole_seconds(now)));
    let backup = before.clone().unwrap_or_else(|| BackupStatus {
        name: name.clone(),
        started: started(),
        members: ids,
        ..BackupStatus::default()
    });
    if backup.state == BackupState::Complete {
        return kept;
    }
    let (backup, step) = proceed(cr, backup, members, reports, now);
    kept.news = news(before.as_ref(), &backup);
    kept.note = (backup.state == BackupState::Failed)
        .then(|| format!("backup {name} failed: {}", backup.message.as_deref().unwrap_or_default()));
    kept.step = step;
    kept.list.retain(|it| it.name != *name);
    kept.list.insert(0, backup);
    kept.list.truncate(LISTED);
    kept
}

/// How far a backup is that is not complete, and what to do about it.
fn proceed(
    cr: &Cassandra,
    backup: BackupStatus,
    members: &[MemberStatus],
    reports: &Reports<'_>,
    now: Timestamp,
) -> (BackupStatus, Option<Step>) {
    let is = |state, message: String| BackupStatus { state, message: Some(message), ..backup.clone() };
    let ids: Vec<u32> = members.iter().map(|member| member.id).collect();
    if ids != backup.members {
        let why = "members came or went meanwhile; have one made under another name";
        return (is(BackupState::Failed, why.to_owned()), None);
    }
    let ring = match procedure::whole(members, reports) {
        Ok(ring) => ring,
        Err(why) => return (is(backup.state, format!("waits: {why}")), None),
    };
    let uid = cr.metadata.uid.as_deref().unwrap_or_default();
    let saved: Vec<Option<&Saved>> = ring.iter().map(|(_, _, facts)| saved(facts, &backup.name, uid)).collect();
    if saved.iter().all(Option::is_some) {
        let bytes = saved.iter().flatten().fold(0, |sum: u64, saved| sum.saturating_add(saved.bytes));
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let completed = Some(Time(whole_seconds(now)));
        let complete =
            BackupStatus { state: BackupState::Complete, completed, bytes: Some(bytes), message: None, ..backup };
        return (complete, None);
    }
    if let Some((pod, why)) = ring.iter().find_map(|(_, pod, facts)| Some((pod, failed(facts, &backup.name, now)?))) {
        return (is(BackupState::Failed, format!("pod {}: {why}; tried again after an hour", pod.name)), None);
    }
    // Whoever does something else is asked later.
    let idle = ring.iter().zip(saved).find(|((_, _, facts), saved)| saved.is_none() && facts.doing.is_none());
    let step = idle.map(|((member, pod, _), _)| ask(cr, &backup.name, member, pod, members));
    (BackupStatus { state: BackupState::Running, message: None, ..backup }, step)
}

fn ask(cr: &Cassandra, name: &str, member: &MemberStatus, pod: &Pod, members: &[MemberStatus]) -> Step {
    let change = Change::Backup {
        of: Backup { namespace: cr.home().to_owned(), ring: cr.title().to_owned(), name: name.to_owned() },
        resource: cr.metadata.uid.clone().unwrap_or_default(),
        member: member.id,
        members: members.iter().map(|member| (member.id, member.node.clone())).collect(),
    };
    let why = format!("pod {} writes what member {} holds to backup {name}", pod.name, member.id);
    procedure::ask(pod, change, why)
}

/// The folder that a member has written for this very resource.
fn saved<'a>(facts: &'a Facts, name: &str, uid: &str) -> Option<&'a Saved> {
    facts.backups.get(name).filter(|saved| saved.resource == uid)
}

/// Why a member could not, a short while ago.
fn failed<'a>(facts: &'a Facts, name: &str, now: Timestamp) -> Option<&'a str> {
    let failed = facts.failed.as_ref()?;
    let is_this = matches!(&failed.of, Change::Backup { of, .. } if of.name == name);
    (is_this && now.duration_since(failed.at) < AGAIN).then_some(failed.why.as_str())
}

fn news(before: Option<&BackupStatus>, now: &BackupStatus) -> Option<News> {
    let is_new = before.is_none_or(|before| before.state != now.state);
    let BackupStatus { name, members, bytes, .. } = now;
    match now.state {
        BackupState::Complete if is_new => Some(News {
            is_bad: false,
            reason: "BackupCompleted",
            note: format!(
                "backup {name} of {} members is complete: {} bytes",
                members.len(),
                bytes.unwrap_or_default()
            ),
        }),
        BackupState::Failed if is_new => Some(News {
            is_bad: true,
            reason: "BackupFailed",
            note: format!("backup {name}: {}", now.message.as_deref().unwrap_or_default()),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tf_agent_api::cassandra::Failed;

    use super::*;
    use crate::whole::{asked, members, observed};

    fn resource(name: Option<&str>, volume: bool, list: &[BackupStatus]) -> Cassandra {
        let volume = volume.then(|| json!({"hostPath": {"path": "/backups"}}));
        let annotations = name.map(|name| json!({ANNOTATION_BACKUP: name}));
        serde_json::from_value(json!({
            "apiVersion": "tf.tungsten.io/v1alpha1",
            "kind": "Cassandra",
            "metadata": {"name": "configdb1", "namespace": "tf", "uid": "u", "annotations": annotations},
            "spec": {"serviceConfiguration": {"backup": volume}},
            "status": {"contract": "v1", "backups": list},
        }))
        .unwrap()
    }

    fn looked(cr: &Cassandra, says: impl Fn(usize, &mut Facts)) -> Kept {
        let observed = observed(says);
        look(cr, &members(), &Reports::of_observed(&observed), observed.now)
    }

    fn saved(facts: &mut Facts, resource: &str) {
        let at = "2026-11-21T09:00:00Z".parse().unwrap();
        facts.backups.insert("first".into(), Saved { resource: resource.into(), at, bytes: 7 });
    }

    fn change() -> Change {
        let of = Backup { namespace: "tf".into(), ring: "configdb1".into(), name: "first".into() };
        Change::Backup { of, resource: "u".into(), member: 1, members: Vec::new() }
    }

    #[test]
    fn members_write_beside_each_other_and_the_backup_is_complete_with_the_last_one() {
        let first = looked(&resource(Some("first"), true, &[]), |_, _| {});
        let (index, Change::Backup { of, resource: uid, member, members }) = asked(first.step.as_ref().unwrap()) else {
            panic!("{first:?}")
        };
        assert_eq!((index, of.directory().as_deref(), member), (0, Some("tf/configdb1/first"), 1));
        assert_eq!((uid.as_str(), members.len()), ("u", 3));
        let cr = resource(Some("first"), true, &first.list);
        assert_eq!(first.list[0].members, [1, 2, 3]);
        let second = looked(&cr, |index, facts| facts.doing = (index == 0).then(change));
        assert_eq!(asked(second.step.as_ref().unwrap()).0, 1);
        let all_at_it = looked(&cr, |_, facts| facts.doing = Some(change()));
        assert_eq!((all_at_it.step, all_at_it.news, all_at_it.list), (None, None, first.list));
        let done = looked(&cr, |_, facts| saved(facts, "u"));
        let list = &done.list[0];
        assert_eq!((list.state, list.bytes, done.step.is_none()), (BackupState::Complete, Some(21), true));
        assert_eq!(done.news.unwrap().reason, "BackupCompleted");
        let after = looked(&resource(Some("first"), true, &done.list), |_, _| {});
        assert_eq!((after.list, after.step, after.news), (done.list, None, None), "it is never made again");
    }

    #[test]
    fn a_folder_of_a_former_resource_of_the_same_name_is_none() {
        let kept = looked(&resource(Some("first"), true, &[]), |_, facts| saved(facts, "another"));
        assert_eq!((kept.list[0].state, kept.step.is_some()), (BackupState::Running, true));
    }

    #[test]
    fn what_did_not_succeed_is_told_and_tried_again_after_an_hour() {
        let running = looked(&resource(Some("first"), true, &[]), |_, _| {}).list;
        let cr = resource(Some("first"), true, &running);
        let failed = |at: &str| {
            let at = at.parse().unwrap();
            looked(&cr, move |index, facts| {
                facts.failed = (index == 1).then(|| Failed { of: change(), why: "no room".into(), at });
            })
        };
        let lately = failed("2026-11-21T09:01:00Z");
        assert_eq!((lately.list[0].state, &lately.step), (BackupState::Failed, &None));
        assert!(lately.note.unwrap().contains("statefulset-1: no room") && lately.news.unwrap().is_bad);
        let later = failed("2026-11-21T08:59:00Z");
        assert_eq!((later.list[0].state, later.step.is_some(), later.note), (BackupState::Running, true, None));
    }

    #[test]
    fn a_ring_that_is_not_whole_waits_and_one_with_other_members_begins_under_another_name() {
        let cr = resource(Some("first"), true, &[]);
        let parted = looked(&cr, |index, facts| facts.schema = format!("{index}"));
        assert!(parted.step.is_none() && parted.list[0].message.as_ref().unwrap().contains("versions of the schema"));
        let others = BackupStatus { name: "first".into(), members: vec![1, 2], ..BackupStatus::default() };
        let other = looked(&resource(Some("first"), true, &[others]), |_, _| {});
        assert_eq!((other.list[0].state, other.step.is_none()), (BackupState::Failed, true));
    }

    #[test]
    fn a_wish_that_cannot_be_is_told_and_the_list_is_short() {
        assert!(looked(&resource(Some("../x"), true, &[]), |_, _| {}).note.unwrap().contains("can be called so"));
        assert!(looked(&resource(Some("x"), false, &[]), |_, _| {}).note.unwrap().contains("no volume"));
        let many: Vec<_> =
            (0..12).map(|it| BackupStatus { name: format!("b{it}"), ..BackupStatus::default() }).collect();
        let kept = looked(&resource(Some("first"), true, &many), |_, _| {});
        assert_eq!((kept.list.len(), kept.list[0].name.as_str()), (LISTED, "first"));
        assert_eq!(looked(&resource(None, true, &many), |_, _| {}).step, None);
    }
}
