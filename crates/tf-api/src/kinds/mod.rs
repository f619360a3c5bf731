//! The custom resources, one file per kind, and parts of them that are long.

mod analytics;
mod analytics_alarm;
mod analytics_snmp;
mod cassandra;
mod config;
mod control;
mod global_settings;
mod kubemanager;
mod manager;
mod query_engine;
mod rabbitmq;
mod redis;
mod vrouter;
mod vrouter_configuration;
mod vrouter_profile;
mod vrouter_upgrade;
mod webui;
mod zookeeper;

pub use analytics::*;
pub use analytics_alarm::*;
pub use analytics_snmp::*;
pub use cassandra::*;
pub use config::*;
pub use control::*;
pub use global_settings::*;
pub use kubemanager::*;
pub use manager::*;
pub use query_engine::*;
pub use rabbitmq::*;
pub use redis::*;
pub use vrouter::*;
pub use vrouter_configuration::*;
pub use vrouter_profile::*;
pub use vrouter_upgrade::*;
pub use webui::*;
pub use zookeeper::*;

pub use crate::kind::KindInfo;

use crate::{
    contract::ConditionType,
    crd::{self, Definition, definition},
    names::CONFIGDB,
};

impl KindInfo {
    /// The information about the kind of this name.
    pub fn of(kind: &str) -> Option<Self> {
        ALL.into_iter().find(|info| info.kind == kind)
    }
}

/// Analytics.
pub const ANALYTICS: KindInfo =
    KindInfo::new("Analytics", "analytics", "analytics-op", "analytics1", ConditionType::AnalyticsReady)
        .members()
        .keystone()
        .served();
/// AnalyticsAlarm.
pub const ANALYTICS_ALARM: KindInfo = KindInfo::new(
    "AnalyticsAlarm",
    "analyticsalarm",
    "analytics-op",
    "analyticsalarm1",
    ConditionType::AnalyticsAlarmReady,
)
.members()
.keystone();
/// AnalyticsSnmp.
pub const ANALYTICS_SNMP: KindInfo = KindInfo::new(
    "AnalyticsSnmp",
    "analyticssnmp",
    "analytics-op",
    "analyticssnmp1",
    ConditionType::AnalyticsSnmpReady,
)
.members()
.keystone();
/// Cassandra.
pub const CASSANDRA: KindInfo =
    KindInfo::new("Cassandra", "cassandras", "cassandra-op", CONFIGDB, ConditionType::CassandraReady).members().data();
/// Config. Its condition has the name that consumers use, because `ConfigReady` is taken.
pub const CONFIG: KindInfo = KindInfo::new("Config", "configs", "config-op", "config1", ConditionType::ConfigApiReady)
    .members()
    .keystone()
    .served();
/// Control.
pub const CONTROL: KindInfo =
    KindInfo::new("Control", "controls", "control-op", "control1", ConditionType::ControlReady).members().keystone();
/// Kubemanager.
pub const KUBEMANAGER: KindInfo =
    KindInfo::new("Kubemanager", "kubemanagers", "kubemanager-op", "kubemanager1", ConditionType::KubemanagerReady)
        .members()
        .keystone();
/// Manager.
pub const MANAGER: KindInfo = KindInfo::new("Manager", "managers", "manager-op", "manager1", ConditionType::Ready);
/// QueryEngine.
pub const QUERY_ENGINE: KindInfo =
    KindInfo::new("QueryEngine", "queryengine", "analytics-op", "queryengine1", ConditionType::QueryEngineReady)
        .members();
/// Rabbitmq.
pub const RABBITMQ: KindInfo =
    KindInfo::new("Rabbitmq", "rabbitmqs", "rabbitmq-op", "rabbitmq1", ConditionType::RabbitmqReady).members().data();
/// Redis.
pub const REDIS: KindInfo = KindInfo::new("Redis", "redis", "redis-op", "redis1", ConditionType::RedisReady).members();
/// VrouterProfile.
pub const VROUTER_PROFILE: KindInfo =
    KindInfo::new("VrouterProfile", "vrouterprofiles", "vrouter-op", "vrouterprofile1", ConditionType::VrouterReady);
/// Vrouter.
pub const VROUTER: KindInfo =
    KindInfo::new("Vrouter", "vrouters", "vrouter-op", "vrouter1", ConditionType::VrouterReady).on_nodes().keystone();
/// Webui.
pub const WEBUI: KindInfo =
    KindInfo::new("Webui", "webuis", "webui-op", "webui1", ConditionType::WebuiReady).members().keystone().served();
/// Zookeeper.
pub const ZOOKEEPER: KindInfo =
    KindInfo::new("Zookeeper", "zookeepers", "zookeeper-op", "zookeeper1", ConditionType::ZookeeperReady)
        .members()
        .data();

/// Every kind, in the order of the plurals.
pub const ALL: [KindInfo; 15] = [
    ANALYTICS,
    ANALYTICS_ALARM,
    ANALYTICS_SNMP,
    CASSANDRA,
    CONFIG,
    CONTROL,
    KUBEMANAGER,
    MANAGER,
    QUERY_ENGINE,
    RABBITMQ,
    REDIS,
    VROUTER_PROFILE,
    VROUTER,
    WEBUI,
    ZOOKEEPER,
];

/// All definitions, in the order of [`ALL`].
pub fn definitions() -> Vec<Definition> {
    let mut all = vec![
        definition::<Analytics>(ANALYTICS),
        definition::<AnalyticsAlarm>(ANALYTICS_ALARM),
        definition::<AnalyticsSnmp>(ANALYTICS_SNMP),
        definition::<Cassandra>(CASSANDRA),
        definition::<Config>(CONFIG),
        definition::<Control>(CONTROL),
        definition::<Kubemanager>(KUBEMANAGER),
        definition::<QueryEngine>(QUERY_ENGINE),
        definition::<Rabbitmq>(RABBITMQ),
        definition::<Redis>(REDIS),
        definition::<VrouterProfile>(VROUTER_PROFILE),
        definition::<Vrouter>(VROUTER),
        definition::<Webui>(WEBUI),
        definition::<Zookeeper>(ZOOKEEPER),
    ];
    all.push(crd::manager_definition(&all));
    all.sort_by_key(|definition| definition.info.plural);
    all
}

crate::resource::managed! {
    Analytics = ANALYTICS,
    AnalyticsAlarm = ANALYTICS_ALARM,
    AnalyticsSnmp = ANALYTICS_SNMP,
    Cassandra = CASSANDRA {
        fn upkeep_by(&self) -> Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time> {
            self.status.as_ref()?.own.repair_by.as_ref()
        }
    },
    Config = CONFIG,
    Control = CONTROL,
    Kubemanager = KUBEMANAGER,
    QueryEngine = QUERY_ENGINE,
    Rabbitmq = RABBITMQ,
    Redis = REDIS,
    Vrouter = VROUTER,
    Webui = WEBUI,
    Zookeeper = ZOOKEEPER,
}
