//! A resource and a snapshot in which every service is there.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tf_api::{
    Vrouter,
    contract::{Endpoint, PeerStatus},
};
use tf_plan::{
    component::Component as _,
    not_ready::NotReady,
    object::{CONFIG_MAP, SECRET},
    observed::{Observed, Operator, Peer, Source},
    plan::Plan,
};

pub fn vrouter(spec: Value) -> Vrouter {
    let metadata = json!({"name": "vrouter1", "namespace": "tf", "uid": "uid-1", "generation": 1});
    let resource =
        json!({"apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Vrouter", "metadata": metadata, "spec": spec});
    serde_json::from_value(resource).expect("a Vrouter")
}

pub fn plan(cr: &Vrouter, observed: &Observed<Vrouter>) -> Result<Plan, NotReady> {
    vrouter_op::Component::plan(cr, observed)
}

pub fn endpoint(name: &str, port: u16, tls: bool, nodes: &[&str]) -> Endpoint {
    let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
    Endpoint { name: name.into(), port, tls, nodes, ..Endpoint::default() }
}

pub fn peer(name: &str, endpoints: Vec<Endpoint>) -> Peer {
    let ready = json!({"type": "Ready", "status": "True", "reason": "Succeeded", "message": "",
        "lastTransitionTime": "2026-11-21T09:00:00Z"});
    let mut status: PeerStatus =
        serde_json::from_value(json!({"contract": "v1", "observedGeneration": 1, "conditions": [ready]}))
            .expect("a status");
    status.endpoints = endpoints;
    Peer { namespace: "tf".into(), name: name.into(), generation: 1, terminating: false, status }
}

/// Three control nodes, three config nodes, three collectors.
pub fn observed() -> Observed<Vrouter> {
    const HOSTS: [&str; 3] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
    let known = |peer| Source::Known(vec![peer]);
    let control = vec![endpoint("dns", 53, false, &HOSTS), endpoint("xmpp", 5269, true, &HOSTS)];
    Observed {
        operator: Operator { version: "0.1.0".into(), cluster_domain: "cluster.local".into(), ..Operator::default() },
        peers: BTreeMap::from([
            ("Control".to_owned(), known(peer("control1", control))),
            ("Config".to_owned(), known(peer("config1", vec![endpoint("api", 8082, true, &HOSTS)]))),
            ("Analytics".to_owned(), known(peer("analytics1", vec![endpoint("collector", 8086, true, &HOSTS)]))),
        ]),
        ..Observed::default()
    }
}

/// Every file of the plan's ConfigMaps and Secrets, by key.
pub fn files(plan: &Plan) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for object in &plan.objects {
        let Some(data) = object.body["data"].as_object() else { continue };
        for (key, value) in data {
            let text = value.as_str().expect("text");
            let text = match object.kind {
                CONFIG_MAP => text.to_owned(),
                SECRET => String::from_utf8(BASE64_STANDARD.decode(text).expect("base64")).expect("UTF-8"),
                _ => continue,
            };
            files.insert(key.clone(), text);
        }
    }
    files
}
