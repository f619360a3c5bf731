//! What every component with members plans the same way: a StatefulSet of daemons on chosen nodes, and what stands beside
//! it.
//!
//! A component calls [`MemberSet::prepare`] to learn its members and containers, renders its files for them, and hands
//! everything to [`MemberSet::plan`].

use k8s_openapi::api::core::v1::{Container as InitContainer, Volume, VolumeMount};
use serde_json::{Map, Value};
use tf_agent_api::{family::IpFamily, launch::Unusable};
use tf_api::{
    Managed,
    common::Container,
    contract::{Draft, Endpoint, MemberStatus, Reason},
    schema::Port,
};
use tf_config_files::Unrepresentable;

use crate::{
    build::{
        claims::Claims,
        configuration::Files,
        identity::Identity,
        pod::{self, DaemonContainer, PodShape},
        publish, service,
        storage::Data,
        workload::{self, Members},
    },
    certificates, hibernation,
    images::{self, Builtin, Chosen, Release},
    members::{self, DesiredMembers, Identities, Joining, Leaving, Membership, SizeRule},
    not_ready::NotReady,
    numbers,
    object::Object,
    observed::{Node, Observed},
    placement::{self, Placement},
    plan::{Hibernation, News, Plan, Rollout},
    procedure::{self, Store},
    reports::Reports,
    resize::Capacity,
    rollout,
    secret::SecretData,
    selection::{OBSOLETE, Offer, Selection},
    takeover,
};

/// What distinguishes one component from another.
#[derive(Clone, Copy, Debug)]
pub struct Traits<'a> {
    /// Name of the operator.
    pub operator: &'static str,
    /// Containers it can run.
    pub builtins: &'a [Builtin],
    /// The spec's container list.
    pub containers: &'a [Container],
    /// Containers of the Go tf-operator that this operator does not need, with why. Naming them is no mistake.
    pub obsolete: &'a [(&'static str, &'static str)],
    /// Number of members if the spec does not say.
    pub rule: SizeRule,
    /// When nodes may become members.
    pub joining: Joining,
    /// What happens to members that lose their node.
    pub leaving: Leaving,
    /// Which identities new members get.
    pub identities: Identities,
    /// Whether pods that the Go tf-operator made are taken over.
    pub takes_over: bool,
    /// A change of who is a member that has begun: a hibernation waits for its end.
    pub changing: Option<&'a str>,
}

impl<'a> Traits<'a> {
    /// Those of a component that keeps nothing, on every node that is meant, where each member may come and go by itself.
    pub const fn without_data(operator: &'static str, builtins: &'a [Builtin], containers: &'a [Container]) -> Self {
        Self {
            operator,
            builtins,
            containers,
            obsolete: &OBSOLETE,
            rule: SizeRule::EveryNode,
            joining: Joining::Anytime,
            leaving: Leaving::Dropped,
            identities: Identities::New { highest: 0 },
            takes_over: false,
            changing: None,
        }
    }
}

/// Members and containers of a resource, ready for its files to be rendered.
pub struct MemberSet<'a, Cr> {
    /// Names and labels.
    pub identity: Identity,
    /// The resource.
    pub cr: &'a Cr,
    /// The snapshot.
    pub observed: &'a Observed<Cr>,
    /// The release of the images.
    pub release: Release,
    /// Containers to run.
    pub containers: Vec<Chosen>,
    /// Members as they are recorded, or as pods have them that are taken over.
    pub recorded: Vec<MemberStatus>,
    /// Members.
    pub membership: Membership,
    hibernation: Hibernation,
    takes_over: bool,
    is_mixed: bool,
    ignored: Vec<String>,
    news: Option<News>,
}

/// What a component adds.
#[derive(Default)]
pub struct Parts {
    /// Configuration files.
    pub files: Files,
    /// Daemons, in order.
    pub daemons: Vec<DaemonContainer>,
    /// Init containers.
    pub init: Vec<InitContainer>,
    /// Where members keep their data.
    pub data: Option<Data>,
    /// Volumes besides data.
    pub volumes: Vec<Volume>,
    /// Mounts whose directories belong to the daemons' user.
    pub owned_mounts: Vec<VolumeMount>,
    /// Mounts that the daemons' user may write to if that can be had.
    pub offered_mounts: Vec<VolumeMount>,
    /// Ports of the headless Service.
    pub ports: Vec<(&'static str, Port)>,
    /// Objects of the component's own, applied before the workload.
    pub objects: Vec<Object>,
    /// Endpoints for clients.
    pub endpoints: Vec<Endpoint>,
    /// What clients need to connect, by the name of the endpoint they connect to, with the type of the service.
    pub connection: Option<(&'static str, &'static str, SecretData)>,
    /// Seconds between the request to stop and the kill.
    pub grace_seconds: i64,
    /// Whether containers see each other's processes.
    pub share_processes: bool,
    /// Conditions known at planning time.
    pub drafts: Vec<Draft>,
    /// Fields of the spec that have no effect, with why.
    pub ignored: Vec<String>,
    /// Status fields only this kind has.
    pub own_status: Map<String, Value>,
}

impl<'a, Cr: Managed> MemberSet<'a, Cr> {
    /// Chooses members and containers.
    ///
    /// # Errors
    /// When no node matches, nodes cannot be read, or the spec asks for what does not exist.
    pub fn prepare(cr: &'a Cr, observed: &'a Observed<Cr>, traits: &Traits<'_>) -> Result<Self, NotReady> {
        let common = cr.common();
        certificates::check(common)?;
        let selection = Selection::of(
            cr,
            &observed.operator,
            &Offer { builtins: traits.builtins, containers: traits.containers, obsolete: traits.obsolete },
        )?;
        let nodes = observed.nodes.known()?;
        let placement = Placement::of_members(common);
        let identity = Identity::of(traits.operator, cr);
        let recorded = cr.contract().map(|contract| contract.members.clone()).unwrap_or_default();
        let recorded = if recorded.is_empty() && traits.takes_over {
            takeover::members(observed.pods.known()?, nodes, &identity.workload_name("statefulset"))?
        } else {
            recorded
        };
        let (recorded, news) = if Cr::INFO.keeps_data {
            let workload = identity.workload_name("statefulset");
            let workload = observed.workloads.get(&workload).map(|workload| workload.name.as_str());
            let confirmed = numbers::of_volumes(recorded.clone(), &Reports::of_observed(observed), workload)?;
            let news = numbers::news(&recorded, &confirmed);
            (confirmed, news)
        } else {
            (recorded, None)
        };
        let is_mixed = traits.takes_over && Reports::of_observed(observed).pods.iter().any(takeover::is_legacy);
        let desired = DesiredMembers {
            placement: &placement,
            replicas: common.replicas,
            rule: traits.rule,
            joining: traits.joining,
            leaving: traits.leaving,
            identities: traits.identities,
        };
        let hibernation = Hibernation::of(&hibernation::Inputs {
            cr,
            observed,
            recorded: &recorded,
            has_data: Cr::INFO.keeps_data,
            changing: traits.changing,
            workload: &identity.workload_name("statefulset"),
        });
        let membership = match hibernation {
            // No member comes or goes meanwhile, even if nodes do.
            Hibernation::Asleep => hibernation::membership(&recorded, nodes, &desired),
            _ if is_mixed && Cr::INFO.keeps_data => takeover::membership(&recorded, nodes, &desired),
            Hibernation::Awake | Hibernation::Held(..) => members::choose(&recorded, nodes, &desired),
        };
        if membership.members.is_empty() {
            return Err(NotReady::waiting(Reason::NoMatchingNodes, none_matches(nodes, &placement)));
        }
        // What is founded too small stays too small.
        if traits.joining != Joining::Anytime
            && recorded.is_empty()
            && let Some(missing) = &membership.held
        {
            return Err(NotReady::waiting(Reason::NoMatchingNodes, format!("{missing}; all start together")));
        }
        let Selection { release, containers, ignored } = selection;
        let takes_over = traits.takes_over;
        Ok(Self {
            identity,
            cr,
            observed,
            release,
            containers,
            recorded,
            membership,
            hibernation,
            takes_over,
            is_mixed,
            ignored,
            news,
        })
    }

    /// Whether its servers are stopped: nothing can be asked of them, and nothing is decided about them.
    pub fn is_asleep(&self) -> bool {
        self.hibernation == Hibernation::Asleep
    }

    /// Whether it sleeps and no pod is left.
    pub fn is_fast_asleep(&self) -> bool {
        let live = self.observed.workloads.get(&self.identity.workload_name("statefulset"));
        let is_stopped = live.is_some_and(|live| live.current && live.wanted == 0);
        self.is_asleep() && is_stopped && self.observed.pods.known().is_ok_and(Vec::is_empty)
    }

    /// Whether pods of another operator are being taken over.
    pub fn is_mixed(&self) -> bool {
        self.is_mixed
    }

    /// Members in the order they joined.
    pub fn members(&self) -> &[MemberStatus] {
        &self.membership.members
    }

    /// Who is wanted and who is there. `places`: as [`Self::places`] has them.
    pub fn capacity<'b>(&'b self, places: &'b [&'b Node], reports: &Reports<'b>) -> Capacity<'b> {
        Capacity { wanted: self.stated_size(), members: self.members(), places, pods: reports.pods }
    }

    /// Number of members, where the spec states one.
    pub fn stated_size(&self) -> Option<usize> {
        self.cr.common().replicas.map(|replicas| usize::try_from(replicas).unwrap_or_default())
    }

    /// Nodes that match and have an address.
    pub fn places(&self) -> Vec<&'a Node> {
        let placement = Placement::of_members(self.cr.common());
        let nodes = self.observed.nodes.known().map(Vec::as_slice).unwrap_or_default();
        nodes.iter().filter(|node| placement.matches(node) && node.address.is_some()).collect()
    }

    /// Addresses of the members, in the order they joined.
    pub fn addresses(&self) -> Vec<String> {
        self.members().iter().map(|member| member.address.clone()).collect()
    }

    /// A container, if it is to run.
    pub fn container(&self, name: &str) -> Option<&Chosen> {
        self.containers.iter().find(|container| container.name == name)
    }

    /// An endpoint on every member.
    pub fn endpoint(&self, name: &str, protocol: tf_api::contract::Protocol, port: Port, tls: bool) -> Endpoint {
        let mut nodes = self.addresses();
        nodes.sort_unstable();
        Endpoint { name: name.into(), protocol, port: port.get(), tls, service: None, nodes }
    }

    /// DNS name of a Service of the resource.
    pub fn service_host(&self, service: &str) -> String {
        format!("{service}.{}.svc.{}", self.identity.namespace, self.observed.operator.cluster_domain)
    }

    /// The plan of a component whose members serve each for itself, from its parts to its roll-out. `further`: what the component adds to a plan whose
    /// members are known, such as its registration.
    ///
    /// # Errors
    /// As [`Self::plan`].
    pub fn roll_out(self, parts: Parts, store: &Store, further: impl FnOnce(&mut Plan)) -> Result<Plan, NotReady> {
        let (cr, observed) = (self.cr, self.observed);
        let contents = parts.files.content_hashes(self.members());
        let mut plan = self.plan(parts)?;
        procedure::complete(store, &mut plan, cr, observed, &contents);
        procedure::reschedule(&mut plan, observed);
        further(&mut plan);
        hibernation::finish(&mut plan);
        Ok(plan)
    }

    /// Completes the plan.
    ///
    /// # Errors
    /// When the files do not fit into an object, or two daemons would have the same port.
    pub fn plan(self, mut parts: Parts) -> Result<Plan, NotReady> {
        pod::ports_differ(&parts.daemons)?;
        let family = IpFamily::of_members(self.members()).unwrap_or_default();
        let identity = &self.identity;
        let service_name = identity.members_service();
        let mut objects = vec![workload::service_account(identity)];
        objects.append(&mut parts.objects);
        objects.extend(parts.files.objects(identity)?);
        objects.push(service::headless(identity, &service_name, &parts.ports));
        objects.push(workload::disruption_budget(identity));
        objects.push(publish::discovery(identity, &parts.endpoints));
        let connection = parts.connection.take().and_then(|(endpoint, kind, credentials)| {
            let endpoint = parts.endpoints.iter().find(|candidate| candidate.name == endpoint)?;
            Some(publish::connection(identity, kind, endpoint, &credentials))
        });
        let connection = connection.map(|(secret, digest)| {
            let name = secret.name.clone();
            objects.push(secret);
            (name, digest)
        });

        let mut ignored = self.ignored;
        ignored.append(&mut parts.ignored);
        ignored.extend(pod::ignored_overrides(identity, self.cr.common(), &parts.daemons));
        let name = identity.workload_name("statefulset");
        let replicas = self.membership.members.len() as i32;
        let (mut claims, volume) = match parts.data.take() {
            Some(Data::Claim(claim)) => {
                (Claims::of(identity, &claim, &name, self.membership.members.len(), self.observed), None)
            }
            Some(Data::Volume(volume)) => (Claims::default(), Some(*volume)),
            None => (Claims::default(), None),
        };
        objects.append(&mut claims.objects);
        ignored.extend(claims.ignored);
        let nodes = placement::on_nodes(self.membership.members.iter().map(|member| member.node.as_str()));
        let (template, template_hash) = pod::template(&PodShape {
            identity,
            common: self.cr.common(),
            agent_image: images::tf_node(&self.observed.operator.images, &self.observed.operator.version),
            service_account: workload::service_account_name(identity),
            init: parts.init,
            daemons: parts.daemons,
            volumes: volume.into_iter().chain(parts.volumes).collect(),
            owned_mounts: parts.owned_mounts,
            offered_mounts: parts.offered_mounts,
            has_secret_files: parts.files.has_secrets(),
            affinity: placement::affinity(Some(nodes), &identity.selector()),
            share_processes: parts.share_processes,
            grace_seconds: parts.grace_seconds,
            family,
            restart: self.cr.restart(),
        });
        let pods = if self.hibernation == Hibernation::Asleep { 0 } else { replicas };
        let members =
            Members { name: name.clone(), replicas: pods, template, claim: claims.template, service: &service_name };
        let workload = workload::stateful_set(identity, members);
        objects.push(if self.takes_over { workload.taking_over() } else { workload });

        let pods = self.observed.pods.known().map(Vec::as_slice).unwrap_or_default();
        let workloads = vec![(name, template_hash)];
        let step = rollout::of_pods(pods, &self.observed.workloads, &workloads).restart();
        Ok(Plan {
            objects,
            rollout: Some(Rollout {
                workloads,
                wanted: Some(self.membership.wanted.max(replicas)),
                selector: identity.selector_text(),
            }),
            held: self.membership.held.map(|why| (held_reason(replicas, self.membership.wanted), why)),
            members: self.membership.members,
            hibernation: self.hibernation,
            endpoints: parts.endpoints,
            connection,
            discovery: Some(publish::discovery_name(identity)),
            version: self.release.name,
            drafts: parts.drafts,
            ignored,
            notes: self.membership.notes.into_iter().chain(claims.unbound).chain(claims.growing).collect(),
            own_status: parts.own_status,
            step,
            news: self.news.into_iter().collect(),
            ..Plan::default()
        })
    }
}

/// Why there is no member at all.
fn none_matches(nodes: &[Node], placement: &Placement) -> String {
    let lacking = members::family::lacking(nodes, placement);
    let why = lacking.map(|lacking| format!(" and has an address ({lacking})")).unwrap_or_default();
    format!("no node matches {}{why}; label nodes or change nodeSelector", placement.describe())
}

/// Too few nodes can heal by itself; too many members is for the user to resolve.
fn held_reason(members: i32, wanted: i32) -> Reason {
    if members < wanted { Reason::NoMatchingNodes } else { Reason::InvalidSpec }
}

/// A file that cannot express what the spec asks for.
impl From<Unrepresentable> for NotReady {
    fn from(unrepresentable: Unrepresentable) -> Self {
        Self::invalid(Reason::InvalidSpec, unrepresentable.to_string())
    }
}

/// A launch file that cannot express it.
impl From<Unusable> for NotReady {
    fn from(unusable: Unusable) -> Self {
        Self::invalid(Reason::InvalidSpec, unusable.to_string())
    }
}

/// The log level as syslog-style daemons of Tungsten Fabric spell it (docs/upstream/files.md#log-levels, docs/upstream/go-operator.md#log-levels).
pub fn sys_log_level(level: tf_api::common::LogLevel) -> &'static str {
    use tf_api::common::LogLevel;
    match level {
        LogLevel::Info => "SYS_INFO",
        LogLevel::Debug => "SYS_DEBUG",
        LogLevel::Warning => "SYS_WARN",
        LogLevel::Error => "SYS_ERR",
        LogLevel::Critical => "SYS_CRIT",
        LogLevel::None => "SYS_EMERG",
    }
}
