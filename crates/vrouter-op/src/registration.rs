//! What agents are in the config API: each a virtual-router by the agent's own name and address, and in it the interface `vhost0` in the
//! network between the nodes (docs/upstream/config-api.md#virtual-router; upstream `provision_vrouter.py`).
//!
//! Who an agent is, its node agent reads from its file. As long as no agent of the resource can be asked it is taken for who its Node is,
//! unless the spec says that it may be another one. Nothing here waits for an agent to serve: it cannot before it is registered.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tf_agent_api::vrouter::Facts;
use tf_api::{
    Vrouter,
    contract::{ConditionType, Endpoint, Protocol, Reason},
};
use tf_config_api::{
    decide::{Scope, Wanted, Within},
    record::{FqName, Ownership, Property, Record, Reference, Setting},
    types::{self, SUB_CLUSTER, VIRTUAL_MACHINE_INTERFACE, VIRTUAL_NETWORK, VIRTUAL_ROUTER},
};
use tf_plan::{
    connection::Connection,
    not_ready::NotReady,
    observed::{Node, Observed, Pod},
    plan::Plan,
    registration::{
        self,
        client::{self, Client},
    },
    reports::{AgentCoverage, Reports},
};

use crate::{
    config::clients,
    groups::Group,
    parameters::{Name, Parameters},
    services::{API, Services},
};

/// The interface of a node in the overlay's network.
const VHOST0: &str = "vhost0";
/// Variables that make an agent another one than its Node (`tf-node`, `local::facts`).
const HOSTNAME: &str = "VROUTER_HOSTNAME";
const ADDRESS: &str = "VROUTER_COMPUTE_NODE_ADDRESS";

/// What agents are registered from.
pub struct Inputs<'a> {
    /// The resource.
    pub cr: &'a Vrouter,
    /// The snapshot.
    pub observed: &'a Observed<Vrouter>,
    /// Its groups.
    pub groups: &'a [Group<'a>],
    /// What the spec says where that is the same for every group.
    pub parameters: &'a Parameters,
    /// What it says of each group, in their order.
    pub sets: &'a [Parameters],
    /// Where the config API is.
    pub services: &'a Services,
}

/// Agents that shall be in the API, and names of those that stay if they are.
#[derive(Default)]
struct Agents {
    /// By their nodes, with the number of the group.
    wanted: BTreeMap<String, (usize, Facts)>,
    kept: BTreeSet<String>,
}

/// Adds to a plan what agents are in the config API; nothing where nobody asks for one.
///
/// # Errors
/// When the spec says what cannot be.
pub fn complete(plan: &mut Plan, world: &Inputs<'_>) -> Result<(), NotReady> {
    let Some(connection) = world.connection(plan)? else { return Ok(()) };
    let (nodes, pods) = match (world.observed.nodes.known(), world.observed.pods.known()) {
        (Ok(nodes), Ok(pods)) => (nodes, pods),
        (Err(why), _) | (_, Err(why)) => {
            client::impossible(plan, why.message.clone());
            return Ok(());
        }
    };
    let agents = world.agents(nodes, pods);
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    for (node, (_, facts)) in &agents.wanted {
        if let Some(other) = names.insert(&facts.name, node) {
            let why = format!(
                "the agents of nodes {other} and {node} are both called {}, and the config API tells agents by their names; take \
                 {HOSTNAME} out of envVariablesConfig, or give each of them a Vrouter of its own",
                facts.name
            );
            client::impossible(plan, why);
            return Ok(());
        }
    }
    let wanted = world.wanted(&agents)?;
    Client { connection: &connection, endpoint: API }.register(plan, world.cr, world.observed, wanted);
    if let Some(registration) = &mut plan.registration {
        registration.is_early = Reports::of_observed(world.observed).clarity() == AgentCoverage::Polling;
    }
    Ok(())
}

impl Inputs<'_> {
    /// Where the API is; none where nobody asks for one.
    fn connection(&self, plan: &Plan) -> Result<Option<Connection>, NotReady> {
        let nodes = self.services.config_hosts(self.parameters);
        let is_api = |kind| kind == ConditionType::ConfigApiReady;
        let is_requested = plan.drafts.iter().any(|it| is_api(it.kind) && it.reason != Reason::NotRequested);
        if nodes.is_empty() && !is_requested {
            return Ok(None);
        }
        let published = self.services.config.as_ref().filter(|_| self.parameters.items(Name::ConfigNodes).is_empty());
        let tls = published.map_or_else(|| clients::api_tls(self.parameters), |config| Ok(config.tls(API)))?;
        let protocol = if tls { Protocol::Https } else { Protocol::Http };
        let port = self.services.config_port(self.parameters)?;
        let endpoint = Endpoint { name: API.into(), protocol, port, tls, nodes, ..Endpoint::default() };
        let endpoints = BTreeMap::from([(API.to_owned(), endpoint)]);
        let credentials = published.map(|config| config.credentials.clone()).unwrap_or_default();
        Ok(Some(Connection { endpoints, credentials, ..Connection::default() }))
    }

    /// A node has an agent if a group selects it and a pod is there. One that is selected keeps what it has while there is none, and one
    /// that is not as long as its agent serves.
    fn agents(&self, nodes: &[Node], pods: &[Pod]) -> Agents {
        let reports = Reports::of_observed(self.observed);
        let is_blind = reports.clarity() == AgentCoverage::Unobserved;
        let on: BTreeMap<&str, &Pod> = pods.iter().filter_map(|pod| Some((pod.node.as_deref()?, pod))).collect();
        let mut agents = Agents::default();
        for node in nodes {
            let pod = on.get(node.name.as_str());
            let group = self.group_of(node);
            let told = pod.and_then(|pod| reports.of(pod)?.vrouter.clone());
            let facts = told.or_else(|| self.assumed(node).filter(|_| is_blind && pod.is_some()));
            match group.zip(facts) {
                Some(agent) => {
                    agents.wanted.insert(node.name.clone(), agent);
                }
                None if group.is_some() || pod.is_some_and(|pod| pod.ready) => {
                    agents.kept.insert(self.usual_name(node));
                }
                None => {}
            }
        }
        agents
    }

    /// The number of the group that selects a node.
    fn group_of(&self, node: &Node) -> Option<usize> {
        self.groups.iter().position(|group| group.placement.matches(node))
    }

    /// What the spec says of a node.
    fn of(&self, node: &Node) -> &Parameters {
        self.group_of(node).and_then(|group| self.sets.get(group)).unwrap_or(self.parameters)
    }

    /// What an agent is called that nobody has heard.
    fn usual_name(&self, node: &Node) -> String {
        let parameters = self.of(node);
        let options = parameters.agent_options();
        let option = options.iter().find(|option| option.section == "DEFAULT" && option.key == "agent_name");
        let stated = option.map(|option| &option.value).or_else(|| parameters.variables().get(HOSTNAME));
        stated.filter(|name| !name.is_empty()).unwrap_or(&node.name).clone()
    }

    /// Who an agent is that nobody can ask; none where the spec says that it has another address than its node.
    fn assumed(&self, node: &Node) -> Option<Facts> {
        let parameters = self.of(node);
        let elsewhere = parameters.is_set(Name::DataSubnet)
            || parameters.is_set(Name::L3mhCidr)
            || parameters.variables().get(ADDRESS).is_some_and(|address| !address.is_empty());
        let address = node.address.clone().filter(|_| !elsewhere)?;
        Some(Facts { name: self.usual_name(node), address })
    }

    fn wanted(&self, agents: &Agents) -> Result<Wanted, NotReady> {
        let sets: Vec<Registered<'_>> = self.sets.iter().map(Registered::of).collect::<Result<_, _>>()?;
        let (mut routers, mut interfaces) = (Vec::new(), Vec::new());
        for (group, agent) in agents.wanted.values() {
            let Some(set) = sets.get(*group) else { continue };
            routers.push(set.router(agent));
            // An agent that serves switches has no such interface (upstream `--disable_vhost_vmi`).
            interfaces.extend((!set.is_tsn).then(|| set.interface(agent)));
        }
        let scope = |kind, within, refers: &[_]| Scope { kind, within, refers: refers.to_vec(), may_stay: true };
        Ok(Wanted {
            owner: registration::owner(self.cr),
            scopes: vec![
                scope(VIRTUAL_ROUTER, Within::Object(types::system()), &[SUB_CLUSTER]),
                scope(VIRTUAL_MACHINE_INTERFACE, Within::Ours(VIRTUAL_ROUTER), &[VIRTUAL_NETWORK]),
            ],
            records: routers.into_iter().chain(interfaces).collect(),
            kept: agents.kept.iter().flat_map(|name| [types::in_system(name), interface_name(name)]).collect(),
        })
    }
}

/// What the agents of a group are registered with.
struct Registered<'a> {
    parameters: &'a Parameters,
    /// Whether they serve switches.
    is_tsn: bool,
    networks: BTreeMap<String, Value>,
}

impl<'a> Registered<'a> {
    fn of(parameters: &'a Parameters) -> Result<Self, NotReady> {
        let is_tsn = parameters.get(Name::TsnAgentMode).is_some();
        Ok(Self { parameters, is_tsn, networks: physical_networks(parameters)? })
    }

    fn router(&self, agent: &Facts) -> Record {
        let embedded = json!("embedded");
        let kind = if self.is_tsn { json!("tor-service-node") } else { embedded.clone() };
        let subcluster = self.parameters.get(Name::Subcluster);
        Record {
            kind: VIRTUAL_ROUTER,
            name: types::in_system(&agent.name),
            ownership: Ownership::Ours,
            properties: BTreeMap::from([
                ("virtual_router_ip_address", Property::Whole(Setting::stated(agent.address.clone()))),
                ("virtual_router_dpdk_enabled", Property::Whole(self.forwarding())),
                ("virtual_router_type", Property::Initial { value: kind, absent: embedded }),
                (
                    "virtual_router_sriov_physical_networks",
                    Property::Entries { list: "key_value_pair", key: "key", entries: self.networks.clone() },
                ),
            ]),
            references: subcluster
                .map(|name| Reference { kind: SUB_CLUSTER, to: vec![name.to_owned()], relaxed: false })
                .into_iter()
                .collect(),
        }
    }

    /// The kernel forwards, unless something else is stated.
    fn forwarding(&self) -> Setting {
        if self.parameters.is_dpdk() { Setting::stated(true) } else { Setting::usual(false) }
    }

    fn interface(&self, agent: &Facts) -> Record {
        // What kube-manager's policies are about (upstream `--enable_vhost_vmi_policy`).
        let has_policy = matches!(self.parameters.get(Name::CloudOrchestrator), None | Some("kubernetes" | "mesos"));
        Record {
            kind: VIRTUAL_MACHINE_INTERFACE,
            name: interface_name(&agent.name),
            ownership: Ownership::Ours,
            properties: BTreeMap::from([(
                "virtual_machine_interface_disable_policy",
                Property::Whole(Setting::usual(!has_policy)),
            )]),
            references: vec![Reference { kind: VIRTUAL_NETWORK, to: types::fabric(), relaxed: false }],
        }
    }
}

/// Interfaces by the physical networks that they are in.
fn physical_networks(parameters: &Parameters) -> Result<BTreeMap<String, Value>, NotReady> {
    const NETWORK: Name = Name::SriovPhysicalNetwork;
    if !parameters.is_set(NETWORK) || !parameters.is_set(Name::SriovPhysicalInterface) {
        return Ok(BTreeMap::new());
    }
    let (networks, interfaces) = (parameters.items(NETWORK), parameters.items(Name::SriovPhysicalInterface));
    let names: BTreeSet<&String> = networks.iter().collect();
    if networks.len() != interfaces.len() || names.len() != networks.len() {
        let hint = "use one network for each interface of sriovPhysicalInterface, each another one";
        return Err(parameters.invalid(NETWORK, hint));
    }
    let entry = |(network, interface): (String, String)| (network.clone(), json!({"key": network, "value": interface}));
    Ok(networks.into_iter().zip(interfaces).map(entry).collect())
}

fn interface_name(agent: &str) -> FqName {
    [types::in_system(agent), vec![VHOST0.to_owned()]].concat()
}
