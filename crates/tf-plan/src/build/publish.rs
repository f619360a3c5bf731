//! What a provider hands to its clients besides its status: the discovery ConfigMap and the connection Secret.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
};
use tf_api::contract::Endpoint;

use crate::{
    build::identity::Identity,
    dependency::key_prefix,
    hash,
    object::{CONFIG_MAP, Object, SECRET},
    secret::SecretData,
};

/// Name of the discovery ConfigMap.
pub fn discovery_name(identity: &Identity) -> String {
    identity.object_name("discovery")
}

/// The endpoints as plain keys, so that a client needs no definition of ours.
pub fn discovery(identity: &Identity, endpoints: &[Endpoint]) -> Object {
    endpoints_map(identity, discovery_name(identity), endpoints)
}

/// A ConfigMap with `<NAME>_HOSTS`, `<NAME>_PORT` and `<NAME>_TLS` of each endpoint; read by
/// [`endpoint_of_map`](crate::dependency::endpoint_of_map).
pub fn endpoints_map(identity: &Identity, name: String, endpoints: &[Endpoint]) -> Object {
    let mut data = BTreeMap::new();
    for endpoint in endpoints {
        let prefix = key_prefix(&endpoint.name);
        let hosts = if endpoint.nodes.is_empty() {
            endpoint.service.clone().unwrap_or_default()
        } else {
            endpoint.nodes.join(",")
        };
        data.insert(format!("{prefix}_HOSTS"), hosts);
        data.insert(format!("{prefix}_PORT"), endpoint.port.to_string());
        data.insert(format!("{prefix}_TLS"), endpoint.tls.to_string());
    }
    Object::new(CONFIG_MAP, &ConfigMap { metadata: identity.meta(name), data: Some(data), ..ConfigMap::default() })
}

/// Name of the connection Secret.
pub fn connection_name(identity: &Identity) -> String {
    identity.object_name("connection")
}

/// The connection Secret in the layout of the Service Binding specification, and a hash of its content.
pub fn connection(identity: &Identity, kind: &str, endpoint: &Endpoint, credentials: &SecretData) -> (Object, String) {
    let host = endpoint.nodes.first().or(endpoint.service.as_ref()).cloned().unwrap_or_default();
    let mut data = BTreeMap::from([
        ("type".to_owned(), kind.to_owned()),
        ("provider".to_owned(), "tungsten-fabric".to_owned()),
        ("host".to_owned(), host),
        ("port".to_owned(), endpoint.port.to_string()),
    ]);
    data.extend(credentials.iter().map(|(key, value)| (key.to_owned(), value.to_owned())));
    let digest = hash::of_contents(data.iter().map(|(key, value)| (key.as_str(), value.as_bytes())));
    (secret(identity, connection_name(identity), data, &format!("servicebinding.io/{kind}")), digest)
}

/// A Secret with generated credentials.
pub fn credentials(identity: &Identity, name: &str, data: &SecretData) -> Object {
    let data = data.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    secret(identity, name.to_owned(), data, "Opaque")
}

fn secret(identity: &Identity, name: String, data: BTreeMap<String, String>, type_: &str) -> Object {
    Object::new(
        SECRET,
        &Secret {
            metadata: identity.meta(name),
            data: Some(data.into_iter().map(|(key, value)| (key, ByteString(value.into_bytes()))).collect()),
            type_: Some(type_.to_owned()),
            ..Secret::default()
        },
    )
}
