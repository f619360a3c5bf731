//! Redis: independent Redis servers, one per node.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    common::{Container, PodConfiguration},
    contract::{NoOwnStatus, Status},
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
    /// Release of the images. Default: the release this operator was built for.
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
    /// Accepted for compatibility, has no effect: the servers form no cluster.
    #[schemars(length(max = 253))]
    pub cluster_name: Option<String>,
}

impl Default for RedisConfiguration {
    fn default() -> Self {
        Self { containers: Vec::new(), redis_port: ports::REDIS, cluster_name: None }
    }
}

/// Status of a Redis.
pub type RedisStatus = Status<NoOwnStatus>;
