//! Config: the configuration API and its workers.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::global_settings::{
    EcmpHashingIncludeFields, Encapsulation, GracefulRestartParameters, LinklocalService, VxlanNetworkIdentifierMode,
};
use crate::{
    common::{AaaMode, Container, PodConfiguration},
    contract::Status,
    dependencies::DependencySource,
    ports,
    schema::{Port, address, distinct, rule},
};

/// The configuration API and its workers.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tf.tungsten.io",
    version = "v1alpha1",
    kind = "Config",
    plural = "configs",
    shortname = "tfcfg",
    namespaced,
    status = "ConfigStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "The configuration API with schema transformer, service monitor and device manager."
)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigSpec {
    /// Settings common to the pods of every kind.
    pub common_configuration: PodConfiguration,
    /// Suspends reconciling while true; status is still updated.
    pub paused: bool,
    /// Release of the images: a tag as the registry lists it (`24.1`, `R21.4`, `latest`). Tags before 24 are taken from `tungstenfabric/contrail-*`, others from
    /// `opensdn/opensdn-*`; `tungstenfabric-TAG` and `opensdn-TAG` state which. Default: `latest`.
    #[schemars(length(max = 63))]
    pub version: Option<String>,
    /// Services this one uses, where they are not found by their usual names.
    pub dependencies: ConfigDependencies,
    /// Settings of the configuration API and its workers.
    pub service_configuration: ConfigConfiguration,
}

/// Services a Config uses.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigDependencies {
    /// Cassandra, the database of the configuration.
    pub cassandra: Option<DependencySource>,
    /// Zookeeper, for elections and identifiers.
    pub zookeeper: Option<DependencySource>,
    /// Rabbitmq, the message bus.
    pub rabbitmq: Option<DependencySource>,
    /// Analytics, whose collectors receive the daemons' state.
    pub analytics: Option<DependencySource>,
}

/// A service outside of the overlay that pods and machines reach under a link-local address.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LinklocalServiceConfig {
    /// Address or name of the host that provides the service.
    #[schemars(length(max = 253))]
    pub ip_fabric_service_host: Option<String>,
    /// Port on that host.
    pub ip_fabric_service_port: Port,
    /// Name of the service.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Port under the link-local address.
    pub port: Port,
    /// Link-local address.
    #[schemars(length(max = 45))]
    #[schemars(extend("x-kubernetes-validations" = [address()]))]
    pub ip: String,
}

impl Default for LinklocalServiceConfig {
    /// The metadata service of OpenStack.
    fn default() -> Self {
        Self {
            ip_fabric_service_host: None,
            ip_fabric_service_port: Port(8775),
            name: "metadata".into(),
            port: Port(80),
            ip: "169.254.169.254".into(),
        }
    }
}

/// Settings of the configuration API and its workers.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    distinct("[self.apiPort, self.apiAdminPort, self.apiIntrospectPort, self.schemaIntrospectPort, \
        self.svcMonitorIntrospectPort, self.deviceManagerIntrospectPort]", "apiPort, apiAdminPort, apiIntrospectPort, schemaIntrospectPort, svcMonitorIntrospectPort and deviceManagerIntrospectPort must differ from each other"),
    rule("self.apiWorkerCount == 1 || (self.apiAdminPort + 20000 + self.apiWorkerCount <= 65535 \
        && self.apiIntrospectPort + 10000 + self.apiWorkerCount <= 65535)", "with several workers, apiAdminPort + 20000 + apiWorkerCount and apiIntrospectPort + 10000 + apiWorkerCount must be at most 65535; choose lower ports"),
    rule("self.globalASNNumber <= 65535 || (has(self.bgpEnable4Byte) && self.bgpEnable4Byte)", "a globalASNNumber above 65535 needs bgpEnable4Byte: true"),
]))]
pub struct ConfigConfiguration {
    /// Containers to run, with image and command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub containers: Vec<Container>,
    /// Port of the API.
    pub api_port: Port,
    /// Port of the API's administration on the loopback address; further workers use ports from 20000 above.
    pub api_admin_port: Port,
    /// Port of the API's introspection; further workers use ports from 10000 above.
    pub api_introspect_port: Port,
    /// Worker processes of the API on each member.
    #[schemars(range(min = 1, max = 64))]
    pub api_worker_count: u32,
    /// Port of the schema transformer's introspection.
    pub schema_introspect_port: Port,
    /// Port of the service monitor's introspection.
    pub svc_monitor_introspect_port: Port,
    /// Port of the device manager's introspection.
    pub device_manager_introspect_port: Port,
    /// Who may do what in the API. Default no-auth, or rbac with Keystone.
    pub aaa_mode: Option<AaaMode>,
    /// Address that managed devices reach the device manager under. Default: the address of the node.
    #[serde(rename = "fabricMgmtIP")]
    #[schemars(length(max = 45))]
    #[schemars(extend("x-kubernetes-validations" = [address()]))]
    pub fabric_mgmt_ip: Option<String>,
    /// A service outside of the overlay that pods and machines reach under a link-local address. Default: none.
    pub linklocal_service_config: Option<LinklocalServiceConfig>,
    /// Whether managed devices load their images from a TFTP server of somebody else.
    #[serde(rename = "useExternalTFTP")]
    pub use_external_tftp: bool,
    /// Whether all control nodes peer with each other.
    pub bgp_auto_mesh: bool,
    /// Whether autonomous system numbers may have four bytes.
    #[serde(rename = "bgpEnable4Byte")]
    pub bgp_enable_4_byte: bool,
    /// Autonomous system number of the overlay.
    #[serde(rename = "globalASNNumber")]
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    pub global_asn_number: u32,
    /// How vRouters wrap packets for each other, the way that is preferred first. Default: what is set in the API, else MPLSoUDP, MPLSoGRE, VXLAN.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3))]
    #[schemars(extend("x-kubernetes-validations" = [
        rule("self.all(e, self.exists_one(f, f == e))", "name each encapsulation once, in the order of preference")
    ]))]
    pub encapsulation_priorities: Vec<Encapsulation>,
    /// Who chooses the VXLAN identifiers of networks.
    pub vxlan_network_identifier_mode: Option<VxlanNetworkIdentifierMode>,
    /// By what vRouters choose one of several paths that are equally good. Default: what is set in the API.
    pub ecmp_hashing_include_fields: Option<EcmpHashingIncludeFields>,
    /// How long routes stay in use whose speaker starts anew. Default: what is set in the API.
    pub graceful_restart_parameters: Option<GracefulRestartParameters>,
    /// Further services outside of the overlay that pods and machines reach under link-local addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub linklocal_services: Vec<LinklocalService>,
}

impl Default for ConfigConfiguration {
    fn default() -> Self {
        Self {
            containers: Vec::new(),
            api_port: ports::CONFIG_API,
            api_admin_port: ports::CONFIG_API_ADMIN,
            api_introspect_port: ports::CONFIG_API_INTROSPECT,
            api_worker_count: 1,
            schema_introspect_port: ports::SCHEMA_INTROSPECT,
            svc_monitor_introspect_port: ports::SVC_MONITOR_INTROSPECT,
            device_manager_introspect_port: ports::DEVICE_MANAGER_INTROSPECT,
            aaa_mode: None,
            fabric_mgmt_ip: None,
            linklocal_service_config: None,
            use_external_tftp: false,
            bgp_auto_mesh: true,
            bgp_enable_4_byte: false,
            global_asn_number: 64512,
            encapsulation_priorities: Vec::new(),
            vxlan_network_identifier_mode: None,
            ecmp_hashing_include_fields: None,
            graceful_restart_parameters: None,
            linklocal_services: Vec::new(),
        }
    }
}

/// Status of a Config.
pub type ConfigStatus = Status<ConfigOwnStatus>;

/// Fields only Config has.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigOwnStatus {
    /// Address of the Service in front of the API.
    pub endpoint: Option<String>,
}
