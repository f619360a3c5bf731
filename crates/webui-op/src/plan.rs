//! Desired state of the web user interface.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tf_api::{
    Managed as _, Webui,
    contract::{Draft, Protocol},
    kinds::WEBUI,
    ports,
};
use tf_contrail::daemon::{self, Daemons};
use tf_pki::member::service_names;
use tf_plan::{
    build::{identity::Identity, publish, service},
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
        web::{self, HTTP, HTTPS},
    },
    login::{self, Login},
    service_status::{Modules, service_status},
    services::{self, Services},
};

/// Time for requests to be answered.
const GRACE_SECONDS: i64 = 60;

/// Plans the web user interface.
///
/// # Errors
/// When a service is not usable yet, an input is missing, there are no members to plan for, or the spec asks for what cannot be.
pub fn plan(cr: &Webui, observed: &Observed<Webui>) -> Result<Plan, NotReady> {
    let (resolved, drafts) = dependency::resolve_for(&services::dependencies(cr), cr, observed);
    let desired = || {
        // The job server is of no use alone.
        selection::require(&cr.spec.service_configuration.containers, &[web::CONTAINER.name])?;
        let login = Login::of(cr, observed)?;
        let services = Services::of(&resolved?)?;
        carry_out(cr, observed, &services, &login, drafts.clone())
    };
    desired().map_err(|not_ready| not_ready.with_drafts(drafts.clone()))
}

/// The plan, once everything it depends on is there.
fn carry_out(
    cr: &Webui,
    observed: &Observed<Webui>,
    services: &Services,
    login: &Login,
    drafts: Vec<Draft>,
) -> Result<Plan, NotReady> {
    let table = daemons::table();
    let containers = daemon::containers(&table);
    let listed = &cr.spec.service_configuration.containers;
    let member_set = MemberSet::prepare(cr, observed, &Traits::without_data(OPERATOR, &containers, listed))?;
    let agents = agents(cr, &observed.operator.cluster_domain);
    let cluster = Cluster {
        log_level: cr.spec.common_configuration.log_level.unwrap_or_default(),
        services,
        login,
        members: member_set.members(),
        agents: &agents,
    };
    let daemons = Daemons::of(&table, &member_set.containers, &cluster)?;
    let front = front(&member_set.identity);
    let host = member_set.service_host(&front);
    let mut endpoint = member_set.endpoint(HTTPS, Protocol::Https, ports::WEBUI_HTTPS, true);
    endpoint.service = Some(host.clone());
    // A session is known to one member.
    let in_front = [(HTTPS, ports::WEBUI_HTTPS), (HTTP, ports::WEBUI_HTTP)];
    let mut objects = vec![service::sticky(&member_set.identity, &front, &in_front)];
    objects.extend(login.kept().map(|data| publish::credentials(&member_set.identity, &login::secret(cr), &data)));
    let parts = Parts {
        objects,
        endpoints: vec![endpoint],
        grace_seconds: GRACE_SECONDS,
        ignored: ignored(cr, observed),
        drafts,
        own_status: own_status(&host, &service_status(&member_set.containers, observed)),
        ..daemons.parts(daemon::logs("webui", WEBUI, &member_set.identity), cluster.shared()?)
    };
    member_set.roll_out(parts, &MEMBERS, |_| ())
}

/// How members' agents are reached, and what members are called.
pub fn agents(cr: &Webui, cluster_domain: &str) -> Agents {
    let mut agents = Agents::of(OPERATOR, cr, ports::WEBUI_AGENT, cluster_domain);
    agents.services.extend(service_names(&front(&Identity::of(OPERATOR, cr)), cr.home(), cluster_domain));
    agents
}

/// Name of the Service in front of the members.
fn front(identity: &Identity) -> String {
    identity.service_name("webui")
}

/// What the Go tf-operator published. It had the Service's address for an endpoint; its name is known without asking for the address, leads to
/// the same place, and is what a certificate can be checked against.
fn own_status(host: &str, servers: &BTreeMap<String, Modules>) -> Map<String, Value> {
    let ports = json!({"webUIHttpPort": ports::WEBUI_HTTP.get(), "webUIHttpsPort": ports::WEBUI_HTTPS.get()});
    let servers = (!servers.is_empty()).then(|| ("serviceStatus".to_owned(), json!(servers)));
    [("ports".to_owned(), ports), ("endpoint".to_owned(), json!(host))].into_iter().chain(servers).collect()
}

/// Fields of the spec that are set and have no effect.
fn ignored(cr: &Webui, observed: &Observed<Webui>) -> Vec<String> {
    let auth = keystone::ignored_by_webui(cr.spec.common_configuration.auth_parameters.as_ref());
    let dependencies = dependency::ignored(&services::dependencies(cr), observed);
    let host_files = certificates::host_files_ignored(&cr.spec.common_configuration);
    auth.into_iter().chain(dependencies).chain(host_files).collect()
}
