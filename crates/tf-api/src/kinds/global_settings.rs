//! Settings of everything that a config API serves, as its schema has them (upstream `vnc_cfg.xsd`, `global-vrouter-config` and
//! `global-system-config`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::schema::{Port, address, rule};

/// How vRouters wrap packets for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Encapsulation {
    /// MPLS over GRE.
    #[serde(rename = "MPLSoGRE")]
    MplsOverGre,
    /// MPLS over UDP.
    #[serde(rename = "MPLSoUDP")]
    MplsOverUdp,
    /// VXLAN.
    #[serde(rename = "VXLAN")]
    Vxlan,
}

/// Who chooses the VXLAN identifiers of networks: Tungsten Fabric (automatic), or whoever makes a network (configured). Default: what is set in the
/// API, else automatic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VxlanNetworkIdentifierMode {
    /// Tungsten Fabric.
    Automatic,
    /// Whoever makes a network.
    Configured,
}

/// By what vRouters choose one of several paths that are equally good.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EcmpHashingIncludeFields {
    /// Whether the other fields count. If not, everything is used.
    pub hashing_configured: bool,
    /// Whether the address of the source is used. Default: what is set in the API, else true.
    pub source_ip: Option<bool>,
    /// Whether the address of the destination is used. Default: what is set in the API, else true.
    pub destination_ip: Option<bool>,
    /// Whether the protocol is used. Default: what is set in the API, else true.
    pub ip_protocol: Option<bool>,
    /// Whether the port of the source is used. Default: what is set in the API, else true.
    pub source_port: Option<bool>,
    /// Whether the port of the destination is used. Default: what is set in the API, else true.
    pub destination_port: Option<bool>,
}

impl Default for EcmpHashingIncludeFields {
    fn default() -> Self {
        Self {
            hashing_configured: true,
            source_ip: None,
            destination_ip: None,
            ip_protocol: None,
            source_port: None,
            destination_port: None,
        }
    }
}

/// How long routes stay in use whose speaker starts anew.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GracefulRestartParameters {
    /// Whether the other fields count.
    pub enable: bool,
    /// Seconds until a speaker has to be back. Default: what is set in the API, else 300.
    #[schemars(range(min = 0, max = 4095))]
    pub restart_time: Option<u16>,
    /// Seconds after these that its routes are kept as stale. Default: what is set in the API, else 300.
    #[schemars(range(min = 0, max = 16_777_215))]
    pub long_lived_restart_time: Option<u32>,
    /// Seconds to wait for the end of a speaker's routes. Default: what is set in the API, else 300.
    #[schemars(range(min = 0, max = 4095))]
    pub end_of_rib_timeout: Option<u16>,
    /// Whether control nodes keep the routes of BGP peers. Default: what is set in the API, else false.
    pub bgp_helper_enable: Option<bool>,
    /// Whether control nodes keep the routes of vRouters. Default: what is set in the API, else false.
    pub xmpp_helper_enable: Option<bool>,
}

impl Default for GracefulRestartParameters {
    fn default() -> Self {
        Self {
            enable: true,
            restart_time: None,
            long_lived_restart_time: None,
            end_of_rib_timeout: None,
            bgp_helper_enable: None,
            xmpp_helper_enable: None,
        }
    }
}

/// A service outside of the overlay that pods and machines reach under a link-local address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LinklocalService {
    /// Name of the service.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Link-local address.
    #[schemars(length(min = 1, max = 45))]
    #[schemars(extend("x-kubernetes-validations" = [address()]))]
    pub ip: String,
    /// Port under the link-local address.
    pub port: Port,
    /// Addresses of the hosts that provide the service, of which vRouters choose one; or the name of one.
    #[schemars(length(min = 1, max = 16), inner(length(min = 1, max = 253)))]
    #[schemars(extend("x-kubernetes-validations" = [
        rule("self.size() == 1 || self.all(h, isIP(h))", "give IPv4 or IPv6 addresses, or one name and nothing else")
    ]))]
    pub ip_fabric_service_hosts: Vec<String>,
    /// Port on those hosts.
    pub ip_fabric_service_port: Port,
}
