//! How it is found out that a daemon serves, and what it is connected to.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    num::{NonZeroU16, NonZeroU32},
};

use serde::{Deserialize, Serialize};

use crate::{cassandra, redis};

/// Good answers in a row for each worker behind a port ([`Probe::Http`]). The kernel deals connections to workers in turn, but for those that
/// are busy at the moment: real workers of contrail-api answered 200 and 503 alternately until the last one was ready.
pub const PER_WORKER: u32 = 3;

/// How it is found out that a daemon serves. Addresses default to the member's. That a connection is accepted says nothing: the kernel does
/// that for a daemon that hangs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all_fields = "camelCase")]
pub enum Probe {
    /// A name server answers questions, if only to refuse them.
    Dns {
        /// Port for TCP on the member's address.
        port: NonZeroU16,
    },
    /// `GET` is answered with a status of 200 to 399.
    Http {
        /// Port.
        port: NonZeroU16,
        /// Path, with a slash at its beginning.
        path: String,
        /// Address other than the member's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<std::net::IpAddr>,
        /// Whether the daemon speaks TLS. Then its certificate has to be good for the address, and the member's own
        /// certificate is shown to it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tls: bool,
        /// Text that the answer's body has to contain.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        contains: Option<String>,
        /// Processes that take connections at this port, any of which may take the next one. With more than one, the daemon is ready after
        /// [`PER_WORKER`] good answers in a row for each of them. Default: one process.
        #[serde(default = "one_worker", skip_serializing_if = "is_one_worker")]
        workers: NonZeroU32,
    },
    /// The server answers requests as a voting member of a quorum (docs/upstream/zookeeper.md#readiness).
    ZooKeeper {
        /// Port for clients.
        port: NonZeroU16,
        /// Address other than the member's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<std::net::IpAddr>,
        /// Whether the port speaks TLS.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tls: bool,
    },
    /// The server accepts AMQP connections and speaks TLS there. In a minority that pauses, and while it is drained, it does not
    /// (docs/upstream/rabbitmq.md#readiness), nor when it hangs.
    RabbitMq {
        /// Port for AMQP.
        port: NonZeroU16,
        /// Port of the management plugin, which speaks TLS.
        management: NonZeroU16,
        /// The file with users, virtual hosts and policies, which the server reads when it starts. A server that runs is told when
        /// it changes, and has a configuration when it was. Default: it is not told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        definitions: Option<String>,
    },
    /// The server answers requests in the native protocol, which it does once it has joined the ring (docs/upstream/cassandra.md#readiness).
    Cassandra {
        /// Port for clients, which speaks TLS.
        port: NonZeroU16,
        /// Port of JMX on the loopback address, by which `nodetool` reaches the server.
        jmx: NonZeroU16,
        /// Its data directory, as the daemon sees it.
        data: String,
        /// How clients log in. Default: they are given nothing to log in with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        login: Option<cassandra::Login>,
    },
    /// The server answers requests, which it does not while it loads data.
    Redis {
        /// Port for clients, which speaks TLS.
        port: NonZeroU16,
        /// The other members, where they copy one of them. Default: it is on its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replication: Option<redis::Replication>,
    },
    /// The broker is one of its cluster and has every record that it should have a copy of.
    Kafka {
        /// Port for clients, which speaks TLS.
        port: NonZeroU16,
    },
    /// The Sentinel beside a Redis server answers requests.
    Sentinel {
        /// Port, which speaks TLS.
        port: NonZeroU16,
    },
    /// The daemon says by introspection what it is connected to, and whether that is enough (NodeStatus, docs/upstream/daemons.md#nodestatus). An
    /// open port tells neither.
    NodeStatus {
        /// Port of introspection on the member's address.
        port: NonZeroU16,
        /// Whether the port speaks TLS.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tls: bool,
        /// Whether it has to be `Functional`. Otherwise it serves as soon as it says anything: its configuration does not name what it
        /// would have to be connected to.
        functional: bool,
        /// Connections that it serves without, although it calls itself `Non-Functional` for want of them: a type (`Collector`) for all
        /// connections of the type, or a type and a name (`Database:RabbitMQ`) for one of them.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        optional: BTreeSet<String>,
        /// Whether one of all members is elected, and the others wait for their turn with no port open (docs/upstream/daemons.md#standbys).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        elected: bool,
    },
    /// The process runs.
    Process,
}

/// What a daemon says by introspection of its connections (NodeStatus, docs/upstream/daemons.md#nodestatus). Where it opens no port, since another
/// member is elected, there is nothing to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connections {
    /// Port of introspection on the member's address.
    pub port: NonZeroU16,
    /// Whether the port speaks TLS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// Connections that it does without, as in [`Probe::NodeStatus`]: a type, or a type and a name.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub optional: BTreeSet<String>,
    /// Seconds for which a connection has to be down in every look before it counts as lost. Default: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<u32>,
    /// Connections, by type and name, whose server has to complete TLS handshakes with the member's certificate, for a daemon that does not notice
    /// when the server it is connected to falls silent. Default: no server is asked.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub servers: BTreeSet<String>,
    /// Ports of introspection of its further workers, each of which has connections of its own and speaks as the first one does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<NonZeroU16>,
}

/// What a daemon reads of the Kubernetes API, with a token of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reads {
    /// The file with the token.
    pub token: String,
    /// Paths of the lists.
    pub lists: BTreeSet<String>,
    /// Where the daemon connects to, if that is an address. A name is looked up by the daemon alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<SocketAddr>,
}

/// The number of workers where a launch file states none.
pub const fn one_worker() -> NonZeroU32 {
    NonZeroU32::MIN
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one_worker(workers: &NonZeroU32) -> bool {
    *workers == one_worker()
}
