//! How a resource names the services it needs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use crate::{
    contract::{Endpoint, NameReference},
    schema::rule,
};

/// A resource of the dependency's kind.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceReference {
    /// Name of the resource.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the resource; that of the referring resource if absent.
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
}

/// A service that no operator of ours runs.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalService {
    /// Endpoints by the names the contract gives them, for example cql, client, amqp, api.
    #[schemars(length(min = 1, max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub endpoints: Vec<Endpoint>,
    /// Secret with as much of username, password, vhost, ca.crt (the authority of the service's certificate), tls.crt and
    /// tls.key (what RabbitMQ, Kafka and collectors are shown) as the service needs.
    pub secret_ref: Option<NameReference>,
}

/// Where a dependency is found. Exactly one of the fields.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [rule("[has(self.ref), has(self.discoveryConfigMap), has(self.external)].filter(x, x).size() == 1", "a dependency takes exactly one of ref, discoveryConfigMap and external")]))]
pub struct DependencySource {
    /// A resource of the dependency's kind.
    #[serde(rename = "ref")]
    pub reference: Option<ResourceReference>,
    /// A ConfigMap in the same namespace with keys such as CQL_HOSTS, CQL_PORT and CQL_TLS.
    pub discovery_config_map: Option<NameReference>,
    /// A service that no operator of ours runs.
    pub external: Option<ExternalService>,
}

/// The rule that a spec names its Control in one place: the Go tf-operator's `controlInstance`, or `dependencies`.
pub(crate) fn one_control() -> Value {
    rule(
        "!has(self.dependencies) || !has(self.dependencies.control) || !has(self.serviceConfiguration) \
            || !has(self.serviceConfiguration.controlInstance)",
        "serviceConfiguration.controlInstance and dependencies.control both name the Control; remove one",
    )
}
