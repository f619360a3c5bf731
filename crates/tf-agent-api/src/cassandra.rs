//! What the node agent of a Cassandra member reports about its server, in the words of its system tables.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub mod backup;

use backup::{Backup, Found, Restored, Saved};

/// State of a member of the ring, as gossip has it, that holds its part of the data and is about nothing else.
pub const NORMAL: &str = "NORMAL";

/// Among a server's data, where it has served with it ([`crate::launch::When::New`]).
pub const SERVED_FILE: &str = ".tf-served";

/// File of the launch file's set with what clients and the agent log in with: the variables [`USER`] and [`PASSWORD`].
pub const LOGIN_FILE: &str = "login.env";
/// See [`LOGIN_FILE`].
pub const USER: &str = "USER";
/// See [`LOGIN_FILE`].
pub const PASSWORD: &str = "PASSWORD";

/// The server's own keyspace with the users and their passwords.
pub const AUTH_KEYSPACE: &str = "system_auth";

/// How clients log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Login {
    /// Whether the server asks them to. It is started for nobody else to reach ([`crate::launch::When::Private`]) until it knows what they
    /// log in with.
    pub asked: bool,
    /// Members of a ring that is being founded, on each of which the users are to be. Default: it was founded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub founders: Option<u32>,
}

/// What an agent is asked to do to the ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "change")]
pub enum Change {
    /// Have another number of members hold each row of a keyspace. Refused if it is not `from` now, or they are more than one apart: then
    /// a quorum of those that hold it afterwards shares no member with a quorum of those before (docs/upstream/cassandra.md#changes-of-size).
    Replicate {
        /// The keyspace.
        keyspace: String,
        /// Their number now.
        from: u32,
        /// Their number afterwards.
        to: u32,
    },
    /// Make the server's copies of a keyspace like those of the others. Goes on after the answer.
    Repair {
        /// The keyspace.
        keyspace: String,
        /// How many members hold each row. Refused if it is another number.
        factor: u32,
        /// Whether it is done from time to time, and not because of that number: [`Facts::repaired`] stays as it is.
        #[serde(default)]
        routine: bool,
    },
    /// Make the copies of a keyspace alike on all members but those that cannot come back, before these are taken out of the ring: what they alone have kept for
    /// one of the others is lost with them. Goes on after the answer. Refused while one of them is heard.
    RepairWithout {
        /// The keyspace.
        keyspace: String,
        /// How many members hold each row. Refused if it is another number.
        factor: u32,
        /// What the ring knows those by that cannot come back.
        absent: BTreeSet<String>,
    },
    /// Hand everything that the server holds to the others and leave the ring. Goes on after the answer. Refused while a keyspace is to be on as
    /// many members as there are.
    Decommission,
    /// Copy what the server holds of clients' keyspaces to the backup volume. Goes on after the answer. Refused if there is such a folder, and it is not
    /// of this resource and these members.
    Backup {
        /// The backup.
        of: Backup,
        /// Uid of the resource.
        resource: String,
        /// Number of this member.
        member: u32,
        /// Numbers of all members, each with its node.
        members: Vec<(u32, String)>,
    },
    /// Look for a backup on the volume ([`Facts::found`]).
    Look {
        /// The backup.
        of: Backup,
    },
    /// Make the keyspaces and tables of a backup. Goes on after the answer. Does not succeed where clients have keyspaces that are not of it.
    RestoreSchema {
        /// The backup.
        of: Backup,
        /// A folder of it that the member has before it.
        folder: u32,
        /// Number of members that are to hold each row.
        factor: u32,
    },
    /// Take in the rows of folders of a backup. Goes on after the answer.
    RestoreRows {
        /// The backup.
        of: Backup,
        /// The folders.
        folders: BTreeSet<u32>,
    },
    /// Rewrite the data files that are in the format of an earlier line of releases ([`Facts::older`]). Goes on after the answer.
    UpgradeSstables,
    /// Take a member that does not run out of the ring; the others make its copies anew. Goes on after the answer.
    #[serde(rename_all = "camelCase")]
    Remove {
        /// What the ring knows it by.
        host_id: String,
    },
}

impl Change {
    /// Whether it is done from time to time, and no harm comes of it when it is not brought to its end.
    pub fn is_routine(&self) -> bool {
        matches!(
            self,
            Self::Repair { routine: true, .. } | Self::UpgradeSstables | Self::Backup { .. } | Self::Look { .. }
        )
    }

    /// Whether it is a repair as is done from time to time.
    pub fn is_upkeep(&self) -> bool {
        matches!(self, Self::Repair { routine: true, .. })
    }

    /// Whether it is part of taking in a backup.
    pub fn is_restore(&self) -> bool {
        matches!(self, Self::RestoreSchema { .. } | Self::RestoreRows { .. })
    }
}

/// A change that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The change.
    pub of: Change,
    /// Why, for people.
    pub why: String,
    /// When that was known.
    pub at: Timestamp,
}

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
    /// Why it is not known what the server hears of them, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unheard: Option<String>,
    /// Keyspaces of clients whose rows are on a number of members wherever these are (`SimpleStrategy`), with that number; with clients that log in
    /// [`AUTH_KEYSPACE`], too.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub keyspaces: BTreeMap<String, u32>,
    /// Keyspaces of clients whose rows are placed by data centre (`NetworkTopologyStrategy`), with the number of members that hold each row in that
    /// where most do.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub placed: BTreeMap<String, u32>,
    /// Keyspaces that the server has repaired last ([`Change::Repair`]), each with the number of members it was to be on then.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub repaired: BTreeMap<String, u32>,
    /// Keyspaces that were repaired without members of which nothing was heard since ([`Change::RepairWithout`]), with what the ring knows these by. Absent where the
    /// agent is of a release that knows no such repair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repaired_without: Option<BTreeMap<String, BTreeSet<String>>>,
    /// When the server last repaired a keyspace with all others, for whatever reason. All members' copies of it are alike since then, if it was to be on all of them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub repaired_at: BTreeMap<String, Timestamp>,
    /// Seconds after which servers forget that something in a keyspace was deleted (`gc_grace_seconds`): the shortest of its tables. A copy that
    /// has not heard of it by then brings it back. Keyspaces that remember no deletion at all (0) are not among them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub grace: BTreeMap<String, u32>,
    /// How many of its data files are in the format of an earlier line of releases.
    pub older: usize,
    /// What goes on, of what was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doing: Option<Change>,
    /// What was asked for last, if it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<Failed>,
    /// Folders of backups that it has written, by the backups' names; the newest ones.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub backups: BTreeMap<String, Saved>,
    /// What it found when it was last asked to look for a backup ([`Change::Look`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
    /// What it has taken in of a backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored: Option<Restored>,
    /// Whether the ring knows what clients log in with ([`LOGIN_FILE`]), as this server told or was told.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_login: bool,
    /// Whether it left the ring as it was asked to ([`Change::Decommission`]), with the data that is on its disk.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
    /// Whether the data on its disk is what it fetched from a ring when it joined, and not what it founded one with.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub joined: bool,
    /// Number of the member that the data on its disk is of ([`crate::node::MEMBER_FILE`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<u32>,
    /// Whether it has served with the data that is on its disk.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_served: bool,
    /// Whether its files are those that a ring is founded with: without data it would be a seed of its own, and join without fetching any.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub founds: bool,
    /// Why nothing could be found out, for people. What it would have said is empty then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// Another member of the ring, as a server sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Peer {
    /// What the ring knows it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_id: Option<String>,
    /// [`NORMAL`], or what it is about: `BOOT`, `LEAVING`, `shutdown` and others; empty where it is about nothing yet. Absent where gossip has
    /// nothing of it, or is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Whether the server hears it. Absent where that is not known, or not yet: nobody is taken for well at the first word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heard: Option<bool>,
}
