//! Every field of the spec changes the plan or is told to have no effect, and no field does both.

use serde_json::{Value, json};
use tf_api::contract::Reason;
use tf_testing::invariants::fields::Stage;
use vrouter_op::Component;

use crate::world::{observed, plan, vrouter};

const SERVICE: &str = "serviceConfiguration.";

/// Values that mean something where any text would not do.
fn sample(path: &str) -> Option<Value> {
    let Some(field) = path.strip_prefix(SERVICE) else {
        return match path {
            "commonConfiguration.distribution" => Some(json!("ubuntu")),
            "groups.[].nodeAffinity" => {
                let terms = json!([{"matchExpressions": [{"key": "rack", "operator": "Exists"}]}]);
                Some(json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}))
            }
            "groups.[].vrouterGateway" => Some(json!("10.9.0.1")),
            _ => None,
        };
    };
    Some(match field {
        "agentMode" => json!("dpdk"),
        "agentNotReadyTaint" => json!(true),
        "cniMTU" => json!(1400),
        "cniConfDir" | "cniBinDir" => json!("/var/lib/rancher/cni"),
        "cniMetaPlugin" => json!("multus-thick"),
        "dataSubnet" | "l3mhCidr" | "kubernetesPodSubnet" => json!("10.9.0.0/16"),
        "envVariablesConfig" => json!({"VROUTER_MODULE_OPTIONS": "vr_flow_entries=1048576"}),
        "fabricSntHashTableSize" | "fabricSnatHashTableSize" => json!("8192"),
        "keystoneAuthProto" => json!("http"),
        "keystoneAuthInsecure" | "sslEnable" => json!(false),
        "logLocal" => json!(0),
        "metadataSslEnable" => json!("true"),
        "logDir" => json!("/var/log/elsewhere"),
        "priorityBandwidth" => json!("10"),
        "priorityId" | "qosQueueId" => json!("1"),
        "priorityScheduling" => json!("strict"),
        "sampleDestination" | "sloDestination" => json!("file"),
        "sriovVf" => json!("7"),
        "tsnAgentMode" => json!("tsn"),
        "vhost0" => json!("Managed"),
        "vrouterGateway" => json!("10.9.0.1"),
        port if port.ends_with("Port") => json!("12345"),
        tls if tls.ends_with("SslEnable") => json!(false),
        _ => return None,
    })
}

/// Settings without which a field means nothing, and that have an effect of their own.
fn company(path: &str) -> Option<Value> {
    if path.starts_with("groups.[].") {
        return Some(json!({"groups": [{"name": "a"}]}));
    }
    let field = path.strip_prefix(SERVICE)?;
    let service = match field {
        "priorityId" => json!({"priorityBandwidth": "10", "priorityScheduling": "rr"}),
        "priorityBandwidth" | "priorityScheduling" => {
            json!({"priorityId": "1", "priorityBandwidth": "20", "priorityScheduling": "rr"})
        }
        "dpdkUioDriver" => json!({"agentMode": "dpdk"}),
        "qosQueueId" => json!({"qosLogicalQueues": "[1]"}),
        "sriovVf" => json!({"sriovPhysicalInterface": "eth3"}),
        "sriovPhysicalInterface" => json!({"sriovVf": "7"}),
        field if field.starts_with("metadata") => json!({"metadataSslEnable": "false"}),
        field if field.starts_with("keystone") => json!({}),
        _ => return None,
    };
    let auth = json!({"authMode": "keystone", "keystoneAuthParameters": {"authProtocol": "https"}});
    let keystone = field.starts_with("keystone").then(|| json!({"authParameters": auth}));
    Some(json!({"serviceConfiguration": service, "commonConfiguration": keystone.unwrap_or_else(|| json!({}))}))
}

#[test]
fn no_field_lies() {
    let stage = Stage::<Component> {
        dependencies: &[("config", "api"), ("control", "xmpp"), ("analytics", "collector")],
        sample: &sample,
        company: &company,
        except: &[
            ("commonConfiguration.certificates.issuer", "the runtime asks it, see e2e/tests/inputs/issuer.rs"),
            ("groups.[].upgradeStrategy", "it decides about steps, see rollout.rs"),
            ("upgradeStrategy", "it decides about steps, see rollout.rs"),
            ("serviceConfiguration.vrouterEncryption", "every value but the default is refused, see below"),
        ],
        ..Stage::of(env!("CARGO_MANIFEST_DIR"), "every-node-with-all-services", "vrouteragent")
    };
    assert!(stage.no_field_lies() > 120);
}

#[test]
fn a_variable_reaches_what_its_field_would_have_reached() {
    let observed = observed();
    let agent = |spec| {
        let plan = plan(&vrouter(spec), &observed).expect("a plan");
        crate::world::files(&plan)["contrail-vrouter-agent.conf.node"].clone()
    };
    for (variable, field, text) in [
        ("SUBCLUSTER", "subcluster", "edge"),
        ("XMPP_SERVER_PORT", "xmppServerPort", "5270"),
        ("FABRIC_SNAT_HASH_TABLE_SIZE", "fabricSnatHashTableSize", "8192"),
        ("SLO_DESTINATION", "sloDestination", "file"),
        ("TSN_AGENT_MODE", "tsnAgentMode", "tsn"),
        ("HUGE_PAGES_DIR", "subcluster", ""),
        ("METADATA_PROXY_SECRET", "metadataProxySecret", "s3cr3t"),
    ] {
        let by_variable = agent(json!({"serviceConfiguration": {"envVariablesConfig": {variable: text}}}));
        let by_field = agent(json!({"serviceConfiguration": {field: text}}));
        assert_eq!(by_variable, by_field, "{variable}");
    }
}

#[test]
fn a_variable_that_asks_for_another_mode_is_refused_without_its_value() {
    let spec = json!({"serviceConfiguration": {"envVariablesConfig": {"AGENT_MODE": "vpp"}}});
    let why = plan(&vrouter(spec), &observed()).expect_err("none of both");
    assert_eq!(why.message, "spec.serviceConfiguration.envVariablesConfig[AGENT_MODE]: use kernel or dpdk");
}

#[test]
fn what_would_change_the_network_if_it_were_ignored_is_refused_with_its_path() {
    for (field, value, told) in [
        ("agentMode", json!("vpp"), "use kernel or dpdk"),
        ("vrouterEncryption", json!(true), "this release does not encrypt the traffic between nodes"),
    ] {
        let why = plan(&vrouter(json!({"serviceConfiguration": {field: value}})), &observed()).expect_err(field);
        assert!(why.message.starts_with(&format!("spec.serviceConfiguration.{field}: {told}")), "{}", why.message);
        assert_eq!(why.reason, Reason::InvalidSpec);
    }
    let asks_for_nothing = json!({"serviceConfiguration": {"agentMode": "kernel", "vrouterEncryption": false}});
    plan(&vrouter(asks_for_nothing), &observed()).expect("a plan");
}
