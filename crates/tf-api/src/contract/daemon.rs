//! What each daemon of a resource does: states, versions and connections over all of its pods, in bounded size.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// One daemon, in all pods of the resource. The list in a status is keyed by `name`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DaemonStatus {
    /// Name of the container.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Pods in which it shall serve.
    #[serde(default)]
    pub wanted: i32,
    /// Pods in which it serves, those included in which it waits to take over.
    #[serde(default)]
    pub serving: i32,
    /// Pods in which it waits to take over from the member that is elected.
    pub standby: Option<i32>,
    /// Since when the operator has seen none of its processes elected, where one of them has to be. A new leader takes some seconds, or a ZooKeeper session
    /// where the former one was killed.
    pub unelected_since: Option<Time>,
    /// Tags of the images that run, sorted; of many the first four.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    pub versions: Vec<String>,
    /// What it says that it is connected to, sorted by name; of many the first sixteen, what is down before the rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub connections: Vec<ConnectionStatus>,
    /// Where it does not serve and why, sorted by node; of many the first ten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub troubles: Vec<DaemonTrouble>,
}

/// Something that a daemon is connected to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConnectionStatus {
    /// Type and name as the daemon has them, for example Database:RabbitMQ.
    pub name: String,
    /// Pods in which it is up.
    pub up: i32,
    /// Pods in which it is down.
    pub down: i32,
}

/// A place where a daemon does not serve.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonTrouble {
    /// Name of the node, or of the pod where it has none.
    pub node: String,
    /// Why, for people.
    pub message: String,
}

impl DaemonStatus {
    /// Whether it serves wherever it shall, and all that it says it is connected to is up.
    pub fn is_well(&self) -> bool {
        self.serving >= self.wanted
            && self.unelected_since.is_none()
            && self.connections.iter().all(|connection| connection.down == 0)
    }
}
