//! What planners see of objects of the API.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    apps::v1::{DaemonSet, StatefulSet},
    core::v1::{
        self, Container, ContainerStateTerminated, ContainerStatus, NodeAddress, PersistentVolumeClaim, PodSpec,
        PodStatus, PodTemplateSpec, Volume,
    },
};
use tf_agent_api::{
    family::{self, IpFamily},
    node,
};
use tf_api::{names, schema::Port};

use super::{Certificate, Claim, Legacy, Pod, Taint, Workload};
use crate::build::quantity;

impl From<&StatefulSet> for Workload {
    fn from(set: &StatefulSet) -> Self {
        let status = set.status.clone().unwrap_or_default();
        let template = set.spec.as_ref().and_then(|spec| spec.volume_claim_templates.as_ref()?.first());
        Self {
            name: set.metadata.name.clone().unwrap_or_default(),
            current: status.observed_generation.unwrap_or_default() >= set.metadata.generation.unwrap_or_default(),
            wanted: set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
            existing: status.replicas,
            ready: status.ready_replicas.unwrap_or_default(),
            revision: status.update_revision,
            restarted_at: set.spec.as_ref().and_then(|spec| restarted_at(&spec.template)),
            refusal: None,
            claim: template.map(|claim| quantity::storage(claim).to_owned()),
        }
    }
}

/// What `kubectl rollout restart` writes into a template (kubectl, `pkg/polymorphichelpers/objectrestarter.go`).
const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

fn restarted_at(template: &PodTemplateSpec) -> Option<String> {
    template.metadata.as_ref()?.annotations.as_ref()?.get(RESTARTED_AT).cloned()
}

impl From<&PersistentVolumeClaim> for Claim {
    fn from(claim: &PersistentVolumeClaim) -> Self {
        let status = claim.status.clone().unwrap_or_default();
        // Its condition types are all of changes of a volume; the last one that holds is what goes on.
        let waits = status.conditions.into_iter().flatten().rfind(|condition| condition.status == "True");
        Self {
            capacity: status.capacity.unwrap_or_default().remove("storage").map(|capacity| capacity.0),
            waits: waits.map(|condition| match condition.message {
                Some(message) if !message.is_empty() => format!("{}: {message}", condition.type_),
                _ => condition.type_,
            }),
            unbound: None,
        }
    }
}

impl From<&DaemonSet> for Workload {
    fn from(set: &DaemonSet) -> Self {
        let status = set.status.clone().unwrap_or_default();
        Self {
            name: set.metadata.name.clone().unwrap_or_default(),
            current: status.observed_generation.unwrap_or_default() >= set.metadata.generation.unwrap_or_default(),
            wanted: status.desired_number_scheduled,
            existing: status.current_number_scheduled,
            ready: status.number_ready,
            revision: None,
            restarted_at: set.spec.as_ref().and_then(|spec| restarted_at(&spec.template)),
            refusal: None,
            claim: None,
        }
    }
}

/// The internal addresses of a node among all that it has.
pub fn internal(all: impl IntoIterator<Item = NodeAddress>) -> impl Iterator<Item = String> {
    all.into_iter().filter(|address| address.type_ == "InternalIP").map(|address| address.address)
}

/// The address of a pod that its agent listens at: of the family that its containers were given. One that was made before containers knew both families
/// has its first.
fn address(spec: &PodSpec, status: &PodStatus) -> Option<String> {
    let mut variables = spec.containers.iter().flat_map(|container| container.env.iter().flatten());
    if !variables.clone().any(|variable| variable.name == family::POD_IPS) {
        return status.pod_ip.clone();
    }
    let family = variables.find(|variable| variable.name == family::POD_IP_FAMILY);
    let family: IpFamily = family.and_then(|family| family.value.as_deref()?.parse().ok()).unwrap_or_default();
    let all = status.pod_ips.iter().flatten().map(|address| address.ip.as_str());
    family.first_of(all).map(str::to_owned).or_else(|| status.pod_ip.clone())
}

/// Taints of a node that keep pods of a DaemonSet away. Those that Kubernetes sets by itself come and go with the state of the node, and pods of a DaemonSet
/// tolerate them (Kubernetes, "DaemonSet", taints and tolerations).
pub fn taints(all: impl IntoIterator<Item = v1::Taint>) -> Vec<Taint> {
    let keeps_away = |taint: &v1::Taint| {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute") && !taint.key.starts_with("node.kubernetes.io/")
    };
    let kept = all.into_iter().filter(keeps_away);
    kept.map(|v1::Taint { key, value, effect, .. }| Taint { key, value: value.unwrap_or_default(), effect }).collect()
}

/// Whether a node was given up, by the types and states of its conditions.
pub fn is_unreachable<'a>(conditions: impl IntoIterator<Item = (&'a str, &'a str)>) -> bool {
    conditions.into_iter().any(|condition| condition == ("Ready", "Unknown"))
}

/// What is noted of a pod's certificate: its end and its issuer.
fn noted(text: &str) -> Option<Certificate> {
    let (not_after, issuer) = text.split_once(' ')?;
    Some(Certificate { not_after: not_after.parse().ok()?, issuer: issuer.to_owned() })
}

/// Characters of what a container says about its end.
const LAST_WORDS: usize = 200;

/// Why a container does not run, if it is to be told, without what it said about its end: a daemon's words may be secret.
fn waiting(container: &ContainerStatus) -> Option<String> {
    kept_from_running(container, |_| None)
}

/// The same of one that prepares a pod, with what it said: ours are given no secrets.
fn preparing(container: &ContainerStatus) -> Option<String> {
    kept_from_running(container, last_words)
}

fn kept_from_running(
    container: &ContainerStatus,
    words: impl Fn(&ContainerStateTerminated) -> Option<String>,
) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref()?;
    if matches!(reason, "ContainerCreating" | "PodInitializing") {
        return None;
    }
    let ended = container.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let more = if is_about_image(reason) {
        format!(": {}", container.image)
    } else {
        let said = ended.and_then(words).map(|words| format!(": {words}")).unwrap_or_default();
        ended.map(|ended| format!(" after exit code {}{said}", ended.exit_code)).unwrap_or_default()
    };
    Some(format!("container {}: {reason}{more}", container.name))
}

/// Whether a container waits for its image (`ErrImagePull`, `ImagePullBackOff`, `InvalidImageName`, ...; Kubernetes, `pkg/kubelet/images/types.go`).
fn is_about_image(reason: &str) -> bool {
    reason.contains("Image")
}

/// The last line of what a container said about its end.
fn last_words(ended: &ContainerStateTerminated) -> Option<String> {
    let line = ended.message.as_deref()?.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(line.chars().take(LAST_WORDS).collect())
}

/// Label that the controller of StatefulSets gives its pods.
const CONTROLLER_REVISION: &str = "controller-revision-hash";

impl From<v1::Pod> for Pod {
    fn from(pod: v1::Pod) -> Self {
        let spec = pod.spec.unwrap_or_default();
        let status = pod.status.unwrap_or_default();
        let condition = |name: &str| status.conditions.iter().flatten().find(|condition| condition.type_ == name);
        let annotations = pod.metadata.annotations.unwrap_or_default();
        let trouble = || {
            let main = status.container_statuses.iter().flatten().find_map(waiting);
            main.or_else(|| status.init_container_statuses.iter().flatten().find_map(preparing))
        };
        let is = |name: &str, wanted: &str| condition(name).is_some_and(|condition| condition.status == wanted);
        // The controller of nodes turns the one condition and leaves the rest as the kubelet had it.
        let is_given_up = is("Ready", "False")
            && is("ContainersReady", "True")
            && condition("Ready")
                .is_some_and(|ready| ready.reason.as_deref().is_none_or(|reason| reason == "NodeNotReady"));
        let given_up = is_given_up.then(|| "its node does not report to Kubernetes any more".to_owned());
        let mut ports = spec.containers.iter().flat_map(|container| container.ports.iter().flatten());
        let agent = ports.find(|port| port.name.as_deref() == Some(node::AGENT_PORT));
        let containers = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
        let lacks_image = containers
            .filter_map(|container| container.state.as_ref()?.waiting.as_ref()?.reason.as_deref())
            .any(is_about_image);
        let unready = condition("Ready").filter(|condition| condition.status == "False");
        let unready_since = unready.and_then(|condition| Some(condition.last_transition_time.as_ref()?.0));
        let unscheduled = condition("PodScheduled").filter(|condition| condition.status == "False").map(|condition| {
            let place = only_node(&spec).map(|node| format!(" on node {node}")).unwrap_or_default();
            format!("not scheduled{place}: {}", condition.message.clone().unwrap_or_default())
        });
        let template = annotations.get(names::ANNOTATION_RESTART_HASH).cloned();
        let restarted_at = annotations.get(RESTARTED_AT).cloned();
        let legacy = template.is_none().then(|| legacy(&spec));
        let image = |container: &Container| Some((container.name.clone(), container.image.clone()?));
        let images = spec.containers.iter().filter_map(image).collect();
        let address = address(&spec, &status);
        Self {
            name: pod.metadata.name.unwrap_or_default(),
            uid: pod.metadata.uid.unwrap_or_default(),
            node: spec.node_name,
            node_address: None,
            address,
            ready: is("Ready", "True"),
            unready_since,
            lacks_image,
            terminating: pod.metadata.deletion_timestamp.is_some(),
            revision: pod.metadata.labels.unwrap_or_default().remove(CONTROLLER_REVISION),
            template,
            restarted_at,
            trouble: unscheduled.or_else(trouble).or(given_up),
            agent_port: agent.and_then(|port| u16::try_from(port.container_port).ok()).map(Port),
            active: annotations.get(names::ANNOTATION_ACTIVE_CONFIG).cloned(),
            active_certificate: annotations.get(names::ANNOTATION_ACTIVE_CERTIFICATE).cloned(),
            certificate: annotations.get(names::ANNOTATION_CERTIFICATE).and_then(|text| noted(text)),
            images,
            legacy,
        }
    }
}

/// The node that a pod of a DaemonSet is for (Kubernetes, `ReplaceDaemonSetPodNodeNameNodeAffinity`). The scheduler says why it is not there without its name.
pub fn only_node(spec: &PodSpec) -> Option<&str> {
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
    let mut fields = terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    let field = fields.find(|field| field.key == "metadata.name" && field.operator == "In")?;
    field.values.as_ref()?.first().map(String::as_str)
}

/// What another operator made a pod of.
fn legacy(spec: &PodSpec) -> Legacy {
    let path = |volume: &Volume| Some((volume.name.clone(), volume.host_path.as_ref()?.path.clone()));
    let paths: BTreeMap<String, String> = spec.volumes.iter().flatten().filter_map(path).collect();
    let mut legacy = Legacy::default();
    for container in &spec.containers {
        for mount in container.volume_mounts.iter().flatten() {
            if let Some(path) = paths.get(&mount.name) {
                legacy.directories.entry(mount.mount_path.clone()).or_insert_with(|| path.clone());
            }
        }
    }
    legacy
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(object: Value) -> Pod {
        serde_json::from_value::<v1::Pod>(object).unwrap().into()
    }

    fn reduced(status: Value) -> Pod {
        let container = json!({"name": "zookeeper", "ports": [
            {"name": "client", "containerPort": 2181}, {"name": "agent", "containerPort": 2183},
        ]});
        let object = json!({"metadata": {"name": "a", "namespace": "tf"}, "spec": {"containers": [container]}, "status": status});
        pod(object)
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
    fn a_pod_of_a_daemonset_that_finds_no_room_names_the_node_that_it_is_for() {
        let scheduled = json!({"type": "PodScheduled", "status": "False", "message": "1 Insufficient hugepages-2Mi"});
        let fields = json!([{"key": "metadata.name", "operator": "In", "values": ["worker-7"]}]);
        let terms = json!({"nodeSelectorTerms": [{"matchFields": fields}]});
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        let waiting = |spec: Value| {
            let status = json!({"conditions": [scheduled]});
            pod(json!({"metadata": {"name": "a"}, "spec": spec, "status": status})).trouble.unwrap()
        };
        let named = waiting(json!({"containers": [], "affinity": affinity}));
        assert_eq!(named, "not scheduled on node worker-7: 1 Insufficient hugepages-2Mi");
        assert_eq!(waiting(json!({"containers": []})), "not scheduled: 1 Insufficient hugepages-2Mi");
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
            pod(object)
        };
        let text = |pairs: &[(&str, &str)]| pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let legacy = Legacy { directories: text(&[("/var/lib/cassandra", "/var/lib/contrail/database")]) };
        let theirs = made(json!({}));
        assert_eq!(theirs.legacy, Some(legacy));
        assert_eq!(theirs.images, text(&[("cassandra", "theirs:1"), ("provisioner", "theirs:2")]));
        assert_eq!(made(json!({names::ANNOTATION_RESTART_HASH: "hash"})).legacy, None, "ours is known by its template");
    }

    #[test]
    fn since_when_a_pod_is_not_ready_and_that_it_lacks_an_image_is_seen() {
        let state = |reason: &str| json!({"name": "zookeeper", "image": "a", "imageID": "", "ready": false, "restartCount": 0, "state": {"waiting": {"reason": reason}}});
        let conditions = json!([{"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-28T10:00:00Z"}]);
        for (reason, lacks) in [("ErrImagePull", true), ("ImagePullBackOff", true), ("CrashLoopBackOff", false)] {
            let pod = reduced(json!({"conditions": conditions, "containerStatuses": [state(reason)]}));
            assert_eq!((pod.lacks_image, pod.unready_since), (lacks, Some("2026-11-28T10:00:00Z".parse().unwrap())));
        }
        let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T10:00:00Z"}]);
        assert_eq!(reduced(json!({ "conditions": ready })).unready_since, None);
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
    fn what_prepares_a_pod_is_told_in_its_own_words_and_a_daemon_is_not() {
        let trouble = |which: &str, message: &str| {
            let state = json!({"waiting": {"reason": "CrashLoopBackOff"}});
            let last = json!({"terminated": {"exitCode": 1, "message": message}});
            let container = json!({
                "name": "configuration", "image": "", "imageID": "", "ready": false, "restartCount": 1, "state": state, "lastState": last,
            });
            reduced(json!({ which: [container] })).trouble.unwrap()
        };
        let said = "first\ncp: cannot stat '/etc/cassandra/.': No such file or directory\n \n";
        let without = "container configuration: CrashLoopBackOff after exit code 1";
        assert_eq!(
            trouble("initContainerStatuses", said),
            format!("{without}: cp: cannot stat '/etc/cassandra/.': No such file or directory")
        );
        assert_eq!(trouble("containerStatuses", said), without);
        let endless = trouble("initContainerStatuses", &"é".repeat(5000));
        assert_eq!(endless.chars().count(), without.len() + 2 + LAST_WORDS);
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
