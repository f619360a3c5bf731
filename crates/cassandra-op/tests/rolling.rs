//! Which member takes a change now, and what that waits for.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its input fails")]

use std::collections::BTreeMap;

use cassandra_op::plan::{KEYSTORE_PASSWORD, TRUSTSTORE_PASSWORD, passwords_name, plan};
use proptest::prelude::*;
use serde_json::{Value, json};
use tf_api::{
    Cassandra,
    contract::{ConditionStatus, ConditionType, Reason},
};
use tf_plan::{
    node::{
        cassandra::{Facts, Peer},
        state::{self, Health, Phase, State, Status},
    },
    observed::{Agent, Certificate, Node, Observed, Pod, Source, Workload},
    plan::Plan,
    step::Step,
};

const THREE: [(&str, &str); 3] = [("cp1", "10.0.0.1"), ("cp2", "10.0.0.2"), ("cp3", "10.0.0.3")];
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
    let state = State { phase: Phase::Running, active: Some("1".repeat(32).parse().unwrap()), ..State::default() };
    Agent::Says(Box::new(Status {
        pod: format!("{SET}-{index}"),
        node: THREE[index].0.into(),
        address: THREE[index].1.into(),
        daemons: BTreeMap::from([("cassandra".to_owned(), state)]),
        health: Some(Health { serves: true, message: "port 9041".into() }),
        cassandra: facts,
        ..Status::default()
    }))
}

fn pod(index: usize) -> Pod {
    Pod {
        name: format!("{SET}-{index}"),
        uid: format!("pod-{index}"),
        node: Some(THREE[index].0.into()),
        address: Some(THREE[index].1.into()),
        ready: true,
        template: Some("unknown".into()),
        certificate: Some(Certificate { not_after: "2027-02-19T10:00:00Z".parse().unwrap(), issuer: "00ff".into() }),
        ..Pod::default()
    }
}

fn resource() -> Cassandra {
    let member =
        |(id, (node, address)): (usize, &(&str, &str))| json!({"id": id + 1, "node": node, "address": address});
    let members: Vec<Value> = THREE.iter().enumerate().map(member).collect();
    serde_json::from_value(json!({
        "apiVersion": "tf.tungsten.io/v1alpha1",
        "kind": "Cassandra",
        "metadata": {"name": "configdb1", "namespace": "tf", "uid": "u", "generation": 1},
        "spec": {},
        "status": {"contract": "v1", "initialized": true, "members": members},
    }))
    .unwrap()
}

/// Three members, each of whom runs with an old configuration.
fn running() -> Observed<Cassandra> {
    let node = |(name, address): &(&str, &str)| Node {
        name: (*name).to_owned(),
        address: Some((*address).to_owned()),
        labels: BTreeMap::from([("node-role.kubernetes.io/control-plane".to_owned(), String::new())]),
    };
    let password = |key: &str| (key.to_owned(), "secret".to_owned());
    let set = Workload { name: SET.into(), current: false, wanted: 3, existing: 3, ready: 3, ..Workload::default() };
    Observed {
        nodes: Source::Known(THREE.iter().map(node).collect()),
        secrets: BTreeMap::from([(
            passwords_name(&resource()),
            [password(KEYSTORE_PASSWORD), password(TRUSTSTORE_PASSWORD)].into_iter().collect(),
        )]),
        now: "2026-11-21T10:00:00Z".parse().unwrap(),
        pods: Source::Known((0..3).map(pod).collect()),
        agents: (0..3).map(|index| (format!("pod-{index}"), agent(index, Some(facts(index))))).collect(),
        workloads: BTreeMap::from([(SET.to_owned(), set)]),
        ..Observed::default()
    }
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

#[test]
fn what_a_ring_was_founded_with_is_no_reason_for_a_change_when_it_is_brought_up() {
    let mut founded = resource();
    founded.status.as_mut().unwrap().contract.initialized = Some(false);
    let mut observed = running();
    for index in (0..3).rev() {
        let plan = plan(&founded, &observed).unwrap();
        let Some(Step::Activate(target, hash)) = plan.step else { panic!("{:?}", plan.step) };
        assert_eq!(target.pod, format!("{SET}-{index}"));
        let Some(Agent::Says(status)) = observed.agents.get_mut(&format!("pod-{index}")) else { panic!("no agent") };
        status.daemons.get_mut("cassandra").unwrap().active = Some(hash);
    }
    let plan = planned(&observed);
    assert_eq!((plan.step, plan.under_way), (None, None));
}

#[test]
fn a_member_that_serves_is_not_touched_while_a_server_sees_something_else_than_a_whole_ring() {
    let stranger = |facts: &mut Facts| {
        facts.peers.insert("10.0.0.9".parse().unwrap(), Peer { heard: Some(false), ..heard() });
    };
    let cases: [(Plan, &str); 7] = [
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
fn a_server_that_cannot_tell_what_it_hears_is_taken_at_the_others_own_word() {
    assert!(sees(None, None).step.is_some());
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
    });
    let drafts = planned(&observed).drafts;
    let told = drafts.iter().find(|draft| draft.kind == ConditionType::CertificatesReady).unwrap();
    assert_eq!((told.status, told.reason), (ConditionStatus::False, Reason::CertificatePending));
    assert!(told.message.starts_with(&format!("{SET}-1: the daemon does not read")), "{}", told.message);
}

proptest! {
    #[test]
    fn no_member_that_serves_is_stopped_where_a_server_does_not_hear_another_one(
        peers in prop::collection::vec(prop::collection::vec(prop_oneof![3 => Just(heard()), 1 => peer()], 2), 3),
    ) {
        let mut observed = running();
        let mut is_whole = true;
        for (index, peers) in peers.into_iter().enumerate() {
            let mut facts = facts(index);
            for (known, peer) in facts.peers.values_mut().zip(peers) {
                is_whole &= peer.state.is_none() || peer == heard();
                *known = peer;
            }
            observed.agents.insert(format!("pod-{index}"), agent(index, Some(facts)));
        }
        prop_assert_eq!(planned(&observed).step.is_some(), is_whole);
    }
}
