//! What holds for every ensemble, whatever the spec and the nodes.

#![expect(clippy::unwrap_used, reason = "a failing property is a panicking test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use proptest::prelude::*;
use serde_json::{Value, json};
use tf_api::{Zookeeper, contract::Reason, kinds::PlainClients};
use tf_config_files::read;
use tf_plan::{
    component::Component as _,
    object::{CONFIG_MAP, SECRET, STATEFUL_SET},
    observed::{Node, Observed, Source},
    plan::Plan,
};
use tf_testing::invariants;
use zookeeper_op::{
    Component, config,
    plan::{PASSWORD, super_secret},
};

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![3 => any::<[u8; 4]>().prop_map(IpAddr::from), 1 => any::<[u16; 8]>().prop_map(IpAddr::from)]
}

/// Nodes by name, some of them control-plane nodes.
fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let name = "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?(\\.[a-z0-9]{1,8}){0,2}";
    prop::collection::btree_map(name, (prop::option::weighted(0.9, address()), prop::bool::weighted(0.8)), 0..9)
        .prop_map(|nodes| {
            let node = |(name, (address, member)): (String, (Option<IpAddr>, bool))| Node {
                name,
                address: address.map(|address| address.to_string()),
                labels: member
                    .then(|| ("node-role.kubernetes.io/control-plane".to_owned(), String::new()))
                    .into_iter()
                    .collect(),
                ..Node::default()
            };
            nodes.into_iter().map(node).collect()
        })
}

/// Ports that the schema lets through, with or without the administration, TLS and metrics.
fn ports() -> impl Strategy<Value = Value> {
    (
        prop::sample::subsequence((1..=60_u16).map(|n| n * 1000).collect::<Vec<_>>(), 6).prop_shuffle(),
        any::<[bool; 5]>(),
        prop::sample::select(vec!["None", "Request", "Require"]),
    )
        .prop_map(|(ports, [admin, quorum, secure, closed, metrics], authentication)| {
            let mut tls = json!({"quorum": quorum});
            if secure {
                let plain = if closed { "Node" } else { "Everywhere" };
                tls = json!({
                    "quorum": quorum, "clientPort": ports[4], "plainClients": plain, "clientAuthentication": authentication,
                });
            }
            json!({
                "clientPort": ports[0], "electionPort": ports[1], "serverPort": ports[2], "adminPort": ports[3],
                "adminEnabled": admin, "tls": tls, "metricsPort": metrics.then_some(ports[5]),
            })
        })
}

/// The endpoints that others may use.
fn endpoints(plan: &Plan) -> Vec<&str> {
    plan.endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect()
}

/// Changes to the pod template, sensible or not.
fn overrides() -> impl Strategy<Value = Value> {
    let word = "[a-z]([-a-z0-9]{0,12}[a-z0-9])?";
    let container = (prop::sample::select(vec!["zookeeper", "tf-node", "other"]), "[A-Z_]{1,12}", "[ -~]{0,20}")
        .prop_map(|(name, variable, value)| json!({"name": name, "env": [{"name": variable, "value": value}]}));
    let labels = prop::collection::btree_map(
        prop_oneof![Just("tf_manager".to_owned()), word.prop_map(String::from)],
        word,
        0..3,
    );
    (labels, prop::option::of(word), prop::option::of(0..4000_i64), prop::collection::vec(container, 0..2)).prop_map(
        |(labels, class, grace, containers)| {
            json!({
                "metadata": {"labels": labels, "annotations": {"example.com/note": "x"}},
                "spec": {
                    "priorityClassName": class, "terminationGracePeriodSeconds": grace, "containers": containers,
                },
            })
        },
    )
}

prop_compose! {
    fn specs()(
        service in ports(),
        level in prop::sample::select(vec!["info", "debug", "warning", "error", "critical", "none"]),
        replicas in prop::option::of(1..7),
        overrides in prop::option::of(overrides()),
        image in prop::option::of("[a-z]{1,8}/[a-z]{1,8}:[0-9]"),
    ) -> Value {
        let mut service = service;
        service["containers"] = image.map_or(json!([]), |image| json!([{"name": "zookeeper", "image": image}]));
        json!({
            "commonConfiguration": {"logLevel": level, "replicas": replicas, "podOverrides": overrides},
            "serviceConfiguration": service,
        })
    }
}

fn zookeeper(name: &str, spec: &Value, status: &Value) -> Zookeeper {
    let metadata = json!({"name": name, "namespace": "tf", "uid": "u", "generation": 1});
    let resource = json!({
        "apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Zookeeper", "metadata": metadata, "spec": spec, "status": status,
    });
    serde_json::from_value(resource).unwrap()
}

fn observed(name: &str, nodes: &[Node]) -> Observed<Zookeeper> {
    let secret = super_secret(&zookeeper(name, &json!({}), &json!({})));
    let password = [(PASSWORD.to_owned(), "Sup3r".to_owned())].into_iter().collect();
    Observed {
        nodes: Source::Known(nodes.to_vec()),
        secrets: BTreeMap::from([(secret, password)]),
        ..Observed::default()
    }
}

/// All files, with secrets or not.
fn files(plan: &Plan) -> BTreeMap<String, String> {
    let of = |kind, suffix| plan.objects.iter().find(move |it| it.kind == kind && it.name.ends_with(suffix)).unwrap();
    let open = &of(CONFIG_MAP, "-files").body["data"];
    let mut files: BTreeMap<String, String> = serde_json::from_value(open.clone()).unwrap();
    let secret: Secret = serde_json::from_value(of(SECRET, "-secret-files").body.clone()).unwrap();
    let text = |(file, bytes): (String, ByteString)| (file, String::from_utf8(bytes.0).unwrap());
    files.extend(secret.data.unwrap().into_iter().map(text));
    files
}

fn hash(plan: &Plan) -> &str {
    &plan.rollout.as_ref().unwrap().workloads[0].1
}

/// What ZooKeeper makes of `server.<id>`: host, quorum port, election port, host for clients and their port.
fn server(text: &str) -> (String, u16, u16, String, u16) {
    let (members, clients) = text.split_once(":participant;").unwrap();
    let split = |text: &str| {
        let (rest, port) = text.rsplit_once(':').unwrap();
        (rest.to_owned(), port.parse::<u16>().unwrap())
    };
    let host = |text: &str| match text.strip_prefix('[') {
        Some(address) => address.strip_suffix(']').unwrap().to_owned(),
        None => text.to_owned(),
    };
    let (rest, election) = split(members);
    let (quorum_host, quorum) = split(&rest);
    let (client_host, client) = split(clients);
    (host(&quorum_host), quorum, election, host(&client_host), client)
}

proptest! {
    #[test]
    fn every_server_reads_what_the_spec_says_and_the_same_members(
        name in "[a-z0-9]([-a-z0-9]{0,28}[a-z0-9])?",
        spec in specs(),
        nodes in nodes(),
    ) {
        let (cr, observed) = (zookeeper(&name, &spec, &json!({})), observed(&name, &nodes));
        let result = Component::plan(&cr, &observed);
        invariants::check::<Component>("property", &cr, &observed, &result);
        let plan = match result {
            Ok(plan) => plan,
            Err(why) => {
                prop_assert_eq!(why.reason, Reason::NoMatchingNodes, "{}", why.message);
                return Ok(());
            }
        };
        let files = files(&plan);
        let service = &cr.spec.service_configuration;
        let tls = service.tls.clone().unwrap_or_default();
        let closed = tls.plain_clients == PlainClients::Node;
        let published = [(!closed).then_some("client"), tls.client_port.map(|_| "client-tls")];
        prop_assert_eq!(endpoints(&plan), published.into_iter().flatten().collect::<Vec<_>>());
        prop_assert!(read::properties(&files[config::LOG_FILE]).is_ok());

        let ids: BTreeSet<u32> = plan.members.iter().map(|member| member.id).collect();
        prop_assert_eq!(ids.len(), plan.members.len(), "two members have one identity");
        prop_assert!(ids.iter().all(|id| (1..=255).contains(id)), "{:?}", ids);
        for member in &plan.members {
            let key = |file: &str| format!("{file}.{}", member.address.replace(':', "-"));
            let settings = read::properties(&files[&key(config::STATIC_FILE)]).unwrap();
            prop_assert_eq!(&settings["admin.enableServer"], &service.admin_enabled.to_string());
            prop_assert_eq!(&settings["admin.serverPort"], &service.admin_port.to_string());
            prop_assert_eq!(&settings["dynamicConfigFile"], "/var/lib/zookeeper/zoo.cfg.dynamic");
            prop_assert_eq!(&settings["standaloneEnabled"], "false");
            prop_assert!(settings.keys().all(|key| !key.starts_with("server.") && key != "clientPort"), "{:?}", settings);
            prop_assert_eq!(settings.get("sslQuorum").is_some_and(|on| on == "true"), tls.quorum, "founders begin as wanted");
            prop_assert_eq!(settings.get("secureClientPort").cloned(), tls.client_port.map(|port| port.to_string()));
            prop_assert_eq!(settings.contains_key("ssl.clientAuth"), tls.client_port.is_some());
            let metrics = ["metricsProvider.httpHost", "metricsProvider.httpPort"].map(|key| settings.get(key).cloned());
            let wanted = service.metrics_port.map(|port| [member.address.clone(), port.to_string()]);
            prop_assert_eq!(metrics, wanted.map_or([None, None], |wanted| wanted.map(Some)));
            let list = read::properties(&files[&key(config::DYNAMIC_FILE)]).unwrap();
            prop_assert_eq!(list.len(), plan.members.len());
            for other in &plan.members {
                let (quorum_host, quorum, election, client_host, client) = server(&list[&format!("server.{}", other.id)]);
                prop_assert_eq!(&quorum_host, &other.address);
                let client_address: IpAddr = client_host.parse().unwrap();
                prop_assert!(if closed { client_address.is_loopback() } else { client_host == other.address }, "{}", client_host);
                let ports = [service.election_port, service.server_port, service.client_port].map(tf_api::schema::Port::get);
                prop_assert_eq!([quorum, election, client], ports);
            }
            let id: u32 = files[&key(config::ID_FILE)].parse().unwrap();
            // Members with one address share a file: no two nodes of a cluster have one.
            let same = plan.members.iter().filter(|other| other.address == member.address).count();
            prop_assert!(id == member.id || same > 1, "{} is told {}", member.id, id);
        }
    }

    /// Nodes come and go, a Zookeeper that runs keeps identities and pods.
    #[test]
    fn nodes_that_join_or_leave_restart_nobody_and_give_no_identity_twice(
        spec in specs(),
        before in nodes(),
        after in nodes(),
        more in prop::option::of(1..7),
    ) {
        let Ok(first) = Component::plan(&zookeeper("zookeeper1", &spec, &json!({})), &observed("zookeeper1", &before)) else { return Ok(()) };
        let status = json!({"contract": "v1", "initialized": true, "members": first.members});
        let mut grown = spec;
        if more.is_some() {
            grown["commonConfiguration"]["replicas"] = json!(more);
        }
        let mut nodes = before;
        nodes.extend(after.into_iter().filter(|node| node.name.len() > 3));
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        nodes.dedup_by(|a, b| a.name == b.name);
        let second = Component::plan(&zookeeper("zookeeper1", &grown, &status), &observed("zookeeper1", &nodes)).unwrap();
        prop_assert_eq!(hash(&second), hash(&first));
        for member in &first.members {
            let same = second.members.iter().find(|other| other.id == member.id);
            prop_assert_eq!(same.map(|same| &same.node), Some(&member.node));
        }
        let ids: BTreeSet<u32> = second.members.iter().map(|member| member.id).collect();
        prop_assert_eq!(ids.len(), second.members.len());
        let set = second.objects.iter().find(|object| object.kind == STATEFUL_SET).unwrap();
        prop_assert_eq!(&set.body["spec"]["replicas"], &json!(second.members.len()));
    }
}
