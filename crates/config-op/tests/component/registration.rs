//! What of a Config is in its own API.

#![expect(clippy::unwrap_used, reason = "a situation that cannot be made is a failing test")]

use serde_json::{Map, Value, json};
use tf_config_api::{
    call::Call,
    decide::{Seen, decide},
    types,
};
use tf_plan::{
    component::Component as _,
    observed::{Observed, Pod, Source},
    plan::Plan,
};
use tf_testing::golden;

/// Options of everything that people may have set.
const GLOBAL: [&str; 4] = [
    "encapsulation_priorities",
    "vxlan_network_identifier_mode",
    "ecmp_hashing_include_fields",
    "graceful_restart_parameters",
];

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

#[test]
fn options_of_everything_are_those_of_the_spec_in_full() {
    let plan = plan(json!({
        "encapsulationPriorities": ["VXLAN", "MPLSoUDP"],
        "vxlanNetworkIdentifierMode": "configured",
        "ecmpHashingIncludeFields": {"sourcePort": false},
        "gracefulRestartParameters": {"restartTime": 60, "xmppHelperEnable": true},
        "linklocalServiceConfig": {"ipFabricServiceHost": "10.0.0.60"},
        "linklocalServices": [
            {"name": "time", "ip": "169.254.169.253", "port": 123, "ipFabricServiceHosts": ["10.0.0.5", "fd00::5"], "ipFabricServicePort": 1123},
            {"name": "files", "ip": "169.254.169.252", "port": 80, "ipFabricServiceHosts": ["files.example.org"], "ipFabricServicePort": 8080},
        ],
    }));
    let vrouters = made(&plan, "/global-vrouter-configs").swap_remove(0);
    assert_eq!(vrouters["encapsulation_priorities"], json!({"encapsulation": ["VXLAN", "MPLSoUDP"]}));
    assert_eq!(vrouters["vxlan_network_identifier_mode"], "configured");
    let hashing = json!({
        "hashing_configured": true, "source_ip": true, "destination_ip": true, "ip_protocol": true, "source_port": false,
        "destination_port": true,
    });
    assert_eq!(vrouters["ecmp_hashing_include_fields"], hashing);
    let services = vrouters["linklocal_services"]["linklocal_service_entry"].as_array().unwrap();
    let names: Vec<&Value> = services.iter().map(|service| &service["linklocal_service_name"]).collect();
    assert_eq!(names, ["files", "metadata", "time"]);
    assert_eq!(services[0]["ip_fabric_DNS_service_name"], "files.example.org");
    assert_eq!(services[2]["ip_fabric_service_ip"], json!(["10.0.0.5", "fd00::5"]));
    assert_eq!(
        (&services[2]["linklocal_service_port"], &services[2]["ip_fabric_service_port"]),
        (&json!(123), &json!(1123))
    );
    let system = made(&plan, "/global-system-configs").swap_remove(0);
    let restart = json!({
        "enable": true, "restart_time": 60, "long_lived_restart_time": 300, "end_of_rib_timeout": 300,
        "bgp_helper_enable": false, "xmpp_helper_enable": true,
    });
    assert_eq!(system["graceful_restart_parameters"], restart);
}

#[test]
fn what_the_spec_leaves_out_is_as_people_set_it_in_the_api() {
    let encapsulations = json!({"encapsulation": ["VXLAN"]});
    let hashing = json!({"hashing_configured": true, "source_ip": false, "destination_ip": false});
    let restart = json!({"enable": true, "restart_time": 7});
    let seen = |kind, name, properties: Value| Seen {
        kind,
        uuid: "u".into(),
        name,
        properties: properties.as_object().unwrap().clone(),
    };
    let present = [
        seen(types::GLOBAL_SYSTEM_CONFIG, types::system(), json!({"graceful_restart_parameters": restart})),
        seen(
            types::GLOBAL_VROUTER_CONFIG,
            types::in_system("default-global-vrouter-config"),
            json!({
                "encapsulation_priorities": encapsulations,
                "vxlan_network_identifier_mode": "configured",
                "ecmp_hashing_include_fields": hashing,
            }),
        ),
    ];
    let changed = |settings: Value| -> Map<String, Value> {
        let calls = decide(&plan(settings).registration.unwrap().wanted, &present).waves.concat();
        let bodies = calls.into_iter().filter_map(|call| match call {
            Call::Update { body, .. } => Some(body),
            _ => None,
        });
        bodies.flatten().filter(|(property, _)| GLOBAL.contains(&property.as_str())).collect()
    };
    assert_eq!(changed(json!({})), Map::new());
    let stated = changed(json!({
        "ecmpHashingIncludeFields": {"sourceIp": true},
        "gracefulRestartParameters": {"enable": false},
        "vxlanNetworkIdentifierMode": "automatic",
    }));
    let expected = json!({
        "ecmp_hashing_include_fields": {
            "hashing_configured": true, "source_ip": true, "destination_ip": false, "ip_protocol": true, "source_port": true,
            "destination_port": true,
        },
        "graceful_restart_parameters": {
            "enable": false, "restart_time": 7, "long_lived_restart_time": 300, "end_of_rib_timeout": 300,
            "bgp_helper_enable": false, "xmpp_helper_enable": false,
        },
        "vxlan_network_identifier_mode": "automatic",
    });
    assert_eq!(Value::Object(stated), expected);
}
