//! AnalyticsSnmp: the SNMP collector and the topology daemon.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    common::{Container, PodConfiguration},
    contract::{NoOwnStatus, Status},
    dependencies::DependencySource,
    schema::{Port, same_setting},
};

/// The SNMP collector and the topology daemon.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tf.tungsten.io",
    version = "v1alpha1",
    kind = "AnalyticsSnmp",
    plural = "analyticssnmp",
    shortname = "tfsnmp",
    namespaced,
    status = "AnalyticsSnmpStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "The SNMP collector, which asks physical devices for their state, and the topology made of it."
)]
#[serde(rename_all = "camelCase", default)]
pub struct AnalyticsSnmpSpec {
    /// Settings common to the pods of every kind.
    pub common_configuration: PodConfiguration,
    /// Suspends reconciling while true; status is still updated.
    pub paused: bool,
    /// Release of the images: a tag as the registry lists it (`24.1`, `R21.4`, `latest`). Tags before 24 are taken from `tungstenfabric/contrail-*`, others from
    /// `opensdn/opensdn-*`; `tungstenfabric-TAG` and `opensdn-TAG` state which. Default: `latest`.
    #[schemars(length(max = 63))]
    pub version: Option<String>,
    /// Services this one uses, where they are not found by their usual names.
    pub dependencies: AnalyticsSnmpDependencies,
    /// Settings of the SNMP collector and the topology daemon.
    pub service_configuration: AnalyticsSnmpConfiguration,
}

/// Services an AnalyticsSnmp uses.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AnalyticsSnmpDependencies {
    /// Cassandra, the database of the configuration.
    pub cassandra: Option<DependencySource>,
    /// Zookeeper, for elections.
    pub zookeeper: Option<DependencySource>,
    /// Rabbitmq, the message bus.
    pub rabbitmq: Option<DependencySource>,
    /// Redis, which keeps the current state.
    pub redis: Option<DependencySource>,
    /// Config, which knows the devices.
    pub config: Option<DependencySource>,
    /// Analytics, whose collectors receive what is found.
    pub analytics: Option<DependencySource>,
}

/// Settings of the SNMP collector and the topology daemon.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [same_setting("topologySnmpFrequency", "topologyScanFrequency")]))]
pub struct AnalyticsSnmpConfiguration {
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
    /// Seconds between full readings of a device. Default 600.
    #[schemars(range(min = 1, max = 2_592_000))]
    pub snmp_collector_scan_frequency: Option<u32>,
    /// Seconds between readings of the counters of a device. Default 60.
    #[schemars(range(min = 1, max = 2_592_000))]
    pub snmp_collector_fast_scan_frequency: Option<u32>,
    /// Port of the SNMP collector's introspection. Default 5920.
    pub snmp_collector_introspect_listen_port: Option<Port>,
    /// Name of the SNMP collector's log file. Default contrail-snmp-collector.log.
    #[schemars(length(max = 255))]
    pub snmp_collector_log_file_name: Option<String>,
    /// Old spelling of topologyScanFrequency.
    #[schemars(range(min = 1, max = 2_592_000))]
    pub topology_snmp_frequency: Option<u32>,
    /// Seconds between computations of the topology. Default 600.
    #[schemars(range(min = 1, max = 2_592_000))]
    pub topology_scan_frequency: Option<u32>,
    /// Port of the topology daemon's introspection. Default 5921.
    pub topology_introspect_listen_port: Option<Port>,
    /// Name of the topology daemon's log file. Default contrail-topology.log.
    #[schemars(length(max = 255))]
    pub topology_log_file_name: Option<String>,
}

/// Status of an AnalyticsSnmp.
pub type AnalyticsSnmpStatus = Status<NoOwnStatus>;
