use serde_json::json;
use tf_api::contract::Reason;

use super::*;

fn of_maps(facts: &Maps) -> Cluster {
    Cluster::of(facts, &Objects::new())
}

fn facts(map: &str, key: &str, text: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    BTreeMap::from([(format!("kube-system/{map}"), BTreeMap::from([(key.to_owned(), text.to_owned())]))])
}

fn kubeadm(text: &str) -> Cluster {
    of_maps(&facts("kubeadm-config", "ClusterConfiguration", text))
}

fn texts(subnets: &[IpNet]) -> Vec<String> {
    subnets.iter().map(ToString::to_string).collect()
}

#[test]
fn a_cluster_that_says_nothing_is_assumed_to_have_the_defaults_of_kubernetes() {
    let cluster = of_maps(&BTreeMap::new());
    assert_eq!((cluster.platform, cluster.name.as_str()), (Platform::Kubernetes, "k8s"));
    assert_eq!(texts(&cluster.pod_subnets), ["10.32.0.0/12"]);
    assert_eq!(texts(&cluster.service_subnets), ["10.96.0.0/12"]);
    assert_eq!((cluster.cni_config_dir.as_str(), cluster.cni_binary_dir.as_str()), ("/etc/cni", "/opt/cni/bin"));
    assert_eq!((cluster.endpoint, cluster.problems), (None, Vec::new()));
}

/// As `kubeadm init` of Kubernetes 1.34 stores it.
#[test]
fn kubeadm_tells_names_and_subnets() {
    let cluster = kubeadm(
        "apiServer: {}\napiVersion: kubeadm.k8s.io/v1beta4\ncaCertificateValidityPeriod: 87600h0m0s\n\
         clusterName: prod\ncontrolPlaneEndpoint: 10.0.0.10:6443\ndns: {}\nkind: ClusterConfiguration\n\
         kubernetesVersion: v1.34.4\nnetworking:\n  dnsDomain: cluster.local\n  podSubnet: 10.244.0.0/16\n  \
         serviceSubnet: 10.97.0.0/16\nproxy: {}\nscheduler: {}\n",
    );
    assert_eq!(cluster.name, "prod");
    assert_eq!(texts(&cluster.pod_subnets), ["10.244.0.0/16"]);
    assert_eq!(texts(&cluster.service_subnets), ["10.97.0.0/16"]);
    assert_eq!(cluster.endpoint, Some(("10.0.0.10".into(), 6443)));
    assert_eq!(cluster.problems, Vec::<String>::new());
}

#[test]
fn dual_stack_lists_keep_both_families() {
    let cluster = kubeadm("networking: {podSubnet: \"10.244.0.0/16, fd00:10:244::/56\", serviceSubnet: fd00::/112}");
    assert_eq!(texts(&cluster.pod_subnets), ["10.244.0.0/16", "fd00:10:244::/56"]);
    assert_eq!(texts(&cluster.service_subnets), ["fd00::/112"]);
}

/// `OpenShift`'s installer, dual stack.
#[test]
fn openshift_has_directories_and_defaults_of_its_own() {
    let cluster = of_maps(&facts(
        "cluster-config-v1",
        "install-config",
        "apiVersion: v1\nbaseDomain: example.org\nmetadata:\n  name: ocp\nnetworking:\n  clusterNetwork:\n  - cidr: \
         10.132.0.0/14\n    hostPrefix: 23\n  - cidr: fd01::/48\n    hostPrefix: 64\n  networkType: TF\n  \
         serviceNetwork:\n  - 172.31.0.0/16\n  - fd02::/112\npullSecret: \"\"\n",
    ));
    assert_eq!((cluster.platform, cluster.name.as_str()), (Platform::OpenShift, "ocp"));
    assert_eq!(texts(&cluster.pod_subnets), ["10.132.0.0/14", "fd01::/48"]);
    assert_eq!(texts(&cluster.service_subnets), ["172.31.0.0/16", "fd02::/112"]);
    assert_eq!(cluster.endpoint, Some(("api.ocp.example.org".into(), 6443)));
    assert_eq!(cluster.cni_config_dir, "/etc/kubernetes/cni");
    let bare = of_maps(&facts("cluster-config-v1", "install-config", "metadata: {}"));
    assert_eq!((bare.name.as_str(), texts(&bare.pod_subnets)), ("test", vec!["10.128.0.0/14".to_owned()]));
}

#[test]
fn what_cannot_be_understood_is_told_and_the_rest_is_used() {
    let malformed = kubeadm("clusterName: [");
    assert_eq!(malformed.name, "k8s");
    assert_eq!(
        malformed.problems,
        ["ClusterConfiguration of ConfigMap kube-system/kubeadm-config cannot be understood; defaults are assumed"]
    );
    let subnet = kubeadm("{clusterName: c, networking: {podSubnet: \"10.244.0.0/16,all\"}}");
    assert_eq!((subnet.name.as_str(), texts(&subnet.pod_subnets)), ("c", vec!["10.32.0.0/12".to_owned()]));
    assert_eq!(subnet.problems, ["networking.podSubnet \"10.244.0.0/16,all\" is no list of subnets"]);
    let missing = of_maps(&facts("kubeadm-config", "ClusterStatus", "x"));
    assert!(missing.problems[0].contains("is missing"));
}

#[test]
fn subnets_that_are_assumed_are_not_stated_and_the_missing_object_or_field_is_named() {
    let why = |cluster: &Cluster, subnets| cluster.stated(subnets).map(texts).map_err(str::to_owned);
    let nothing = of_maps(&BTreeMap::new());
    let told = why(&nothing, Subnets::Pods).unwrap_err();
    assert!(told.contains("kube-system/kubeadm-config with networking.podSubnet does not exist"), "{told}");
    let half = kubeadm("networking: {serviceSubnet: 10.97.0.0/16}");
    assert_eq!(why(&half, Subnets::Services), Ok(vec!["10.97.0.0/16".to_owned()]));
    let told = "networking.podSubnet of ConfigMap kube-system/kubeadm-config is missing or no list of subnets";
    assert_eq!(why(&half, Subnets::Pods), Err(told.to_owned()));
    assert_eq!(why(&kubeadm("networking: {podSubnet: all}"), Subnets::Pods), Err(told.to_owned()));
    let told = "ClusterConfiguration of ConfigMap kube-system/kubeadm-config cannot be understood";
    assert_eq!(why(&kubeadm("clusterName: ["), Subnets::Services), Err(told.to_owned()));
    let bare = of_maps(&facts("cluster-config-v1", "install-config", "networking: {serviceNetwork: [172.30.0.0/16]}"));
    let told = why(&bare, Subnets::Pods).unwrap_err();
    assert!(told.contains("networking.clusterNetwork of ConfigMap kube-system/cluster-config-v1"), "{told}");
}

#[test]
fn endpoints_are_read_with_and_without_port() {
    let endpoint = |text: &str| host_and_port(text, API_PORT);
    assert_eq!(endpoint("api.example.org"), Some(("api.example.org".into(), 6443)));
    assert_eq!(endpoint("[fd00::1]:8443"), Some(("fd00::1".into(), 8443)));
    assert_eq!(endpoint("fd00::1"), Some(("fd00::1".into(), 6443)));
    assert_eq!(endpoint("[fd00::1]"), Some(("fd00::1".into(), 6443)));
    assert_eq!((endpoint("host:port"), endpoint(":6443")), (None, None));
}

/// As OpenShift 4.14 shows it, of a cluster with both families and a second network of pods.
fn network() -> Value {
    let pods = json!([
        {"cidr": "10.128.0.0/14", "hostPrefix": 23}, {"cidr": "10.140.0.0/16", "hostPrefix": 24}, {"cidr": "fd01::/48", "hostPrefix": 64},
    ]);
    let wished = json!([{"cidr": "10.64.0.0/14", "hostPrefix": 23}]);
    json!({
        "spec": {
            "clusterNetwork": wished, "externalIP": {"policy": {}}, "networkType": "TF", "serviceNetwork": ["172.31.0.0/16"],
        },
        "status": {
            "clusterNetwork": pods, "clusterNetworkMTU": 1450, "networkType": "TF", "serviceNetwork": ["172.30.0.0/16", "fd02::/112"],
        },
    })
}

/// The same of what it stands on.
fn infrastructure() -> Value {
    json!({
        "spec": {"cloudConfig": {"name": ""}, "platformSpec": {"type": "BareMetal"}},
        "status": {
            "apiServerInternalURI": "https://api-int.ocp.example.org:6443", "apiServerURL": "https://api.ocp.example.org:6443",
            "controlPlaneTopology": "HighlyAvailable", "etcdDiscoveryDomain": "", "infrastructureName": "ocp-x7k2p",
            "infrastructureTopology": "HighlyAvailable", "platform": "BareMetal", "platformStatus": {"type": "BareMetal"},
        },
    })
}

fn objects(network: Value, infrastructure: Value) -> Objects {
    let key = |kind| crate::declaration::foreign_key(kind, "cluster");
    [(key(NETWORK), Source::Known(network)), (key(INFRASTRUCTURE), Source::Known(infrastructure))].into()
}

fn install_config() -> Maps {
    facts(
        "cluster-config-v1",
        "install-config",
        "baseDomain: example.org\nmetadata: {name: ocp}\nnetworking:\n  clusterNetwork: [{cidr: 10.132.0.0/14, hostPrefix: 23}]\n  \
         serviceNetwork: [172.29.0.0/16]\n",
    )
}

#[test]
fn the_objects_of_openshift_win_over_what_its_installer_was_told_and_what_is_deployed_over_what_is_wished() {
    let cluster = Cluster::of(&install_config(), &objects(network(), infrastructure()));
    assert_eq!((cluster.platform, cluster.name.as_str()), (Platform::OpenShift, "ocp"));
    assert_eq!(texts(&cluster.pod_subnets), ["10.128.0.0/14", "10.140.0.0/16", "fd01::/48"]);
    assert_eq!(texts(&cluster.service_subnets), ["172.30.0.0/16", "fd02::/112"]);
    assert_eq!(cluster.endpoint, Some(("api-int.ocp.example.org".into(), 6443)));
    assert_eq!(cluster.problems, Vec::<String>::new());
    let source = |fact| cluster.source(fact).unwrap_or("nobody");
    assert_eq!(source(Fact::Subnets(Subnets::Pods)), "status.clusterNetwork of Network cluster of config.openshift.io");
    assert_eq!(source(Fact::Endpoint), "status.apiServerInternalURI of Infrastructure cluster of config.openshift.io");
    assert_eq!(source(Fact::Name), "metadata.name of ConfigMap kube-system/cluster-config-v1");
}

#[test]
fn the_objects_of_openshift_are_enough_by_themselves() {
    let mut bare = network();
    bare["status"] = json!({});
    let cluster = Cluster::of(&Maps::new(), &objects(bare, infrastructure()));
    assert_eq!((cluster.platform, cluster.name.as_str()), (Platform::OpenShift, "ocp-x7k2p"));
    assert_eq!(texts(cluster.stated(Subnets::Pods).unwrap()), ["10.64.0.0/14"]);
    assert_eq!(
        cluster.source(Fact::Subnets(Subnets::Services)),
        Some("spec.serviceNetwork of Network cluster of config.openshift.io")
    );
    assert_eq!(cluster.cni_config_dir, "/etc/kubernetes/cni");
}

#[test]
fn what_the_objects_of_openshift_lack_is_taken_from_its_installer() {
    let bare = json!({"spec": {"networkType": "TF", "clusterNetwork": []}});
    let cluster =
        Cluster::of(&install_config(), &objects(bare.clone(), json!({"status": {"apiServerInternalURI": ""}})));
    assert_eq!(texts(cluster.stated(Subnets::Pods).unwrap()), ["10.132.0.0/14"]);
    assert_eq!(cluster.endpoint, Some(("api.ocp.example.org".into(), 6443)));
    let why = Cluster::of(&Maps::new(), &objects(bare, json!({}))).stated(Subnets::Pods).unwrap_err().to_owned();
    assert!(
        why.starts_with("clusterNetwork of Network cluster of config.openshift.io is missing, and ConfigMap"),
        "{why}"
    );
}

/// What the installer was told may not hold any more, so it does not stand in for what is malformed.
#[test]
fn an_object_that_is_malformed_is_named_with_its_field_and_nothing_stands_in_for_it() {
    for (field, value) in [
        ("clusterNetwork", json!([{"cidr": "10.128.0.0/14"}, {"cidr": "all"}])),
        ("clusterNetwork", json!([{"hostPrefix": 23}])),
        ("clusterNetwork", json!({"cidr": "10.128.0.0/14"})),
        ("serviceNetwork", json!("172.30.0.0/16")),
        ("serviceNetwork", json!([17])),
    ] {
        let mut malformed = network();
        malformed["status"][field] = value;
        let cluster = Cluster::of(&install_config(), &objects(malformed, infrastructure()));
        let which = if field == "serviceNetwork" { Subnets::Services } else { Subnets::Pods };
        let why = cluster.stated(which).unwrap_err();
        let named = format!("status.{field} of Network cluster of config.openshift.io is no list of subnets");
        assert!(why.starts_with(&named), "{why}");
        assert_eq!(cluster.problems, [why]);
    }
    for uri in [json!("http://api-int.example.org"), json!("https://"), json!("https://a b"), json!(6443)] {
        let infrastructure = json!({"status": {"apiServerInternalURI": uri}});
        let cluster = Cluster::of(&install_config(), &objects(network(), infrastructure));
        assert_eq!(cluster.endpoint, Some(("api.ocp.example.org".into(), 6443)));
        assert!(
            cluster.problems[0].contains("status.apiServerInternalURI of Infrastructure"),
            "{:?}",
            cluster.problems
        );
    }
}

#[test]
fn an_address_without_a_port_has_that_of_https() {
    let endpoint = |uri: &str| {
        let infrastructure = json!({"status": {"apiServerInternalURI": uri}});
        Cluster::of(&Maps::new(), &objects(network(), infrastructure)).endpoint
    };
    assert_eq!(endpoint("https://api.hosted.example.org"), Some(("api.hosted.example.org".into(), 443)));
    assert_eq!(endpoint("https://192.0.2.1:6443/"), Some(("192.0.2.1".into(), 6443)));
    assert_eq!(endpoint("https://[fd00::1]:6443"), Some(("fd00::1".into(), 6443)));
}

#[test]
fn what_may_not_be_read_is_told_and_what_cannot_be_seen_now_is_waited_for() {
    let unavailable = |reason| {
        let why = Unavailable { reason, message: "cannot watch networks: no".into() };
        let key = crate::declaration::foreign_key(NETWORK, "cluster");
        Cluster::of(&install_config(), &[(key, Source::Unavailable(why))].into())
    };
    let denied = unavailable(Reason::Forbidden);
    assert_eq!((texts(&denied.pod_subnets), denied.seen()), (vec!["10.132.0.0/14".to_owned()], Ok(())));
    assert_eq!(denied.problems, ["Network cluster of config.openshift.io may not be read: cannot watch networks: no"]);
    let waiting = unavailable(Reason::ApiError).seen().unwrap_err();
    assert_eq!((waiting.reason, waiting.message.as_str()), (Reason::ApiError, "cannot watch networks: no"));
}
