//! From objects of the API to what is kept of them.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, StatefulSet},
        core::v1::{ContainerStatus, Pod, PodSpec, Volume},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::core::{DynamicObject, PartialObjectMeta};
use tf_api::{Managed, contract::PeerStatus, names, schema::Port};
use tf_plan::{
    node,
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

/// Workloads, of which the status is kept too.
pub trait WorkloadObject {
    /// Metadata and how the workload is.
    fn look(&self) -> (&ObjectMeta, observed::Workload);
}

impl WorkloadObject for StatefulSet {
    fn look(&self) -> (&ObjectMeta, observed::Workload) {
        let status = self.status.clone().unwrap_or_default();
        let workload = observed::Workload {
            name: self.metadata.name.clone().unwrap_or_default(),
            current: status.observed_generation.unwrap_or_default() >= self.metadata.generation.unwrap_or_default(),
            wanted: self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
            existing: status.replicas,
            ready: status.ready_replicas.unwrap_or_default(),
            revision: status.update_revision,
        };
        (&self.metadata, workload)
    }
}

impl WorkloadObject for DaemonSet {
    fn look(&self) -> (&ObjectMeta, observed::Workload) {
        let status = self.status.clone().unwrap_or_default();
        let workload = observed::Workload {
            name: self.metadata.name.clone().unwrap_or_default(),
            current: status.observed_generation.unwrap_or_default() >= self.metadata.generation.unwrap_or_default(),
            wanted: status.desired_number_scheduled,
            existing: status.current_number_scheduled,
            ready: status.number_ready,
            revision: None,
        };
        (&self.metadata, workload)
    }
}

/// Keeps metadata and counts of a workload.
pub fn workload<W: WorkloadObject>(object: W) -> (Key, Child) {
    let (metadata, workload) = object.look();
    (Key::of(metadata), Child { workload: Some(workload), ..Child::of(metadata) })
}

/// A pod of ours, and the value of the label that names its resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEntry {
    /// Its labels, to find the resource it belongs to.
    pub labels: BTreeMap<String, String>,
    /// What planners see of it.
    pub pod: observed::Pod,
}

/// What is noted of a pod's certificate: its end and its issuer.
fn noted(text: &str) -> Option<observed::Certificate> {
    let (not_after, issuer) = text.split_once(' ')?;
    Some(observed::Certificate { not_after: not_after.parse().ok()?, issuer: issuer.to_owned() })
}

/// Why a container does not run, if it is to be told.
fn waiting(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref()?;
    if matches!(reason, "ContainerCreating" | "PodInitializing") {
        return None;
    }
    let ended = container.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let more = if reason.contains("Image") {
        format!(": {}", container.image)
    } else {
        ended.map(|ended| format!(" after exit code {}", ended.exit_code)).unwrap_or_default()
    };
    Some(format!("container {}: {reason}{more}", container.name))
}

/// Label that the controller of StatefulSets gives its pods.
const CONTROLLER_REVISION: &str = "controller-revision-hash";

/// Keeps what roll-outs and status need.
pub fn pod(pod: Pod) -> (Key, PodEntry) {
    let key = Key::of(&pod.metadata);
    let spec = pod.spec.unwrap_or_default();
    let status = pod.status.unwrap_or_default();
    let condition = |name: &str| status.conditions.iter().flatten().find(|condition| condition.type_ == name);
    let annotations = pod.metadata.annotations.unwrap_or_default();
    let labels = pod.metadata.labels.unwrap_or_default();
    let containers = || status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let is = |name: &str, wanted: &str| condition(name).is_some_and(|condition| condition.status == wanted);
    // The controller of nodes turns the one condition and leaves the rest as the kubelet had it.
    let is_given_up = is("Ready", "False")
        && is("ContainersReady", "True")
        && condition("Ready")
            .is_some_and(|ready| ready.reason.as_deref().is_none_or(|reason| reason == "NodeNotReady"));
    let given_up = is_given_up.then(|| "its node does not report to Kubernetes any more".to_owned());
    let mut ports = spec.containers.iter().flat_map(|container| container.ports.iter().flatten());
    let agent = ports.find(|port| port.name.as_deref() == Some(node::AGENT_PORT));
    let unscheduled = condition("PodScheduled")
        .filter(|condition| condition.status == "False")
        .map(|condition| format!("not scheduled: {}", condition.message.clone().unwrap_or_default()));
    let revision = labels.get(CONTROLLER_REVISION).cloned();
    let template = annotations.get(names::ANNOTATION_RESTART_HASH).cloned();
    let former = template.is_none().then(|| former(&spec));
    let entry = PodEntry {
        labels,
        pod: observed::Pod {
            name: key.name.clone(),
            uid: pod.metadata.uid.unwrap_or_default(),
            node: spec.node_name,
            address: status.pod_ip.clone(),
            ready: is("Ready", "True"),
            terminating: pod.metadata.deletion_timestamp.is_some(),
            revision,
            template,
            trouble: unscheduled.or_else(|| containers().find_map(waiting)).or(given_up),
            agent_port: agent.and_then(|port| u16::try_from(port.container_port).ok()).map(Port),
            active: annotations.get(names::ANNOTATION_ACTIVE_CONFIG).cloned(),
            certificate: annotations.get(names::ANNOTATION_CERTIFICATE).and_then(|text| noted(text)),
            former,
        },
    };
    (key, entry)
}

/// What another operator made a pod of.
fn former(spec: &PodSpec) -> observed::Former {
    let path = |volume: &Volume| Some((volume.name.clone(), volume.host_path.as_ref()?.path.clone()));
    let paths: BTreeMap<String, String> = spec.volumes.iter().flatten().filter_map(path).collect();
    let mut former = observed::Former::default();
    for container in &spec.containers {
        former.images.insert(container.name.clone(), container.image.clone().unwrap_or_default());
        for mount in container.volume_mounts.iter().flatten() {
            if let Some(path) = paths.get(&mount.name) {
                former.directories.entry(mount.mount_path.clone()).or_insert_with(|| path.clone());
            }
        }
    }
    former
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
        STATEFUL_SET => answer.clone().try_parse::<StatefulSet>().ok().map(|set| set.look().1),
        DAEMON_SET => answer.clone().try_parse::<DaemonSet>().ok().map(|set| set.look().1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn reduced(status: Value) -> observed::Pod {
        let container = json!({"name": "zookeeper", "ports": [
            {"name": "client", "containerPort": 2181}, {"name": "agent", "containerPort": 2183},
        ]});
        let object = json!({"metadata": {"name": "a", "namespace": "tf"}, "spec": {"containers": [container]}, "status": status});
        pod(serde_json::from_value(object).unwrap()).1.pod
    }

    fn trouble(conditions: &[(&str, &str, Option<&str>)], container: Value) -> Option<String> {
        let condition = |(kind, status, reason): &(&str, &str, Option<&str>)| json!({"type": kind, "status": status, "reason": reason});
        let mut status = json!({"conditions": conditions.iter().map(condition).collect::<Vec<_>>()});
        if !container.is_null() {
            status["containerStatuses"] = json!([container]);
        }
        reduced(status).trouble
    }

    #[test]
    fn the_agent_is_asked_on_the_port_that_the_pod_has() {
        assert_eq!(reduced(json!({})).agent_port, Some(Port(2183)));
    }

    #[test]
    fn a_pod_of_another_operator_tells_its_images_and_where_on_its_node_it_has_what() {
        let spec = json!({
            "containers": [
                {"name": "cassandra", "image": "theirs:1", "volumeMounts": [
                    {"name": "database-cassandra-data", "mountPath": "/var/lib/cassandra"}, {"name": "files", "mountPath": "/etc/files"},
                ]},
                {"name": "provisioner", "image": "theirs:2"},
            ],
            "volumes": [
                {"name": "database-cassandra-data", "hostPath": {"path": "/var/lib/contrail/database"}},
                {"name": "files", "configMap": {"name": "files"}},
            ],
        });
        let made = |annotations: Value| {
            let object =
                json!({"metadata": {"name": "a", "namespace": "tf", "annotations": annotations}, "spec": spec});
            pod(serde_json::from_value(object).unwrap()).1.pod.former
        };
        let text = |pairs: &[(&str, &str)]| pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let former = observed::Former {
            images: text(&[("cassandra", "theirs:1"), ("provisioner", "theirs:2")]),
            directories: text(&[("/var/lib/cassandra", "/var/lib/contrail/database")]),
        };
        assert_eq!(made(json!({})), Some(former));
        assert_eq!(made(json!({names::ANNOTATION_RESTART_HASH: "hash"})), None, "ours is known by its template");
    }

    #[test]
    fn what_keeps_a_container_from_running_is_told_with_what_people_look_for() {
        let waiting = |reason: &str, last: Value| {
            let state = json!({"waiting": {"reason": reason}});
            let (id, image) = ("", "example/zookeeper:2");
            let container = json!({
                "name": "zookeeper", "image": image, "imageID": id, "ready": false, "restartCount": 1, "state": state,
                "lastState": last,
            });
            trouble(&[("Ready", "False", Some("ContainersNotReady"))], container)
        };
        let none = || json!({});
        assert_eq!(waiting("ContainerCreating", none()), None);
        assert_eq!(
            waiting("ImagePullBackOff", none()).as_deref(),
            Some("container zookeeper: ImagePullBackOff: example/zookeeper:2")
        );
        assert_eq!(
            waiting("CrashLoopBackOff", json!({"terminated": {"exitCode": 137}})).as_deref(),
            Some("container zookeeper: CrashLoopBackOff after exit code 137")
        );
        assert_eq!(waiting("CrashLoopBackOff", none()).as_deref(), Some("container zookeeper: CrashLoopBackOff"));
    }

    #[test]
    fn a_pod_whose_kubelet_is_gone_is_told_apart_from_one_that_does_not_serve() {
        let told = |ready, containers, reason| {
            trouble(&[("Ready", ready, reason), ("ContainersReady", containers, None)], Value::Null)
        };
        let gone = Some("its node does not report to Kubernetes any more".to_owned());
        assert_eq!(told("False", "True", None), gone);
        assert_eq!(told("False", "True", Some("NodeNotReady")), gone);
        assert_eq!(told("False", "True", Some("ReadinessGatesNotReady")), None);
        assert_eq!(told("False", "False", Some("ContainersNotReady")), None);
        assert_eq!(told("True", "True", None), None);
    }
}
