//! Which member takes a change now, and what that waits for.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its input fails")]

use std::{cell::RefCell, collections::BTreeMap, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use cassandra_op::login;
use cassandra_op::plan::{KEYSTORE_PASSWORD, TRUSTSTORE_PASSWORD, passwords_name, plan};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};
use tf_api::{
    Authentication, Cassandra,
    contract::{ConditionStatus, ConditionType, Reason},
};
use tf_pki::authority::{Authority, Curve};
use tf_plan::{
    former,
    node::{
        cassandra::{Change, Facts, Failed, Peer},
        state::{self, Status},
    },
    observed::{Agent, Former, Node, Observed, Pod, Source},
    plan::Plan,
    step::{Request, Step},
};
use tf_testing::three::{self, THREE};

const SET: &str = "configdb1-cassandra-statefulset";

fn heard() -> Peer {
    Peer { state: Some("NORMAL".into()), heard: Some(true), host_id: None }
}

/// A server of a ring that lacks nothing.
fn facts(index: usize) -> Facts {
    let peers = THREE.iter().filter(|(node, _)| *node != THREE[index].0);
    Facts {
        host_id: format!("host-{index}"),
        release: "5.0.9".into(),
        schema: "schema".into(),
        peers: peers.map(|(_, address)| (address.parse().unwrap(), heard())).collect(),
        ..Facts::default()
    }
}

fn agent(index: usize, facts: Option<Facts>) -> Agent {
    Agent::Says(Box::new(Status { cassandra: facts, ..three::status(SET, "cassandra", index) }))
}

fn resource() -> Cassandra {
    serde_json::from_value(json!({
        "apiVersion": "tf.tungsten.io/v1alpha1",
        "kind": "Cassandra",
        "metadata": {"name": "configdb1", "namespace": "tf", "uid": "u", "generation": 1},
        "spec": {},
        "status": {"contract": "v1", "initialized": true, "members": three::recorded()},
    }))
    .unwrap()
}

/// Three members, each of whom runs with an old configuration.
fn running() -> Observed<Cassandra> {
    let node = |(name, address): &(&str, &str)| Node {
        name: (*name).to_owned(),
        address: Some((*address).to_owned()),
        labels: BTreeMap::from([("node-role.kubernetes.io/control-plane".to_owned(), String::new())]),
        unreachable: false,
    };
    let password = |key: &str| (key.to_owned(), "secret".to_owned());
    let observed = Observed {
        nodes: Source::Known(THREE.iter().map(node).collect()),
        secrets: BTreeMap::from([(
            passwords_name(&resource()),
            [password(KEYSTORE_PASSWORD), password(TRUSTSTORE_PASSWORD)].into_iter().collect(),
        )]),
        now: "2026-11-21T10:00:00Z".parse().unwrap(),
        ..Observed::default()
    };
    three::of(observed, SET, |index| agent(index, Some(facts(index))))
}

fn planned(observed: &Observed<Cassandra>) -> Plan {
    plan(&resource(), observed).unwrap()
}

/// The plan when the second server says this of its ring.
fn said(change: impl FnOnce(&mut Facts)) -> Plan {
    let mut observed = running();
    let mut facts = facts(1);
    change(&mut facts);
    observed.agents.insert("pod-1".into(), agent(1, Some(facts)));
    planned(&observed)
}

/// The plan when the second server says this of the first one.
fn sees(state: Option<&str>, heard: Option<bool>) -> Plan {
    said(|facts| {
        let peer = Peer { state: state.map(str::to_owned), heard, host_id: None };
        facts.peers.insert(THREE[0].1.parse().unwrap(), peer);
    })
}

#[test]
fn where_nothing_is_missing_the_highest_member_takes_the_change() {
    let plan = planned(&running());
    assert!(matches!(&plan.step, Some(Step::Activate(target, _)) if target.pod == format!("{SET}-2")), "{plan:?}");
    assert!(plan.troubles.is_empty());
}

#[test]
fn who_leaves_hands_over_when_every_other_one_has_its_configuration() {
    let mut resource = resource();
    resource.spec.common_configuration.replicas = Some(2);
    let own = &mut resource.status.as_mut().unwrap().own;
    (own.highest_id, own.leaving) = (Some(3), vec![3]);
    let mut observed = running();
    let mut changed = 0;
    loop {
        match plan(&resource, &observed).unwrap().step {
            Some(Step::Activate(target, content)) => {
                let Some(Agent::Says(status)) = observed.agents.get_mut(&target.uid) else { panic!("{target:?}") };
                status.daemons.get_mut("cassandra").unwrap().active = Some(content);
                changed += 1;
            }
            step => {
                let is_handed_over = matches!(&step, Some(Step::Ask(target, Request::Ring(Change::Decommission))) if target.uid == "pod-2");
                assert!(is_handed_over, "{step:?}");
                break;
            }
        }
    }
    assert_eq!(changed, 3);
}

#[test]
fn a_pod_that_waits_for_a_node_of_former_members_is_made_anew_and_no_other_that_waits() {
    let waiting = |of: &str| {
        let mut observed = running();
        let set = observed.workloads.get_mut(SET).unwrap();
        (set.current, set.revision) = (true, Some("new".into()));
        let Source::Known(pods) = &mut observed.pods else { panic!("no pods") };
        let template = planned(&running()).workload().1.to_owned();
        for pod in pods.iter_mut() {
            pod.template = Some(template.clone());
        }
        pods[1] = Pod { node: None, ready: false, certificate: None, revision: Some(of.into()), ..pods[1].clone() };
        observed.agents.remove("pod-1");
        planned(&observed).step
    };
    assert!(matches!(waiting("old"), Some(Step::Restart(target)) if target.pod == format!("{SET}-1")));
    assert_eq!(waiting("new"), None);
}

/// What the agent of a pod says.
fn says(observed: &mut Observed<Cassandra>, index: usize) -> &mut Status {
    let agent = observed.agents.get_mut(&format!("pod-{index}"));
    agent.and_then(|agent| if let Agent::Says(status) = agent { Some(status.as_mut()) } else { None }).unwrap()
}

/// Three members, each of whom runs with what it was founded with.
fn settled() -> Observed<Cassandra> {
    let mut founded = resource();
    founded.status.as_mut().unwrap().contract.initialized = Some(false);
    let mut observed = running();
    for index in (0..3).rev() {
        let plan = plan(&founded, &observed).unwrap();
        let activated = match plan.step {
            Some(Step::Activate(target, hash)) => Some((target.pod, hash)),
            _ => None,
        };
        let (pod, hash) = activated.unwrap();
        assert_eq!(pod, format!("{SET}-{index}"));
        says(&mut observed, index).daemons.get_mut("cassandra").unwrap().active = Some(hash);
    }
    observed
}

#[test]
fn what_a_ring_was_founded_with_is_no_reason_for_a_change_when_it_is_brought_up() {
    let plan = planned(&settled());
    assert_eq!((plan.step, plan.under_way), (None, None));
}

#[test]
fn a_founder_whose_disk_was_emptied_takes_the_files_with_which_it_joins_before_it_is_taken_out_of_the_ring() {
    let unheard = |change: &dyn Fn(&mut Facts)| {
        let mut observed = settled();
        for (index, peer) in [(0, 1), (2, 1)] {
            let peers = &mut says(&mut observed, index).cassandra.as_mut().unwrap().peers;
            peers.insert(THREE[peer].1.parse().unwrap(), Peer { heard: Some(false), ..heard() });
        }
        let status = says(&mut observed, 1);
        status.daemons.get_mut("cassandra").unwrap().phase = state::Phase::BackOff;
        let mut facts = Facts { founds: true, ..Facts::default() };
        change(&mut facts);
        status.cassandra = Some(facts);
        if let Source::Known(pods) = &mut observed.pods {
            pods[1].ready = false;
        }
        planned(&observed)
    };
    let empty = unheard(&|_| {});
    assert!(matches!(&empty.step, Some(Step::Activate(target, _)) if target.uid == "pod-1"), "{empty:?}");
    assert_eq!(empty.own_status.get("leaving"), None);
    let full = unheard(&|facts| facts.has_served = true);
    assert_eq!((full.step, full.own_status.get("leaving")), (None, None), "it has its data");
    let new = unheard(&|facts| facts.founds = false);
    assert_eq!(new.own_status.get("leaving"), Some(&json!([2])));
}

#[test]
fn a_ring_of_more_members_than_do_any_good_is_refused() {
    let asked = |replicas| {
        let mut resource = resource();
        resource.spec.common_configuration.replicas = Some(replicas);
        plan(&resource, &settled()).map_err(|refused| refused.message)
    };
    assert!(asked(7).is_ok());
    let why = asked(8).unwrap_err();
    assert!(why.contains("replicas is 8") && why.contains("state 7 or less"), "{why}");
}

#[test]
fn a_majority_without_data_is_left_as_it_is_and_told_what_to_bring_back() {
    let without = |lost: &[usize]| {
        let mut observed = settled();
        for index in 0..3 {
            let facts = says(&mut observed, index).cassandra.as_mut().unwrap();
            for other in lost.iter().filter(|other| **other != index) {
                facts.peers.insert(THREE[*other].1.parse().unwrap(), Peer { heard: Some(false), ..heard() });
            }
        }
        for index in lost {
            let status = says(&mut observed, *index);
            status.daemons.get_mut("cassandra").unwrap().phase = state::Phase::BackOff;
            status.cassandra = Some(Facts::default());
            if let Source::Known(pods) = &mut observed.pods {
                pods[*index].ready = false;
            }
        }
        planned(&observed)
    };
    assert_eq!(without(&[1]).own_status.get("leaving"), Some(&json!([2])));
    let held = without(&[1, 2]);
    assert_eq!((held.own_status.get("leaving"), held.step), (None, None));
    let told = held.under_way.unwrap_or_default();
    assert!(told.contains("only 1 of 3 members serve") && told.contains("bring back nodes or disks of"), "{told}");
}

#[test]
fn a_member_that_cannot_join_is_taken_back_and_one_that_may_be_joining_is_waited_for() {
    let mut fewer = resource();
    fewer.spec.common_configuration.replicas = Some(2);
    let lowered = |phase| {
        let mut observed = settled();
        for index in 0..2 {
            let facts = says(&mut observed, index).cassandra.as_mut().unwrap();
            facts.peers.remove(&THREE[2].1.parse().unwrap());
            facts.keyspaces.insert("config_db_uuid".into(), 2);
        }
        let status = says(&mut observed, 2);
        status.daemons.get_mut("cassandra").unwrap().phase = phase;
        status.cassandra = Some(Facts::default());
        if let Source::Known(pods) = &mut observed.pods {
            pods[2].ready = false;
        }
        plan(&fewer, &observed).unwrap().own_status.get("leaving").cloned()
    };
    assert_eq!(lowered(state::Phase::BackOff), Some(json!([3])));
    assert_eq!(lowered(state::Phase::Running), None);
}

#[test]
fn a_server_that_does_not_tell_for_a_moment_is_no_change_that_goes_on() {
    let mut observed = settled();
    let unknown = Facts { unknown: Some("no answer within 1200 ms".into()), ..Facts::default() };
    says(&mut observed, 1).cassandra = Some(unknown);
    let plan = planned(&observed);
    assert_eq!((plan.step, plan.under_way), (None, None));
}

const GRACE: u32 = 864_000;

/// What changes in the words of each server.
type Said<'a> = &'a dyn Fn(usize, &mut Facts);

/// A ring in which nothing else is to be done, whose servers repaired a keyspace so many days ago, or never.
fn repaired(days: [Option<i64>; 3], change: impl Fn(usize, &mut Facts)) -> Observed<Cassandra> {
    let mut observed = settled();
    for (index, days) in days.into_iter().enumerate() {
        let now = observed.now;
        let facts = says(&mut observed, index).cassandra.as_mut().unwrap();
        facts.keyspaces.insert("config_db_uuid".into(), 3);
        facts.grace.insert("config_db_uuid".into(), GRACE);
        let at = days.map(|days| now - SignedDuration::from_hours(24 * days));
        facts.repaired_at.extend(at.map(|at| ("config_db_uuid".to_owned(), at)));
        change(index, facts);
    }
    observed
}

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
        ("another release", &|index, facts| facts.release = format!("4.1.{index}")),
        ("one is at it", &|index, facts| facts.doing = (index == 1).then_some(Change::UpgradeSstables)),
    ];
    for (why, change) in others {
        assert_eq!(upgraded([0, 5, 3], change).step, None, "{why}");
    }
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

/// A ring whose clients are to be asked for a password.
fn asking() -> Cassandra {
    let mut resource = resource();
    resource.spec.service_configuration.authentication = Some(Authentication::Password);
    resource
}

/// Its members when their servers say this, and none asks yet.
fn unasked(change: Said<'_>) -> Observed<Cassandra> {
    let mut observed = running();
    observed.secrets.get_mut(&passwords_name(&asking())).unwrap().insert(login::PASSWORD, "secret");
    for index in 0..THREE.len() {
        let mut facts = facts(index);
        facts.has_login = true;
        facts.keyspaces.insert("system_auth".into(), 3);
        change(index, &mut facts);
        observed.agents.insert(format!("pod-{index}"), agent(index, Some(facts)));
    }
    observed
}

#[test]
fn clients_are_asked_for_a_password_when_every_member_knows_it_and_holds_the_users() {
    let recorded = |plan: &Plan| plan.own_status.get("authentication").cloned();
    let ready = plan(&asking(), &unasked(&|_, _| {})).unwrap();
    assert_eq!(recorded(&ready), Some(json!("Password")));
    assert!(ready.record.contains(&"authentication") && ready.notes.is_empty(), "{ready:?}");
    let cases: [(Said<'_>, &str); 4] = [
        (&|index, facts| facts.has_login = index != 1, "-1 does not know it"),
        (&|_, facts| facts.keyspaces.extend([("system_auth".to_owned(), 1)]), "each member is to hold the users"),
        (&|index, facts| facts.joined = index == 2, "each member is to hold the users"),
        (&|index, facts| facts.schema = format!("schema-{index}"), "different versions of the schema"),
    ];
    for (change, why) in cases {
        let waits = plan(&asking(), &unasked(change)).unwrap();
        assert_eq!(recorded(&waits), Some(json!("None")), "{why}");
        assert!(waits.notes.iter().any(|note| note.contains(why)), "{why}: {:?}", waits.notes);
    }
}

#[test]
fn another_password_is_taken_when_every_member_can_be_told_and_stays_in_the_secret_until_then() {
    let mut resource = asking();
    resource.status.as_mut().unwrap().own.authentication = Some(Authentication::Password);
    let edited = |password: &str, change: Said<'_>| {
        let mut observed = unasked(change);
        observed.secrets.get_mut(&passwords_name(&resource)).unwrap().insert(login::PASSWORD, password);
        let told = [("login.env".to_owned(), "USER='tf'\nPASSWORD='secret'\n".to_owned())];
        observed.secrets.insert("configdb1-cassandra-secret-files".to_owned(), told.into_iter().collect());
        plan(&resource, &observed).unwrap()
    };
    let holds = |plan: &Plan, name: &str, text: &str| {
        let object = plan.objects.iter().find(|object| object.name == name).unwrap();
        serde_json::to_string(&object.body).unwrap().contains(&BASE64_STANDARD.encode(text))
    };
    let (files, connection, own) =
        ("configdb1-cassandra-secret-files", "configdb1-cassandra-connection", "configdb1-cassandra-passwords");
    let login = |password: &str| format!("USER='tf'\nPASSWORD='{password}'\n");

    let taken = edited("another", &|_, _| {});
    assert!(taken.notes.is_empty(), "{:?}", taken.notes);
    assert!(holds(&taken, connection, "another") && holds(&taken, own, "another"));
    let cases: [(&str, Said<'_>, &str); 3] = [
        ("another", &|index, facts| facts.has_login = index != 1, "-1 does not know it"),
        ("another", &|index, facts| facts.schema = format!("schema-{index}"), "different versions of the schema"),
        ("an other", &|_, _| {}, "has to be 1 to 72 ASCII letters"),
    ];
    for (password, change, why) in cases {
        let waits = edited(password, change);
        let is_told = |note: &String| note.starts_with("clients go on with the former password") && note.contains(why);
        assert!(waits.notes.iter().any(is_told), "{why}: {:?}", waits.notes);
        assert!(holds(&waits, connection, "secret") && holds(&waits, own, password), "{why}");
        assert!(holds(&waits, files, &login("secret")), "{why}");
    }
    assert!(holds(&taken, files, &login("another")));
}

#[test]
fn who_is_no_longer_asked_goes_on_to_be_given_a_password() {
    let mut resource = asking();
    resource.status.as_mut().unwrap().own.authentication = Some(Authentication::Password);
    for (wanted, recorded) in [(None, "Password"), (Some(Authentication::None), "None")] {
        resource.spec.service_configuration.authentication = wanted;
        let plan = plan(&resource, &unasked(&|_, _| {})).unwrap();
        assert_eq!(plan.own_status.get("authentication"), Some(&json!(recorded)));
        let is_given = plan.objects.iter().any(|object| object.name == "configdb1-cassandra-connection");
        assert!(is_given, "{wanted:?}");
    }
}

#[test]
fn a_member_that_serves_is_not_touched_while_a_server_sees_something_else_than_a_whole_ring() {
    let stranger = |facts: &mut Facts| {
        facts.peers.insert("10.0.0.9".parse().unwrap(), Peer { heard: Some(false), ..heard() });
    };
    let untold = |facts: &mut Facts| {
        facts.peers.values_mut().for_each(|peer| *peer = Peer::default());
        facts.unheard = Some("nodetool: no such file".into());
    };
    let cases: [(Plan, &str); 9] = [
        (said(untold), "-1 does not tell yet what it hears of the others: nodetool: no such file"),
        (sees(None, None), "10.0.0.1 is not in the ring yet"),
        (sees(Some("NORMAL"), Some(false)), "-1 does not hear 10.0.0.1"),
        (sees(Some("NORMAL"), None), "-1 has not heard 10.0.0.1 for long enough yet"),
        (sees(Some("LEAVING"), Some(true)), "10.0.0.1 is in the state LEAVING"),
        (sees(Some(""), None), "10.0.0.1 is not in the ring yet"),
        (said(|facts| facts.schema = "another".into()), "go by different versions of the schema"),
        (said(|facts| drop(facts.peers.remove(&THREE[2].1.parse().unwrap()))), "10.0.0.3 is not in the ring of pod"),
        (said(stranger), "-1 does not hear 10.0.0.9"),
    ];
    for (plan, why) in cases {
        assert_eq!(plan.step, None, "{why}");
        let told = plan.under_way.clone().unwrap_or_default();
        assert!(told.contains(why), "{told:?} lacks {why:?}");
    }
}

#[test]
fn a_ring_changes_its_release_though_versions_of_the_schema_differ_then_and_nobody_comes_or_goes_meanwhile() {
    let mixed = |change: &dyn Fn(&mut Facts)| {
        let mut observed = running();
        for index in 0..3 {
            let mut facts = facts(index);
            if index == 2 {
                (facts.release, facts.schema) = ("5.1.0".into(), "another".into());
            }
            change(&mut facts);
            observed.agents.insert(format!("pod-{index}"), agent(index, Some(facts)));
        }
        observed
    };
    assert!(planned(&mixed(&|_| {})).step.is_some(), "the next one takes the change");
    let mut resource = resource();
    resource.spec.common_configuration.replicas = Some(2);
    let own = &mut resource.status.as_mut().unwrap().own;
    (own.highest_id, own.leaving) = (Some(3), vec![3]);
    let mut observed = mixed(&|_| {});
    for index in 0..3 {
        says(&mut observed, index).daemons.get_mut("cassandra").unwrap().active = None;
    }
    let plan = plan(&resource, &observed).unwrap();
    assert!(!matches!(plan.step, Some(Step::Ask(..))), "{:?}", plan.step);
}

#[test]
fn who_stands_in_a_table_of_peers_alone_and_is_no_member_holds_nobody() {
    let forgotten = said(|facts| drop(facts.peers.insert("10.0.0.9".parse().unwrap(), Peer::default())));
    assert!(forgotten.step.is_some());
}

#[test]
fn a_server_that_says_nothing_of_its_ring_holds_the_others_and_tells_why() {
    let mut observed = running();
    let unknown = Facts { unknown: Some("the server wants a password".into()), ..Facts::default() };
    observed.agents.insert("pod-1".into(), agent(1, Some(unknown)));
    let plan = planned(&observed);
    assert_eq!(plan.step, None);
    assert!(plan.under_way.unwrap().contains("does not tell how its ring is: the server wants a password"));
}

#[test]
fn a_server_that_does_not_hear_another_one_that_runs_is_told() {
    let troubles = sees(Some("NORMAL"), Some(false)).troubles;
    let [(pod, why)] = troubles.iter().collect::<Vec<_>>()[..] else { panic!("{troubles:?}") };
    assert_eq!(
        (pod.as_str(), why.as_str()),
        ("configdb1-cassandra-statefulset-1", "its server does not hear 10.0.0.1, which runs, too")
    );
}

#[test]
fn a_member_that_does_not_serve_takes_a_change_whatever_the_others_see() {
    let mut observed = running();
    if let Source::Known(pods) = &mut observed.pods {
        pods[0].ready = false;
    }
    observed.agents.insert("pod-1".into(), agent(1, None));
    let plan = planned(&observed);
    assert!(matches!(&plan.step, Some(Step::Activate(target, _)) if target.uid == "pod-0"), "{:?}", plan.step);
}

fn peer() -> impl Strategy<Value = Peer> {
    let state = prop::sample::select(vec![None, Some("NORMAL"), Some("BOOT"), Some("LEAVING"), Some("shutdown")]);
    (state, any::<Option<bool>>()).prop_map(|(state, heard)| Peer {
        state: state.map(str::to_owned),
        heard,
        host_id: None,
    })
}

#[test]
fn a_server_that_does_not_read_its_new_certificate_is_told() {
    let mut observed = running();
    let Some(Agent::Says(status)) = observed.agents.get_mut("pod-1") else { panic!("no agent") };
    status.certificate = Some(state::Certificate {
        not_before: None,
        not_after: "2027-02-19T10:00:00Z".parse().unwrap(),
        issuer: None,
        revision: 1,
        unread: Some("the daemon does not read its certificates before it is restarted: nodetool".into()),
        unused: None,
    });
    let drafts = planned(&observed).drafts;
    let told = drafts.iter().find(|draft| draft.kind == ConditionType::CertificatesReady).unwrap();
    assert_eq!((told.status, told.reason), (ConditionStatus::False, Reason::CertificatePending));
    assert!(told.message.starts_with(&format!("{SET}-1: the daemon does not read")), "{}", told.message);
}

/// The resource as the Go tf-operator left it, with everything asked for that is not to be done before the last of its pods is replaced.
fn left() -> Cassandra {
    let mut resource = asking();
    resource.status = serde_json::from_value(json!({"active": true})).unwrap();
    resource.spec.common_configuration.replicas = Some(1);
    resource
}

/// Its pods, and the authority that they trust.
fn trusted() -> Observed<Cassandra> {
    let authority = Authority::generate("theirs", Curve::P256, Duration::from_hours(1), running().now).unwrap();
    let data = |key: &str| (key.to_owned(), authority.certificates_pem());
    let mut observed = unasked(&|_, _| {});
    observed.secrets.insert("tf-ca".into(), [data("tls.crt")].into_iter().collect());
    observed.config_maps.insert(former::AUTHORITY.into(), BTreeMap::from([data(former::BUNDLE)]));
    observed
}

/// One pod of ours among them, whose server says this of the others.
fn mixed(change: impl FnOnce(&mut Facts)) -> Observed<Cassandra> {
    let mut observed = trusted();
    observed.pods = Source::Known(vec![three::former(SET, 0), three::former(SET, 1), three::pod(SET, 2)]);
    let mut facts = facts(2);
    change(&mut facts);
    observed.agents = BTreeMap::from([("pod-2".to_owned(), agent(2, Some(facts)))]);
    observed
}

#[test]
fn a_ring_of_the_go_tf_operator_is_taken_over_one_pod_after_the_other_and_nothing_else_begins_before() {
    let resource = RefCell::new(left());
    let plan = |observed: &Observed<Cassandra>| {
        let plan = plan(&resource.borrow(), observed).unwrap();
        let mut resource = resource.borrow_mut();
        let status = resource.status.get_or_insert_default();
        status.contract.members.clone_from(&plan.members);
        status.own = serde_json::from_value(Value::Object(plan.own_status.clone())).unwrap();
        let Source::Known(pods) = &observed.pods else { panic!("no pods") };
        if pods.iter().any(|pod| pod.template.is_none()) {
            assert_eq!(plan.own_status.get("authentication"), None);
            assert!(plan.notes.iter().any(|note| note.starts_with("1 members are asked for and there are 3")));
        }
        plan
    };
    let looks = |plan: &Plan| {
        assert_eq!(plan.members, three::recorded());
        assert_eq!(plan.own_status.get("clusterName"), Some(&json!("ContrailConfigDB")));
        assert!(plan.record.contains(&"clusterName"));
    };
    let says = |index| Status { cassandra: Some(facts(index)), ..three::status(SET, "cassandra", index) };
    assert_eq!(three::taken_over(trusted(), SET, plan, says, looks), [2, 1, 0]);
    assert_eq!(resource.borrow().status.as_ref().unwrap().own.authentication, Some(Authentication::None));
}

#[test]
fn nothing_begins_with_another_image_and_one_that_does_not_run_is_no_dead_end() {
    let mut observed = trusted();
    let former = |index| {
        let images = BTreeMap::from([("cassandra".to_owned(), "theirs:3.11".to_owned())]);
        Pod { images, former: Some(Former::default()), ..three::former(SET, index) }
    };
    observed.pods = Source::Known((0..3).map(former).collect());
    let mut resource = left();
    let refused = plan(&resource, &observed).unwrap_err();
    assert!(refused.message.contains("name theirs:3.11 in serviceConfiguration.containers"), "{}", refused.message);
    let status = resource.status.as_mut().unwrap();
    status.own.cluster_name = Some("ContrailConfigDB".into());
    status.contract.members = three::recorded();
    assert!(plan(&resource, &observed).is_ok());
}

#[test]
fn a_ring_that_was_taken_over_has_data_and_its_name_before_it_is_ready() {
    let mut resource = left();
    resource.spec.service_configuration.authentication = None;
    let status = resource.status.as_mut().unwrap();
    status.own.cluster_name = Some("another".into());
    status.contract.members = three::recorded();
    let plan = plan(&resource, &running()).unwrap();
    let text = format!("{:?}", plan.objects);
    assert!(text.contains("cassandra-joining.yaml."), "servers that find no data would found a ring");
    assert_eq!(plan.own_status.get("clusterName"), Some(&json!("another")));
}

proptest! {
    #[test]
    fn no_server_of_the_go_tf_operator_is_stopped_that_a_new_one_does_not_see_up(
        peers in prop::collection::vec(prop_oneof![3 => Just(heard()), 1 => peer()], 2),
    ) {
        let is_whole = peers.iter().all(|peer| *peer == heard());
        let observed = mixed(|facts| facts.peers.values_mut().zip(peers).for_each(|(known, peer)| *known = peer));
        prop_assert_eq!(plan(&left(), &observed).unwrap().step.is_some(), is_whole);
    }

    #[test]
    fn no_member_that_serves_is_stopped_where_a_server_does_not_hear_another_one(
        peers in prop::collection::vec(prop::collection::vec(prop_oneof![3 => Just(heard()), 1 => peer()], 2), 3),
    ) {
        let mut observed = running();
        let mut is_whole = true;
        for (index, peers) in peers.into_iter().enumerate() {
            let mut facts = facts(index);
            for (known, peer) in facts.peers.values_mut().zip(peers) {
                is_whole &= peer == heard();
                *known = peer;
            }
            observed.agents.insert(format!("pod-{index}"), agent(index, Some(facts)));
        }
        prop_assert_eq!(planned(&observed).step.is_some(), is_whole);
    }
}
