//! What a ring is kept by: repairs, and files of an earlier release that are rewritten.

use std::{collections::BTreeMap, time::Duration};

use cassandra_op::plan::plan;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tf_agent_api::cassandra::{Change, Facts, Failed};
use tf_api::Cassandra;
use tf_plan::{
    observed::Observed,
    plan::Plan,
    step::{Request, Step},
};

use crate::ring::*;

fn routine() -> Change {
    Change::Repair { keyspace: "config_db_uuid".into(), factor: 3, routine: true }
}

fn failed(at: Timestamp) -> Failed {
    Failed { of: routine(), why: "nodetool: no space".into(), at }
}

/// The pod that is to repair.
fn repairs(observed: &Observed<Cassandra>) -> Option<String> {
    match planned(observed).step? {
        Step::Ask(target, Request::Ring(change)) if change == routine() => Some(target.pod),
        other => Some(format!("{other:?}")),
    }
}

#[test]
fn a_keyspace_is_repaired_in_time_by_who_has_not_done_it_for_longest() {
    let nothing = |_: usize, _: &mut Facts| {};
    let cases = [
        ([None, None, None], Some(0)),
        ([Some(1), None, None], None),
        ([Some(6), Some(40), None], None),
        ([Some(7), Some(40), Some(41)], Some(2)),
        ([Some(7), None, Some(41)], Some(1)),
        // A clock that is years ahead.
        ([Some(-4000), Some(41), Some(42)], Some(0)),
    ];
    for (days, who) in cases {
        let who = who.map(|index: usize| format!("{SET}-{index}"));
        assert_eq!(repairs(&repaired(days, nothing)), who, "{days:?}");
    }
}

#[test]
fn nothing_is_repaired_where_it_would_do_no_good_or_somebody_else_does_it() {
    let never = [None; 3];
    let lately = running().now - SignedDuration::from_mins(59);
    let cases: [(&str, Said<'_>); 5] = [
        ("deletions are not remembered", &|_, facts| facts.grace.clear()),
        ("rows are not on every member", &|index, facts| {
            facts.keyspaces.insert("config_db_uuid".into(), if index == 1 { 2 } else { 3 });
            facts.repaired.insert("config_db_uuid".into(), 3);
        }),
        ("another release", &|index, facts| facts.release = format!("4.1.{index}")),
        ("it failed a moment ago", &|index, facts| facts.failed = (index == 1).then(|| failed(lately))),
        ("one is at it", &|index, facts| {
            facts.doing = (index == 1).then(routine);
        }),
    ];
    for (why, change) in cases {
        assert_eq!(repairs(&repaired(never, change)), None, "{why}");
    }
    let mut manual = resource();
    manual.spec.service_configuration.automatic_repair = Some(false);
    assert_eq!(plan(&manual, &repaired(never, |_, _| {})).unwrap().step, None);
    let mut changed = repaired(never, |_, _| {});
    changed.agents.extend(running().agents.into_iter().filter(|(pod, _)| pod == "pod-0"));
    says(&mut changed, 2).cassandra.as_mut().unwrap().doing = Some(routine());
    assert!(matches!(planned(&changed).step, Some(Step::Activate(..))), "what is not up to date does not wait for it");
}

#[test]
fn a_repair_that_did_not_succeed_is_told_and_asked_for_again_after_a_pause() {
    let of = Change::Repair { keyspace: "config_db_uuid".into(), factor: 3, routine: false };
    let failed = |seconds| {
        planned(&repaired([Some(1); 3], |index, facts| {
            let at = running().now - SignedDuration::from_secs(seconds);
            facts.joined = index == 1;
            facts.repaired = if index == 1 { BTreeMap::new() } else { [("config_db_uuid".to_owned(), 3)].into() };
            facts.failed = (index == 1).then(|| Failed { of: of.clone(), why: "no room".into(), at });
        }))
    };
    let waits = failed(119);
    assert_eq!(waits.step, None);
    let told = waits.under_way.unwrap_or_default();
    assert!(told.contains("tried again two minutes later: no room"), "{told}");
    assert_eq!(waits.again, Some(Duration::from_secs(1)));
    let asks = failed(120).step;
    assert!(
        matches!(&asks, Some(Step::Ask(target, Request::Ring(change))) if target.uid == "pod-1" && *change == of),
        "{asks:?}"
    );
}

#[test]
fn a_change_that_failed_and_is_over_keeps_nobody_from_repairing() {
    let of = Change::Repair { keyspace: "config_db_uuid".into(), factor: 3, routine: false };
    let at = running().now - SignedDuration::from_hours(40);
    let observed = repaired([None; 3], |index, facts| {
        facts.failed = (index == 1).then(|| Failed { of: of.clone(), why: "no room".into(), at });
    });
    assert_eq!(repairs(&observed), Some(format!("{SET}-0")));
}

#[test]
fn nothing_is_begun_in_the_moment_in_which_a_member_is_about_to_leave() {
    let mut fewer = resource();
    fewer.spec.common_configuration.replicas = Some(2);
    let observed = repaired([None; 3], |_, facts| {
        facts.keyspaces.insert("config_db_uuid".into(), 2);
        facts.repaired.insert("config_db_uuid".into(), 2);
        facts.placed.clear();
    });
    fewer.metadata.annotations = Some([(tf_api::names::ANNOTATION_BACKUP.to_owned(), "b1".to_owned())].into());
    let volume = serde_json::from_value(serde_json::json!({"hostPath": {"path": "/backups"}})).unwrap();
    fewer.spec.service_configuration.backup = Some(volume);
    let marks = plan(&fewer, &observed).unwrap();
    assert_eq!(marks.own_status["leaving"], serde_json::json!([3]));
    assert_eq!(marks.step, None);
}

/// What is to be done with files of an earlier release, of which each server has so many.
fn upgraded(older: [usize; 3], change: impl Fn(usize, &mut Facts)) -> Plan {
    planned(&repaired([None; 3], |index, facts| {
        facts.older = older[index];
        change(index, facts);
    }))
}

fn asks_to_upgrade(plan: &Plan) -> Option<String> {
    match plan.step.as_ref()? {
        Step::Ask(target, Request::Ring(Change::UpgradeSstables)) => Some(target.pod.clone()),
        _ => None,
    }
}

#[test]
fn files_of_an_earlier_release_are_rewritten_one_member_after_the_other_and_before_any_repair() {
    let nothing = |_: usize, _: &mut Facts| {};
    for (older, who) in [([7, 5, 3], Some(0)), ([0, 5, 3], Some(1)), ([0, 0, 3], Some(2)), ([0; 3], None)] {
        let plan = upgraded(older, nothing);
        assert_eq!(asks_to_upgrade(&plan), who.map(|index: usize| format!("{SET}-{index}")), "{older:?}");
        assert!(plan.under_way.is_none() && plan.troubles.is_empty(), "it serves: {plan:?}");
    }
    let others: [(&str, Said<'_>); 2] = [
        ("another line", &|index, facts| facts.release = format!("4.{index}.0")),
        ("one is at it", &|index, facts| facts.doing = (index == 1).then_some(Change::UpgradeSstables)),
    ];
    for (why, change) in others {
        assert_eq!(upgraded([0, 5, 3], change).step, None, "{why}");
    }
    let patched = upgraded([0, 5, 3], |index, facts| facts.release = format!("4.1.{index}"));
    assert_eq!(asks_to_upgrade(&patched), Some(format!("{SET}-1")), "their files are alike");
}

#[test]
fn who_cannot_rewrite_files_is_told_with_the_cause_and_nothing_is_repaired_meanwhile() {
    let lately = running().now - SignedDuration::from_mins(59);
    let failed = |at| {
        move |index: usize, facts: &mut Facts| {
            let of = Change::UpgradeSstables;
            facts.failed = (index == 1).then(|| Failed { of, why: "nodetool: no space".into(), at });
        }
    };
    let plan = upgraded([0, 5, 0], failed(lately));
    assert_eq!(plan.step, None);
    assert!(plan.notes.iter().any(|note| note.contains("5 files") && note.contains("no space")), "{plan:?}");
    assert_eq!(asks_to_upgrade(&upgraded([0, 5, 3], failed(lately))), Some(format!("{SET}-2")));
    let earlier = running().now - SignedDuration::from_mins(61);
    assert_eq!(asks_to_upgrade(&upgraded([0, 5, 0], failed(earlier))), Some(format!("{SET}-1")));
}

#[test]
fn a_keyspace_that_somebody_placed_by_data_centre_is_told_and_keeps_its_members() {
    let placed = |factor: u32| {
        repaired([Some(1); 3], move |_, facts| facts.placed = BTreeMap::from([("theirs".to_owned(), factor)]))
    };
    let mut fewer = resource();
    fewer.spec.common_configuration.replicas = Some(2);
    let held = plan(&fewer, &placed(3)).unwrap();
    assert_eq!(held.step, None);
    assert!(held.under_way.as_deref().is_some_and(|why| why.contains("theirs is to be on 3 members")), "{held:?}");
    assert!(held.notes.iter().any(|note| note.contains("theirs")), "{:?}", held.notes);
    let free = plan(&fewer, &placed(2)).unwrap();
    assert!(matches!(free.step, Some(Step::Ask(_, Request::Ring(_)))), "{:?}", free.step);
}

#[test]
fn nobody_joins_before_files_of_an_earlier_release_are_rewritten() {
    let mut more = resource();
    more.spec.common_configuration.replicas = Some(2);
    let mut observed = repaired([None; 3], |index, facts| facts.older = usize::from(index == 2));
    let held = plan(&more, &observed).unwrap();
    assert_eq!(asks_to_upgrade(&held), Some(format!("{SET}-2")));
    assert!(held.under_way.as_deref().is_some_and(|why| why.contains("1 files of pod")), "{held:?}");
    says(&mut observed, 2).cassandra.as_mut().unwrap().older = 0;
    assert_eq!(asks_to_upgrade(&plan(&more, &observed).unwrap()), None);
}

#[test]
fn a_ring_that_was_not_repaired_for_too_long_is_told_with_the_cause() {
    let why = |_: usize, facts: &mut Facts| facts.failed = Some(failed(running().now));
    let late = planned(&repaired([Some(11), Some(12), None], why));
    assert!(late.notes.iter().any(|note| note.contains("config_db_uuid") && note.contains("no space")), "{late:?}");
    assert!(late.under_way.is_none() && late.troubles.is_empty(), "it serves");
    let since = planned(&repaired([Some(2), Some(3), None], why)).own_status.remove("repairedSince");
    assert_eq!(since, Some(json!("2026-11-19T10:00:00Z")));
    assert_eq!(late.own_status["repairBy"], json!("2026-11-20T10:00:00Z"));
    let mut blind = settled();
    blind.agents.clear();
    let mut known = resource();
    known.status.as_mut().unwrap().own.repaired_since = serde_json::from_value(since.clone().unwrap()).unwrap();
    assert_eq!(plan(&known, &blind).unwrap().own_status.remove("repairedSince"), since);
    let unknown = planned(&repaired([Some(2), None, None], |_, facts| facts.grace.clear())).own_status;
    assert!(!unknown.contains_key("repairBy") && !unknown.contains_key("repairedSince"), "{unknown:?}");
}
