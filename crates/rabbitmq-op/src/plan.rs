//! Desired state of a cluster.

use serde_json::{Map, Value, json};
use tf_agent_api::{
    launch,
    rabbitmq::{FORMATION_FILE, PASSWORD_FILE},
};
use tf_api::{
    MirroredQueueMode, PartitionHandling, Rabbitmq, RabbitmqConfiguration,
    contract::{MemberStatus, Protocol, Reason},
    schema::Sensitive,
};
use tf_plan::{
    build::{
        configuration::Files,
        identity::Identity,
        memory,
        pod::{DaemonContainer, mount},
        publish, storage,
    },
    certificates,
    component::Agents,
    hibernation,
    images::Builtin,
    member_set::{MemberSet, Parts, Traits},
    members::{Identities, Joining, Leaving, SizeRule},
    not_ready::NotReady,
    observed::Observed,
    plan::Plan,
    reports::{AgentCoverage, Reports},
    resize::{self, Decision, Record},
};

use crate::{
    OPERATOR,
    config::{self, Cluster},
    conflicts::CLUSTERS,
    definitions, distribution,
    login::{self, Login},
    membership::{self, Inputs},
    nodes::{Node, nodes},
    pinned::{Pinned, PinnedFiles},
    ports::Ports,
    procedure, takeover,
};

/// Every member holds every queue: more of them only make each message dearer (docs/upstream/daemons.md#members).
const LARGEST: i32 = 5;
/// The daemon of a member.
pub const CONTAINER: &str = "rabbitmq";
/// Containers that the spec may list.
pub const CONTAINERS: [Builtin; 1] = [Builtin { name: CONTAINER, image: "external-rabbitmq", default: true }];
const LOGS: &str = "logs";
/// What the Go tf-operator calls every cluster.
pub const LEGACY_NAME: &str = "rabbitmq1";
/// Field of the status.
const DISTRIBUTION: &str = "distribution";
/// Fields of the status that are stored before anything is done.
const RECORD: [&str; 3] = [resize::FIELDS[0], resize::FIELDS[1], DISTRIBUTION];
/// Cookie of every installation of the Go tf-operator whose spec names none (upstream `pkg/apis/tf/v1alpha1/defaults.go`).
const WELL_KNOWN_COOKIE: &str = "47EFF3BB-4786-46E0-A5BB-58455B3C2CB4";

/// The members of a cluster, and what is to be done about who is one.
pub(crate) struct Members<'a> {
    pub(crate) member_set: MemberSet<'a, Rabbitmq>,
    /// What they are called, in their order.
    pub(crate) nodes: Vec<Node>,
    /// What is to be recorded of them.
    pub(crate) record: Record,
    /// None where it cannot be told.
    pub(crate) decided: Option<Decision>,
    /// Why what is asked for waits although nothing is decided.
    unasked: Option<String>,
}

/// Chooses the members of a cluster, before anything is decided about who comes and goes.
///
/// # Errors
/// When there are none, or the spec asks for what cannot be.
pub(crate) fn prepare<'a>(
    cr: &'a Rabbitmq,
    observed: &'a Observed<Rabbitmq>,
) -> Result<MemberSet<'a, Rabbitmq>, NotReady> {
    let changing = changing(cr);
    MemberSet::prepare(
        cr,
        observed,
        &Traits {
            operator: OPERATOR,
            builtins: &CONTAINERS,
            containers: &cr.spec.service_configuration.containers,
            obsolete: &[],
            rule: SizeRule::OddUpTo(LARGEST),
            joining: Joining::Anytime,
            leaving: Leaving::Released,
            identities: Identities::New { highest: highest(cr) },
            takes_over: true,
            changing: changing.as_deref(),
        },
    )
}

/// Decides who comes and goes.
///
/// # Errors
/// When members cannot be called what they have to be.
pub(crate) fn members<'a>(
    mut member_set: MemberSet<'a, Rabbitmq>,
    pinned_files: &PinnedFiles<'a>,
) -> Result<Members<'a>, NotReady> {
    let MemberSet { cr, observed, .. } = member_set;
    let joins = membership::one_by_one(
        &mut member_set.membership.members,
        &member_set.recorded,
        &Reports::of_observed(observed),
    );
    let nodes_of =
        |member_set: &MemberSet<'_, _>| nodes(member_set.members(), &observed.operator.cluster_domain, pinned_files);
    let mut nodes = nodes_of(&member_set)?;
    let mut record = recorded(cr, &member_set);
    let mut decided = decided(observed, &member_set, &record, &nodes);
    let unasked = (decided.is_none() && !member_set.is_mixed())
        .then(|| too_many(cr, &member_set).or_else(|| joins.clone()))
        .flatten();
    if let Some(decision) = &mut decided {
        decision.waits = decision.waits.take().or(joins);
        record.clone_from(&decision.record);
        member_set.membership.members.clone_from(&record.members);
        nodes = nodes_of(&member_set)?;
    }
    Ok(Members { member_set, nodes, record, decided, unasked })
}

/// Plans a cluster.
///
/// # Errors
/// When there are no members to plan for, a Secret is missing or unfit, or the spec asks for what cannot be.
pub fn plan(cr: &Rabbitmq, observed: &Observed<Rabbitmq>) -> Result<Plan, NotReady> {
    let spec = &cr.spec.service_configuration;
    let common = &cr.spec.common_configuration;
    let member_set = prepare(cr, observed)?;
    CLUSTERS.check(cr, member_set.members(), &observed.siblings)?;
    let login = Login::of(cr, observed)?;
    let pinned_files = PinnedFiles::of(cr, observed, &member_set);
    takeover::check(&member_set, observed, &pinned_files)?;
    let cookie = cookie(cr, observed, &pinned_files)?;
    let epmd = pinned_files.epmd_port(spec.erl_epmd_port);
    let tls = pinned_files.tls(spec.tls.as_ref().and_then(|tls| tls.distribution));
    let delegates = pinned_files.delegates();
    let ports = Ports::of(spec.port, epmd.value)?;
    let Members { member_set, nodes, record, decided, unasked } = members(member_set, &pinned_files)?;
    let cluster = Cluster {
        name: format!("{}/{}", member_set.identity.namespace, member_set.identity.name),
        uid: cr.metadata.uid.as_deref().unwrap_or_default(),
        spec,
        log_level: common.log_level.unwrap_or_default(),
        memory: memory::limit(common, CONTAINER),
        ports,
        tls: tls.value,
        delegates,
        nodes: &nodes,
    };

    let agents = Agents::of(OPERATOR, cr, ports.agent, &observed.operator.cluster_domain);
    let mut files = files(&cluster, member_set.members(), &login, cookie.value)?;
    files.shared(&launch::file_name(CONTAINER), config::launch_file(&cluster, &agents)?);
    if tls.value {
        files.shared(distribution::FILE, distribution::options_file(&member_set.identity));
    }
    let contents = files.content_hashes(member_set.members());

    let identity = &member_set.identity;
    let mounts = vec![mount(storage::DATA, config::DATA_DIR), mount(LOGS, config::LOG_DIR)];
    let daemons = member_set
        .containers
        .iter()
        .map(|container| DaemonContainer {
            ports: ports.named(),
            env: config::environment(),
            mounts: mounts.clone(),
            drained: true,
            speaks_for_pod: true,
            ..DaemonContainer::of(container)
        })
        .collect();
    let additions = Parts {
        files,
        daemons,
        data: Some(storage::data(identity, common.storage.as_ref(), &directory(identity, "/var/lib/contrail"))),
        volumes: vec![storage::host_path(LOGS, &directory(identity, "/var/log/contrail"))],
        owned_mounts: mounts,
        ports: ports.named(),
        objects: vec![publish::credentials(identity, &login::own_secret(cr), &login.own_data(cr, cookie.value))],
        endpoints: vec![member_set.endpoint("amqp", Protocol::Amqps, ports.amqp, true)],
        connection: Some(("amqp", "rabbitmq", login.connection())),
        grace_seconds: 600,
        ignored: login::ignored(cr).into_iter().chain(certificates::host_files_ignored(common)).collect(),
        own_status: own_status(&login, tls.value, delegates),
        ..Parts::default()
    };
    let mut plan = member_set.plan(additions)?;
    record.keep(&mut plan);
    plan.record = &RECORD;
    plan.notes.extend(well_known_cookie(cookie.value, &ports).into_iter().chain(pausing(spec, nodes.len())));
    hold(&mut plan, [cookie.held, epmd.held, tls.held, unasked].into_iter().flatten());
    procedure::complete(&mut plan, cr, observed, &contents, &nodes, decided);
    hibernation::finish(&mut plan);
    Ok(plan)
}

/// Directory of the nodes below `base`.
pub fn directory(identity: &Identity, base: &str) -> String {
    storage::node_directory(base, CONTAINER, &[LEGACY_NAME], identity)
}

/// What the status says of this kind alone, whoever the members are.
fn own_status(login: &Login, tls: bool, delegates: u32) -> Map<String, Value> {
    let distribution = json!({"tls": tls, "delegates": delegates});
    Map::from_iter([("secret".to_owned(), json!(login.secret)), (DISTRIBUTION.to_owned(), distribution)])
}

/// The change of who is a member that has begun and is not over.
fn changing(cr: &Rabbitmq) -> Option<String> {
    resize::changing(&cr.status.as_ref()?.own.leaving)
}

/// What is to be done about who is a member; none while the kubelet's word is all there is, they are being founded, or not all of their pods
/// are ours.
fn decided(
    observed: &Observed<Rabbitmq>,
    member_set: &MemberSet<'_, Rabbitmq>,
    record: &Record,
    nodes: &[Node],
) -> Option<Decision> {
    let reports = Reports::of_observed(observed);
    let is_ours = !member_set.recorded.is_empty() && !member_set.is_mixed();
    if !is_ours || member_set.is_asleep() || reports.clarity() != AgentCoverage::Complete {
        return None;
    }
    let places = member_set.places();
    Some(membership::decide(&Inputs {
        capacity: member_set.capacity(&places, &reports),
        nodes,
        record,
        reports: &reports,
    }))
}

/// Who is recorded as a member.
fn recorded(cr: &Rabbitmq, member_set: &MemberSet<'_, Rabbitmq>) -> Record {
    let leaving = cr.status.as_ref().map(|status| status.own.leaving.as_slice()).unwrap_or_default();
    Record::of(member_set.members(), highest(cr), leaving)
}

/// Highest identity that was ever given.
fn highest(cr: &Rabbitmq) -> u32 {
    cr.status.as_ref().and_then(|status| status.own.highest_id).unwrap_or_default()
}

/// Why members stay that nobody asks for.
fn too_many(cr: &Rabbitmq, member_set: &MemberSet<'_, Rabbitmq>) -> Option<String> {
    let (replicas, members) = (cr.spec.common_configuration.replicas?, member_set.members().len());
    (usize::try_from(replicas).unwrap_or_default() < members).then(|| {
        format!("{replicas} members are asked for and {members} are there; members leave when all of them can be asked")
    })
}

/// How members' agents are reached, and what members are called; none where the port is none.
pub fn agents(cr: &Rabbitmq, cluster_domain: &str) -> Option<Agents> {
    let spec = &cr.spec.service_configuration;
    Ports::of(spec.port, spec.erl_epmd_port).ok().map(|ports| Agents::of(OPERATOR, cr, ports.agent, cluster_domain))
}

/// The files of all members.
fn files(cluster: &Cluster<'_>, members: &[MemberStatus], login: &Login, cookie: &str) -> Result<Files, NotReady> {
    let mut files = Files::default();
    files.shared(config::PLUGINS_FILE, config::plugins_file());
    files.shared(config::INETRC_FILE, cluster.inetrc_file());
    files.shared(config::HOSTS_FILE, cluster.hosts_file());
    files.shared(FORMATION_FILE, cluster.formation_file()?);
    files.shared(config::FORMATION_FILE_4, cluster.formation_file_4()?);
    for (member, node) in members.iter().zip(cluster.nodes) {
        files.member(config::CONFIG_FILE, &member.address, cluster.config_file(node)?);
        files.member(config::ENV_FILE, &member.address, cluster.env_file(node)?);
    }
    files.identities(cluster.uid, members);
    let mirrored = cluster.spec.mirrored_queue_mode.unwrap_or(MirroredQueueMode::All);
    let definitions = definitions::definitions(login, mirrored, cluster.nodes)?;
    files.shared_secret(definitions::FILE, definitions);
    files.shared_secret(definitions::FILE_4, definitions::definitions_4(login)?);
    files.shared_secret(PASSWORD_FILE, login.agent_password.as_str());
    files.shared_secret(config::COOKIE_FILE, cookie);
    Ok(files)
}

/// The cookie that members get.
fn cookie<'a>(
    cr: &'a Rabbitmq,
    observed: &'a Observed<Rabbitmq>,
    pinned_files: &PinnedFiles<'a>,
) -> Result<Pinned<&'a str>, NotReady> {
    let own = login::own_secret(cr);
    let wanted = login::given(cr.spec.service_configuration.erlang_cookie.as_ref().map(Sensitive::expose));
    let stored = observed.secrets.get(&own).and_then(|data| data.get(login::COOKIE));
    let rule = "has to be 1 to 255 printable ASCII characters without blanks";
    let is_cookie = |text: &str| (1..=255).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    if wanted.is_some_and(|wanted| !is_cookie(wanted)) {
        return Err(NotReady::invalid(Reason::InvalidSpec, format!("serviceConfiguration.erlangCookie {rule}")));
    }
    pinned_files
        .cookie(wanted, stored)
        .filter(|cookie| is_cookie(cookie.value))
        .ok_or_else(|| NotReady::secret(format!("key {} of Secret {own} {rule}", login::COOKIE)))
}

/// What a running cluster keeps stands beside what else keeps the plan from being complete.
fn hold(plan: &mut Plan, why: impl Iterator<Item = String>) {
    let mut why: Vec<String> = why.collect();
    if why.is_empty() {
        return;
    }
    why.extend(plan.held.take().map(|(_, other)| other));
    plan.held = Some((Reason::InvalidSpec, why.join("; ")));
}

/// What is said of two members of which neither serves without the other.
fn pausing(spec: &RabbitmqConfiguration, members: usize) -> Option<String> {
    let pauses = spec.cluster_partition_handling == PartitionHandling::PauseMinority;
    (members == 2 && pauses).then(|| {
        "with clusterPartitionHandling pause_minority one of two members does not serve while the other one is away, restarts included; three members do"
            .to_owned()
    })
}

/// What is said of a cookie that others know.
fn well_known_cookie(cookie: &str, ports: &Ports) -> Option<String> {
    (cookie == WELL_KNOWN_COOKIE).then(|| {
        format!(
            "the Erlang cookie is the one that every installation of the Go tf-operator shares, and whoever knows it and \
             reaches port {} controls the members; keep that port closed to others",
            ports.distribution
        )
    })
}
