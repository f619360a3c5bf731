//! OpenShift: the objects of `config.openshift.io` that it goes by, and what its installer was told.
//!
//! Of a Network the status is what is deployed and the spec what is wished for (openshift/api, `types_network.go`), so the status counts
//! where it has something. An object that is there and malformed is not passed over in favour of the installer's ConfigMap: what that says
//! may not hold any more. The name of the cluster is that of the ConfigMap where there is one, because `infrastructureName` has random
//! letters behind it, and what is made in the config API has carried the other name from the beginning.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use tf_api::contract::Reason;

use super::{API_PORT, Cluster, Fact, NAMESPACE, Objects, Subnets, host_and_port};
use crate::{declaration::foreign_key, object::Kind, observed::Source};

/// Name of the ConfigMap that the installer leaves.
pub(super) const MAP: &str = "cluster-config-v1";
/// Name of the objects: there is one of each kind.
pub(super) const NAME: &str = "cluster";

const fn kind(kind: &'static str, plural: &'static str) -> Kind {
    let (group, version) = ("config.openshift.io", "v1");
    Kind { group, version, kind, plural, namespaced: false, counts_generations: true }
}

/// The networks of a cluster.
pub const NETWORK: Kind = kind("Network", "networks");
/// What a cluster stands on.
pub const INFRASTRUCTURE: Kind = kind("Infrastructure", "infrastructures");

/// Port of an address without one, as everywhere with https (openshift/api, `types_infrastructure.go`).
const HTTPS: u16 = 443;

/// The field of the installer's document that has subnets.
pub(super) const fn field(subnets: Subnets) -> &'static str {
    match subnets {
        Subnets::Pods => "networking.clusterNetwork",
        Subnets::Services => "networking.serviceNetwork",
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InstallConfig {
    base_domain: Option<String>,
    metadata: Metadata,
    networking: Networking,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Networking {
    cluster_network: Vec<ClusterNetwork>,
    service_network: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClusterNetwork {
    cidr: String,
}

impl Cluster {
    pub(super) fn read_install_config(&mut self, data: &BTreeMap<String, String>) {
        let found = self.document(MAP, "install-config", data, field);
        let InstallConfig { base_domain, metadata, networking } = found.unwrap_or_default();
        let pods: Vec<String> = networking.cluster_network.into_iter().map(|network| network.cidr).collect();
        self.take_subnets_of_map(Subnets::Pods, &pods, field(Subnets::Pods), MAP);
        self.take_subnets_of_map(Subnets::Services, &networking.service_network, field(Subnets::Services), MAP);
        let source = |fields: &str| format!("{fields} of ConfigMap {NAMESPACE}/{MAP}");
        if let (Some(name), Some(domain)) = (&metadata.name, &base_domain) {
            self.take_endpoint((format!("api.{name}.{domain}"), API_PORT), source("metadata.name and baseDomain"));
        }
        self.take_name(metadata.name, source("metadata.name"));
    }

    pub(super) fn read_openshift(&mut self, objects: &Objects) {
        if let Some(network) = self.look(objects, NETWORK) {
            self.read_network(network);
        }
        if let Some(infrastructure) = self.look(objects, INFRASTRUCTURE) {
            self.read_infrastructure(infrastructure);
        }
    }

    /// An object, if it is there. What may not be read counts as absent and is told; what cannot be seen at the moment is noted.
    fn look<'a>(&mut self, objects: &'a Objects, kind: Kind) -> Option<&'a Value> {
        match objects.get(&foreign_key(kind, NAME))? {
            Source::Known(object) => Some(object),
            Source::Unavailable(why) if why.reason == Reason::Forbidden => {
                self.problems.push(format!("{} may not be read: {}", describe(kind), why.message));
                None
            }
            Source::Unavailable(why) => {
                self.unseen = Some(why.clone());
                None
            }
        }
    }

    fn read_network(&mut self, network: &Value) {
        for (which, field, item) in
            [(Subnets::Pods, "clusterNetwork", "/cidr"), (Subnets::Services, "serviceNetwork", "")]
        {
            let part = ["status", "spec"].into_iter().find_map(|part| Some((part, present(&network[part][field])?)));
            let Some((part, found)) = part else {
                if let Some(why) = self.assumed.get_mut(&which) {
                    *why = format!("{field} of {} is missing, and {why}", describe(NETWORK));
                }
                continue;
            };
            let source = format!("{part}.{field} of {}", describe(NETWORK));
            let read = texts(found, item)
                .ok_or(())
                .and_then(|texts| self.take_subnets(which, &texts, source.clone()).map_err(|_| ()));
            if read.is_err() {
                let why = format!("{source} is no list of subnets: {found}");
                self.problems.push(why.clone());
                self.assumed.insert(which, why);
            }
        }
    }

    fn read_infrastructure(&mut self, infrastructure: &Value) {
        let status = &infrastructure["status"];
        let source = |field: &str| format!("status.{field} of {}", describe(INFRASTRUCTURE));
        if self.source(Fact::Name).is_none() {
            let name = status["infrastructureName"].as_str().map(str::to_owned);
            self.take_name(name, source("infrastructureName"));
        }
        let Some(found) = present(&status["apiServerInternalURI"]) else { return };
        match found.as_str().and_then(address) {
            Some(address) => self.take_endpoint(address, source("apiServerInternalURI")),
            None => self.problems.push(format!("{} is not https://host:port: {found}", source("apiServerInternalURI"))),
        }
    }
}

fn describe(kind: Kind) -> String {
    format!("{} {NAME} of {}", kind.kind, kind.group)
}

/// A value that says something.
fn present(value: &Value) -> Option<&Value> {
    let is_empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty) || value.as_str() == Some("");
    (!is_empty).then_some(value)
}

/// The texts at one place of each item; none if it is no list, or one item has none there.
fn texts(list: &Value, place: &str) -> Option<Vec<String>> {
    let text = |item: &Value| item.pointer(place)?.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
    list.as_array()?.iter().map(text).collect()
}

/// Host and port of an address of the API server.
fn address(uri: &str) -> Option<(String, u16)> {
    let rest = uri.strip_prefix("https://")?;
    let (host, port) = host_and_port(rest.strip_suffix('/').unwrap_or(rest), HTTPS)?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    host.bytes().all(plain).then_some((host, port))
}
