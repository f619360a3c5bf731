//! What holds for every ring, whatever the spec, the nodes and the passwords.

#![expect(clippy::unwrap_used, reason = "a failing property is a panicking test")]

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use cassandra_op::{Component, plan};
use proptest::prelude::*;
use serde_json::{Value, json};
use tf_agent_api::launch::Launch;
use tf_api::Cassandra;
use tf_config_files::{env, read};
use tf_plan::{
    component::Component as _,
    object::{CONFIG_MAP, SECRET},
    observed::{Node, Observed, Source},
    plan::Plan,
    secret::SecretData,
};

/// Nodes with distinct names and addresses, in the order of their names.
fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let node = |number: u16, v6: bool| Node {
        name: format!("node-{number}.example"),
        address: Some(if v6 {
            format!("2001:10:20:30:40:50:1:{number:x}")
        } else {
            format!("10.{}.{}.7", number / 256, number % 256)
        }),
        labels: BTreeMap::from([("node-role.kubernetes.io/control-plane".to_owned(), String::new())]),
        ..Node::default()
    };
    (prop::collection::btree_set(1..2000_u16, 0..12), any::<bool>())
        .prop_map(move |(numbers, v6)| numbers.into_iter().map(|number| node(number, v6)).collect())
}

fn spec() -> impl Strategy<Value = Value> {
    let heap = prop_oneof![6 => Just(String::new()), 2 => "[1-9][0-9]{0,2}[kKmMgG]?", 1 => any::<String>()];
    let containers = prop_oneof![
        4 => Just(json!([])),
        4 => Just(json!([{"name": "cassandra"}, {"name": "nodemanager"}, {"name": "provisioner"}])),
        1 => Just(json!([{"name": "nodemanager"}])),
    ];
    let level = prop::sample::select(vec!["info", "debug", "warning", "error", "critical", "none"]);
    (containers, heap.clone(), heap, level, prop::option::of(1..8), any::<Option<bool>>(), 1..60_000_u16).prop_map(
        |(containers, min, max, level, replicas, rpc, port)| {
            json!({
                "commonConfiguration": {"logLevel": level, "replicas": replicas},
                "serviceConfiguration": {
                    "containers": containers, "minHeapSize": min, "maxHeapSize": max, "startRPC": rpc,
                    "cqlPort": port, "storagePort": port + 1, "sslStoragePort": port + 2, "jmxLocalPort": port + 3,
                },
            })
        },
    )
}

prop_compose! {
    fn situations()(
        name in prop_oneof![Just("configdb1".to_owned()), "analyticsdb[0-9]", "[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?"],
        namespace in prop_oneof![Just("tf".to_owned()), "[a-z]([-a-z0-9]{0,40}[a-z0-9])?"],
        spec in spec(),
        before in nodes(),
        now in nodes(),
        initialized in any::<bool>(),
        passwords in prop_oneof![
            4 => ("[ -~äß€中]{0,24}", "[ -~äß€中]{0,24}"),
            1 => (any::<String>(), any::<String>()),
        ],
    ) -> (Cassandra, Observed<Cassandra>) {
        let members: Vec<Value> = before
            .iter()
            .take(5)
            .zip(1..)
            .map(|(node, id)| json!({"id": id, "node": node.name, "address": node.address}))
            .collect();
        let cr: Cassandra = serde_json::from_value(json!({
            "apiVersion": "tf.tungsten.io/v1alpha1",
            "kind": "Cassandra",
            "metadata": {"name": name, "namespace": namespace, "uid": "u", "generation": 1},
            "spec": spec,
            "status": {"initialized": initialized && !members.is_empty(), "members": members},
        }))
        .unwrap();
        let passwords: SecretData = [
            (plan::KEYSTORE_PASSWORD.to_owned(), passwords.0),
            (plan::TRUSTSTORE_PASSWORD.to_owned(), passwords.1),
        ]
        .into_iter()
        .collect();
        let observed = Observed {
            nodes: Source::Known(now),
            secrets: BTreeMap::from([(plan::passwords_name(&cr), passwords)]),
            ..Observed::default()
        };
        (cr, observed)
    }
}

/// All files of a plan, those of Secrets decoded.
fn files(plan: &Plan) -> BTreeMap<String, String> {
    let objects = plan.objects.iter().filter(|object| object.kind == SECRET || object.kind == CONFIG_MAP);
    let data = objects.filter(|object| object.body["metadata"]["annotations"].is_object()).flat_map(|object| {
        let secret = object.kind == SECRET;
        object.body["data"].as_object().cloned().unwrap_or_default().into_iter().map(move |(key, value)| {
            let text = value.as_str().unwrap_or_default().to_owned();
            let decoded = || String::from_utf8(BASE64_STANDARD.decode(&text).unwrap()).unwrap();
            (key, if secret { decoded() } else { text.clone() })
        })
    });
    data.collect()
}

fn seeds(yaml: &Value) -> Vec<&str> {
    yaml["seed_provider"][0]["parameters"][0]["seeds"].as_str().unwrap_or_default().split(',').collect()
}

proptest! {
    #[test]
    fn every_plan_can_be_stored_and_every_file_be_read((cr, observed) in situations()) {
        let result = Component::plan(&cr, &observed);
        prop_assert_eq!(&result, &Component::plan(&cr, &observed));
        let Ok(plan) = result else { return Ok(()) };
        for object in &plan.objects {
            prop_assert!(!object.name.is_empty() && object.name.len() <= 63, "{}", object.describe());
            let labels = object.body["metadata"]["labels"].as_object().unwrap();
            prop_assert!(labels.values().all(|value| value.as_str().is_some_and(|text| text.len() <= 63)));
        }
        for (name, text) in files(&plan) {
            prop_assert!(name.len() <= 253 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)));
            if name.starts_with("cassandra.yaml.") || name.starts_with("cassandra-joining.yaml.") {
                prop_assert!(serde_saphyr::from_str::<Value>(&text).is_ok(), "{}", text);
            } else if matches!(name.as_str(), "cassandra.env" | "nodemanager.env" | "stores.env") {
                prop_assert!(env::parse(&text).is_ok(), "{}", text);
            } else if name.starts_with("cqlshrc.") || name.starts_with("contrail-") {
                prop_assert!(read::python(&text).is_ok(), "{}", text);
            } else if name == "cassandra.launch" {
                prop_assert!(Launch::parse(text.as_bytes()).is_ok(), "{}", text);
            } else if name.starts_with("member.") {
                prop_assert!(text.split_once('/').is_some_and(|(_, id)| id.trim().parse::<u32>().is_ok()), "{}", text);
            } else if name.starts_with("other-members.") {
                prop_assert!(text.split_whitespace().all(|id| id.parse::<u32>().is_ok()), "{}", text);
            } else {
                prop_assert_eq!(name, "logback.xml");
            }
        }
    }

    #[test]
    fn members_know_each_other_and_no_new_one_of_a_ring_with_data_is_its_own_seed((cr, observed) in situations()) {
        let Ok(plan) = Component::plan(&cr, &observed) else { return Ok(()) };
        let initialized = cr.status.as_ref().is_some_and(|status| status.contract.initialized == Some(true));
        let addresses: BTreeSet<&str> = plan.members.iter().map(|member| member.address.as_str()).collect();
        let published: BTreeSet<&str> = plan.endpoints[0].nodes.iter().map(String::as_str).collect();
        prop_assert_eq!(&published, &addresses);
        let files = files(&plan);
        let read = |name: &str, address: &str| {
            let text = files.get(&format!("{name}.{}", address.replace(':', "-")));
            text.map(|text| serde_saphyr::from_str::<Value>(text).unwrap())
        };
        let mut lists = BTreeSet::new();
        for address in &addresses {
            let yaml = read("cassandra.yaml", address).unwrap();
            prop_assert_eq!(&yaml["listen_address"], address);
            prop_assert!(seeds(&yaml).iter().all(|seed| addresses.contains(seed)));
            let joining = read("cassandra-joining.yaml", address);
            prop_assert_eq!(joining.is_some(), initialized);
            if let Some(joining) = joining {
                prop_assert!(!seeds(&joining).is_empty());
                prop_assert!(!seeds(&joining).contains(address) || addresses.len() == 1);
                prop_assert_eq!(&joining["listen_address"], address);
            }
            lists.insert(seeds(&yaml).join(","));
        }
        prop_assert_eq!(lists.len(), 1, "all members go by the same seeds");
    }

    #[test]
    fn a_ring_whose_members_cannot_be_asked_keeps_exactly_them_whoever_joins((cr, mut observed) in situations()) {
        let Ok(before) = Component::plan(&cr, &observed) else { return Ok(()) };
        let mut founded = cr.clone();
        founded.status.get_or_insert_default().contract.members.clone_from(&before.members);
        let before = Component::plan(&founded, &observed).unwrap();
        let mut asked = founded.clone();
        // More than seven are refused.
        let count = before.members.len() as i32;
        asked.spec.common_configuration.replicas = Some(if count < 7 { count + 1 } else { count - 1 });
        if let Source::Known(nodes) = &mut observed.nodes {
            let address = nodes.first().and_then(|node| node.address.clone()).unwrap_or_default();
            let address = if address.contains(':') { "2001:10::1" } else { "192.0.2.1" };
            let labels = BTreeMap::from([("node-role.kubernetes.io/control-plane".to_owned(), String::new())]);
            nodes.insert(0, Node { name: "a-node".into(), address: Some(address.into()), labels, ..Node::default() });
        }
        let joined = Component::plan(&founded, &observed).unwrap();
        let asked = Component::plan(&asked, &observed).unwrap();
        prop_assert!(asked.notes.iter().any(|why| why.contains("members join and leave when")), "{:?}", asked.notes);
        for after in [(joined.members, joined.objects), (asked.members, asked.objects)] {
            prop_assert_eq!(&after, &(before.members.clone(), before.objects.clone()));
        }
    }
}
