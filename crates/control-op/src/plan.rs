//! Desired state of the control nodes.

use serde_json::{Map, Value, json};
use tf_api::{
    Control, ControlConfiguration,
    common::AuthMode,
    contract::{Draft, Endpoint, Protocol},
    kinds::CONTROL,
};
use tf_contrail::daemon::{self, Daemons};
use tf_plan::{
    build::publish,
    certificates,
    component::Agents,
    dependency, keystone,
    member_set::{MemberSet, Parts, Traits},
    not_ready::NotReady,
    observed::Observed,
    plan::Plan,
    selection,
};

use crate::{
    OPERATOR,
    cluster::Cluster,
    daemons::{
        self, MEMBERS,
        control::{BGP, XMPP},
        dns, named,
    },
    key::{self, Key},
    network::{self, Network},
    ports, registration,
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
    let lists = |container| daemons::lists(spec, container);
    selection::require(&spec.containers, &[daemons::control::CONTAINER.name])?;
    match (lists(dns::CONTAINER.name), lists(named::CONTAINER.name)) {
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
    let table = daemons::table();
    let containers = daemon::containers(&table);
    let mut member_set =
        MemberSet::prepare(cr, observed, &Traits::without_data(OPERATOR, &containers, &spec.containers))?;
    member_set.membership.notes.extend(services.notes.iter().cloned());
    let network = Network::of(cr, &member_set)?;
    let key = daemons::serves_dns(spec).then(|| Key::of(cr, observed)).transpose()?;
    let agents = agents(cr, &observed.operator.cluster_domain)?;
    let cluster = Cluster {
        spec,
        log_level: cr.spec.common_configuration.log_level.unwrap_or_default(),
        services,
        key: key.as_ref(),
        network: &network,
        members: member_set.members(),
        agents: &agents,
    };
    let daemons = Daemons::of(&table, &member_set.containers, &cluster)?;
    let kept = key.as_ref().and_then(Key::data);
    let parts = Parts {
        objects: kept
            .map(|data| publish::credentials(&member_set.identity, &key::secret(cr), &data))
            .into_iter()
            .collect(),
        endpoints: endpoints(&member_set, spec, &network),
        grace_seconds: GRACE_SECONDS,
        ignored: ignored(cr, observed),
        drafts,
        own_status: own_status(spec),
        ..daemons.parts(daemon::logs("control", CONTROL, &member_set.identity), cluster.shared())
    };
    member_set.roll_out(parts, &MEMBERS, |plan| {
        network.complete(plan, cr, observed);
        registration::complete(plan, cr, observed, services, &network);
    })
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
fn endpoints(member_set: &MemberSet<'_, Control>, spec: &ControlConfiguration, network: &Network) -> Vec<Endpoint> {
    let endpoint = |name: &str, protocol, port, tls| Endpoint {
        nodes: network.addresses(),
        ..member_set.endpoint(name, protocol, port, tls)
    };
    let mut endpoints =
        vec![endpoint(XMPP, Protocol::Xmpp, spec.xmpp_port, true), endpoint(BGP, Protocol::Bgp, spec.bgp_port, false)];
    if daemons::serves_dns(spec) {
        endpoints.push(endpoint(named::ENDPOINT, Protocol::Dns, spec.dns_port, false));
        // The web UI shows what is told there, at any address of the node.
        endpoints.push(member_set.endpoint(dns::INTROSPECT, Protocol::Https, spec.dns_introspect_port, true));
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
        .filter(|(set, _)| *set && !daemons::serves_dns(spec))
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
