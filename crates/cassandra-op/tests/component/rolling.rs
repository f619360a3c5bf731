//! Which member takes a change now, and what that waits for.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its input fails")]

use cassandra_op::plan::plan;
use proptest::prelude::*;
use tf_agent_api::{
    cassandra::{Change, Facts, Peer},
    state,
};
use tf_api::contract::{ConditionStatus, ConditionType, Reason};
use tf_plan::{
    observed::{Agent, Pod, Source},
    plan::Plan,
    step::{Request, Step},
};
use tf_testing::three::THREE;

use crate::ring::*;

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

#[test]
fn what_a_ring_was_founded_with_is_no_reason_for_a_change_when_it_is_brought_up() {
    let plan = planned(&settled());
    assert_eq!((plan.step, plan.under_way), (None, None));
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
        (said(untold), "-1 does not report its gossip state yet: nodetool: no such file"),
        (sees(None, None), "10.0.0.1 is not in the ring yet"),
        (sees(Some("NORMAL"), Some(false)), "-1 sees 10.0.0.1 as DOWN"),
        (sees(Some("NORMAL"), None), "-1 has not seen 10.0.0.1 as UP for long enough yet"),
        (sees(Some("LEAVING"), Some(true)), "10.0.0.1 is in the state LEAVING"),
        (sees(Some(""), None), "10.0.0.1 is not in the ring yet"),
        (said(|facts| facts.schema = "another".into()), "go by different versions of the schema"),
        (said(|facts| drop(facts.peers.remove(&THREE[2].1.parse().unwrap()))), "10.0.0.3 is not in the ring of pod"),
        (said(stranger), "-1 sees 10.0.0.9 as DOWN"),
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
    assert!(plan.under_way.unwrap().contains("does not report the state of its ring: the server wants a password"));
}

#[test]
fn a_server_that_does_not_hear_another_one_that_runs_is_told() {
    let troubles = sees(Some("NORMAL"), Some(false)).troubles;
    let [(pod, why)] = troubles.iter().collect::<Vec<_>>()[..] else { panic!("{troubles:?}") };
    assert_eq!(
        (pod.as_str(), why.as_str()),
        ("configdb1-cassandra-statefulset-1", "its server sees 10.0.0.1 as DOWN, which is running")
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
                is_whole &= peer == heard();
                *known = peer;
            }
            observed.agents.insert(format!("pod-{index}"), agent(index, Some(facts)));
        }
        prop_assert_eq!(planned(&observed).step.is_some(), is_whole);
    }
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
