//! Vrouter: the data plane on every node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeAffinity, Toleration};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{UpgradeStrategy, VrouterConfiguration};
use crate::{
    common::PodConfiguration,
    contract::Status,
    dependencies::{DependencySource, one_control},
    schema::{addresses, rule},
};

/// The data plane.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tf.tungsten.io",
    version = "v1alpha1",
    kind = "Vrouter",
    plural = "vrouters",
    shortname = "tfvr",
    namespaced,
    status = "VrouterStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "The data plane: a vRouter with its agent on every node, in groups of nodes that share settings."
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [one_control()]))]
pub struct VrouterSpec {
    /// Settings common to the pods of every kind.
    pub common_configuration: PodConfiguration,
    /// Suspends reconciling while true; status is still updated.
    pub paused: bool,
    /// Release of the images: a tag as the registry lists it (`24.1`, `R21.4`, `latest`). Tags before 24 are taken from `tungstenfabric/contrail-*`, others from
    /// `opensdn/opensdn-*`; `tungstenfabric-TAG` and `opensdn-TAG` state which. Default: `latest`.
    #[schemars(length(max = 63))]
    pub version: Option<String>,
    /// Services this one uses, where they are not found by their usual names.
    pub dependencies: VrouterDependencies,
    /// Groups of nodes with settings of their own, one DaemonSet each. Default: one group with all nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["name"],
        "x-kubernetes-validations" = [rule("self.size() < 2 || self.all(g, has(g.nodeSelector) && g.nodeSelector.size() > 0 || has(g.nodeAffinity))", "give each group a nodeSelector or a nodeAffinity when there are several; without one a group takes the nodes of the others")],
    ))]
    pub groups: Vec<VrouterGroup>,
    /// How a change goes through the nodes: those of all groups that state no strategy of their own, one group after the other.
    pub upgrade_strategy: Option<UpgradeStrategy>,
    /// Settings of the vRouters.
    pub service_configuration: VrouterConfiguration,
}

/// Services a Vrouter uses.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VrouterDependencies {
    /// Config, where the nodes are registered.
    pub config: Option<DependencySource>,
    /// Control, which the agents talk to. The same as controlInstance, for any namespace or an external service.
    pub control: Option<DependencySource>,
    /// Analytics, whose collectors receive the agents' state.
    pub analytics: Option<DependencySource>,
}

/// Nodes that share settings; they get a DaemonSet of their own.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VrouterGroup {
    /// Name of the group, part of the name of its DaemonSet.
    #[schemars(length(min = 1, max = 40), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Labels that a node of the group has, all of them. Default: those of commonConfiguration.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub node_selector: BTreeMap<String, String>,
    /// Which of these nodes, by expressions, as in the spec of a pod: `requiredDuringSchedulingIgnoredDuringExecution`. A node matches when one of the terms does.
    pub node_affinity: Option<NodeAffinity>,
    /// Tolerations of the group's pods. Default: those of commonConfiguration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub tolerations: Vec<Toleration>,
    /// Gateway of the group's nodes, or several separated by commas. Default: that of serviceConfiguration.
    #[schemars(length(max = 128))]
    #[schemars(extend("x-kubernetes-validations" = [addresses()]))]
    pub vrouter_gateway: Option<String>,
    /// Names of VrouterProfiles in the same namespace, merged in this order: a later one wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 253)))]
    pub profiles: Vec<String>,
    /// Whether profiles win over the group's own fields (vrouterGateway). Default: the group's own fields win.
    #[serde(rename = "override")]
    pub override_fields: Option<bool>,
    /// How a change goes through the group's nodes, whatever happens in other groups. Default: the spec's upgradeStrategy, together with the other groups.
    pub upgrade_strategy: Option<UpgradeStrategy>,
}

/// Status of a Vrouter.
pub type VrouterStatus = Status<VrouterOwnStatus>;

/// Fields only Vrouter has.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VrouterOwnStatus {
    /// Whether the agents on all control-plane nodes serve.
    pub active_on_controllers: Option<bool>,
    /// Agents by node, as the Go tf-operator published them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<VrouterAgentStatus>,
}

/// State of one agent.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VrouterAgentStatus {
    /// Name of the node.
    pub name: Option<String>,
    /// Starting, Updating, Ready or Upgrading.
    pub status: Option<String>,
    /// Control nodes the agent is configured with.
    pub control_nodes: Option<String>,
    /// Config nodes the agent is configured with.
    pub config_nodes: Option<String>,
    /// Analytics nodes the agent is configured with.
    pub analytics_nodes: Option<String>,
    /// Hash of the agent's parameters.
    pub encrypted_params: Option<String>,
}
