//! Cassandra: what the operator owns and reads. The desired state is in [`plan`], file contents are in [`config`], which
//! of the two databases a ring is in [`role`], where it keeps its data in [`directory`], what it has to itself on its nodes in
//! [`conflicts`], its ports are in [`ports`], what clients log in with is in [`login`], which members are its seeds in [`seeds`], what is special about one that the Go tf-operator made in `takeover`, who they are in `membership`, what is done to members that run in
//! `procedure`, what from time to time in `maintenance`, backups are in `backup`, and what a new ring begins with in `restore`.

mod backup;
pub mod config;
pub mod conflicts;
pub mod directory;
pub mod login;
mod maintenance;
mod membership;
pub mod plan;
pub mod ports;
mod procedure;
mod restore;
pub mod role;
pub mod seeds;
mod takeover;
#[cfg(test)]
mod whole;

use tf_api::{
    Cassandra,
    contract::ConditionType,
    kinds::{ANALYTICS, CASSANDRA},
};
use tf_plan::{
    component::{self, Agents},
    credentials::{Credential, Generator},
    declaration::{Declaration, Owned, PeerKind, Read},
    dependency::Dependency,
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
pub const OPERATOR: &str = "cassandra-op";

/// The Cassandra component.
pub struct Component;

impl component::Component for Component {
    type Cr = Cassandra;

    fn declaration() -> Declaration {
        let own = |kind, reason| Owned { kind, reason };
        Declaration {
            operator: OPERATOR,
            primary: Kind::custom(CASSANDRA),
            owned: vec![
                own(SERVICE_ACCOUNT, "identity of the members, without a token"),
                own(
                    SECRET,
                    "passwords of the members' key stores and of clients, configuration files that hold them, and what clients connect with",
                ),
                own(CONFIG_MAP, "configuration files of the members and the discovery of their endpoints"),
                own(SERVICE, "names of the members"),
                own(POD_DISRUPTION_BUDGET, "at most one member is evicted at a time"),
                own(PERSISTENT_VOLUME_CLAIM, "volumes of the members, where the spec asks for claims; they stay"),
                own(STATEFUL_SET, "the members"),
            ],
            peers: vec![PeerKind {
                kind: Kind::custom(ANALYTICS),
                condition: ConditionType::CollectorReady,
                reason: "node managers report to its collectors",
            }],
            reads: vec![
                Read::Nodes { reason: "members are chosen from nodes and use their addresses" },
                Read::ConfigMaps {
                    reason: "endpoints of collectors that the spec names, and the authority that servers of the Go tf-operator trust",
                },
            ],
            restarts_pods: true,
            calls_agents: true,
            grant: None,
            deregisters: false,
            marks_nodes: false,
            further: Vec::new(),
        }
    }

    fn dependencies(cr: &Cassandra) -> Vec<Dependency> {
        plan::dependencies(cr)
    }

    fn credentials(cr: &Cassandra) -> Vec<Credential> {
        let password = |key| Credential::new(plan::passwords_name(cr), key, Generator::Alphanumeric { length: 24 });
        let stores = [plan::KEYSTORE_PASSWORD, plan::TRUSTSTORE_PASSWORD].map(password);
        stores.into_iter().chain(login::credential(cr)).collect()
    }

    fn references(cr: &Cassandra) -> References {
        let (login, takeover) = (login::references(cr), takeover::references(cr));
        References {
            secrets: [login.secrets, takeover.secrets].concat(),
            config_maps: [login.config_maps, takeover.config_maps].concat(),
        }
    }

    fn agents(cr: &Cassandra, cluster_domain: &str) -> Option<Agents> {
        plan::agents(cr, cluster_domain).ok()
    }

    fn agent_report(cr: &Cassandra, observed: &Observed<Cassandra>) -> Option<AgentReport> {
        procedure::RING.agent_report(cr, observed)
    }

    fn plan(cr: &Cassandra, observed: &Observed<Cassandra>) -> Result<Plan, NotReady> {
        plan::plan(cr, observed)
    }
}
