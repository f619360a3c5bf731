//! Redis: what the operator owns and reads.
//!
//! The desired state is in [`plan`], file contents are in [`config`] and [`sentinel`], the ports of a member in [`ports`], what clients log in
//! with in [`password`], what the servers are to each other in [`mode`], what is done to members that run in `procedure`, and in
//! `replication` where they copy one of them.

pub mod config;
pub mod mode;
#[cfg(test)]
mod model;
pub mod password;
pub mod plan;
pub mod ports;
mod procedure;
mod replication;
pub mod sentinel;

use tf_api::{Redis, kinds::REDIS};
use tf_plan::{
    component::{self, Agents},
    credentials::Credential,
    declaration::{Declaration, Owned, Read},
    not_ready::NotReady,
    object::{CONFIG_MAP, Kind, POD_DISRUPTION_BUDGET, SECRET, SERVICE, SERVICE_ACCOUNT, STATEFUL_SET},
    observed::Observed,
    plan::{Availability, Plan},
    procedure::AgentReport,
};

/// Name of the operator.
pub const OPERATOR: &str = "redis-op";

/// The Redis component.
pub struct Component;

impl component::Component for Component {
    type Cr = Redis;

    /// Whoever uses a server that serves is served. Where members copy one of them the plan says when nobody takes writes.
    const AVAILABILITY: Availability = Availability::Any;

    fn declaration() -> Declaration {
        let own = |kind, reason| Owned { kind, reason };
        Declaration {
            operator: OPERATOR,
            primary: Kind::custom(REDIS),
            owned: vec![
                own(SERVICE_ACCOUNT, "identity of the members, without a token"),
                own(SECRET, "generated password, files of the members that hold it, and what clients connect with"),
                own(CONFIG_MAP, "configuration files of the members and the discovery of their endpoints"),
                own(SERVICE, "names of the members"),
                own(POD_DISRUPTION_BUDGET, "at most one member is evicted at a time"),
                own(STATEFUL_SET, "the members"),
            ],
            peers: Vec::new(),
            reads: vec![Read::Nodes { reason: "members are chosen from nodes and use their addresses" }],
            restarts_pods: true,
            calls_agents: true,
            grant: None,
            deregisters: false,
            marks_nodes: false,
            further: Vec::new(),
        }
    }

    fn credentials(cr: &Redis) -> Vec<Credential> {
        password::credentials(cr)
    }

    fn agents(cr: &Redis, cluster_domain: &str) -> Option<Agents> {
        plan::agents(cr, cluster_domain).ok()
    }

    fn agent_report(cr: &Redis, observed: &Observed<Redis>) -> Option<AgentReport> {
        procedure::agent_report(cr, observed)
    }

    fn plan(cr: &Redis, observed: &Observed<Redis>) -> Result<Plan, NotReady> {
        plan::plan(cr, observed)
    }
}
