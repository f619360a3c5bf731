//! Manager: one resource that lists the components of an installation.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use super::KindInfo;
use crate::{
    common::PodConfiguration,
    contract::{Contract, Status},
    resource::Managed,
    schema::rule,
};

/// A list of components.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tf.tungsten.io",
    version = "v1alpha1",
    kind = "Manager",
    plural = "managers",
    shortname = "tfmgr",
    namespaced,
    status = "ManagerStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A list of components with common settings; each entry becomes a resource of its kind."
)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagerSpec {
    /// Settings that components take over where their own entry does not give them.
    pub common_configuration: ManagerConfiguration,
    /// Suspends reconciling while true; status is still updated. Components go on by themselves.
    pub paused: bool,
    /// Release of the images of all components: a tag as the registry lists it (`24.1`, `R21.4`, `latest`). Tags before 24 are taken from
    /// `tungstenfabric/contrail-*`, others from `opensdn/opensdn-*`; `tungstenfabric-TAG` and `opensdn-TAG` state which. Default: `latest`.
    #[schemars(length(max = 63))]
    pub version: Option<String>,
    /// The components.
    pub services: Services,
}

/// Settings that components take over, and those of the cluster's certificates.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagerConfiguration {
    /// Settings that components take over.
    #[serde(flatten)]
    pub common: PodConfiguration,
    /// Accepted for compatibility, has no effect: keys are of elliptic curves.
    #[schemars(range(min = 1024, max = 8192))]
    pub cert_key_length: Option<u32>,
    /// Accepted for compatibility, has no effect: `certificates` says who signs.
    #[schemars(length(max = 253))]
    pub cert_signer: Option<String>,
}

/// CEL: names within one list differ.
const NAMES_DIFFER: &str = "self.all(a, !has(a.metadata) || !has(a.metadata.name) \
    || self.exists_one(b, has(b.metadata) && has(b.metadata.name) && b.metadata.name == a.metadata.name))";

/// The rule that the entries of a list become different resources.
fn names_differ() -> Value {
    rule(NAMES_DIFFER, "each entry needs a metadata.name of its own; two entries of this list have the same")
}

/// The components by kind. A kind that is left out is not run.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Services {
    /// The Analytics.
    pub analytics: Option<Service>,
    /// The AnalyticsAlarm.
    pub analytics_alarm: Option<Service>,
    /// The AnalyticsSnmp.
    pub analytics_snmp: Option<Service>,
    /// Cassandras.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = [names_differ()]))]
    pub cassandras: Vec<Service>,
    /// The Config.
    pub config: Option<Service>,
    /// Controls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = [names_differ()]))]
    pub controls: Vec<Service>,
    /// The Kubemanager.
    pub kubemanager: Option<Service>,
    /// Kubemanagers, as manifests of the Go tf-operator R2011 list them. Use `kubemanager`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = [names_differ()]))]
    pub kubemanagers: Vec<Service>,
    /// The QueryEngine.
    pub queryengine: Option<Service>,
    /// The Rabbitmq.
    pub rabbitmq: Option<Service>,
    /// Redis servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = [names_differ()]))]
    pub redis: Vec<Service>,
    /// VrouterProfiles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = [names_differ()]))]
    pub vrouter_profiles: Vec<Service>,
    /// Vrouters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = [names_differ()]))]
    pub vrouters: Vec<Service>,
    /// The Webui.
    pub webui: Option<Service>,
    /// The Zookeeper.
    pub zookeeper: Option<Service>,
    /// Zookeepers, as manifests of the Go tf-operator R2011 list them. Use `zookeeper`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = [names_differ()]))]
    pub zookeepers: Vec<Service>,
}

/// One key of `spec.services`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServiceInfo {
    /// The key, which is also that of the status.
    pub key: &'static str,
    /// The kind an entry becomes.
    pub kind: KindInfo,
    /// Whether the key holds a list of entries.
    pub list: bool,
    /// Whether only manifests of the Go tf-operator R2011 have the key, and later ones another key for the kind.
    pub former: bool,
}

const fn one(key: &'static str, kind: KindInfo) -> ServiceInfo {
    ServiceInfo { key, kind, list: false, former: false }
}

const fn many(key: &'static str, kind: KindInfo) -> ServiceInfo {
    ServiceInfo { list: true, ..one(key, kind) }
}

const fn former(key: &'static str, kind: KindInfo) -> ServiceInfo {
    ServiceInfo { former: true, ..many(key, kind) }
}

/// Every key of `spec.services`, in alphabetical order.
pub const SERVICES: [ServiceInfo; 16] = [
    one("analytics", super::ANALYTICS),
    one("analyticsAlarm", super::ANALYTICS_ALARM),
    one("analyticsSnmp", super::ANALYTICS_SNMP),
    many("cassandras", super::CASSANDRA),
    one("config", super::CONFIG),
    many("controls", super::CONTROL),
    one("kubemanager", super::KUBEMANAGER),
    former("kubemanagers", super::KUBEMANAGER),
    one("queryengine", super::QUERY_ENGINE),
    one("rabbitmq", super::RABBITMQ),
    many("redis", super::REDIS),
    many("vrouterProfiles", super::VROUTER_PROFILE),
    many("vrouters", super::VROUTER),
    one("webui", super::WEBUI),
    one("zookeeper", super::ZOOKEEPER),
    former("zookeepers", super::ZOOKEEPER),
];

impl Services {
    /// The entries that are asked for, in the order of [`SERVICES`] and of each list.
    pub fn requested(&self) -> impl Iterator<Item = (&'static ServiceInfo, &Service)> {
        let entries: [&[Service]; SERVICES.len()] = [
            self.analytics.as_slice(),
            self.analytics_alarm.as_slice(),
            self.analytics_snmp.as_slice(),
            &self.cassandras,
            self.config.as_slice(),
            &self.controls,
            self.kubemanager.as_slice(),
            &self.kubemanagers,
            self.queryengine.as_slice(),
            self.rabbitmq.as_slice(),
            &self.redis,
            &self.vrouter_profiles,
            &self.vrouters,
            self.webui.as_slice(),
            self.zookeeper.as_slice(),
            &self.zookeepers,
        ];
        SERVICES.iter().zip(entries).flat_map(|(info, list)| list.iter().map(move |service| (info, service)))
    }
}

/// A component: name and labels of its resource, and its spec.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Service {
    /// Name and labels of the resource.
    pub metadata: ServiceMetadata,
    /// Spec of the resource, passed on as it is. It is checked in full when the resource is written.
    pub spec: RawSpec,
}

/// Name and labels of a component's resource.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceMetadata {
    /// Name of the resource.
    #[schemars(length(max = 63))]
    pub name: Option<String>,
    /// Labels of the resource.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,
}

/// A component's spec as the user wrote it. It may hold passwords and fields of a newer release, so it is never looked
/// into, and `Debug` shows only how many fields it has.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawSpec(pub Map<String, Value>);

impl fmt::Debug for RawSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawSpec({} fields)", self.0.len())
    }
}

impl JsonSchema for RawSpec {
    fn schema_name() -> Cow<'static, str> {
        "RawSpec".into()
    }

    fn inline_schema() -> bool {
        true
    }

    /// Only the outline; `crd` puts the schema of the component's own spec in its place.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
    }
}

/// Status of a Manager.
pub type ManagerStatus = Status<ManagerOwnStatus>;

/// Fields only Manager has.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagerOwnStatus {
    /// State of the Analytics.
    pub analytics: Option<ServiceStatus>,
    /// State of the AnalyticsAlarm.
    pub analytics_alarm: Option<ServiceStatus>,
    /// State of the AnalyticsSnmp.
    pub analytics_snmp: Option<ServiceStatus>,
    /// State of the Cassandras.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cassandras: Vec<ServiceStatus>,
    /// State of the Config.
    pub config: Option<ServiceStatus>,
    /// State of the Controls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<ServiceStatus>,
    /// State of the Kubemanager.
    pub kubemanager: Option<ServiceStatus>,
    /// State of the Kubemanagers of `spec.services.kubemanagers`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kubemanagers: Vec<ServiceStatus>,
    /// State of the QueryEngine.
    pub queryengine: Option<ServiceStatus>,
    /// State of the Rabbitmq.
    pub rabbitmq: Option<ServiceStatus>,
    /// State of the Redis servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub redis: Vec<ServiceStatus>,
    /// State of the VrouterProfiles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vrouter_profiles: Vec<ServiceStatus>,
    /// State of the Vrouters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vrouters: Vec<ServiceStatus>,
    /// State of the Webui.
    pub webui: Option<ServiceStatus>,
    /// State of the Zookeeper.
    pub zookeeper: Option<ServiceStatus>,
    /// State of the Zookeepers of `spec.services.zookeepers`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zookeepers: Vec<ServiceStatus>,
    /// Resource definitions that the components need.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub crd_status: Vec<CrdStatus>,
    /// Stage of the upgrade as the Go tf-operator counted it; -1 when none is under way.
    pub ziu_state: Option<i32>,
}

/// State of one component.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus {
    /// Name of the resource.
    pub name: Option<String>,
    /// Whether the component can be used.
    pub active: Option<bool>,
    /// Whether the resource exists.
    pub created: Option<bool>,
}

/// State of one resource definition.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CrdStatus {
    /// Name of the definition.
    pub name: Option<String>,
    /// Whether the definition is installed.
    pub active: Option<bool>,
}

impl Managed for Manager {
    const INFO: KindInfo = super::MANAGER;

    fn common(&self) -> &PodConfiguration {
        &self.spec.common_configuration.common
    }

    fn spec_paused(&self) -> bool {
        self.spec.paused
    }

    fn version(&self) -> Option<&str> {
        self.spec.version.as_deref()
    }

    fn contract(&self) -> Option<&Contract> {
        self.status.as_ref().map(|status| &status.contract)
    }
}
