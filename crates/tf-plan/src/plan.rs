//! The result of planning: desired state, or why there is none yet.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::{Map, Value};
use tf_api::contract::{DaemonStatus, Draft, Endpoint, MemberStatus, Reason};

use crate::{object::Object, registration::Registration, step::Step};

/// How many ready members make the service usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// At least one.
    Any,
    /// More than half of the wanted ones.
    Majority,
}

impl Availability {
    /// Whether `ready` of `wanted` members can serve. Nothing wanted is never available.
    pub fn holds(self, ready: i32, wanted: i32) -> bool {
        match self {
            Self::Any => ready >= 1 && wanted >= 1,
            Self::Majority => wanted >= 1 && ready > wanted / 2,
        }
    }
}

/// The pods of the resource, as they shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// Workloads (StatefulSets or DaemonSets) that make the pods, with the hash of each one's pod template.
    pub workloads: Vec<(String, String)>,
    /// Number of pods wanted; none if the workload's controller counts nodes.
    pub wanted: Option<i32>,
    /// Label selector of the pods.
    pub selector: String,
}

/// Whether servers are to be stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Hibernation {
    /// Nobody asks for that.
    #[default]
    Awake,
    /// It is asked for and not done, because of this.
    Held(Reason, String),
    /// They are.
    Asleep,
}

/// What a Node gets and loses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Name of the node.
    pub node: String,
    /// Labels; none for no such label.
    pub labels: BTreeMap<&'static str, Option<String>>,
    /// Annotations, in the same way.
    pub annotations: BTreeMap<&'static str, Option<String>>,
    /// Keys of taints with the effect `NoSchedule`, and whether the node has them.
    pub taints: BTreeMap<&'static str, bool>,
}

impl Mark {
    /// Takes a taint from a node.
    pub fn untaint(node: &str, taint: &'static str) -> Self {
        Self { node: node.to_owned(), taints: BTreeMap::from([(taint, false)]), ..Self::default() }
    }
}

/// A node from which pods that use the pod network are evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Name of the node.
    pub node: String,
    /// Whether the node has no [`tf_api::names::TAINT_DRAIN`] yet.
    pub begins: bool,
}

/// What is done in the cluster before a resource that is being deleted is let go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finalization {
    /// Objects that do it. Other workloads of the resource are deleted.
    pub objects: Vec<Object>,
    /// What Nodes lose.
    pub marks: Vec<Mark>,
    /// What is left to be done, for people, after "removing"; none when it is done.
    pub waits: Option<String>,
    /// Number of nodes on which it is left to be done.
    pub nodes: usize,
}

/// Desired state of one resource. By default nothing is wanted, and nothing is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Objects in the order they are applied.
    pub objects: Vec<Object>,
    /// The pods; none if the component runs no workload.
    pub rollout: Option<Rollout>,
    /// Members with permanent identities. Written to status before anything that depends on them is applied.
    pub members: Vec<MemberStatus>,
    /// Endpoints to publish once the service is available.
    pub endpoints: Vec<Endpoint>,
    /// Name and content hash of the Secret that clients connect with.
    pub connection: Option<(String, String)>,
    /// ConfigMap that repeats the endpoints.
    pub discovery: Option<String>,
    /// Release of the images.
    pub version: String,
    /// Conditions known at planning time: dependencies, inputs.
    pub drafts: Vec<Draft>,
    /// Paths of spec fields that are set and cannot have an effect, with why.
    pub ignored: Vec<String>,
    /// What a person should know about the size or placement, shown with `WorkloadReady`.
    pub notes: Vec<String>,
    /// What keeps the current generation from being carried out completely although the rest is applied.
    pub held: Option<(Reason, String)>,
    /// Whether its servers are to be stopped.
    pub hibernation: Hibernation,
    /// What is being done to the members and not over yet, shown with `WorkloadReady`.
    pub under_way: Option<String>,
    /// Pods that do not serve whatever the kubelet says of them, with the cause.
    pub troubles: BTreeMap<String, String>,
    /// Why members serve nobody together, although enough of them serve each for itself.
    pub outage: Option<String>,
    /// Pods that serve without something that they should have, with what it is: nobody is stopped for it, and the resource is not well.
    pub shortages: BTreeMap<String, String>,
    /// That none of a daemon's processes is elected, for longer than a handover takes.
    pub unelected: Option<String>,
    /// What each daemon does. None where nobody could be asked: what is known stays.
    pub daemons: Option<Vec<DaemonStatus>>,
    /// Status fields only this kind has.
    pub own_status: Map<String, Value>,
    /// Names of those of them that, like the members, have to be stored before anything that depends on them is done.
    pub record: &'static [&'static str],
    /// At most one disruptive step that is allowed now.
    pub step: Option<Step>,
    /// Steps that are allowed beside it, of a component whose pods are the same on every node (see [`crate::fleet`]).
    pub batch: Vec<Step>,
    /// Names of pods that are not up to date and stay so until a person deletes them, as the spec asks for.
    pub left: BTreeSet<String>,
    /// After which time things are looked at again although nothing happens.
    pub again: Option<Duration>,
    /// What people are told once, when the fields of `record` that say so are stored.
    pub news: Vec<News>,
    /// What shall be in the config API, of a component that registers something.
    pub registration: Option<Registration>,
    /// Whether its members serve whatever the config API says of them: then `Provisioned` tells how far that is and `Ready` does not
    /// wait for it.
    pub serves_unregistered: bool,
    /// What Nodes get and lose.
    pub marks: Vec<Mark>,
    /// Nodes from which pods are evicted.
    pub drains: Vec<Drain>,
    /// What is done before the resource is let go, while it is being deleted. None where there is nothing.
    pub finalization: Option<Finalization>,
}

/// Something that people are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// Whether it asks for attention.
    pub is_bad: bool,
    /// What it is, for machines.
    pub reason: &'static str,
    /// What it is, for people.
    pub note: String,
}

impl Plan {
    /// Number of pods wanted; none if the workload's controller counts nodes, or there are none.
    pub fn wanted(&self) -> Option<i32> {
        self.rollout.as_ref()?.wanted
    }

    /// Adds to what is under way why it does not go on.
    pub fn explain(&mut self, why: String) {
        self.under_way = Some(self.under_way.take().into_iter().chain([why]).collect::<Vec<_>>().join(": "));
    }

    /// Name of the first workload, with the hash of its pods' template; both empty if there is none.
    pub fn workload(&self) -> (&str, &str) {
        let first = self.rollout.as_ref().and_then(|rollout| rollout.workloads.first());
        first.map(|(name, template)| (name.as_str(), template.as_str())).unwrap_or_default()
    }
}
