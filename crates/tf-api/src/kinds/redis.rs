//! Redis: independent Redis servers, one per node, or servers that copy one master under Sentinel.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    common::{Container, PodConfiguration},
    contract::Status,
    ports,
    schema::Port,
};

/// Redis servers.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tf.tungsten.io",
    version = "v1alpha1",
    kind = "Redis",
    plural = "redis",
    shortname = "tfredis",
    namespaced,
    status = "RedisStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Redis servers, each on its own: current state for analytics, sessions for the web user interface."
)]
#[serde(rename_all = "camelCase", default)]
pub struct RedisSpec {
    /// Settings common to the pods of every kind.
    pub common_configuration: PodConfiguration,
    /// Suspends reconciling while true; status is still updated.
    pub paused: bool,
    /// Release of the images: a tag as the registry lists it (`24.1`, `R21.4`, `latest`). Tags before 24 are taken from `tungstenfabric/contrail-*`, others from
    /// `opensdn/opensdn-*`; `tungstenfabric-TAG` and `opensdn-TAG` state which. Default: `latest`.
    #[schemars(length(max = 63))]
    pub version: Option<String>,
    /// Settings of Redis.
    pub service_configuration: RedisConfiguration,
}

/// Settings of Redis.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RedisConfiguration {
    /// Containers to run, with image and command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub containers: Vec<Container>,
    /// Port of Redis on the node's address, over TLS.
    pub redis_port: Port,
    /// What the servers are to each other. Cannot be changed once there are members. Default: Independent.
    pub mode: Option<RedisMode>,
    /// Accepted for compatibility, has no effect: the servers form no cluster.
    #[schemars(length(max = 253))]
    pub cluster_name: Option<String>,
}

impl Default for RedisConfiguration {
    fn default() -> Self {
        Self { containers: Vec::new(), redis_port: ports::REDIS, mode: None, cluster_name: None }
    }
}

/// What Redis servers are to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RedisMode {
    /// Each is on its own, as analytics of Tungsten Fabric wants them.
    #[default]
    Independent,
    /// One takes writes and the others copy it; Sentinel has another one take writes when it fails.
    Sentinel,
}

/// Status of a Redis.
pub type RedisStatus = Status<RedisOwnStatus>;

/// Fields only Redis has.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RedisOwnStatus {
    /// What the members were founded as, where that is not Independent.
    pub mode: Option<RedisMode>,
    /// Name by which clients ask the Sentinels for the server that takes writes.
    #[schemars(length(max = 253))]
    pub master_name: Option<String>,
}
