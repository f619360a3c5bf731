//! Desired state of the config API and its companions.

use serde_json::{Map, json};
use tf_api::{
    Config, ConfigConfiguration, Managed as _,
    common::AaaMode,
    contract::{Draft, Protocol, Reason},
    kinds::CONFIG,
};
use tf_contrail::daemon::{self, Daemons};
use tf_pki::member::service_names;
use tf_plan::{
    build::{identity::Identity, service},
    certificates,
    component::Agents,
    dependency,
    keystone::{self, Keystone},
    member_set::{MemberSet, Parts, Traits},
    not_ready::NotReady,
    observed::Observed,
    plan::Plan,
    selection,
};

use crate::{
    OPERATOR,
    cluster::Cluster,
    daemons::{self, MEMBERS, api::ENDPOINT, device_manager, dnsmasq, schema, svc_monitor},
    registration,
    services::{self, Services},
};

const API: &str = daemons::api::CONTAINER.name;
const DEVICE_MANAGER: &str = device_manager::CONTAINER.name;
const DNSMASQ: &str = dnsmasq::CONTAINER.name;
const SCHEMA: &str = schema::CONTAINER.name;
const SVC_MONITOR: &str = svc_monitor::CONTAINER.name;
/// Time for requests to end and for elected daemons to give up their locks in ZooKeeper.
const GRACE_SECONDS: i64 = 60;

/// Plans the config API and its companions.
///
/// # Errors
/// When a service is not usable yet, an input is missing, there are no members to plan for, or the spec asks for what cannot
/// be.
pub fn plan(cr: &Config, observed: &Observed<Config>) -> Result<Plan, NotReady> {
    let (resolved, drafts) = dependency::resolve_for(&services::dependencies(cr), cr, observed);
    let desired = || {
        let keystone = Keystone::let_in(cr, observed)?;
        let services = Services::of(&resolved?)?;
        carry_out(cr, observed, &services, keystone.as_ref(), drafts.clone())
    };
    desired().map_err(|not_ready| not_ready.with_drafts(drafts.clone()))
}

/// The plan, once everything it depends on is there.
fn carry_out(
    cr: &Config,
    observed: &Observed<Config>,
    services: &Services,
    keystone: Option<&Keystone>,
    drafts: Vec<Draft>,
) -> Result<Plan, NotReady> {
    let spec = &cr.spec.service_configuration;
    selection::require(&spec.containers, &[API])?;
    has_each_linklocal_service_once(spec)?;
    let table = daemons::table();
    let containers = daemon::containers(&table);
    let mut member_set =
        MemberSet::prepare(cr, observed, &Traits::without_data(OPERATOR, &containers, &spec.containers))?;
    member_set.membership.notes.extend(services.notes.iter().cloned());
    member_set.membership.notes.extend(keystone.and_then(Keystone::note));
    let runs_device_manager = member_set.container(DEVICE_MANAGER).is_some();
    if member_set.members().len() > 1 && runs_device_manager && manages_fabric(spec) {
        member_set.membership.notes.push(
            "every member gets the one address of fabricMgmtIP; devices reach only the member that has it".to_owned(),
        );
    }
    let agents = agents(cr, &observed.operator.cluster_domain)?;
    let cluster = Cluster {
        spec,
        log_level: cr.spec.common_configuration.log_level.unwrap_or_default(),
        services,
        keystone,
        identity: &member_set.identity,
        containers: &member_set.containers,
        members: member_set.members(),
        agents: &agents,
    };
    let daemons = Daemons::of(&table, &member_set.containers, &cluster)?;
    let service_name = front(&member_set.identity);
    let host = member_set.service_host(&service_name);
    let mut endpoint = member_set.endpoint(ENDPOINT, Protocol::Https, spec.api_port, true);
    endpoint.service = Some(host.clone());
    let front = service::cluster(&member_set.identity, &service_name, &[(ENDPOINT, spec.api_port)]);
    // The Go tf-operator published the Service's address here. Its name is known without asking for the address, leads to
    // the same place, and is what a certificate can be checked against.
    let own_status = Map::from_iter([("endpoint".to_owned(), json!(host))]);
    let parts = Parts {
        objects: vec![front],
        endpoints: vec![endpoint],
        grace_seconds: GRACE_SECONDS,
        // The device manager ends dnsmasq to make it read its files again.
        share_processes: cluster.runs(DEVICE_MANAGER) && cluster.runs(DNSMASQ),
        ignored: ignored(cr, observed),
        drafts,
        own_status,
        ..daemons.parts(daemon::logs("config", CONFIG, &member_set.identity), cluster.shared()?)
    };
    member_set.roll_out(parts, &MEMBERS, |plan| registration::complete(plan, cr, observed, &services.database))
}

/// How members' agents are reached, and what members are called: by their own names, and by that of the API's Service.
///
/// # Errors
/// `InvalidSpec` when there is no port for them.
pub fn agents(cr: &Config, cluster_domain: &str) -> Result<Agents, NotReady> {
    let port = Agents::port_above("apiPort", cr.spec.service_configuration.api_port)?;
    let mut agents = Agents::of(OPERATOR, cr, port, cluster_domain);
    agents.services.extend(service_names(&front(&Identity::of(OPERATOR, cr)), cr.home(), cluster_domain));
    Ok(agents)
}

/// Name of the API's Service.
fn front(identity: &Identity) -> String {
    identity.service_name("config")
}

/// Fields of the spec that are set and have no effect.
fn ignored(cr: &Config, observed: &Observed<Config>) -> Vec<String> {
    let spec = &cr.spec.service_configuration;
    let usual = ConfigConfiguration::default();
    let fabric = manages_fabric(spec);
    let device_manager = spec.device_manager_introspect_port != usual.device_manager_introspect_port;
    let of_containers = [
        (fabric, "fabricMgmtIP", DEVICE_MANAGER),
        (device_manager, "deviceManagerIntrospectPort", DEVICE_MANAGER),
        (spec.use_external_tftp, "useExternalTFTP", DNSMASQ),
        (spec.schema_introspect_port != usual.schema_introspect_port, "schemaIntrospectPort", SCHEMA),
        (
            spec.svc_monitor_introspect_port != usual.svc_monitor_introspect_port,
            "svcMonitorIntrospectPort",
            SVC_MONITOR,
        ),
    ];
    let field = |name: &str, why: &str| format!("spec.serviceConfiguration.{name}: {why}");
    let of_containers = of_containers
        .into_iter()
        .filter(|(set, _, container)| {
            *set && !spec.containers.is_empty() && !selection::lists(&spec.containers, container)
        })
        .map(|(_, name, container)| field(name, &format!("containers does not list {container}")));
    let hostless = spec.linklocal_service_config.iter().filter(|service| registration::host(service).is_none());
    let hostless = hostless
        .map(|_| field("linklocalServiceConfig", "ipFabricServiceHost is missing, so no service is registered"));
    let auth = cr.spec.common_configuration.auth_parameters.as_ref();
    let is_open = spec.aaa_mode.is_some_and(AaaMode::is_open);
    let asks = keystone::is_used(auth);
    let of_access = [
        (
            spec.aaa_mode.is_some() && !is_open && !asks,
            "aaaMode",
            "authMode is not keystone, so the API is open to everybody, as with no-auth",
        ),
        (
            spec.api_admin_port != usual.api_admin_port && (is_open || !asks),
            "apiAdminPort",
            "the API opens it only where Keystone authenticates users and aaaMode is not no-auth",
        ),
    ];
    let of_access = of_access.into_iter().filter(|(set, ..)| *set).map(|(_, name, why)| field(name, why));
    let dependencies = dependency::ignored(&services::dependencies(cr), observed);
    let host_files = certificates::host_files_ignored(&cr.spec.common_configuration);
    of_containers
        .chain(hostless)
        .chain(of_access)
        .chain(keystone::ignored(auth))
        .chain(dependencies)
        .chain(host_files)
        .collect()
}

/// A rule of the schema would be a narrower one than that of earlier releases.
fn has_each_linklocal_service_once(spec: &ConfigConfiguration) -> Result<(), NotReady> {
    let own = spec.linklocal_service_config.as_ref().map(|service| service.name.as_str());
    if spec.linklocal_services.iter().any(|service| Some(service.name.as_str()) == own) {
        let why = "serviceConfiguration.linklocalServices has the service of linklocalServiceConfig; give them different names";
        return Err(NotReady::invalid(Reason::InvalidSpec, why));
    }
    Ok(())
}

fn manages_fabric(spec: &ConfigConfiguration) -> bool {
    spec.fabric_mgmt_ip.as_ref().is_some_and(|address| !address.is_empty())
}
