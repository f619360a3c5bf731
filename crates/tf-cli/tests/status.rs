//! What is told of resources, as people and programs read it.

// Says to clippy that the helpers below are tests, too, and may unwrap.
#![cfg(test)]

use kube::core::DynamicObject;
use serde_json::{Value, json};
use tf_api::{KindInfo, kinds};
use tf_cli::status::{Daemons, Node, Resource, State, text, trees};

fn object(kind: KindInfo, name: &str, more: Value) -> Resource {
    let mut object = json!({
        "apiVersion": "tf.tungsten.io/v1alpha1",
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": "tf", "uid": format!("uid of {name}"), "generation": 2},
    });
    for (key, value) in more.as_object().unwrap() {
        match value.as_object().filter(|_| key == "metadata") {
            Some(metadata) => object["metadata"].as_object_mut().unwrap().extend(metadata.clone()),
            None => object[key] = value.clone(),
        }
    }
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    Resource::of(kind, &object)
}

fn made_by(manager: &str) -> Value {
    json!({"ownerReferences": [{
        "apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Manager", "name": manager, "uid": format!("uid of {manager}"),
    }]})
}

fn status(members: &str, conditions: &[[&str; 4]]) -> Value {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|[kind, status, reason, message]| {
            json!({"type": kind, "status": status, "reason": reason, "message": message,
                   "lastTransitionTime": "2026-01-01T00:00:00Z"})
        })
        .collect();
    json!({"observedGeneration": 2, "membersReady": members, "version": {"deployed": "24.1"}, "conditions": conditions})
}

fn cluster() -> Vec<Resource> {
    let ready = ["Ready", "True", "Succeeded", "3 of 3 members are ready"];
    let waits = "Cassandra configdb1 is not Ready";
    let lost = "pod configdb1-cassandra-statefulset-2 on node c: the node is gone";
    vec![
        object(
            kinds::CASSANDRA,
            "configdb1",
            json!({
                "metadata": made_by("sdn"),
                "status": status("2/3", &[
                    ["Ready", "False", "ReplicasUnavailable", lost],
                    ["WorkloadReady", "False", "ReplicasUnavailable", lost],
                    ["Degraded", "False", "Succeeded", "not for long"],
                    ["Paused", "True", "Paused", "spec.paused is true"],
                ]),
            }),
        ),
        object(
            kinds::CONFIG,
            "config1",
            json!({
                "metadata": made_by("sdn"),
                "status": status("0/3", &[
                    ["CassandraReady", "False", "DependencyNotReady", waits],
                    ["DependenciesReady", "False", "DependencyNotReady", waits],
                    ["Ready", "False", "DependencyNotReady", waits],
                ]),
            }),
        ),
        object(
            kinds::MANAGER,
            "sdn",
            json!({"status": status("", &[
                ["CassandraReady", "False", "ReplicasUnavailable", "configdb1: a member is lost"],
                ["Ready", "False", "DependencyNotReady", "1 of 3 is Ready"],
                ["WebuiReady", "Unknown", "NotRequested", "not listed"],
            ])}),
        ),
        object(kinds::REDIS, "redis1", json!({"metadata": {"generation": 3}, "status": status("3/3", &[ready])})),
        object(kinds::WEBUI, "webui1", json!({})),
        object(kinds::ZOOKEEPER, "zookeeper1", json!({"metadata": made_by("sdn"), "status": status("3/3", &[ready])})),
    ]
}

#[test]
fn each_resource_stands_below_its_maker_with_what_keeps_it_from_being_as_wished_and_nothing_twice() {
    assert_eq!(
        text(&trees(&cluster()), &["kubemanagers: you may not list them".to_owned()], Daemons::Unwell),
        "\
namespace tf
Manager sdn              DependencyNotReady               24.1
│   CassandraReady=False ReplicasUnavailable: configdb1: a member is lost
│   Ready=False DependencyNotReady: 1 of 3 is Ready
├─ Cassandra configdb1   ReplicasUnavailable         2/3  24.1
│      WorkloadReady=False ReplicasUnavailable: pod configdb1-cassandra-statefulset-2 on node c: the node is gone
│      Paused=True Paused: spec.paused is true
├─ Config config1        DependencyNotReady          0/3  24.1
│      CassandraReady=False DependencyNotReady: Cassandra configdb1 is not Ready
└─ Zookeeper zookeeper1  Ready                       3/3  24.1
Redis redis1             changed, not looked at yet  3/3  24.1
Webui webui1             no operator has reported
could not be read: kubemanagers: you may not list them
"
    );
}

#[test]
fn programs_are_told_the_same() {
    let told = serde_json::to_value(trees(&cluster())).unwrap();
    assert_eq!(told[0]["state"], "NotReady");
    assert_eq!(
        told[0]["children"][1],
        json!({
            "kind": "Config", "namespace": "tf", "name": "config1", "state": "NotReady", "reason": "DependencyNotReady",
            "members": "0/3", "version": "24.1",
            "told": [{"type": "CassandraReady", "status": "False", "reason": "DependencyNotReady",
                      "message": "Cassandra configdb1 is not Ready"}],
        })
    );
    assert_eq!(told[2], json!({"kind": "Webui", "namespace": "tf", "name": "webui1", "state": "NotReported"}));
}

#[test]
fn ready_is_who_serves_what_the_spec_says_now_with_all_that_it_made() {
    let states: Vec<(String, State)> = trees(&cluster()).into_iter().map(|tree| (tree.name, tree.state)).collect();
    let expected = [("sdn", State::NotReady), ("redis1", State::Outdated), ("webui1", State::NotReported)];
    assert_eq!(states, expected.map(|(name, state)| (name.to_owned(), state)));
    let one = |more: Value| trees(&[object(kinds::ZOOKEEPER, "zk", more)]).remove(0);
    let ready = status("1/1", &[["Ready", "True", "Succeeded", ""]]);
    assert!(one(json!({"status": ready})).is_ready());
    let deleting = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": ready});
    assert_eq!(one(deleting).state, State::Deleting);
    let asleep = status("0/1", &[["Hibernated", "True", "Hibernated", ""], ["Ready", "False", "Hibernated", ""]]);
    assert_eq!(one(json!({"status": asleep})).state, State::Hibernated);
    assert_eq!(one(json!({"status": "nonsense"})).state, State::NotReported);
    assert!(!trees(&cluster()).iter().any(Node::is_ready));
}

#[test]
fn daemons_are_told_that_do_not_serve_everywhere_or_lack_a_connection_and_all_where_that_is_asked() {
    let mut told = status("2/3", &[["Ready", "True", "Succeeded", ""]]);
    told["daemons"] = json!([
        {"name": "api", "wanted": 3, "serving": 2, "versions": ["R1", "R2"], "troubles": [{"node": "c", "message": "status\n503"}],
         "connections": [{"name": "Database:RabbitMQ", "up": 2, "down": 1}, {"name": "Zookeeper:Zookeeper", "up": 3, "down": 0}]},
        {"name": "schema", "wanted": 3, "serving": 3, "standby": 2, "versions": ["R1"],
         "connections": [{"name": "Zookeeper:Zookeeper", "up": 1, "down": 0}]},
        {"serving": "of a later release"},
    ]);
    let told = trees(&[object(kinds::CONFIG, "config1", json!({"status": told}))]);
    let first = "namespace tf\nConfig config1  Ready  2/3  24.1\n    api: 2 of 3 serve; R1, R2\n      Database:RabbitMQ up in 2, down in 1\n";
    assert_eq!(text(&told, &[], Daemons::Unwell), format!("{first}      c: status 503\n"));
    let zookeeper = |count| format!("      Zookeeper:Zookeeper up in {count}\n");
    let unelected = json!([
        {"name": "schema", "wanted": 3, "serving": 3, "standby": 3, "versions": ["R1"], "unelectedSince": "2026-11-28T14:12:51Z"},
    ]);
    let mut leaderless = status("3/3", &[["Ready", "False", "NoLeader", ""]]);
    leaderless["daemons"] = unelected;
    let leaderless = trees(&[object(kinds::CONFIG, "config1", json!({"status": leaderless}))]);
    let shown = text(&leaderless, &[], Daemons::Unwell);
    assert!(
        shown.ends_with(
            "schema: 3 of 3 serve, 3 of them standby; R1\n      no process is active since 2026-11-28T14:12:51Z\n"
        ),
        "{shown}"
    );
    let schema = "    schema: 3 of 3 serve, 2 of them standby; R1\n";
    let all = format!("{first}{}      c: status 503\n{schema}{}", zookeeper(3), zookeeper(1));
    assert_eq!(text(&told, &[], Daemons::All), all);
}

#[test]
fn an_empty_cluster_is_told_to_be_one() {
    assert_eq!(text(&[], &[], Daemons::Unwell), "no resources of Tungsten Fabric\n");
}
