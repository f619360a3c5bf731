//! QueryEngine: answers queries on the database of analytics.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    common::{Container, PodConfiguration},
    contract::{NoOwnStatus, Status},
    dependencies::DependencySource,
    schema::Port,
};

/// The query engine of analytics.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tf.tungsten.io",
    version = "v1alpha1",
    kind = "QueryEngine",
    plural = "queryengine",
    shortname = "tfqe",
    namespaced,
    status = "QueryEngineStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "The query engine, which answers queries on the database of analytics."
)]
#[serde(rename_all = "camelCase", default)]
pub struct QueryEngineSpec {
    /// Settings common to the pods of every kind.
    pub common_configuration: PodConfiguration,
    /// Suspends reconciling while true; status is still updated.
    pub paused: bool,
    /// Release of the images: a tag as the registry lists it (`24.1`, `R21.4`, `latest`). Tags before 24 are taken from `tungstenfabric/contrail-*`, others from
    /// `opensdn/opensdn-*`; `tungstenfabric-TAG` and `opensdn-TAG` state which. Default: `latest`.
    #[schemars(length(max = 63))]
    pub version: Option<String>,
    /// Services this one uses, where they are not found by their usual names.
    pub dependencies: QueryEngineDependencies,
    /// Settings of the query engine.
    pub service_configuration: QueryEngineConfiguration,
}

/// Services a QueryEngine uses.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct QueryEngineDependencies {
    /// Cassandra, the database of analytics, or that of the configuration if there is only one.
    pub cassandra: Option<DependencySource>,
    /// Zookeeper, for elections.
    pub zookeeper: Option<DependencySource>,
    /// Rabbitmq, the message bus.
    pub rabbitmq: Option<DependencySource>,
    /// Redis, which passes queries and results.
    pub redis: Option<DependencySource>,
    /// Config, the configuration API.
    pub config: Option<DependencySource>,
    /// Analytics, whose API passes queries on.
    pub analytics: Option<DependencySource>,
}

/// Settings of the query engine.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct QueryEngineConfiguration {
    /// Containers to run, with image and command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub containers: Vec<Container>,
    /// Port of the database of analytics. Default: the one that Cassandra publishes.
    pub analyticsdb_port: Option<Port>,
    /// Port of the query engine's introspection. Default 8091.
    pub analyticsdb_introspect_port: Option<Port>,
}

/// Status of a QueryEngine.
pub type QueryEngineStatus = Status<NoOwnStatus>;
