//! The files, read as their consumers read them.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its input fails")]

use std::collections::BTreeMap;

use rabbitmq_op::plan::plan;
use serde_json::{Value, json};
use tf_config_files::{
    env,
    read::{self, Cuttlefish},
};
use tf_plan::{
    credentials::{rabbitmq_hash, rabbitmq_salt},
    plan::Plan,
};

use crate::support::{PASSWORD, files, hosts, listed, observed, resource, secret_files};

const THREE: [(&str, &str); 3] = [("cp1", "10.0.0.1"), ("cp2", "10.0.0.2"), ("cp3", "10.0.0.3")];

/// `rabbitmq.conf` of a member; both grammars read the same.
fn config(files: &BTreeMap<String, String>, key: &str) -> BTreeMap<String, String> {
    let text = &files[&format!("rabbitmq.conf.{key}")];
    let settings = read::sysctl(text, Cuttlefish::Unquoted).unwrap();
    assert_eq!(read::sysctl(text, Cuttlefish::Quoted).as_ref(), Ok(&settings));
    settings
}

/// The plan for these nodes with this `spec.serviceConfiguration`.
fn planned(nodes: &[(&str, &str)], service: &Value) -> Plan {
    let cr = resource("rabbitmq1", &json!({ "serviceConfiguration": service }), &json!({}));
    plan(&cr, &observed("rabbitmq1", nodes)).unwrap()
}

/// `rabbitmq.conf` of the first of three members.
fn first_config(service: &Value) -> BTreeMap<String, String> {
    config(&files(&planned(&THREE, service)), "10.0.0.1")
}

fn definitions(service: &Value) -> Value {
    serde_json::from_str(&secret_files(&planned(&THREE, service))["definitions.json"]).unwrap()
}

#[test]
fn every_member_lists_all_members_in_the_order_they_joined() {
    let members = json!([
        { "id": 1, "node": "cp3", "address": "10.0.0.3" },
        { "id": 2, "node": "cp1", "address": "10.0.0.1" },
        { "id": 3, "node": "cp2", "address": "10.0.0.2" },
    ]);
    let cr = resource("rabbitmq1", &json!({}), &json!({ "contract": "v1", "members": members }));
    let files = files(&plan(&cr, &observed("rabbitmq1", &THREE)).unwrap());
    let expected = ["rabbit@cp3.cluster.local", "rabbit@cp1.cluster.local", "rabbit@cp2.cluster.local"];
    assert_eq!(listed(&files), expected);
    let known: Vec<_> = hosts(&files["erl_hosts"]).into_iter().map(|(address, _)| address.to_string()).collect();
    assert_eq!(known, ["10.0.0.3", "10.0.0.1", "10.0.0.2"]);
}

#[test]
fn a_member_listens_on_its_own_address_only_and_asks_clients_for_certificates() {
    let settings = first_config(&json!({}));
    assert_eq!(settings["listeners.tcp"], "none");
    assert_eq!(settings["listeners.ssl.default"], "10.0.0.1:5673");
    assert_eq!(settings["distribution.listener.interface"], "10.0.0.1");
    assert_eq!(settings["ssl_options.verify"], "verify_peer");
    assert_eq!(settings["ssl_options.fail_if_no_peer_cert"], "true");
    assert_eq!(settings["management.ssl.ip"], "10.0.0.1");
    assert_eq!(settings["prometheus.ssl.ip"], "10.0.0.1");
    for (listener, first) in [("ssl_options", "tlsv1.2"), ("management.ssl", "tlsv1.3"), ("prometheus.ssl", "tlsv1.3")]
    {
        assert_eq!(settings[&format!("{listener}.versions.1")], first);
        assert_eq!(settings[&format!("{listener}.keyfile")], "/etc/certificates/keystore.pem");
        assert_eq!(settings[&format!("{listener}.cacertfile")], "/etc/certificates/truststore.pem");
    }
    assert!(settings.keys().all(|key| !key.starts_with("management.tcp") && !key.starts_with("prometheus.tcp")));
}

#[test]
fn every_port_follows_the_one_for_amqp() {
    let settings = first_config(&json!({ "port": 5700, "erlEpmdPort": 4400 }));
    assert_eq!(settings["listeners.ssl.default"], "10.0.0.1:5700");
    assert_eq!(settings["management.ssl.port"], "15700");
    assert_eq!(settings["prometheus.ssl.port"], "15719");
    assert_eq!(settings["distribution.listener.port_range.min"], "25700");
    assert_eq!(settings["distribution.listener.port_range.max"], "25700");
}

#[test]
fn ipv6_addresses_stand_without_brackets_and_switch_the_distribution() {
    let nodes = [("cp1", "fd00::1"), ("cp2", "fd00::2")];
    let files = files(&planned(&nodes, &json!({})));
    let settings = config(&files, "fd00--1");
    assert_eq!(settings["listeners.ssl.default"], "fd00::1:5673");
    let variables = env::parse(&files["rabbitmq-env.conf.fd00--1"]).unwrap();
    assert_eq!(variables["ERL_EPMD_ADDRESS"], "fd00::1");
    let distribution = "-proto_dist inet6_tls -ssl_dist_optfile /etc/contrail/inter_node_tls.config";
    let arguments = format!("-ssl ssl_pem_cache_clean 1000 {distribution}");
    assert_eq!(variables["RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS"], arguments);
    assert_eq!(variables["RABBITMQ_CTL_ERL_ARGS"], distribution);
    assert!(files["erl_inetrc"].contains("{inet6, true}."));
    assert_eq!(hosts(&files["erl_hosts"])[0], ("fd00::1".parse().unwrap(), "cp1.cluster.local".to_owned()));
}

#[test]
fn the_environment_names_the_node_before_the_configuration_is_read() {
    let plain = planned(&THREE, &json!({ "tls": { "distribution": false } }));
    let variables = env::parse(&files(&plain)["rabbitmq-env.conf.10.0.0.2"]).unwrap();
    let expected = [
        ("RABBITMQ_NODENAME", "rabbit@cp2.cluster.local"),
        ("RABBITMQ_USE_LONGNAME", "true"),
        ("ERL_EPMD_PORT", "4371"),
        ("ERL_EPMD_ADDRESS", "10.0.0.2"),
        ("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-ssl ssl_pem_cache_clean 1000"),
    ];
    assert_eq!(variables, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
}

#[test]
fn members_find_each_other_over_tls_as_servers_and_as_tools_do() {
    let (plain, tls) = (planned(&THREE, &json!({ "tls": { "distribution": false } })), planned(&THREE, &json!({})));
    let (plain, tls) = (files(&plain), files(&tls));
    let of = |files: &BTreeMap<String, String>| env::parse(&files["rabbitmq-env.conf.10.0.0.2"]).unwrap();
    let (before, mut after) = (of(&plain), of(&tls));
    let tools = after.remove("RABBITMQ_CTL_ERL_ARGS").unwrap();
    let server = after.get_mut("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS").unwrap();
    *server = server.strip_suffix(&format!(" {tools}")).unwrap().to_owned();
    assert_eq!(before, after);
    assert_eq!(tools, "-proto_dist inet_tls -ssl_dist_optfile /etc/contrail/inter_node_tls.config");
    let options = &tls["inter_node_tls.config"];
    for side in ["{server, [", "{client, ["] {
        let options = options.split_once(side).unwrap().1;
        assert!(options.contains("{verify, verify_peer}"), "{side}");
        assert!(options.contains(r#""rabbitmq1-rabbitmq-members.tf.svc""#), "{side}");
    }
    assert!(options.contains("{fail_if_no_peer_cert, true}"));
    assert!(!plain.contains_key("inter_node_tls.config"));
}

#[test]
fn one_socket_option_of_the_spec_does_not_take_the_servers_others_away() {
    let settings = first_config(&json!({ "tcpListenOptions": { "backlog": 4096 } }));
    let option = |name: &str| settings[&format!("tcp_listen_options.{name}")].as_str();
    assert_eq!(
        ["backlog", "nodelay", "linger.on", "linger.timeout", "exit_on_close"].map(option),
        ["4096", "true", "true", "0", "false"]
    );
}

#[test]
fn a_memory_limit_of_the_container_is_all_the_memory_the_server_knows_of() {
    let overrides = json!([{ "name": "rabbitmq", "resources": { "limits": { "memory": "2Gi" } } }]);
    let spec = json!({ "commonConfiguration": { "podOverrides": { "spec": { "containers": overrides } } } });
    let plan = plan(&resource("rabbitmq1", &spec, &json!({})), &observed("rabbitmq1", &THREE)).unwrap();
    let settings = config(&files(&plan), "10.0.0.1");
    assert_eq!(settings["total_memory_available_override_value"], "2147483648");
    assert!(!first_config(&json!({})).contains_key("total_memory_available_override_value"));
}

#[test]
fn the_definitions_let_clients_in_with_their_password() {
    let definitions = definitions(&json!({}));
    let user = &definitions["users"][0];
    let hash = user["password_hash"].as_str().unwrap();
    assert_eq!(rabbitmq_hash(PASSWORD, rabbitmq_salt(hash).unwrap()), hash);
    assert_eq!(definitions["permissions"][0]["user"], user["name"]);
    assert_eq!(definitions["permissions"][0]["vhost"], definitions["vhosts"][0]["name"]);
    let policy = &definitions["policies"][0];
    assert_eq!(policy["vhost"], definitions["vhosts"][0]["name"]);
    assert_eq!(policy["pattern"], r"^(?!amq\.).*");
    assert_eq!(policy["definition"], json!({ "ha-mode": "all", "ha-sync-mode": "automatic", "ha-sync-batch-size": 5 }));
}

#[test]
fn mirror_modes_that_need_a_parameter_get_one() {
    for (mode, parameter) in [
        ("exactly", json!(2)),
        ("nodes", json!(["rabbit@cp1.cluster.local", "rabbit@cp2.cluster.local", "rabbit@cp3.cluster.local"])),
    ] {
        let definitions = definitions(&json!({ "mirroredQueueMode": mode }));
        assert_eq!(definitions["policies"][0]["definition"]["ha-params"], parameter);
    }
}
