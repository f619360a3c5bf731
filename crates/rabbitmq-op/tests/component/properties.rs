//! What holds for every cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use proptest::{collection::btree_map, option, prelude::*};
use rabbitmq_op::plan::plan;
use serde_json::{Value, json};
use tf_api::{Rabbitmq, contract::Reason, names::ANNOTATION_HIBERNATE};
use tf_config_files::{
    env,
    read::{self, Cuttlefish},
};
use tf_plan::{
    observed::{Observed, Workload},
    plan::Plan,
};

use crate::support::{self, files, hosts, listed, observed, resource, secret_files};

/// Marks a secret, so that a test can look for it in a message.
const MARK: &str = "Xy7Qp2Zk";

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![3 => any::<[u8; 4]>().prop_map(IpAddr::from), 1 => any::<[u16; 8]>().prop_map(IpAddr::from)]
}

/// Nodes by name; mostly of one address family.
fn nodes() -> impl Strategy<Value = BTreeMap<String, String>> {
    let name = "[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?(\\.[a-z0-9]{1,8}){0,3}";
    let v4 = any::<[u8; 4]>().prop_map(|octets| IpAddr::from(octets).to_string());
    let v6 = any::<[u16; 8]>().prop_map(|segments| IpAddr::from(segments).to_string());
    let any = address().prop_map(|address| address.to_string());
    prop_oneof![4 => btree_map(name, v4, 1..8), 3 => btree_map(name, v6, 1..8), 1 => btree_map(name, any, 1..8)]
}

/// A credential that clients can use, or one they cannot.
fn credential() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[A-Za-z0-9_.-]{1,40}",
        1 => "[ -~éü\n]{0,20}".prop_map(|text| format!("{text}{MARK}&\"+%<#=")),
        1 => Just(String::new()),
    ]
}

fn service() -> impl Strategy<Value = Value> {
    let credentials = (option::of(credential()), option::of(credential()), option::of(credential()));
    let modes = prop::sample::select(vec!["exactly", "all", "nodes"]);
    let handling = prop::sample::select(vec!["ignore", "autoheal", "pause_minority"]);
    let cookie = option::of("[ -~]{0,40}");
    let tls = option::of(any::<bool>());
    (1..=65535_u16, 1..=65535_u16, credentials, cookie, option::of(modes), handling, tls).prop_map(
        |(port, epmd, (user, password, vhost), cookie, mode, handling, tls)| {
            json!({
                "port": port, "erlEpmdPort": epmd, "user": user, "password": password, "vhost": vhost,
                "erlangCookie": cookie, "mirroredQueueMode": mode, "clusterPartitionHandling": handling,
                "tls": {"distribution": tls},
            })
        },
    )
}

fn snapshot(name: &str, nodes: &BTreeMap<String, String>) -> Observed<Rabbitmq> {
    let nodes: Vec<_> = nodes.iter().map(|(name, address)| (name.as_str(), address.as_str())).collect();
    observed(name, &nodes)
}

fn cluster(name: &str, service: &Value, status: &Value) -> Rabbitmq {
    resource(name, &json!({ "serviceConfiguration": service }), status)
}

/// The cookie that a spec states.
fn stated_cookie(service: &Value) -> Option<String> {
    service["erlangCookie"].as_str().filter(|cookie| !cookie.is_empty()).map(str::to_owned)
}

/// The snapshot after the plan was carried out and the cluster came up, and the status then.
fn carried_out(plan: &Plan, before: &Observed<Rabbitmq>, name: &str) -> (Observed<Rabbitmq>, Value) {
    let mut after = before.clone();
    after.config_maps.insert(format!("{name}-rabbitmq-files"), files(plan));
    let secrets = secret_files(plan).into_iter().collect();
    after.secrets.insert(format!("{name}-rabbitmq-secret-files"), secrets);
    let own = support::data(plan, tf_plan::object::SECRET, &format!("{name}-secret")).into_iter().collect();
    after.secrets.insert(format!("{name}-secret"), own);
    (after, json!({ "contract": "v1", "initialized": true, "members": plan.members }))
}

/// Whether members speak TLS with each other.
fn is_tls(plan: &Plan) -> bool {
    files(plan).contains_key("inter_node_tls.config")
}

fn names(plan: &Plan) -> Vec<String> {
    listed(&files(plan))
}

proptest! {
    #[test]
    fn every_plan_is_deterministic_fits_and_reads_back(
        name in "[a-z]([a-z0-9-]{0,29}[a-z0-9])?",
        nodes in nodes(),
        service in service(),
    ) {
        let cr = cluster(&name, &service, &json!({}));
        let observed = snapshot(&name, &nodes);
        let result = plan(&cr, &observed);
        prop_assert_eq!(&result, &plan(&cr, &observed));
        let plan = match result {
            Ok(plan) => plan,
            Err(why) => {
                prop_assert!(matches!(why.reason, Reason::InvalidSpec), "{:?}", why);
                prop_assert!(!why.message.contains(MARK), "{}", why.message);
                return Ok(());
            }
        };
        for object in &plan.objects {
            prop_assert!(object.name.len() <= 63 && object.body.to_string().len() < 1 << 20, "{}", object.describe());
        }
        let files = files(&plan);
        let known = hosts(&files["erl_hosts"]);
        prop_assert_eq!(known.iter().map(|(_, host)| host).collect::<BTreeSet<_>>().len(), plan.members.len());
        for (member, (address, host)) in plan.members.iter().zip(&known) {
            prop_assert_eq!(&address.to_string(), &member.address);
            let key = member.address.replace(':', "-");
            let config = read::sysctl(&files[&format!("rabbitmq.conf.{key}")], Cuttlefish::Quoted);
            prop_assert!(config.is_ok());
            let variables = env::parse(&files[&format!("rabbitmq-env.conf.{key}")]).unwrap();
            prop_assert_eq!(variables["RABBITMQ_NODENAME"].strip_prefix("rabbit@"), Some(host.as_str()));
        }
        let secrets = secret_files(&plan);
        let definitions: Value = serde_json::from_str(&secrets["definitions.json"]).unwrap();
        prop_assert!(definitions["users"][0]["name"].as_str().is_some_and(|user| !user.is_empty()));
        prop_assert!(!secrets[".erlang.cookie"].is_empty());
    }

    /// Whatever changes afterwards, the members keep their names and their cookie, and so find their data and each other.
    #[test]
    fn a_running_cluster_keeps_names_cookie_and_how_its_members_speak(
        nodes in nodes(),
        before in service(),
        after in service(),
        domain in "[a-z]{1,8}\\.[a-z]{1,8}",
        secret_lost in any::<bool>(),
    ) {
        let observed = snapshot("rabbitmq1", &nodes);
        let Ok(first) = plan(&cluster("rabbitmq1", &before, &json!({})), &observed) else { return Ok(()) };
        let (mut later, status) = carried_out(&first, &observed, "rabbitmq1");
        later.operator.cluster_domain = domain;
        if secret_lost {
            later.secrets.insert("rabbitmq1-secret".to_owned(), support::secret());
        }
        let Ok(second) = plan(&cluster("rabbitmq1", &after, &status), &later) else { return Ok(()) };
        prop_assert_eq!(names(&first), names(&second));
        let cookie = |plan: &Plan| secret_files(plan)[".erlang.cookie"].clone();
        prop_assert_eq!(cookie(&first), cookie(&second));
        let differs = stated_cookie(&after).is_some_and(|wanted| wanted != cookie(&first))
            || after["erlEpmdPort"] != before["erlEpmdPort"]
            || after["tls"]["distribution"].as_bool().is_some_and(|wanted| wanted != is_tls(&first));
        prop_assert_eq!(is_tls(&first), is_tls(&second));
        prop_assert_eq!(second.held.is_some(), differs, "{:?}", second.held);
    }

    /// While nobody runs, the members get what the spec says, and keep their names. They wake with it.
    #[test]
    fn a_cluster_that_sleeps_follows_the_spec(nodes in nodes(), before in service(), after in service()) {
        let observed = snapshot("rabbitmq1", &nodes);
        let Ok(first) = plan(&cluster("rabbitmq1", &before, &json!({})), &observed) else { return Ok(()) };
        let (mut night, status) = carried_out(&first, &observed, "rabbitmq1");
        let workload = "rabbitmq1-rabbitmq-statefulset".to_owned();
        let asleep = Workload { name: workload.clone(), current: true, ..Workload::default() };
        night.workloads.insert(workload, asleep);
        let awake = cluster("rabbitmq1", &after, &status);
        let mut sleeping = awake.clone();
        let annotations = sleeping.metadata.annotations.get_or_insert_default();
        annotations.insert(ANNOTATION_HIBERNATE.to_owned(), "true".to_owned());
        let Ok(second) = plan(&sleeping, &night) else { return Ok(()) };
        prop_assert_eq!(names(&first), names(&second));
        let wanted = after["tls"]["distribution"].as_bool();
        prop_assert_eq!(is_tls(&second), wanted.unwrap_or(is_tls(&first)));
        let cookie = secret_files(&second)[".erlang.cookie"].clone();
        prop_assert_eq!(cookie, stated_cookie(&after).unwrap_or_else(|| secret_files(&first)[".erlang.cookie"].clone()));

        let (morning, _) = carried_out(&second, &night, "rabbitmq1");
        let third = plan(&awake, &morning).unwrap();
        prop_assert_eq!(files(&third), files(&second));
        prop_assert_eq!(third.held, None);
    }

    #[test]
    fn a_plan_that_was_carried_out_is_planned_again(nodes in nodes(), service in service()) {
        let observed = snapshot("rabbitmq1", &nodes);
        let Ok(first) = plan(&cluster("rabbitmq1", &service, &json!({})), &observed) else { return Ok(()) };
        let (later, status) = carried_out(&first, &observed, "rabbitmq1");
        let second = plan(&cluster("rabbitmq1", &service, &status), &later);
        prop_assert_eq!(second.map(|plan| plan.objects), Ok(first.objects));
    }
}
