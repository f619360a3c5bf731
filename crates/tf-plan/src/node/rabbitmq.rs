//! What the node agent of a RabbitMQ member reports about its server, in the words of the management plugin (RabbitMQ,
//! "Management HTTP API").

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// File of the launch file's set with the password by which the agent asks the server, from the Secret. The user is called
/// [`USER`].
pub const PASSWORD_FILE: &str = "agent-password";

/// The user as which the agent asks the server. It sees everything and may change nothing.
pub const USER: &str = "tf-node";

/// Facts about one server and the cluster as it sees it. What could not be found out is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Facts {
    /// Name of its Erlang node.
    pub name: String,
    /// Names of the cluster's nodes, each with whether it runs.
    pub nodes: BTreeMap<String, bool>,
    /// Names of nodes that it was cut off from, and has been in touch with again since, without being reconciled.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub partitions: BTreeSet<String>,
    /// Resources that it runs short of, for which all servers hold publishers back: `memory`, `disk`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub alarms: BTreeSet<String>,
    /// Why nothing could be found out, for people. Everything else is empty then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// Why it may not be stopped: queues that would lose their majority, or messages that no other node has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical: Option<String>,
}
