//! Rings of three as the operator sees them, and what it plans for them.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its input fails")]

use std::collections::BTreeMap;

use cassandra_op::{
    login,
    plan::{KEYSTORE_PASSWORD, TRUSTSTORE_PASSWORD, passwords_name, plan},
};
use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::json;
use tf_agent_api::{
    cassandra::{Facts, Peer},
    state::Status,
};
use tf_api::{Authentication, Cassandra};
use tf_plan::{
    observed::{Agent, Node, Observed, Source},
    plan::Plan,
    step::Step,
};
use tf_testing::three::{self, THREE};

pub const SET: &str = "configdb1-cassandra-statefulset";

pub fn heard() -> Peer {
    Peer { state: Some("NORMAL".into()), heard: Some(true), host_id: None }
}

/// A server of a ring that lacks nothing.
pub fn facts(index: usize) -> Facts {
    let peers = THREE.iter().filter(|(node, _)| *node != THREE[index].0);
    Facts {
        host_id: format!("host-{index}"),
        release: "5.0.9".into(),
        schema: "schema".into(),
        peers: peers.map(|(_, address)| (address.parse().unwrap(), heard())).collect(),
        ..Facts::default()
    }
}

pub fn agent(index: usize, facts: Option<Facts>) -> Agent {
    Agent::Says(Box::new(Status { cassandra: facts, ..three::status(SET, "cassandra", index) }))
}

pub fn resource() -> Cassandra {
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
pub fn running() -> Observed<Cassandra> {
    let node = |(name, address): &(&str, &str)| Node {
        name: (*name).to_owned(),
        address: Some((*address).to_owned()),
        labels: BTreeMap::from([("node-role.kubernetes.io/control-plane".to_owned(), String::new())]),
        ..Node::default()
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

pub fn planned(observed: &Observed<Cassandra>) -> Plan {
    plan(&resource(), observed).unwrap()
}

/// What the agent of a pod says.
pub fn says(observed: &mut Observed<Cassandra>, index: usize) -> &mut Status {
    let agent = observed.agents.get_mut(&format!("pod-{index}"));
    agent.and_then(|agent| if let Agent::Says(status) = agent { Some(status.as_mut()) } else { None }).unwrap()
}

/// Three members, each of whom runs with what it was founded with.
pub fn settled() -> Observed<Cassandra> {
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

pub const GRACE: u32 = 864_000;

/// What changes in the words of each server.
pub type Said<'a> = &'a dyn Fn(usize, &mut Facts);

/// A ring in which nothing else is to be done, whose servers repaired a keyspace so many days ago, or never.
pub fn repaired(days: [Option<i64>; 3], change: impl Fn(usize, &mut Facts)) -> Observed<Cassandra> {
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

/// A ring whose clients are to be asked for a password.
pub fn asking() -> Cassandra {
    let mut resource = resource();
    resource.spec.service_configuration.authentication = Some(Authentication::Password);
    resource
}

/// Its members when their servers say this, and none asks yet.
pub fn unasked(change: Said<'_>) -> Observed<Cassandra> {
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

/// What a server may say of another one.
pub fn peer() -> impl Strategy<Value = Peer> {
    let state = prop::sample::select(vec![None, Some("NORMAL"), Some("BOOT"), Some("LEAVING"), Some("shutdown")]);
    (state, any::<Option<bool>>()).prop_map(|(state, heard)| Peer {
        state: state.map(str::to_owned),
        heard,
        host_id: None,
    })
}
