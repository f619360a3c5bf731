//! kubeadm's ConfigMap `kube-system/kubeadm-config`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{API_PORT, Cluster, NAMESPACE, Subnets, host_and_port, take};

/// Name of the ConfigMap.
pub(super) const MAP: &str = "kubeadm-config";

/// The field of its document that has subnets.
pub(super) const fn field(subnets: Subnets) -> &'static str {
    match subnets {
        Subnets::Pods => "networking.podSubnet",
        Subnets::Services => "networking.serviceSubnet",
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClusterConfiguration {
    cluster_name: Option<String>,
    control_plane_endpoint: Option<String>,
    networking: Networking,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Networking {
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

impl Cluster {
    pub(super) fn read_kubeadm(&mut self, data: &BTreeMap<String, String>) {
        let found = self.document(MAP, "ClusterConfiguration", data, field);
        let ClusterConfiguration { cluster_name, control_plane_endpoint, networking } = found.unwrap_or_default();
        self.take_name(cluster_name, format!("clusterName of ConfigMap {NAMESPACE}/{MAP}"));
        take(&mut self.cni_config_dir, networking.cni_config.config_path);
        take(&mut self.cni_binary_dir, networking.cni_config.binary_path);
        for (which, list) in [(Subnets::Pods, networking.pod_subnet), (Subnets::Services, networking.service_subnet)] {
            let texts: Vec<String> = list.iter().flat_map(|list| list.split(',')).map(str::to_owned).collect();
            self.take_subnets_of_map(which, &texts, field(which), MAP);
        }
        if let Some(endpoint) = control_plane_endpoint.filter(|text| !text.is_empty()) {
            match host_and_port(&endpoint, API_PORT) {
                Some(found) => {
                    self.take_endpoint(found, format!("controlPlaneEndpoint of ConfigMap {NAMESPACE}/{MAP}"));
                }
                None => self.problems.push(format!("controlPlaneEndpoint {endpoint:?} is not host:port")),
            }
        }
    }
}
