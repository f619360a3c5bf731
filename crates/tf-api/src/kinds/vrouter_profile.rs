//! VrouterProfile: settings of the data plane that groups of nodes share by name.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    contract::{NoOwnStatus, Status},
    schema::{Sensitive, rule},
};

/// Settings of the data plane that groups of nodes share by name.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tf.tungsten.io",
    version = "v1alpha1",
    kind = "VrouterProfile",
    plural = "vrouterprofiles",
    shortname = "tfvrp",
    namespaced,
    status = "VrouterProfileStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Settings of the data plane that groups of a Vrouter share by name."
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [rule("!has(self.dpdk) || !has(self.kernelMode)", "a vRouter forwards either with DPDK or in the kernel; remove dpdk or kernelMode, or make two profiles")]))]
pub struct VrouterProfileSpec {
    /// Forwarding by a program that has the interface for itself (DPDK).
    pub dpdk: Option<DpdkProfile>,
    /// Forwarding in the kernel.
    pub kernel_mode: Option<KernelModeProfile>,
    /// Virtual functions of interfaces.
    pub sriov: Option<SriovProfile>,
    /// Anything else.
    pub other: Option<OtherProfile>,
}

/// Forwarding in user space.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DpdkProfile {
    /// Cores of the forwarding threads, as a mask such as 0x3c or a list such as 2,4-6.
    #[schemars(length(max = 253), regex(pattern = r"^(0x[0-9a-fA-F]+|[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)$"))]
    pub core_mask: Option<String>,
    /// Cores of the forwarder's service threads, as a mask such as 0x3 or a list such as 0-1.
    #[schemars(length(max = 253), regex(pattern = r"^(0x[0-9a-fA-F]+|[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)$"))]
    pub cpu_pinning: Option<String>,
    /// Pages of 2 MiB for the forwarder.
    #[serde(rename = "hugePages2M")]
    #[schemars(range(min = 0, max = 67_108_864))]
    pub hugepages_2m: Option<u32>,
    /// Pages of 1 GiB for the forwarder.
    #[serde(rename = "hugePages1G")]
    #[schemars(range(min = 0, max = 131_072))]
    pub hugepages_1g: Option<u32>,
    /// Further variables of the agent's and the forwarder's parameters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    pub more_config: BTreeMap<String, Sensitive>,
}

/// Forwarding in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KernelModeProfile {
    /// Further variables of the agent's parameters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    pub more_config: BTreeMap<String, Sensitive>,
}

/// An interface with virtual functions and the network it is connected to.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VirtualFunctionMapping {
    /// Interface of the node, for example ens2f0.
    #[schemars(length(min = 1, max = 15))]
    pub physical_interface: String,
    /// Name of the network that the interface is connected to.
    #[schemars(length(min = 1, max = 253))]
    pub physical_network: String,
    /// Virtual functions to make on this interface. Default: numberOfVfs of the profile.
    #[schemars(range(min = 0, max = 256))]
    pub number_of_vfs: Option<u32>,
}

/// Virtual functions of interfaces.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SriovProfile {
    /// Virtual functions to make on each interface. Default: as the node has them.
    #[schemars(range(min = 0, max = 256))]
    pub number_of_vfs: Option<u32>,
    /// Interfaces with virtual functions and the networks they are connected to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["physicalInterface"]))]
    pub virtual_function_mappings: Vec<VirtualFunctionMapping>,
    /// Further variables of the agent's parameters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    pub more_config: BTreeMap<String, Sensitive>,
}

/// Anything else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OtherProfile {
    /// Further variables of the agent's parameters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    pub more_config: BTreeMap<String, Sensitive>,
}

/// Status of a VrouterProfile.
pub type VrouterProfileStatus = Status<NoOwnStatus>;
