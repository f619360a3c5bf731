//! Webui: what the operator owns and reads. The desired state is in [`plan`], each daemon in a file of [`daemons`], what they are stated by and the files that both
//! read in [`cluster`], what they connect to in [`services`], who may log in in [`login`], and what `status.serviceStatus` says of them in `service_status`.

pub mod cluster;
pub mod daemons;
pub mod login;
pub mod plan;
mod service_status;
pub mod services;

use tf_api::{
    Webui,
    contract::ConditionType,
    kinds::{ANALYTICS, CASSANDRA, CONFIG, CONTROL, REDIS, WEBUI},
};
use tf_plan::{
    component::{self, Agents},
    credentials::Credential,
    declaration::{Declaration, Owned, PeerKind, Read},
    dependency::Dependency,
    keystone::Keystone,
    not_ready::NotReady,
    object::{CONFIG_MAP, Kind, POD_DISRUPTION_BUDGET, SECRET, SERVICE, SERVICE_ACCOUNT, STATEFUL_SET},
    observed::Observed,
    plan::{Availability, Plan},
    procedure::AgentReport,
    references::References,
};

/// Name of the operator.
pub const OPERATOR: &str = "webui-op";

/// The Webui component.
pub struct Component;

impl component::Component for Component {
    type Cr = Webui;

    /// Members are independent of each other (docs/upstream/daemons.md#members).
    const AVAILABILITY: Availability = Availability::Any;

    fn declaration() -> Declaration {
        let own = |kind, reason| Owned { kind, reason };
        let peer = |kind, condition, reason| PeerKind { kind: Kind::custom(kind), condition, reason };
        Declaration {
            operator: OPERATOR,
            primary: Kind::custom(WEBUI),
            owned: vec![
                own(SERVICE_ACCOUNT, "identity of the members, without a token"),
                own(SECRET, "generated password of the one user, and the configuration files that hold it and others"),
                own(CONFIG_MAP, "configuration files of the members and the discovery of their endpoint"),
                own(SERVICE, "names of the members, and one address in front of them"),
                own(POD_DISRUPTION_BUDGET, "at most one member is evicted at a time"),
                own(STATEFUL_SET, "the members"),
            ],
            peers: vec![
                peer(CONFIG, ConditionType::ConfigApiReady, "the configuration is shown and changed through it"),
                peer(CASSANDRA, ConditionType::CassandraReady, "its tables are shown"),
                peer(REDIS, ConditionType::RedisReady, "sessions and jobs are kept in it"),
                peer(CONTROL, ConditionType::ControlReady, "its DNS is shown"),
                peer(ANALYTICS, ConditionType::CollectorReady, "its API has alarms, flows and the state of daemons"),
            ],
            reads: vec![
                Read::Nodes { reason: "members are chosen from nodes and use their addresses" },
                Read::Secrets {
                    reason: "connection Secrets of services, and the password of Keystone or of the one user",
                },
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

    fn references(cr: &Webui) -> References {
        References { secrets: login::referenced(cr).map(str::to_owned).into_iter().collect(), ..References::default() }
    }

    fn login(cr: &Webui, observed: &Observed<Webui>) -> Option<Keystone> {
        let keystone = Keystone::named(cr, observed)?;
        // The web UI has one port for users and for itself.
        Some(Keystone { port: keystone.public_port, ..keystone })
    }

    fn dependencies(cr: &Webui) -> Vec<Dependency> {
        services::dependencies(cr)
    }

    fn credentials(cr: &Webui) -> Vec<Credential> {
        login::credentials(cr)
    }

    fn agents(cr: &Webui, cluster_domain: &str) -> Option<Agents> {
        Some(plan::agents(cr, cluster_domain))
    }

    fn agent_report(cr: &Webui, observed: &Observed<Webui>) -> Option<AgentReport> {
        daemons::MEMBERS.agent_report(cr, observed)
    }

    fn plan(cr: &Webui, observed: &Observed<Webui>) -> Result<Plan, NotReady> {
        plan::plan(cr, observed)
    }
}
