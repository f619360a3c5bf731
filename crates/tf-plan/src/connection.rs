//! Where a service is and how to log in there.

use std::collections::BTreeMap;

use tf_api::contract::Endpoint;
use tf_config_files::url::authority;

use crate::secret::SecretData;

/// What is needed to talk to a service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Connection {
    /// Endpoints by name.
    pub endpoints: BTreeMap<String, Endpoint>,
    /// Credentials; empty if the service needs none.
    pub credentials: SecretData,
    /// Identities of the members by address, where the provider publishes them.
    pub member_nodes: BTreeMap<String, String>,
}

impl Connection {
    /// Member addresses of an endpoint; its Service if it lists no members.
    pub fn hosts(&self, endpoint: &str) -> Vec<String> {
        let Some(endpoint) = self.endpoints.get(endpoint) else { return Vec::new() };
        if endpoint.nodes.is_empty() { endpoint.service.iter().cloned().collect() } else { endpoint.nodes.clone() }
    }

    /// Hosts of an endpoint, each with the port; see [`authority`].
    pub fn authorities(&self, endpoint: &str) -> Vec<String> {
        let port = self.port(endpoint).unwrap_or_default();
        self.hosts(endpoint).iter().map(|host| authority(host, port)).collect()
    }

    /// Port of an endpoint.
    pub fn port(&self, endpoint: &str) -> Option<u16> {
        self.endpoints.get(endpoint).map(|endpoint| endpoint.port)
    }

    /// Whether an endpoint speaks TLS.
    pub fn tls(&self, endpoint: &str) -> bool {
        self.endpoints.get(endpoint).is_some_and(|endpoint| endpoint.tls)
    }
}
