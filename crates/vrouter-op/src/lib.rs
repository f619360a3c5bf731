//! The vRouter: what the operator owns and reads. The desired state is in [`plan`], file contents are in [`config`], how
//! daemons are run in [`launch`], what the spec's settings are called by the agent's image is in [`parameters`].

pub mod config;
pub mod dpdk;
pub mod groups;
pub mod launch;
pub mod parameters;
pub mod plan;
pub mod pods;
pub mod profiles;
pub mod registration;
pub mod removal;
pub mod services;
mod strategy;
pub mod taint;

use tf_api::{
    Vrouter,
    contract::ConditionType,
    kinds::{ANALYTICS, CONFIG, CONTROL, VROUTER, VROUTER_PROFILE},
};
use tf_plan::{
    cluster,
    component::{self, Agents},
    declaration::{Declaration, Owned, PeerKind, Read},
    dependency::Dependency,
    not_ready::NotReady,
    object::{CONFIG_MAP, DAEMON_SET, Kind, SECRET, SERVICE_ACCOUNT},
    observed::Observed,
    plan::{Availability, Plan},
    procedure::{AgentReport, agent_report_of_nodes},
    references::References,
};

use crate::parameters::Parameters;

/// Name of the operator.
pub const OPERATOR: &str = "vrouter-op";

/// The vRouter component.
pub struct Component;

impl component::Component for Component {
    type Cr = Vrouter;

    /// An agent serves its own node.
    const AVAILABILITY: Availability = Availability::Any;

    fn declaration() -> Declaration {
        let own = |kind, reason| Owned { kind, reason };
        let peer = |kind, condition, reason| PeerKind { kind: Kind::custom(kind), condition, reason };
        let mut reads = vec![
            Read::Nodes { reason: "which nodes groups select, by their labels: those are in the config API" },
            Read::Secrets { reason: "the password of Keystone's administrator, where the spec names a Secret" },
            Read::ConfigMaps { reason: "endpoints of services that no operator runs, and those last in use" },
            Read::Specs { kind: Kind::custom(VROUTER_PROFILE), reason: "settings of groups that name a profile" },
        ];
        reads.extend(cluster::reads("name and pod subnets of the cluster, for the CNI plugin and the agents"));
        Declaration {
            operator: OPERATOR,
            primary: Kind::custom(VROUTER),
            owned: vec![
                own(SERVICE_ACCOUNT, "identity of the agents, without a token"),
                own(CONFIG_MAP, "configuration files of agents and CNI plugin, and the services in use"),
                own(SECRET, "configuration files with secrets and the variables of the spec"),
                own(DAEMON_SET, "one agent on every node of a group"),
            ],
            peers: vec![
                peer(CONTROL, ConditionType::ControlReady, "addresses of the control nodes and DNS servers"),
                peer(CONFIG, ConditionType::ConfigApiReady, "addresses of the config API, where agents are registered"),
                peer(ANALYTICS, ConditionType::CollectorReady, "addresses of the collectors"),
            ],
            reads,
            restarts_pods: true,
            calls_agents: true,
            grant: None,
            deregisters: true,
            marks_nodes: true,
            further: Vec::new(),
        }
    }

    fn references(cr: &Vrouter) -> References {
        References {
            secrets: plan::password_secret(cr).map(str::to_owned).into_iter().collect(),
            config_maps: vec![services::map_name(&plan::identity(cr))],
        }
    }

    fn dependencies(cr: &Vrouter) -> Vec<Dependency> {
        services::dependencies(cr)
    }

    fn agents(cr: &Vrouter, _: &str) -> Option<Agents> {
        plan::agents(cr, &Parameters::of(cr, None).ok()?).ok()
    }

    fn agent_report(_: &Vrouter, observed: &Observed<Vrouter>) -> Option<AgentReport> {
        agent_report_of_nodes(pods::AGENT, observed)
    }

    fn plan(cr: &Vrouter, observed: &Observed<Vrouter>) -> Result<Plan, NotReady> {
        plan::plan(cr, observed)
    }
}
