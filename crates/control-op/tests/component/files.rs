//! Files as the daemons read them.

use crate::support::{self, KEY, Planned, World, control, initialized, plan_of};
use control_op::Component;
use serde_json::{Value, json};
use tf_agent_api::node;
use tf_plan::component::Component as _;
use tf_sim::control::options::{Daemon, Options};
use tf_testing::{
    invariants::unseen,
    situation::{external, foreign, has_foreign},
};

const CONTROL: &str = "contrail-control.conf.10.0.0.2";
const DNS: &str = "contrail-dns.conf.10.0.0.2";

/// What the daemons of the second member go by. Who reads the files was written without what writes them, and ends at what it does not know.
#[expect(clippy::unwrap_used, reason = "a file that its daemon does not take is a failing test")]
fn read(planned: &Planned) -> [Options; 2] {
    [(Daemon::Control, CONTROL), (Daemon::Dns, DNS)]
        .map(|(daemon, file)| Options::read(daemon, &planned.file(file)).unwrap())
}

#[test]
fn daemons_that_are_played_strictly_take_every_file() {
    for world in [World::default(), World::with_analytics(&["10.0.0.7", "10.0.0.8"])] {
        let planned = plan_of(&world, json!({}));
        for options in read(&planned) {
            let daemon = options.daemon;
            assert_eq!(
                (options.address.to_string().as_str(), options.name.as_str()),
                ("10.0.0.2", "cp2"),
                "{daemon:?}"
            );
            assert_eq!(options.cassandra.hosts, world.cassandra, "{daemon:?}");
            assert_eq!((options.cassandra.port, options.cassandra.tls), (9041, true), "{daemon:?}");
            assert_eq!(options.cassandra.authorities, Some(node::CA_BUNDLE.into()), "{daemon:?}");
            assert_eq!(options.rabbitmq.servers, ["10.0.0.2:5673", "10.0.0.3:5673", "10.0.0.1:5673"], "{daemon:?}");
            assert_eq!((&options.rabbitmq.password, options.rabbitmq.vhost.as_str()), (&world.password, "vhost001"));
            assert!(
                options.rabbitmq.tls.is_some_and(|tls| tls.pair.is_some() && tls.authorities.is_some()),
                "{daemon:?}"
            );
            assert_eq!(options.collectors.len(), world.analytics.len(), "{daemon:?}");
            let (_, shown) = options.introspect;
            let (agents, authorities) = options.xmpp_tls.expect("TLS with agents");
            assert_eq!(shown.expect("TLS of introspection").certificate, agents.certificate, "{daemon:?}");
            assert_eq!((agents.key, authorities), (node::CERTIFICATE_KEY.into(), node::CA_BUNDLE.into()), "{daemon:?}");
            assert!(options.collector_tls.is_some(), "{daemon:?}");
        }
    }
}

#[test]
fn a_moved_port_is_the_same_everywhere() {
    let spec = json!({"bgpPort": 1179, "xmppPort": 6269, "dnsPort": 1053, "dnsIntrospectPort": 9092});
    let planned = plan_of(&World::default(), json!({"serviceConfiguration": spec}));
    let [control, dns] = read(&planned);
    assert_eq!((control.bgp, control.xmpp, control.introspect.0.1), (Some(1179), 6269, 8083));
    assert_eq!((dns.named.unwrap().port, dns.xmpp, dns.introspect.0.1), (1053, 8093, 9092));
    let endpoints: Vec<_> = planned.0.endpoints.iter().map(|it| (it.name.as_str(), it.port, it.tls)).collect();
    assert_eq!(
        endpoints,
        [("xmpp", 6269, true), ("bgp", 1179, false), ("dns", 1053, false), ("dns-introspect", 9092, true)]
    );
    assert_eq!(planned.container("control")["ports"][0]["containerPort"], 6269);
    assert_eq!(planned.container("control")["ports"][3]["containerPort"], 16289, "of the agent");
    assert_eq!(planned.container("named")["ports"][0]["containerPort"], 1053);
    let ports = &planned.0.own_status["ports"];
    assert_eq!(*ports, json!({"bgpPort": "1179", "xmppPort": "6269", "dnsPort": "1053", "dnsIntrospectPort": "9092"}));
}

#[test]
fn the_key_is_one_for_both_daemons_and_stands_where_secrets_are() {
    let named = |planned: &Planned| {
        let [_, dns] = read(planned);
        let named = dns.named.unwrap();
        let launch = planned.launch("named.launch");
        assert_eq!(launch.argv.last().map(String::as_str), named.file.to_str());
        assert_eq!(launch.awaits, [named.file.to_str().unwrap()]);
        named
    };
    let (generated, given) = (plan_of(&World::default(), json!({})), "xvysmOR8lnUQRBcunkC6vg==");
    let stated = plan_of(&World::default(), json!({"serviceConfiguration": {"rndckey": given}}));
    let (first, second) = (named(&generated), named(&stated));
    assert_eq!((first.secret.as_str(), second.secret.as_str()), (KEY, given));
    assert!(first.file != second.file && first.rndc != second.rndc, "files of one key are those of another");
    let moved = named(&plan_of(&World::default(), json!({"serviceConfiguration": {"dnsPort": 1053}})));
    assert_ne!(moved.file, first.file, "files of one port are those of another");
    for planned in [&generated, &stated] {
        for object in planned.0.objects.iter().filter(|object| object.kind != tf_plan::object::SECRET) {
            let text = object.body.to_string();
            assert!(!text.contains(KEY) && !text.contains(given) && !text.contains("Rabbit-Pass"), "{}", object.name);
        }
    }
    let kept = |planned: &Planned| planned.0.objects.iter().any(|object| object.name == "control1-control-rndc");
    assert!(kept(&generated) && !kept(&stated));
}

#[test]
fn dns_daemon_and_name_server_share_a_directory_in_memory() {
    let planned = plan_of(&World::default(), json!({}));
    let mounted = |container: &str| {
        let mounts = planned.container(container)["volumeMounts"].as_array().unwrap();
        mounts.iter().find(|mount| mount["mountPath"] == "/etc/contrail/dns").map(|mount| mount["name"].clone())
    };
    assert!(mounted("dns").is_some() && mounted("dns") == mounted("named") && mounted("control").is_none());
    let volumes = planned.pod()["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|volume| Some(&volume["name"]) == mounted("dns").as_ref()).unwrap();
    assert_eq!(volume["emptyDir"]["medium"], "Memory");
}

#[test]
fn without_dns_there_is_no_endpoint_no_key_and_no_file_of_it() {
    let spec = json!({"serviceConfiguration": {"containers": [{"name": "control"}]}});
    let planned = plan_of(&World { key: String::new(), ..World::default() }, spec);
    assert!(planned.0.endpoints.iter().all(|endpoint| endpoint.name != "dns"));
    assert!(!planned.secret().keys().any(|key| key.contains("dns")));
    assert!(planned.0.objects.iter().all(|object| object.name != "control1-control-rndc"));
}

#[test]
fn servers_that_the_parsers_would_cut_are_left_out_or_refused() {
    let hosts = |hosts: &[&str]| hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
    let mixed = World {
        cassandra: hosts(&["fd00::1", "10.0.0.2"]),
        rabbitmq: hosts(&["10.0.0.1", "fd00::2"]),
        analytics: hosts(&["10.0.0.7", "fd00::8", "collector.example.org"]),
        ..World::default()
    };
    let planned = plan_of(&mixed, json!({}));
    for options in read(&planned) {
        assert_eq!(options.cassandra.hosts, ["10.0.0.2"]);
        assert_eq!(
            (options.rabbitmq.servers, options.collectors),
            (hosts(&["10.0.0.1:5673"]), hosts(&["10.0.0.7:8086"]))
        );
    }
    assert_eq!(planned.0.notes.len(), 3, "{:?}", planned.0.notes);
    for (world, service) in [
        (World { cassandra: hosts(&["fd00::1"]), ..World::default() }, "Cassandra"),
        (World { rabbitmq: hosts(&["fd00::1"]), ..World::default() }, "RabbitMQ"),
    ] {
        let refused = world.plan(&control(json!({}))).unwrap_err();
        assert!(refused.message.contains(service) && refused.message.contains("IPv4"), "{}", refused.message);
    }
    // Nobody waits for collectors that cannot be expressed.
    let unreachable = plan_of(&World::with_analytics(&["fd00::7"]), json!({}));
    assert!(read(&unreachable).iter().all(|options| options.collectors.is_empty()));
}

#[test]
fn daemons_serve_when_they_say_so_and_the_name_server_when_its_port_is_open() {
    use tf_agent_api::launch::Probe;
    let planned = plan_of(&World::default(), json!({}));
    for (daemon, expected) in [("control", 8083), ("dns", 8092)] {
        let Probe::NodeStatus { port, tls, functional, .. } = planned.launch(&format!("{daemon}.launch")).ready else {
            panic!("{daemon}")
        };
        assert_eq!((port.get(), tls, functional), (expected, true, true), "{daemon}");
    }
    assert!(matches!(planned.launch("named.launch").ready, Probe::Dns { port } if port.get() == 53));
    assert!(planned.launch("control.launch").agent.is_some() && planned.launch("dns.launch").agent.is_none());
}

#[test]
fn a_service_that_flaps_changes_no_object() {
    let control = initialized(&control(json!({})));
    let up = World::with_analytics(&["10.0.0.7"]);
    let down = World { ready: false, ..up.clone() };
    assert_eq!(up.plan(&control).unwrap().objects, down.plan(&control).unwrap().objects);
}

/// Whether there are collectors matters to everything that runs.
#[test]
fn analytics_that_cannot_be_seen_takes_its_collectors_from_nobody() {
    let control = initialized(&control(json!({})));
    let world = World::with_analytics(&["10.0.0.7"]);
    let plan = world.plan(&control).unwrap();
    unseen::check::<control_op::Component>("control", &control, &world.observed(), &plan);
}

#[test]
fn two_resources_side_by_side_share_no_name_and_no_directory() {
    let names = |name: &str| {
        let world = World { name: name.into(), ..World::default() };
        let spec = json!({"serviceConfiguration": {"subcluster": "east", "asnNumber": 64999}});
        let planned = Planned(world.plan(&support::named("tf", name, spec)).unwrap());
        assert_eq!(
            (&planned.0.own_status["subcluster"], &planned.0.own_status["asnNumber"]),
            (&json!("east"), &json!("64999"))
        );
        assert_eq!(planned.0.ignored, Vec::<String>::new());
        let logs = planned.pod()["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == "logs").cloned();
        let path = logs.unwrap_or(Value::Null)["hostPath"]["path"].as_str().unwrap_or_default().to_owned();
        let mut names: Vec<String> = planned.0.objects.iter().map(|object| object.name.clone()).collect();
        names.push(path);
        names
    };
    let (first, second) = (names("control1"), names("control2"));
    assert!(first.iter().all(|name| !second.contains(name)), "{first:?} {second:?}");
}

#[test]
fn collectors_of_another_authority_are_checked_against_it_and_shown_what_is_theirs() {
    let secret = foreign();
    let analytics = external(&[("collector", 8086)]);
    let containers = ["control", "dns", "named", "nodemanager"].map(|name| json!({"name": name}));
    let spec = json!({"dependencies": {"analytics": analytics}, "serviceConfiguration": {"containers": containers}});
    let mut observed = World::default().observed();
    observed.secrets.insert("outer".into(), secret.clone().into_iter().collect());
    let planned = Planned(Component::plan(&control(spec), &observed).unwrap());
    for options in read(&planned) {
        let (shown, authorities) = options.collector_tls.unwrap();
        assert_eq!(shown.key, std::path::PathBuf::from("/etc/contrail/analytics-client.key"));
        assert_eq!(authorities, std::path::PathBuf::from("/etc/contrail/analytics-ca.crt"));
        let (_, introspect) = options.introspect;
        assert_eq!(introspect.unwrap().key, std::path::PathBuf::from(node::CERTIFICATE_KEY), "that of this cluster");
        let (agents, authorities) = options.xmpp_tls.unwrap();
        assert_eq!((agents.key, authorities), (node::CERTIFICATE_KEY.into(), node::CA_BUNDLE.into()));
    }
    let launches = ["control.launch", "dns.launch", "nodemanager.launch"];
    has_foreign(&planned, "analytics", true, &secret, &launches);
    let manager = planned.ini("contrail-control-nodemgr.conf.10.0.0.2");
    assert_eq!(manager["SANDESH"]["sandesh_ca_cert"], "/etc/contrail/analytics-ca.crt");
}
