//! The one thing that a pass may do to a member that runs.

use tf_agent_api::{cassandra, content::ContentHash, rabbitmq::Membership, redis, zookeeper::Reconfigure};

use crate::observed::Pod;

/// A step. Each names the pod it is for by uid, so that one that was replaced meanwhile is never hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Delete the pod; its controller makes a new one from the current template.
    Restart(Target),
    /// Let the pod's agent change over to this configuration.
    Activate(Target, ContentHash),
    /// Let the pod's agents start the daemons anew that go by another certificate than this, or other authorities.
    Renew(Target, ContentHash),
    /// Ask the pod's agent to change the store beside it.
    Ask(Target, Request),
}

/// The pod of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub pod: String,
    /// Its uid.
    pub uid: String,
    /// Why, for people.
    pub why: String,
}

/// What an agent is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Change the list of members of a ZooKeeper ensemble.
    Reconfigure(Reconfigure),
    /// Change who belongs to a RabbitMQ cluster.
    Membership(Membership),
    /// Change a Cassandra ring.
    Ring(cassandra::Change),
    /// Change which Redis server takes writes.
    Redis(redis::Change),
}

impl Target {
    /// This pod.
    pub fn of(pod: &Pod, why: impl Into<String>) -> Self {
        Self { pod: pod.name.clone(), uid: pod.uid.clone(), why: why.into() }
    }
}

impl Step {
    /// What is being done, for people.
    pub fn explain(&self) -> String {
        match self {
            Self::Restart(target) => format!("restarting pod {}: {}", target.pod, target.why),
            Self::Activate(target, _) => format!("pod {} takes a new configuration", target.pod),
            Self::Renew(target, _) => format!("pod {} restarts its daemons: {}", target.pod, target.why),
            Self::Ask(target, _) => target.why.clone(),
        }
    }

    /// The pod.
    pub fn target(&self) -> &Target {
        match self {
            Self::Restart(target) | Self::Activate(target, _) | Self::Renew(target, _) | Self::Ask(target, _) => target,
        }
    }
}
