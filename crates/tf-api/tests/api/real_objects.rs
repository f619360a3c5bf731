//! Objects from real installations of the Go tf-operator keep everything they say.

use serde_json::{Value, json};
use tf_api::{
    contract::{Contract, PeerStatus},
    kinds::{Manager, SERVICES},
};

use super::support::{lost, testdata, through_rust};

fn default_manager() -> Value {
    let text = std::fs::read_to_string(testdata("go-tf-operator/default-manager.yaml")).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

#[test]
fn the_default_manager_parses_and_loses_nothing() {
    let given = default_manager();
    let kept = through_rust(&given).unwrap();
    assert_eq!(lost(&given, &kept, ""), Vec::<String>::new());
}

#[test]
fn each_component_of_the_default_manager_is_an_object_of_its_kind() {
    let manager: Manager = serde_json::from_value(default_manager()).unwrap();
    let mut found = Vec::new();
    for (info, service) in manager.spec.services.requested() {
        let given = json!({
            "apiVersion": "tf.tungsten.io/v1alpha1",
            "kind": info.kind.kind,
            "metadata": { "name": service.metadata.name, "labels": service.metadata.labels },
            "spec": service.spec,
        });
        let kept = through_rust(&given).unwrap();
        assert_eq!(lost(&given, &kept, ""), Vec::<String>::new(), "{}", info.key);
        found.push(info.key);
    }
    let given = default_manager();
    let wanted: usize =
        given["spec"]["services"].as_object().unwrap().values().map(|entry| entry.as_array().map_or(1, Vec::len)).sum();
    assert_eq!(found.len(), wanted);
    assert!(found.is_sorted_by_key(|key| SERVICES.iter().position(|info| info.key == *key)));
}

#[test]
fn requested_services_come_under_the_keys_they_have_in_the_manifest() {
    for info in SERVICES {
        let entry = json!({ "metadata": { "name": "a" } });
        let entries = if info.list { json!([entry]) } else { entry };
        let manager: Manager = serde_json::from_value(json!({
            "metadata": { "name": "m" }, "spec": { "services": { info.key: entries } }
        }))
        .unwrap();
        let keys: Vec<_> = manager.spec.services.requested().map(|(info, _)| info.key).collect();
        assert_eq!(keys, [info.key]);
    }
}

/// An operator that is rolled back reads what the later release wrote, of its own resource and of others.
#[test]
fn an_endpoint_of_a_later_release_does_not_make_a_status_unreadable() {
    let status = json!({
        "initialized": true,
        "endpoints": [
            { "name": "cql", "protocol": "TCP", "port": 9042 },
            { "name": "metrics", "protocol": "QUIC", "port": 9100 },
        ],
    });
    let peer: PeerStatus = serde_json::from_value(status.clone()).unwrap();
    let own: Contract = serde_json::from_value(status).unwrap();
    for endpoints in [peer.endpoints, own.endpoints] {
        let names: Vec<_> = endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
        assert_eq!(names, ["cql"]);
    }
}

#[test]
fn a_status_that_the_go_operator_left_behind_parses() {
    let statuses = [
        (
            "Manager",
            json!({
                "cassandras": [{ "name": "configdb1", "active": true }],
                "zookeeper": { "name": "zookeeper1", "active": true },
                "ziuState": -1,
            }),
        ),
        (
            "Cassandra",
            json!({
                "active": true, "degraded": false,
                "nodes": { "configdb1-cassandra-statefulset-0": { "ip": "10.0.0.1", "hostname": "node1" } },
                "ports": { "port": "9161", "cqlPort": "9041", "jmxPort": "7201" },
            }),
        ),
        ("Control", json!({ "asnNumber": "64512", "subcluster": "", "ports": { "bgpPort": "179" } })),
        (
            "Vrouter",
            json!({
                "activeOnControllers": true, "active": true,
                "agents": [{ "name": "node1", "status": "Ready", "controlNodes": "10.0.0.1", "encryptedParams": "da39a3ee" }],
            }),
        ),
        (
            "Webui",
            json!({
                "endpoint": "10.96.0.7", "ports": { "webUIHttpPort": 8180, "webUIHttpsPort": 8143 },
                "serviceStatus": { "node1": { "webuiweb": { "moduleName": "web", "state": "Functional" } } },
            }),
        ),
        ("Rabbitmq", json!({ "secret": "rabbitmq1-secret", "configChanged": false })),
    ];
    for (kind, status) in statuses {
        let given = json!({ "kind": kind, "metadata": { "name": "a" }, "spec": {}, "status": status });
        let kept = through_rust(&given).unwrap();
        assert_eq!(lost(&given["status"], &kept["status"], ""), Vec::<String>::new(), "{kind}");
    }
}

#[test]
fn conditions_without_reason_and_time_are_not_read_and_do_no_harm() {
    let given = json!({
        "kind": "Manager", "metadata": { "name": "cluster1" }, "spec": {},
        "status": { "ziuState": 0, "conditions": [
            { "type": "Ready", "status": "True" },
            { "type": "Available", "status": "True", "reason": "Succeeded", "message": "",
              "lastTransitionTime": "2026-11-21T10:00:00Z" },
        ] },
    });
    let manager: Manager = serde_json::from_value(given.clone()).unwrap();
    let types: Vec<_> =
        manager.status.unwrap().contract.conditions.into_iter().map(|condition| condition.type_).collect();
    assert_eq!(types, ["Available"]);
    let peer: PeerStatus = serde_json::from_value(given["status"].clone()).unwrap();
    assert!(peer.condition("Ready").is_none() && peer.condition("Available").is_some());
}
