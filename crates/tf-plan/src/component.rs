//! The contract between a component and the runtime: everything a component is, as pure functions.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use tf_agent_api::launch::{self, Unusable};
use tf_api::{Managed, contract::Reason, schema::Port};
use tf_pki::member::{Member, OPERATOR_DOMAIN, service_names};

use crate::{
    build::identity::Identity,
    certificates,
    credentials::Credential,
    declaration::Declaration,
    dependency::Dependency,
    keystone::Keystone,
    not_ready::NotReady,
    observed::Observed,
    plan::{Availability, Plan},
    procedure::AgentReport,
    references::References,
};

/// How the node agents of a resource's pods are reached, and what their certificates say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agents {
    /// Port on the pods' addresses.
    pub port: Port,
    /// Names of the services that the pods are part of, beside their own and their nodes'.
    pub services: BTreeSet<String>,
    /// The address of the pod on each of these nodes besides its own, in a data network.
    pub addresses: BTreeMap<String, IpAddr>,
    /// Seconds a certificate is good for.
    pub lifetime_seconds: u32,
    /// DNS name of the operator that may ask them.
    pub client: String,
}

/// How far above the port for clients that of the node agent is, where the spec has no field for it.
const AGENT_ABOVE: u16 = 10_020;

impl Agents {
    /// The port above the one for clients that a field of `serviceConfiguration` has.
    ///
    /// # Errors
    /// `InvalidSpec` when there is none so high.
    pub fn port_above(field: &str, clients: Port) -> Result<Port, NotReady> {
        clients.get().checked_add(AGENT_ABOVE).map(Port).ok_or_else(|| {
            let highest = u16::MAX - AGENT_ABOVE;
            NotReady::invalid(
                Reason::InvalidSpec,
                format!(
                    "serviceConfiguration.{field} has to be at most {highest}: node agents use the port {AGENT_ABOVE} above it"
                ),
            )
        })
    }

    /// Those of the members that an operator runs for a resource, on this port.
    pub fn of<Cr: Managed>(operator: &'static str, cr: &Cr, port: Port, cluster_domain: &str) -> Self {
        let service = Identity::of(operator, cr).members_service();
        Self {
            port,
            services: BTreeSet::from(service_names(&service, cr.home(), cluster_domain)),
            addresses: BTreeMap::new(),
            lifetime_seconds: certificates::lifetime_seconds(cr.common()),
            client: Self::client(operator),
        }
    }

    /// The name by which agents know an operator.
    pub fn client(operator: &str) -> String {
        format!("{operator}.{OPERATOR_DOMAIN}")
    }

    /// The agent API of a pod, for a launch file.
    ///
    /// # Errors
    /// When the port cannot be one.
    pub fn api(&self) -> Result<Option<launch::Agent>, Unusable> {
        Ok(Some(launch::Agent { port: launch::port("agent.port", self.port)?, client: self.client.clone() }))
    }

    /// Who a pod on a node is, as far as its certificate goes. `own`: the pod's address.
    pub fn member(&self, pod: &str, node: &str, own: IpAddr) -> Member {
        Member {
            pod: pod.to_owned(),
            node: node.to_owned(),
            addresses: self.addresses.get(node).copied().into_iter().chain([own]).collect(),
            services: self.services.clone(),
            lifetime_seconds: self.lifetime_seconds,
        }
    }

    /// The certificate of a pod, for a launch file. Its daemon does not start without one, looks itself for another one, and does not use the
    /// node's files.
    pub fn certificate(&self) -> launch::Identity {
        launch::Identity {
            services: self.services.clone(),
            lifetime_seconds: self.lifetime_seconds,
            required: true,
            host_files: None,
            reload: None,
            at_start: false,
        }
    }
}

/// One operator's component. The runtime observes, calls these functions and acts; a component does no I/O.
pub trait Component: Send + Sync + 'static {
    /// The custom resource.
    type Cr: Managed;

    /// How many ready members make the service usable.
    const AVAILABILITY: Availability = Availability::Majority;

    /// What the component owns and reads.
    fn declaration() -> Declaration;

    /// Objects the spec refers to besides dependencies.
    fn references(cr: &Self::Cr) -> References {
        let _ = cr;
        References::default()
    }

    /// As whom the resource's pods log in at Keystone, so that the runtime can ask whether that is let in; none where they do not, and where
    /// the plan says what the login lacks.
    fn login(cr: &Self::Cr, observed: &Observed<Self::Cr>) -> Option<Keystone> {
        let _ = (cr, observed);
        None
    }

    /// Services the resource needs.
    fn dependencies(cr: &Self::Cr) -> Vec<Dependency> {
        let _ = cr;
        Vec::new()
    }

    /// Credentials that must exist before planning. The runtime generates what is missing and never changes what exists.
    fn credentials(cr: &Self::Cr) -> Vec<Credential> {
        let _ = cr;
        Vec::new()
    }

    /// How the agents of the resource's pods are reached; none for components whose pods have no certificates. The domain is
    /// that of cluster services.
    fn agents(cr: &Self::Cr, cluster_domain: &str) -> Option<Agents> {
        let _ = (cr, cluster_domain);
        None
    }

    /// What the agents of the resource's pods report: for its status, while there is no plan. None where they have not reported yet, and for
    /// components without agents.
    fn agent_report(cr: &Self::Cr, observed: &Observed<Self::Cr>) -> Option<AgentReport> {
        let _ = (cr, observed);
        None
    }

    /// The desired state, or why there is none yet. Deterministic.
    fn plan(cr: &Self::Cr, observed: &Observed<Self::Cr>) -> Result<Plan, NotReady>;
}
