//! The files as their daemons read them.

use serde_json::{Value, json};
use tf_agent_api::{
    launch::{Launch, OnChange, Probe},
    template::{Local, fill},
};
use tf_config_files::{env, read};
use tf_sim::vrouter::options::Options;
use tf_testing::situation::{external, foreign};

use crate::world::{endpoint, files, observed, peer, plan, vrouter};

type Section = std::collections::BTreeMap<String, Vec<String>>;

/// What a node puts in.
fn node(local: Local) -> Option<String> {
    Some(
        match local {
            Local::Name => "node1.example.org",
            Local::Address => "10.1.0.7",
            Local::Cidr => "10.1.0.7/24",
            Local::ControlAddress => "10.0.0.7",
            Local::Interfaces => "eth1",
            Local::Macs => "52:54:00:12:34:56",
            Local::PciAddresses => "0000:03:00.0",
            Local::InterfaceCidrs => "10.1.0.7/24 10.2.0.7/24",
            Local::HugePages2M => "/dev/hugepages",
            Local::Gateway | Local::HugePages1G => return None,
        }
        .to_owned(),
    )
}

fn agent(spec: Value) -> std::collections::BTreeMap<String, Section> {
    let plan = plan(&vrouter(json!({ "serviceConfiguration": spec })), &observed()).expect("a plan");
    let filled = fill(&files(&plan)["contrail-vrouter-agent.conf.node"], node).expect("known placeholders");
    let read = read::boost(&filled).expect("a file that Boost reads");
    // Boost exits on a scalar that stands twice, and the agent has no option that may.
    assert!(read.values().flat_map(Section::values).all(|values| values.len() == 1), "{filled}");
    read
}

#[test]
fn the_agent_of_a_node_reads_its_own_addresses_and_everybodys_services() {
    let read = agent(json!({}));
    assert_eq!(read["CONTROL-NODE"]["servers"], ["10.0.0.1:5269 10.0.0.2:5269 10.0.0.3:5269"]);
    assert_eq!(read["DNS"]["servers"], ["10.0.0.1:53 10.0.0.2:53 10.0.0.3:53"]);
    assert_eq!(read["DEFAULT"]["collectors"], ["10.0.0.1:8086 10.0.0.2:8086 10.0.0.3:8086"]);
    assert_eq!(read["DEFAULT"]["agent_name"], ["node1.example.org"]);
    assert_eq!(read["DEFAULT"]["hostname"], read["DEFAULT"]["agent_name"]);
    assert_eq!(read["NETWORKS"]["control_network_ip"], ["10.0.0.7"]);
    let vhost0 = &read["VIRTUAL-HOST-INTERFACE"];
    assert_eq!(vhost0["ip"], ["10.1.0.7/24"]);
    assert_eq!(vhost0["compute_node_address"], ["10.1.0.7"]);
    assert_eq!(vhost0["physical_interface"], ["eth1"]);
    assert!(!vhost0.contains_key("gateway"), "the default route is elsewhere, so there is no line");
    assert_eq!(read["SANDESH"]["introspect_ssl_insecure"], ["true"]);
}

#[test]
fn several_uplinks_have_no_address_on_vhost0() {
    let read = agent(json!({"l3mhCidr": "10.0.0.0/24", "vrouterGateway": "10.1.0.1, 10.2.0.1"}));
    let vhost0 = &read["VIRTUAL-HOST-INTERFACE"];
    assert!(!vhost0.contains_key("ip"));
    assert_eq!(vhost0["physical_interface_addr"], ["10.1.0.7/24 10.2.0.7/24"]);
    assert_eq!(vhost0["loopback_ip"], ["10.1.0.7"]);
    assert_eq!(vhost0["gateway"], ["10.1.0.1 10.2.0.1"]);
}

#[test]
fn tables_outlive_the_agent_where_the_node_has_mounted_the_pages() {
    let read = agent(json!({"hugePages2M": 1024}));
    assert_eq!(read["RESTART"]["huge_page_2M"], ["/dev/hugepages/bridge /dev/hugepages/flow"]);
    let read = agent(json!({"hugePages1G": 2}));
    assert!(!read.contains_key("RESTART"), "this node has mounted none of 1 GiB");
    let read = agent(json!({"hugePages1G": 2, "envVariablesConfig": {"HUGE_PAGES_1GB_DIR": "/huge"}}));
    assert_eq!(read["RESTART"]["huge_page_1G"], ["/huge/bridge /huge/flow"]);
}

#[test]
fn queues_and_groups_are_sections_of_their_own() {
    let read = agent(json!({
        "qosQueueId": "3, 11", "qosLogicalQueues": "[1, 6-10]", "qosDefHwQueue": true,
        "priorityId": "0,1", "priorityBandwidth": "10,10", "priorityScheduling": "rr,strict",
    }));
    assert_eq!(read["QUEUE-3"]["logical_queue"], ["[1, 6-10]"]);
    assert_eq!(read["QUEUE-11"]["logical_queue"], ["[]"]);
    assert_eq!(read["QUEUE-11"]["default_hw_queue"], ["true"]);
    assert_eq!(read["QOS"]["priority_tagging"], ["true"]);
    assert_eq!(
        (&read["PG-0"]["scheduling"][..], &read["PG-1"]["bandwidth"][..]),
        (&["rr".into()][..], &["10".into()][..])
    );
}

#[test]
fn lists_that_do_not_belong_together_are_refused() {
    for (spec, path) in [
        (json!({"priorityId": "0,1", "priorityBandwidth": "10", "priorityScheduling": "rr,rr"}), "priorityId"),
        (json!({"priorityId": "0,0", "priorityBandwidth": "1,1", "priorityScheduling": "rr,rr"}), "priorityId"),
        (json!({"priorityId": "0", "priorityBandwidth": "1", "priorityScheduling": "wrr"}), "priorityScheduling"),
        (json!({"qosQueueId": "3,11,12", "qosLogicalQueues": "[1]"}), "qosQueueId"),
        (json!({"sriovPhysicalInterface": "eth1,eth2", "sriovVf": "7"}), "sriovVf"),
        (json!({"dataSubnet": "10.0.0.0/24", "vrouterGateway": "10.0.1.1"}), "vrouterGateway"),
        (json!({"vrouterGateway": "gateway"}), "vrouterGateway"),
        (json!({"dataSubnet": "10.0.0.0"}), "dataSubnet"),
        (json!({"logDir": "/etc"}), "logDir"),
        (json!({"logDir": "/var/log/../../etc"}), "logDir"),
        (json!({"xmppServerPort": "0"}), "xmppServerPort"),
        (json!({"agentMode": "dkpd"}), "agentMode"),
        (json!({"tsnAgentMode": "tor"}), "tsnAgentMode"),
        (json!({"vhost0": "Managed", "l3mhCidr": "10.9.0.0/16"}), "l3mhCidr"),
        (json!({"vhost0": "Managed", "l3mhCidr": "10.9.0.0/16", "physicalInterface": "eth0"}), "l3mhCidr"),
        (json!({"vhost0": "Managed", "physicalInterface": "eth1,eth2"}), "physicalInterface"),
        (json!({"vhost0": "Managed", "physicalInterface": "--root=/"}), "physicalInterface"),
        (json!({"sampleDestination": "collector,kafka"}), "sampleDestination"),
    ] {
        let why = plan(&vrouter(json!({ "serviceConfiguration": spec })), &observed()).expect_err(path);
        assert!(why.message.starts_with(&format!("spec.serviceConfiguration.{path}: ")), "{path}: {}", why.message);
        assert!(!why.drafts.is_empty(), "the state of services is told all the same");
    }
}

#[test]
fn the_node_agent_reads_how_to_prepare_a_node() {
    let spec = json!({"serviceConfiguration": {
        "physicalInterface": "eth1", "sriovPhysicalInterface": "eth3", "sriovVf": "7",
        "envVariablesConfig": {"VROUTER_MODULE_OPTIONS": "a='b' c", "CONTRAIL_SYSCTL_TUNING": ""},
    }});
    let files = files(&plan(&vrouter(spec), &observed()).expect("a plan"));
    let variables = env::parse(&files["params.env"]).expect("an environment file");
    let get = |name: &str| variables[name].as_str();
    assert_eq!((get("PHYSICAL_INTERFACE"), get("SRIOV_VF")), ("eth1", "7"));
    assert_eq!(get("VROUTER_MODULE_OPTIONS"), "a='b' c");
    assert_eq!(get("CONTROL_NODES"), "10.0.0.1,10.0.0.2,10.0.0.3");
    assert_eq!(get("KUBERNETES_POD_SUBNETS"), "10.32.0.0/12");
    assert_eq!(files["sysctl.conf"], "", "an empty variable sets nothing");
    assert_eq!(env::parse(&files["vrouteragent.env"]).expect("variables").len(), 2);
}

#[test]
fn clients_of_the_config_api_do_not_look_for_a_keystone_by_themselves() {
    let files = files(&plan(&vrouter(json!({})), &observed()).expect("a plan"));
    let read = read::python(&files["vnc_api_lib.ini"]).expect("an INI file");
    assert_eq!(read["auth"]["authn_type"], "noauth");
    assert_eq!(read["global"]["web_server"], "10.0.0.1,10.0.0.2,10.0.0.3");
}

#[test]
fn without_services_no_list_is_empty() {
    let mut alone = observed();
    alone.peers.clear();
    let files = files(&plan(&vrouter(json!({})), &alone).expect("a plan"));
    let read = read::boost(&fill(&files["contrail-vrouter-agent.conf.node"], node).expect("filled")).expect("read");
    assert!(!read.contains_key("CONTROL-NODE") && !read.contains_key("DNS"));
    assert!(!read["DEFAULT"].contains_key("collectors"));
}

#[test]
fn ipv6_hosts_stand_in_brackets_before_a_port() {
    let mut ipv6 = observed();
    let control = peer("control1", vec![endpoint("xmpp", 5269, true, &["fd00::1", "fd00::2"])]);
    ipv6.peers.insert("Control".into(), tf_plan::observed::Source::Known(vec![control]));
    let files = files(&plan(&vrouter(json!({})), &ipv6).expect("a plan"));
    let read = read::boost(&fill(&files["contrail-vrouter-agent.conf.node"], node).expect("filled")).expect("read");
    assert_eq!(read["CONTROL-NODE"]["servers"], ["[fd00::1]:5269 [fd00::2]:5269"]);
    assert_eq!(read["DNS"]["servers"], ["[fd00::1]:53 [fd00::2]:53"], "DNS runs beside the control nodes");
}

/// Who reads the file here was written without what writes it.
#[test]
fn an_agent_that_is_played_strictly_takes_the_file() {
    let mut alone = observed();
    alone.peers.clear();
    for (observed, servers) in [(observed(), 3), (alone, 0)] {
        let spec = json!({"serviceConfiguration": {"hugePages2M": 64, "sampleDestination": "collector file"}});
        let files = files(&plan(&vrouter(spec), &observed).expect("a plan"));
        let text = fill(&files["contrail-vrouter-agent.conf.node"], node).expect("known placeholders");
        let options = Options::read(&text).expect("a file that the agent takes");
        let counts = [options.control.len(), options.dns.len(), options.collectors.len()];
        assert_eq!(counts, [servers; 3]);
        assert_eq!((options.name.as_str(), options.interfaces), ("node1.example.org", vec!["eth1".to_owned()]));
        assert_eq!(options.ip, Some(([10, 1, 0, 7].into(), 24)));
        assert!(options.xmpp_tls.is_some() && options.collector_tls.is_some() && options.introspect.1.is_some());
    }
}

#[test]
fn an_agent_has_to_be_functional_where_it_can_be() {
    let ready = |observed: &tf_plan::observed::Observed<tf_api::Vrouter>, spec: Value| {
        let files = files(&plan(&vrouter(json!({ "serviceConfiguration": spec })), observed).expect("a plan"));
        Launch::parse(files["vrouteragent.launch"].as_bytes()).expect("a launch file").ready
    };
    let mut alone = observed();
    alone.peers.clear();
    for (observed, spec, expected) in [
        (&observed(), json!({}), (true, true)),
        (&alone, json!({}), (false, true)),
        (&alone, json!({"envVariablesConfig": {"CONTROL_NODES": "10.0.0.1"}}), (true, true)),
        (&observed(), json!({"introspectSslEnable": false}), (true, false)),
    ] {
        let Probe::NodeStatus { functional, tls, port, .. } = ready(observed, spec) else { panic!("no NodeStatus") };
        assert_eq!(((functional, tls), port.get()), (expected, 8085));
    }
}

/// Services of the spec with a Secret of another authority.
fn elsewhere() -> (Value, tf_plan::observed::Observed<tf_api::Vrouter>, std::collections::BTreeMap<String, String>) {
    let secret = foreign();
    let mut observed = observed();
    observed.secrets.insert("outer".into(), secret.clone().into_iter().collect());
    let dependencies = json!({"config": external(&[("api", 8082)]), "analytics": external(&[("collector", 8086)])});
    (dependencies, observed, secret)
}

#[test]
fn services_of_another_authority_are_checked_against_it_and_collectors_shown_what_is_theirs() {
    let (dependencies, observed, secret) = elsewhere();
    let containers = json!([{"name": "vrouteragent"}, {"name": "nodemanager"}]);
    let spec = json!({"dependencies": dependencies, "serviceConfiguration": {"containers": containers}});
    let plan = plan(&vrouter(spec), &observed).expect("a plan");
    let files = files(&plan);
    let library = read::python(&files["vnc_api_lib.ini"]).expect("an INI file");
    assert_eq!(library["global"]["cafile"], "/etc/contrail/config-ca.crt");
    let text = fill(&files["contrail-vrouter-agent.conf.node"], node).expect("known placeholders");
    let (shown, authorities) = Options::read(&text).expect("a file that the agent takes").collector_tls.expect("TLS");
    assert_eq!(shown.key, std::path::PathBuf::from("/etc/contrail/analytics-client.key"));
    assert_eq!(authorities, std::path::PathBuf::from("/etc/contrail/analytics-ca.crt"));
    let manager = fill(&files["contrail-vrouter-nodemgr.conf.node"], node).expect("known placeholders");
    let manager = read::python(&manager).expect("an INI file");
    assert_eq!(manager["SANDESH"]["sandesh_ca_cert"], "/etc/contrail/analytics-ca.crt");
    let planned = tf_testing::situation::Planned(plan);
    let launch = |name: &str| Launch::parse(files[name].as_bytes()).expect("a launch file").files;
    for name in ["analytics-ca.crt", "analytics-client.crt", "analytics-client.key"] {
        assert_eq!(launch("vrouteragent.launch")[name], OnChange::Restart);
        assert_eq!(launch("nodemanager.launch")[name], OnChange::Restart);
        assert_eq!(planned.secret().contains_key(name), name == "analytics-client.key");
    }
    assert_eq!(launch("vrouteragent.launch")["config-ca.crt"], OnChange::Nothing, "helpers read it when they begin");
    assert!(!files.contains_key("config-client.key"));
    let api = planned.0.registration.map(|registration| registration.api);
    assert_eq!(api.and_then(|api| api.ca), Some(secret["ca.crt"].clone()));
}

#[test]
fn files_and_hosts_of_the_spec_win_over_those_of_a_secret() {
    let (dependencies, observed, _) = elsewhere();
    let files = |service: Value| {
        let spec = json!({"dependencies": dependencies, "serviceConfiguration": service});
        files(&plan(&vrouter(spec), &observed).expect("a plan"))
    };
    let authorities = |files: &std::collections::BTreeMap<String, String>| {
        let library = read::python(&files["vnc_api_lib.ini"]).expect("an INI file");
        let agent = fill(&files["contrail-vrouter-agent.conf.node"], node).expect("known placeholders");
        let agent = read::boost(&agent).expect("read");
        [library["global"]["cafile"].clone(), agent["SANDESH"]["sandesh_ca_cert"].concat()]
    };
    let own = files(json!({"serverCaCertfile": "/etc/own.crt"}));
    assert_eq!(authorities(&own), ["/etc/own.crt", "/etc/own.crt"]);
    let hosts = json!({"CONFIG_NODES": "10.0.0.1", "ANALYTICS_NODES": "10.0.0.1"});
    let named = files(json!({"envVariablesConfig": hosts}));
    assert_eq!(authorities(&named), [tf_agent_api::node::CA_BUNDLE, tf_agent_api::node::CA_BUNDLE]);
}

#[test]
fn introspection_and_collectors_have_one_file_of_authorities_in_the_agent() {
    let (dependencies, mut observed, _) = elsewhere();
    let spec = |insecure: bool| {
        let service = json!({"envVariablesConfig": {"INTROSPECT_SSL_INSECURE": insecure.to_string()}});
        vrouter(json!({"dependencies": dependencies, "serviceConfiguration": service}))
    };
    assert!(plan(&spec(true), &observed).is_ok());
    let refused = plan(&spec(false), &observed).expect_err("collectors are of another authority").message;
    assert!(
        refused.contains("INTROSPECT_SSL_INSECURE") && refused.contains("spec.dependencies.analytics"),
        "{refused}"
    );
    // A Secret that goes is not taken for one that nobody named: no agent is started anew for it.
    observed.secrets.clear();
    let waiting = plan(&spec(true), &observed).expect_err("there is no Secret");
    assert_eq!(waiting.reason, tf_api::contract::Reason::SecretNotFound);
}
