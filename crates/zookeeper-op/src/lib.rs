//! ZooKeeper: what the operator owns and reads. The desired state is in [`plan`], file contents are in [`config`].

pub mod certificates;
pub mod config;
mod conflicts;
pub mod membership;
pub mod modes;
pub mod observe;
pub mod plan;
mod ports;
mod procedure;
pub mod quorum_tls;

use tf_api::{Zookeeper, kinds::ZOOKEEPER};
use tf_plan::{
    component::{self, Agents},
    credentials::{Credential, Generator},
    declaration::{Declaration, Owned, Read},
    not_ready::NotReady,
    object::{
        CONFIG_MAP, Kind, PERSISTENT_VOLUME_CLAIM, POD_DISRUPTION_BUDGET, SECRET, SERVICE, SERVICE_ACCOUNT,
        STATEFUL_SET,
    },
    observed::Observed,
    plan::Plan,
    procedure::{AgentReport, agent_report},
};

/// Name of the operator.
pub const OPERATOR: &str = "zookeeper-op";

/// The ZooKeeper component.
pub struct Component;

impl component::Component for Component {
    type Cr = Zookeeper;

    fn declaration() -> Declaration {
        let own = |kind, reason| Owned { kind, reason };
        Declaration {
            operator: OPERATOR,
            primary: Kind::custom(ZOOKEEPER),
            owned: vec![
                own(SERVICE_ACCOUNT, "identity of the members, without a token"),
                own(SECRET, "the password by which agents change the list of members, and the file that knows it"),
                own(CONFIG_MAP, "configuration files of the members and the discovery of their endpoints"),
                own(SERVICE, "names of the members"),
                own(POD_DISRUPTION_BUDGET, "at most one member is evicted at a time"),
                own(PERSISTENT_VOLUME_CLAIM, "volumes of the members, where the spec asks for claims; they stay"),
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

    fn credentials(cr: &Zookeeper) -> Vec<Credential> {
        vec![Credential::new(plan::super_secret(cr), plan::PASSWORD, Generator::Alphanumeric { length: 32 })]
    }

    fn agents(cr: &Zookeeper, cluster_domain: &str) -> Option<Agents> {
        Some(plan::agents(cr, cluster_domain))
    }

    fn agent_report(cr: &Zookeeper, observed: &Observed<Zookeeper>) -> Option<AgentReport> {
        agent_report(plan::DAEMON, cr, observed)
    }

    fn plan(cr: &Zookeeper, observed: &Observed<Zookeeper>) -> Result<Plan, NotReady> {
        plan::plan(cr, observed)
    }
}
