//! Desired state of the servers of a resource.

use tf_agent_api::{
    launch,
    redis::{DIRECTORY, PASSWORD_FILE, PEER_PASSWORD_FILE, Replication, SENTINEL_FILES},
};
use tf_api::{
    Redis,
    contract::{Protocol, Reason},
    kinds::RedisMode,
};
use tf_plan::{
    build::{
        configuration::Files,
        pod::{self, DaemonContainer},
        publish,
        storage::memory_dir,
    },
    certificates,
    component::Agents,
    hibernation,
    images::{Builtin, Chosen},
    member_set::{MemberSet, Parts, Traits},
    members::{Identities, Joining},
    not_ready::NotReady,
    observed::Observed,
    plan::Plan,
};

use crate::{
    OPERATOR, config, mode,
    password::{self, Password},
    ports::Ports,
    procedure, sentinel,
};

/// The daemon of a member.
pub const CONTAINER: &str = "redis";
/// What clients connect to.
pub const ENDPOINT: &str = "redis";
/// What clients ask for the server that takes writes.
pub const SENTINEL_ENDPOINT: &str = "sentinel";
/// Key of what clients connect with that has the name by which they ask.
const MASTER_NAME: &str = "masterName";
/// Containers that the spec may list; the second one with Sentinels only.
pub const CONTAINERS: [Builtin; 2] = [
    Builtin { name: CONTAINER, image: "external-redis", default: true },
    Builtin { name: sentinel::CONTAINER, image: "external-redis", default: false },
];
const OBSOLETE: [(&str, &str); 1] = [("stunnel", "the server speaks TLS itself")];
/// A server that is asked to stop has nothing to write. One that others copy may have another one take its place before.
const GRACE_SECONDS: i64 = 60;
/// Volume of [`DIRECTORY`]. In memory, because what is written there holds passwords.
const VOLUME: &str = "replication";

/// Passwords of a resource.
struct Passwords {
    clients: Password,
    /// The members', where they speak with each other.
    peers: Option<Password>,
}

/// The servers of a resource, and what they are to each other.
pub(crate) struct Servers<'a> {
    pub(crate) member_set: MemberSet<'a, Redis>,
    pub(crate) mode: RedisMode,
    ports: Ports,
    replication: Option<Replication>,
}

/// Chooses the servers of a resource.
///
/// # Errors
/// When there are none, or the spec asks for what cannot be.
pub(crate) fn servers<'a>(cr: &'a Redis, observed: &'a Observed<Redis>) -> Result<Servers<'a>, NotReady> {
    let spec = &cr.spec.service_configuration;
    let mode = mode::of(cr)?;
    let member_set = MemberSet::prepare(
        cr,
        observed,
        &Traits {
            operator: OPERATOR,
            builtins: builtins(mode),
            containers: &spec.containers,
            obsolete: &OBSOLETE,
            rule: mode::size_rule(mode),
            // The others need not know, or find out.
            joining: Joining::Anytime,
            // What it held is a copy of what its clients or the others have, or a session whose user logs in again.
            leaving: mode::leaving(mode, cr, observed),
            identities: Identities::New { highest: 0 },
            takes_over: true,
            changing: None,
        },
    )?;
    if mode == RedisMode::Sentinel && member_set.is_mixed() {
        return Err(NotReady::invalid(
            Reason::InvalidSpec,
            "spec.serviceConfiguration.mode is Sentinel, and servers of the Go tf-operator, which are there, are on their own; remove it \
             to take them over",
        ));
    }
    let ports = Ports::of(spec)?;
    let replication = mode::replication(cr, mode, member_set.members(), ports)?;
    Ok(Servers { member_set, mode, ports, replication })
}

/// Plans the servers of a resource.
///
/// # Errors
/// When there are no members to plan for, the password is unfit, or the spec asks for what cannot be.
pub fn plan(cr: &Redis, observed: &Observed<Redis>) -> Result<Plan, NotReady> {
    let Servers { member_set, mode, ports, replication } = servers(cr, observed)?;
    let agents = agents(cr, &observed.operator.cluster_domain)?;
    let clients = Password::of(cr, observed)?;
    let peers = replication.as_ref().map(|_| Password::of_peers(cr, observed)).transpose()?;
    let passwords = Passwords { clients, peers };
    let mut files = files(&member_set, ports, &agents, &passwords, replication.as_ref())?;
    if let Some(replication) = &replication {
        sentinels(&mut files, &member_set, ports, &passwords, replication)?;
    }
    let contents = files.content_hashes(member_set.members());
    let Passwords { clients, peers } = &passwords;
    let mut additions = Parts {
        files,
        daemons: daemons(&member_set, ports, replication.is_some()),
        ports: [ports.named(), ports.of_sentinel()].concat(),
        objects: vec![publish::credentials(
            &member_set.identity,
            &password::secret(cr),
            &clients.with_peers(peers.as_ref()),
        )],
        endpoints: vec![member_set.endpoint(ENDPOINT, Protocol::Tcp, ports.redis, true)],
        connection: Some((ENDPOINT, "redis", clients.data())),
        grace_seconds: GRACE_SECONDS,
        ignored: ignored(cr),
        own_status: mode::recorded(replication.as_ref()),
        ..Parts::default()
    };
    if let (Some(replication), Some(port)) = (&replication, ports.sentinel) {
        additions.volumes.push(memory_dir(VOLUME));
        additions.endpoints.push(member_set.endpoint(SENTINEL_ENDPOINT, Protocol::Tcp, port, true));
        let mut data = clients.data();
        data.insert(MASTER_NAME, &replication.master);
        additions.connection = Some((SENTINEL_ENDPOINT, "redis-sentinel", data));
    }
    let mut plan = member_set.plan(additions)?;
    if replication.is_some() {
        plan.record = &mode::RECORD;
    }
    procedure::complete(mode, &mut plan, cr, observed, &contents);
    hibernation::finish(&mut plan);
    Ok(plan)
}

/// Containers that the spec may list.
fn builtins(mode: RedisMode) -> &'static [Builtin] {
    match mode {
        RedisMode::Independent => &CONTAINERS[..1],
        RedisMode::Sentinel => &CONTAINERS,
    }
}

/// The server, and the Sentinel beside it, which is of the same image unless the spec names another one.
fn daemons(member_set: &MemberSet<'_, Redis>, ports: Ports, is_copied: bool) -> Vec<DaemonContainer> {
    let mount = || is_copied.then(|| pod::mount(VOLUME, DIRECTORY)).into_iter().collect();
    let server = |chosen: &Chosen| DaemonContainer {
        ports: ports.named(),
        speaks_for_pod: true,
        mounts: mount(),
        drained: is_copied,
        ..DaemonContainer::new(CONTAINER, chosen.image.clone(), chosen.command.clone())
    };
    let beside = |chosen: &Chosen| {
        let own = member_set.container(sentinel::CONTAINER);
        let command = own.map(|own| own.command.clone()).unwrap_or_default();
        DaemonContainer {
            ports: ports.of_sentinel(),
            mounts: mount(),
            ..DaemonContainer::new(sentinel::CONTAINER, own.unwrap_or(chosen).image.clone(), command)
        }
    };
    let chosen = member_set.container(CONTAINER);
    let sentinel = chosen.filter(|_| is_copied).map(beside);
    chosen.map(server).into_iter().chain(sentinel).collect()
}

/// How members' agents are reached, and what members are called.
///
/// # Errors
/// `InvalidSpec` when there is no port for them.
pub fn agents(cr: &Redis, cluster_domain: &str) -> Result<Agents, NotReady> {
    Ok(Agents::of(OPERATOR, cr, Ports::of(&cr.spec.service_configuration)?.agent, cluster_domain))
}

/// The files of all members' servers.
fn files(
    member_set: &MemberSet<'_, Redis>,
    ports: Ports,
    agents: &Agents,
    passwords: &Passwords,
    replication: Option<&Replication>,
) -> Result<Files, NotReady> {
    let Passwords { clients, peers } = passwords;
    let level = member_set.cr.spec.common_configuration.log_level.unwrap_or_default();
    let mut files = Files::default();
    for member in member_set.members() {
        let config = config::config_file(mode::address(member)?, ports, level, replication)?;
        files.member(config::CONFIG_FILE, &member.address, config);
    }
    files.shared(&launch::file_name(CONTAINER), config::launch_file(ports, agents, level, replication)?);
    files.shared_secret(config::AUTH_FILE, config::auth_file(clients, peers.as_ref())?);
    files.shared_secret(PASSWORD_FILE, clients.expose());
    if let Some(peers) = peers {
        files.shared_secret(PEER_PASSWORD_FILE, peers.expose());
    }
    Ok(files)
}

/// The files of all members' Sentinels.
fn sentinels(
    files: &mut Files,
    member_set: &MemberSet<'_, Redis>,
    ports: Ports,
    passwords: &Passwords,
    replication: &Replication,
) -> Result<(), NotReady> {
    let level = member_set.cr.spec.common_configuration.log_level.unwrap_or_default();
    let uid = member_set.cr.metadata.uid.as_deref().unwrap_or_default();
    let [file, secret] = SENTINEL_FILES;
    for member in member_set.members() {
        let config = sentinel::file(member, member_set.members(), uid, replication, ports, level)?;
        files.member(file, &member.address, config);
    }
    files.shared(&launch::file_name(sentinel::CONTAINER), sentinel::launch_file(replication)?);
    if let Passwords { clients, peers: Some(peers) } = passwords {
        files.shared_secret(secret, sentinel::auth_file(clients, peers, replication)?);
    }
    Ok(())
}

/// Fields of the spec that are set and have no effect.
fn ignored(cr: &Redis) -> Vec<String> {
    let cluster_name = cr.spec.service_configuration.cluster_name.as_ref();
    let cluster_name =
        cluster_name.map(|_| "spec.serviceConfiguration.clusterName: the servers form no cluster".to_owned());
    cluster_name.into_iter().chain(certificates::host_files_ignored(&cr.spec.common_configuration)).collect()
}
