//! How a ring of the Go tf-operator is taken over.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its input fails")]

use std::{cell::RefCell, collections::BTreeMap, time::Duration};

use cassandra_op::plan::plan;
use proptest::prelude::*;
use serde_json::{Value, json};
use tf_agent_api::{cassandra::Facts, state::Status};
use tf_api::{Authentication, Cassandra};
use tf_pki::authority::{Authority, Curve};
use tf_plan::{
    observed::{Legacy, Observed, Pod, Source},
    plan::Plan,
    takeover::data::{AUTHORITY, BUNDLE},
};
use tf_testing::three;

use crate::ring::*;

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
    observed.config_maps.insert(AUTHORITY.into(), BTreeMap::from([data(BUNDLE)]));
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
        Pod { images, legacy: Some(Legacy::default()), ..three::former(SET, index) }
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
}
