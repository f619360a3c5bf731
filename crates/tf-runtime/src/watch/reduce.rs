//! From objects of the API to what is kept of them.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, StatefulSet},
        core::v1::{PersistentVolumeClaim, Pod},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::core::{DynamicObject, PartialObjectMeta};
use tf_api::{Managed, contract::PeerStatus, names};
use tf_plan::{
    object::{DAEMON_SET, Kind, STATEFUL_SET},
    observed,
};

use crate::object::{Key, controller_uid, resource_version};

/// A custom resource of the operator's own kind.
#[derive(Clone, Debug)]
pub enum Primary<Cr> {
    /// It parses.
    Valid(Arc<Cr>),
    /// It does not, and this is why.
    Undecodable {
        /// Its metadata.
        metadata: Box<ObjectMeta>,
        /// The parser's words.
        error: String,
    },
}

impl<Cr: Managed> Primary<Cr> {
    /// Metadata of the resource.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Valid(cr) => cr.meta(),
            Self::Undecodable { metadata, .. } => metadata,
        }
    }
}

/// Versions are equal exactly when resource versions are.
impl<Cr: Managed> PartialEq for Primary<Cr> {
    fn eq(&self, other: &Self) -> bool {
        let identity = |primary: &Self| {
            let metadata = primary.metadata();
            (metadata.uid.clone(), metadata.resource_version.clone())
        };
        identity(self) == identity(other)
    }
}

/// Keeps the whole resource, but for bookkeeping nobody reads. What does not parse is kept with the path to its first fault:
/// one bad object must not hide the others from a list.
pub fn primary<Cr: Managed>(mut object: DynamicObject) -> (Key, Primary<Cr>) {
    object.metadata.managed_fields = None;
    let metadata = Box::new(object.metadata.clone());
    let parsed = serde_json::to_value(object)
        .map_err(|error| error.to_string())
        .and_then(|value| serde_path_to_error::deserialize(value).map_err(|error| error.to_string()));
    let primary = match parsed {
        Ok(cr) => Primary::Valid(Arc::new(cr)),
        Err(error) => Primary::Undecodable { metadata, error },
    };
    (Key::of(primary.metadata()), primary)
}

/// An object that an operator owns: enough to tell whether it was touched, and by whom it is owned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Child {
    /// Uid.
    pub uid: String,
    /// Uid of the controlling owner, or of the one that the owner label names.
    pub owner: Option<String>,
    /// Resource version.
    pub version: u64,
    /// Generation; 0 for kinds that have none.
    pub generation: i64,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// For workloads: how they are.
    pub workload: Option<observed::Workload>,
    /// For volume claims: how they are.
    pub claim: Option<observed::Claim>,
}

impl Child {
    /// From metadata, which every kind has.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            owner: controller_uid(metadata).map(str::to_owned).or_else(|| owner_label(metadata)),
            version: resource_version(metadata).unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            annotations: metadata.annotations.clone().unwrap_or_default(),
            terminating: metadata.deletion_timestamp.is_some(),
            workload: None,
            claim: None,
        }
    }
}

/// Cluster-scoped objects cannot have a namespaced owner; a label names it.
fn owner_label(metadata: &ObjectMeta) -> Option<String> {
    metadata.labels.as_ref()?.get(names::LABEL_OWNER_UID).cloned()
}

/// Keeps the metadata that [`Child`] names.
pub fn child(object: PartialObjectMeta<DynamicObject>) -> (Key, Child) {
    (Key::of(&object.metadata), Child::of(&object.metadata))
}

/// Keeps metadata and counts of a workload.
pub fn workload<W>(object: W) -> (Key, Child)
where
    W: k8s_openapi::Metadata<Ty = ObjectMeta>,
    for<'a> observed::Workload: From<&'a W>,
{
    let metadata = object.metadata();
    (Key::of(metadata), Child { workload: Some((&object).into()), ..Child::of(metadata) })
}

/// Keeps metadata and the size of a volume claim.
pub fn claim(claim: PersistentVolumeClaim) -> (Key, Child) {
    (Key::of(&claim.metadata), Child { claim: Some((&claim).into()), ..Child::of(&claim.metadata) })
}

/// A pod of ours, and the value of the label that names its resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEntry {
    /// Its labels, to find the resource it belongs to.
    pub labels: BTreeMap<String, String>,
    /// What planners see of it.
    pub pod: observed::Pod,
}

/// Keeps what roll-outs and status need.
pub fn pod(pod: Pod) -> (Key, PodEntry) {
    let labels = pod.metadata.labels.clone().unwrap_or_default();
    (Key::of(&pod.metadata), PodEntry { labels, pod: pod.into() })
}

/// Another operator's resource: what consumers see of it, and what an owner needs to know.
#[derive(Clone, Debug)]
pub struct PeerEntry {
    /// The thin view of the contract.
    pub peer: observed::Peer,
    /// As an object that may be owned.
    pub child: Child,
}

/// A status write that changes nothing consumers see raises the resource version and nothing else.
impl PartialEq for PeerEntry {
    fn eq(&self, other: &Self) -> bool {
        let mut child = other.child.clone();
        child.version = self.child.version;
        self.peer == other.peer && self.child == child
    }
}

/// Keeps the contract fields, whatever else is there and whatever shape it has.
pub fn decode_peer(object: DynamicObject) -> (Key, PeerEntry) {
    let key = Key::of(&object.metadata);
    let status = object.data.get("status").cloned().unwrap_or_default();
    let status = serde_json::from_value::<PeerStatus>(status).unwrap_or_else(|error| {
        tracing::warn!(peer = %key, %error, "a status does not follow the contract; it counts as not reported");
        PeerStatus::default()
    });
    let peer = observed::Peer {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        generation: object.metadata.generation.unwrap_or_default(),
        terminating: object.metadata.deletion_timestamp.is_some(),
        status,
    };
    (key, PeerEntry { peer, child: Child::of(&object.metadata) })
}

/// A workload as the API server answered an apply; none for other kinds.
pub fn workload_of(kind: Kind, answer: &DynamicObject) -> Option<observed::Workload> {
    match kind {
        STATEFUL_SET => answer.clone().try_parse::<StatefulSet>().ok().map(|set| (&set).into()),
        DAEMON_SET => answer.clone().try_parse::<DaemonSet>().ok().map(|set| (&set).into()),
        _ => None,
    }
}
