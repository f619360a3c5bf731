//! What a cluster says about itself: its name, its subnets, where its nodes keep CNI files.
//!
//! kubeadm and OpenShift's installer leave it in a ConfigMap each. What they do not say is assumed to be the default of the
//! platform, as in the Go tf-operator (peer-operator 6.1); what they say and cannot be understood is told in
//! [`Cluster::problems`], because a value that was assumed may be the wrong one.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;
use serde::{Deserialize, de::DeserializeOwned};

use crate::declaration::Read;

const NAMESPACE: &str = "kube-system";
const KUBEADM: &str = "kubeadm-config";
const OPENSHIFT: &str = "cluster-config-v1";
/// Port of the API server where its address is given without one.
const API_PORT: u16 = 6443;

/// Who runs the cluster. OpenShift's installer leaves its own ConfigMap, nobody else does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// Kubernetes, by kubeadm or by anything else.
    Kubernetes,
    /// OpenShift 4.
    OpenShift,
}

/// Facts about a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Who runs it.
    pub platform: Platform,
    /// Name, part of the names of what Tungsten Fabric makes for pods.
    pub name: String,
    /// Subnets of pods, one per address family.
    pub pod_subnets: Vec<IpNet>,
    /// Subnets of services, one per address family.
    pub service_subnets: Vec<IpNet>,
    /// Host and port of the API server for everybody, where the cluster names one.
    pub endpoint: Option<(String, u16)>,
    /// Directory of the nodes above `net.d`, where the kubelet or its runtime looks for network configurations.
    pub cni_config_dir: String,
    /// Directory of the nodes for CNI plugins.
    pub cni_binary_dir: String,
    /// What could not be understood, for people.
    pub problems: Vec<String>,
    /// Why nothing states these subnets and they are assumed, for people.
    assumed: BTreeMap<Subnets, String>,
}

/// Subnets of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subnets {
    /// Those of pods.
    Pods,
    /// Those of services.
    Services,
}

impl Subnets {
    const ALL: [Self; 2] = [Self::Pods, Self::Services];

    /// The field of kubeadm's document, and that of the installer's of OpenShift.
    const fn field(self, platform: Platform) -> &'static str {
        match (self, platform) {
            (Self::Pods, Platform::Kubernetes) => "networking.podSubnet",
            (Self::Services, Platform::Kubernetes) => "networking.serviceSubnet",
            (Self::Pods, Platform::OpenShift) => "networking.clusterNetwork",
            (Self::Services, Platform::OpenShift) => "networking.serviceNetwork",
        }
    }
}

/// The reads that [`Cluster::of`] needs.
pub fn reads(reason: &'static str) -> [Read; 2] {
    [KUBEADM, OPENSHIFT].map(|name| Read::Fact { namespace: NAMESPACE, name, reason })
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClusterConfiguration {
    cluster_name: Option<String>,
    control_plane_endpoint: Option<String>,
    networking: KubeadmNetworking,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct KubeadmNetworking {
    pod_subnet: Option<String>,
    service_subnet: Option<String>,
    cni_config: CniConfig,
}

/// Not kubeadm's own: the Go tf-operator read it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CniConfig {
    config_path: Option<String>,
    binary_path: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InstallConfig {
    base_domain: Option<String>,
    metadata: InstallMetadata,
    networking: InstallNetworking,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InstallMetadata {
    name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InstallNetworking {
    cluster_network: Vec<ClusterNetwork>,
    service_network: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClusterNetwork {
    cidr: String,
}

impl Cluster {
    /// Reads `facts`, ConfigMaps by `namespace/name`. A map that is absent does not exist or may not be read.
    pub fn of(facts: &BTreeMap<String, BTreeMap<String, String>>) -> Self {
        let map = |name: &str| facts.get(&format!("{NAMESPACE}/{name}"));
        let openshift = map(OPENSHIFT);
        let mut cluster = Self::assumed(if openshift.is_some() { Platform::OpenShift } else { Platform::Kubernetes });
        if let Some(data) = map(KUBEADM) {
            cluster.expect(Platform::Kubernetes);
            let found: Option<ClusterConfiguration> = cluster.document(KUBEADM, "ClusterConfiguration", data);
            cluster.read_kubeadm(found.unwrap_or_default());
        }
        if let Some(data) = openshift {
            cluster.expect(Platform::OpenShift);
            let found: Option<InstallConfig> = cluster.document(OPENSHIFT, "install-config", data);
            cluster.read_openshift(found.unwrap_or_default());
        }
        cluster
    }

    fn assumed(platform: Platform) -> Self {
        let (name, pods, services, cni_config_dir, cni_binary_dir) = match platform {
            Platform::Kubernetes => ("k8s", ([10, 32, 0, 0], 12), ([10, 96, 0, 0], 12), "/etc/cni", "/opt/cni/bin"),
            Platform::OpenShift => {
                ("test", ([10, 128, 0, 0], 14), ([172, 30, 0, 0], 16), "/etc/kubernetes/cni", "/var/lib/cni/bin")
            }
        };
        let subnet = |(address, length): ([u8; 4], u8)| IpNet::new_assert(IpAddr::from(address), length);
        Self {
            platform,
            name: name.into(),
            pod_subnets: vec![subnet(pods)],
            service_subnets: vec![subnet(services)],
            endpoint: None,
            cni_config_dir: cni_config_dir.into(),
            cni_binary_dir: cni_binary_dir.into(),
            problems: Vec::new(),
            assumed: Subnets::ALL
                .map(|subnets| {
                    let field = subnets.field(Platform::Kubernetes);
                    let why = format!(
                        "ConfigMap {NAMESPACE}/{KUBEADM} with {field} does not exist or may not be read, nor does {NAMESPACE}/{OPENSHIFT}"
                    );
                    (subnets, why)
                })
                .into(),
        }
    }

    /// Subnets as the cluster states them.
    ///
    /// # Errors
    /// When it does not: which object or field is missing, for people.
    pub fn stated(&self, subnets: Subnets) -> Result<&[IpNet], &str> {
        match (self.assumed.get(&subnets), subnets) {
            (Some(why), _) => Err(why),
            (None, Subnets::Pods) => Ok(&self.pod_subnets),
            (None, Subnets::Services) => Ok(&self.service_subnets),
        }
    }

    /// The ConfigMap of a platform is there and should state what is not stated yet.
    fn expect(&mut self, platform: Platform) {
        let map = match platform {
            Platform::Kubernetes => KUBEADM,
            Platform::OpenShift => OPENSHIFT,
        };
        for (subnets, why) in &mut self.assumed {
            *why =
                format!("{} of ConfigMap {NAMESPACE}/{map} is missing or no list of subnets", subnets.field(platform));
        }
    }

    /// One document of a ConfigMap. The error of the parser stays out of the message: it may quote the document.
    fn document<T: DeserializeOwned>(&mut self, map: &str, key: &str, data: &BTreeMap<String, String>) -> Option<T> {
        let found = data.get(key).map(|text| serde_saphyr::from_str(text));
        let why = match found {
            Some(Ok(document)) => return Some(document),
            Some(Err(_)) => "cannot be understood",
            None => "is missing",
        };
        let why = format!("{key} of ConfigMap {NAMESPACE}/{map} {why}");
        self.problems.push(format!("{why}; defaults are assumed"));
        self.assumed.values_mut().for_each(|assumed| assumed.clone_from(&why));
        None
    }

    fn read_kubeadm(&mut self, found: ClusterConfiguration) {
        let networking = found.networking;
        take(&mut self.name, found.cluster_name);
        take(&mut self.cni_config_dir, networking.cni_config.config_path);
        take(&mut self.cni_binary_dir, networking.cni_config.binary_path);
        let pods = networking.pod_subnet.iter().flat_map(|list| list.split(',')).map(str::to_owned);
        self.read_subnets(Subnets::Pods, Platform::Kubernetes, pods.collect());
        let services = networking.service_subnet.iter().flat_map(|list| list.split(',')).map(str::to_owned);
        self.read_subnets(Subnets::Services, Platform::Kubernetes, services.collect());
        if let Some(endpoint) = found.control_plane_endpoint.filter(|text| !text.is_empty()) {
            self.endpoint = host_and_port(&endpoint);
            if self.endpoint.is_none() {
                self.problems.push(format!("controlPlaneEndpoint {endpoint:?} is not host:port"));
            }
        }
    }

    fn read_openshift(&mut self, found: InstallConfig) {
        let networking = found.networking;
        let pods = networking.cluster_network.into_iter().map(|network| network.cidr).collect();
        self.read_subnets(Subnets::Pods, Platform::OpenShift, pods);
        self.read_subnets(Subnets::Services, Platform::OpenShift, networking.service_network);
        if let (Some(name), Some(domain)) = (&found.metadata.name, &found.base_domain) {
            self.endpoint.get_or_insert_with(|| (format!("api.{name}.{domain}"), API_PORT));
        }
        take(&mut self.name, found.metadata.name);
    }

    fn read_subnets(&mut self, which: Subnets, platform: Platform, texts: Vec<String>) {
        let texts: Vec<&str> = texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).collect();
        if texts.is_empty() {
            return;
        }
        let subnets: Result<Vec<IpNet>, _> = texts.iter().map(|text| text.parse()).collect();
        match subnets {
            Ok(subnets) => {
                self.assumed.remove(&which);
                match which {
                    Subnets::Pods => self.pod_subnets = subnets,
                    Subnets::Services => self.service_subnets = subnets,
                }
            }
            Err(_) => {
                self.problems.push(format!("{} {:?} is no list of subnets", which.field(platform), texts.join(",")));
            }
        }
    }
}

fn take(target: &mut String, found: Option<String>) {
    if let Some(found) = found.filter(|found| !found.is_empty()) {
        *target = found;
    }
}

/// `host`, `host:port`, `[address]:port` or a bare IPv6 address.
fn host_and_port(text: &str) -> Option<(String, u16)> {
    if text.parse::<IpAddr>().is_ok() {
        return Some((text.to_owned(), API_PORT));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (text, API_PORT),
    };
    let host = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host);
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(map: &str, key: &str, text: &str) -> BTreeMap<String, BTreeMap<String, String>> {
        BTreeMap::from([(format!("kube-system/{map}"), BTreeMap::from([(key.to_owned(), text.to_owned())]))])
    }

    fn kubeadm(text: &str) -> Cluster {
        Cluster::of(&facts("kubeadm-config", "ClusterConfiguration", text))
    }

    fn texts(subnets: &[IpNet]) -> Vec<String> {
        subnets.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_cluster_that_says_nothing_is_assumed_to_have_the_defaults_of_kubernetes() {
        let cluster = Cluster::of(&BTreeMap::new());
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
        let cluster =
            kubeadm("networking: {podSubnet: \"10.244.0.0/16, fd00:10:244::/56\", serviceSubnet: fd00::/112}");
        assert_eq!(texts(&cluster.pod_subnets), ["10.244.0.0/16", "fd00:10:244::/56"]);
        assert_eq!(texts(&cluster.service_subnets), ["fd00::/112"]);
    }

    /// `OpenShift`'s installer, dual stack.
    #[test]
    fn openshift_has_directories_and_defaults_of_its_own() {
        let cluster = Cluster::of(&facts(
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
        let bare = Cluster::of(&facts("cluster-config-v1", "install-config", "metadata: {}"));
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
        let missing = Cluster::of(&facts("kubeadm-config", "ClusterStatus", "x"));
        assert!(missing.problems[0].contains("is missing"));
    }

    #[test]
    fn subnets_that_are_assumed_are_not_stated_and_the_missing_object_or_field_is_named() {
        let why = |cluster: &Cluster, subnets| cluster.stated(subnets).map(texts).map_err(str::to_owned);
        let nothing = Cluster::of(&BTreeMap::new());
        let told = why(&nothing, Subnets::Pods).unwrap_err();
        assert!(told.contains("kube-system/kubeadm-config with networking.podSubnet does not exist"), "{told}");
        let half = kubeadm("networking: {serviceSubnet: 10.97.0.0/16}");
        assert_eq!(why(&half, Subnets::Services), Ok(vec!["10.97.0.0/16".to_owned()]));
        let told = "networking.podSubnet of ConfigMap kube-system/kubeadm-config is missing or no list of subnets";
        assert_eq!(why(&half, Subnets::Pods), Err(told.to_owned()));
        assert_eq!(why(&kubeadm("networking: {podSubnet: all}"), Subnets::Pods), Err(told.to_owned()));
        let told = "ClusterConfiguration of ConfigMap kube-system/kubeadm-config cannot be understood";
        assert_eq!(why(&kubeadm("clusterName: ["), Subnets::Services), Err(told.to_owned()));
        let bare =
            Cluster::of(&facts("cluster-config-v1", "install-config", "networking: {serviceNetwork: [172.30.0.0/16]}"));
        let told = why(&bare, Subnets::Pods).unwrap_err();
        assert!(told.contains("networking.clusterNetwork of ConfigMap kube-system/cluster-config-v1"), "{told}");
    }

    #[test]
    fn endpoints_are_read_with_and_without_port() {
        let endpoint = |text: &str| host_and_port(text);
        assert_eq!(endpoint("api.example.org"), Some(("api.example.org".into(), 6443)));
        assert_eq!(endpoint("[fd00::1]:8443"), Some(("fd00::1".into(), 8443)));
        assert_eq!(endpoint("fd00::1"), Some(("fd00::1".into(), 6443)));
        assert_eq!((endpoint("host:port"), endpoint(":6443")), (None, None));
    }
}
