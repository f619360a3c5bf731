//! What a planner knows about the world: a snapshot taken before planning, plain data from end to end.
//!
//! Everything that varies enters through here, time and generated credentials included. Tests write it as YAML.

mod in_use;
mod reduce;
mod spec;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tf_api::{
    contract::{PeerStatus, Reason},
    names,
    schema::Port,
};

use tf_agent_api::{family::IpFamily, state::Status};

pub use self::{
    reduce::{internal, is_unreachable, only_node, taints},
    spec::{Spec, Specs},
};
use crate::{images::ImageOverrides, not_ready::NotReady, secret::SecretData};

/// A part of the snapshot that may be unavailable, with the reason why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source<T> {
    /// Observed.
    Known(T),
    /// Not to be had at the moment.
    Unavailable(Unavailable),
}

impl<T: Default> Default for Source<T> {
    fn default() -> Self {
        Self::Known(T::default())
    }
}

impl<T> Source<T> {
    /// The value, or why there is none.
    pub fn known(&self) -> Result<&T, &Unavailable> {
        match self {
            Self::Known(value) => Ok(value),
            Self::Unavailable(why) => Err(why),
        }
    }
}

/// Why something could not be observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unavailable {
    /// For conditions: `CRDMissing`, `Forbidden` or `APIError`.
    pub reason: Reason,
    /// For people.
    pub message: String,
}

/// What cannot be observed has to be seen first.
impl From<&Unavailable> for NotReady {
    fn from(why: &Unavailable) -> Self {
        Self::waiting(why.reason, why.message.clone())
    }
}

/// A taint of a node with effect `NoSchedule` or `NoExecute`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value, which may be empty.
    pub value: String,
    /// Effect.
    pub effect: String,
}

/// A node of the cluster, reduced to what placement needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// Name.
    pub name: String,
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Its taints that keep pods of a DaemonSet away, where these do not tolerate them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Its first InternalIP of IPv4, or of IPv6 where it has none, until [`Node::choose`] says of which family. Pods in the node's network have it, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Its first InternalIP of the other family.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_address: Option<String>,
    /// Whether its kubelet has not been heard for so long that Kubernetes has given it up (condition Ready is Unknown). One that is heard and
    /// not ready, since it has no network yet for example, is none.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unreachable: bool,
    /// Whether no pod is scheduled there any more (`kubectl cordon`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cordoned: bool,
    /// The boot that it is in (`status.nodeInfo.bootID`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// The boot in which an agent of the vRouter served last ([`tf_api::names::ANNOTATION_SERVED_BOOT`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served_boot: Option<String>,
}

impl Node {
    /// The same node with its internal addresses, in the order in which it lists them.
    #[must_use]
    pub fn with_addresses(self, all: impl IntoIterator<Item = String>) -> Self {
        let (ipv4, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|address| IpFamily::of(address) == Some(IpFamily::IPv4));
        let mut first = [ipv4, others].into_iter().filter_map(|family| family.into_iter().next());
        Self { address: first.next(), other_address: first.next(), ..self }
    }

    /// Its address of a family.
    pub fn address_of(&self, family: IpFamily) -> Option<&str> {
        let mut both = [&self.address, &self.other_address].into_iter().flatten();
        both.find(|address| IpFamily::of(address) == Some(family)).map(String::as_str)
    }

    /// Whether it has a taint that keeps pods away.
    pub fn has_taint(&self, key: &str) -> bool {
        self.taints.iter().any(|taint| taint.key == key)
    }

    /// Whether no pod that uses the pod network comes to it.
    pub fn takes_no_pods(&self) -> bool {
        self.cordoned || self.has_taint(names::TAINT_DRAIN)
    }

    /// Has it known by its address of this family alone, and without one if it has none.
    pub fn choose(&mut self, family: IpFamily) {
        let is_chosen = self.address.as_deref().is_none_or(|address| IpFamily::of(address) == Some(family));
        if !is_chosen {
            std::mem::swap(&mut self.address, &mut self.other_address);
        }
    }
}

/// A pod of the resource, reduced to what roll-outs and status need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    /// Name.
    pub name: String,
    /// Uid, so that a step hits exactly this pod.
    pub uid: String,
    /// Name of the node, once scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Address, once known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The address of its node, where that is another one by now (see [`Observed::with_addresses_in_use`]): the pod has to be replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_address: Option<String>,
    /// Whether the kubelet reports the pod Ready.
    pub ready: bool,
    /// Since when it reports that the pod is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unready_since: Option<Timestamp>,
    /// Whether it cannot get an image of the pod.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lacks_image: bool,
    /// Whether the pod is being deleted.
    pub terminating: bool,
    /// Hash of the template it was made from, see `ANNOTATION_RESTART_HASH`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// When `kubectl rollout restart` asked for pods like this one, as its template had it (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarted_at: Option<String>,
    /// Revision of the StatefulSet it was made from, nodes of its affinity included (`controller-revision-hash`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// What keeps it from running, in the kubelet's or the scheduler's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// The port of its agent. Another one than its resource asks for, until it is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_port: Option<Port>,
    /// The configuration that its agent is told to run, see `ANNOTATION_ACTIVE_CONFIG`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<String>,
    /// The certificate with which its agents are told to start daemons anew, see `ANNOTATION_ACTIVE_CERTIFICATE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_certificate: Option<String>,
    /// Its certificate, as the operator that signed it noted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// Images of its daemons, by their containers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub images: BTreeMap<String, String>,
    /// What it was made of, where another operator made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub legacy: Option<Legacy>,
}

/// What of another operator's pod tells how ours has to be to go on in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Legacy {
    /// Directories of the node, by where a container has them; of two containers that of the first.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub directories: BTreeMap<String, String>,
}

/// What is noted of a certificate in the annotation of the pod that holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// Its last second.
    pub not_after: Timestamp,
    /// Fingerprint of the authority that signed it.
    pub issuer: String,
}

/// What is known of a pod from its node agent. Nothing is, as long as it has never answered this operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Agent {
    /// Its latest answer.
    Says(Box<Status>),
    /// It answered before and does not now, for this reason.
    Silent(String),
}

impl Agent {
    /// Its latest answer, if it answers.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Says(status) => Some(status),
            Self::Silent(_) => None,
        }
    }
}

impl Pod {
    /// Name of the StatefulSet or DaemonSet that made the pod: both append a dash and a suffix without one.
    pub fn workload(&self) -> &str {
        self.name.rsplit_once('-').map_or(self.name.as_str(), |(workload, _)| workload)
    }

    /// Its ordinal, if a StatefulSet made it.
    pub fn ordinal(&self) -> Option<u32> {
        self.name.rsplit_once('-')?.1.parse().ok()
    }
}

/// A live StatefulSet or DaemonSet of the resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Workload {
    /// Name.
    pub name: String,
    /// Whether its controller has seen the current generation.
    pub current: bool,
    /// Pods wanted: `spec.replicas`, or the nodes a DaemonSet matches.
    pub wanted: i32,
    /// Pods that exist.
    pub existing: i32,
    /// Pods that are Ready.
    pub ready: i32,
    /// Revision that a StatefulSet makes pods from (`status.updateRevision`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// When `kubectl rollout restart` last asked for other pods (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarted_at: Option<String>,
    /// Why the API server refuses the pods that are missing, in its words (Pod Security, a quota, a policy).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// How much a StatefulSet's claim template asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
}

/// A volume claim of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Claim {
    /// How much its volume has, when it is bound to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<String>,
    /// What is said of a change of its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// Why it is not bound to a volume, in the words of Kubernetes' controllers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unbound: Option<String>,
}

/// Another operator's resource, reduced to the status contract.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Peer {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Generation of its spec.
    pub generation: i64,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// The thin view of its status.
    pub status: PeerStatus,
}

/// Namespaces of peers that cannot be looked into, and why: by kind, then by namespace.
pub type Unseen = BTreeMap<String, BTreeMap<String, Unavailable>>;

/// The operator itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Operator {
    /// Version of the operator.
    pub version: String,
    /// Domain of cluster services, usually cluster.local.
    pub cluster_domain: String,
    /// Images the person who installed the operator wants instead of the release's.
    pub images: ImageOverrides,
}

/// The snapshot for one resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, bound = "Cr: Serialize + serde::de::DeserializeOwned")]
pub struct Observed<Cr> {
    /// The operator itself.
    pub operator: Operator,
    /// Time of the snapshot.
    pub now: Timestamp,
    /// Nodes of the cluster, sorted by name.
    pub nodes: Source<Vec<Node>>,
    /// Pods of the resource, sorted by name.
    pub pods: Source<Vec<Pod>>,
    /// Pods that undo on a node what the resource's pods changed there, sorted by name. They are none of [`Self::pods`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removals: Vec<Pod>,
    /// What the pods' agents say, by the pods' uids.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<String, Agent>,
    /// What the replacement of the authority that signs members' certificates waits for, while there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotation: Option<String>,
    /// What keeps the authority from coming from the issuer that the resource names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Live workloads of the resource, by name.
    pub workloads: BTreeMap<String, Workload>,
    /// Volume claims of the resource's members, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub claims: BTreeMap<String, Claim>,
    /// Other operators' resources that the component may depend on, by kind.
    pub peers: BTreeMap<String, Source<Vec<Peer>>>,
    /// Other namespaces the resource refers to whose peers are not in `peers`, existing or not.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unseen: Unseen,
    /// Secrets that the resource refers to and credentials generated for it, by name. Absent means: does not exist.
    pub secrets: BTreeMap<String, SecretData>,
    /// Why Keystone does not let in whom [`Component::login`](crate::component::Component::login) names; none where it does, does not answer,
    /// or nobody logs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_login: Option<String>,
    /// ConfigMaps that the resource refers to, by name. Absent means: does not exist.
    pub config_maps: BTreeMap<String, BTreeMap<String, String>>,
    /// ConfigMaps of other namespaces that the component reads, by `namespace/name`.
    pub facts: BTreeMap<String, BTreeMap<String, String>>,
    /// Objects of somebody else's kinds that describe the cluster, without metadata, by [`foreign_key`](crate::declaration::foreign_key).
    /// Absent means: it does not exist, or its definition is not installed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub foreign: BTreeMap<String, Source<Value>>,
    /// Specs of resources in the namespace of the resource that no operator reconciles, by kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub specs: BTreeMap<String, Source<Specs>>,
    /// The other resources of the same kind that the operator sees.
    pub siblings: Vec<Cr>,
}

impl<Cr> Default for Observed<Cr> {
    fn default() -> Self {
        Self {
            operator: Operator::default(),
            now: Timestamp::default(),
            nodes: Source::default(),
            pods: Source::default(),
            removals: Vec::new(),
            agents: BTreeMap::new(),
            rotation: None,
            issuer: None,
            workloads: BTreeMap::new(),
            claims: BTreeMap::new(),
            peers: BTreeMap::new(),
            unseen: Unseen::new(),
            secrets: BTreeMap::new(),
            refused_login: None,
            config_maps: BTreeMap::new(),
            facts: BTreeMap::new(),
            foreign: BTreeMap::new(),
            specs: BTreeMap::new(),
            siblings: Vec::new(),
        }
    }
}

impl<Cr> Observed<Cr> {
    /// Whether Kubernetes has given up the node of a pod.
    pub fn is_lost(&self, pod: &Pod) -> bool {
        let nodes = self.nodes.known().map(Vec::as_slice).unwrap_or_default();
        pod.node.as_ref().is_some_and(|name| nodes.iter().any(|node| node.name == *name && node.unreachable))
    }

    /// The peers of a kind. A kind the component does not watch is an empty list.
    pub fn peers(&self, kind: &str) -> Result<&[Peer], &Unavailable> {
        self.peers.get(kind).map_or(Ok(&[]), |source| source.known().map(Vec::as_slice))
    }
}
