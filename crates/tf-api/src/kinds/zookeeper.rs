//! Zookeeper: an ensemble of ZooKeeper servers.

use std::time::Duration;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    common::{Container, PodConfiguration},
    contract::Status,
    ports,
    schema::{Port, rule},
};

/// How long ZooKeeper keeps a session without a sign of its client, and with it the election znodes of a daemon that was killed, unless a
/// Zookeeper sets `maxSessionTimeout`. With 30 s the next daemon is elected in less than 40 s, also where ZooKeeper's leader is lost with the
/// elected one and starts every session again; four of five sessions outlast 40 s without ZooKeeper (measured, ADR 0067).
pub const SESSION_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// A ZooKeeper ensemble.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tf.tungsten.io",
    version = "v1alpha1",
    kind = "Zookeeper",
    plural = "zookeepers",
    shortname = "tfzk",
    namespaced,
    status = "ZookeeperStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A ZooKeeper ensemble: coordination, elections and identifier allocation for Tungsten Fabric."
)]
#[serde(rename_all = "camelCase", default)]
pub struct ZookeeperSpec {
    /// Settings common to the pods of every kind.
    pub common_configuration: PodConfiguration,
    /// Suspends reconciling while true; status is still updated.
    pub paused: bool,
    /// Release of the images: a tag as the registry lists it (`24.1`, `R21.4`, `latest`). Tags before 24 are taken from `tungstenfabric/contrail-*`, others from
    /// `opensdn/opensdn-*`; `tungstenfabric-TAG` and `opensdn-TAG` state which. Default: `latest`.
    #[schemars(length(max = 63))]
    pub version: Option<String>,
    /// Settings of ZooKeeper.
    pub service_configuration: ZookeeperConfiguration,
}

/// Settings of ZooKeeper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [rule("self.clientPort != self.electionPort && self.clientPort != self.serverPort \
    && self.electionPort != self.serverPort && (!self.adminEnabled || !(self.adminPort in [self.clientPort, self.electionPort, self.serverPort]))", "clientPort, electionPort, serverPort and adminPort must differ from each other"),
    rule("!has(self.tls) || !has(self.tls.clientPort) || !(self.tls.clientPort in [self.clientPort, self.electionPort, self.serverPort] \
    || self.adminEnabled && self.tls.clientPort == self.adminPort || has(self.agentPort) && self.tls.clientPort == self.agentPort)",
    "tls.clientPort must differ from the other ports"),
    rule("!has(self.metricsPort) || !(self.metricsPort in [self.clientPort, self.electionPort, self.serverPort]) \
    && !(self.adminEnabled && self.metricsPort == self.adminPort) && !(has(self.agentPort) && self.metricsPort == self.agentPort) \
    && !(has(self.tls) && has(self.tls.clientPort) && self.metricsPort == self.tls.clientPort)",
    "metricsPort must differ from the other ports"),
    rule("!has(self.tls) || has(self.tls.clientPort) || self.tls.plainClients == 'Everywhere'",
    "tls.plainClients: Node needs tls.clientPort, or no other client could connect"),
    rule("!has(self.tls) || has(self.tls.clientPort) || self.tls.clientAuthentication == 'None'",
    "tls.clientAuthentication needs tls.clientPort, where clients show certificates"),
    rule("!has(self.minSessionTimeout) || self.minSessionTimeout <= (has(self.maxSessionTimeout) ? self.maxSessionTimeout : 120000)",
    "minSessionTimeout must not be longer than maxSessionTimeout, nor than 120000 where that is not set")]))]
pub struct ZookeeperConfiguration {
    /// Containers to run, with image and command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub containers: Vec<Container>,
    /// Port for clients.
    pub client_port: Port,
    /// Port for followers of the leader (ZooKeeper's quorum port).
    pub election_port: Port,
    /// Port for leader election.
    pub server_port: Port,
    /// Whether the AdminServer answers on adminPort.
    pub admin_enabled: bool,
    /// Port of the AdminServer.
    pub admin_port: Port,
    /// Port on which the members' node agents answer the operator, over mutual TLS. Default: the first port from clientPort + 2
    /// on that is used for nothing else here, which is 2183.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_port: Option<Port>,
    /// Port on which each server tells its metrics, at `/metrics` for Prometheus: plain HTTP that asks for no password, on the
    /// member's address. Default: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_port: Option<Port>,
    /// Where TLS is spoken. Default: nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ZookeeperTls>,
    /// Milliseconds of a tick, which initLimit and syncLimit count in. Default: 2000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 60_000))]
    pub tick_time: Option<u32>,
    /// Ticks that a server has to connect to the leader and to copy what it lacks. More are needed where data is large.
    /// Default: 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub init_limit: Option<u32>,
    /// Ticks that a server may be behind the leader before it is dropped. Default: 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub sync_limit: Option<u32>,
    /// Connections that one address may have with one server; 0 for any number. Default: 60.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_client_cnxns: Option<u32>,
    /// Milliseconds that a session lasts at least without a sign of its client. Default: two ticks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 86_400_000))]
    pub min_session_timeout: Option<u32>,
    /// Milliseconds that a session lasts at most without a sign of its client. Clients of Tungsten Fabric ask for up to 400 s.
    /// Default: 30000, or more where minSessionTimeout or two ticks are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 86_400_000))]
    pub max_session_timeout: Option<u32>,
    /// Snapshots that are kept, with the logs since the oldest of them. Default: 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 3, max = 1000))]
    pub snap_retain_count: Option<u32>,
    /// Hours between two removals of older snapshots and logs. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 8760))]
    pub purge_interval: Option<u32>,
}

impl ZookeeperConfiguration {
    /// Milliseconds that a session lasts at most. A server does not start where this is less than the minimum, which is two ticks unless it is
    /// set (upstream `QuorumPeerConfig.java`, `parseProperties`).
    pub fn session_timeout(&self) -> u32 {
        let shortest = self.min_session_timeout.unwrap_or_else(|| self.tick_time.unwrap_or_default().saturating_mul(2));
        let default = u32::try_from(SESSION_TIMEOUT_DEFAULT.as_millis()).unwrap_or(u32::MAX);
        self.max_session_timeout.unwrap_or_else(|| default.max(shortest))
    }
}

/// Where an ensemble speaks TLS, with the members' own certificates.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ZookeeperTls {
    /// Whether the servers speak TLS with each other, on electionPort and serverPort. A running ensemble changes over while it
    /// serves.
    pub quorum: bool,
    /// A further port for clients that speak TLS. Default: there is none.
    pub client_port: Option<Port>,
    /// From where clients that speak no TLS may connect, on clientPort of the settings. A running ensemble changes over while it
    /// serves; connections that are open go on.
    pub plain_clients: PlainClients,
    /// Whether clients that speak TLS have to show a certificate of the namespace's authority. ZooKeeper then knows them by its
    /// subject, for access lists of the scheme `x509`.
    pub client_authentication: ClientAuthentication,
}

/// From where clients that speak no TLS may connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PlainClients {
    /// From wherever the member's address can be reached.
    #[default]
    Everywhere,
    /// From the member's own node: the port is on the loopback address alone.
    Node,
}

/// Whether clients that speak TLS show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ClientAuthentication {
    /// They are asked for none.
    #[default]
    None,
    /// They are asked for one and let in without; one that is not good is refused.
    Request,
    /// They are refused without one.
    Require,
}

impl Default for ZookeeperConfiguration {
    fn default() -> Self {
        Self {
            containers: Vec::new(),
            client_port: ports::ZOOKEEPER_CLIENT,
            election_port: ports::ZOOKEEPER_QUORUM,
            server_port: ports::ZOOKEEPER_ELECTION,
            admin_enabled: true,
            admin_port: ports::ZOOKEEPER_ADMIN,
            agent_port: None,
            metrics_port: None,
            tls: None,
            tick_time: None,
            init_limit: None,
            sync_limit: None,
            max_client_cnxns: None,
            min_session_timeout: None,
            max_session_timeout: None,
            snap_retain_count: None,
            purge_interval: None,
        }
    }
}

/// Status of a Zookeeper.
pub type ZookeeperStatus = Status<ZookeeperOwnStatus>;

/// Fields only Zookeeper has.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ZookeeperOwnStatus {
    /// Ports in use, as the Go tf-operator published them.
    pub ports: Option<ZookeeperPorts>,
    /// Highest identity that a member was ever given; none is given twice.
    pub highest_id: Option<u32>,
    /// The list of members as the last quorum that was heard of had it.
    pub ensemble: Option<ListedMembers>,
    /// Members that are on their way out of the ensemble.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<LeavingMember>,
    /// How the servers speak with each other. Absent while that is plain TCP.
    pub quorum_tls: Option<Modes<QuorumTlsMode>>,
    /// Which certificates the servers show and trust. Absent while those are of the operators' authority alone.
    pub certificates: Option<Modes<CertificatesMode>>,
}

/// A running ensemble changes over through neighbouring modes, one at a time.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Modes<M: Default> {
    /// The mode that members are configured for.
    pub mode: M,
    /// The mode that some of them may still run in.
    pub from: Option<M>,
}

/// What a server accepts from the others, and what it begins connections with. Servers of neighbouring modes understand each
/// other.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::Display,
)]
pub enum QuorumTlsMode {
    /// Plain TCP alone.
    #[default]
    Plain,
    /// Accepts TLS, too.
    Accepted,
    /// Accepts both and begins with TLS.
    Preferred,
    /// TLS alone.
    Required,
}

/// Which certificate a server shows and which it trusts. Servers of neighbouring modes trust what the others show.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::Display,
)]
pub enum CertificatesMode {
    /// Shows and trusts those of the operators' authority.
    #[default]
    Issued,
    /// Shows one of the operators' authority, and trusts those of the nodes' files, too.
    HostTrusted,
    /// Shows that of its node's files, and trusts both.
    Host,
}

/// A list of members.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListedMembers {
    /// Its version, in hexadecimal as ZooKeeper shows it.
    pub version: String,
    /// Servers that have a vote.
    pub members: Vec<ListedMember>,
    /// Their ports, named as in the settings.
    pub ports: Option<ListedPorts>,
}

/// Ports of the servers in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListedPorts {
    /// For clients.
    pub client_port: Port,
    /// Of the leader for those that follow.
    pub election_port: Port,
    /// For elections.
    pub server_port: Port,
}

/// A server with a vote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListedMember {
    /// Its identity.
    pub id: u32,
    /// Its address.
    pub address: String,
}

/// A member on its way out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LeavingMember {
    /// Its identity.
    pub id: u32,
    /// Version of the list of members, in hexadecimal as ZooKeeper shows it, when that was decided.
    pub since_version: String,
}

/// Ports in use, as text.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ZookeeperPorts {
    /// Client port, where clients on other nodes reach it.
    pub client_port: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(change: impl FnOnce(&mut ZookeeperConfiguration)) -> u32 {
        let mut spec = ZookeeperConfiguration::default();
        change(&mut spec);
        spec.session_timeout()
    }

    #[test]
    fn what_the_spec_sets_is_the_longest_session() {
        assert_eq!(session(|_| {}), 30_000);
        assert_eq!(session(|spec| spec.max_session_timeout = Some(120_000)), 120_000);
        assert_eq!(session(|spec| spec.max_session_timeout = Some(5_000)), 5_000);
    }

    #[test]
    fn the_default_is_not_shorter_than_the_shortest_session_with_which_servers_would_not_start() {
        assert_eq!(session(|spec| spec.min_session_timeout = Some(120_000)), 120_000);
        assert_eq!(session(|spec| spec.min_session_timeout = Some(100)), 30_000);
        assert_eq!(session(|spec| spec.tick_time = Some(60_000)), 120_000);
        let both = |spec: &mut ZookeeperConfiguration| {
            (spec.tick_time, spec.min_session_timeout) = (Some(60_000), Some(100));
        };
        assert_eq!(session(both), 30_000);
    }
}
