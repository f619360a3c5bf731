//! Kubemanager: what the operator owns and reads. The desired state is in [`plan`], the daemon in a file of [`daemons`], what it is stated by in [`cluster`], what
//! it connects to in [`services`], its settings for the Kubernetes cluster in [`kubernetes`] and for objects of the config API in [`objects`], its token in
//! [`token`].

pub mod cluster;
pub mod daemons;
pub mod kubernetes;
pub mod objects;
pub mod plan;
pub mod services;
pub mod token;

use tf_api::{
    Kubemanager,
    contract::ConditionType,
    kinds::{ANALYTICS, CASSANDRA, CONFIG, KUBEMANAGER, RABBITMQ, ZOOKEEPER},
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
pub const OPERATOR: &str = "kubemanager-op";

/// The Kubemanager component.
pub struct Component;

impl component::Component for Component {
    type Cr = Kubemanager;

    /// One member is at work, the others wait for their turn (docs/upstream/daemons.md#members).
    const AVAILABILITY: Availability = Availability::Any;

    fn declaration() -> Declaration {
        let own = |kind, reason| Owned { kind, reason };
        let peer = |kind, condition, reason| PeerKind { kind: Kind::custom(kind), condition, reason };
        let mut reads = vec![
            Read::Nodes { reason: "members are chosen from nodes and use their addresses" },
            Read::Secrets {
                reason: "connection Secrets of services, the daemon's token, and the password of Keystone",
            },
            Read::ConfigMaps { reason: "endpoints of services that the spec names" },
        ];
        reads.extend(tf_plan::cluster::reads("name, subnets and API server of the cluster, for the daemon"));
        Declaration {
            operator: OPERATOR,
            primary: Kind::custom(KUBEMANAGER),
            owned: vec![
                own(SERVICE_ACCOUNT, "identity of the members, and that of the daemon towards the Kubernetes API"),
                own(SECRET, "token of the daemon, and the configuration files that hold it and passwords"),
                own(CONFIG_MAP, "configuration files of the members"),
                own(SERVICE, "names of the members"),
                own(POD_DISRUPTION_BUDGET, "at most one member is evicted at a time"),
                own(STATEFUL_SET, "the members"),
            ],
            peers: vec![
                peer(CASSANDRA, ConditionType::CassandraReady, "the configuration is read from it"),
                peer(ZOOKEEPER, ConditionType::ZookeeperReady, "the daemon is elected in it"),
                peer(RABBITMQ, ConditionType::RabbitmqReady, "delivers changes"),
                peer(CONFIG, ConditionType::ConfigApiReady, "networks, ports and policies are made in it"),
                peer(ANALYTICS, ConditionType::CollectorReady, "the daemon reports to its collectors"),
            ],
            reads,
            restarts_pods: true,
            calls_agents: true,
            grant: Some(token::grant()),
            deregisters: false,
            marks_nodes: false,
            further: Vec::new(),
        }
    }

    fn references(cr: &Kubemanager) -> References {
        let mut references = keystone::references(cr);
        references.secrets.push(token::secret(cr));
        references
    }

    fn login(cr: &Kubemanager, observed: &Observed<Kubemanager>) -> Option<Keystone> {
        Keystone::named(cr, observed)
    }

    fn dependencies(cr: &Kubemanager) -> Vec<Dependency> {
        services::dependencies(cr)
    }

    fn agents(cr: &Kubemanager, cluster_domain: &str) -> Option<Agents> {
        Some(plan::agents(cr, cluster_domain))
    }

    fn agent_report(cr: &Kubemanager, observed: &Observed<Kubemanager>) -> Option<AgentReport> {
        daemons::MEMBERS.agent_report(cr, observed)
    }

    fn plan(cr: &Kubemanager, observed: &Observed<Kubemanager>) -> Result<Plan, NotReady> {
        plan::plan(cr, observed)
    }
}
