//! Desired state of the control nodes.

use serde_json::{Map, Value, json};
use tf_agent_api::launch::file_name;
use tf_api::{
    Control, ControlConfiguration,
    common::AuthMode,
    contract::{Draft, Endpoint, MemberStatus, Protocol},
};
use tf_contrail::nodemanager::{self, NodeType};
use tf_plan::{
    build::{
        configuration::Files,
        pod::{Daemon, mount},
        publish,
    },
    certificates,
    component::Agents,
    dependency,
    ensemble::{Ensemble, Parts, Traits},
    hibernation, keystone,
    not_ready::NotReady,
    observed::Observed,
    plan::Plan,
    procedure, selection,
};

use crate::{
    OPERATOR,
    config::{self, Cluster, control, dns},
    containers::{self, BGP, CONTAINERS, CONTROL, DNS, DNS_INTROSPECT, LOGS, NAMED, XMPP},
    key::{self, Key},
    launch,
    network::{self, Network},
    ports,
    procedure::MEMBERS,
    registration,
    services::{self, Services},
};

/// Time for routes to be withdrawn and for sessions to end.
const GRACE_SECONDS: i64 = 60;

/// Plans the control nodes.
///
/// # Errors
/// When a service is not usable yet, an input is missing, there are no members to plan for, or the spec asks for what cannot
/// be.
pub fn plan(cr: &Control, observed: &Observed<Control>) -> Result<Plan, NotReady> {
    let (resolved, drafts) = dependency::resolve_for(&services::dependencies(cr), cr, observed);
    let desired = || {
        complete_list(&cr.spec.service_configuration)?;
        ports::check(&cr.spec.service_configuration)?;
        let services = Services::of(&resolved?)?;
        carry_out(cr, observed, &services, drafts.clone())
    };
    desired().map_err(|not_ready| not_ready.with_drafts(drafts.clone()))
}

/// A list of containers that leaves out what the others cannot do without.
fn complete_list(spec: &ControlConfiguration) -> Result<(), NotReady> {
    let lists = |container| containers::lists(spec, container);
    selection::require(&spec.containers, &[CONTROL])?;
    match (lists(DNS), lists(NAMED)) {
        (true, false) => Err(selection::lacks("named, which answers the queries for dns")),
        (false, true) => Err(selection::lacks("dns, without which named has no configuration")),
        _ => Ok(()),
    }
}

/// The plan, once everything it depends on is there.
fn carry_out(
    cr: &Control,
    observed: &Observed<Control>,
    services: &Services,
    drafts: Vec<Draft>,
) -> Result<Plan, NotReady> {
    let spec = &cr.spec.service_configuration;
    let mut ensemble = Ensemble::prepare(cr, observed, &Traits::without_data(OPERATOR, &CONTAINERS, &spec.containers))?;
    ensemble.membership.notes.extend(services.notes.iter().cloned());
    let network = Network::of(cr, &ensemble)?;
    let key = containers::serves_dns(spec).then(|| Key::of(cr, observed)).transpose()?;
    let cluster = Cluster {
        spec,
        log_level: cr.spec.common_configuration.log_level.unwrap_or_default(),
        services,
        key: key.as_ref(),
        network: &network,
    };
    let agents = agents(cr, &observed.operator.cluster_domain)?;
    let files = files(&ensemble, &cluster, &agents)?;
    let contents = files.content_hashes(ensemble.members());
    let daemons: Vec<Daemon> =
        ensemble.containers.iter().map(|chosen| containers::daemon(chosen, spec, agents.port)).collect();
    let kept = key.as_ref().and_then(Key::data);
    let parts = Parts {
        files,
        volumes: containers::volumes(&ensemble.identity, &ensemble.containers),
        owned_mounts: vec![mount(LOGS, config::LOG_DIR)],
        ports: daemons.iter().flat_map(|daemon| daemon.ports.clone()).collect(),
        daemons,
        objects: kept
            .map(|data| publish::credentials(&ensemble.identity, &key::secret(cr), &data))
            .into_iter()
            .collect(),
        endpoints: endpoints(&ensemble, spec, &network),
        grace_seconds: GRACE_SECONDS,
        ignored: ignored(cr, observed),
        drafts,
        own_status: own_status(spec),
        ..Parts::default()
    };
    let mut plan = ensemble.plan(parts)?;
    procedure::complete(&MEMBERS, &mut plan, cr, observed, &contents);
    procedure::reseat(&mut plan, observed);
    network.complete(&mut plan, cr, observed);
    registration::complete(&mut plan, cr, observed, services, &network);
    hibernation::finish(&mut plan);
    Ok(plan)
}

/// How members' agents are reached, and what members are called.
///
/// # Errors
/// `InvalidSpec` when there is no port for them.
pub fn agents(cr: &Control, cluster_domain: &str) -> Result<Agents, NotReady> {
    let agents = Agents::of(OPERATOR, cr, ports::agent(&cr.spec.service_configuration)?, cluster_domain);
    Ok(Agents { addresses: network::recorded(cr), ..agents })
}

/// What vRouters and routers connect to. The names of the first and the last are those that the vRouter's operator looks for.
fn endpoints(ensemble: &Ensemble<'_, Control>, spec: &ControlConfiguration, network: &Network) -> Vec<Endpoint> {
    let endpoint = |name: &str, protocol, port, tls| Endpoint {
        nodes: network.addresses(),
        ..ensemble.endpoint(name, protocol, port, tls)
    };
    let mut endpoints =
        vec![endpoint(XMPP, Protocol::Xmpp, spec.xmpp_port, true), endpoint(BGP, Protocol::Bgp, spec.bgp_port, false)];
    if containers::serves_dns(spec) {
        endpoints.push(endpoint(DNS, Protocol::Dns, spec.dns_port, false));
        // The web UI shows what is told there, at any address of the node.
        endpoints.push(ensemble.endpoint(DNS_INTROSPECT, Protocol::Https, spec.dns_introspect_port, true));
    }
    endpoints.retain(|endpoint| !endpoint.nodes.is_empty());
    endpoints
}

/// What the Go tf-operator published, all of it as text.
fn own_status(spec: &ControlConfiguration) -> Map<String, Value> {
    let text = |port: tf_api::schema::Port| port.get().to_string();
    let ports = json!({
        "bgpPort": text(spec.bgp_port),
        "xmppPort": text(spec.xmpp_port),
        "dnsPort": text(spec.dns_port),
        "dnsIntrospectPort": text(spec.dns_introspect_port),
    });
    let subcluster = spec.subcluster.as_ref().filter(|name| !name.is_empty());
    let mut status =
        Map::from_iter([("ports".to_owned(), ports), ("asnNumber".to_owned(), json!(spec.asn_number.to_string()))]);
    status.extend(subcluster.map(|name| ("subcluster".to_owned(), json!(name))));
    status
}

fn files(ensemble: &Ensemble<'_, Control>, cluster: &Cluster<'_>, agents: &Agents) -> Result<Files, NotReady> {
    let mut files = Files::default();
    for container in &ensemble.containers {
        files.shared(&file_name(container.name), launch::file(container.name, cluster, agents, None)?);
    }
    files.foreign(cluster.services.foreign());
    files.expect_secrets();
    for member in ensemble.members() {
        let address = &member.address;
        if let Some(beside) = cluster.network.beside(member) {
            for container in &ensemble.containers {
                let launch = launch::file(container.name, cluster, agents, Some(beside))?;
                files.member(&file_name(container.name), address, launch);
            }
        }
        // Without an address there is nothing to start them with.
        if let Some(used) = cluster.network.address(member) {
            let member = MemberStatus { address: used.to_owned(), ..member.clone() };
            files.member_secret(control::FILE, address, cluster.control(&member)?);
            if let Some(key) = cluster.key {
                files.member_secret(dns::FILE, address, cluster.dns(&member, key)?);
            }
        }
        if ensemble.container(nodemanager::CONTAINER.name).is_some() {
            let settings = nodemanager::Settings {
                node_type: NodeType::Control,
                log_level: cluster.log_level,
                collectors: cluster.services.analytics.as_ref(),
                database: None,
            };
            files.member(&NodeType::Control.file(), address, nodemanager::file(&settings, &member.node, address)?);
        }
    }
    Ok(files)
}

/// Fields of the spec that are set and have no effect.
fn ignored(cr: &Control, observed: &Observed<Control>) -> Vec<String> {
    let spec = &cr.spec.service_configuration;
    let usual = ControlConfiguration::default();
    let field = |name: &str, why: &str| format!("spec.serviceConfiguration.{name}: {why}");
    let of_dns = [
        (spec.dns_port != usual.dns_port, "dnsPort"),
        (spec.dns_introspect_port != usual.dns_introspect_port, "dnsIntrospectPort"),
        (spec.rndckey.as_ref().is_some_and(|key| !key.expose().is_empty()), "rndckey"),
    ];
    let of_dns = of_dns
        .into_iter()
        .filter(|(set, _)| *set && !containers::serves_dns(spec))
        .map(|(_, name)| field(name, "containers does not list dns and named"));
    let dependencies = dependency::ignored(&services::dependencies(cr), observed);
    let auth = cr.spec.common_configuration.auth_parameters.as_ref();
    let region = auth.filter(|auth| auth.auth_mode == Some(AuthMode::Keystone));
    let region = region.and_then(|auth| auth.keystone_auth_parameters.as_ref()?.region.as_ref());
    let region = region.map(|_| {
        let path = "spec.commonConfiguration.authParameters.keystoneAuthParameters.region";
        format!("{path}: only the operator asks Keystone, for a token that is good in every region")
    });
    let auth = keystone::ignored(auth).into_iter().chain(region);
    let host_files = certificates::host_files_ignored(&cr.spec.common_configuration);
    of_dns.chain(auth).chain(dependencies).chain(host_files).collect()
}
