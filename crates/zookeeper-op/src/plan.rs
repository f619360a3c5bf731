//! Desired state of an ensemble.

use std::collections::BTreeMap;

use serde_json::{Map, json};
use tf_agent_api::{
    content::ContentHash,
    launch, node,
    zookeeper::{SUPER_FILE, Servers},
};
use tf_api::{
    Managed as _, Zookeeper, ZookeeperConfiguration,
    contract::{MemberStatus, Protocol, Reason},
    kinds::{CertificatesMode, ClientAuthentication, Modes, PlainClients, QuorumTlsMode},
};
use tf_contrail::nodemanager::NodeType;
use tf_plan::{
    build::{
        configuration::Files,
        identity::Identity,
        pod::{DaemonContainer, mount, read_only},
        publish, storage,
    },
    component::Agents,
    hibernation,
    images::Builtin,
    member_set::{MemberSet, Parts, Traits},
    members::{self, Identities, Joining, Leaving, Membership, SizeRule},
    not_ready::NotReady,
    observed::Observed,
    plan::Plan,
    reports::AgentCoverage,
    takeover,
};

use crate::{
    OPERATOR, certificates, config, conflicts,
    membership::{Decision, Quorum, decide},
    modes::{self, Observation},
    observe::{self, ClusterState},
    ports, procedure, quorum_tls,
};

/// Larger ensembles write more slowly and tolerate no loss that matters here (docs/upstream/daemons.md#members).
const RULE: SizeRule = SizeRule::OddUpTo(5);
/// Key of the generated Secret.
pub const PASSWORD: &str = "password";
/// The endpoint for clients that speak no TLS.
pub const ENDPOINT: &str = "client";
/// The endpoint for those that do.
pub const TLS_ENDPOINT: &str = "client-tls";
/// Name of the resource whose directory is the Go tf-operator's.
pub const LEGACY: [&str; 1] = ["zookeeper1"];
/// Where it kept data.
const LEGACY_DIRECTORY: &str = "/var/lib/contrail/zookeeper";
/// Volume with what the administrator put on the node.
const HOST_FILES: &str = "host-files";
/// The daemon of a member.
pub const DAEMON: &str = "zookeeper";
/// Containers that the spec may list.
pub const CONTAINERS: [Builtin; 1] = [Builtin { name: DAEMON, image: "external-zookeeper", default: true }];

/// Plans
///
/// # Errors
/// When there are no members to plan for, or the spec asks for what cannot be.
pub fn plan(cr: &Zookeeper, observed: &Observed<Zookeeper>) -> Result<Plan, NotReady> {
    let spec = &cr.spec.service_configuration;
    ports::check(cr)?;
    let changing = changing(cr);
    let mut ensemble = MemberSet::prepare(
        cr,
        observed,
        &Traits {
            operator: OPERATOR,
            builtins: &CONTAINERS,
            containers: &spec.containers,
            obsolete: &[],
            rule: RULE,
            joining: Joining::AtFoundation,
            leaving: Leaving::Kept,
            identities: Identities::New { highest: 0 },
            takes_over: true,
            changing: changing.as_deref(),
        },
    )?;
    if ensemble.is_mixed() {
        let usual = storage::adopts(&LEGACY, &ensemble.identity);
        takeover::finds_data(cr.spec.common_configuration.storage.as_ref(), usual, LEGACY_DIRECTORY)?;
    }
    let recorded = ensemble.recorded.clone();
    let sight = ClusterState::of(cr, observed, RULE, &recorded);
    let decided = decided(&sight).filter(|_| !ensemble.is_asleep());
    if let Some(decision) = &decided {
        ensemble.membership = membership(cr, &sight, decision);
    } else if sight.is_founded() && !ensemble.is_asleep() {
        ensemble.membership = kept(cr, &sight, ensemble.membership);
    }
    let quorum = decided.as_ref().and_then(|decision| decision.quorum.as_ref());
    let list =
        observe::list(quorum.map(|quorum| &quorum.servers), cr, ensemble.members(), |it| config::server(spec, it));
    let render = |tls, certificates| files(cr, observed, &ensemble, &list, tls, certificates);
    let (quorum_tls, certificates) = next_modes(&sight, cr, quorum, |tls, certificates| {
        Ok(render(tls, certificates)?.content_hashes(ensemble.members()))
    })?;
    let files = render(quorum_tls.mode, certificates.mode)?;
    let contents = files.content_hashes(ensemble.members());

    conflicts::ENSEMBLES.check(cr, ensemble.members(), &observed.siblings)?;
    let identity = &ensemble.identity;
    let data = storage::data(identity, cr.spec.common_configuration.storage.as_ref(), &conflicts::usual(identity));
    let tls_port = spec.tls.as_ref().and_then(|tls| tls.client_port);
    let mut ports = conflicts::ports(spec);
    let admin = conflicts::admin(spec);
    let mounts = vec![mount(storage::DATA, config::DATA_DIR)];
    // For the agent alone, which cannot do more than read what the daemons' group may.
    let uses_host_files = certificates::host_files(certificates.mode).is_some();
    let host_files = uses_host_files.then(|| storage::host_path(HOST_FILES, node::HOST_FILES));
    let host_mount = uses_host_files.then(|| read_only(HOST_FILES, node::HOST_FILES_DIR));
    let daemons = ensemble
        .containers
        .iter()
        .map(|container| DaemonContainer {
            ports: ports.iter().copied().chain(admin).collect(),
            env: vec![("NODE_TYPE".into(), NodeType::ConfigDatabase.name().into())],
            mounts: mounts.iter().chain(&host_mount).cloned().collect(),
            speaks_for_pod: true,
            ..DaemonContainer::of(container)
        })
        .collect();
    // A port that is on the loopback address alone is in use, and no port of the Service.
    let is_open = config::plain_clients(spec) == PlainClients::Everywhere;
    ports.retain(|(name, _)| is_open || *name != ENDPOINT);
    let without_tls = is_open.then(|| ensemble.endpoint(ENDPOINT, Protocol::Tcp, spec.client_port, false));
    let with_tls = tls_port.map(|port| ensemble.endpoint(TLS_ENDPOINT, Protocol::Tcp, port, true));
    let endpoints = without_tls.into_iter().chain(with_tls).collect();
    let published = is_open.then(|| ("ports".to_owned(), json!({ "clientPort": spec.client_port.to_string() })));
    let secret = super_secret(cr);
    let password = observed.secrets.get(&secret).cloned().unwrap_or_default();
    let objects = vec![publish::credentials(identity, &secret, &password)];
    let mut plan = ensemble.plan(Parts {
        objects,
        files,
        daemons,
        data: Some(data),
        volumes: host_files.into_iter().collect(),
        owned_mounts: mounts,
        ports,
        endpoints,
        grace_seconds: 120,
        ignored: ignored(spec),
        own_status: Map::from_iter(published),
        ..Parts::default()
    })?;
    let sight = &sight;
    let subject = procedure::Subject { cr, observed, sight, contents, decided, quorum_tls, certificates };
    procedure::complete(&mut plan, &subject);
    hibernation::finish(&mut plan);
    Ok(plan)
}

/// The change of who is a member that has begun and is not over: somebody leaves, or the list lacks somebody still.
fn changing(cr: &Zookeeper) -> Option<String> {
    let own = &cr.status.as_ref()?.own;
    let leaves = || own.leaving.first().map(|member| format!("member {} is leaving", member.id));
    let joins = || {
        let listed = &own.ensemble.as_ref()?.members;
        let members = &cr.contract()?.members;
        let member = members.iter().find(|member| listed.iter().all(|listed| listed.id != member.id))?;
        Some(format!("member {} is joining", member.id))
    };
    leaves().or_else(joins)
}

/// What is to be done about the members; none while the kubelet's word is all there is, or they are being founded.
fn decided(sight: &ClusterState<'_>) -> Option<Decision> {
    let is_known = sight.clarity == AgentCoverage::Complete && sight.is_founded();
    is_known.then(|| decide(&sight.inputs(&sight.slots(|_| None))))
}

fn membership(cr: &Zookeeper, sight: &ClusterState<'_>, decision: &Decision) -> Membership {
    Membership {
        members: decision.members.clone(),
        wanted: sight.wanted() as i32,
        notes: members::explain_size(cr.spec.common_configuration.replicas, RULE).into_iter().collect(),
        held: decision.held.first().cloned(),
    }
}

/// The members as they are: nobody can be asked whether they could be others.
fn kept(cr: &Zookeeper, sight: &ClusterState<'_>, membership: Membership) -> Membership {
    let replicas = cr.spec.common_configuration.replicas;
    let (members, matching) = (membership.members.len(), sight.matching());
    let unused = || {
        let why = "members are added when those there are can be asked";
        (replicas.is_none() && matching > members).then(|| format!("{matching} nodes match, {members} are used: {why}"))
    };
    Membership {
        held: replicas.filter(|replicas| *replicas != members as i32).map(|replicas| {
            format!(
                "{replicas} members are asked for and {members} are there; that is changed when they can be asked, and none \
                 of them has a certificate yet"
            )
        }),
        notes: members::explain_size(replicas, RULE).into_iter().chain(unused()).chain(sight.homeless()).collect(),
        ..membership
    }
}

fn files(
    cr: &Zookeeper,
    observed: &Observed<Zookeeper>,
    ensemble: &MemberSet<'_, Zookeeper>,
    list: &Servers,
    quorum_tls: QuorumTlsMode,
    certificates: CertificatesMode,
) -> Result<Files, NotReady> {
    let spec = &cr.spec.service_configuration;
    let stored = observed.secrets.get(&super_secret(cr)).and_then(|data| data.get(PASSWORD));
    // Always there: the runtime completes it before it plans.
    let password = stored.ok_or_else(|| NotReady::waiting(Reason::NotYetReported, "the password is being made"))?;
    let agents = agents(cr, &observed.operator.cluster_domain);
    let uid = cr.metadata.uid.as_deref().unwrap_or_default();
    let launch = config::launch_file(spec, uid, &agents, certificates::host_files(certificates))?;
    let mut files = Files::default();
    files.shared_secret(SUPER_FILE, password);
    let level = cr.spec.common_configuration.log_level.unwrap_or_default();
    files.shared(config::LOG_FILE, config::log_file(level)?);
    files.shared(config::LOGBACK_FILE, config::logback_file(level));
    files.shared(&launch::file_name(DAEMON), launch);
    for member in ensemble.members() {
        let MemberStatus { id, address, .. } = member;
        let list = observe::with_itself(list, member, |it| config::server(spec, it));
        let settings = config::static_file(spec, address, quorum_tls, password)?;
        files.member_secret(config::STATIC_FILE, address, settings);
        files.member(config::DYNAMIC_FILE, address, list.file());
        files.member(config::ID_FILE, address, id.to_string());
    }
    Ok(files)
}

/// How the servers shall speak with each other now, and with which certificates. Founders begin with TLS if it is wanted: their
/// servers wait for certificates.
fn next_modes(
    sight: &ClusterState<'_>,
    cr: &Zookeeper,
    quorum: Option<&Quorum>,
    contents: impl Fn(QuorumTlsMode, CertificatesMode) -> Result<BTreeMap<String, ContentHash>, NotReady>,
) -> Result<(Modes<QuorumTlsMode>, Modes<CertificatesMode>), NotReady> {
    let (tls, source) = (quorum_tls::wanted(&cr.spec.service_configuration), certificates::wanted(cr));
    if !sight.is_founded() {
        let source = certificates::founded(source);
        return Ok((Modes { mode: tls, from: None }, Modes { mode: source, from: None }));
    }
    let recorded = (quorum_tls::recorded(cr), certificates::recorded(cr));
    let current = sight.reports.all_run(DAEMON, &contents(recorded.0.mode, recorded.1.mode)?);
    let whole = quorum.is_some_and(|quorum| quorum.fragile.is_none());
    let seen = Observation { current, whole };
    Ok((modes::next(recorded.0, tls, seen), certificates::next(recorded.1, source, seen, sight)))
}

/// Name of the Secret with the password by which agents change the list of members.
pub fn super_secret(cr: &Zookeeper) -> String {
    Identity::of(OPERATOR, cr).object_name("super")
}

/// How members' agents are reached, and what members are called.
pub fn agents(cr: &Zookeeper, cluster_domain: &str) -> Agents {
    Agents::of(OPERATOR, cr, config::agent_port(&cr.spec.service_configuration), cluster_domain)
}

/// Fields of the spec that are set and have no effect.
fn ignored(spec: &ZookeeperConfiguration) -> Vec<String> {
    let port = !spec.admin_enabled && spec.admin_port != ZookeeperConfiguration::default().admin_port;
    let tls = spec.tls.as_ref().filter(|tls| tls.client_port.is_none());
    let plain = tls.is_some_and(|tls| tls.plain_clients != PlainClients::default());
    let authentication = tls.is_some_and(|tls| tls.client_authentication != ClientAuthentication::default());
    let unread = [
        (port, "adminPort: adminEnabled is false"),
        (plain, "tls.plainClients: there is no tls.clientPort for others"),
        (authentication, "tls.clientAuthentication: there is no tls.clientPort to show certificates on"),
    ];
    unread
        .into_iter()
        .filter(|(is_set, _)| *is_set)
        .map(|(_, why)| format!("spec.serviceConfiguration.{why}"))
        .collect()
}
