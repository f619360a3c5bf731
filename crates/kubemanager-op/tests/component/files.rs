//! Files as the daemon reads them.

use crate::support::{Planned, TOKEN, World, initialized, kubemanager, plan_of};
use kubemanager_op::Component;
use serde_json::{Value, json};
use tf_agent_api::{
    launch::{OnChange, Probe},
    node,
};
use tf_api::contract::Reason;
use tf_plan::{
    cluster::NETWORK,
    component::Component as _,
    declaration::foreign_key,
    object::{SECRET, SERVICE_ACCOUNT},
    observed::{Source, Unavailable},
};
use tf_sim::{kubernetes::options::Options, library::Brought};
use tf_testing::invariants::unseen;

const FILE: &str = "contrail-kubernetes.conf.10.0.0.2";

/// What the daemon of the second member goes by. Who reads the file was written without what writes it, and ends where the daemon would.
#[expect(clippy::unwrap_used, reason = "a file that its daemon does not take is a failing test")]
fn read(planned: &Planned) -> Options {
    Options::read(&planned.file(FILE)).unwrap()
}

fn service(service: Value) -> Value {
    json!({"serviceConfiguration": service})
}

fn with_facts(kubeadm: &str) -> World {
    World { kubeadm: kubeadm.into(), ..World::default() }
}

#[test]
fn a_daemon_that_is_played_strictly_takes_the_file() {
    let world = World { analytics: vec!["10.0.0.7".into(), "10.0.0.8".into()], ..World::default() };
    let options = read(&plan_of(&world, json!({})));
    assert_eq!((options.address.to_string().as_str(), options.cluster.as_str()), ("10.0.0.2", "prod"));
    assert_eq!(options.token.as_deref(), Some(TOKEN));
    assert_eq!(options.subnets.concat(), ["10.244.0.0/16", "10.97.0.0/16", "10.64.0.0/12"]);
    assert_eq!(options.switches, [false, true, false]);
    assert_eq!(options.election.as_deref(), Some("/prod/kube-manager"));
    assert_eq!((options.cassandra.hosts, options.cassandra.port), (world.cassandra, 9042));
    assert_eq!(options.cassandra.authorities, Some(node::CA_BUNDLE.into()));
    assert_eq!(options.zookeeper.as_deref(), Some("10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181"));
    assert_eq!(options.rabbitmq.servers, ["10.0.0.2:5673", "10.0.0.3:5673", "10.0.0.1:5673"]);
    assert!(options.rabbitmq.tls.is_some_and(|tls| tls.has_version && tls.pair.is_some() && tls.authorities.is_some()));
    assert_eq!((options.api.hosts, options.api.port), (world.nodes, 8082));
    assert_eq!(options.collectors, ["10.0.0.7:8086", "10.0.0.8:8086"]);
    assert!(options.collector_tls.is_some() && options.introspect_pair.is_some());
    assert_eq!((options.introspect.1, options.login.token_url), (8108, None));
    let pool = options.public_pool.unwrap_or_default();
    let parts = ["domain", "project", "network", "name"].map(|key| pool[key].clone());
    assert_eq!(parts, ["default-domain", "prod-default", "__public__", "__fip_pool_public__"]);
}

#[test]
fn the_one_address_of_the_api_is_that_which_outlives_a_server() {
    let server = |facts: &str, spec: Value| read(&plan_of(&with_facts(facts), service(spec))).kubernetes;
    let subnets = "networking: {podSubnet: 10.244.0.0/16, serviceSubnet: \"fd00::/112,10.97.16.0/20\"}\n";
    let endpoint = format!("controlPlaneEndpoint: api.example.org:7443\n{subnets}");
    let of = |host: &str, port| (host.to_owned(), port);
    assert_eq!(server(&endpoint, json!({})), of("api.example.org", 7443));
    assert_eq!(server(&endpoint, json!({"kubernetesAPISSLPort": 1})), of("api.example.org", 1));
    // That of the Service `default/kubernetes`, where the cluster names none, or one that the daemon cannot reach.
    assert_eq!(server(subnets, json!({})), of("10.97.16.1", 443));
    assert_eq!(
        server(&format!("controlPlaneEndpoint: \"[fd00::1]:6443\"\n{subnets}"), json!({})),
        of("10.97.16.1", 443)
    );
    let spec = json!({"kubernetesAPIServer": "192.0.2.1"});
    assert_eq!(server(&endpoint, spec), of("192.0.2.1", 6443), "the port is that of another server");
    assert_eq!(server(&endpoint, json!({"kubernetesAPIServer": "api.example.org"})), of("api.example.org", 7443));
}

#[test]
fn what_the_spec_states_is_not_asked_of_the_cluster() {
    let spec = json!({
        "podSubnet": "10.1.0.0/16, 10.2.0.0/16", "serviceSubnet": "10.3.0.0/16", "ipFabricSubnets": "10.4.0.0/16,10.5.0.0/16",
        "ipFabricForwarding": true, "ipFabricSnat": false, "hostNetworkService": true, "cloudOrchestrator": "openshift",
    });
    let options = read(&plan_of(&with_facts("clusterName: c\n"), service(spec)));
    assert_eq!(options.subnets[0], ["10.1.0.0/16", "10.2.0.0/16"]);
    assert_eq!((options.subnets[1].as_slice(), options.subnets[2].len()), (["10.3.0.0/16".to_owned()].as_slice(), 2));
    assert_eq!((options.switches, options.orchestrator.as_str()), ([true, false, true], "openshift"));
}

#[test]
fn a_platform_that_there_is_not_is_told() {
    let planned = plan_of(&World::default(), service(json!({"cloudOrchestrator": "kubernets"})));
    assert_eq!(read(&planned).orchestrator, "kubernetes");
    let [told] = planned.0.ignored.as_slice() else { panic!("{:?}", planned.0.ignored) };
    assert!(told.starts_with("spec.serviceConfiguration.cloudOrchestrator: "), "{told}");
}

#[test]
fn a_subnet_is_never_assumed_and_who_does_not_state_it_is_named() {
    for (facts, missing) in [
        ("networking: {serviceSubnet: 10.97.0.0/16}\n", "podSubnet"),
        ("networking: {podSubnet: 10.244.0.0/16}\n", "serviceSubnet"),
        ("networking: {podSubnet: 10.244.0.0/16, serviceSubnet: all}\n", "serviceSubnet"),
    ] {
        let why = with_facts(facts).plan(&kubemanager(json!({}))).unwrap_err().message;
        let field = format!("networking.{missing} of ConfigMap kube-system/kubeadm-config");
        assert!(why.contains(&field) && why.contains(&format!("set serviceConfiguration.{missing}")), "{why}");
    }
}

/// Whoever states everything does not depend on who could say it, too.
#[test]
fn what_cannot_be_seen_holds_up_only_who_does_not_state_everything() {
    let mut observed = World::default().observed();
    let why = Unavailable { reason: Reason::ApiError, message: "cannot watch networks: no".into() };
    observed.foreign.insert(foreign_key(NETWORK, "cluster"), Source::Unavailable(why));
    let plan = |spec: Value| Component::plan(&kubemanager(service(spec)), &observed);
    let stated =
        json!({"podSubnet": "10.1.0.0/16", "serviceSubnet": "10.3.0.0/16", "kubernetesAPIServer": "192.0.2.1"});
    assert!(plan(stated.clone()).is_ok());
    for field in ["podSubnet", "serviceSubnet", "kubernetesAPIServer"] {
        let mut spec = stated.clone();
        spec.as_object_mut().unwrap().remove(field);
        let waiting = plan(spec).unwrap_err();
        assert_eq!((waiting.reason, waiting.message.as_str()), (Reason::ApiError, "cannot watch networks: no"));
    }
}

#[test]
fn pods_use_the_network_of_the_nodes_over_ipv4_only() {
    for subnets in ["fd64::/64", "10.64.0.0/12,fd64::/64"] {
        let refused = World::default().plan(&kubemanager(service(json!({"ipFabricSubnets": subnets})))).unwrap_err();
        assert_eq!(refused.reason, Reason::InvalidSpec);
        assert!(refused.message.contains("serviceConfiguration.ipFabricSubnets has fd64::/64"), "{}", refused.message);
    }
}

#[test]
fn the_token_stands_where_secrets_are_and_nowhere_else() {
    let planned = plan_of(&World::default(), json!({}));
    for object in planned.0.objects.iter().filter(|object| object.kind != SECRET) {
        let text = object.body.to_string();
        assert!(!text.contains(TOKEN) && !text.contains("Rabbit-Pass"), "{}", object.name);
    }
    let kept = planned.0.objects.iter().find(|object| object.name == "kubemanager1-kubemanager-token");
    let kept = &kept.map(|object| object.body.clone()).unwrap_or_default();
    assert_eq!((&kept["data"], &kept["type"]), (&Value::Null, &json!("kubernetes.io/service-account-token")));
    assert_eq!(kept["metadata"]["annotations"]["kubernetes.io/service-account.name"], "kube-manager");
    // Members run as somebody who has none of its rights.
    assert_eq!(planned.pod()["serviceAccountName"], "kubemanager1-kubemanager-service-account");
    let accounts = planned.0.objects.iter().filter(|object| object.kind == SERVICE_ACCOUNT);
    assert!(accounts.clone().any(|account| account.name == "kube-manager"));
    assert!(accounts.clone().all(|account| account.body["automountServiceAccountToken"] == false));
}

#[test]
fn as_long_as_there_is_no_token_only_what_it_is_made_from_is_made() {
    let world = World { token: String::new(), ..World::default() };
    for kubemanager in [kubemanager(json!({})), initialized(&kubemanager(json!({})))] {
        let waiting = world.plan(&kubemanager).unwrap_err();
        let prepared: Vec<_> = waiting.prepared.iter().map(|object| (object.kind.kind, object.name.as_str())).collect();
        assert_eq!(prepared, [("ServiceAccount", "kube-manager"), ("Secret", "kubemanager1-kubemanager-token")]);
        assert!(waiting.message.contains("tf/kubemanager1-kubemanager-token"), "{}", waiting.message);
    }
}

#[test]
fn another_token_is_another_configuration_of_each_member_and_no_other_object() {
    let (first, second) = (World::default(), World { token: TOKEN.replace("c2ln", "bmV3"), ..World::default() });
    let running = initialized(&kubemanager(json!({})));
    let (first, second) = (first.plan(&running).unwrap(), second.plan(&running).unwrap());
    let changed = first.objects.iter().zip(&second.objects).filter(|(before, after)| before != after);
    let names: Vec<_> = changed.map(|(object, _)| object.name.as_str()).collect();
    assert_eq!(names, ["kubemanager1-kubemanager-secret-files"]);
    let launch = Planned(first).launch("kubemanager.launch");
    assert_eq!(launch.files["contrail-kubernetes.conf"], OnChange::Restart, "a SIGHUP would kill it");
}

#[test]
fn who_waits_to_be_elected_serves_and_who_is_at_work_says_so() {
    let probe = |spec| plan_of(&World::default(), spec).launch("kubemanager.launch").ready;
    let of = |probe: Probe| match probe {
        Probe::NodeStatus { port, tls, functional, elected, .. } => Some((port.get(), tls, functional, elected)),
        _ => None,
    };
    assert_eq!(of(probe(json!({}))), Some((8108, true, true, true)));
    assert_eq!(of(probe(service(json!({"nestedMode": true})))), Some((8108, true, true, false)));
}

#[test]
fn nested_there_is_one_member_because_nobody_is_elected() {
    let planned = plan_of(&World::default(), service(json!({"nestedMode": true})));
    assert_eq!(planned.0.members.len(), 1);
    let options = Options::read(&planned.file("contrail-kubernetes.conf.10.0.0.1")).unwrap();
    assert_eq!(options.election, None);
    let spec = json!({"commonConfiguration": {"replicas": 2}, "serviceConfiguration": {"nestedMode": true}});
    let refused = World::default().plan(&kubemanager(spec)).unwrap_err();
    assert!(refused.message.contains("replicas is 2"), "{}", refused.message);
}

#[test]
fn objects_of_the_config_api_arrive_whatever_letters_they_have() {
    let name = "100% \"é\" \\ ' #;";
    let network = json!({"name": name, "project": "p", "domain": "default-domain"}).to_string();
    let project = json!({"domain": "d", "project": "p"}).to_string();
    let spec = json!({
        "clusterProject": project, "clusterNetwork": network, "clusterPodNetwork": network, "clusterServiceNetwork": network,
        "publicFIPPool": " {} ",
    });
    let options = read(&plan_of(&World::default(), service(spec)));
    let quoted = read(&plan_of(&World::default(), service(json!({"publicFIPPool": "{'network': 'public'}"}))));
    let pool = quoted.public_pool.unwrap_or_default();
    assert_eq!(
        (pool["network"].as_str(), pool["project"].as_str()),
        ("public", "prod-default"),
        "of the Go tf-operator"
    );
    let [project, others @ ..] = options.objects.map(Option::unwrap_or_default);
    assert_eq!((project["domain"].as_str(), options.public_pool), ("d", None));
    assert!(others.iter().all(|network| network["name"] == name && network.len() == 3), "{others:?}");
    for (field, text) in [
        ("clusterProject", "p"),
        ("clusterNetwork", "{}"),
        ("clusterPodNetwork", r#"{"domain": "d", "project": "p", "name": ""}"#),
        ("clusterServiceNetwork", r#"{"domain": "d", "project": "p", "name": 1}"#),
        ("publicFIPPool", r#"{"domain": "d", "project": "p", "network": "n", "name": "f", "more": "x"}"#),
    ] {
        let refused = World::default().plan(&kubemanager(service(json!({field: text})))).unwrap_err();
        assert!(refused.message.contains(field) && refused.message.contains("write it like {"), "{}", refused.message);
    }
}

#[test]
fn with_keystone_the_daemon_brings_its_login_and_the_library_has_none() {
    let password = "100% #;'é";
    let keystone = json!({"address": "192.0.2.1", "adminPort": 5000, "adminPassword": password, "insecure": false});
    let auth = json!({"authMode": "keystone", "keystoneAuthParameters": keystone});
    let planned = plan_of(&World::default(), json!({"commonConfiguration": {"authParameters": auth}}));
    let Brought { login, token_url, .. } = read(&planned).login;
    assert_eq!(login, ["admin", password, "admin"].map(str::to_owned));
    assert_eq!(token_url.as_deref(), Some("https://192.0.2.1:5000/v3/auth/tokens"));
    let library = &planned.open()["vnc_api_lib.ini"];
    assert!(library.contains("AUTHN_TYPE = keystone") && !library.contains("AUTHN_PASSWORD"), "{library}");
}

#[test]
fn a_service_that_flaps_changes_no_object() {
    let kubemanager = initialized(&kubemanager(json!({})));
    let up = World { analytics: vec!["10.0.0.7".into()], ..World::default() };
    let down = World { ready: false, ..up.clone() };
    assert_eq!(up.plan(&kubemanager).unwrap().objects, down.plan(&kubemanager).unwrap().objects);
}

/// Whether there are collectors matters to everything that runs.
#[test]
fn analytics_that_cannot_be_seen_takes_its_collectors_from_nobody() {
    let kubemanager = initialized(&kubemanager(json!({})));
    let world = World { analytics: vec!["10.0.0.7".into()], ..World::default() };
    let plan = world.plan(&kubemanager).unwrap();
    unseen::check::<Component>("kubemanager", &kubemanager, &world.observed(), &plan);
}
