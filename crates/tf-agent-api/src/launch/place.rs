//! Copies of files that are made before a daemon starts.

use serde::{Deserialize, Serialize};

/// A copy of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// Name of the file.
    pub file: String,
    /// Absolute path of the copy. Its directory exists.
    pub to: String,
    /// When.
    pub when: When,
    /// Whether nobody but the daemon's user may read it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
}

/// When a copy is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum When {
    /// Before each start.
    Always,
    /// Before a start where there is no such file: for files that the daemon goes on to write itself.
    Absent,
    /// Before the starts of a daemon that has not served yet with the data it has, over the copy that stands before this one in
    /// the list: for what a member with a new disk has to be told.
    New {
        /// Absolute path of a file among that data. The agent writes it when the daemon serves for the first time, and one beside it
        /// ([`begun`]) when it starts as a new one.
        served: String,
    },
    /// Before the starts of a server that clients log in to and that does not know yet with what, over the copies that stand before this one in
    /// the list: for a configuration by which nobody but the agent reaches it. The agent tells it, and starts it anew. Only with
    /// [`Probe::Cassandra`].
    Private {
        /// Absolute path of the file of [`Self::New`], where it is for servers that have not served yet with the data they have. Default:
        /// for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        served: Option<String>,
    },
    /// Before the starts of a server of this release or a later one, over the copies that stand before this one in the list: for files that
    /// former releases do not take, or that ones from then on do not. Only with [`Probe::RabbitMq`]; where the release cannot be told it is a
    /// former one.
    Since {
        /// First number of the release.
        major: u32,
    },
    /// For ZooKeeper's list of members: before each start, unless the server has noted a list beside it that is not older
    /// (`<to>.<version>`). A copy that lags behind the ensemble would let a server of a large one go on as that of a small one.
    NewestList {
        /// The file among those placed with the server's identity.
        id: String,
        /// The file among those placed whose `dynamicConfigFile` is the list to go by.
        config: String,
        /// What tells the ensemble from others. Lists that the server noted in another one do not count: the resource was deleted
        /// and made anew, the data was kept, and its members have other identities. Default: nothing is known of others.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ensemble: Option<String>,
    },
}

/// The file that tells that data was begun by a daemon that was told what new ones have to be told ([`When::New`]).
pub fn begun(served: &str) -> String {
    format!("{served}.begun")
}
