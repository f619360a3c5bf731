//! Files as the daemons read them.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Planned, World, config, initialized, is_ini, plan_of};
use serde_json::{Value, json};
use tf_agent_api::{launch::Probe, node};
use tf_config_files::read;
use tf_plan::object::{CONFIG_MAP, SERVICE};
use tf_sim::options::{Daemon, Options};
use tf_testing::{
    invariants::unseen,
    situation::{body, data, external, foreign, has_foreign},
};

const API: &str = "contrail-api-0.conf.10.0.0.2";
const SCHEMA: &str = "contrail-schema.conf.10.0.0.2";
const SVC_MONITOR: &str = "contrail-svc-monitor.conf.10.0.0.2";
const DEVICE_MANAGER: &str = "contrail-device-manager.conf.10.0.0.2";
/// Files of the daemons that use the stores.
const DAEMONS: [&str; 4] = [API, SCHEMA, SVC_MONITOR, DEVICE_MANAGER];

fn is_list(options: &BTreeMap<String, String>, key: &str, separator: char, items: &[&str]) {
    let value = options.get(key).map(|value| value.split(separator).collect::<Vec<_>>());
    assert_eq!(value.as_deref(), Some(items), "{key}");
}

#[test]
fn every_list_has_the_separator_that_its_parser_splits_at() {
    let planned = plan_of(&World::with_analytics(&["10.0.0.7", "10.0.0.8"]), json!({}));
    for file in DAEMONS {
        let defaults = planned.defaults(file);
        is_list(&defaults, "cassandra_server_list", ' ', &["10.0.0.1:9041", "10.0.0.2:9041", "10.0.0.3:9041"]);
        is_list(&defaults, "zk_server_ip", ',', &["10.0.0.1:2181", "10.0.0.2:2181", "10.0.0.3:2181"]);
        is_list(&defaults, "rabbit_server", ',', &["10.0.0.2:5673", "10.0.0.3:5673", "10.0.0.1:5673"]);
        is_list(&defaults, "collectors", ' ', &["10.0.0.7:8086", "10.0.0.8:8086"]);
    }
    for file in [SCHEMA, SVC_MONITOR, DEVICE_MANAGER] {
        is_list(&planned.defaults(file), "api_server_ip", ',', &["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    }
    is_list(&planned.ini(SVC_MONITOR)["SCHEDULER"], "analytics_server_list", ' ', &["10.0.0.7:8081", "10.0.0.8:8081"]);
    is_list(&planned.defaults(DEVICE_MANAGER), "analytics_server_ip", ',', &["10.0.0.7", "10.0.0.8"]);
    is_list(&planned.ini("vnc_api_lib.ini")["global"], "web_server", ',', &["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    let api = plan_of(&World::default(), json!({"serviceConfiguration": {"apiWorkerCount": 3}})).defaults(API);
    is_list(&api, "worker_introspect_ports", ' ', &["8084", "18084", "18085"]);
    is_list(&api, "worker_admin_ports", ' ', &["8095", "28095", "28096"]);
}

#[test]
fn a_member_speaks_for_itself_and_every_other_value_is_the_same() {
    let planned = plan_of(&World::default(), json!({}));
    for file in
        ["contrail-api-0.conf", "contrail-schema.conf", "contrail-svc-monitor.conf", "contrail-device-manager.conf"]
    {
        let of = |address: &str| {
            let mut file = planned.ini(&format!("{file}.{address}"));
            let defaults = file.get_mut("DEFAULTS").unwrap();
            let own = defaults.remove("listen_ip_addr").or_else(|| defaults.remove("host_ip"));
            let bus = defaults.remove("rabbit_server").unwrap();
            (own, bus.split(',').next().unwrap().to_owned(), file)
        };
        let ((own, bus, first), (_, other, second)) = (of("10.0.0.1"), of("10.0.0.2"));
        assert_eq!(own.as_deref(), Some("10.0.0.1"));
        assert_eq!((bus.as_str(), other.as_str()), ("10.0.0.1:5673", "10.0.0.2:5673"), "the server on its node");
        assert_eq!(first, second);
    }
}

#[test]
fn without_analytics_no_file_speaks_of_it() {
    let planned = plan_of(&World::default(), json!({"serviceConfiguration": {"containers": all_containers()}}));
    for (key, text) in planned.files() {
        if is_ini(&key) {
            for (section, options) in read::python(&text).unwrap() {
                let speaks = |option: &String| {
                    option.contains("collectors") || option.contains("analytics") || option == "server_list"
                };
                assert!(!options.keys().any(speaks), "{key} [{section}]");
            }
        }
    }
}

#[test]
fn booleans_are_spelt_so_that_each_daemon_understands_them() {
    let planned = plan_of(&World::default(), json!({}));
    let api = planned.defaults(API);
    // `bool(literal_eval(..))`: `true` would be no literal.
    assert_eq!(api["log_local"], "1");
    assert_eq!(api["config_api_ssl_enable"], "true");
    // Any text would switch it on.
    assert!(!api.contains_key("enable_latency_stats_log"));
    for file in DAEMONS {
        let defaults = planned.defaults(file);
        assert_eq!((&*defaults["cassandra_use_ssl"], &*defaults["rabbit_use_ssl"]), ("true", "true"));
        assert_eq!(planned.ini(file)["SANDESH"]["introspect_ssl_insecure"], "true");
    }
}

#[test]
fn a_moved_port_of_the_api_is_the_same_everywhere() {
    let planned = plan_of(&World::default(), json!({"serviceConfiguration": {"apiPort": 9082, "apiWorkerCount": 2}}));
    assert_eq!(planned.defaults(API)["listen_port"], "9082");
    for file in [SCHEMA, SVC_MONITOR, DEVICE_MANAGER] {
        assert_eq!(planned.defaults(file)["api_server_port"], "9082");
    }
    assert_eq!(planned.ini("vnc_api_lib.ini")["global"]["web_port"], "9082");
    let socket = &planned.ini("contrail-api-uwsgi.ini.10.0.0.2")["uwsgi"]["https-socket"];
    assert_eq!(*socket, format!("10.0.0.2:9082,{},{}", node::CERTIFICATE, node::CERTIFICATE_KEY));
    let front = body(&planned.0, SERVICE, "-config").unwrap();
    assert_eq!(front["spec"]["ports"][0]["port"], 9082);
    assert_eq!(front["spec"]["ports"][0]["targetPort"], 9082);
    assert_eq!(planned.container("api")["ports"][0]["containerPort"], 9082);
    assert_eq!(data(&planned.0, CONFIG_MAP, "-discovery")["API_PORT"], "9082");
    let endpoint = &planned.0.endpoints[0];
    assert_eq!((endpoint.name.as_str(), endpoint.port, endpoint.tls), ("api", 9082, true));
    assert_eq!(endpoint.service.as_deref(), Some("config1-config.tf.svc.cluster.local"));
    assert_eq!(endpoint.nodes, ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
}

#[test]
fn every_worker_of_the_api_has_ports_of_its_own() {
    let planned = plan_of(&World::default(), json!({"serviceConfiguration": {"apiWorkerCount": 3}}));
    let ports = |worker: usize| {
        let defaults = planned.defaults(&format!("contrail-api-{worker}.conf.10.0.0.2"));
        assert_eq!(defaults["worker_id"], worker.to_string());
        (defaults["http_server_port"].clone(), defaults["admin_port"].clone())
    };
    let expected = [("8084", "8095"), ("18084", "28095"), ("18085", "28096")];
    assert_eq!([0, 1, 2].map(ports), expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    assert!(!planned.files().contains_key("contrail-api-3.conf.10.0.0.2"));
    let uwsgi = &planned.ini("contrail-api-uwsgi.ini.10.0.0.2")["uwsgi"];
    assert_eq!((&*uwsgi["workers"], &*uwsgi["die-on-term"]), ("3", "true"));
}

#[test]
fn an_api_is_asked_by_the_number_of_workers_that_uwsgi_starts() {
    for count in [1, 2, 5] {
        let spec = json!({"serviceConfiguration": {"apiWorkerCount": count}});
        let ready = plan_of(&World::default(), spec).launch("api.launch").ready;
        assert!(matches!(&ready, Probe::Http { workers, .. } if workers.get() == count), "{ready:?}");
    }
}

#[test]
fn too_many_workers_for_the_ports_above_are_refused() {
    let auth = json!({"authMode": "keystone", "keystoneAuthParameters": {"adminPassword": "p"}});
    let settings = json!({"apiWorkerCount": 64, "apiAdminPort": 45530});
    let spec = json!({"commonConfiguration": {"authParameters": auth}, "serviceConfiguration": settings});
    let not_ready = World::default().plan(&config(spec)).unwrap_err();
    assert!(not_ready.message.contains("apiAdminPort"), "{}", not_ready.message);
}

#[test]
fn a_password_reads_back_and_stands_in_no_configmap() {
    let password = "K&y+100%<#=;'é%(a)s";
    let auth = json!({"authMode": "keystone", "keystoneSecretName": "ks"});
    let mut world = World::default();
    world.secrets.insert("ks".into(), [("password".to_owned(), password.to_owned())].into());
    let planned = plan_of(&world, json!({"commonConfiguration": {"authParameters": auth}}));
    assert_eq!(planned.ini("contrail-keystone-auth.conf")["KEYSTONE"]["admin_password"], password);
    assert_eq!(planned.ini("vnc_api_lib.ini")["auth"]["authn_password"], password);
    assert_eq!((&*planned.defaults(API)["auth"], &*planned.defaults(API)["aaa_mode"]), ("keystone", "rbac"));
    assert_eq!(planned.ini(SVC_MONITOR)["SCHEDULER"]["aaa_mode"], "rbac");
    for (key, text) in planned.open() {
        assert!(!text.contains("K&y+100") && !text.contains("Rabbit-Pass"), "{key}");
    }
    assert!(!planned.open().contains_key("vnc_api_lib.ini"));
}

#[test]
fn without_keystone_the_library_is_told_so_and_nobody_is_asked_for_a_role() {
    let planned = plan_of(&World::default(), json!({}));
    assert_eq!(planned.ini("vnc_api_lib.ini")["auth"]["authn_type"], "noauth");
    assert_eq!((&*planned.defaults(API)["auth"], &*planned.defaults(API)["aaa_mode"]), ("noauth", "no-auth"));
    assert!(!planned.files().contains_key("contrail-keystone-auth.conf"));
}

#[test]
fn every_spelling_of_the_mode_is_one_the_daemons_know() {
    for (spec, file) in
        [("noauth", "no-auth"), ("no-auth", "no-auth"), ("cloud-admin", "cloud-admin"), ("rbac", "rbac")]
    {
        let planned = with_access(true, json!({"aaaMode": spec}));
        assert_eq!(planned.defaults(API)["aaa_mode"], file);
        assert!(planned.0.ignored.is_empty(), "{:?}", planned.0.ignored);
    }
}

#[test]
fn a_mode_that_nobody_could_enforce_is_told_and_keeps_nothing_from_anybody() {
    for mode in ["cloud-admin", "rbac"] {
        let planned = with_access(false, json!({"aaaMode": mode}));
        assert_eq!(planned.defaults(API)["aaa_mode"], "no-auth");
        assert_eq!(planned.ini(SVC_MONITOR)["SCHEDULER"]["aaa_mode"], "no-auth");
        let [told] = planned.0.ignored.as_slice() else { panic!("{:?}", planned.0.ignored) };
        assert!(
            told.starts_with("spec.serviceConfiguration.aaaMode: ") && told.contains("open to everybody"),
            "{told}"
        );
    }
    for mode in ["noauth", "no-auth"] {
        assert!(with_access(false, json!({"aaaMode": mode})).0.ignored.is_empty());
    }
}

#[test]
fn a_port_of_administration_that_nobody_opens_is_told() {
    let told = |keystone, settings| {
        let planned = with_access(keystone, settings);
        let port = planned.defaults(API)["admin_port"].clone();
        let is_told = |field: &String| field.starts_with("spec.serviceConfiguration.apiAdminPort: ");
        (planned.0.ignored.iter().any(is_told), port)
    };
    let (moved, usual) = ("8195".to_owned(), "8095".to_owned());
    assert_eq!(told(false, json!({"apiAdminPort": 8195})), (true, usual.clone()));
    assert_eq!(told(true, json!({"apiAdminPort": 8195, "aaaMode": "noauth"})), (true, usual.clone()));
    assert_eq!(told(true, json!({"apiAdminPort": 8195})), (false, moved));
    assert_eq!(told(false, json!({})), (false, usual));
}

/// A plan with these settings, and with Keystone or without.
fn with_access(keystone: bool, settings: Value) -> Planned {
    let auth = json!({"authMode": "keystone", "keystoneAuthParameters": {"adminPassword": "p"}});
    let common = if keystone { json!({"authParameters": auth}) } else { json!({}) };
    plan_of(&World::default(), json!({"commonConfiguration": common, "serviceConfiguration": settings}))
}

#[test]
fn ipv6_addresses_stand_as_each_parser_wants_them() {
    let six: Vec<String> = (1..=3).map(|n| format!("fd00::{n}")).collect();
    let world = World {
        nodes: six.clone(),
        cassandra: six.clone(),
        cql_port: 9042,
        zookeeper: six.clone(),
        rabbitmq: six.clone(),
        analytics: six,
        ..World::default()
    };
    let planned = plan_of(&world, json!({"serviceConfiguration": {"apiWorkerCount": 2}}));
    let api = planned.defaults("contrail-api-0.conf.fd00--2");
    assert_eq!((&*api["listen_ip_addr"], &*api["http_server_ip"]), ("fd00::2", "0.0.0.0"));
    is_list(&api, "cassandra_server_list", ' ', &["fd00::1", "fd00::2", "fd00::3"]);
    is_list(&api, "zk_server_ip", ',', &["[fd00::1]:2181", "[fd00::2]:2181", "[fd00::3]:2181"]);
    is_list(&api, "rabbit_server", ',', &["[fd00::2]:5673", "[fd00::3]:5673", "[fd00::1]:5673"]);
    assert!(!api.contains_key("collectors"));
    let svc_monitor = planned.ini("contrail-svc-monitor.conf.fd00--2");
    is_list(&svc_monitor["DEFAULTS"], "api_server_ip", ',', &["[fd00::1]", "[fd00::2]", "[fd00::3]"]);
    assert!(!svc_monitor["SCHEDULER"].contains_key("analytics_server_list"));
    let socket = &planned.ini("contrail-api-uwsgi.ini.fd00--2")["uwsgi"]["https-socket"];
    assert!(socket.starts_with("[fd00::2]:8082,"));
    assert!(planned.0.notes.iter().any(|note| note.contains("IPv4 only")));
}

#[test]
fn one_ipv4_address_names_the_port_of_a_mixed_cassandra() {
    let mixed = ["fd00::1", "10.0.0.2", "fd00::3"].map(str::to_owned).to_vec();
    let planned = plan_of(&World { cassandra: mixed, ..World::default() }, json!({}));
    is_list(&planned.defaults(API), "cassandra_server_list", ' ', &["fd00::1", "10.0.0.2:9041", "fd00::3"]);
}

#[test]
fn of_mixed_analytics_the_reachable_part_is_used() {
    let planned = plan_of(&World::with_analytics(&["10.0.0.7", "fd00::8"]), json!({}));
    is_list(&planned.defaults(API), "collectors", ' ', &["10.0.0.7:8086"]);
    is_list(&planned.ini(SVC_MONITOR)["SCHEDULER"], "analytics_server_list", ' ', &["10.0.0.7:8081"]);
}

#[test]
fn nothing_starts_before_cassandra_lists_all_of_its_members() {
    // The replication factor is the number of servers listed at the first start, for ever (docs/upstream/cassandra.md#replication-factor).
    for listed in 0..3 {
        let world =
            World { cassandra: World::default().cassandra[..listed].to_vec(), ready: false, ..World::default() };
        assert!(world.plan(&config(json!({}))).is_err(), "{listed} of 3 are listed");
    }
    let planned = plan_of(&World::default(), json!({}));
    for file in DAEMONS {
        assert_eq!(planned.defaults(file)["cassandra_server_list"].split(' ').count(), 3);
    }
}

#[test]
fn a_service_that_flaps_changes_no_object() {
    let config = initialized(&config(json!({})));
    let (up, down) =
        (World::with_analytics(&["10.0.0.7"]), World { ready: false, ..World::with_analytics(&["10.0.0.7"]) });
    assert_eq!(up.plan(&config).unwrap().objects, down.plan(&config).unwrap().objects);
}

/// Whether there are collectors matters to everything that runs.
#[test]
fn analytics_that_cannot_be_seen_takes_its_collectors_from_nobody() {
    let config = initialized(&config(json!({})));
    let world = World::with_analytics(&["10.0.0.7"]);
    let plan = world.plan(&config).unwrap();
    unseen::check::<config_op::Component>("config", &config, &world.observed(), &plan);
}

#[test]
fn members_offer_addresses_one_after_the_other() {
    let planned = plan_of(&World::default(), json!({}));
    for (address, delay) in [("10.0.0.1", 0), ("10.0.0.2", 2), ("10.0.0.3", 4)] {
        let base = &planned.open()[&format!("base.conf.{address}")];
        assert!(base.lines().any(|line| line == format!("dhcp-reply-delay={delay}")), "{base}");
        assert!(base.lines().any(|line| line == "tftp-root=/etc/tftp"));
    }
    let external = plan_of(&World::default(), json!({"serviceConfiguration": {"useExternalTFTP": true}}));
    assert!(!external.open()["base.conf.10.0.0.1"].contains("tftp"));
}

#[test]
fn device_manager_and_dnsmasq_share_directories_and_processes() {
    let planned = plan_of(&World::default(), json!({}));
    let defaults = planned.defaults(DEVICE_MANAGER);
    let mounted = |container: &str, path: &str| {
        let mounts = planned.container(container)["volumeMounts"].as_array().unwrap();
        mounts.iter().find(|mount| mount["mountPath"] == path).map(|mount| mount["name"].clone())
    };
    for path in [&defaults["dnsmasq_conf_dir"], &defaults["tftp_dir"]] {
        assert!(mounted("dnsmasq", path).is_some());
        assert_eq!(mounted("dnsmasq", path), mounted("devicemanager", path));
    }
    assert_eq!(planned.open()["dnsmasq.conf"], format!("conf-dir={}/,*.conf\n", defaults["dnsmasq_conf_dir"]));
    assert_eq!(planned.pod()["shareProcessNamespace"], true);
    // The elected device manager kills whatever has its name on the command line (upstream `dm_server.py`).
    for container in planned.pod()["containers"].as_array().unwrap() {
        assert!(!container["command"].to_string().contains("contrail-device-manager"));
    }
}

#[test]
fn without_dnsmasq_the_device_manager_gives_no_addresses() {
    let containers = json!([{"name": "api"}, {"name": "devicemanager"}]);
    let planned = plan_of(&World::default(), json!({"serviceConfiguration": {"containers": containers}}));
    assert!(!planned.defaults(DEVICE_MANAGER).contains_key("dnsmasq_conf_dir"));
    assert_eq!(planned.pod()["shareProcessNamespace"], Value::Null);
}

fn all_containers() -> Value {
    let names = ["api", "devicemanager", "dnsmasq", "schematransformer", "servicemonitor", "nodemanager"];
    json!(names.map(|name| json!({"name": name})))
}

/// Who reads the files here was written without what writes them.
#[test]
fn daemons_that_are_played_strictly_take_every_file() {
    let world = World { cql_port: 9042, ..World::with_analytics(&["10.0.0.7"]) };
    for world in [World::default(), world] {
        let planned = plan_of(&world, json!({}));
        let daemons = DAEMONS.into_iter().zip(Daemon::ALL);
        for (file, daemon) in daemons {
            let options = Options::read(daemon, &[planned.files()[file].clone()]).unwrap();
            assert_eq!(options.cassandra.hosts, world.cassandra, "{file}");
            assert_eq!((options.cassandra.port, options.cassandra.tls), (world.cql_port, true), "{file}");
            assert_eq!(options.zookeeper.as_deref(), Some("10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181"), "{file}");
            assert_eq!(options.rabbitmq.servers, ["10.0.0.2:5673", "10.0.0.3:5673", "10.0.0.1:5673"], "{file}");
            assert_eq!(options.rabbitmq.password, world.rabbitmq_login[1], "{file}");
            assert!(options.rabbitmq.tls.is_some_and(|tls| tls.has_version && tls.authorities.is_some()), "{file}");
            assert_eq!(options.collectors.is_empty(), world.analytics.is_empty(), "{file}");
            assert!(options.introspect_pair.is_some() && options.rest.is_some() == (daemon == Daemon::Api), "{file}");
        }
    }
}

#[test]
fn uwsgi_that_is_played_strictly_runs_every_worker_on_the_port_of_the_api() {
    let planned = plan_of(&World::default(), json!({"serviceConfiguration": {"apiWorkerCount": 3}}));
    let uwsgi = tf_sim::uwsgi::Options::read(&planned.file("contrail-api-uwsgi.ini.10.0.0.2")).unwrap();
    let mut ports = BTreeSet::new();
    for worker in 0..uwsgi.workers {
        let options =
            Options::read(Daemon::Api, &[planned.file(&format!("contrail-api-{worker}.conf.10.0.0.2"))]).unwrap();
        assert_eq!((options.listen, options.rest), (uwsgi.listen, Some(uwsgi.pair.clone())));
        assert_eq!(options.worker, worker.to_string());
        ports.insert(options.introspect.1);
    }
    assert_eq!((uwsgi.workers, ports.len()), (3, 3), "each worker opens a port of its own for introspection");
}

#[test]
fn analytics_of_another_authority_are_checked_against_it_and_shown_what_is_theirs() {
    let secret = foreign();
    let world = World { secrets: [("outer".to_owned(), secret.clone())].into(), ..World::default() };
    let spec = json!({
        "dependencies": {"analytics": external(&[("collector", 8086), ("api", 8081)])},
        "serviceConfiguration": {"containers": all_containers()},
    });
    let planned = plan_of(&world, spec);
    for (file, daemon) in DAEMONS.into_iter().zip(Daemon::ALL) {
        let (shown, authorities) = Options::read(daemon, &[planned.file(file)]).unwrap().collector_tls.unwrap();
        assert_eq!(shown.key, std::path::PathBuf::from("/etc/contrail/analytics-client.key"), "{file}");
        assert_eq!(authorities, std::path::PathBuf::from("/etc/contrail/analytics-ca.crt"), "{file}");
    }
    for file in ["contrail-config-nodemgr.conf.10.0.0.2", "contrail-fabric-ansible.conf"] {
        assert_eq!(planned.ini(file)["SANDESH"]["sandesh_ca_cert"], "/etc/contrail/analytics-ca.crt", "{file}");
    }
    let monitor = planned.defaults(SVC_MONITOR);
    let of = ["ca_cert", "certfile", "keyfile"].map(|option| monitor[&format!("analytics_api_ssl_{option}")].as_str());
    let expected = ["ca.crt", "client.crt", "client.key"].map(|file| format!("/etc/contrail/analytics-{file}"));
    assert_eq!(of, expected.each_ref().map(String::as_str));
    let launches = ["api", "devicemanager", "schematransformer", "servicemonitor", "nodemanager"];
    let launches = launches.map(|name| format!("{name}.launch"));
    has_foreign(&planned, "analytics", true, &secret, &launches.each_ref().map(String::as_str));
    assert_eq!(planned.ini("vnc_api_lib.ini")["global"]["cafile"], node::CA_BUNDLE, "the API is of this cluster");
}
