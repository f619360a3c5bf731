//! Control: control nodes, which exchange routes with vRouters and routers.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    common::{Container, PodConfiguration},
    contract::Status,
    dependencies::DependencySource,
    ports,
    schema::{Port, Sensitive, distinct, subnet},
};

/// Control nodes.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tf.tungsten.io",
    version = "v1alpha1",
    kind = "Control",
    plural = "controls",
    shortname = "tfctl",
    namespaced,
    status = "ControlStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Control nodes: they exchange routes with vRouters over XMPP and with routers over BGP, and serve DNS."
)]
#[serde(rename_all = "camelCase", default)]
pub struct ControlSpec {
    /// Settings common to the pods of every kind.
    pub common_configuration: PodConfiguration,
    /// Suspends reconciling while true; status is still updated.
    pub paused: bool,
    /// Release of the images: a tag as the registry lists it (`24.1`, `R21.4`, `latest`). Tags before 24 are taken from `tungstenfabric/contrail-*`, others from
    /// `opensdn/opensdn-*`; `tungstenfabric-TAG` and `opensdn-TAG` state which. Default: `latest`.
    #[schemars(length(max = 63))]
    pub version: Option<String>,
    /// Services this one uses, where they are not found by their usual names.
    pub dependencies: ControlDependencies,
    /// Settings of the control nodes.
    pub service_configuration: ControlConfiguration,
}

/// Services a Control uses.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ControlDependencies {
    /// Cassandra, the database of the configuration.
    pub cassandra: Option<DependencySource>,
    /// Rabbitmq, the message bus.
    pub rabbitmq: Option<DependencySource>,
    /// Config, where the nodes are registered.
    pub config: Option<DependencySource>,
    /// Analytics, whose collectors receive the daemons' state.
    pub analytics: Option<DependencySource>,
}

/// Settings of the control nodes.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [distinct("[self.bgpPort, self.xmppPort, self.dnsPort, self.dnsIntrospectPort]", "bgpPort, xmppPort, dnsPort and dnsIntrospectPort must differ from each other")]))]
pub struct ControlConfiguration {
    /// Containers to run, with image and command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub containers: Vec<Container>,
    /// Port for BGP.
    pub bgp_port: Port,
    /// Port for XMPP.
    pub xmpp_port: Port,
    /// Port for DNS.
    pub dns_port: Port,
    /// Port of the DNS daemon's introspection.
    pub dns_introspect_port: Port,
    /// Autonomous system number of these control nodes.
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    pub asn_number: u32,
    /// Name of the subcluster that these control nodes serve. Default: none.
    #[schemars(length(max = 253))]
    pub subcluster: Option<String>,
    /// Key between the DNS daemon and its name server. Default: a random one in a Secret of the operator.
    pub rndckey: Option<Sensitive>,
    /// Network whose addresses the daemons use, for example 10.1.0.0/24. Default: the address of the node.
    #[schemars(length(max = 64))]
    #[schemars(extend("x-kubernetes-validations" = [subnet()]))]
    pub data_subnet: Option<String>,
}

impl Default for ControlConfiguration {
    fn default() -> Self {
        Self {
            containers: Vec::new(),
            bgp_port: ports::CONTROL_BGP,
            xmpp_port: ports::CONTROL_XMPP,
            dns_port: ports::DNS,
            dns_introspect_port: ports::DNS_INTROSPECT,
            asn_number: 64512,
            subcluster: None,
            rndckey: None,
            data_subnet: None,
        }
    }
}

/// Status of a Control.
pub type ControlStatus = Status<ControlOwnStatus>;

/// Fields only Control has.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ControlOwnStatus {
    /// Ports in use, as the Go tf-operator published them.
    pub ports: Option<ControlPorts>,
    /// Subcluster that these control nodes serve.
    pub subcluster: Option<String>,
    /// Autonomous system number, as text.
    pub asn_number: Option<String>,
    /// Addresses that the daemons use, by nodes, where `dataSubnet` asks for others than the nodes have, or asked for them and the daemons
    /// still have them. An empty one is not known yet.
    pub data_addresses: Option<BTreeMap<String, String>>,
}

/// Ports in use, as text.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ControlPorts {
    /// BGP port.
    pub bgp_port: Option<String>,
    /// XMPP port.
    pub xmpp_port: Option<String>,
    /// DNS port.
    pub dns_port: Option<String>,
    /// Port of the DNS daemon's introspection.
    pub dns_introspect_port: Option<String>,
}
