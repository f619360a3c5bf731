//! Kubemanager: translates Kubernetes objects into objects of the configuration API.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    common::{Container, PodConfiguration},
    contract::Status,
    dependencies::DependencySource,
    schema::{Port, subnets},
};

/// The link between Kubernetes and the overlay.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tf.tungsten.io",
    version = "v1alpha1",
    kind = "Kubemanager",
    plural = "kubemanagers",
    shortname = "tfkm",
    namespaced,
    status = "KubemanagerStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "The link between Kubernetes and the overlay: networks, ports and policies for pods and services."
)]
#[serde(rename_all = "camelCase", default)]
pub struct KubemanagerSpec {
    /// Settings common to the pods of every kind.
    pub common_configuration: PodConfiguration,
    /// Suspends reconciling while true; status is still updated.
    pub paused: bool,
    /// Release of the images: a tag as the registry lists it (`24.1`, `R21.4`, `latest`). Tags before 24 are taken from `tungstenfabric/contrail-*`, others from
    /// `opensdn/opensdn-*`; `tungstenfabric-TAG` and `opensdn-TAG` state which. Default: `latest`.
    #[schemars(length(max = 63))]
    pub version: Option<String>,
    /// Services this one uses, where they are not found by their usual names.
    pub dependencies: KubemanagerDependencies,
    /// Settings of the link.
    pub service_configuration: KubemanagerConfiguration,
}

/// Services a Kubemanager uses.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KubemanagerDependencies {
    /// Cassandra, the database of the configuration.
    pub cassandra: Option<DependencySource>,
    /// Zookeeper, for elections.
    pub zookeeper: Option<DependencySource>,
    /// Rabbitmq, the message bus.
    pub rabbitmq: Option<DependencySource>,
    /// Config, where the objects are made.
    pub config: Option<DependencySource>,
    /// Analytics, whose collectors receive the daemon's state.
    pub analytics: Option<DependencySource>,
}

/// Settings of the link.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KubemanagerConfiguration {
    /// Containers to run, with image and command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub containers: Vec<Container>,
    /// Platform that is served: kubernetes or openshift.
    #[schemars(length(max = 63))]
    pub cloud_orchestrator: String,
    /// Name or address of the Kubernetes API server. Default: as discovered in the cluster.
    #[serde(rename = "kubernetesAPIServer")]
    #[schemars(length(max = 253))]
    pub kubernetes_api_server: Option<String>,
    /// Port of the API server without TLS. Default 8080.
    #[serde(rename = "kubernetesAPIPort")]
    pub kubernetes_api_port: Option<Port>,
    /// Port of the API server with TLS. Default: as discovered in the cluster.
    #[serde(rename = "kubernetesAPISSLPort")]
    pub kubernetes_api_ssl_port: Option<Port>,
    /// Name of the cluster, with which the names of its projects, networks and pods begin: clusters that share a Tungsten Fabric need different ones. It
    /// cannot change later. Default: as discovered in the cluster.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"))]
    pub cluster_name: Option<String>,
    /// Subnets of the pods, separated by commas. Default: as discovered in the cluster.
    #[schemars(length(max = 256))]
    #[schemars(extend("x-kubernetes-validations" = [subnets()]))]
    pub pod_subnet: Option<String>,
    /// Subnets of the services, separated by commas. Default: as discovered in the cluster.
    #[schemars(length(max = 256))]
    #[schemars(extend("x-kubernetes-validations" = [subnets()]))]
    pub service_subnet: Option<String>,
    /// Subnets of pods that use the network of the nodes, separated by commas.
    #[schemars(length(max = 256))]
    #[schemars(extend("x-kubernetes-validations" = [subnets()]))]
    pub ip_fabric_subnets: String,
    /// Whether pods use the network of the nodes instead of the overlay.
    pub ip_fabric_forwarding: bool,
    /// Whether pods reach the network of the nodes by source translation.
    pub ip_fabric_snat: bool,
    /// Whether services reach pods in the network of their node.
    pub host_network_service: bool,
    /// File with the token for the API server. Default: the token of the pod's service account.
    #[schemars(length(max = 1024))]
    pub kubernetes_token_file: Option<String>,
    /// Pool of public floating addresses as JSON with domain, project, network and name. Default: `__fip_pool_public__`.
    #[serde(rename = "publicFIPPool")]
    #[schemars(length(max = 1024))]
    pub public_fip_pool: Option<String>,
    /// Whether the cluster runs in machines of another Tungsten Fabric, whose services `dependencies` names.
    pub nested_mode: bool,
    /// Project that all namespaces share, as JSON with domain and project. Default: a project for each namespace.
    #[schemars(length(max = 1024))]
    pub cluster_project: Option<String>,
    /// Network of the machines in nested mode, as JSON with domain, project and name.
    #[schemars(length(max = 1024))]
    pub cluster_network: Option<String>,
    /// Network of the pods, as JSON with domain, project and name. Default: one that the daemon makes.
    #[schemars(length(max = 1024))]
    pub cluster_pod_network: Option<String>,
    /// Network of the services, as JSON with domain, project and name. Default: one that the daemon makes.
    #[schemars(length(max = 1024))]
    pub cluster_service_network: Option<String>,
}

impl Default for KubemanagerConfiguration {
    fn default() -> Self {
        Self {
            containers: Vec::new(),
            cloud_orchestrator: "kubernetes".into(),
            kubernetes_api_server: None,
            kubernetes_api_port: None,
            kubernetes_api_ssl_port: None,
            cluster_name: None,
            pod_subnet: None,
            service_subnet: None,
            ip_fabric_subnets: "10.64.0.0/12".into(),
            ip_fabric_forwarding: false,
            ip_fabric_snat: true,
            host_network_service: false,
            kubernetes_token_file: None,
            public_fip_pool: None,
            nested_mode: false,
            cluster_project: None,
            cluster_network: None,
            cluster_pod_network: None,
            cluster_service_network: None,
        }
    }
}

/// Status of a Kubemanager.
pub type KubemanagerStatus = Status<KubemanagerOwnStatus>;

/// What only Kubemanager publishes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KubemanagerOwnStatus {
    /// Name of the cluster with which objects in the config API were made.
    pub cluster_name: Option<String>,
}
