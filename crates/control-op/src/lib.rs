//! Control: what the operator owns and reads. The desired state is in [`plan`], each daemon in a file of [`daemons`], what they are stated by in [`cluster`], what
//! they connect to in [`services`], their ports in [`ports`], the key between DNS daemon and name server in [`key`], which addresses they use in [`network`], what
//! members are in the config API in `registration`.

pub mod cluster;
pub mod daemons;
pub mod key;
pub mod network;
pub mod plan;
pub mod ports;
mod registration;
pub mod services;

use tf_api::{
    Control,
    contract::ConditionType,
    kinds::{ANALYTICS, CASSANDRA, CONFIG, CONTROL, RABBITMQ},
};
use tf_plan::{
    component::{self, Agents},
    credentials::Credential,
    declaration::{Declaration, Owned, PeerKind, Read},
    dependency::Dependency,
    keystone,
    not_ready::NotReady,
    object::{CONFIG_MAP, Kind, POD_DISRUPTION_BUDGET, SECRET, SERVICE, SERVICE_ACCOUNT, STATEFUL_SET},
    observed::Observed,
    plan::{Availability, Plan},
    procedure::AgentReport,
    references::References,
};

/// Name of the operator.
pub const OPERATOR: &str = "control-op";

/// The Control component.
pub struct Component;

impl component::Component for Component {
    type Cr = Control;

    /// An agent that loses one control node has another one (docs/upstream/daemons.md#members).
    const AVAILABILITY: Availability = Availability::Any;

    fn declaration() -> Declaration {
        let own = |kind, reason| Owned { kind, reason };
        let peer = |kind, condition, reason| PeerKind { kind: Kind::custom(kind), condition, reason };
        Declaration {
            operator: OPERATOR,
            primary: Kind::custom(CONTROL),
            owned: vec![
                own(SERVICE_ACCOUNT, "identity of the members, without a token"),
                own(SECRET, "generated key of the name server, and configuration files that hold it or passwords"),
                own(CONFIG_MAP, "configuration files of the members and the discovery of their endpoints"),
                own(SERVICE, "names of the members"),
                own(POD_DISRUPTION_BUDGET, "at most one member is evicted at a time"),
                own(STATEFUL_SET, "the members"),
            ],
            peers: vec![
                peer(CASSANDRA, ConditionType::CassandraReady, "the configuration is read from it"),
                peer(RABBITMQ, ConditionType::RabbitmqReady, "delivers changes"),
                peer(
                    CONFIG,
                    ConditionType::ConfigApiReady,
                    "it creates the database that is read, and members are registered in its API",
                ),
                peer(ANALYTICS, ConditionType::CollectorReady, "the daemons report to its collectors"),
            ],
            reads: vec![
                Read::Nodes { reason: "members are chosen from nodes and use their addresses" },
                Read::Secrets {
                    reason: "connection Secrets of services, and the password of Keystone's administrator",
                },
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

    fn references(cr: &Control) -> References {
        keystone::references(cr)
    }

    fn dependencies(cr: &Control) -> Vec<Dependency> {
        services::dependencies(cr)
    }

    fn credentials(cr: &Control) -> Vec<Credential> {
        key::credentials(cr)
    }

    fn agents(cr: &Control, cluster_domain: &str) -> Option<Agents> {
        plan::agents(cr, cluster_domain).ok()
    }

    fn agent_report(cr: &Control, observed: &Observed<Control>) -> Option<AgentReport> {
        daemons::MEMBERS.agent_report(cr, observed)
    }

    fn plan(cr: &Control, observed: &Observed<Control>) -> Result<Plan, NotReady> {
        plan::plan(cr, observed)
    }
}
