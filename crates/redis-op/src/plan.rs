//! Desired state of the servers of a resource.

use std::net::IpAddr;

use tf_api::{
    Redis,
    contract::{Protocol, Reason},
};
use tf_plan::{
    build::{configuration::Files, pod::Daemon, publish},
    certificates,
    component::Agents,
    ensemble::{Ensemble, Parts, Traits},
    images::Builtin,
    members::{Joining, Leaving, SizeRule},
    node::{launch, redis::PASSWORD_FILE},
    observed::Observed,
    plan::{NotReady, Plan},
    procedure,
};

use crate::{
    OPERATOR, config,
    password::{self, Password},
    ports::Ports,
    procedure::SERVERS,
};

/// The daemon of a member.
pub const CONTAINER: &str = "redis";
/// What clients connect to.
pub const ENDPOINT: &str = "redis";
const CONTAINERS: [Builtin; 1] = [Builtin { name: CONTAINER, image: "external-redis", default: true }];
const OBSOLETE: [(&str, &str); 1] = [("stunnel", "the server speaks TLS itself")];
/// A server that is asked to stop has nothing to write.
const GRACE_SECONDS: i64 = 60;

/// Plans the servers of a resource.
///
/// # Errors
/// When there are no members to plan for, the password is unfit, or the spec asks for what cannot be.
pub fn plan(cr: &Redis, observed: &Observed<Redis>) -> Result<Plan, NotReady> {
    let spec = &cr.spec.service_configuration;
    let ensemble = Ensemble::prepare(
        cr,
        observed,
        &Traits {
            operator: OPERATOR,
            builtins: &CONTAINERS,
            containers: &spec.containers,
            obsolete: &OBSOLETE,
            // Clients on a node use the server beside them (tf-components 2.4).
            rule: SizeRule::EveryNode,
            // The others need not know.
            joining: Joining::Anytime,
            // What it held is a copy of what its clients have, or a session whose user logs in again.
            leaving: Leaving::Dropped,
            highest: 0,
            has_data: false,
            uses_auth: false,
            has_certificates: true,
            takes_over: false,
        },
    )?;
    let ports = Ports::of(spec)?;
    let agents = agents(cr, &observed.operator.cluster_domain)?;
    let password = Password::of(cr, observed)?;
    let files = files(&ensemble, ports, &agents, &password)?;
    let contents = files.content_hashes(ensemble.members());
    let daemons = ensemble
        .containers
        .iter()
        .map(|container| Daemon {
            ports: ports.named(),
            speaks_for_pod: true,
            ..Daemon::new(container.name, container.image.clone(), container.command.clone())
        })
        .collect();
    let additions = Parts {
        files,
        daemons,
        ports: ports.named(),
        objects: vec![publish::credentials(&ensemble.identity, &password::secret(cr), &password.data())],
        endpoints: vec![ensemble.endpoint(ENDPOINT, Protocol::Tcp, ports.redis, true)],
        connection: Some((ENDPOINT, "redis", password.data())),
        grace_seconds: GRACE_SECONDS,
        ignored: ignored(cr),
        ..Parts::default()
    };
    let mut plan = ensemble.plan(additions)?;
    procedure::complete(&SERVERS, &mut plan, cr, observed, &contents);
    procedure::reseat(&mut plan, observed);
    Ok(plan)
}

/// How members' agents are reached, and what members are called.
///
/// # Errors
/// `InvalidSpec` when there is no port for them, or certificates cannot be good for as long as the spec says.
pub fn agents(cr: &Redis, cluster_domain: &str) -> Result<Agents, NotReady> {
    let common = &cr.spec.common_configuration;
    certificates::issuer(common)?;
    certificates::lifetime_of_members(common)?;
    Ok(Agents::of(OPERATOR, cr, Ports::of(&cr.spec.service_configuration)?.agent, cluster_domain))
}

/// The files of all members.
fn files(
    ensemble: &Ensemble<'_, Redis>,
    ports: Ports,
    agents: &Agents,
    password: &Password,
) -> Result<Files, NotReady> {
    let level = ensemble.cr.spec.common_configuration.log_level.unwrap_or_default();
    let mut files = Files::default();
    for member in ensemble.members() {
        let address: IpAddr = member.address.parse().map_err(|_| {
            let why = format!("address {:?} of node {} is not an IP address", member.address, member.node);
            NotReady::invalid(Reason::InvalidSpec, why)
        })?;
        files.member(config::CONFIG_FILE, &member.address, config::config_file(address, ports, level)?);
    }
    files.shared(&launch::file_name(CONTAINER), config::launch_file(ports, agents)?);
    files.shared_secret(config::AUTH_FILE, config::auth_file(password)?);
    files.shared_secret(PASSWORD_FILE, password.expose());
    Ok(files)
}

/// Fields of the spec that are set and have no effect.
fn ignored(cr: &Redis) -> Vec<String> {
    let cluster_name = cr.spec.service_configuration.cluster_name.as_ref();
    let cluster_name =
        cluster_name.map(|_| "spec.serviceConfiguration.clusterName: the servers form no cluster".to_owned());
    cluster_name.into_iter().chain(certificates::host_files_ignored(&cr.spec.common_configuration)).collect()
}
