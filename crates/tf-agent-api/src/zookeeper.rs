//! What the node agent of a ZooKeeper member reports about its server, and the list of members in the server's own words.

use std::{collections::BTreeMap, fmt, net::Ipv6Addr, str::FromStr};

use serde::{Deserialize, Serialize};

/// Facts about one server. Absent parts could not be found out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Facts {
    /// Its identity, from `myid`.
    pub id: u32,
    /// Whether it answers requests as part of a quorum, read-write (`isro`). A server that follows a quorum without being
    /// a member of it does so too (docs/upstream/zookeeper.md#readiness).
    pub serving: bool,
    /// Its part in the ensemble at the moment.
    pub role: Role,
    /// Last transaction it has applied.
    pub zxid: u64,
    /// Leader only: followers that are in sync with it, servers that are not members included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synced_followers: Option<u32>,
    /// The list of members it goes by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<Servers>,
}

/// Part that a server plays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// Leads the quorum.
    Leader,
    /// Follows a leader.
    Follower,
    /// Follows a leader and has no vote.
    Observer,
    /// Looks for a leader, or does not answer.
    #[default]
    None,
}

/// A list of members with its version: the content of `/zookeeper/config` and of the dynamic file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Servers {
    /// Transaction that made this list; 0 for the list that the ensemble was founded with.
    pub version: u64,
    /// Servers by identity.
    pub servers: BTreeMap<u32, Server>,
}

/// One entry of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    /// Address that the other servers use. An IPv6 one is without brackets and as Kubernetes writes it (RFC 5952).
    pub address: String,
    /// Port of the leader for its followers.
    pub quorum_port: u16,
    /// Port of elections.
    pub election_port: u16,
    /// Whether it has a vote.
    pub votes: bool,
    /// Address for clients; the same as `address` if the list does not say.
    pub client_address: String,
    /// Port for clients.
    pub client_port: u16,
}

/// File of the launch file's set with the password of ZooKeeper's `super` user, by which the agent changes the list. From the
/// Secret.
pub const SUPER_FILE: &str = "super";

/// Body of `POST /v1/zookeeper/reconfig`: one change of the list of members. It is refused when the list has another version.
/// Answered with the new [`Servers`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all_fields = "camelCase")]
pub enum Reconfigure {
    /// Adds a server, or changes the entry of one.
    Add {
        /// Its identity.
        id: u32,
        /// Its entry.
        server: Server,
        /// Version of the list that is changed.
        version: u64,
    },
    /// Removes a server.
    Remove {
        /// Its identity.
        id: u32,
        /// Version of the list that is changed.
        version: u64,
    },
}

/// A list that ZooKeeper did not write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line:?} of the list of members: {problem}")]
pub struct Malformed {
    /// The line.
    pub line: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// What precedes the version in a file of ours.
const VERSION_REMARK: &str = "# version ";

impl Servers {
    /// Identities of the servers with a vote.
    pub fn voters(&self) -> impl Iterator<Item = u32> + '_ {
        self.servers.iter().filter(|(_, server)| server.votes).map(|(id, _)| *id)
    }

    /// The dynamic file: a line per server, after the version as a remark. ZooKeeper itself passes over the remark, and takes a
    /// version from the file's name alone; the agent goes by it to tell which of two lists is newer.
    pub fn file(&self) -> String {
        let version = (self.version != 0).then(|| format!("{VERSION_REMARK}{:x}\n", self.version));
        let servers = self.servers.iter().map(|(id, server)| format!("server.{id}={server}\n"));
        version.into_iter().chain(servers).collect()
    }
}

impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quorum_port, election_port, client_port, .. } = self;
        let role = if self.votes { "participant" } else { "observer" };
        let (address, client) = (bracketed(&self.address), bracketed(&self.client_address));
        write!(formatter, "{address}:{quorum_port}:{election_port}:{role};{client}:{client_port}")
    }
}

impl FromStr for Servers {
    type Err = Malformed;

    /// Reads `/zookeeper/config` or a dynamic file: `server.<id>=<host>:<port>:<port>[:<role>];[<host>:]<port>`, and
    /// `version=<hexadecimal>` (`QuorumPeer.QuorumServer` of ZooKeeper 3.9) or the remark of [`Self::file`].
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let mut list = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let malformed = |problem| Malformed { line: line.to_owned(), problem };
            let version = |digits: &str| {
                u64::from_str_radix(digits.trim(), 16).map_err(|_| malformed("the version is no number"))
            };
            if line.starts_with('#') {
                if let Some(digits) = line.strip_prefix(VERSION_REMARK) {
                    list.version = version(digits)?;
                }
                continue;
            }
            let (key, value) = line.split_once('=').ok_or_else(|| malformed("no equals sign"))?;
            match key.trim().strip_prefix("server.") {
                Some(id) => {
                    let id = id.parse().map_err(|_| malformed("the identity is no number"))?;
                    let server = server(value.trim()).map_err(malformed)?;
                    if list.servers.insert(id, server).is_some() {
                        return Err(malformed("the identity is there twice"));
                    }
                }
                None if key.trim() == "version" => list.version = version(value)?,
                None => {}
            }
        }
        Ok(list)
    }
}

fn server(text: &str) -> Result<Server, &'static str> {
    let (peers, client) = text.split_once(';').ok_or("no part for clients")?;
    let (address, rest) = host(peers).ok_or("no address")?;
    let mut parts = rest.split(':').map(str::trim);
    let mut port = || parts.next().and_then(|port| port.parse().ok());
    let (quorum_port, election_port) = port().zip(port()).ok_or("a port is missing or no number")?;
    let votes = match parts.next().map(str::to_ascii_lowercase).as_deref() {
        None | Some("participant") => true,
        Some("observer") => false,
        Some(_) => return Err("an unknown role"),
    };
    let client = client.trim();
    let (client_address, client_port) = if let Ok(port) = client.parse() {
        (address.clone(), port)
    } else {
        let (host, port) = host(client).ok_or("no address for clients")?;
        (host, port.parse().map_err(|_| "the port for clients is no number")?)
    };
    Ok(Server { address, quorum_port, election_port, votes, client_address, client_port })
}

/// The host before the first colon, and what follows that. An IPv6 address is in brackets, and a server writes it as Java does, with
/// every zero (`Inet6Address.getHostAddress`).
fn host(text: &str) -> Option<(String, &str)> {
    let text = text.trim();
    match text.strip_prefix('[') {
        Some(text) => {
            let (address, rest) = text.split_once(']')?;
            let short = address.parse().map(|address: Ipv6Addr| address.to_string());
            Some((short.unwrap_or_else(|_| address.to_owned()), rest.strip_prefix(':')?))
        }
        None => text.split_once(':').map(|(host, rest)| (host.to_owned(), rest)),
    }
}

/// An address as it stands before a port.
pub fn bracketed(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(address: &str) -> Server {
        Server {
            address: address.into(),
            quorum_port: 2888,
            election_port: 3888,
            votes: true,
            client_address: address.into(),
            client_port: 2181,
        }
    }

    /// As a ZooKeeper 3.9 server answered.
    #[test]
    fn the_answer_of_a_server_is_read() {
        let text = "server.1=10.0.0.1:2888:3888:participant;10.0.0.1:2181\n\
                    server.2=10.0.0.2:2888:3888:observer;0.0.0.0:2181\nversion=100000003";
        let list: Servers = text.parse().unwrap();
        assert_eq!(list.version, 0x1_0000_0003);
        assert_eq!(list.servers[&1], entry("10.0.0.1"));
        assert!(!list.servers[&2].votes);
        assert_eq!(list.servers[&2].client_address, "0.0.0.0");
        assert_eq!(list.voters().collect::<Vec<_>>(), [1]);
    }

    /// As a ZooKeeper 3.9 server answered that was told of `[fd10:c8:1::2]`.
    #[test]
    fn ipv6_addresses_are_as_kubernetes_writes_them() {
        let text = "server.1=[fd10:c8:1:0:0:0:0:2]:2888:3888:participant;[0:0:0:0:0:0:0:1]:2181\nversion=0";
        let list: Servers = text.parse().unwrap();
        assert_eq!(list.servers[&1], Server { client_address: "::1".into(), ..entry("fd10:c8:1::2") });
    }

    #[test]
    fn short_forms_are_read() {
        let list: Servers = "server.1=a:1:2;3\n".parse().unwrap();
        let server = &list.servers[&1];
        assert_eq!((server.votes, server.client_address.as_str(), server.client_port), (true, "a", 3));
    }

    #[test]
    fn the_version_is_a_remark_of_which_a_founding_list_has_none() {
        let mut list: Servers = "server.1=a:1:2;3\n".parse().unwrap();
        let line = "server.1=a:1:2:participant;a:3\n";
        assert_eq!(list.file(), line);
        list.version = 0x1_0000_0003;
        assert_eq!(list.file(), format!("# version 100000003\n{line}"));
        assert_eq!(format!("# a remark\n#version 7\n{line}").parse::<Servers>().unwrap().version, 0);
    }

    #[test]
    fn a_change_looks_like_this() {
        let add = Reconfigure::Add { id: 4, server: entry("10.0.0.4"), version: 7 };
        let text = r#"{"kind":"Add","id":4,"server":{"address":"10.0.0.4","quorumPort":2888,"electionPort":3888,"votes":true,"clientAddress":"10.0.0.4","clientPort":2181},"version":7}"#;
        assert_eq!(serde_json::to_string(&add).unwrap(), text);
        let remove = Reconfigure::Remove { id: 4, version: 7 };
        assert_eq!(serde_json::from_str::<Reconfigure>(r#"{"kind":"Remove","id":4,"version":7}"#).unwrap(), remove);
    }

    #[test]
    fn nonsense_is_named() {
        for text in [
            "server.x=a:1:2;3",
            "server.1=a:1;3",
            "server.1=a:1:2",
            "server.1=a:1:2:king;3",
            "version=zz",
            "x",
            "# version x",
        ] {
            assert!(text.parse::<Servers>().is_err(), "{text}");
        }
        assert!("server.1=a:1:2;3\nserver.1=b:1:2;3".parse::<Servers>().is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            version: u64,
            ids in prop::collection::btree_map(1_u32..255, any::<(u8, bool, u16)>(), 0..7),
        ) {
            let servers = ids.into_iter().map(|(id, (host, v6, port))| {
                let v6 = v6.then(|| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host.into()).to_string());
                let address = v6.unwrap_or_else(|| format!("10.0.0.{host}"));
                (id, Server { votes: host % 2 == 0, client_port: port, ..entry(&address) })
            });
            let list = Servers { version, servers: servers.collect() };
            prop_assert_eq!(list.file().parse::<Servers>().unwrap(), list);
        }

        #[test]
        fn garbage_never_panics(text in "\\PC*") {
            let _ = text.parse::<Servers>();
        }
    }
}
