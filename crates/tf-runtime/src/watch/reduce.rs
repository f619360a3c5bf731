//! From objects of the API to what is kept of them.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, StatefulSet},
        core::v1::{Event, PersistentVolumeClaim, Pod},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};
use kube::core::{DynamicObject, PartialObjectMeta};
use tf_api::{
    Managed,
    contract::{ConditionType, PeerStatus},
    names,
};
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

/// What a controller says of what it could not do: of a workload whose pods it could not make, or of a claim without a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// When it said so last.
    pub at: Timestamp,
    /// The API server's words.
    pub words: String,
    /// Uid of the workload or claim.
    pub about: String,
}

/// Keeps the API server's words of an event with reason `FailedCreate`.
pub fn refusal(event: Event) -> (Key, Refusal) {
    let repeated = event.series.and_then(|series| series.last_observed_time).map(|time| time.0);
    let at = repeated.or(event.last_timestamp.map(|time| time.0)).or(event.event_time.map(|time| time.0)).or(event
        .metadata
        .creation_timestamp
        .as_ref()
        .map(|time| time.0));
    let refusal = Refusal {
        at: at.unwrap_or(Timestamp::UNIX_EPOCH),
        words: words(event.message.as_deref().unwrap_or_default()),
        about: event.involved_object.uid.unwrap_or_default(),
    };
    (Key::of(&event.metadata), refusal)
}

/// Keeps what the controllers of volumes say of a claim that is not bound.
pub fn unbound(event: Event) -> (Key, Refusal) {
    let is_why = matches!(event.reason.as_deref(), Some("ProvisioningFailed" | "FailedBinding"));
    let (key, refusal) = refusal(event);
    // Other events of claims are of no interest.
    (key, Refusal { words: if is_why { refusal.words } else { String::new() }, ..refusal })
}

/// What stays of an event's message without what the controller of StatefulSets or DaemonSets adds and without the pod's name, so that it is the same
/// for each pod (Kubernetes, `stateful_pod_control.go`, `daemon_controller.go`).
fn words(message: &str) -> String {
    let markers = ["failed error: ", "Error creating: "];
    let said = markers.iter().find_map(|marker| Some(message.split_once(marker)?.1)).unwrap_or(message);
    match said.split_once(" is forbidden: ") {
        Some((pod, why)) if pod.starts_with("pods ") => why.to_owned(),
        _ => said.to_owned(),
    }
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

/// What consumers of a service go by: where it is, and whether it can be used. What it says in words, how many members serve and since when
/// changes all the time while something happens, and is no reason to look.
pub fn service(object: DynamicObject) -> (Key, PeerEntry) {
    use ConditionType::{Available, Ready};
    let (key, mut entry) = reduced(object, &[Available, Ready]);
    for condition in &mut entry.peer.status.conditions {
        condition.message = String::new();
    }
    (key, entry)
}

/// What the owner of a component goes by: what it says in words, too.
pub fn part(object: DynamicObject) -> (Key, PeerEntry) {
    use ConditionType::{Available, Degraded, Progressing, Ready, Upgradeable};
    reduced(object, &[Available, Degraded, Progressing, Ready, Upgradeable])
}

/// These conditions without their times, and no numbers of members.
fn reduced(object: DynamicObject, conditions: &[ConditionType]) -> (Key, PeerEntry) {
    let (key, mut entry) = decode_peer(object);
    let status = &mut entry.peer.status;
    status.members_ready = None;
    status.replicas = None;
    status.conditions.retain(|condition| conditions.iter().any(|kind| condition.type_ == kind.as_ref()));
    for condition in &mut status.conditions {
        condition.last_transition_time = Time(Timestamp::UNIX_EPOCH);
        condition.observed_generation = None;
    }
    (key, entry)
}

/// Keeps the contract fields, whatever else is there and whatever shape it has.
fn decode_peer(object: DynamicObject) -> (Key, PeerEntry) {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn resource(ready: &Value, members: &str) -> DynamicObject {
        let object = json!({
            "apiVersion": "tf.tungsten.io/v1alpha1", "kind": "Cassandra",
            "metadata": {"namespace": "tf", "name": "configdb1", "generation": 1, "uid": "u"},
            "status": {"contract": "v1", "observedGeneration": 1, "membersReady": members, "conditions": [
                ready,
                {"type": "CertificatesReady", "status": members.starts_with('1').to_string(), "reason": "Any", "message": members,
                 "lastTransitionTime": "2026-11-26T16:00:00Z"},
            ]},
        });
        serde_json::from_value(object).unwrap()
    }

    fn ready(reason: &str, message: &str, since: &str) -> Value {
        json!({"type": "Ready", "status": "False", "reason": reason, "message": message, "lastTransitionTime": since})
    }

    #[test]
    fn who_needs_a_service_is_woken_by_its_verdicts_and_who_owns_it_by_its_words_too() {
        let one = resource(&ready("Progressing", "1 of 3 members are ready", "2026-11-26T16:00:00Z"), "1/3");
        let two = resource(&ready("Progressing", "2 of 3 members are ready", "2026-11-26T16:00:09Z"), "2/3");
        let other = resource(&ready("InvalidSpec", "2 of 3 members are ready", "2026-11-26T16:00:09Z"), "2/3");
        assert_eq!(service(one.clone()), service(two.clone()));
        assert_ne!(service(two.clone()), service(other.clone()));
        assert_ne!(part(one), part(two.clone()));
        let later = resource(&ready("Progressing", "2 of 3 members are ready", "2026-11-26T16:00:20Z"), "2/3");
        assert_eq!(part(two), part(later));
        let (_, entry) = part(other);
        let told = entry.peer.status.condition("Ready").map(|ready| ready.message.as_str());
        assert_eq!(told, Some("2 of 3 members are ready"));
    }
}
