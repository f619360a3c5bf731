//! How a change goes through the nodes of a Vrouter.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// How a change goes through nodes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UpgradeStrategy {
    /// What the operator changes by itself. `RollingUpdate`: everything. `InPlace`: configuration and certificates, in pods that stay; a pod gets another image
    /// or setting of its own when you delete it. `OnDelete`: certificates alone, since they expire; a pod gets everything else when you delete it. Default:
    /// `RollingUpdate`; in the DPDK mode, a pod whose node is used stays, unless `RollingUpdate` is stated.
    #[serde(rename = "type")]
    pub kind: Option<UpgradeType>,
    /// How many nodes may be without a working agent at the same time: a number, or a percentage of the nodes, rounded up. The first node of a group is
    /// always changed alone. Default: 1.
    #[schemars(schema_with = "number_or_percentage")]
    pub max_unavailable: Option<IntOrString>,
    /// At how many pods that are up to date and have not been Ready for a minute the change stops. It goes on when there are fewer. Default: 1.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_failures: Option<i32>,
    /// For how many seconds a changed agent has to serve until another node takes its turn. Default: 0.
    #[schemars(range(min = 0, max = 86_400))]
    pub soak_seconds: Option<i32>,
    /// A label of nodes, for example `topology.kubernetes.io/zone`: only nodes with the same value are changed at the same time.
    #[schemars(length(min = 1, max = 317))]
    pub topology_key: Option<String>,
    /// When a node gets another kernel module that is on it, or other parameters of it: `Boot`, when it boots; `Drained`, as soon as it is cordoned and no pod of
    /// it uses the vRouter, too; `Drain`, after the operator has evicted the pods that do, from `maxUnavailable` nodes at a time. `Drained` and `Drain` need
    /// `vhost0: Managed`, and `Drain` the type `RollingUpdate` and a ClusterRole by which the operator may list pods and create evictions. Default: `Boot`.
    pub module_reload: Option<ModuleReload>,
}

/// When the kernel module is loaded again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ModuleReload {
    /// When the node boots.
    #[default]
    Boot,
    /// When nothing uses the vRouter of a cordoned node, too.
    Drained,
    /// When the operator has evicted the pods that use it.
    Drain,
}

/// What the operator changes by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpgradeType {
    /// Everything.
    #[default]
    RollingUpdate,
    /// Configuration and certificates, in pods that stay.
    InPlace,
    /// Certificates alone.
    OnDelete,
}

/// The pattern is for the text and the minimum for the number.
fn number_or_percentage(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "minimum": 1,
        "maxLength": 4,
        "pattern": "^(100|[1-9][0-9]?)%$",
    })
}
