//! What of a Control is in the config API.

#![expect(clippy::unwrap_used, reason = "a situation that cannot be made is a failing test")]

use std::collections::BTreeSet;

use crate::support::{self, World, control};
use serde_json::{Value, json};
use tf_api::contract::{ConditionType, Reason};
use tf_config_api::{
    call::Call,
    decide::{Seen, Wanted, decide},
    types,
};
use tf_plan::{
    component::Component as _,
    observed::{Pod, Source},
    plan::Plan,
};
use tf_sim::rest::{Memory, Rest};
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

/// Asks an API that is played for everything that is wanted, or was.
async fn seen(api: &Rest<Memory>, wanted: &Wanted) -> Vec<Seen> {
    let mut seen = Vec::new();
    for scope in &wanted.scopes {
        let Some(question) = wanted.listing(scope, &seen) else { continue };
        let (_, text) = api.answer(question.method, &question.path, b"").await;
        seen.extend(scope.read(serde_json::from_str(&text).unwrap()).unwrap());
    }
    seen
}

/// Does there what a spec with this subcluster asks for, until nothing is left to do. What is there then.
async fn settled(api: &Rest<Memory>, subcluster: Option<&str>) -> Vec<Seen> {
    let spec = json!({"serviceConfiguration": {"subcluster": subcluster.unwrap_or_default()}});
    let wanted = World::default().plan(&control(spec)).unwrap().registration.unwrap().wanted;
    for turn in 0.. {
        assert!(turn < 5, "it has no end");
        let seen = seen(api, &wanted).await;
        let decision = decide(&wanted, &seen);
        assert_eq!((decision.troubles.as_slice(), decision.notes.as_slice()), ([].as_slice(), [].as_slice()));
        if decision.waves.is_empty() {
            return seen;
        }
        for request in decision.waves.concat().iter().map(Call::request) {
            let body = request.body.unwrap_or_default().to_string();
            let (status, why) = api.answer(request.method, &request.path, body.as_bytes()).await;
            assert!(status.is_success(), "{} {}: {why}", request.method, request.path);
        }
    }
    unreachable!("turns have an end")
}

#[tokio::test]
async fn a_subcluster_that_becomes_another_one_or_none_leaves_nothing_behind() {
    let api = Rest::new(Memory::default());
    api.begin().await.unwrap();
    for (subcluster, router_type) in [
        (Some("east"), "external-control-node"),
        (Some("west"), "external-control-node"),
        (None, "control-node"),
        (Some("east"), "external-control-node"),
    ] {
        let seen = settled(&api, subcluster).await;
        let of = |kind| seen.iter().filter(move |it| it.kind == kind);
        let clusters: Vec<&str> = of(types::SUB_CLUSTER).map(|it| it.name[0].as_str()).collect();
        assert_eq!(clusters, subcluster.into_iter().collect::<Vec<_>>());
        let referred = |router: &Seen, property: &str| -> Vec<Value> {
            let list = router.properties.get(property).and_then(Value::as_array);
            list.into_iter().flatten().map(|reference| reference["to"].clone()).collect()
        };
        assert_eq!(of(types::BGP_ROUTER).count(), 3);
        for router in of(types::BGP_ROUTER) {
            assert_eq!(router.properties["bgp_router_parameters"]["router_type"], router_type, "{subcluster:?}");
            let cluster: Vec<Value> = subcluster.map(|name| json!([name])).into_iter().collect();
            assert_eq!(referred(router, "sub_cluster_refs"), cluster, "{subcluster:?}");
            let peers = if subcluster.is_some() { 2 } else { 0 };
            assert_eq!(referred(router, "bgp_router_refs").len(), peers, "{subcluster:?}");
        }
    }
}

#[tokio::test]
async fn a_router_that_a_person_deletes_is_made_again() {
    let api = Rest::new(Memory::default());
    api.begin().await.unwrap();
    let before = settled(&api, Some("east")).await;
    let router = before.iter().find(|it| it.name == types::bgp_router("cp2")).unwrap();
    // What refers to it does not hold it.
    let (status, why) = api.answer("DELETE", &format!("/bgp-router/{}", router.uuid), b"").await;
    assert!(status.is_success(), "{why}");
    let after = settled(&api, Some("east")).await;
    let names = |seen: &[Seen]| seen.iter().map(|it| it.name.clone()).collect::<BTreeSet<_>>();
    assert_eq!(names(&after), names(&before));
    let system = after.iter().find(|it| it.name == types::system()).unwrap();
    assert_eq!(system.properties["bgp_router_refs"].as_array().map(Vec::len), Some(3));
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
