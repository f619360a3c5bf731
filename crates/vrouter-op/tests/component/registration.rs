//! What agents are in the config API.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tf_agent_api::{state::Status, vrouter::Facts};
use tf_api::contract::{ConditionType, Reason};
use tf_config_api::{decide::decide, types};
use tf_plan::{
    object::NODE,
    observed::{Agent, Certificate, Node, Observed, Pod, Source},
    plan::Plan,
};

use crate::world::{observed, plan, vrouter};

type World = Observed<tf_api::Vrouter>;

fn node(name: &str, number: usize, labels: &[(&str, &str)]) -> Node {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Node {
        name: name.into(),
        labels,
        address: Some(format!("10.0.{}.{}", number / 200, number % 200 + 1)),
        ..Node::default()
    }
}

fn pod(node: &Node, ready: bool) -> Pod {
    Pod {
        name: format!("vrouter1-vrouter-daemonset-{}", node.name),
        uid: format!("uid-{}", node.name),
        node: Some(node.name.clone()),
        address: node.address.clone(),
        ready,
        ..Pod::default()
    }
}

/// Nodes of a rack, with a pod on each.
fn world(count: usize) -> World {
    let nodes: Vec<Node> = (0..count).map(|number| node(&format!("w{number}"), number, &[("rack", "a")])).collect();
    let pods = nodes.iter().map(|node| pod(node, true)).collect();
    Observed { nodes: Source::Known(nodes), pods: Source::Known(pods), ..observed() }
}

fn change<T>(source: &mut Source<Vec<T>>, change: impl FnOnce(&mut Vec<T>)) {
    if let Source::Known(list) = source {
        change(list);
    }
}

/// What the agent on a node says of itself; nothing as long as its file is not there.
fn hear(world: &mut World, name: &str, facts: Option<(&str, &str)>) {
    let vrouter = facts.map(|(name, address)| Facts { name: name.into(), address: address.into() });
    world.agents.insert(format!("uid-{name}"), Agent::Says(Box::new(Status { vrouter, ..Status::default() })));
}

fn certify(world: &mut World) {
    let certificate = Certificate { not_after: "2027-01-01T00:00:00Z".parse().expect("a time"), issuer: "ca".into() };
    change(&mut world.pods, |pods| pods.iter_mut().for_each(|pod| pod.certificate = Some(certificate.clone())));
}

fn made(plan: &Plan, path: &str, kind: &str) -> Vec<Value> {
    let wanted = &plan.registration.as_ref().expect("a registration").wanted;
    let requests = decide(wanted, &[]).waves.concat().into_iter().map(|call| call.request());
    requests.filter(|it| it.path == path).map(|it| it.body.unwrap_or_default()[kind].take()).collect()
}

fn routers(plan: &Plan) -> Vec<Value> {
    made(plan, "/virtual-routers", "virtual-router")
}

fn interfaces(plan: &Plan) -> Vec<Value> {
    made(plan, "/virtual-machine-interfaces", "virtual-machine-interface")
}

fn names(plan: &Plan) -> BTreeSet<String> {
    routers(plan).iter().map(|it| it["fq_name"][1].as_str().expect("a name").to_owned()).collect()
}

fn kept(plan: &Plan, name: &str) -> bool {
    plan.registration.as_ref().expect("a registration").wanted.kept.contains(&types::in_system(name))
}

fn spec(fields: Value) -> tf_api::Vrouter {
    vrouter(json!({"serviceConfiguration": fields}))
}

fn told(plan: &Plan) -> &str {
    &plan.drafts.iter().find(|draft| draft.kind == ConditionType::Provisioned).expect("a draft").message
}

#[test]
fn an_agent_is_a_router_with_an_interface_in_the_network_between_the_nodes() {
    let plan = plan(&spec(json!({})), &world(2)).unwrap();
    let router = routers(&plan).swap_remove(0);
    assert_eq!(router["fq_name"], json!(types::in_system("w0")));
    assert_eq!(router["virtual_router_ip_address"], "10.0.0.1");
    assert_eq!(router["virtual_router_dpdk_enabled"], false);
    assert_eq!((router.get("virtual_router_type"), router.get("sub_cluster_refs")), (None, None));
    let interface = interfaces(&plan).swap_remove(0);
    assert_eq!(interface["fq_name"], json!(["default-global-system-config", "w0", "vhost0"]));
    assert_eq!(
        (&interface["parent_type"], &interface["virtual_machine_interface_disable_policy"]),
        (&json!("virtual-router"), &json!(false))
    );
    assert_eq!(interface["virtual_network_refs"][0]["to"], json!(types::fabric()));
    let api = &plan.registration.as_ref().expect("a registration").api;
    assert_eq!((api.hosts.len(), api.port, api.tls), (3, 8082, true));
}

#[test]
fn fields_of_the_spec_are_in_the_api() {
    let fields = json!({"subcluster": "east", "sriovPhysicalInterface": "eth2", "sriovPhysicalNetwork": "physnet1"});
    let router = routers(&plan(&spec(fields), &world(1)).unwrap()).swap_remove(0);
    assert_eq!(router["sub_cluster_refs"][0]["to"], json!(["east"]));
    assert_eq!(
        router["virtual_router_sriov_physical_networks"],
        json!({"key_value_pair": [{"key": "physnet1", "value": "eth2"}]})
    );
    let tsn = plan(&spec(json!({"tsnAgentMode": "tsn"})), &world(1)).unwrap();
    assert_eq!(routers(&tsn)[0]["virtual_router_type"], "tor-service-node");
    assert!(interfaces(&tsn).is_empty());
    let openstack = plan(&spec(json!({"cloudOrchestrator": "openstack"})), &world(1)).unwrap();
    assert_eq!(interfaces(&openstack)[0]["virtual_machine_interface_disable_policy"], true);
    let unknown = plan(&spec(json!({"cloudOrchestrator": "kubernets"})), &world(1)).unwrap();
    assert_eq!(interfaces(&unknown)[0]["virtual_machine_interface_disable_policy"], true);
    let is_told = |plan: &Plan| plan.notes.iter().any(|note| note.contains("serviceConfiguration.cloudOrchestrator"));
    assert!(is_told(&unknown) && !is_told(&openstack) && !is_told(&tsn), "{:?}", unknown.notes);
    let fewer = json!({"sriovPhysicalInterface": "eth2,eth3", "sriovPhysicalNetwork": "physnet1"});
    let why = plan(&spec(fewer), &world(1)).unwrap_err();
    assert!(why.message.contains("sriovPhysicalNetwork"), "{}", why.message);
}

#[test]
fn a_node_keeps_what_it_has_until_it_is_gone_or_selected_no_more() {
    let cr = vrouter(json!({"groups": [{"name": "a", "nodeSelector": {"rack": "a"}}]}));
    let mut world = world(4);
    // Not ready; without a pod; moved to another rack while its agent serves.
    change(&mut world.pods, |pods| {
        pods[1].ready = false;
        pods.remove(2);
    });
    change(&mut world.nodes, |nodes| drop(nodes[3].labels.insert("rack".into(), "b".into())));
    let serving = plan(&cr, &world).unwrap();
    assert_eq!(names(&serving), ["w0", "w1"].map(str::to_owned).into());
    assert!(kept(&serving, "w2") && kept(&serving, "w3"));
    let wanted = &serving.registration.as_ref().unwrap().wanted;
    assert!(wanted.kept.contains(&vec!["default-global-system-config".into(), "w2".into(), "vhost0".into()]));
    // Its agent has ended; the Node of another one is gone, and its pod is not yet.
    change(&mut world.pods, |pods| pods[2].ready = false);
    change(&mut world.nodes, |nodes| drop(nodes.remove(0)));
    let left = plan(&cr, &world).unwrap();
    assert_eq!(names(&left), ["w1".to_owned()].into());
    assert!(kept(&left, "w2") && !kept(&left, "w3") && !kept(&left, "w0"));
}

#[test]
fn an_agent_is_who_it_says_and_one_that_does_not_say_keeps_what_it_has() {
    let mut world = world(3);
    certify(&mut world);
    let early = plan(&spec(json!({})), &world).unwrap().registration.unwrap();
    assert!(early.is_early && early.wanted.records.is_empty(), "nobody has been heard");
    hear(&mut world, "w0", Some(("n0", "192.0.2.1")));
    hear(&mut world, "w1", None);
    world.agents.insert("uid-w2".into(), Agent::Silent("no answer".into()));
    let plan = plan(&spec(json!({})), &world).unwrap();
    let routers = routers(&plan);
    assert_eq!(routers.len(), 1);
    assert_eq!(
        (&routers[0]["fq_name"][1], &routers[0]["virtual_router_ip_address"]),
        (&json!("n0"), &json!("192.0.2.1"))
    );
    assert!(kept(&plan, "w1") && kept(&plan, "w2") && !plan.registration.unwrap().is_early);
}

#[test]
fn an_agent_with_another_address_than_its_node_is_not_guessed() {
    for fields in [
        json!({"dataSubnet": "10.9.0.0/16"}),
        json!({"envVariablesConfig": {"VROUTER_COMPUTE_NODE_ADDRESS": "10.9.0.1"}}),
    ] {
        let plan = plan(&spec(fields), &world(1)).unwrap();
        assert!(names(&plan).is_empty() && kept(&plan, "w0"));
    }
}

#[test]
fn agents_of_one_name_are_told_of_and_not_registered() {
    let fields = json!({"envVariablesConfig": {"VROUTER_HOSTNAME": "n"}});
    assert_eq!(names(&plan(&spec(fields.clone()), &world(1)).unwrap()), ["n".to_owned()].into());
    let both = plan(&spec(fields), &world(2)).unwrap();
    assert!(both.registration.is_none() && !both.objects.is_empty());
    assert!(told(&both).contains("nodes w0 and w1 are both called n"), "{}", told(&both));
}

#[test]
fn nothing_is_registered_where_nobody_asks_for_a_config_api() {
    let mut world = world(1);
    world.peers = BTreeMap::new();
    let alone = plan(&spec(json!({})), &world).unwrap();
    assert!(alone.registration.is_none() && alone.drafts.iter().all(|it| it.kind != ConditionType::Provisioned));
    let named = json!({"CONFIG_NODES": "10.1.0.1,10.1.0.2"});
    let named = plan(&spec(json!({"envVariablesConfig": named, "configApiSslEnable": false})), &world).unwrap();
    let api = named.registration.unwrap().api;
    assert_eq!((api.hosts, api.tls), (vec!["10.1.0.1".to_owned(), "10.1.0.2".to_owned()], false));
}

#[test]
fn nodes_that_cannot_be_seen_are_told_of_and_nothing_is_taken_out() {
    let mut world = world(1);
    let why = tf_plan::observed::Unavailable {
        reason: Reason::Forbidden,
        message: format!("{} cannot be listed", NODE.plural),
    };
    world.nodes = Source::Unavailable(why);
    let blind = plan(&spec(json!({})), &world).unwrap();
    assert!(blind.registration.is_none());
    assert_eq!(told(&blind), "nodes cannot be listed");
}

#[test]
fn five_hundred_nodes_are_asked_for_in_two_lists() {
    let plan = plan(&spec(json!({})), &world(500)).unwrap();
    let wanted = &plan.registration.as_ref().expect("a registration").wanted;
    assert_eq!((wanted.scopes.len(), wanted.records.len()), (2, 1000));
    assert!(wanted.listing(&wanted.scopes[0], &[]).unwrap().path.len() < 400);
}
