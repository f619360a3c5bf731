//! AnalyticsAlarm: the alarm generator and its Kafka.

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

/// The alarm generator and its Kafka.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tf.tungsten.io",
    version = "v1alpha1",
    kind = "AnalyticsAlarm",
    plural = "analyticsalarm",
    shortname = "tfal",
    namespaced,
    status = "AnalyticsAlarmStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "The alarm generator, which turns state into alarms, and its Kafka."
)]
#[serde(rename_all = "camelCase", default)]
pub struct AnalyticsAlarmSpec {
    /// Settings common to the pods of every kind.
    pub common_configuration: PodConfiguration,
    /// Suspends reconciling while true; status is still updated.
    pub paused: bool,
    /// Release of the images: a tag as the registry lists it (`24.1`, `R21.4`, `latest`). Tags before 24 are taken from `tungstenfabric/contrail-*`, others from
    /// `opensdn/opensdn-*`; `tungstenfabric-TAG` and `opensdn-TAG` state which. Default: `latest`.
    #[schemars(length(max = 63))]
    pub version: Option<String>,
    /// Services this one uses, where they are not found by their usual names.
    pub dependencies: AnalyticsAlarmDependencies,
    /// Settings of the alarm generator.
    pub service_configuration: AnalyticsAlarmConfiguration,
}

/// Services an AnalyticsAlarm uses.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AnalyticsAlarmDependencies {
    /// Cassandra, the database of the configuration.
    pub cassandra: Option<DependencySource>,
    /// Zookeeper, for elections and Kafka.
    pub zookeeper: Option<DependencySource>,
    /// Rabbitmq, the message bus.
    pub rabbitmq: Option<DependencySource>,
    /// Redis, which keeps the current state.
    pub redis: Option<DependencySource>,
    /// Config, the configuration API.
    pub config: Option<DependencySource>,
    /// Analytics, whose collectors receive the daemons' state.
    pub analytics: Option<DependencySource>,
}

/// Settings of the alarm generator.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AnalyticsAlarmConfiguration {
    /// Containers to run, with image and command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub containers: Vec<Container>,
    /// Directory of the log files. Default /var/log/contrail.
    #[schemars(length(max = 1024))]
    pub log_file_path: Option<String>,
    /// Whether log messages are written to the file at once, as 0 or 1. Default 1.
    #[schemars(length(max = 16))]
    pub log_local: Option<String>,
    /// Number of the Redis database for aggregated state on the first member. Default 1; each member takes the next.
    #[schemars(range(min = 0, max = 65535))]
    pub alarmgen_redis_aggregate_db_offset: Option<u32>,
    /// Partitions that the work is shared out in. Default 30.
    #[schemars(range(min = 1, max = 65535))]
    pub alarmgen_partitions: Option<u32>,
    /// Port of the alarm generator's introspection. Default 5995.
    pub alarmgen_introspect_listen_port: Option<Port>,
    /// Name of the log file. Default contrail-alarm-gen.log.
    #[schemars(length(max = 255))]
    pub alarmgen_log_file_name: Option<String>,
}

/// Status of an AnalyticsAlarm.
pub type AnalyticsAlarmStatus = Status<NoOwnStatus>;
