//! Condition types, the draft of a condition, before time and generation are added, and what of a condition a person has to know.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::Reason;

/// Whether a condition says something other than one hopes for. Types that are not known count as positive ones.
pub fn is_telling(condition: &Condition) -> bool {
    use ConditionType::{Degraded, Progressing};
    let kind: Option<ConditionType> = condition.type_.parse().ok();
    let is_bad_if_true = kind.is_some_and(|kind| kind.is_abnormal_true() || matches!(kind, Progressing | Degraded));
    if is_bad_if_true {
        condition.status == ConditionStatus::True.as_ref()
    } else {
        condition.status != ConditionStatus::True.as_ref() && condition.reason != Reason::NotRequested.as_ref()
    }
}

/// The three values of a condition. Ordered from bad to good for positive conditions.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::AsRefStr, strum::Display, strum::EnumString,
)]
pub enum ConditionStatus {
    /// The condition does not hold.
    False,
    /// Not known.
    Unknown,
    /// The condition holds.
    True,
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// Every condition type that an operator of ours writes. Readers ignore types they do not know.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    strum::AsRefStr,
    strum::Display,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
pub enum ConditionType {
    /// Summary: the current generation is rolled out, endpoints are served, dependencies are fine.
    Ready,
    /// The service can be used now.
    Available,
    /// A roll-out of spec, configuration, certificate or image is under way.
    Progressing,
    /// Quality is lower than asked for, for longer than a roll-out explains.
    Degraded,
    /// Abnormal-true: the operator is still working towards the current generation.
    Reconciling,
    /// Abnormal-true: retrying cannot help, the user has to change something.
    Stalled,
    /// Secrets and ConfigMaps named by the spec exist and parse.
    InputsReady,
    /// All dependencies that bring-up needs are usable.
    DependenciesReady,
    /// State of the dependency on, or the component, Cassandra.
    CassandraReady,
    /// State of the dependency on, or the component, Zookeeper.
    ZookeeperReady,
    /// State of the dependency on, or the component, Rabbitmq.
    RabbitmqReady,
    /// State of the dependency on, or the component, Redis.
    RedisReady,
    /// State of the dependency on, or the component, Config.
    ConfigApiReady,
    /// State of the dependency on, or the component, Control.
    ControlReady,
    /// State of the dependency on the collectors of Analytics.
    CollectorReady,
    /// State of the dependency on the Cassandra of analytics.
    AnalyticsDatabaseReady,
    /// State of the component Kubemanager.
    KubemanagerReady,
    /// State of the component Webui.
    WebuiReady,
    /// State of the component Analytics.
    AnalyticsReady,
    /// State of the component AnalyticsAlarm.
    AnalyticsAlarmReady,
    /// State of the component AnalyticsSnmp.
    AnalyticsSnmpReady,
    /// State of the component QueryEngine.
    QueryEngineReady,
    /// State of the component Vrouter.
    VrouterReady,
    /// Leaf certificates are issued and none is overdue for renewal.
    CertificatesReady,
    /// The configuration is rendered and stored.
    ConfigReady,
    /// The workload is rolled out.
    WorkloadReady,
    /// Registration in the config API is done.
    Provisioned,
    /// An upgrade may start.
    Upgradeable,
    /// Abnormal-true: reconciling is suspended.
    Paused,
    /// Abnormal-true: its servers are stopped, as the resource asks.
    Hibernated,
    /// Abnormal-true: the finalizer is at work.
    Deleting,
    /// Abnormal-true: the spec sets fields that have no effect; the message lists them.
    FieldsIgnored,
}

impl ConditionType {
    /// Types every resource carries from the first status on.
    pub const ALWAYS: [Self; 8] = [
        Self::Ready,
        Self::Available,
        Self::Progressing,
        Self::Degraded,
        Self::InputsReady,
        Self::ConfigReady,
        Self::WorkloadReady,
        Self::Upgradeable,
    ];

    /// Types that are only ever written as True and are removed otherwise.
    pub const ABNORMAL_TRUE: [Self; 6] =
        [Self::Reconciling, Self::Stalled, Self::Paused, Self::Hibernated, Self::Deleting, Self::FieldsIgnored];

    /// Whether the type is only written as True.
    pub fn is_abnormal_true(self) -> bool {
        Self::ABNORMAL_TRUE.contains(&self)
    }
}

/// A condition as a component computes it: without time and generation, which the status merge adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Which condition.
    pub kind: ConditionType,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, for machines.
    pub reason: Reason,
    /// Why, for people: what, where, what to do. At most 32768 bytes; the status merge truncates.
    pub message: String,
}

impl Draft {
    /// A condition with the given status.
    pub fn new(
        kind: ConditionType,
        status: impl Into<ConditionStatus>,
        reason: Reason,
        message: impl Into<String>,
    ) -> Self {
        Self { kind, status: status.into(), reason, message: message.into() }
    }

    /// The condition holds.
    pub fn holds(kind: ConditionType, reason: Reason, message: impl Into<String>) -> Self {
        Self::new(kind, ConditionStatus::True, reason, message)
    }

    /// The condition does not hold.
    pub fn fails(kind: ConditionType, reason: Reason, message: impl Into<String>) -> Self {
        Self::new(kind, ConditionStatus::False, reason, message)
    }

    /// Whether the condition holds is not known.
    pub fn unknown(kind: ConditionType, reason: Reason, message: impl Into<String>) -> Self {
        Self::new(kind, ConditionStatus::Unknown, reason, message)
    }

    /// Whether this draft says True.
    pub fn is_true(&self) -> bool {
        self.status == ConditionStatus::True
    }
}
