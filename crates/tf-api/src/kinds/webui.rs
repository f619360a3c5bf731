//! Webui: the web user interface.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    common::{Container, PodConfiguration},
    contract::Status,
    dependencies::{DependencySource, one_control},
};

/// The web user interface.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tf.tungsten.io",
    version = "v1alpha1",
    kind = "Webui",
    plural = "webuis",
    shortname = "tfui",
    namespaced,
    status = "WebuiStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "The web user interface."
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [one_control()]))]
pub struct WebuiSpec {
    /// Settings common to the pods of every kind.
    pub common_configuration: PodConfiguration,
    /// Suspends reconciling while true; status is still updated.
    pub paused: bool,
    /// Release of the images: a tag as the registry lists it (`24.1`, `R21.4`, `latest`). Tags before 24 are taken from `tungstenfabric/contrail-*`, others from
    /// `opensdn/opensdn-*`; `tungstenfabric-TAG` and `opensdn-TAG` state which. Default: `latest`.
    #[schemars(length(max = 63))]
    pub version: Option<String>,
    /// Services this one uses, where they are not found by their usual names.
    pub dependencies: WebuiDependencies,
    /// Settings of the web user interface.
    pub service_configuration: WebuiConfiguration,
}

/// Services a Webui uses.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WebuiDependencies {
    /// Cassandra, the database of the configuration.
    pub cassandra: Option<DependencySource>,
    /// Config, the configuration API.
    pub config: Option<DependencySource>,
    /// Redis, which keeps sessions.
    pub redis: Option<DependencySource>,
    /// Control, whose DNS is shown. The same as controlInstance, for any namespace or an external service.
    pub control: Option<DependencySource>,
    /// Analytics, whose data is shown.
    pub analytics: Option<DependencySource>,
}

/// Settings of the web user interface.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WebuiConfiguration {
    /// Containers to run, with image and command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub containers: Vec<Container>,
    /// Name of the Control whose DNS is shown. Default: the only one in the namespace.
    #[schemars(length(max = 253))]
    pub control_instance: Option<String>,
}

/// Status of a Webui.
pub type WebuiStatus = Status<WebuiOwnStatus>;

/// Fields only Webui has.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WebuiOwnStatus {
    /// Ports in use, as the Go tf-operator published them.
    pub ports: Option<WebuiPorts>,
    /// State of the daemons, by node and container.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub service_status: BTreeMap<String, BTreeMap<String, WebuiModule>>,
    /// Address of the Service in front of the user interface.
    pub endpoint: Option<String>,
}

/// Ports in use.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WebuiPorts {
    /// HTTP port, which redirects.
    #[serde(rename = "webUIHttpPort")]
    pub http: Option<i32>,
    /// HTTPS port.
    #[serde(rename = "webUIHttpsPort")]
    pub https: Option<i32>,
}

/// State of one daemon.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WebuiModule {
    /// Name of the daemon.
    pub module_name: Option<String>,
    /// Functional or Non-Functional.
    pub state: Option<String>,
}
