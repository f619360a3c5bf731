//! Endpoints: the addresses a service offers, as published in its status.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Application protocol of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// Plain TCP with a protocol of its own.
    #[default]
    Tcp,
    /// Plain UDP.
    Udp,
    /// HTTP.
    Http,
    /// HTTP over TLS.
    Https,
    /// AMQP.
    Amqp,
    /// AMQP over TLS.
    Amqps,
    /// XMPP.
    Xmpp,
    /// BGP.
    Bgp,
    /// DNS.
    Dns,
}

/// One endpoint. The list in a status is keyed by `name`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Name of the endpoint, unique in the list, for example cql.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Application protocol.
    #[serde(default)]
    pub protocol: Protocol,
    /// Port number.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// Whether the endpoint speaks TLS.
    #[serde(default)]
    pub tls: bool,
    /// DNS name of a Service in front of it, if there is one.
    pub service: Option<String>,
    /// Addresses of the members, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub nodes: Vec<String>,
}
