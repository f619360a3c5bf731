//! What of a Config is in its own API.

#![expect(clippy::unwrap_used, reason = "a situation that cannot be made is a failing test")]

use serde_json::{Value, json};
use tf_plan::{
    component::Component as _,
    observed::{Observed, Pod, Source},
    plan::Plan,
    registration::decide::decide,
};
use tf_testing::golden;

/// The plan of a recorded situation whose spec has these settings, too, with one pod that serves.
fn plan(settings: Value) -> Plan {
    let (cr, observed) =
        golden::situation::<config_op::Component>(env!("CARGO_MANIFEST_DIR"), "three-nodes-without-analytics");
    let mut cr = serde_json::to_value(cr).unwrap();
    for (field, value) in settings.as_object().unwrap() {
        cr["spec"]["serviceConfiguration"][field] = value.clone();
    }
    let pod = |address: &str, ready| Pod {
        name: format!("config1-config-statefulset-{address}"),
        address: Some(address.into()),
        ready,
        ..Pod::default()
    };
    let pods = Source::Known(vec![pod("10.0.0.1", false), pod("10.0.0.2", true)]);
    config_op::Component::plan(&serde_json::from_value(cr).unwrap(), &Observed { pods, ..observed }).unwrap()
}

fn made(plan: &Plan, path: &str) -> Vec<Value> {
    let wanted = &plan.registration.as_ref().unwrap().wanted;
    let requests = decide(wanted, &[]).waves.concat().into_iter().map(|call| call.request());
    let of_path = requests.filter(|request| request.path == path);
    of_path.map(|request| request.body.unwrap()[path[1..].trim_end_matches('s')].clone()).collect()
}

#[test]
fn nodes_are_told_to_a_member_that_serves() {
    let plan = plan(json!({}));
    assert_eq!(plan.registration.as_ref().unwrap().api.hosts, ["10.0.0.2"]);
    let nodes = made(&plan, "/config-nodes");
    assert_eq!(nodes.len(), 3);
    assert_eq!(nodes[0]["parent_type"], "global-system-config");
    assert_eq!(nodes[0]["config_node_ip_address"], plan.members[0].address);
    assert_eq!(nodes[0]["fq_name"], json!(["default-global-system-config", plan.members[0].node]));
}

#[test]
fn a_link_local_service_of_no_host_is_not_registered_and_that_is_told() {
    let plan = plan(json!({"linklocalServiceConfig": {"name": "metadata"}}));
    let vrouters = made(&plan, "/global-vrouter-configs").swap_remove(0);
    assert_eq!(vrouters["linklocal_services"]["linklocal_service_entry"].as_array().map_or(0, Vec::len), 0);
    assert!(plan.ignored.iter().any(|field| field.contains("ipFabricServiceHost is missing")), "{:?}", plan.ignored);
}

#[test]
fn settings_of_everything_are_those_of_the_spec() {
    let plan = plan(json!({
        "globalASNNumber": 70000, "bgpEnable4Byte": true, "bgpAutoMesh": false,
        "linklocalServiceConfig": {"ipFabricServiceHost": "metadata.example.org", "name": "metadata"},
    }));
    let system = made(&plan, "/global-system-configs").swap_remove(0);
    let settings = ["autonomous_system", "enable_4byte_as", "ibgp_auto_mesh"].map(|name| system[name].clone());
    assert_eq!(settings, [json!(70000), json!(true), json!(false)]);
    let vrouters = made(&plan, "/global-vrouter-configs").swap_remove(0);
    assert_eq!(vrouters["encapsulation_priorities"]["encapsulation"][0], "MPLSoUDP");
    let entry = &vrouters["linklocal_services"]["linklocal_service_entry"][0];
    assert_eq!(entry["ip_fabric_DNS_service_name"], "metadata.example.org");
    assert_eq!(
        (&entry["linklocal_service_ip"], &entry["linklocal_service_port"]),
        (&json!("169.254.169.254"), &json!(80))
    );
}
