//! Config: what the operator owns and reads. The desired state is in [`plan`], each daemon in a file of [`daemons`], what they are stated by in [`cluster`], what
//! they connect to in [`services`], what is in the resource's own API in `registration`.

pub mod cluster;
pub mod daemons;
pub mod plan;
mod registration;
pub mod services;

use tf_api::{
    Config,
    contract::ConditionType,
    kinds::{ANALYTICS, CASSANDRA, CONFIG, RABBITMQ, ZOOKEEPER},
};
use tf_plan::{
    component::{self, Agents},
    declaration::{Declaration, Owned, PeerKind, Read},
    dependency::Dependency,
    keystone::{self, Keystone},
    not_ready::NotReady,
    object::{CONFIG_MAP, Kind, POD_DISRUPTION_BUDGET, SECRET, SERVICE, SERVICE_ACCOUNT, STATEFUL_SET},
    observed::Observed,
    plan::{Availability, Plan},
    procedure::AgentReport,
    references::References,
};

/// Name of the operator.
pub const OPERATOR: &str = "config-op";

/// The Config component.
pub struct Component;

impl component::Component for Component {
    type Cr = Config;

    /// Every member serves the whole API (docs/upstream/daemons.md#members).
    const AVAILABILITY: Availability = Availability::Any;

    fn declaration() -> Declaration {
        let own = |kind, reason| Owned { kind, reason };
        let peer = |kind, condition, reason| PeerKind { kind: Kind::custom(kind), condition, reason };
        Declaration {
            operator: OPERATOR,
            primary: Kind::custom(CONFIG),
            owned: vec![
                own(SERVICE_ACCOUNT, "identity of the members, without a token"),
                own(SECRET, "configuration files that hold passwords"),
                own(CONFIG_MAP, "configuration files of the members and the discovery of their endpoints"),
                own(SERVICE, "the name of the API and names of the members"),
                own(POD_DISRUPTION_BUDGET, "at most one member is evicted at a time"),
                own(STATEFUL_SET, "the members"),
            ],
            peers: vec![
                peer(CASSANDRA, ConditionType::CassandraReady, "the configuration is stored in it"),
                peer(ZOOKEEPER, ConditionType::ZookeeperReady, "elections and identifiers are kept in it"),
                peer(RABBITMQ, ConditionType::RabbitmqReady, "changes are announced over it"),
                peer(ANALYTICS, ConditionType::CollectorReady, "the daemons report to its collectors"),
            ],
            reads: vec![
                Read::Nodes { reason: "members are chosen from nodes and use their addresses" },
                Read::Secrets { reason: "connection Secrets of services, and the password of Keystone" },
                Read::ConfigMaps { reason: "endpoints of services that the spec names" },
            ],
            restarts_pods: true,
            calls_agents: true,
            grant: None,
            deregisters: false,
            marks_nodes: false,
            further: Vec::new(),
        }
    }

    fn references(cr: &Config) -> References {
        keystone::references(cr)
    }

    fn login(cr: &Config, observed: &Observed<Config>) -> Option<Keystone> {
        Keystone::named(cr, observed)
    }

    fn dependencies(cr: &Config) -> Vec<Dependency> {
        services::dependencies(cr)
    }

    fn agents(cr: &Config, cluster_domain: &str) -> Option<Agents> {
        plan::agents(cr, cluster_domain).ok()
    }

    fn agent_report(cr: &Config, observed: &Observed<Config>) -> Option<AgentReport> {
        daemons::MEMBERS.agent_report(cr, observed)
    }

    fn plan(cr: &Config, observed: &Observed<Config>) -> Result<Plan, NotReady> {
        plan::plan(cr, observed)
    }
}
