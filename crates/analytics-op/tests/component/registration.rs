//! What of the four kinds is in the config API.

#![expect(clippy::unwrap_used, reason = "a situation that cannot be made is a failing test")]

use crate::support::{self, plan, situation, with_status};
use analytics_op::{Analytics, AnalyticsAlarm, AnalyticsSnmp, QueryEngine};
use serde_json::{Map, Value, json};
use tf_api::contract::{ConditionType, Reason};
use tf_config_api::{
    decide::{Seen, Wanted, decide},
    mark::{self, Owner},
    record::Type,
    types,
};
use tf_plan::{
    component::Component,
    observed::{Observed, Pod, Source},
    plan::Plan,
};
use tf_testing::three;

const ALL: &str = "analytics/three-nodes-with-a-database-and-alarms";

fn wanted(plan: Plan) -> Wanted {
    plan.registration.unwrap().wanted
}

/// Bodies of what is made in an API that has nothing of it yet, with their paths.
fn made(wanted: &Wanted) -> Vec<(String, Value)> {
    let requests = decide(wanted, &[]).waves.concat().into_iter().map(|call| call.request());
    let body = |path: &str, mut body: Value| body[path[1..].trim_end_matches('s')].take();
    requests.map(|request| (request.path.clone(), body(&request.path, request.body.unwrap_or_default()))).collect()
}

/// Each member is an object of a type by the name of its node, with its address.
fn is_one_each<C: Component>(situation: &str, kind: Type, property: &str) {
    let plan = plan::<C>(situation);
    let members = plan.members.clone();
    let api = plan.registration.as_ref().unwrap().api.clone();
    assert_eq!((api.hosts.len(), api.port, api.tls), (3, 8082, true), "{situation}");
    let path = format!("/{}s", kind.name);
    let objects: Vec<Value> =
        made(&wanted(plan)).into_iter().filter(|made| made.0 == path).map(|made| made.1).collect();
    assert_eq!((objects.len(), members.len()), (3, 3), "{situation}");
    for (object, member) in objects.iter().zip(&members) {
        assert_eq!(object["fq_name"], json!(types::in_system(&member.node)), "{situation}");
        assert_eq!(object["parent_type"], "global-system-config", "{situation}");
        assert_eq!(object[property], member.address.as_str(), "{situation}");
    }
}

#[test]
fn a_member_is_a_node_of_its_kind_by_the_name_and_address_of_its_node() {
    is_one_each::<Analytics>(ALL, types::ANALYTICS_NODE, "analytics_node_ip_address");
    is_one_each::<Analytics>(ALL, types::DATABASE_NODE, "database_node_ip_address");
    let (kind, property) = (types::ANALYTICS_SNMP_NODE, "analytics_snmp_node_ip_address");
    is_one_each::<AnalyticsSnmp>("analyticssnmp/three-nodes", kind, property);
    let (kind, property) = (types::ANALYTICS_ALARM_NODE, "analytics_alarm_node_ip_address");
    is_one_each::<AnalyticsAlarm>("analyticsalarm/three-nodes", kind, property);
    assert_eq!(plan::<QueryEngine>("queryengine/three-nodes").registration, None, "it has no type in the API");
}

#[test]
fn a_database_whose_nodes_nobody_knows_is_not_registered_and_one_that_is_not_there_neither() {
    let paths = |situation: &str| -> Vec<String> {
        made(&wanted(plan::<Analytics>(situation))).into_iter().map(|made| made.0).collect()
    };
    for situation in
        ["analytics/three-nodes-that-keep-the-current-state-alone", "analytics/services-that-no-operator-runs"]
    {
        let paths = paths(situation);
        assert!(!paths.is_empty() && paths.iter().all(|path| path == "/analytics-nodes"), "{situation}: {paths:?}");
    }
}

/// What is wanted while the pod on the node of a fourth member, which has left, is ready or not.
fn left<C: Component>(situation: &str, ready: bool) -> Wanted {
    let (cr, observed) = support::situation::<C>(situation);
    let status = json!({"contract": "v1", "initialized": true, "observedGeneration": 1, "members": three::recorded()});
    let pod = Pod { name: "left-3".into(), uid: "u".into(), node: Some("cp9".into()), ready, ..Pod::default() };
    let observed = Observed { pods: Source::Known(vec![pod]), ..observed };
    wanted(C::plan(&with_status(&cr, status), &observed).unwrap())
}

#[test]
fn a_member_that_left_stays_while_it_serves() {
    for ready in [true, false] {
        let all = [
            (left::<Analytics>(ALL, ready), 6),
            (left::<AnalyticsSnmp>("analyticssnmp/three-nodes", ready), 3),
            (left::<AnalyticsAlarm>("analyticsalarm/three-nodes", ready), 3),
        ];
        for (wanted, records) in all {
            assert_eq!(wanted.records.len(), records, "nobody of the others has to serve");
            assert_eq!(wanted.kept.contains(&types::in_system("cp9")), ready, "{:?}", wanted.owner);
        }
    }
}

/// An object as the API lists it, made for somebody.
fn seen(kind: Type, uuid: &str, node: &str, owner: Option<&Owner>) -> Seen {
    let annotations = mark::annotations(&Map::new(), owner, &Map::new());
    let properties = Map::from_iter([(mark::ANNOTATIONS.to_owned(), annotations)]);
    Seen { kind, uuid: uuid.into(), name: types::in_system(node), properties }
}

/// Methods and paths of what a decision asks for.
fn calls(wanted: &Wanted, seen: &[Seen]) -> Vec<String> {
    let calls = decide(wanted, seen).waves.concat().into_iter().map(|call| call.request());
    calls.map(|request| format!("{} {}", request.method, request.path)).collect()
}

#[test]
fn nodes_of_who_left_and_of_everybody_at_deletion_are_deleted_and_others_are_not() {
    let wanted = left::<Analytics>(ALL, false);
    let neighbour = Owner { name: "another".into(), ..wanted.owner.clone() };
    let own = Some(&wanted.owner);
    let (node, database) = (types::ANALYTICS_NODE, types::DATABASE_NODE);
    let strangers = [seen(node, "n8", "cp8", Some(&neighbour)), seen(database, "d7", "cp7", None)];
    let leaver = [seen(node, "n9", "cp9", own), seen(database, "d9", "cp9", own)];
    let there: Vec<Seen> = strangers.iter().chain(&leaver).cloned().collect();
    let deleted = |wanted: &Wanted| -> Vec<String> {
        calls(wanted, &there).into_iter().filter(|call| call.starts_with("DELETE")).collect()
    };
    assert_eq!(deleted(&wanted), ["DELETE /database-node/d9", "DELETE /analytics-node/n9"]);
    let nobody: [String; 0] = [];
    assert_eq!(deleted(&left::<Analytics>(ALL, true)), nobody, "it still serves");
    // The resource is deleted: nothing is made, and what is somebody else's stays.
    assert_eq!(calls(&wanted.nothing(), &there), ["DELETE /database-node/d9", "DELETE /analytics-node/n9"]);

    let (cr, observed) = situation::<AnalyticsSnmp>("analyticssnmp/three-nodes");
    let snmp = wanted_of::<AnalyticsSnmp>(&cr, &observed);
    let objects = [seen(types::ANALYTICS_SNMP_NODE, "s1", "cp1", Some(&snmp.owner))];
    assert_eq!(calls(&snmp.nothing(), &objects), ["DELETE /analytics-snmp-node/s1"]);
    let (cr, observed) = situation::<AnalyticsAlarm>("analyticsalarm/three-nodes");
    let alarm = wanted_of::<AnalyticsAlarm>(&cr, &observed);
    let objects = [seen(types::ANALYTICS_ALARM_NODE, "a1", "cp1", Some(&alarm.owner))];
    assert_eq!(calls(&alarm.nothing(), &objects), ["DELETE /analytics-alarm-node/a1"]);
}

fn wanted_of<C: Component>(cr: &C::Cr, observed: &Observed<C::Cr>) -> Wanted {
    wanted(C::plan(cr, observed).unwrap())
}

/// A resource of a kind that authenticates, without the Secret with the password.
fn without_password<C: Component>(situation: &str) {
    let (cr, observed) = support::situation::<C>(situation);
    let mut cr = serde_json::to_value(cr).unwrap();
    cr["spec"]["commonConfiguration"]["authParameters"] = json!({"authMode": "keystone", "keystoneSecretName": "gone"});
    let not_ready = C::plan(&serde_json::from_value(cr).unwrap(), &observed).unwrap_err();
    assert_eq!((not_ready.reason, not_ready.message.contains("tf/gone")), (Reason::SecretNotFound, true));
}

/// The daemons log in themselves, so unlike Control nothing can go on.
#[test]
fn without_the_password_of_keystone_it_is_told_which_secret_is_missing() {
    without_password::<Analytics>(ALL);
    without_password::<AnalyticsSnmp>("analyticssnmp/three-nodes");
    without_password::<AnalyticsAlarm>("analyticsalarm/three-nodes");
}

/// Nobody waits for what the web UI shows.
#[test]
fn a_member_serves_before_it_is_registered() {
    assert!(plan::<Analytics>(ALL).serves_unregistered);
    assert!(plan::<AnalyticsSnmp>("analyticssnmp/three-nodes").serves_unregistered);
    assert!(plan::<AnalyticsAlarm>("analyticsalarm/three-nodes").serves_unregistered);
    let drafts = plan::<Analytics>(ALL).drafts;
    assert!(drafts.iter().all(|draft| draft.kind != ConditionType::Provisioned), "the runtime tells of it: {drafts:?}");
}
