//! RabbitMQ: what the operator owns and reads.
//!
//! The desired state is in [`plan`], who the members are to each other in [`nodes`], what a running cluster keeps in
//! [`pinned`], what is special about one that the Go tf-operator made in `takeover`, what clients log in with in [`login`], who comes and goes in `membership`, what is done to members that run in `procedure`; file
//! contents are in [`config`], [`definitions`] and [`distribution`].

pub mod config;
mod conflicts;
pub mod definitions;
pub mod distribution;
pub mod login;
mod membership;
#[cfg(test)]
mod model;
pub mod nodes;
pub mod pinned;
pub mod plan;
pub mod ports;
mod procedure;
mod takeover;

use tf_api::{Rabbitmq, kinds::RABBITMQ};
use tf_plan::{
    component::{self, Agents},
    credentials::Credential,
    declaration::{Declaration, Owned, Read},
    not_ready::NotReady,
    object::{
        CONFIG_MAP, Kind, PERSISTENT_VOLUME_CLAIM, POD_DISRUPTION_BUDGET, SECRET, SERVICE, SERVICE_ACCOUNT,
        STATEFUL_SET,
    },
    observed::Observed,
    plan::Plan,
    procedure::AgentReport,
    references::References,
};

/// Name of the operator.
pub const OPERATOR: &str = "rabbitmq-op";

/// The RabbitMQ component.
pub struct Component;

impl component::Component for Component {
    type Cr = Rabbitmq;

    fn declaration() -> Declaration {
        let own = |kind, reason| Owned { kind, reason };
        Declaration {
            operator: OPERATOR,
            primary: Kind::custom(RABBITMQ),
            owned: vec![
                own(SERVICE_ACCOUNT, "identity of the members, without a token"),
                own(
                    SECRET,
                    "generated credentials, files of the members that hold them, and what clients connect with",
                ),
                own(CONFIG_MAP, "configuration files of the members and the discovery of their endpoints"),
                own(SERVICE, "names of the members"),
                own(POD_DISRUPTION_BUDGET, "at most one member is evicted at a time"),
                own(PERSISTENT_VOLUME_CLAIM, "volumes of the members, where the spec asks for claims; they stay"),
                own(STATEFUL_SET, "the members"),
            ],
            peers: Vec::new(),
            reads: vec![
                Read::Nodes { reason: "members are chosen from nodes and use their addresses" },
                Read::ConfigMaps {
                    reason: "files of a cluster that the Go tf-operator made, and the authority that its clients trust",
                },
                Read::Secrets { reason: "spec.serviceConfiguration.secret may name one with the clients' credentials" },
            ],
            restarts_pods: true,
            calls_agents: true,
            grant: None,
            deregisters: false,
            marks_nodes: false,
            further: Vec::new(),
        }
    }

    fn references(cr: &Rabbitmq) -> References {
        let mut references = pinned::references(cr);
        references.secrets.extend(login::foreign_secret(cr).map(str::to_owned));
        let takeover = takeover::references(cr);
        references.secrets.extend(takeover.secrets);
        references.config_maps.extend(takeover.config_maps);
        references
    }

    fn credentials(cr: &Rabbitmq) -> Vec<Credential> {
        login::credentials(cr)
    }

    fn agents(cr: &Rabbitmq, cluster_domain: &str) -> Option<Agents> {
        plan::agents(cr, cluster_domain)
    }

    fn agent_report(cr: &Rabbitmq, observed: &Observed<Rabbitmq>) -> Option<AgentReport> {
        procedure::CLUSTER.agent_report(cr, observed)
    }

    fn plan(cr: &Rabbitmq, observed: &Observed<Rabbitmq>) -> Result<Plan, NotReady> {
        plan::plan(cr, observed)
    }
}
