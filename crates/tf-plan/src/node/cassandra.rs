//! What the node agent of a Cassandra member reports about its server, in the words of its system tables.

use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, Serialize};

/// State of a member of the ring, as gossip has it, that holds its part of the data and is about nothing else.
pub const NORMAL: &str = "NORMAL";

/// Facts about one server and the ring as it sees it. What could not be found out is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Facts {
    /// What the ring knows it by, whatever its address is.
    pub host_id: String,
    /// Its release.
    pub release: String,
    /// Version of the schema that it goes by.
    pub schema: String,
    /// The other members of the ring by their addresses.
    pub peers: BTreeMap<IpAddr, Peer>,
    /// Why nothing could be found out, for people. Everything else is empty then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// Another member of the ring, as a server sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Peer {
    /// [`NORMAL`], or what it is about: `BOOT`, `LEAVING`, `shutdown` and others. Absent where the server's release does not
    /// tell (before 4.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Whether the server hears it. Absent where that is not known, or not yet: nobody is taken for well at the first word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heard: Option<bool>,
}
