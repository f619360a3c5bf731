//! Analytics: collectors and the analytics API.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    common::{AaaMode, Container, PodConfiguration},
    contract::Status,
    dependencies::DependencySource,
    ports,
    schema::{Port, distinct},
};

/// Collectors and the analytics API.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tf.tungsten.io",
    version = "v1alpha1",
    kind = "Analytics",
    plural = "analytics",
    shortname = "tfan",
    namespaced,
    status = "AnalyticsStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Collectors, which receive state and statistics of all daemons, and the analytics API."
)]
#[serde(rename_all = "camelCase", default)]
pub struct AnalyticsSpec {
    /// Settings common to the pods of every kind.
    pub common_configuration: PodConfiguration,
    /// Suspends reconciling while true; status is still updated.
    pub paused: bool,
    /// Release of the images: a tag as the registry lists it (`24.1`, `R21.4`, `latest`). Tags before 24 are taken from `tungstenfabric/contrail-*`, others from
    /// `opensdn/opensdn-*`; `tungstenfabric-TAG` and `opensdn-TAG` state which. Default: `latest`.
    #[schemars(length(max = 63))]
    pub version: Option<String>,
    /// Services this one uses, where they are not found by their usual names.
    pub dependencies: AnalyticsDependencies,
    /// Settings of collectors and the analytics API.
    pub service_configuration: AnalyticsConfiguration,
}

/// Services an Analytics uses.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AnalyticsDependencies {
    /// Cassandra, the database of analytics, or that of the configuration if there is only one.
    pub cassandra: Option<DependencySource>,
    /// Cassandra, the database of the configuration.
    pub config_database: Option<DependencySource>,
    /// Zookeeper, for elections.
    pub zookeeper: Option<DependencySource>,
    /// Rabbitmq, the message bus.
    pub rabbitmq: Option<DependencySource>,
    /// Redis, which keeps the current state.
    pub redis: Option<DependencySource>,
    /// Config, the configuration API.
    pub config: Option<DependencySource>,
    /// AnalyticsAlarm, whose Kafka receives the state that alarms are made of.
    pub analytics_alarm: Option<DependencySource>,
}

/// Settings of collectors and the analytics API.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [distinct("[self.analyticsPort, self.analyticsIntrospectPort, self.collectorPort, self.collectorIntrospectPort]", "analyticsPort, analyticsIntrospectPort, collectorPort and collectorIntrospectPort must differ from each other")]))]
pub struct AnalyticsConfiguration {
    /// Containers to run, with image and command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub containers: Vec<Container>,
    /// Port of the analytics API.
    pub analytics_port: Port,
    /// Port of the analytics API's introspection.
    pub analytics_introspect_port: Port,
    /// Port of the collectors.
    pub collector_port: Port,
    /// Port of the collectors' introspection.
    pub collector_introspect_port: Port,
    /// Who may do what in the API. Default no-auth, or rbac with Keystone.
    pub aaa_mode: Option<AaaMode>,
    /// Hours that messages and other data without a time of their own are kept.
    #[serde(rename = "analyticsDataTTL")]
    #[schemars(range(min = -1))]
    pub analytics_data_ttl: i32,
    /// Hours that the record of configuration changes is kept; -1 is as long as analyticsDataTTL.
    #[serde(rename = "analyticsConfigAuditTTL")]
    #[schemars(range(min = -1))]
    pub analytics_config_audit_ttl: i32,
    /// Hours that statistics are kept; -1 is as long as analyticsDataTTL.
    #[serde(rename = "analyticsStatisticsTTL")]
    #[schemars(range(min = -1))]
    pub analytics_statistics_ttl: i32,
    /// Hours that flow records are kept; -1 is as long as analyticsDataTTL.
    #[serde(rename = "analyticsFlowTTL")]
    #[schemars(range(min = -1))]
    pub analytics_flow_ttl: i32,
}

impl Default for AnalyticsConfiguration {
    fn default() -> Self {
        Self {
            containers: Vec::new(),
            analytics_port: ports::ANALYTICS_API,
            analytics_introspect_port: ports::ANALYTICS_API_INTROSPECT,
            collector_port: ports::COLLECTOR,
            collector_introspect_port: ports::COLLECTOR_INTROSPECT,
            aaa_mode: None,
            analytics_data_ttl: 48,
            analytics_config_audit_ttl: 2160,
            analytics_statistics_ttl: 4,
            analytics_flow_ttl: 2,
        }
    }
}

/// Status of an Analytics.
pub type AnalyticsStatus = Status<AnalyticsOwnStatus>;

/// Fields only Analytics has.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AnalyticsOwnStatus {
    /// Address of the Service in front of the analytics API.
    pub endpoint: Option<String>,
}
