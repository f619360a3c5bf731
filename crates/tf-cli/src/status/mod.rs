//! The status of every resource, below what made it. In: resources as they were read. Out: trees, for programs as they are, for
//! people as [text]. Nothing is read here.

mod text;

use kube::core::DynamicObject;
use serde::Serialize;
use tf_api::{
    KindInfo,
    contract::{ConditionType, DaemonStatus, PeerStatus, is_telling},
};

pub use text::{Daemons, text};

/// A resource, reduced to what is told of it.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Kind.
    pub kind: KindInfo,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    uid: String,
    owners: Vec<String>,
    generation: i64,
    is_deleting: bool,
    version: Option<String>,
    daemons: Vec<DaemonStatus>,
    status: PeerStatus,
}

/// How a resource is, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum State {
    /// It serves, as its spec wishes.
    Ready,
    /// Something is missing; the reason says what.
    NotReady,
    /// No operator has reported on it.
    NotReported,
    /// Its status is about a former spec.
    Outdated,
    /// Its servers are stopped, as it asks.
    Hibernated,
    /// It is being deleted.
    Deleting,
}

/// A resource and what it made.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Kind.
    pub kind: &'static str,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// How it is.
    pub state: State,
    /// Reason of its condition Ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Ready and wanted members, for example 2/3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<String>,
    /// Release of the images that all members run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What each daemon does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub daemons: Vec<DaemonStatus>,
    /// Conditions that say something other than one hopes for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<AgentReport>,
    /// What it made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Node>,
}

/// What a condition says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentReport {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    /// Why, for machines.
    pub reason: String,
    /// Why, for people.
    pub message: String,
}

impl Resource {
    /// An object of a kind of ours. A status that is none counts as not reported.
    pub fn of(kind: KindInfo, object: &DynamicObject) -> Self {
        let meta = object.metadata.clone();
        let status = object.data.get("status").cloned().unwrap_or_default();
        // Of a later release some may be of another kind.
        let daemons = status["daemons"].as_array().into_iter().flatten();
        Self {
            kind,
            namespace: meta.namespace.unwrap_or_default(),
            name: meta.name.unwrap_or_default(),
            uid: meta.uid.unwrap_or_default(),
            owners: meta.owner_references.into_iter().flatten().map(|owner| owner.uid).collect(),
            generation: meta.generation.unwrap_or_default(),
            is_deleting: meta.deletion_timestamp.is_some(),
            daemons: daemons.filter_map(|daemon| serde_json::from_value(daemon.clone()).ok()).collect(),
            version: status["version"]["deployed"].as_str().map(str::to_owned),
            status: serde_json::from_value(status).unwrap_or_default(),
        }
    }

    fn state(&self) -> State {
        let holds = |kind: ConditionType| {
            self.status.condition(kind.as_ref()).is_some_and(|condition| condition.status == "True")
        };
        if self.is_deleting {
            State::Deleting
        } else if self.status.condition(ConditionType::Ready.as_ref()).is_none() {
            State::NotReported
        } else if self.status.observed_generation != Some(self.generation) {
            State::Outdated
        } else if holds(ConditionType::Ready) {
            State::Ready
        } else if holds(ConditionType::Hibernated) {
            State::Hibernated
        } else {
            State::NotReady
        }
    }

    /// Each message once, at the condition that says it first. Summaries come after what they sum up.
    fn told(&self) -> Vec<AgentReport> {
        let is_summary = |kind: &str| {
            let summaries = [ConditionType::Ready, ConditionType::DependenciesReady, ConditionType::Reconciling];
            summaries.iter().any(|summary| summary.as_ref() == kind)
        };
        let mut conditions: Vec<_> = self.status.conditions.iter().filter(|condition| is_telling(condition)).collect();
        conditions.sort_by_key(|condition| is_summary(&condition.type_));
        let mut told: Vec<AgentReport> = Vec::new();
        for condition in conditions {
            if !told.iter().any(|known| known.message == condition.message) {
                told.push(AgentReport {
                    kind: condition.type_.clone(),
                    status: condition.status.clone(),
                    reason: condition.reason.clone(),
                    message: condition.message.clone(),
                });
            }
        }
        told
    }
}

impl Node {
    /// Whether it, and all that it made, is Ready.
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready && self.children.iter().all(Self::is_ready)
    }
}

/// Every resource below the one that made it. What nobody made, or somebody who is not among them, stands by itself.
pub fn trees(resources: &[Resource]) -> Vec<Node> {
    let is_there = |uid: &String| resources.iter().any(|resource| resource.uid == *uid);
    let roots = resources.iter().filter(|resource| !resource.owners.iter().any(is_there));
    let mut trees: Vec<Node> = roots.map(|root| node(root, resources)).collect();
    // Whoever made something comes first.
    trees.sort_by_key(|tree| (tree.namespace.clone(), tree.children.is_empty()));
    trees
}

fn node(resource: &Resource, all: &[Resource]) -> Node {
    let made = all.iter().filter(|other| other.uid != resource.uid && other.owners.contains(&resource.uid));
    Node {
        kind: resource.kind.kind,
        namespace: resource.namespace.clone(),
        name: resource.name.clone(),
        state: resource.state(),
        reason: resource.status.condition(ConditionType::Ready.as_ref()).map(|ready| ready.reason.clone()),
        members: resource.status.members_ready.clone(),
        version: resource.version.clone(),
        daemons: resource.daemons.clone(),
        told: resource.told(),
        children: made.map(|child| node(child, all)).collect(),
    }
}
