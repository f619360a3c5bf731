//! Objects of the API as planners see them: those of files, of a cluster, and those that previews suppose.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, StatefulSet},
        core::v1::{ConfigMap, Node, PersistentVolumeClaim, Pod, Secret},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::core::DynamicObject;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tf_api::{KindInfo, contract::PeerStatus, kinds, names};
use tf_plan::{
    build::identity::{LABEL_LIMIT, fit},
    declaration::foreign_key,
    object::{self, Kind, Object},
    observed::{self, Peer, Source, Spec, Specs, Workload},
    secret::SecretData,
};

use super::{Outcome, Preview, planner::Operator};

/// A resource of ours.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Kind.
    pub kind: KindInfo,
    /// As it is given, with a status if it has one.
    pub object: DynamicObject,
}

/// Kind, namespace and name of a resource.
pub type Key = (&'static str, (String, String));

/// What there is.
#[derive(Clone, Debug)]
pub struct Given {
    /// Domain of cluster services.
    pub cluster_domain: String,
    pub(super) nodes: Vec<observed::Node>,
    resources: BTreeMap<Key, Resource>,
    statuses: BTreeMap<Key, PeerStatus>,
    /// With namespace and labels.
    pods: Vec<(String, BTreeMap<String, String>, observed::Pod)>,
    /// With namespace, labels and name.
    claims: Vec<(String, BTreeMap<String, String>, String, observed::Claim)>,
    /// By the uid of the resource that controls them.
    workloads: Vec<(String, Workload)>,
    secrets: BTreeMap<(String, String), SecretData>,
    config_maps: BTreeMap<(String, String), BTreeMap<String, String>>,
    /// Of somebody else's kinds, as snapshots call them.
    foreign: BTreeMap<String, Value>,
}

impl Resource {
    /// Where it is found.
    pub fn key(&self) -> Key {
        let meta = &self.object.metadata;
        (self.kind.kind, (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default()))
    }

    /// Of its spec.
    pub fn generation(&self) -> i64 {
        self.object.metadata.generation.unwrap_or_default()
    }

    /// Whether it is about to go.
    pub fn is_deleting(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    pub(super) fn preview(&self, given: &Given, now: Timestamp) -> Preview {
        let operator = Operator::for_kind(self.kind);
        let (_, (namespace, name)) = self.key();
        Preview {
            kind: self.kind,
            namespace,
            name,
            uid: self.object.metadata.uid.clone().unwrap_or_default(),
            owned: operator
                .map(|it| (it.declaration)().owned.iter().map(|owned| owned.kind).collect())
                .unwrap_or_default(),
            outcome: operator.map_or(Outcome::NoOperator, |operator| (operator.plan)(given, &self.object, now)),
        }
    }
}

impl Given {
    /// Nothing yet, in a cluster with this domain of services.
    pub fn new(cluster_domain: &str) -> Self {
        Self {
            cluster_domain: cluster_domain.to_owned(),
            nodes: Vec::new(),
            resources: BTreeMap::new(),
            statuses: BTreeMap::new(),
            pods: Vec::new(),
            claims: Vec::new(),
            workloads: Vec::new(),
            secrets: BTreeMap::new(),
            config_maps: BTreeMap::new(),
            foreign: BTreeMap::new(),
        }
    }

    /// Takes an object in, instead of one of the same name. Whether it is of a kind that planners look at, and well formed.
    ///
    /// # Errors
    /// When it is of such a kind and none of it, in the parser's words.
    pub fn take(&mut self, object: DynamicObject) -> Result<bool, serde_json::Error> {
        let types = object.types.clone().unwrap_or_default();
        let place =
            (object.metadata.namespace.clone().unwrap_or_default(), object.metadata.name.clone().unwrap_or_default());
        if kind_of(&object).is_some() {
            self.take_resource(object);
            return Ok(true);
        }
        match (types.api_version.as_str(), types.kind.as_str()) {
            ("v1", "Node") => {
                let node: Node = parsed(object)?;
                self.nodes.retain(|known| Some(&known.name) != node.metadata.name.as_ref());
                self.nodes.push(reduced(node));
                self.nodes.sort_by(|a, b| a.name.cmp(&b.name));
            }
            ("v1", "Secret") => {
                let secret: Secret = parsed(object)?;
                self.secrets.insert(place, text_of(secret));
            }
            ("v1", "ConfigMap") => {
                let map: ConfigMap = parsed(object)?;
                self.config_maps.insert(place, map.data.unwrap_or_default());
            }
            ("v1", "Pod") => {
                let pod: Pod = parsed(object)?;
                let labels = pod.metadata.labels.clone().unwrap_or_default();
                self.pods.push((place.0, labels, pod.into()));
            }
            ("v1", "PersistentVolumeClaim") => {
                let claim: PersistentVolumeClaim = parsed(object)?;
                let labels = claim.metadata.labels.clone().unwrap_or_default();
                self.claims.push((place.0, labels, place.1, (&claim).into()));
            }
            ("apps/v1", "StatefulSet") => {
                let owner = controller(&object.metadata).unwrap_or_default().to_owned();
                self.workloads.push((owner, (&parsed::<StatefulSet>(object)?).into()));
            }
            ("apps/v1", "DaemonSet") => {
                let owner = controller(&object.metadata).unwrap_or_default().to_owned();
                self.workloads.push((owner, (&parsed::<DaemonSet>(object)?).into()));
            }
            (api_version, kind) => {
                let is_read = |read: &(Kind, _)| read.0.api_version() == api_version && read.0.kind == kind;
                let Some((kind, name)) = foreign().into_iter().find(is_read).filter(|(_, name)| *name == place.1)
                else {
                    return Ok(false);
                };
                self.foreign.insert(foreign_key(kind, name), object.data);
            }
        }
        Ok(true)
    }

    /// Takes a resource of ours in, instead of one of the same name. Another object is left.
    pub(super) fn take_resource(&mut self, object: DynamicObject) {
        if let Some(kind) = kind_of(&object) {
            let resource = Resource { kind, object };
            self.resources.insert(resource.key(), resource);
        }
    }

    /// Adds nodes if there are none. Whether that was needed.
    pub fn suppose_nodes(&mut self, nodes: Vec<observed::Node>) -> bool {
        let is_needed = self.nodes.is_empty();
        if is_needed {
            self.nodes = nodes;
        }
        is_needed
    }

    /// Resources, in the order in which kinds need each other.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        let planned = Operator::ALL.map(|operator| operator.kind);
        let others = kinds::ALL.into_iter().filter(move |kind| !planned.contains(kind));
        let in_order = planned.into_iter().chain(others);
        in_order.flat_map(|kind| self.resources.values().filter(move |resource| resource.kind == kind))
    }

    /// One of them.
    pub fn resource(&self, kind: KindInfo, namespace: &str, name: &str) -> Option<&Resource> {
        self.resources.get(&(kind.kind, (namespace.to_owned(), name.to_owned())))
    }

    pub(super) fn supposed_statuses(&self) -> &BTreeMap<Key, PeerStatus> {
        &self.statuses
    }

    pub(super) fn suppose_statuses(&mut self, statuses: BTreeMap<Key, PeerStatus>) {
        self.statuses = statuses;
    }

    /// Takes in what a preview would make, as far as others read it. What there is already stays: it may hold more.
    pub(super) fn suppose(&mut self, object: &Object) {
        let key = (object.namespace.clone().unwrap_or_default(), object.name.clone());
        match object.kind {
            object::SECRET => {
                if let Ok(secret) = serde_json::from_value::<Secret>(object.body.clone()) {
                    self.secrets.entry(key).or_insert_with(|| with_token(secret));
                }
            }
            object::CONFIG_MAP => {
                if let Ok(map) = serde_json::from_value::<ConfigMap>(object.body.clone()) {
                    self.config_maps.entry(key).or_insert_with(|| map.data.unwrap_or_default());
                }
            }
            _ => {}
        }
    }

    pub(super) fn pods_of(&self, namespace: &str, label: &str, name: &str) -> Vec<observed::Pod> {
        let value = fit(name, LABEL_LIMIT);
        let ours = self.pods.iter().filter(|(home, labels, _)| home == namespace && labels.get(label) == Some(&value));
        let mut pods: Vec<_> = ours.map(|(_, _, pod)| pod.clone()).collect();
        pods.sort_by(|a, b| a.name.cmp(&b.name));
        pods
    }

    pub(super) fn claims_of(&self, namespace: &str, label: &str, name: &str) -> BTreeMap<String, observed::Claim> {
        let value = fit(name, LABEL_LIMIT);
        let is_ours = |home: &str, labels: &BTreeMap<_, _>| home == namespace && labels.get(label) == Some(&value);
        let ours = self.claims.iter().filter(|(home, labels, ..)| is_ours(home, labels));
        ours.map(|(_, _, name, claim)| (name.clone(), claim.clone())).collect()
    }

    pub(super) fn workloads_of(&self, uid: &str) -> BTreeMap<String, Workload> {
        let ours = self.workloads.iter().filter(|(owner, _)| !uid.is_empty() && owner == uid);
        ours.map(|(_, workload)| (workload.name.clone(), workload.clone())).collect()
    }

    pub(super) fn peers(&self, kind: &str) -> Vec<Peer> {
        let all = self.resources.values().filter(|resource| resource.kind.kind == kind);
        all.map(|resource| {
            let (_, (namespace, name)) = resource.key();
            let written = || serde_json::from_value(resource.object.data["status"].clone()).unwrap_or_default();
            Peer {
                namespace,
                name,
                generation: resource.generation(),
                terminating: resource.is_deleting(),
                status: self.statuses.get(&resource.key()).cloned().unwrap_or_else(written),
            }
        })
        .collect()
    }

    pub(super) fn secrets(&self, key: impl Fn(&str, &str) -> String) -> BTreeMap<String, SecretData> {
        self.secrets.iter().map(|((namespace, name), data)| (key(namespace, name), data.clone())).collect()
    }

    pub(super) fn config_maps(&self, home: &str) -> BTreeMap<String, BTreeMap<String, String>> {
        let here = self.config_maps.iter().filter(|((namespace, _), _)| namespace == home);
        here.map(|((_, name), data)| (name.clone(), data.clone())).collect()
    }

    pub(super) fn facts(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        self.config_maps.iter().map(|((namespace, name), data)| (format!("{namespace}/{name}"), data.clone())).collect()
    }

    pub(super) fn specs(&self, kind: &str, home: &str) -> Specs {
        let here = self.resources.iter().filter(|((of, (namespace, _)), _)| *of == kind && namespace == home);
        here.map(|((_, (_, name)), resource)| (name.clone(), Spec::new(resource.object.data["spec"].clone()))).collect()
    }

    pub(super) fn foreign(&self) -> BTreeMap<String, Source<Value>> {
        self.foreign.iter().map(|(key, object)| (key.clone(), Source::Known(object.clone()))).collect()
    }
}

/// What operators read of somebody else's kinds.
pub fn foreign() -> BTreeSet<(Kind, &'static str)> {
    Operator::ALL.iter().flat_map(|operator| (operator.declaration)().foreign().collect::<Vec<_>>()).collect()
}

/// The kind of ours that an object is of, if it is.
pub fn kind_of(object: &DynamicObject) -> Option<KindInfo> {
    let types = object.types.as_ref()?;
    let is_ours = types.api_version.split_once('/') == Some((tf_api::GROUP, tf_api::VERSION));
    kinds::ALL.into_iter().find(|info| is_ours && info.kind == types.kind)
}

/// Three nodes as most clusters have them, with addresses that are set aside for documents (RFC 5737).
pub fn usual_nodes() -> Vec<observed::Node> {
    let control_plane = BTreeMap::from([(names::NODE_CONTROL_PLANE.to_owned(), String::new())]);
    let node = |number| observed::Node {
        name: format!("node{number}"),
        labels: control_plane.clone(),
        address: Some(format!("192.0.2.{number}")),
        ..observed::Node::default()
    };
    (1..=3).map(node).collect()
}

fn parsed<T: DeserializeOwned>(object: DynamicObject) -> Result<T, serde_json::Error> {
    serde_json::from_value(serde_json::to_value(object)?)
}

fn reduced(node: Node) -> observed::Node {
    let status = node.status.unwrap_or_default();
    let conditions = status.conditions.iter().flatten();
    observed::Node {
        name: node.metadata.name.unwrap_or_default(),
        labels: node.metadata.labels.unwrap_or_default(),
        unreachable: observed::is_unreachable(conditions.map(|it| (it.type_.as_str(), it.status.as_str()))),
        taints: observed::taints(node.spec.and_then(|spec| spec.taints).into_iter().flatten()),
        ..observed::Node::default()
    }
    .with_addresses(observed::internal(status.addresses.into_iter().flatten()))
}

/// What of a Secret is text.
fn text_of(secret: Secret) -> SecretData {
    let bytes =
        secret.data.into_iter().flatten().filter_map(|(key, value)| Some((key, String::from_utf8(value.0).ok()?)));
    bytes.chain(secret.string_data.into_iter().flatten()).collect()
}

/// Type of a Secret that Kubernetes' token controller puts a token into.
const TOKEN: &str = "kubernetes.io/service-account-token";

/// What of a Secret is text when Kubernetes has seen it.
fn with_token(secret: Secret) -> SecretData {
    let is_token = secret.type_.as_deref() == Some(TOKEN);
    let mut data = text_of(secret);
    if is_token {
        data.insert("token", "given-by-kubernetes");
    }
    data
}

/// Uid of what controls an object.
pub fn controller(metadata: &ObjectMeta) -> Option<&str> {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
}
