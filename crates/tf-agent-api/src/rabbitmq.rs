//! What the node agent of a RabbitMQ member reports about its server, in the words of the management plugin (RabbitMQ,
//! "Management HTTP API").

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};

/// File of the launch file's set with the password by which the agent asks the server, from the Secret. The user is called
/// [`USER`].
pub const PASSWORD_FILE: &str = "agent-password";

/// File of the launch file's set with the nodes of the cluster, whom a member without data joins.
pub const FORMATION_FILE: &str = "rabbitmq-formation.conf";
/// Its settings with the name of a node each, before the number of the setting.
pub const FORMATION_NODES: &str = "cluster_formation.classic_config.nodes.";

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
    /// Have the server hold the quorum queues that are on too few nodes ([`Facts::short`]).
    Grow,
    /// Have the cluster enable all stable feature flags of its release ([`Facts::flags`]).
    EnableFlags,
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
    /// Names of the nodes, itself included, that a server which could not be asked has on its disk as the cluster's; none of them where it has no
    /// database, and nothing where that cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remembers: Option<BTreeSet<String>>,
    /// Number of the member that the data on its disk is of ([`crate::node::MEMBER_FILE`]). None where an agent of an earlier release does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<u32>,
    /// Whether it was asked to leave ([`Membership::Leave`]), did or began to, and was not started since.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
    /// Queues of clients that have no mirror although the definitions have a policy of that. Where their node stops, what is in them is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmirrored: Option<Unmirrored>,
    /// Queues of clients that had a consumer when a server came or went a short while ago, and have none since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deserted: Option<Queues>,
    /// Quorum queues that are on fewer nodes than they should be, and not on this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short: Option<Queues>,
    /// Whether it was asked to have all stable feature flags of its release enabled, and did. A server of a later line may not start without. None where
    /// an agent of an earlier release says nothing of it, and for releases that do so by themselves or are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flags: Option<bool>,
    /// Why it may not be stopped: queues that would lose their majority, or messages that no other node has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical: Option<String>,
}

/// Queues without a mirror.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unmirrored {
    /// Which these are.
    #[serde(flatten)]
    pub are: Queues,
    /// The policy by which the first of them goes; none where no policy is about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}

/// Queues of a virtual host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Queues {
    /// The virtual host.
    pub vhost: String,
    /// Names of the first ones.
    pub queues: Vec<String>,
    /// How many there are.
    pub count: usize,
}

impl Queues {
    /// These, if there are any.
    pub fn of<'a>(vhost: &str, names: impl Iterator<Item = &'a String>) -> Option<Self> {
        let mut names = names.peekable();
        names.peek()?;
        let mut queues = Self { vhost: vhost.to_owned(), ..Self::default() };
        for name in names {
            queues.count += 1;
            if queues.count <= NAMED {
                queues.queues.push(name.clone());
            }
        }
        Some(queues)
    }
}

impl fmt::Display for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&few(&self.queues, self.count))
    }
}

/// Queues that are named.
const NAMED: usize = 5;

/// Names for people, the first few of so many.
pub fn few(names: &[impl AsRef<str>], count: usize) -> String {
    let first: Vec<&str> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
    let more = count.saturating_sub(first.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", first.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_queues_are_named_and_the_others_are_counted() {
        let names: Vec<String> = (0..7).map(|number| format!("q{number}")).collect();
        let queues = |count: usize| Queues::of("tf", names[..count].iter()).map(|queues| queues.to_string());
        assert_eq!(queues(0), None);
        assert_eq!(queues(2).as_deref(), Some("q0, q1"));
        assert_eq!(queues(7).as_deref(), Some("q0, q1, q2, q3, q4 and 2 more"));
    }

    #[test]
    fn queues_without_a_mirror_are_told_as_agents_of_earlier_releases_do() {
        let are = Queues { vhost: "tf".into(), queues: vec!["q".into()], count: 1 };
        let told = serde_json::json!({"vhost": "tf", "queues": ["q"], "count": 1, "policy": "mine"});
        let unmirrored = Unmirrored { are, policy: Some("mine".into()) };
        assert_eq!(serde_json::to_value(&unmirrored).unwrap(), told);
        assert_eq!(serde_json::from_value::<Unmirrored>(told).unwrap(), unmirrored);
    }
}
