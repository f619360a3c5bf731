//! Analytics: what the operator owns and reads, for each of its kinds. Collectors and the API have a folder, [`analytics`], the others a file:
//! [`query_engine`], [`snmp`], [`alarm`]. Each daemon has a file of [`daemons`]. What the kinds share is beside them: what the daemons connect to in [`services`],
//! what plans have in common in [`member`], what two of them have in [`reporting`], parts of files in [`config`], who is let in at the API's port for
//! administration in [`login`], what they are in the config API in `registration`.

pub mod alarm;
pub mod analytics;
pub mod config;
pub mod daemons;
pub mod login;
pub mod member;
pub mod query_engine;
mod registration;
pub mod reporting;
pub mod services;
pub mod snmp;

use tf_api::{KindInfo, contract::ConditionType};
use tf_plan::{
    component::Component as _,
    declaration::{Declaration, Owned, PeerKind, Read},
    object::{CONFIG_MAP, Kind, POD_DISRUPTION_BUDGET, SECRET, SERVICE, SERVICE_ACCOUNT, STATEFUL_SET},
};

pub use alarm::Component as AnalyticsAlarm;
pub use analytics::Component as Analytics;
pub use query_engine::Component as QueryEngine;
pub use snmp::Component as AnalyticsSnmp;

/// Name of the operator.
pub const OPERATOR: &str = "analytics-op";

/// What the operator owns and reads for all of its kinds.
pub fn declared() -> Declaration {
    Declaration::joined([
        Analytics::declaration(),
        AnalyticsAlarm::declaration(),
        AnalyticsSnmp::declaration(),
        QueryEngine::declaration(),
    ])
}

/// What the component of a kind owns and reads.
fn declaration(kind: KindInfo, peers: Vec<PeerKind>) -> Declaration {
    let own = |kind, reason| Owned { kind, reason };
    Declaration {
        operator: OPERATOR,
        primary: Kind::custom(kind),
        owned: vec![
            own(SERVICE_ACCOUNT, "identity of the members, without a token"),
            own(
                SECRET,
                "generated password of the API, what clients connect with, and configuration files that hold passwords",
            ),
            own(CONFIG_MAP, "configuration files of the members and the discovery of their endpoints"),
            own(SERVICE, "the name of the API and names of the members"),
            own(POD_DISRUPTION_BUDGET, "at most one member is evicted at a time"),
            own(STATEFUL_SET, "the members"),
        ],
        peers,
        reads: vec![
            Read::Nodes { reason: "members are chosen from nodes and use their addresses" },
            Read::Secrets { reason: "connection Secrets of services, and the password of Keystone" },
            Read::ConfigMaps { reason: "endpoints of services that the spec names" },
        ],
        restarts_pods: true,
        calls_agents: true,
        grant: None,
        deregisters: true,
        marks_nodes: false,
        further: Vec::new(),
    }
}

const fn peer(kind: KindInfo, condition: ConditionType, reason: &'static str) -> PeerKind {
    PeerKind { kind: Kind::custom(kind), condition, reason }
}
