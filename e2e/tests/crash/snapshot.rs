//! The state of a namespace without what differs between two equal clusters.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use kube::{
    Client, ResourceExt as _,
    api::{DynamicObject, ListParams},
};
use serde_json::{Map, Value};
use tf_plan::{component::Component as _, declaration::Declaration, object::Kind};

/// Every object of ours in a namespace, by kind and name.
pub type Snapshot = BTreeMap<String, Value>;

/// Texts that differ between two equal clusters (names, addresses, credentials), and what stands for them.
#[derive(Clone, Debug, Default)]
pub struct Masks(Vec<(String, String)>);

impl Masks {
    /// The longest text is replaced first: one may be part of another.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().filter(|(text, _)| !text.is_empty()).collect();
        pairs.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Self(pairs)
    }

    /// These and more.
    fn with(&self, pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self::new(self.0.iter().cloned().chain(pairs))
    }

    fn apply(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }
}

/// Every kind that an operator owns or reconciles.
pub fn kinds() -> BTreeSet<Kind> {
    let declarations: [fn() -> Declaration; 11] = [
        analytics_op::declared,
        cassandra_op::Component::declaration,
        config_op::Component::declaration,
        control_op::Component::declaration,
        kubemanager_op::Component::declaration,
        manager_op::Component::declaration,
        rabbitmq_op::Component::declaration,
        redis_op::Component::declaration,
        vrouter_op::Component::declaration,
        webui_op::Component::declaration,
        zookeeper_op::Component::declaration,
    ];
    declarations
        .into_iter()
        .flat_map(|declaration| {
            let declaration = declaration();
            let reconciled: Vec<Kind> = declaration.reconciled().collect();
            declaration.owned.into_iter().map(|owned| owned.kind).chain(reconciled)
        })
        .collect()
}

/// What operators made of a namespace, and the custom resources they did it for.
pub async fn take(client: &Client, namespace: &str, masks: &Masks) -> Result<Snapshot> {
    let mut objects = Vec::new();
    for kind in kinds() {
        let api = tf_testing::resources::objects(client, kind, namespace);
        let of_ours = if kind.group == tf_api::GROUP { "" } else { tf_api::names::LABEL_MANAGED_BY };
        let list = match api.list(&ListParams::default().labels(of_ours)).await {
            // A kind whose operator does not exist yet.
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            list => list?,
        };
        for object in list {
            let labels = object.metadata.labels.clone().unwrap_or_default();
            if !kind.namespaced && labels.get(tf_api::names::LABEL_OWNER_NAMESPACE).is_none_or(|of| of != namespace) {
                continue;
            }
            objects.push((kind, object));
        }
    }
    // Files have the uid of the resource that they are of.
    let resources = objects.iter().filter(|(kind, _)| kind.group == tf_api::GROUP);
    let uids = resources.filter_map(|(kind, object)| Some((object.uid()?, format!("<uid of {}>", kind.kind))));
    let masks = masks.with(uids);
    let entry = |(kind, object): (Kind, DynamicObject)| {
        let name = masks.apply(object.metadata.name.as_deref().unwrap_or_default());
        Ok((format!("{} {name}", kind.kind), normal(serde_json::to_value(object)?, kind, &masks)))
    };
    objects.into_iter().map(entry).collect()
}

/// The object without what the API server and other controllers say about it.
fn normal(mut object: Value, kind: Kind, masks: &Masks) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
            metadata.remove(field);
        }
        // Written by Kubernetes' token controller.
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubernetes.io/service-account.uid");
        }
        for owner in metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
            owner["uid"] = "<uid>".into();
        }
    }
    if kind.group == tf_api::GROUP {
        // By pod; which pod of a workload is on which node is up to the scheduler.
        if let Some(by_pod) = object["status"]["nodes"].as_object() {
            object["status"]["nodes"] = by_pod.values().map(|node| masked(node.clone(), masks)).collect();
            if let Some(nodes) = object["status"]["nodes"].as_array_mut() {
                nodes.sort_by_key(Value::to_string);
            }
        }
    } else {
        object.as_object_mut().map(|object| object.remove("status"));
    }
    if kind.kind == "Service" {
        for field in ["clusterIP", "clusterIPs"] {
            let given = object["spec"][field] != "None" && object["spec"][field][0] != "None";
            if given {
                object["spec"][field] = "<address>".into();
            }
        }
    }
    if kind.kind == "Secret" {
        for value in object["data"].as_object_mut().into_iter().flat_map(Map::values_mut) {
            let secret: Option<k8s_openapi::ByteString> = serde_json::from_value(value.clone()).ok();
            *value = secret.and_then(|secret| String::from_utf8(secret.0).ok()).unwrap_or_default().into();
        }
    }
    masked(object, masks)
}

/// A digest of a generated password is generated, too.
fn without_digest(text: &str) -> String {
    const KEY: &str = "DigestAuthenticationProvider.superDigest=";
    let line = |line: &str| if line.starts_with(KEY) { format!("{KEY}<digest>\n") } else { line.to_owned() };
    text.split_inclusive('\n').map(line).collect()
}

/// So are names of files that go by a generated key.
fn without_tag(text: &str) -> String {
    ["contrail-named-", "contrail-rndc-"].into_iter().fold(text.to_owned(), |text, prefix| {
        let mut parts = text.split(prefix);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |done, part| {
            let end = part.find(".conf").unwrap_or_default();
            format!("{done}{prefix}{}", if end == 4 { &part[end..] } else { part })
        })
    })
}

/// And so are tokens of ServiceAccounts, signed JSON in base64.
fn without_token(text: &str) -> String {
    let word = |word: &str| {
        if word.trim_end().starts_with("eyJ") { word.replace(word.trim_end(), "<token>") } else { word.to_owned() }
    };
    text.split_inclusive(char::is_whitespace).map(word).collect()
}

fn masked(value: Value, masks: &Masks) -> Value {
    match value {
        Value::String(text) if is_time(&text) => "<time>".into(),
        Value::String(text) => masks.apply(&without_token(&without_tag(&without_digest(&text)))).into(),
        Value::Array(values) => values.into_iter().map(|value| masked(value, masks)).collect(),
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(name, value)| {
                    // Of contents that have names, addresses and credentials in them.
                    let is_hash = name.ends_with("hash") || name.ends_with("Hash");
                    let value = if is_hash { "<hash>".into() } else { masked(value, masks) };
                    (masks.apply(&name), value)
                })
                .collect(),
        ),
        other => other,
    }
}

/// As Kubernetes writes times: `2026-01-31T23:59:59Z`, with or without a fraction.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 20 && bytes.ends_with(b"Z") && bytes[4] == b'-' && bytes[10] == b'T' && bytes[13] == b':'
}

/// Fields that count how often something was wished.
const COUNTS: [&str; 3] = ["generation", "observedGeneration", "deprecated.daemonset.template.generation"];

/// The same without [`COUNTS`].
pub fn without_generations(snapshot: &Snapshot) -> Snapshot {
    snapshot.iter().map(|(name, object)| (name.clone(), ungenerated(object.clone()))).collect()
}

fn ungenerated(value: Value) -> Value {
    match value {
        Value::Array(values) => values.into_iter().map(ungenerated).collect(),
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .filter(|(name, _)| !COUNTS.contains(&name.as_str()))
                .map(|(name, value)| (name, ungenerated(value)))
                .collect(),
        ),
        other => other,
    }
}

/// What differs, a line for each place; empty if nothing does.
pub fn differences(expected: &Snapshot, found: &Snapshot) -> Vec<String> {
    let mut lines = Vec::new();
    let names: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    for name in names {
        compare(name, expected.get(name), found.get(name), &mut lines);
    }
    lines
}

fn compare(place: &str, expected: Option<&Value>, found: Option<&Value>, lines: &mut Vec<String>) {
    match (expected, found) {
        (expected, found) if expected == found => {}
        (Some(Value::Object(expected)), Some(Value::Object(found))) => {
            let names: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
            for name in names {
                compare(&format!("{place} .{name}"), expected.get(name), found.get(name), lines);
            }
        }
        (Some(Value::Array(expected)), Some(Value::Array(found))) if expected.len() == found.len() => {
            for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
                compare(&format!("{place} [{index}]"), Some(expected), Some(found), lines);
            }
        }
        (expected, found) => {
            let show = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
            lines.push(format!("{place}: expected {}, found {}", show(expected), show(found)));
        }
    }
}

#[test]
fn what_is_equal_but_for_names_times_and_hashes_has_no_differences() {
    let cluster = |name: &str, time: &str, hash: &str| {
        let object = serde_json::json!({
            "metadata": {"name": "a", "uid": name, "annotations": {"tf.tungsten.io/config-hash": hash}},
            "spec": {"host": format!("{name}.example"), "clusterIP": "None"},
            "status": {"at": time},
        });
        normal(object, Kind::custom(tf_api::kinds::ZOOKEEPER), &Masks::new([(name.to_owned(), "<name>".to_owned())]))
    };
    let one = Snapshot::from([("A a".to_owned(), cluster("first", "2026-01-31T23:59:59Z", "1"))]);
    let two = Snapshot::from([("A a".to_owned(), cluster("second", "2026-02-01T00:00:00.5Z", "2"))]);
    assert_eq!(differences(&one, &two), Vec::<String>::new());
    assert_eq!(differences(&one, &Snapshot::new()).len(), 1);
}

#[test]
fn names_of_files_that_go_by_a_key_are_the_same_for_every_key() {
    let of =
        |tag: &str| without_tag(&format!("named -c /dns/contrail-named-{tag}.conf, /dns/contrail-rndc-{tag}.conf\n"));
    assert_eq!(of("a7cd"), of("0123"));
    assert_eq!(without_tag("contrail-named-service, contrail-rndc-"), "contrail-named-service, contrail-rndc-");
}

#[test]
fn a_token_is_the_same_whoever_signed_it() {
    assert_eq!(without_token("token = eyJh.eyJz.c2ln\nnested_mode = 0\n"), "token = <token>\nnested_mode = 0\n");
    assert_eq!(without_token("heyJude\n"), "heyJude\n");
}

#[test]
fn every_place_that_differs_is_named() {
    let of = |port: u32| {
        Snapshot::from([("A a".to_owned(), serde_json::json!({"spec": {"ports": [1, port]}, "status": {}}))])
    };
    assert_eq!(differences(&of(2), &of(3)), ["A a .spec .ports [1]: expected 2, found 3"]);
}
