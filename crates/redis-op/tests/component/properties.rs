//! What holds for the servers of every resource.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its input fails")]

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use proptest::{collection::btree_map, option, prelude::*};
use redis_op::plan::plan;
use serde_json::{Value, json};
use tf_agent_api::launch::{Launch, Probe};
use tf_api::{
    Redis,
    contract::{MemberStatus, Reason},
};
use tf_config_files::read;
use tf_plan::{
    object::{CONFIG_MAP, Kind, Object, SECRET},
    observed::Observed,
    plan::Plan,
};

use crate::support::{PEER_MARK, observed, resource};

/// Marks a secret, so that a test can look for it in a message.
const MARK: &str = "Xy7Qp2Zk";

fn nodes() -> impl Strategy<Value = BTreeMap<String, String>> {
    let name = "[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?(\\.[a-z0-9]{1,8}){0,3}";
    let v4 = any::<[u8; 4]>().prop_map(|octets| IpAddr::from(octets).to_string());
    let v6 = any::<[u16; 8]>().prop_map(|segments| IpAddr::from(segments).to_string());
    btree_map(name, prop_oneof![v4, v6], 1..9)
}

/// A password that clients can be given, or one they cannot.
fn password() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[A-Za-z0-9_.-]{1,40}".prop_map(|text| format!("{text}{MARK}")),
        1 => "[ -~éü\n]{0,20}".prop_map(|text| format!("{text}{MARK}&\"+%<#=")),
    ]
}

fn spec() -> impl Strategy<Value = Value> {
    let levels = prop::sample::select(vec!["info", "debug", "warning", "error", "critical", "none"]);
    let modes = prop::sample::select(vec!["Independent", "Sentinel"]);
    (1..=65535_u16, option::of(1..9_i32), levels, modes).prop_map(|(port, replicas, level, mode)| {
        json!({
            "commonConfiguration": {"replicas": replicas, "logLevel": level},
            "serviceConfiguration": {"redisPort": port, "mode": mode},
        })
    })
}

fn snapshot(nodes: &BTreeMap<String, String>, password: &str) -> Observed<Redis> {
    let nodes: Vec<_> = nodes.iter().map(|(name, address)| (name.as_str(), address.as_str())).collect();
    observed("redis1", &nodes, password)
}

/// What an object of the plan holds, Secrets decoded.
fn data(plan: &Plan, kind: Kind, suffix: &str) -> BTreeMap<String, String> {
    let object = plan.objects.iter().find(|object| object.kind == kind && object.name.ends_with(suffix)).unwrap();
    let text = |value: &Value| {
        let text = value.as_str().unwrap();
        if kind == SECRET { String::from_utf8(BASE64_STANDARD.decode(text).unwrap()).unwrap() } else { text.to_owned() }
    };
    object.body["data"].as_object().unwrap().iter().map(|(key, value)| (key.clone(), text(value))).collect()
}

/// Files without secrets.
fn files(plan: &Plan) -> BTreeMap<String, String> {
    data(plan, CONFIG_MAP, "-files")
}

/// Files with secrets.
fn secret_files(plan: &Plan) -> BTreeMap<String, String> {
    data(plan, SECRET, "-secret-files")
}

proptest! {
    #[test]
    fn every_plan_is_deterministic_and_no_object_but_secrets_tells_the_password(
        nodes in nodes(),
        spec in spec(),
        password in password(),
    ) {
        let cr = resource("redis1", &spec, &json!({}));
        let observed = snapshot(&nodes, &password);
        let result = plan(&cr, &observed);
        prop_assert_eq!(&result, &plan(&cr, &observed));
        let plan = match result {
            Ok(plan) => plan,
            Err(why) => {
                let is_few = nodes.len() < 3 || spec["commonConfiguration"]["replicas"].as_u64() > Some(nodes.len() as u64);
                let is_known = matches!(why.reason, Reason::InvalidSpec | Reason::SecretInvalid);
                prop_assert!(is_known || is_few && why.reason == Reason::NoMatchingNodes, "{:?}", why);
                prop_assert!(!why.message.contains(MARK), "{}", why.message);
                return Ok(());
            }
        };
        for object in &plan.objects {
            prop_assert!(object.name.len() <= 63 && object.body.to_string().len() < 1 << 20, "{}", object.describe());
            prop_assert!(object.kind == SECRET || !object.body.to_string().contains(MARK), "{}", object.describe());
        }
        let secrets = secret_files(&plan);
        prop_assert_eq!(&read::redis(&secrets["redis-auth.conf"]).unwrap()["requirepass"], std::slice::from_ref(&password));
        prop_assert_eq!(&secrets["agent-password"], &password);
    }

    #[test]
    fn every_member_serves_on_its_own_address_over_tls_alone_where_its_agent_looks(nodes in nodes(), spec in spec()) {
        let cr = resource("redis1", &spec, &json!({}));
        let Ok(plan) = plan(&cr, &snapshot(&nodes, "password")) else { return Ok(()) };
        let files = files(&plan);
        let launch = Launch::parse(files["redis.launch"].as_bytes()).unwrap();
        let Probe::Redis { port, .. } = launch.ready else { panic!("another probe") };
        prop_assert_eq!(plan.endpoints[0].port, port.get());
        prop_assert!(plan.endpoints[0].tls && launch.agent.unwrap().port != port);
        prop_assert_eq!(plan.endpoints[0].nodes.len(), plan.members.len());
        for member in &plan.members {
            let config = read::redis(&files[&format!("redis.conf.{}", member.address.replace(':', "-"))]).unwrap();
            let value = |directive: &str| config[directive].join(" ");
            prop_assert_eq!(value("bind"), member.address.clone());
            prop_assert_eq!((value("port"), value("tls-port")), ("0".to_owned(), port.to_string()));
            prop_assert_eq!(value("tls-cert-file"), value("tls-key-file"));
            prop_assert_eq!((value("save"), value("appendonly")), (String::new(), "no".to_owned()));
            prop_assert!(!config.contains_key("requirepass"));
        }
    }

    /// Every Sentinel knows all members from the beginning, each under a number of its own, and needs more than half of them.
    #[test]
    fn sentinels_know_each_other_and_decide_by_more_than_half(nodes in nodes(), spec in spec()) {
        let cr = resource("redis1", &spec, &json!({}));
        let Ok(plan) = plan(&cr, &snapshot(&nodes, "password")) else { return Ok(()) };
        let (files, count) = (files(&plan), plan.members.len());
        let file = |member: &MemberStatus| files.get(&format!("sentinel.conf.{}", member.address.replace(':', "-")));
        if spec["serviceConfiguration"]["mode"] == "Independent" {
            prop_assert!(plan.members.iter().all(|member| file(member).is_none()));
            prop_assert!(plan.endpoints.len() == 1 && plan.own_status.is_empty());
            return Ok(());
        }
        prop_assert!(count >= 3 && count % 2 == 1);
        let mut numbers = BTreeMap::new();
        let mut firsts = BTreeSet::new();
        for member in &plan.members {
            let lines: Vec<Vec<&str>> = file(member).unwrap().lines().map(|line| line.split(' ').collect()).collect();
            let of = |what: &str| lines.iter().filter(move |words| words.get(1) == Some(&what)).collect::<Vec<_>>();
            let number = of("myid")[0][2];
            prop_assert!(number.len() == 40 && number.bytes().all(|byte| byte.is_ascii_hexdigit()), "{}", number);
            prop_assert!(numbers.insert(member.address.clone(), number.to_owned()).is_none());
            let monitor = of("monitor")[0];
            prop_assert_eq!(monitor[5], (count / 2 + 1).to_string());
            firsts.insert(monitor[3].to_owned());
            prop_assert_eq!(of("known-replica").len(), count);
            prop_assert_eq!(of("known-sentinel").len(), count - 1);
        }
        prop_assert_eq!(firsts.len(), 1, "they begin with the same one");
        prop_assert_eq!(numbers.values().collect::<BTreeSet<_>>().len(), count);
        for member in &plan.members {
            for (address, number) in numbers.iter().filter(|(address, _)| **address != member.address) {
                let port = plan.endpoints[1].port;
                let line = format!("sentinel known-sentinel redis1 {address} {port} {number}\n");
                prop_assert!(file(member).unwrap().contains(&line), "{}", line);
            }
        }
        let secrets = secret_files(&plan);
        for file in ["redis-auth.conf", "sentinel-auth.conf", "peer-password"] {
            prop_assert!(secrets[file].contains(PEER_MARK), "{}", file);
        }
        let tells = |object: &Object| object.kind != SECRET && object.body.to_string().contains(PEER_MARK);
        prop_assert!(!plan.objects.iter().any(tells));
    }

    /// A server knows nothing of the others, so that whoever comes or goes restarts nobody.
    #[test]
    fn whoever_joins_changes_no_file_of_those_that_are_there(nodes in nodes(), name in "[a-z]{12}") {
        let cr = resource("redis1", &json!({}), &json!({}));
        let before = plan(&cr, &snapshot(&nodes, "password")).unwrap();
        let status = json!({ "contract": "v1", "initialized": true, "members": before.members });
        let mut more = nodes.clone();
        more.insert(name, "192.0.2.77".to_owned());
        let after = plan(&resource("redis1", &json!({}), &status), &snapshot(&more, "password")).unwrap();
        prop_assert_eq!(&after.members[..before.members.len()], &before.members[..]);
        let now = files(&after);
        for (name, text) in files(&before) {
            prop_assert_eq!(Some(&text), now.get(&name), "{}", name);
        }
    }
}
