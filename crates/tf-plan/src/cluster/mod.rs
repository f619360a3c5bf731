//! What a cluster says about itself: its name, its subnets, where its nodes keep CNI files.
//!
//! It is in three places, and who comes later in this list wins: the ConfigMap of kubeadm, that of OpenShift's installer, which holds
//! what was once asked for, and the objects that OpenShift itself goes by. What they do not say is assumed to be the default
//! of the platform, as in the Go tf-operator (docs/upstream/go-operator.md#cluster-discovery); what they say and cannot be understood is told in
//! [`Cluster::problems`], because a value that was assumed may be the wrong one.

mod kubeadm;
mod openshift;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::openshift::{INFRASTRUCTURE, NETWORK};
use crate::{
    declaration::Read,
    not_ready::NotReady,
    observed::{Source, Unavailable},
};

const NAMESPACE: &str = "kube-system";
/// Port of the API server where its address is given without one.
const API_PORT: u16 = 6443;

/// ConfigMaps by `namespace/name`.
type Maps = BTreeMap<String, BTreeMap<String, String>>;
/// Objects by [`crate::declaration::foreign_key`].
type Objects = BTreeMap<String, Source<Value>>;

/// Who runs the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// Kubernetes, by kubeadm or by anything else.
    Kubernetes,
    /// OpenShift 4. Nobody else has its objects or the ConfigMap of its installer.
    OpenShift,
}

/// Facts about a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Who runs it.
    pub platform: Platform,
    /// Name, part of the names of what Tungsten Fabric makes for pods.
    pub name: String,
    /// Subnets of pods, of one address family or both.
    pub pod_subnets: Vec<IpNet>,
    /// Subnets of services, one per address family.
    pub service_subnets: Vec<IpNet>,
    /// Host and port of the API server for everybody, where the cluster names one.
    pub endpoint: Option<(String, u16)>,
    /// Directory of the nodes above `net.d`, where the kubelet or its runtime looks for network configurations.
    pub cni_config_dir: String,
    /// Directory of the nodes for CNI plugins.
    pub cni_binary_dir: String,
    /// What could not be understood, for people.
    pub problems: Vec<String>,
    /// Fields and objects that what is stated was taken from, for people.
    sources: BTreeMap<Fact, String>,
    /// Why nothing states these subnets and they are assumed, for people.
    assumed: BTreeMap<Subnets, String>,
    /// Why an object that may state something else cannot be seen at the moment.
    unseen: Option<Unavailable>,
}

/// What a cluster states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// Its name.
    Name,
    /// Host and port of its API server.
    Endpoint,
    /// Its subnets.
    Subnets(Subnets),
}

/// Subnets of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subnets {
    /// Those of pods.
    Pods,
    /// Those of services.
    Services,
}

impl Subnets {
    const ALL: [Self; 2] = [Self::Pods, Self::Services];
}

/// The reads that [`Cluster::of`] needs.
pub fn reads(reason: &'static str) -> Vec<Read> {
    let maps = [kubeadm::MAP, openshift::MAP].map(|name| Read::Fact { namespace: NAMESPACE, name, reason });
    let objects = [NETWORK, INFRASTRUCTURE].map(|kind| Read::Foreign { kind, name: openshift::NAME, reason });
    maps.into_iter().chain(objects).collect()
}

impl Cluster {
    /// Reads ConfigMaps by `namespace/name` and objects by [`crate::declaration::foreign_key`]. A map that is absent does not exist or may
    /// not be read; an object that is absent does not exist, or its definition does not.
    pub fn of(facts: &Maps, objects: &Objects) -> Self {
        let map = |name: &str| facts.get(&format!("{NAMESPACE}/{name}"));
        let is_openshift = map(openshift::MAP).is_some() || !objects.is_empty();
        let mut cluster = Self::assumed(if is_openshift { Platform::OpenShift } else { Platform::Kubernetes });
        if let Some(data) = map(kubeadm::MAP) {
            cluster.read_kubeadm(data);
        }
        if let Some(data) = map(openshift::MAP) {
            cluster.read_install_config(data);
        }
        cluster.read_openshift(objects);
        cluster
    }

    fn assumed(platform: Platform) -> Self {
        let (name, pods, services, cni_config_dir, cni_binary_dir) = match platform {
            Platform::Kubernetes => ("k8s", ([10, 32, 0, 0], 12), ([10, 96, 0, 0], 12), "/etc/cni", "/opt/cni/bin"),
            Platform::OpenShift => {
                ("test", ([10, 128, 0, 0], 14), ([172, 30, 0, 0], 16), "/etc/kubernetes/cni", "/var/lib/cni/bin")
            }
        };
        let subnet = |(address, length): ([u8; 4], u8)| IpNet::new_assert(IpAddr::from(address), length);
        Self {
            platform,
            name: name.into(),
            pod_subnets: vec![subnet(pods)],
            service_subnets: vec![subnet(services)],
            endpoint: None,
            cni_config_dir: cni_config_dir.into(),
            cni_binary_dir: cni_binary_dir.into(),
            problems: Vec::new(),
            sources: BTreeMap::new(),
            assumed: Subnets::ALL
                .map(|subnets| {
                    let field = kubeadm::field(subnets);
                    let why = format!(
                        "ConfigMap {NAMESPACE}/{} with {field} does not exist or may not be read, nor does {NAMESPACE}/{}",
                        kubeadm::MAP,
                        openshift::MAP
                    );
                    (subnets, why)
                })
                .into(),
            unseen: None,
        }
    }

    /// Subnets as the cluster states them.
    ///
    /// # Errors
    /// When it does not: which object or field is missing or malformed, for people.
    pub fn stated(&self, subnets: Subnets) -> Result<&[IpNet], &str> {
        match (self.assumed.get(&subnets), subnets) {
            (Some(why), _) => Err(why),
            (None, Subnets::Pods) => Ok(&self.pod_subnets),
            (None, Subnets::Services) => Ok(&self.service_subnets),
        }
    }

    /// The field and the object that state something, for people; none if it is assumed.
    pub fn source(&self, fact: Fact) -> Option<&str> {
        self.sources.get(&fact).map(String::as_str)
    }

    /// Whether everything was seen that may state something else. Until then nothing may be concluded from what others state: it would be
    /// taken back a moment later.
    ///
    /// # Errors
    /// When it was not: what has to be seen first.
    pub fn seen(&self) -> Result<(), NotReady> {
        self.unseen.as_ref().map_or(Ok(()), |why| Err(NotReady::input(why.reason, why.message.clone())))
    }

    /// One document of a ConfigMap that should state what is not stated yet, in fields with these names. The error of the parser stays out
    /// of the message: it may quote the document.
    fn document<T: DeserializeOwned>(
        &mut self,
        map: &str,
        key: &str,
        data: &BTreeMap<String, String>,
        field: fn(Subnets) -> &'static str,
    ) -> Option<T> {
        let found = data.get(key).map(|text| serde_saphyr::from_str(text));
        let why = match found {
            Some(Ok(document)) => {
                for (subnets, why) in &mut self.assumed {
                    let field = field(*subnets);
                    *why = format!("{field} of ConfigMap {NAMESPACE}/{map} is missing or no list of subnets");
                }
                return Some(document);
            }
            Some(Err(_)) => "cannot be understood",
            None => "is missing",
        };
        let why = format!("{key} of ConfigMap {NAMESPACE}/{map} {why}");
        self.problems.push(format!("{why}; defaults are assumed"));
        self.assumed.values_mut().for_each(|assumed| assumed.clone_from(&why));
        None
    }

    fn take_name(&mut self, found: Option<String>, source: String) {
        if take(&mut self.name, found) {
            self.sources.insert(Fact::Name, source);
        }
    }

    fn take_endpoint(&mut self, found: (String, u16), source: String) {
        self.endpoint = Some(found);
        self.sources.insert(Fact::Endpoint, source);
    }

    /// Subnets as texts, of which there may be none.
    ///
    /// # Errors
    /// When one of them is none, with all of them.
    fn take_subnets(&mut self, which: Subnets, texts: &[String], source: String) -> Result<(), String> {
        let texts: Vec<&str> = texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).collect();
        if texts.is_empty() {
            return Ok(());
        }
        let subnets: Result<Vec<IpNet>, _> = texts.iter().map(|text| text.parse()).collect();
        let subnets = subnets.map_err(|_| texts.join(","))?;
        match which {
            Subnets::Pods => self.pod_subnets = subnets,
            Subnets::Services => self.service_subnets = subnets,
        }
        self.assumed.remove(&which);
        self.sources.insert(Fact::Subnets(which), source);
        Ok(())
    }

    /// Subnets of a ConfigMap. Those that cannot be understood are told and count as missing.
    fn take_subnets_of_map(&mut self, which: Subnets, texts: &[String], field: &str, map: &str) {
        let source = format!("{field} of ConfigMap {NAMESPACE}/{map}");
        if let Err(texts) = self.take_subnets(which, texts, source) {
            self.problems.push(format!("{field} {texts:?} is no list of subnets"));
        }
    }
}

/// Whether there is something to take.
fn take(target: &mut String, found: Option<String>) -> bool {
    let found = found.filter(|found| !found.is_empty());
    let is_there = found.is_some();
    if let Some(found) = found {
        *target = found;
    }
    is_there
}

/// `host`, `host:port`, `[address]:port` or a bare IPv6 address.
fn host_and_port(text: &str, default: u16) -> Option<(String, u16)> {
    if text.parse::<IpAddr>().is_ok() {
        return Some((text.to_owned(), default));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (text, default),
    };
    let host = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host);
    (!host.is_empty()).then(|| (host.to_owned(), port))
}
