//! Files as the servers read them.

use crate::support::{LOGIN, World, initialized, launch_of, options_of, plan_of, webui};
use serde_json::{Value, json};
use tf_agent_api::{
    launch::{OnChange, Probe, Relay},
    node,
};
use tf_plan::object::{SECRET, SERVICE};
use tf_testing::{
    invariants::unseen,
    situation::{external, foreign, has_foreign},
};

fn auth(auth: Value) -> Value {
    json!({"commonConfiguration": {"authParameters": auth}})
}

#[test]
fn servers_that_are_played_strictly_take_the_files() {
    let world = World { analytics: vec!["10.0.0.7".into(), "10.0.0.8".into()], ..World::default() };
    let options = options_of(&plan_of(&world, json!({})), "10.0.0.2");
    assert_eq!((options.listen, options.https, options.http), (vec!["10.0.0.2".to_owned()], 8143, 8180));
    assert_eq!(options.pair.certificate.to_str(), Some(node::CERTIFICATE));
    assert_eq!(options.pair.key.to_str(), Some(node::CERTIFICATE_KEY));
    assert_eq!((options.api.server.hosts, options.api.server.port, options.api.server.tls), (world.nodes, 8082, true));
    assert!(options.api.is_strict && options.api.authorities == Some(node::CA_BUNDLE.into()));
    let analytics = options.analytics.unwrap();
    assert_eq!((analytics.server.hosts, analytics.server.port), (world.analytics, 8081));
    let dns = options.dns.unwrap();
    assert_eq!((dns.hosts.len(), dns.port, dns.tls), (3, 8192, true), "that of the spec of Control");
    assert_eq!((options.cassandra.hosts, options.cassandra.port), (world.cassandra, 9041));
    assert_eq!(options.cassandra.authorities, Some(node::CA_BUNDLE.into()));
    assert_eq!((options.redis, options.kue), (("127.0.0.1".to_owned(), 16389), 3002));
    assert_eq!(options.users, [["admin", LOGIN, "cloudAdmin"].map(str::to_owned)]);
    assert!(options.keystone.is_none() && options.introspect.is_some());
    assert_eq!(options.level, "info");
}

#[test]
fn without_analytics_and_dns_nothing_is_said_of_them() {
    let world = World { control: vec![("xmpp", 5269)], ..World::default() };
    let options = options_of(&plan_of(&world, json!({})), "10.0.0.1");
    assert!(options.analytics.is_none() && options.dns.is_none());
    // Control nodes of an earlier release do not publish the port.
    let world = World { control: vec![("xmpp", 5269), ("dns", 53)], ..World::default() };
    assert_eq!(options_of(&plan_of(&world, json!({})), "10.0.0.1").dns.unwrap().port, 8092);
}

#[test]
fn each_member_uses_the_redis_of_its_node_over_tls_and_with_the_password() {
    let relay = |world: &World, address: &str| {
        let launch = launch_of(&plan_of(world, json!({})), "webuiweb", address);
        assert_eq!(launch.files["redis-password"], OnChange::Nothing, "the agent reads it for each connection");
        launch.relay.unwrap()
    };
    let world = World::default();
    let Relay { port, host, server, tls, password, authorities } = relay(&world, "10.0.0.3");
    assert_eq!((port.get(), host.as_str(), server.get(), tls), (16389, "10.0.0.3", 6389, true));
    assert_eq!((password.as_deref(), authorities), (Some("redis-password"), None));
    assert_eq!(plan_of(&world, json!({})).file("redis-password"), world.redis_password);
    let elsewhere = World { redis: vec!["10.0.0.8".into(), "10.0.0.9".into()], ..World::default() };
    assert_eq!(relay(&elsewhere, "10.0.0.3").host, "10.0.0.8");
    assert_eq!(launch_of(&plan_of(&world, json!({})), "webuijob", "10.0.0.3").relay, None, "one is enough for a pod");
}

#[test]
fn a_redis_of_which_one_server_takes_writes_is_refused() {
    let refused = World { sentinel: true, ..World::default() }.plan(&webui(json!({}))).unwrap_err();
    assert!(refused.message.contains("Sentinel"), "{}", refused.message);
}

#[test]
fn servers_serve_where_browsers_and_jobs_find_them() {
    let planned = plan_of(&World::default(), json!({}));
    let web = launch_of(&planned, "webuiweb", "10.0.0.1");
    assert!(
        matches!(&web.ready, Probe::Http { port, path, host: None, tls: true, contains: None, .. } if port.get() == 8143 && path == "/")
    );
    assert_eq!(web.argv[1..], ["webServerStart.js", "--conf_file", "/etc/contrail/config.global.js"]);
    assert!(web.identity.is_some_and(|identity| identity.at_start));
    let job = launch_of(&planned, "webuijob", "10.0.0.1");
    assert!(
        matches!(job.ready, Probe::Http { port, host: Some(host), tls: false, .. } if port.get() == 3002 && host.is_loopback())
    );
    assert_eq!(job.files["config.global.js"], OnChange::Restart);
    let front =
        planned.0.objects.iter().find(|object| object.kind == SERVICE && object.name == "webui1-webui").unwrap();
    assert_eq!(front.body["spec"]["sessionAffinity"], "ClientIP", "a session is known to one member");
    let ports: Vec<&Value> = front.body["spec"]["ports"].as_array().unwrap().iter().map(|port| &port["port"]).collect();
    assert_eq!(ports, [8143, 8180]);
}

#[test]
fn passwords_stand_where_secrets_are_and_nowhere_else() {
    let world = World::default();
    for object in plan_of(&world, json!({})).0.objects.iter().filter(|object| object.kind != SECRET) {
        let text = object.body.to_string();
        assert!(!text.contains(LOGIN) && !text.contains(&world.redis_password), "{}", object.name);
    }
}

#[test]
fn the_one_user_has_the_password_of_the_spec_or_of_its_secret_or_one_that_is_made() {
    let password = "'\"\\\n\u{2028}</script>*/ é😀`${1}";
    let world = World { secrets: json!({"mine": {"password": password}}), ..World::default() };
    let user = |spec: Value| {
        let planned = plan_of(&world, auth(spec));
        let is_kept = planned.0.objects.iter().any(|object| object.name == "webui1-webui-login");
        (options_of(&planned, "10.0.0.1").users.concat(), is_kept)
    };
    let of = |user: &str, password: &str| [user, password, "cloudAdmin"].map(str::to_owned).to_vec();
    let inline = json!({"keystoneAuthParameters": {"adminUsername": password, "adminPassword": password}});
    assert_eq!(user(inline), (of(password, password), false));
    assert_eq!(user(json!({"keystoneSecretName": "mine"})), (of("admin", password), false));
    assert_eq!(user(json!({"authMode": "noauth"})), (of("admin", LOGIN), true));
    let refused = world.plan(&webui(auth(json!({"keystoneSecretName": "none"})))).unwrap_err();
    assert!(refused.message.contains("Secret tf/none") && refused.message.contains("password"), "{}", refused.message);
}

#[test]
fn with_keystone_users_are_its_own_and_jobs_log_in_as_its_administrator() {
    let password = "100% #;'é${a}</script>";
    let keystone = json!({"address": "192.0.2.1", "port": 5001, "adminPort": 1, "adminPassword": password, "insecure": false, "region": "R'2"});
    let planned = plan_of(&World::default(), auth(json!({"authMode": "keystone", "keystoneAuthParameters": keystone})));
    let options = options_of(&planned, "10.0.0.1");
    assert!(options.users.is_empty());
    let keystone = options.keystone.unwrap();
    assert_eq!((keystone.server.server.hosts.concat().as_str(), keystone.server.server.port), ("192.0.2.1", 5001));
    assert!(keystone.server.server.tls && keystone.server.is_strict && keystone.server.authorities.is_some());
    assert_eq!((keystone.version.as_str(), &keystone.regions), ("v3", &json!({"R'2": "https://192.0.2.1:5001/v3"})));
    assert_eq!(keystone.login, ["admin", password, "admin", "Default", "Default"].map(str::to_owned));
    assert!(planned.0.objects.iter().all(|object| object.name != "webui1-webui-login"));
}

#[test]
fn another_password_is_another_configuration_of_each_member_and_no_other_workload() {
    let running = initialized(&webui(json!({})));
    let (first, second) = (World::default(), World { login: "Another-Pass-0123".into(), ..World::default() });
    let (first, second) = (first.plan(&running).unwrap(), second.plan(&running).unwrap());
    let changed = first.objects.iter().zip(&second.objects).filter(|(before, after)| before != after);
    let names: Vec<_> = changed.map(|(object, _)| object.name.as_str()).collect();
    assert_eq!(names, ["webui1-webui-login", "webui1-webui-secret-files"]);
}

#[test]
fn a_service_that_flaps_changes_no_object() {
    let webui = initialized(&webui(json!({})));
    let up = World { analytics: vec!["10.0.0.7".into()], ..World::default() };
    let down = World { ready: false, ..up.clone() };
    assert_eq!(up.plan(&webui).unwrap().objects, down.plan(&webui).unwrap().objects);
}

/// Whether there are collectors matters to everything that runs.
#[test]
fn analytics_that_cannot_be_seen_takes_its_collectors_from_nobody() {
    let webui = initialized(&webui(json!({})));
    let world = World { analytics: vec!["10.0.0.7".into()], ..World::default() };
    let plan = world.plan(&webui).unwrap();
    unseen::check::<webui_op::Component>("webui", &webui, &world.observed(), &plan);
}

#[test]
fn apis_of_another_authority_are_checked_against_it_and_shown_nothing() {
    let secret = foreign();
    let world = World { secrets: json!({"outer": secret}), ..World::default() };
    let dependencies = json!({"config": external(&[("api", 8082)]), "analytics": external(&[("api", 8081)])});
    let planned = plan_of(&world, json!({"dependencies": dependencies}));
    let options = options_of(&planned, "10.0.0.2");
    for (api, service) in [(options.api, "config"), (options.analytics.unwrap(), "analytics")] {
        let authorities = std::path::PathBuf::from(format!("/etc/contrail/{service}-ca.crt"));
        assert_eq!((api.is_strict, api.authorities), (true, Some(authorities)));
        has_foreign(&planned, service, false, &secret, &["webuiweb.launch.10.0.0.2", "webuijob.launch.10.0.0.2"]);
    }
    let told: Vec<_> = planned.0.ignored.iter().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(told, ["config", "analytics"].map(|it| format!("spec.dependencies.{it}.external.secretRef")));
}
