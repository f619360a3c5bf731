//! Whatever stands in a spec: secrets stay in Secrets, text stays text, the plan is the same every time.

use proptest::prelude::*;
use serde_json::{Value, json};
use tf_agent_api::template::{Local, fill};
use tf_config_files::{env, read};
use tf_plan::object::SECRET;

use crate::world::{files, observed, plan, vrouter};

/// All fields that hold secrets.
fn secrets() -> Value {
    json!({
        "metadataProxySecret": "mark-metadata",
        "vrouterDecryptKey": "mark-decrypt",
        "k8sToken": "mark-token",
        "barbicanPassword": "mark-barbican",
        "keystoneAuthAdminPassword": "mark-keystone",
        "envVariablesConfig": {
            "ANYTHING": "mark-variable",
            "SUBCLUSTER": "mark-override",
            "VROUTER_AGENT__DEFAULT__x": "mark-option",
            "CONTRAIL_SYSCTL_TUNING": "kernel.hostname=mark-sysctl",
        },
    })
}

#[test]
fn no_secret_of_the_spec_is_anywhere_but_in_secrets() {
    for mode in ["noauth", "keystone"] {
        let cr = vrouter(json!({
            "commonConfiguration": {"authParameters": {
                "authMode": mode, "keystoneAuthParameters": {"adminPassword": "mark-administrator"},
            }},
            "serviceConfiguration": secrets(),
        }));
        let plan = plan(&cr, &observed()).expect("a plan");
        let elsewhere = plan.objects.iter().filter(|object| object.kind != SECRET);
        for object in elsewhere {
            assert!(!object.body.to_string().contains("mark-"), "{} holds a secret", object.describe());
        }
        let told = format!("{:?} {:?} {:?} {:?}", plan.ignored, plan.notes, plan.drafts, plan.own_status);
        assert!(!told.contains("mark-"), "{told}");
        assert!(files(&plan)["contrail-vrouter-agent.conf.node"].contains("mark-metadata"));
    }
}

#[test]
fn no_refusal_tells_a_secret() {
    for (name, value) in [
        ("XMPP_SSL_ENABLE", "mark-1"),
        ("XMPP_SERVER_PORT", "mark-2"),
        ("DATA_SUBNET", "mark-3"),
        ("VROUTER_GATEWAY", "mark-4"),
        ("LOG_DIR", "mark-5"),
        ("AGENT_MODE", "mark-6"),
        ("SUBCLUSTER", "mark-7 # x"),
        ("HUGE_PAGES_2MB", "mark-8"),
        ("CONTRAIL_SYSCTL_TUNING", "mark-9"),
        ("KEYSTONE_AUTH_PROTO", "mark-10"),
        ("no name", "mark-11"),
        ("VROUTER_AGENT__A B__c", "mark-12"),
    ] {
        let cr = vrouter(json!({
            "commonConfiguration": {"authParameters": {"authMode": "keystone"}},
            "serviceConfiguration": {"envVariablesConfig": {name: value}},
        }));
        let why = plan(&cr, &observed()).expect_err(name);
        assert!(!format!("{why:?}").contains("mark-"), "{}", why.message);
    }
}

fn field() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "subcluster",
        "physicalInterface",
        "hypervisorType",
        "cloudOrchestrator",
        "xmppServerCertfile",
        "statsCollectorDestinationPath",
        "metadataProxySecret",
        "k8sToken",
        "barbicanPassword",
        "keystoneAuthHost",
        "kubernetesPodSubnet",
        "vrouterGateway",
        "sriovVf",
        "qosQueueId",
        "sloDestination",
    ])
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9.:/_-]{0,24}",
        "(\\{\\{|\\}\\}|node\\.address|\\{|%|&|\"|'|<|=|;|é|\\[|\\]| |,|[a-z]){0,12}",
        any::<String>(),
    ]
}

fn node(local: Local) -> Option<String> {
    (local != Local::Gateway).then(|| "10.0.0.9".to_owned())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// A plan or a refusal, never a panic, and the same one again. What is planned has names that fit, files that their
    /// daemons read and that have no more sections than ours.
    #[test]
    fn any_text_is_planned_or_refused(
        name in "[a-z0-9]([-a-z0-9.]{0,120}[a-z0-9])?",
        group in prop::option::of("[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?"),
        fields in prop::collection::btree_map(field(), text(), 0..5),
        variables in prop::collection::btree_map("[A-Z_]{1,12}|XMPP_SERVERS|LOG_LEVEL|SUBCLUSTER", text(), 0..4),
        pages in (0_u32..4096, 0_u32..64),
    ) {
        let mut service = json!({"hugePages2M": pages.0, "hugePages1G": pages.1, "envVariablesConfig": variables});
        for (field, value) in &fields {
            service[*field] = json!(value);
        }
        let groups: Vec<Value> = group.iter().map(|group| json!({"name": group})).collect();
        let mut cr = vrouter(json!({"serviceConfiguration": service, "groups": groups}));
        cr.metadata.name = Some(name);
        let observed = observed();
        let planned = plan(&cr, &observed);
        prop_assert_eq!(&planned, &plan(&cr, &observed));
        let Ok(planned) = planned else { return Ok(()) };
        let mut names: Vec<_> = planned.objects.iter().map(|object| (object.kind, object.name.clone())).collect();
        prop_assert!(names.iter().all(|(_, name)| name.len() <= 63));
        names.sort();
        names.dedup();
        prop_assert_eq!(names.len(), planned.objects.len());
        let files = files(&planned);
        let agent = fill(&files["contrail-vrouter-agent.conf.node"], node).expect("known placeholders");
        let agent = read::boost(&agent).expect("a file that Boost reads");
        if let Some(subcluster) = fields.get("subcluster").filter(|text| !text.is_empty())
            && !variables.contains_key("SUBCLUSTER")
        {
            prop_assert_eq!(&agent["CONTROL-NODE"]["subcluster_name"], &vec![subcluster.clone()]);
        }
        prop_assert!(read::python(&files["vnc_api_lib.ini"]).is_ok());
        let balancer = read::python(&files["contrail-lbaas-auth.conf"]).expect("an INI file");
        if let Some(token) = fields.get("k8sToken").filter(|text| !text.is_empty()) {
            prop_assert_eq!(&balancer["KUBERNETES"]["kubernetes_token"], token);
        }
        let parameters = env::parse(&files["params.env"]).expect("an environment file");
        for (variable, value) in variables.iter().filter(|(name, _)| !name.starts_with("POD_") && !name.starts_with("NODE_")) {
            prop_assert_eq!(parameters.get(variable), Some(value));
        }
    }
}
