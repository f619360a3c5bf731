//! Rabbitmq: a cluster of RabbitMQ servers.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    common::{Container, PodConfiguration},
    contract::Status,
    ports,
    schema::{Port, Sensitive, distinct, rule},
};

/// A RabbitMQ cluster.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tf.tungsten.io",
    version = "v1alpha1",
    kind = "Rabbitmq",
    plural = "rabbitmqs",
    shortname = "tfmq",
    namespaced,
    status = "RabbitmqStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A RabbitMQ cluster: the message bus that carries changes of the configuration."
)]
#[serde(rename_all = "camelCase", default)]
pub struct RabbitmqSpec {
    /// Settings common to the pods of every kind.
    pub common_configuration: PodConfiguration,
    /// Suspends reconciling while true; status is still updated.
    pub paused: bool,
    /// Release of the images: a tag as the registry lists it (`24.1`, `R21.4`, `latest`). Tags before 24 are taken from `tungstenfabric/contrail-*`, others from
    /// `opensdn/opensdn-*`; `tungstenfabric-TAG` and `opensdn-TAG` state which. Default: `latest`.
    #[schemars(length(max = 63))]
    pub version: Option<String>,
    /// Settings of RabbitMQ.
    pub service_configuration: RabbitmqConfiguration,
}

/// Which members hold a copy of a classic queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MirroredQueueMode {
    /// A given number of members.
    Exactly,
    /// Every member.
    All,
    /// Named members.
    Nodes,
}

/// What members do when the cluster falls apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartitionHandling {
    /// Nothing.
    Ignore,
    /// The smaller part restarts once the network is back.
    #[default]
    Autoheal,
    /// The smaller part stops serving while it is cut off.
    PauseMinority,
}

/// Options of RabbitMQ's listening sockets, under the names of `rabbitmq.conf`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TcpListenOptions {
    /// Connections that may wait to be accepted. Default: the server's.
    #[schemars(range(min = 1, max = 65535))]
    pub backlog: Option<u32>,
    /// Whether an error on the socket closes it when the connection ends. Default: the server's.
    pub exit_on_close: Option<bool>,
    /// Whether closing waits for unsent data. Default: the server's.
    pub linger_on: Option<bool>,
    /// Seconds that closing waits for unsent data. Default: the server's.
    #[schemars(range(min = 0, max = 65535))]
    pub linger_timeout: Option<u32>,
    /// Whether small packets are sent at once. Default: the server's.
    pub nodelay: Option<bool>,
}

/// Settings of RabbitMQ.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rule("self.port <= 45535", "port must be at most 45535: management uses the port 10000 above it and the cluster the port 20000 above it"),
    distinct("[self.port, self.port + 10000, self.port + 20000, self.erlEpmdPort]", "erlEpmdPort must differ from port, port + 10000 (management) and port + 20000 (cluster)"),
]))]
pub struct RabbitmqConfiguration {
    /// Containers to run, with image and command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub containers: Vec<Container>,
    /// Port for AMQP over TLS. Management uses port + 10000, the cluster itself port + 20000.
    pub port: Port,
    /// Port of the Erlang port mapper.
    pub erl_epmd_port: Port,
    /// Secret the members recognise each other by. Default: a random one in a Secret of the operator.
    #[schemars(length(max = 255), regex(pattern = r"^[!-~]*$"))]
    pub erlang_cookie: Option<Sensitive>,
    /// Name that clients log in with. Default: a random one in the Secret.
    #[schemars(length(max = 255))]
    pub user: Option<String>,
    /// Password that clients log in with. Default: a random one in the Secret. Better given there, not here.
    pub password: Option<Sensitive>,
    /// Virtual host that clients use. Default: a random one in the Secret.
    #[schemars(length(max = 255))]
    pub vhost: Option<String>,
    /// Secret with user, password and vhost of the clients. Default: the resource's name followed by -secret.
    #[schemars(length(max = 253))]
    pub secret: Option<String>,
    /// Which members hold a copy of a classic queue; only servers before 4.0 mirror. Default all.
    pub mirrored_queue_mode: Option<MirroredQueueMode>,
    /// What members do when the cluster falls apart.
    pub cluster_partition_handling: PartitionHandling,
    /// Options of the listening sockets.
    pub tcp_listen_options: Option<TcpListenOptions>,
    /// Where TLS is spoken beside the ports for clients and management, where nothing else is. Default: between the members of a
    /// cluster that is founded.
    pub tls: Option<RabbitmqTls>,
}

/// Where members speak TLS that need not, with their own certificates.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RabbitmqTls {
    /// Whether the members speak TLS with each other (Erlang distribution), on port + 20000. It can change while the cluster hibernates.
    /// Default: as it is, and true for a cluster that is founded.
    pub distribution: Option<bool>,
}

impl Default for RabbitmqConfiguration {
    fn default() -> Self {
        Self {
            containers: Vec::new(),
            port: ports::RABBITMQ_AMQP,
            erl_epmd_port: ports::RABBITMQ_EPMD,
            erlang_cookie: None,
            user: None,
            password: None,
            vhost: None,
            secret: None,
            mirrored_queue_mode: None,
            cluster_partition_handling: PartitionHandling::default(),
            tcp_listen_options: None,
            tls: None,
        }
    }
}

/// Status of a Rabbitmq.
pub type RabbitmqStatus = Status<RabbitmqOwnStatus>;

/// Fields only Rabbitmq has.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RabbitmqOwnStatus {
    /// Name of the Secret with user, password and vhost of the clients.
    pub secret: Option<String>,
    /// Highest identity that a member was ever given; none is given twice.
    pub highest_id: Option<u32>,
    /// Identities of members that are on their way out of the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<u32>,
    /// How the members speak with each other. It changes while the cluster hibernates alone.
    pub distribution: Option<RabbitmqDistribution>,
}

/// How members speak with each other (Erlang distribution).
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RabbitmqDistribution {
    /// Whether they speak TLS.
    pub tls: Option<bool>,
    /// Number of processes by which each of them calls the others (`delegate_count`).
    pub delegates: Option<u32>,
}
