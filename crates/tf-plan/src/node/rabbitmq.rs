//! What the node agent of a RabbitMQ member reports about its server, in the words of the management plugin (RabbitMQ,
//! "Management HTTP API").

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// File of the launch file's set with the password by which the agent asks the server, from the Secret. The user is called
/// [`USER`].
pub const PASSWORD_FILE: &str = "agent-password";

/// File of the launch file's set with the identity of the member, `<uid of the resource>/<number>`. What a server has on its disk belongs to
/// one: another number of the same resource is a member that was taken out of the cluster, and its data is put aside.
pub const MEMBER_FILE: &str = "member";

/// The user as which the agent asks the server. It sees everything and may change nothing.
pub const USER: &str = "tf-node";

/// What an agent is asked to do about who belongs to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "change")]
pub enum Membership {
    /// Take the server beside it out of service and stop it, with its process running on, so that another one can forget it. Refused
    /// while a queue has its messages there and nowhere else.
    Leave,
    /// Take a node that does not run out of the cluster, as its server has it. Refused while a queue has its messages
    /// there and nowhere else.
    Forget {
        /// Name of the Erlang node.
        name: String,
    },
    /// Have the server take its definitions anew: a policy of them is gone.
    ImportDefinitions,
}

/// Facts about one server and the cluster as it sees it. What could not be found out is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Facts {
    /// Name of its Erlang node.
    pub name: String,
    /// Its release.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub release: String,
    /// Names of the cluster's nodes, each with whether it runs.
    pub nodes: BTreeMap<String, bool>,
    /// Names of nodes that it was cut off from, and has been in touch with again since, without being reconciled.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub partitions: BTreeSet<String>,
    /// Resources that it runs short of, for which all servers hold publishers back: `memory`, `disk`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub alarms: BTreeSet<String>,
    /// Why the server could not be asked, for people. What it would have said is empty then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// Names of the nodes, itself included, that a server which could not be asked has on its disk as the cluster's.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub remembers: BTreeSet<String>,
    /// Whether it was asked to leave ([`Membership::Leave`]), did, and was not started since.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
    /// Queues of clients that have no mirror although the definitions have a policy of that. Where their node stops, what is in them is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmirrored: Option<Unmirrored>,
    /// Why it may not be stopped: queues that would lose their majority, or messages that no other node has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical: Option<String>,
}

/// Queues without a mirror.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unmirrored {
    /// Their virtual host.
    pub vhost: String,
    /// Names of the first ones.
    pub queues: Vec<String>,
    /// How many there are.
    pub count: usize,
    /// The policy by which the first of them goes; none where no policy is about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}
