//! The status contract: what every operator publishes in `.status`, and the only thing operators read of each other.
//!
//! The prose is `docs/status-contract.md`; this module is its machine form. [`Contract`] is what a provider writes,
//! [`PeerStatus`] the thin part a consumer reads, [`invariants`] what must hold on every write.

mod condition;
mod daemon;
mod endpoint;
pub mod invariants;
mod peer;
mod reason;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::Value;
use serde_with::skip_serializing_none;

pub use condition::{ConditionStatus, ConditionType, Draft, is_telling};
pub use daemon::{ConnectionStatus, DaemonStatus, DaemonTrouble};
pub use endpoint::{Endpoint, Protocol};
pub use peer::PeerStatus;
pub use reason::Reason;

/// A reference to an object in the same namespace by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NameReference {
    /// Name of the referenced object.
    pub name: String,
}

/// Release of the workload images.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VersionStatus {
    /// Release that the spec asks for.
    pub desired: Option<String>,
    /// Release that all members run.
    pub deployed: Option<String>,
}

/// Address and name of one pod, as the Go tf-operator published it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// Address of the pod, which is that of its node.
    pub ip: Option<String>,
    /// Name of the node.
    pub hostname: Option<String>,
}

/// One member of the service: a node that holds, or will hold, one of its pods. The identity never changes while the
/// member exists; where members keep data it is never given to another node.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberStatus {
    /// Identity of the member, counted from 1.
    pub id: u32,
    /// Name of the node.
    pub node: String,
    /// Address of the node that the daemons use.
    pub address: String,
}

/// The fields of the status contract, the same in every kind.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Contract {
    /// Generation of the spec that this status describes; -1 before the operator has seen the resource.
    pub observed_generation: i64,
    /// Version of the status contract the writer speaks.
    pub contract: Option<String>,
    /// Version of the operator that wrote this status.
    pub operator_version: Option<String>,
    /// Release of the workload images, wanted and running.
    pub version: Option<VersionStatus>,
    /// True once the first bring-up was completed; never goes back.
    pub initialized: Option<bool>,
    /// Number of members wanted.
    pub replicas: Option<i32>,
    /// Number of members that are ready.
    pub ready_replicas: Option<i32>,
    /// Ready and wanted members as text, for example 2/3.
    pub members_ready: Option<String>,
    /// Label selector of the member pods, for the scale subresource.
    pub selector: Option<String>,
    /// Members with their permanent identities, in the order they joined.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberStatus>,
    /// Addresses that this service offers to others.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "readable")]
    pub endpoints: Vec<Endpoint>,
    /// Secret with what a client needs to connect (Service Binding layout).
    pub connection_secret_ref: Option<NameReference>,
    /// Former connection Secret, still valid while clients change over.
    pub previous_connection_secret_ref: Option<NameReference>,
    /// Changes when the endpoints or the content of the connection Secret change.
    pub connection_hash: Option<String>,
    /// ConfigMap that repeats the endpoints as plain keys.
    pub discovery_config_map_ref: Option<NameReference>,
    /// Conditions, see the status contract.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "readable")]
    pub conditions: Vec<Condition>,
    /// True while the service can be used; same as condition Available.
    pub active: Option<bool>,
    /// Same as condition Degraded: members are missing for longer than its deadline. `membersReady` says how many serve at the moment.
    pub degraded: Option<bool>,
    /// Kept for clients of the Go tf-operator; true while a changed configuration is rolled out.
    pub config_changed: Option<bool>,
    /// What each daemon does, by the names of their containers: where it serves, in which versions, and what it is connected to.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "readable")]
    pub daemons: Vec<DaemonStatus>,
    /// Pods by name with address and node, at most 100.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, NodeStatus>,
}

impl Default for Contract {
    fn default() -> Self {
        Self {
            observed_generation: -1,
            contract: None,
            operator_version: None,
            version: None,
            initialized: None,
            replicas: None,
            ready_replicas: None,
            members_ready: None,
            selector: None,
            members: Vec::new(),
            endpoints: Vec::new(),
            connection_secret_ref: None,
            previous_connection_secret_ref: None,
            connection_hash: None,
            discovery_config_map_ref: None,
            conditions: Vec::new(),
            active: None,
            degraded: None,
            config_changed: None,
            daemons: Vec::new(),
            nodes: BTreeMap::new(),
        }
    }
}

/// Reads a list without the entries that this release cannot read, so that one of them does not make the whole object
/// unreadable: the Go tf-operator left conditions of type and status only, and a later release of ours may know protocols
/// that this one does not.
pub(crate) fn readable<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let all = Vec::<Value>::deserialize(deserializer)?;
    Ok(all.into_iter().filter_map(|entry| serde_json::from_value(entry).ok()).collect())
}

/// Status of a kind: the contract plus fields of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Status<Own> {
    /// Fields every kind has.
    #[serde(flatten)]
    pub contract: Contract,
    /// Fields only this kind has.
    #[serde(flatten)]
    pub own: Own,
}

/// Marks a kind whose status has no fields besides the contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NoOwnStatus {}
