//! What the node agent tells about the daemons of its pod: one state file per daemon, and the answer of the agent API.
//!
//! Files and answers are read by other versions than wrote them: unknown fields are ignored, new ones have a default.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::IpNet;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{cassandra, content::ContentHash, rabbitmq, redis, vrouter, zookeeper};

/// Where a daemon is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// It has not been started; [`State::message`] says what for.
    #[default]
    Waiting,
    /// It is about to be started.
    Starting,
    /// Its process runs.
    Running,
    /// It ended by itself and is started again in a while.
    BackOff,
    /// It has been asked to stop, or is out of service before that.
    Stopping,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It could not be started.
    NotStarted(String),
}

/// The last end of a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastExit {
    /// How.
    pub exit: Exit,
    /// When, by the node's clock.
    pub at: Timestamp,
}

/// Connections that are told of a daemon.
pub const CONNECTIONS: usize = 32;

/// The state of one daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// Where it is in its life.
    pub phase: Phase,
    /// Since when, by the node's clock.
    pub since: Timestamp,
    /// What is waited for or has gone wrong, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether its own agent has seen the process serve. Absent where there is nothing to see but that it runs, and where it is the daemon of the
    /// container whose agent answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serves: Option<bool>,
    /// Since when its own agent has seen its process serve without a break, by the node's clock. Absent where it does not serve, where there is
    /// nothing to see but that it runs, and where an agent of an earlier release reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serves_since: Option<Timestamp>,
    /// Why it does not serve although its process runs, as its own agent sees it. Absent where it serves, and where it is the daemon of the
    /// container whose agent answers ([`Status::health`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwell: Option<String>,
    /// What it is not connected to although it serves, as its own agent sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacks: Option<String>,
    /// Whether it serves as who takes over from the member that is elected, as its own agent sees it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub standby: bool,
    /// What it says that it is connected to, by type and name, and whether it is. At most [`CONNECTIONS`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub connections: BTreeMap<String, bool>,
    /// Its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Starts after the first one, since its container started.
    #[serde(default)]
    pub restarts: u32,
    /// Its last end since its container started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<LastExit>,
    /// The content it runs with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<ContentHash>,
    /// The content that the pod's annotation asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<ContentHash>,
    /// The content that is mounted, if it is another one than it runs with, and its process serves and would take it without being started anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes: Option<ContentHash>,
    /// Names the certificate and authorities that there were when its process started, if it starts with them: [`crate::content::content_hash`] of
    /// [`crate::node::CERTIFICATE`] and [`crate::node::TRUSTSTORE_PEM`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<ContentHash>,
    /// Version of the agent that runs it.
    #[serde(default)]
    pub version: String,
}

impl State {
    /// Why its process does not run, for people. None where it does.
    pub fn down(&self) -> Option<String> {
        let detail = self.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
        match self.phase {
            Phase::Waiting => Some(format!("not started yet{detail}")),
            Phase::Starting => Some("being started".to_owned()),
            Phase::Running => None,
            Phase::BackOff => Some(format!("{} and waits for its next start{detail}", self.ended())),
            Phase::Stopping => Some(format!("being stopped{detail}")),
        }
    }

    /// What is amiss with it, as the end of a sentence that begins with its name. It is that from when it is stopped until its process has begun, too: with
    /// another configuration it has that before it runs with it.
    pub fn amiss(&self) -> Option<String> {
        let unwell = || self.unwell.as_ref().map(|why| format!("does not serve: {why}"));
        self.down().map(|why| format!("does not run: {why}")).or_else(unwell)
    }

    fn ended(&self) -> String {
        match self.last_exit.as_ref().map(|last| &last.exit) {
            Some(Exit::Code(code)) => format!("ended with exit code {code}"),
            Some(Exit::Signal(signal)) => format!("ended by signal {signal}"),
            Some(Exit::NotStarted(_)) | None => "ended by itself".to_owned(),
        }
    }
}

/// The answer of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Whether the daemon serves.
    pub serves: bool,
    /// What the probe saw.
    pub message: String,
    /// Whether it serves as who takes over from the member that is elected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub standby: bool,
}

impl Health {
    /// Of a daemon that is at work, or of one that does not serve.
    pub fn new(serves: bool, message: impl Into<String>) -> Self {
        Self { serves, message: message.into(), standby: false }
    }
}

/// The member's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// First second that it is good. Absent where an agent of an earlier release says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Last second that it is good.
    pub not_after: Timestamp,
    /// Fingerprint of the authority that issued it (`tf_pki::fingerprint::Fingerprint`), 64 hexadecimal digits. Absent where
    /// the member trusts none that did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Number of the bundle of authorities that the member goes by; 0 where the bundle has none.
    #[serde(default)]
    pub revision: u64,
    /// Why the daemon does not go by a newer one that it has, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// Names the certificate and authorities that there are ([`State::certificate`]) where a daemon of the pod goes by others until it is started
    /// anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unused: Option<ContentHash>,
}

/// What became of the node's files ([`crate::node::HOST_FILES_DIR`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostFiles {
    /// First second that the certificate which was taken from them is good. Absent where none was, and where an agent of an earlier
    /// release says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Last second that the certificate which was taken from them is good. Absent where none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Timestamp>,
    /// Which of them cannot be used and why, for people. What was taken before stays in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Whether the daemon shows the certificate that was taken.
    #[serde(default)]
    pub shown: bool,
}

/// What a node has in a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// The network.
    pub network: IpNet,
    /// Addresses of the node's interfaces in it. At most [`ADDRESSES`].
    #[serde(default)]
    pub addresses: BTreeSet<IpAddr>,
}

/// Addresses of a node that are told: whoever asks wants to know of one, and whether it is the only one.
pub const ADDRESSES: usize = 16;

/// Answer to `GET /v1/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Version of the agent that answers.
    pub version: String,
    /// Name of the pod.
    pub pod: String,
    /// Name of the node.
    pub node: String,
    /// Address of the member.
    pub address: String,
    /// The daemons of the pod that are supervised at this moment. One whose container is down is not among them.
    pub daemons: BTreeMap<String, State>,
    /// Whether the daemon beside the agent serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// The certificate of a member that asks for one itself ([`crate::launch::Launch::identity`]), once it has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// What the next certificate is waited for, or why there is none, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The node's files, where the launch file says that they are used ([`crate::launch::Identity::host_files`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_files: Option<HostFiles>,
    /// What the node has in a network, where the launch file asks for that ([`crate::launch::Launch::network`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Which kernel settings of the node are not as they should be and why, for people ([`crate::launch::Launch::settings`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<String>,
    /// Which queues of the vRouter's hardware are not as they should be and why, for people ([`crate::launch::Launch::queues`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<String>,
    /// Why `vhost0` does not have the place of the physical interface, for people ([`crate::launch::Launch::vhost0`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vhost0: Option<String>,
    /// Facts about a ZooKeeper server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zookeeper: Option<zookeeper::Facts>,
    /// Facts about a RabbitMQ server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rabbitmq: Option<rabbitmq::Facts>,
    /// Facts about a Cassandra server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cassandra: Option<cassandra::Facts>,
    /// Facts about a Redis server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redis: Option<redis::Facts>,
    /// Who a vRouter's agent is, once its file is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vrouter: Option<vrouter::Facts>,
    /// The kernel module of a vRouter's node, where the loaded one is not as it should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<vrouter::Module>,
    /// Whether pods or virtual machines of a vRouter's node use the vRouter. None: the pod is that of another component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<bool>,
}

impl Status {
    /// Number of the member that the volume of the pod is of, if the pod is that of a store and its agent knows it.
    pub fn volume_of(&self) -> Option<u32> {
        let zookeeper = self.zookeeper.as_ref().map(|facts| facts.id).filter(|id| *id > 0);
        let cassandra = self.cassandra.as_ref().and_then(|facts| facts.owner);
        let rabbitmq = self.rabbitmq.as_ref().and_then(|facts| facts.owner);
        zookeeper.or(cassandra).or(rabbitmq)
    }
}
