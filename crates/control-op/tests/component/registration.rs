//! What of a Control is in the config API.

#![expect(clippy::unwrap_used, reason = "a situation that cannot be made is a failing test")]

use crate::support::{self, World, control};
use serde_json::{Value, json};
use tf_api::contract::{ConditionType, Reason};
use tf_plan::{
    component::Component as _,
    observed::{Pod, Source},
    plan::Plan,
    registration::{decide::decide, types},
};
use tf_testing::situation::{external, foreign};

/// Bodies of what is made in an API that has nothing of it yet, by paths.
fn made(plan: &Plan) -> Vec<(String, Value)> {
    let wanted = &plan.registration.as_ref().unwrap().wanted;
    let requests = decide(wanted, &[]).waves.concat().into_iter().map(|call| call.request());
    requests.map(|request| (request.path, request.body.unwrap_or_default())).collect()
}

fn routers(plan: &Plan) -> Vec<Value> {
    let routers = made(plan).into_iter().filter(|(path, _)| path == "/bgp-routers");
    routers.map(|(_, mut body)| body["bgp-router"].take()).collect()
}

#[test]
fn a_control_node_is_a_router_by_the_name_and_address_of_its_node_with_the_ports_and_number_of_the_spec() {
    let spec = json!({"serviceConfiguration": {"asnNumber": 64999, "bgpPort": 1179}});
    let plan = World::default().plan(&control(spec)).unwrap();
    let routers = routers(&plan);
    assert_eq!(routers.len(), 3);
    assert_eq!(routers[1]["fq_name"], json!(types::bgp_router("cp2")));
    let parameters = &routers[1]["bgp_router_parameters"];
    assert_eq!((&parameters["address"], &parameters["identifier"]), (&json!("10.0.0.2"), &json!("10.0.0.2")));
    assert_eq!((&parameters["autonomous_system"], &parameters["port"]), (&json!(64999), &json!(1179)));
    assert_eq!(parameters["router_type"], "control-node");
    let api = plan.registration.unwrap().api;
    assert_eq!((api.hosts.len(), api.port, api.tls), (3, 8082, true));
}

#[test]
fn a_subcluster_is_made_before_its_routers_which_know_their_peers() {
    let spec = json!({"serviceConfiguration": {"subcluster": "east", "asnNumber": 64999}});
    let plan = World::default().plan(&control(spec)).unwrap();
    let (path, cluster) = made(&plan).swap_remove(0);
    assert_eq!((path.as_str(), &cluster["sub-cluster"]["fq_name"]), ("/sub-clusters", &json!(["east"])));
    assert_eq!(cluster["sub-cluster"]["sub_cluster_asn"], 64999);
    assert!(
        routers(&plan).iter().all(|router| router["bgp_router_parameters"]["router_type"] == "external-control-node")
    );
    let wanted = plan.registration.unwrap().wanted;
    let second = wanted.records.iter().find(|record| record.name == types::bgp_router("cp2")).unwrap();
    let to: Vec<String> = second.references.iter().map(|reference| reference.to.join(":")).collect();
    let peer = |node: &str| types::bgp_router(node).join(":");
    assert_eq!(to, ["east".to_owned(), peer("cp1"), peer("cp3")]);
}

#[test]
fn a_member_that_is_not_ready_or_whose_node_is_lost_stays_and_one_that_left_goes_when_it_serves_no_more() {
    let world = World::default();
    let status = json!({"initialized": true, "observedGeneration": 1, "members": [
        {"id": 1, "node": "cp1", "address": "10.0.0.1"}, {"id": 2, "node": "cp2", "address": "10.0.0.2"},
        {"id": 3, "node": "cp3", "address": "10.0.0.3"}, {"id": 4, "node": "cp9", "address": "10.0.0.9"},
    ]});
    let control = support::with_status(&control(json!({})), status);
    let pod = |ready: bool| Pod {
        name: "control1-control-statefulset-3".into(),
        uid: "u".into(),
        node: Some("cp9".into()),
        ready,
        ..Pod::default()
    };
    // No pod of the other three is there, and their nodes are.
    let plan = |ready| {
        let observed = tf_plan::observed::Observed { pods: Source::Known(vec![pod(ready)]), ..world.observed() };
        control_op::Component::plan(&control, &observed).unwrap().registration.unwrap().wanted
    };
    assert_eq!(plan(true).records.len(), 3 + 1);
    assert!(plan(true).kept.contains(&types::bgp_router("cp9")));
    assert!(plan(false).kept.is_empty());
}

#[test]
fn without_the_password_of_keystone_nothing_is_registered_and_everything_else_goes_on() {
    let auth = json!({"authMode": "keystone", "keystoneSecretName": "admin"});
    let spec = json!({"commonConfiguration": {"authParameters": auth}});
    let plan = World::default().plan(&control(spec)).unwrap();
    assert!(plan.registration.is_none() && !plan.objects.is_empty());
    let told = plan.drafts.iter().find(|draft| draft.kind == ConditionType::Provisioned).unwrap();
    assert_eq!(told.reason, Reason::ProvisioningFailed);
    assert!(told.message.contains("Secret tf/admin does not exist"), "{}", told.message);
}

#[test]
fn an_api_of_another_authority_is_checked_against_that_by_the_operator() {
    let secret = foreign();
    let spec = json!({"dependencies": {"config": external(&[("api", 8082)])}});
    let mut observed = World::default().observed();
    observed.secrets.insert("outer".into(), secret.clone().into_iter().collect());
    let plan = control_op::Component::plan(&control(spec), &observed).unwrap();
    let api = plan.registration.unwrap().api;
    assert_eq!((api.hosts, api.tls, api.ca.as_ref()), (vec!["192.0.2.1".to_owned()], true, Some(&secret["ca.crt"])));
    let told = plan.ignored.concat();
    assert!(told.starts_with("spec.dependencies.config.external.secretRef: of its keys tls.crt"), "{told}");
    assert_eq!(World::default().plan(&control(json!({}))).unwrap().registration.unwrap().api.ca, None);
}
