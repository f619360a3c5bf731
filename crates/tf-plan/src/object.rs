//! Kinds and objects of the Kubernetes API as plans speak of them.

use k8s_openapi::{
    Resource,
    api::{
        apps::v1::{DaemonSet, StatefulSet},
        certificates::v1::CertificateSigningRequest,
        core::v1::{ConfigMap, Event, Node, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount},
        policy::v1::PodDisruptionBudget,
        rbac::v1::ClusterRole,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::Serialize;
use serde_json::Value;
use tf_api::KindInfo;

/// A kind of object as the API server addresses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Kind in CamelCase.
    pub kind: &'static str,
    /// Plural in URLs.
    pub plural: &'static str,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Whether the API server raises `metadata.generation` on every change of the spec. Without it, any change of the
    /// resource version may be a foreign edit.
    pub counts_generations: bool,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident: $type:ty, $plural:literal, namespaced $namespaced:literal, generation $generation:literal;)*) => {
        $($(#[$doc])* pub const $name: Kind = Kind {
            group: <$type as Resource>::GROUP,
            version: <$type as Resource>::VERSION,
            kind: <$type as Resource>::KIND,
            plural: $plural,
            namespaced: $namespaced,
            counts_generations: $generation,
        };)*
    };
}

kinds! {
    /// ConfigMap.
    CONFIG_MAP: ConfigMap, "configmaps", namespaced true, generation false;
    /// Secret.
    SECRET: Secret, "secrets", namespaced true, generation false;
    /// Service.
    SERVICE: Service, "services", namespaced true, generation false;
    /// ServiceAccount.
    SERVICE_ACCOUNT: ServiceAccount, "serviceaccounts", namespaced true, generation false;
    /// PersistentVolumeClaim.
    PERSISTENT_VOLUME_CLAIM: PersistentVolumeClaim, "persistentvolumeclaims", namespaced true, generation false;
    /// StatefulSet.
    STATEFUL_SET: StatefulSet, "statefulsets", namespaced true, generation true;
    /// DaemonSet.
    DAEMON_SET: DaemonSet, "daemonsets", namespaced true, generation true;
    /// PodDisruptionBudget.
    POD_DISRUPTION_BUDGET: PodDisruptionBudget, "poddisruptionbudgets", namespaced true, generation true;
    /// ClusterRole.
    CLUSTER_ROLE: ClusterRole, "clusterroles", namespaced false, generation false;
    /// Pod.
    POD: Pod, "pods", namespaced true, generation false;
    /// Event of the core group, as controllers of Kubernetes write them.
    EVENT: Event, "events", namespaced true, generation false;
    /// CertificateSigningRequest.
    CERTIFICATE_SIGNING_REQUEST: CertificateSigningRequest, "certificatesigningrequests", namespaced false, generation false;
    /// Node.
    NODE: Node, "nodes", namespaced false, generation false;
}

impl Kind {
    /// The kind of one of our custom resources.
    pub const fn custom(info: KindInfo) -> Self {
        Self {
            group: tf_api::GROUP,
            version: tf_api::VERSION,
            kind: info.kind,
            plural: info.plural,
            namespaced: true,
            counts_generations: true,
        }
    }

    /// Whether objects of this kind outlive their resource and are never deleted: what is in them is the user's.
    pub fn is_kept(&self) -> bool {
        *self == PERSISTENT_VOLUME_CLAIM
    }

    /// `apiVersion` of objects of this kind.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// Who wins when another field manager holds a field with another value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ownership {
    /// We do: the object is ours, foreign edits are undone.
    #[default]
    Force,
    /// They do: the object is a user's as much as ours.
    Respect,
    /// We do, and a workload of this name that another operator made gives way first. Its pods stay and become ours.
    TakeOver,
}

/// A desired object: the fields we want and own, nothing else.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Kind.
    pub kind: Kind,
    /// Namespace, none for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// The whole object as JSON, `apiVersion` and `kind` included.
    pub body: Value,
    /// Who wins conflicts.
    pub ownership: Ownership,
    /// Whether the rest of the plan goes on if the API server refuses this object.
    pub independent: bool,
}

impl Object {
    /// An object of a built-in kind.
    pub fn new<T>(kind: Kind, object: &T) -> Self
    where
        T: Serialize + k8s_openapi::Metadata<Ty = ObjectMeta>,
    {
        let metadata = object.metadata();
        Self {
            kind,
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone().unwrap_or_default(),
            // The API types are plain data; serialising them into memory cannot fail.
            body: serde_json::to_value(object).unwrap_or_default(),
            ownership: Ownership::Force,
            independent: false,
        }
    }

    /// A resource that users may edit too: their values win, and its failure holds nothing else up.
    pub fn shared(kind: Kind, namespace: &str, name: &str, body: Value) -> Self {
        Self {
            kind,
            namespace: Some(namespace.to_owned()),
            name: name.to_owned(),
            body,
            ownership: Ownership::Respect,
            independent: true,
        }
    }

    /// The same, as the successor of a workload that another operator made under this name.
    #[must_use]
    pub fn taking_over(self) -> Self {
        Self { ownership: Ownership::TakeOver, ..self }
    }

    /// Text for messages, for example `StatefulSet tf/zookeeper1-zookeeper-statefulset`.
    pub fn describe(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind.kind, self.name),
            None => format!("{} {}", self.kind.kind, self.name),
        }
    }
}
