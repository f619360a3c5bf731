//! Analytics: what the operator owns and reads, for each of its kinds. A kind has a folder: its desired state in `plan`, what a member
//! runs in `containers`, file contents in `config`, how the daemons are run in `launch`. What the kinds share is beside them: what the
//! daemons connect to in [`services`], parts of files in [`config`], of launch files in [`launch`], what is done to members that run in
//! `procedure`, what they are in the config API in `registration`.

pub mod analytics;
pub mod config;
pub mod launch;
mod procedure;
mod registration;
pub mod services;

use tf_api::{
    KindInfo,
    contract::ConditionType,
    kinds::{CASSANDRA, CONFIG, RABBITMQ, REDIS, ZOOKEEPER},
};
use tf_plan::{
    component::Component as _,
    declaration::{Declaration, Owned, PeerKind, Read},
    object::{CONFIG_MAP, Kind, POD_DISRUPTION_BUDGET, SECRET, SERVICE, SERVICE_ACCOUNT, STATEFUL_SET},
};

pub use analytics::Component as Analytics;

/// Name of the operator.
pub const OPERATOR: &str = "analytics-op";

/// What the operator owns and reads for all of its kinds.
pub fn declared() -> Declaration {
    Declaration::joined([Analytics::declaration()])
}

/// What the component of a kind owns and reads, besides `peers` of its own.
fn declaration(kind: KindInfo, peers: Vec<PeerKind>) -> Declaration {
    let own = |kind, reason| Owned { kind, reason };
    let shared = [
        peer(
            CASSANDRA,
            ConditionType::CassandraReady,
            "the configuration is read from it, and analytics are stored in it",
        ),
        peer(ZOOKEEPER, ConditionType::ZookeeperReady, "the daemons share out their work in it"),
        peer(RABBITMQ, ConditionType::RabbitmqReady, "changes of the configuration are heard over it"),
        peer(REDIS, ConditionType::RedisReady, "the current state of everything is kept in it"),
        peer(CONFIG, ConditionType::ConfigApiReady, "the daemons and the operator ask it"),
    ];
    Declaration {
        operator: OPERATOR,
        primary: Kind::custom(kind),
        owned: vec![
            own(SERVICE_ACCOUNT, "identity of the members, without a token"),
            own(SECRET, "configuration files that hold passwords"),
            own(CONFIG_MAP, "configuration files of the members and the discovery of their endpoints"),
            own(SERVICE, "the name of the API and names of the members"),
            own(POD_DISRUPTION_BUDGET, "at most one member is evicted at a time"),
            own(STATEFUL_SET, "the members"),
        ],
        peers: shared.into_iter().chain(peers).collect(),
        reads: vec![
            Read::Nodes { reason: "members are chosen from nodes and use their addresses" },
            Read::Secrets { reason: "connection Secrets of services, and the password of Keystone" },
            Read::ConfigMaps { reason: "endpoints of services that the spec names" },
        ],
        restarts_pods: true,
        calls_agents: true,
        grant: None,
        deregisters: true,
        further: Vec::new(),
    }
}

const fn peer(kind: KindInfo, condition: ConditionType, reason: &'static str) -> PeerKind {
    PeerKind { kind: Kind::custom(kind), condition, reason }
}
