//! Desired state of a ring.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Container, VolumeMount},
    apimachinery::pkg::apis::meta::v1::Time,
};
use serde_json::{Map, Value, json};
use tf_agent_api::{
    cassandra::{
        LOGIN_FILE,
        backup::{Backup, DIRECTORY},
    },
    content::ContentHash,
    launch, node,
};
use tf_api::{
    Cassandra, CassandraConfiguration, Managed as _,
    contract::{ConditionType, Draft, Protocol, Reason},
    kinds::ANALYTICS,
    ports as usual,
    schema::Port,
};
use tf_contrail::{
    nodemanager::{self, Database},
    services,
};
use tf_plan::{
    build::{
        configuration::Files,
        identity, memory,
        pod::{self, DaemonContainer, Privileges, mount},
        publish,
        storage::{self, host_path, memory_dir},
    },
    certificates,
    component::Agents,
    connection::Connection,
    dependency::{self, Dependency, Need, SecretUse},
    hibernation,
    images::{Builtin, Chosen},
    member_set::{MemberSet, Parts, Traits},
    members::{Identities, Joining, Leaving, SizeRule},
    not_ready::NotReady,
    object::Kind,
    observed::Observed,
    plan::Plan,
    reports::{AgentCoverage, Reports},
    resize::{self, Decision, Record},
    secret::SecretData,
    selection,
    status::whole_seconds,
};

use crate::{
    OPERATOR, backup, config,
    config::{ClientListener, Ring},
    conflicts::RINGS,
    directory,
    login::{self, Login},
    maintenance::{self, Maintenance},
    membership::{self, Inputs},
    ports, procedure, restore,
    role::Role,
    seeds, takeover,
};

/// Clients keep a copy of everything on every member by default (docs/upstream/cassandra.md#replication-factor): more members make writes slower
/// and tolerate no loss that matters here.
const LARGEST: i32 = 7;
/// Containers that the spec may list.
pub const CONTAINERS: [Builtin; 2] =
    [Builtin { name: config::jvm::DAEMON, image: "external-cassandra", default: true }, nodemanager::CONTAINER];
const OBSOLETE: [(&str, &str); 1] =
    [("provisioner", "the operators of Config and Analytics register database nodes in the config API")];
/// Below this are the directories of all logs.
const LOG_BASE: &str = "/var/log/contrail";
/// Volumes.
const LOGS: &str = "logs";
const CONF: &str = "cassandra-conf";
const CQLSH: &str = "cqlsh";
/// Fields of the status that are stored before anything is done.
const RECORD: [&str; 6] =
    [resize::FIELDS[0], resize::FIELDS[1], backup::FIELD, restore::FIELD, AUTHENTICATION, takeover::FIELD];
const AUTHENTICATION: &str = "authentication";
/// The first operator of Tungsten Fabric gave a drain half an hour.
const GRACE_SECONDS: i64 = config::DRAIN_SECONDS as i64 + config::STOP_SECONDS as i64;

/// Keys of the Secret with generated passwords; the Go tf-operator's.
pub const KEYSTORE_PASSWORD: &str = "keystorePassword";
/// See [`KEYSTORE_PASSWORD`].
pub const TRUSTSTORE_PASSWORD: &str = "truststorePassword";

/// Name of the Secret with generated passwords. The Go tf-operator's `<name>-secret` is also that of a Rabbitmq of the same
/// name, and its `<name>-cassandra-secret` the token of a ServiceAccount, whose type cannot change (docs/upstream/go-operator.md#names). Nothing
/// on a disk depends on the passwords, so an installation that is taken over gets new ones.
pub fn passwords_name(cr: &Cassandra) -> String {
    identity::fit(&format!("{}-cassandra-passwords", cr.title()), 63)
}

/// Collectors, where a node manager reports to them.
pub fn dependencies(cr: &Cassandra) -> Vec<Dependency> {
    let collectors = Dependency {
        condition: ConditionType::CollectorReady,
        kind: Kind::custom(ANALYTICS),
        source: cr.spec.dependencies.analytics.clone(),
        default_name: ANALYTICS.default_name,
        endpoint: services::COLLECTOR,
        need: Need::Optional,
        secret: SecretUse::Nothing,
        logs_in: false,
    };
    if selection::lists(&cr.spec.service_configuration.containers, nodemanager::CONTAINER.name) {
        vec![collectors]
    } else {
        Vec::new()
    }
}

/// Plans a ring.
///
/// # Errors
/// When there are no members to plan for, or the spec asks for what cannot be.
pub fn plan(cr: &Cassandra, observed: &Observed<Cassandra>) -> Result<Plan, NotReady> {
    let initialized = cr.is_initialized();
    let resolved = dependency::resolve(&dependencies(cr), cr.home(), initialized, observed)?;
    let collectors = resolved.connection(ConditionType::CollectorReady);
    let drafts = resolved.drafts.clone();
    ring(cr, observed, initialized, collectors, drafts.clone()).map_err(|not_ready| not_ready.with_drafts(drafts))
}

fn ring(
    cr: &Cassandra,
    observed: &Observed<Cassandra>,
    initialized: bool,
    collectors: Option<&Connection>,
    drafts: Vec<Draft>,
) -> Result<Plan, NotReady> {
    let spec = &cr.spec.service_configuration;
    selection::require(&spec.containers, &[config::jvm::DAEMON])?;
    is_bearable(cr, observed)?;
    let backup_volume = backup::volume(spec)?;
    let mut member_set = prepare(cr, observed)?;
    takeover::check(&member_set, observed)?;
    let taken_over = takeover::cluster_name(&member_set);
    let founded = initialized || taken_over.is_some();
    // Nobody looks for it later.
    let source = if founded { None } else { restore::source(cr, backup_volume.is_some())? };
    let kept = recorded(cr, &member_set);
    let decided = decided(observed, &member_set, &kept, initialized);
    let record = decided.as_ref().map_or(&kept, |decision| &decision.record).clone();
    member_set.membership.members.clone_from(&record.members);
    RINGS.check(cr, member_set.members(), &observed.siblings)?;
    let role = Role::of(cr.title());
    let mut passwords = passwords(cr, observed)?;
    let login = given(&mut member_set, founded, &mut passwords, decided.as_ref())?;
    if !founded {
        member_set.membership.notes.extend(elsewhere(&member_set, role));
    }
    let agents = agents(cr, &observed.operator.cluster_domain)?;
    let cluster_name = taken_over.clone().unwrap_or_else(|| role.cluster_name(&member_set.identity));
    let ring = settings(spec, &cluster_name, &passwords, login.as_ref());
    let level = cr.spec.common_configuration.log_level.unwrap_or_default();
    let files = |founded| -> Result<Files, NotReady> {
        let mut files = files(&member_set, role, &ring, login.as_ref(), founded, collectors)?;
        let founders = (!founded).then(|| member_set.members().len());
        let how = login.as_ref().map(|login| login.launch(founders));
        files.shared(&launch::file_name(config::jvm::DAEMON), config::launch_file(spec, &agents, level, founded, how)?);
        Ok(files)
    };
    let founding = files(false)?.content_hashes(member_set.members());
    let files = files(founded)?;
    let contents = procedure::wanted(files.content_hashes(member_set.members()), &founding, observed);
    let open_ports = ports::named(spec)?;
    let identity = &member_set.identity;
    let data = storage::data(identity, cr.spec.common_configuration.storage.as_ref(), &directory::usual(cr));
    let mut volumes = vec![host_path(LOGS, &role.directory(LOG_BASE, identity)), memory_dir(CONF), memory_dir(CQLSH)];
    if member_set.container(nodemanager::CONTAINER.name).is_some() {
        volumes.extend(nodemanager::volumes());
    }
    let offered_mounts: Vec<VolumeMount> = backup_volume.iter().map(|volume| mount(&volume.name, DIRECTORY)).collect();
    volumes.extend(backup_volume);
    let owned_mounts = vec![mount(storage::DATA, config::DATA_DIR), mount(LOGS, config::LOG_DIR)];
    let data_mounts = [owned_mounts.as_slice(), offered_mounts.as_slice()].concat();
    let daemons =
        member_set.containers.iter().map(|chosen| daemon(chosen, spec, role, &open_ports, &data_mounts)).collect();
    let init = member_set.container(config::jvm::DAEMON).map(copy_of_configuration);
    let objects = vec![publish::credentials(identity, &passwords_name(cr), &passwords)];
    let endpoints = vec![member_set.endpoint("cql", Protocol::Tcp, spec.cql_port, true)];
    let is_mixed = member_set.is_mixed();
    let unasked = (decided.is_none() && !member_set.is_asleep() && !is_mixed).then(|| unasked(&member_set)).flatten();
    let mut plan = member_set.plan(Parts {
        files,
        daemons,
        init: init.into_iter().collect(),
        data: Some(data),
        volumes,
        owned_mounts,
        offered_mounts,
        ports: open_ports,
        objects,
        endpoints,
        connection: login.as_ref().map(|login| ("cql", "cassandra", login.connection())),
        grace_seconds: GRACE_SECONDS,
        drafts,
        ignored: ignored(cr, observed),
        own_status: own_status(spec, login.as_ref(), taken_over),
        ..Parts::default()
    })?;
    plan.notes.extend(unasked);
    plan.notes.extend(login.into_iter().flat_map(|login| login.notes));
    record.keep(&mut plan);
    plan.record = &RECORD;
    look_after(&mut plan, cr, observed, &contents, decided, (!is_mixed).then_some(&kept), source);
    hibernation::finish(&mut plan);
    Ok(plan)
}

/// Who the members are as they are recorded, and what runs on them.
///
/// # Errors
/// When there are none, or the spec asks for what does not exist.
pub(crate) fn prepare<'a>(
    cr: &'a Cassandra,
    observed: &'a Observed<Cassandra>,
) -> Result<MemberSet<'a, Cassandra>, NotReady> {
    MemberSet::prepare(
        cr,
        observed,
        &Traits {
            operator: OPERATOR,
            builtins: &CONTAINERS,
            containers: &cr.spec.service_configuration.containers,
            obsolete: &OBSOLETE,
            rule: SizeRule::OddUpTo(LARGEST),
            joining: Joining::OneByOne,
            leaving: Leaving::Released,
            identities: Identities::New { highest: highest(cr) },
            takes_over: true,
            changing: changing(cr, observed).as_deref(),
        },
    )
}

/// Refuses a ring of more than [`LARGEST`] members, unless there are as many.
fn is_bearable(cr: &Cassandra, observed: &Observed<Cassandra>) -> Result<(), NotReady> {
    let members = cr.contract().map(|contract| contract.members.len()).unwrap_or_default();
    let pods = observed.pods.known().map(Vec::len).unwrap_or_default();
    let most = (members.max(pods) as i32).max(LARGEST);
    match cr.spec.common_configuration.replicas {
        Some(asked) if asked > most => Err(NotReady::invalid(
            Reason::InvalidSpec,
            format!(
                "spec.commonConfiguration.replicas is {asked}: each row is on every member, so more than {LARGEST} make writes slower and tolerate no loss that \
                 matters; state {most} or less"
            ),
        )),
        _ => Ok(()),
    }
}

/// Has the one thing done that is due of all that is done to members that run. `decided`: what is to be done about who they are, where that can
/// be told; `kept`: who is recorded, where all of their pods are ours; `source`: what the ring begins with.
pub(crate) fn look_after(
    plan: &mut Plan,
    cr: &Cassandra,
    observed: &Observed<Cassandra>,
    contents: &BTreeMap<String, ContentHash>,
    decided: Option<Decision>,
    kept: Option<&Record>,
    source: Option<Backup>,
) {
    let Maintenance { upgrade, repair, .. } = due_maintenance(plan, cr, observed);
    let (upgrade, repair) = if kept.is_none() { (None, None) } else { (upgrade, repair) };
    let backup = backup::keep(plan, cr, observed, decided.is_some());
    // Who is about to come or go would have to wait for what is begun now.
    let is_changing = decided.as_ref().is_some_and(|decision| Some(&decision.record) != kept);
    let routine = backup.or(repair).filter(|_| !is_changing);
    procedure::complete(plan, cr, observed, contents, decided, upgrade, routine);
    let again = membership::again(&plan.members, &Reports::of_observed(observed), observed.now);
    plan.again = plan.again.into_iter().chain(again).min();
    restore::take_in(plan, cr, observed, source);
}

/// What clients log in with, which is put among the passwords.
fn given(
    member_set: &mut MemberSet<'_, Cassandra>,
    founded: bool,
    passwords: &mut SecretData,
    decided: Option<&Decision>,
) -> Result<Option<Login>, NotReady> {
    let (cr, observed) = (member_set.cr, member_set.observed);
    // A server that is told users tells the others, and who is let in is not changed before all pods are this operator's.
    if takeover::is_beginning(member_set) {
        if cr.spec.service_configuration.authentication.is_some() {
            let why = "clients are given no password yet: that begins when every pod is this operator's";
            member_set.membership.notes.push(why.to_owned());
        }
        if let Some(password) = login::stored(cr, observed) {
            passwords.insert(login::PASSWORD, password);
        }
        return Ok(None);
    }
    let unready = || login::unready(member_set.members(), &Reports::of_observed(observed), decided);
    let login = Login::of(cr, observed, founded, unready)?;
    if let Some(login) = &login {
        passwords.insert(login::PASSWORD, &login.stored);
    }
    Ok(login)
}

/// What the files of the ring's members have in common.
fn settings<'a>(
    spec: &'a CassandraConfiguration,
    cluster_name: &'a str,
    passwords: &'a SecretData,
    login: Option<&Login>,
) -> Ring<'a> {
    Ring {
        cluster_name,
        spec,
        keystore_password: passwords.get(KEYSTORE_PASSWORD).unwrap_or_default(),
        truststore_password: passwords.get(TRUSTSTORE_PASSWORD).unwrap_or_default(),
        asks: login.is_some_and(Login::is_asked),
    }
}

/// What the status says of this kind alone, whoever the members are.
fn own_status(spec: &CassandraConfiguration, login: Option<&Login>, taken_over: Option<String>) -> Map<String, Value> {
    let port = |port: Port| port.to_string();
    let ports = json!({
        "port": config::thrift(spec).map(port),
        "cqlPort": port(spec.cql_port),
        "jmxPort": port(spec.jmx_local_port),
    });
    let authentication = login.map(|login| (AUTHENTICATION.to_owned(), json!(login.authentication)));
    let taken_over = taken_over.map(|name| (takeover::FIELD.to_owned(), json!(name)));
    [("ports".to_owned(), ports)].into_iter().chain(authentication).chain(taken_over).collect()
}

/// The change of who is a member that has begun and is not over. A repair that is broken off is begun anew.
fn changing(cr: &Cassandra, observed: &Observed<Cassandra>) -> Option<String> {
    let status = cr.status.as_ref()?;
    resize::changing(&status.own.leaving)
        .or_else(|| procedure::moving(&status.contract.members, &Reports::of_observed(observed)))
}

/// Says how well the ring is kept. Gives back what is to be done for that.
fn due_maintenance(plan: &mut Plan, cr: &Cassandra, observed: &Observed<Cassandra>) -> Maintenance {
    let mut maintenance_due = maintenance::look(&plan.members, &Reports::of_observed(observed), observed.now);
    let known = cr.status.as_ref().map(|status| &status.own).filter(|_| !maintenance_due.is_whole);
    let mut tell = |name: &str, moment: Option<Timestamp>, known: Option<&Time>| {
        let moment = moment.map(|moment| Time(whole_seconds(moment))).or_else(|| known.cloned());
        plan.own_status.extend(moment.map(|moment| (name.to_owned(), json!(moment))));
    };
    tell("repairedSince", maintenance_due.repaired_since, known.and_then(|known| known.repaired_since.as_ref()));
    plan.notes.append(&mut maintenance_due.not_upgraded);
    plan.notes.extend(maintenance_due.left_alone.take());
    // Others repair what nobody here is told of.
    if cr.spec.service_configuration.automatic_repair == Some(false) {
        return Maintenance { repair: None, ..maintenance_due };
    }
    tell("repairBy", maintenance_due.repair_by, known.and_then(|known| known.repair_by.as_ref()));
    plan.notes.append(&mut maintenance_due.overdue);
    maintenance_due
}

/// Why there are others than so many members as are asked for.
fn unasked(member_set: &MemberSet<'_, Cassandra>) -> Option<String> {
    let (wanted, members) = (member_set.stated_size()?, member_set.members().len());
    (wanted != members).then(|| {
        format!(
            "{wanted} members are asked for and {members} are there; members join and leave when the ring has been \
             brought up and all of them can be asked"
        )
    })
}

/// What is to be done about the ring; none before it was brought up, while the kubelet's word is all there is, or while not all of its pods are ours.
pub(crate) fn decided(
    observed: &Observed<Cassandra>,
    member_set: &MemberSet<'_, Cassandra>,
    record: &Record,
    initialized: bool,
) -> Option<Decision> {
    let reports = Reports::of_observed(observed);
    let is_ours = initialized && !member_set.recorded.is_empty() && !member_set.is_mixed();
    if !is_ours || member_set.is_asleep() || reports.clarity() != AgentCoverage::Complete {
        return None;
    }
    let places = member_set.places();
    let capacity = member_set.capacity(&places, &reports);
    let image = member_set.container(config::jvm::DAEMON).map(|chosen| chosen.image.as_str());
    let nodes = observed.nodes.known().map(Vec::as_slice).unwrap_or_default();
    Some(membership::decide(&Inputs { capacity, record, reports: &reports, nodes, image, now: observed.now }))
}

/// Who is recorded as a member.
pub(crate) fn recorded(cr: &Cassandra, member_set: &MemberSet<'_, Cassandra>) -> Record {
    let leaving = cr.status.as_ref().map(|status| status.own.leaving.as_slice()).unwrap_or_default();
    Record::of(member_set.members(), highest(cr), leaving)
}

/// Highest identity that was ever given.
fn highest(cr: &Cassandra) -> u32 {
    cr.status.as_ref().and_then(|status| status.own.highest_id).unwrap_or_default()
}

/// How members' agents are reached, and what members are called.
///
/// # Errors
/// `InvalidSpec` when there is no port for them.
pub fn agents(cr: &Cassandra, cluster_domain: &str) -> Result<Agents, NotReady> {
    Ok(Agents::of(OPERATOR, cr, ports::agent(&cr.spec.service_configuration)?, cluster_domain))
}

/// The generated passwords, and nothing that somebody else may keep beside them.
fn passwords(cr: &Cassandra, observed: &Observed<Cassandra>) -> Result<SecretData, NotReady> {
    let name = passwords_name(cr);
    let found = observed.secrets.get(&name);
    [KEYSTORE_PASSWORD, TRUSTSTORE_PASSWORD]
        .into_iter()
        .map(|key| {
            let value = found.and_then(|data| data.get(key)).ok_or_else(|| {
                NotReady::waiting(Reason::SecretNotFound, format!("Secret {}/{name} has no key {key} yet", cr.home()))
            })?;
            Ok((key.to_owned(), value.to_owned()))
        })
        .collect()
}

fn files(
    member_set: &MemberSet<'_, Cassandra>,
    role: Role,
    ring: &Ring<'_>,
    login: Option<&Login>,
    founded: bool,
    collectors: Option<&Connection>,
) -> Result<Files, NotReady> {
    let spec = ring.spec;
    let log_level = member_set.cr.spec.common_configuration.log_level.unwrap_or_default();
    let members = member_set.members();
    let addresses = member_set.addresses();
    let seeds = seeds::of(members);
    let mut files = Files::default();
    let ipv6 = addresses.iter().any(|address| address.contains(':'));
    let limit = memory::limit(&member_set.cr.spec.common_configuration, config::jvm::DAEMON);
    files.shared(&node::environment_file(config::jvm::DAEMON), config::jvm::environment(spec, limit, ipv6)?);
    files.shared(config::LOG_FILE, config::log_file(log_level));
    files.shared_secret(node::STORES_FILE, config::stores(ring)?);
    let uid = member_set.cr.metadata.uid.as_deref().unwrap_or_default();
    files.identities(uid, members);
    for address in &addresses {
        let mut add = |file: &str, seeds: &[&str], listener| -> Result<(), NotReady> {
            files.member_secret(file, address, ring.yaml(file, address, seeds, listener)?);
            Ok(())
        };
        let others = founded.then(|| seeds::joining(&seeds, address).unwrap_or_else(|| seeds.clone()));
        add(config::YAML_FILE, &seeds, ClientListener::Clients)?;
        others.as_ref().map_or(Ok(()), |others| add(config::JOINING_FILE, others, ClientListener::Clients))?;
        if ring.asks {
            add(config::PRIVATE_FILE, &seeds, ClientListener::Agent)?;
            others
                .as_ref()
                .map_or(Ok(()), |others| add(config::JOINING_PRIVATE_FILE, others, ClientListener::Agent))?;
        }
        let cqlshrc = config::cqlshrc(spec, address, login.map(|login| login.password.as_str()))?;
        match login {
            Some(_) => files.member_secret(config::CQLSH_FILE, address, cqlshrc),
            None => files.member(config::CQLSH_FILE, address, cqlshrc),
        }
    }
    if let Some(login) = login {
        files.shared_secret(LOGIN_FILE, config::login_file(&login.password)?);
    }
    if let Some(container) = member_set.container(nodemanager::CONTAINER.name) {
        let settings = nodemanager::Settings {
            node_type: role.node_type(),
            log_level,
            collectors,
            database: Some(Database {
                cql_port: spec.cql_port,
                jmx_port: spec.jmx_local_port,
                minimum_disk_gb: spec.minimum_disk_gb,
            }),
        };
        let file = role.node_type().file();
        for member in members {
            files.member(&file, &member.address, nodemanager::file(&settings, &member.node, &member.address)?);
        }
        let environment = config::nodes(container.name, role.nodes_variable(), &addresses)?;
        files.shared(&node::environment_file(container.name), environment);
    }
    Ok(files)
}

fn daemon(
    chosen: &Chosen,
    spec: &CassandraConfiguration,
    role: Role,
    open_ports: &[(&'static str, Port)],
    owned_mounts: &[VolumeMount],
) -> DaemonContainer {
    if chosen.name == nodemanager::CONTAINER.name {
        return nodemanager::container(DaemonContainer::of(chosen), role.node_type(), LOGS);
    }
    // Reachable on the loopback address only, but that is the node's, where no two may use one port.
    let ports = [open_ports, &[("jmx", spec.jmx_local_port)]].concat();
    // The Go tf-operator added IPC_LOCK and SYS_NICE to a container that started as root. The server never ran as root, and
    // to another user capabilities are of no use without file capabilities, which the image's Java does not have. What
    // they stand for, locked memory and thread priorities, the server does without.
    DaemonContainer {
        ports,
        env: vec![("HOME".into(), config::CONF_DIR.into()), ("NODE_TYPE".into(), role.node_type().name().into())],
        mounts: [owned_mounts, &[mount(CONF, config::CONF_DIR), mount(CQLSH, config::CQLSH_DIR)]].concat(),
        drained: true,
        speaks_for_pod: true,
        ..DaemonContainer::of(chosen)
    }
}

/// Copies the image's configuration directory to where the daemons' user may write: in older images only their own user
/// may, and with that user goes the right to the files of an installation that is taken over.
fn copy_of_configuration(chosen: &Chosen) -> Container {
    const TARGET: &str = "/tmp/conf";
    Container {
        name: "configuration".into(),
        image: Some(chosen.image.clone()),
        image_pull_policy: Some("IfNotPresent".into()),
        command: Some(vec!["cp".into(), "-R".into(), format!("{}/.", config::CONF_DIR), TARGET.into()]),
        security_context: Some(pod::security_context(&Privileges::Restricted)),
        volume_mounts: Some(vec![mount(CONF, TARGET)]),
        // What it says when an image has no such directory is told.
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        ..Container::default()
    }
}

/// What a person has to know who takes over an installation of the Go tf-operator with one Cassandra: whether there was one cannot be seen, since its directory is
/// not mounted. Nothing is said of it any more once the ring has served with other data.
fn elsewhere(member_set: &MemberSet<'_, Cassandra>, role: Role) -> Option<String> {
    let path = role.elsewhere(directory::DATA_BASE, &member_set.identity)?;
    let siblings = &member_set.observed.siblings;
    let only = siblings.iter().all(|sibling| sibling.home() != member_set.cr.home());
    let is_open = !member_set.cr.is_initialized() && member_set.cr.spec.common_configuration.storage.is_none();
    (only && is_open).then(|| {
        format!(
            "if a Go tf-operator ran this Cassandra and no other one, its data is in {path}: set storage.hostPath.path to take it over"
        )
    })
}

/// Fields of the spec that are set and have no effect.
fn ignored(cr: &Cassandra, observed: &Observed<Cassandra>) -> Vec<String> {
    let spec = &cr.spec.service_configuration;
    let node_manager = selection::lists(&spec.containers, nodemanager::CONTAINER.name);
    let thrift = config::thrift(spec).is_some();
    // In older images it wanted JMX open to the network and the passwords on the server's command line.
    let reaper = "current images contain no Cassandra Reaper; with automaticRepair the operator has the ring repaired";
    let unused = "it is for node managers, and containers does not list nodemanager";
    let defaults = CassandraConfiguration::default();
    let settings = [
        (spec.listen_address.is_some(), "listenAddress", "members listen on the address of their node"),
        (spec.port.is_some() && !thrift, "port", "startRPC is false, so Thrift is not served"),
        (
            spec.storage_port != defaults.storage_port,
            "storagePort",
            "everything between members goes to sslStoragePort",
        ),
        (spec.minimum_disk_gb != defaults.minimum_disk_gb && !node_manager, "minimumDiskGB", unused),
        (spec.reaper_enabled, "reaperEnabled", reaper),
        (spec.reaper_app_port != usual::REAPER_APP, "reaperAppPort", "Reaper does not run"),
        (spec.reaper_adm_port != usual::REAPER_ADMIN, "reaperAdmPort", "Reaper does not run"),
    ];
    let initialized = cr.is_initialized() || takeover::is_recorded(cr);
    let restored = cr.status.as_ref().is_some_and(|status| status.own.restored.is_some());
    let late = (spec.restore_from.is_some() && initialized && !restored).then(|| {
        "spec.serviceConfiguration.restoreFrom: the ring was brought up before; a backup is taken in by a new resource alone"
            .to_owned()
    });
    let unasked = (cr.spec.dependencies.analytics.is_some() && !node_manager)
        .then(|| format!("spec.dependencies.analytics: {unused}"));
    settings
        .into_iter()
        .filter(|(set, ..)| *set)
        .map(|(_, field, why)| format!("spec.serviceConfiguration.{field}: {why}"))
        .chain(unasked)
        .chain(late)
        .chain(certificates::host_files_ignored(&cr.spec.common_configuration))
        .chain(dependency::ignored(&dependencies(cr), observed))
        .collect()
}
