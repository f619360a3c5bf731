//! Desired state of a Vrouter: one DaemonSet for each group of nodes.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Container};
use serde_json::{Map, Value, json};
use tf_agent_api::{
    content::ContentHash,
    family::IpFamily,
    launch::file_name,
    node,
    template::{self, Local},
};
use tf_api::{
    Managed, Vrouter,
    common::PodConfiguration,
    contract::{ConditionType, Draft, Reason},
    names,
};
use tf_contrail::{
    nodemanager::{self, NodeType},
    sandesh, vnc_api,
};
use tf_plan::{
    build::{
        configuration::Files,
        identity::{Identity, fit},
        pod::{self, DaemonContainer, PodShape},
        publish, workload,
    },
    certificates,
    cluster::Cluster,
    component::Agents,
    dependency::{self, Dependency, Need},
    hibernation, images, keystone,
    not_ready::NotReady,
    object::{CONFIG_MAP, Kind, Object},
    observed::{Observed, Pod},
    placement,
    plan::{Plan, Rollout},
    procedure,
    secret::SecretData,
    selection::{Offer, Selection},
};

use crate::{
    OPERATOR,
    config::{agent, clients, cni, host},
    groups::{self, Group},
    launch,
    parameters::{self, Name, Parameters, Secret},
    pods::{self, PodInputs, Pods},
    profiles, registration, removal,
    services::{self, Services},
    strategy, taint,
};

/// No file is of a single node, so any address finds what all nodes get.
const ANY_NODE: &str = "0.0.0.0";
/// Agents listed in a status; larger sets are only counted.
const LISTED_AGENTS: usize = 100;
/// What Tungsten Fabric was made for (tf-container-builder; mesos and vcenter in earlier releases). Only openstack, kubernetes and mesos make a
/// difference.
const ORCHESTRATORS: [&str; 6] = ["kubernetes", "openshift", "openstack", "mesos", "vcenter", "none"];

/// Plans a Vrouter.
///
/// # Errors
/// When the spec asks for what cannot be, names a Secret that does not exist, or it is to be seen for the first time which services there are
/// and cannot be.
pub fn plan(cr: &Vrouter, observed: &Observed<Vrouter>) -> Result<Plan, NotReady> {
    let remembered = observed.config_maps.get(&services::map_name(&identity(cr)));
    // Of a kind that is not installed there never was one to be remembered.
    let is_missing = |kind: Kind| observed.peers(kind.kind).is_err_and(|why| why.reason == Reason::CrdMissing);
    let need = |kind| if remembered.is_some() || is_missing(kind) { Need::Remembered } else { Need::Optional };
    let used = services::dependencies(cr).into_iter();
    let used: Vec<Dependency> = used.map(|it| Dependency { need: need(it.kind), ..it }).collect();
    let resolved = dependency::resolve(&used, cr.home(), cr.is_initialized(), observed)?;
    let drafts = resolved.drafts.clone();
    let services = Services::find(&resolved, remembered);
    complete(cr, observed, &services, drafts.clone()).map_err(|not_ready| not_ready.with_drafts(drafts))
}

/// The identity of a resource.
pub fn identity(cr: &Vrouter) -> Identity {
    Identity::of(OPERATOR, cr)
}

/// Name of the Secret with the password of Keystone's administrator, where the spec leaves it to one.
pub fn password_secret(cr: &Vrouter) -> Option<&str> {
    keystone::secret(cr.spec.common_configuration.auth_parameters.as_ref())
}

fn complete(
    cr: &Vrouter,
    observed: &Observed<Vrouter>,
    services: &Services,
    drafts: Vec<Draft>,
) -> Result<Plan, NotReady> {
    let identity = identity(cr);
    let groups = groups::of(cr);
    groups::distinct(cr, &groups)?;
    certificates::check(cr.common())?;
    groups::alone(cr, &groups, &observed.siblings)?;
    let selection = Selection::of(
        cr,
        &observed.operator,
        &Offer {
            builtins: &pods::CONTAINERS,
            containers: &cr.spec.service_configuration.containers,
            obsolete: &pods::OBSOLETE,
        },
    )?;
    let cluster = Cluster::of(&observed.facts, &observed.foreign);
    cluster.seen()?;
    let secret = keystone_secret(cr, observed)?;
    let parameters = Parameters::of(cr, secret.as_ref())?;
    let agents = agents(cr, &parameters)?;
    let variables = identity.object_name("env");
    let cni_map = fit(&format!("{}-cni-config", identity.name), 63);
    let pods_with = |parameters: &Parameters, variables: &str| {
        PodInputs {
            cr,
            identity: &identity,
            containers: &selection.containers,
            release: &selection.release,
            overrides: &observed.operator.images,
            cluster: &cluster,
            parameters,
            variables,
            cni_map: &cni_map,
            agent_port: agents.port,
        }
        .pods()
    };
    let pods = pods_with(&parameters, &variables)?;

    let mut objects = vec![workload::service_account(&identity)];
    objects.push(publish::endpoints_map(&identity, services::map_name(&identity), &services.endpoints()));
    if pods.bring_plugin() {
        let spec = &cr.spec.service_configuration;
        let name = spec.cluster_name.as_deref().unwrap_or(&cluster.name);
        let content = cni::file(name, cluster.platform, spec)?;
        objects.push(cni_object(&identity, cni_map.clone(), content));
    }
    objects.push(environment(&identity, &variables, host::variables(&parameters, services, &cluster)?));

    let authority = secret.as_ref().and_then(|secret| secret.authority.as_ref());
    let world = World {
        cr,
        observed,
        services,
        cluster: &cluster,
        identity: &identity,
        pods: &pods,
        agents: &agents,
        authority,
    };
    let Made { objects: made, sets, workloads, contents, changes_node, daemons } =
        world.make(&groups, &parameters, &pods_with)?;
    objects.extend(made);
    let mut notes = notes(&sets, services, &cluster)?;
    let known = observed.nodes.known().map(Vec::as_slice).unwrap_or_default();
    notes.extend(groups::kept_away(&groups, known));
    notes.extend(groups::contested(&groups, known));
    notes.extend(groups::shared(cr, &groups, &observed.siblings, known));
    let held = without_control(&sets, services, &drafts)?;
    let pod_groups = strategy::pod_groups(cr, &groups, &sets, &workloads)?;
    let marks = taint::marks(cr, observed, &groups, pods.bring_plugin(), held.is_none());
    let mut plan = Plan {
        objects,
        version: selection.release.name.clone(),
        drafts,
        notes,
        held,
        marks,
        own_status: own_status(observed, &workloads),
        rollout: Some(Rollout { workloads, wanted: None, selector: identity.selector_text() }),
        ..Plan::default()
    };
    removal::complete(&mut plan, cr, observed, &groups, &pods, changes_node);
    procedure::complete_nodes(pods::AGENT, &mut plan, cr, observed, &pod_groups, &contents);
    if let Some(parameters) = sets.first() {
        registration::complete(
            &mut plan,
            &registration::Inputs { cr, observed, groups: &groups, parameters, sets: &sets, services },
        )?;
    }
    plan.ignored = world.ignored(selection.ignored, &sets, &daemons);
    Ok(plan)
}

/// How agents of nodes are reached, and what their certificates say: nothing beside the names of pod and node and the node's address,
/// since nobody reaches an agent by the name of a service.
///
/// # Errors
/// `InvalidSpec` when there is no port for them.
pub fn agents(cr: &Vrouter, parameters: &Parameters) -> Result<Agents, NotReady> {
    let field = "envVariablesConfig[VROUTER_AGENT_INTROSPECT_PORT]";
    Ok(Agents {
        port: Agents::port_above(field, agent::introspect_port(parameters)?)?,
        services: BTreeSet::new(),
        addresses: BTreeMap::new(),
        lifetime_seconds: certificates::lifetime_seconds(cr.common()),
        client: Agents::client(OPERATOR),
    })
}

fn keystone_secret<'a>(cr: &Vrouter, observed: &'a Observed<Vrouter>) -> Result<Option<Secret<'a>>, NotReady> {
    let Some(name) = password_secret(cr) else { return Ok(None) };
    let home = cr.home();
    let Some(secret) = observed.secrets.get(name) else {
        let message = format!("Secret {home}/{name} does not exist; create it with key {}", keystone::PASSWORD);
        return Err(NotReady::input(Reason::SecretNotFound, message));
    };
    let password = secret.get(keystone::PASSWORD).ok_or_else(|| {
        let message = format!("Secret {home}/{name} has no key {}; add it", keystone::PASSWORD);
        NotReady::input(Reason::SecretInvalid, message)
    })?;
    let auth = cr.spec.common_configuration.auth_parameters.as_ref();
    let authority = auth.map(|auth| keystone::authority(auth, home, &observed.secrets)).transpose()?.flatten();
    Ok(Some(Secret { password, authority }))
}

/// What is the same for every group.
struct World<'a> {
    cr: &'a Vrouter,
    observed: &'a Observed<Vrouter>,
    services: &'a Services,
    cluster: &'a Cluster,
    identity: &'a Identity,
    pods: &'a Pods,
    agents: &'a Agents,
    /// What Keystone's certificate is checked against, from its Secret.
    authority: Option<&'a String>,
}

/// What is made for the groups, in their order.
#[derive(Default)]
struct Made {
    objects: Vec<Object>,
    /// The parameters of each.
    sets: Vec<Parameters>,
    /// Names of DaemonSets with the hashes of their pods' templates.
    workloads: Vec<(String, String)>,
    /// What the agents of each DaemonSet are to run with.
    contents: BTreeMap<String, ContentHash>,
    /// Whether pods of one change anything on a node that lasts.
    changes_node: bool,
    /// Daemons of all groups.
    daemons: Vec<DaemonContainer>,
}

impl World<'_> {
    /// Makes what groups need. `pods_with`: the pods of a group with parameters and a Secret for variables of its own.
    fn make(
        &self,
        groups: &[Group<'_>],
        parameters: &Parameters,
        pods_with: &dyn Fn(&Parameters, &str) -> Result<Pods, NotReady>,
    ) -> Result<Made, NotReady> {
        let (mut made, mut effective) = (Made::default(), BTreeMap::new());
        for group in groups {
            let parameters = profiles::apply(parameters, self.cr, group, self.observed)?;
            let title = group.name.unwrap_or_default();
            let parameters = parameters.with_gateway(title, group.gateway, group.profiles_win);
            let identity = group.identity(self.identity);
            let mut own_pods = None;
            if !group.profiles.is_empty() {
                let variables = identity.object_name("env");
                own_pods = Some(pods_with(&parameters, &variables)?);
                let content = host::variables(&parameters, self.services, self.cluster)?;
                made.objects.push(environment(&identity, &variables, content));
                effective.insert(title.to_owned(), parameters.listed());
            }
            let pods = own_pods.as_ref().unwrap_or(self.pods);
            let files = self.files(&parameters, pods)?;
            made.changes_node |= pods.changes_node;
            made.daemons.extend(pods.daemons.iter().cloned());
            made.objects.extend(files.objects(&identity)?);
            let (daemon_set, name, hash) =
                self.daemon_set(group, &files, pods, pods.init_of(&parameters, strategy::reloads(self.cr, group))?);
            made.objects.push(daemon_set);
            // What every node completes for itself counts as it is stored.
            made.contents.extend(files.content_hash(ANY_NODE).map(|content| (name.clone(), content)));
            made.workloads.push((name, hash));
            made.sets.push(parameters);
        }
        made.objects.extend((!effective.is_empty()).then(|| listed(self.identity, effective)));
        Ok(made)
    }

    /// Files of a group. One that asked for a secret goes to the Secret, whatever the secret was.
    fn files(&self, parameters: &Parameters, pods: &Pods) -> Result<Files, NotReady> {
        let (services, cluster) = (self.services, self.cluster);
        let domain = &self.observed.operator.cluster_domain;
        let mut files = Files::default();
        let (content, secret) = parameters.watch(|p| agent::file(p, services));
        let put = if secret { Files::template_secret } else { Files::template };
        put(&mut files, agent::FILE, content?);
        let mut shared = |file: &str, (content, secret): (Result<String, NotReady>, bool)| {
            let put = if secret { Files::shared_secret } else { Files::shared };
            put(&mut files, file, content?);
            Ok::<_, NotReady>(())
        };
        shared(vnc_api::FILE, parameters.watch(|p| clients::api_file(p, services)))?;
        shared(clients::LOAD_BALANCER_FILE, parameters.watch(|p| clients::load_balancer_file(p, cluster, domain)))?;
        shared(node::SYSCTL_FILE, parameters.watch(host::sysctl_file))?;
        // Where something else was named, nobody reads it.
        files.external_tls(keystone::authority_file(self.authority.filter(|_| parameters.has_keystones_authority())));
        files.external_tls(services.config_foreign(parameters).files());
        files.external_tls(sandesh::external_tls(services.analytics.as_ref()).files());
        // Always in the Secret, so that there always is one: the first secret of a spec shall not change the pod template
        // and restart every agent.
        files.shared_secret(node::PARAMETERS_FILE, host::parameters_file(parameters, services, cluster)?);
        for daemon in &pods.daemons {
            let file = node::environment_file(daemon.name);
            if let Some(content) = host::environment_file(&file, parameters)? {
                files.shared_secret(&file, content);
            }
            let launch = launch::file(daemon.name, parameters, services, self.agents, pods)?;
            files.shared(&file_name(daemon.name), launch);
            if daemon.name == nodemanager::CONTAINER.name {
                files.template(&NodeType::Vrouter.file(), self.node_manager_file()?);
            }
        }
        Ok(files)
    }

    fn node_manager_file(&self) -> Result<String, NotReady> {
        let collectors = self.services.analytics.clone().map(|mut connection| {
            for host in connection.endpoints.values_mut().flat_map(|e| e.nodes.iter_mut().chain(&mut e.service)) {
                *host = template::literal(host);
            }
            connection
        });
        let settings = nodemanager::Settings {
            node_type: NodeType::Vrouter,
            log_level: self.cr.spec.common_configuration.log_level.unwrap_or_default(),
            collectors: collectors.as_ref(),
            database: None,
        };
        Ok(nodemanager::file(&settings, &Local::Name.placeholder(), &Local::Address.placeholder())?)
    }

    fn daemon_set(
        &self,
        group: &Group<'_>,
        files: &Files,
        pods: &Pods,
        init: Vec<Container>,
    ) -> (Object, String, String) {
        let identity = group.identity(self.identity);
        let common =
            PodConfiguration { tolerations: group.tolerations.clone(), ..self.cr.spec.common_configuration.clone() };
        // Whoever else wants to run an agent, in whatever namespace, waits until the node is free.
        let agents = BTreeMap::from([(names::LABEL_TYPE.to_owned(), identity.type_name.clone())]);
        let operator = &self.observed.operator;
        let (template, hash) = pod::template(&PodShape {
            identity: &identity,
            common: &common,
            agent_image: images::tf_node(&operator.images, &operator.version),
            service_account: workload::service_account_name(self.identity),
            init,
            daemons: pods.daemons.clone(),
            volumes: pods.volumes.clone(),
            owned_mounts: Vec::new(),
            offered_mounts: Vec::new(),
            has_secret_files: files.has_secrets(),
            affinity: placement::affinity_alone(group.placement.node_selector(), &agents),
            share_processes: false,
            grace_seconds: pods.grace_seconds,
            // Agents take their addresses from the node itself.
            family: IpFamily::default(),
            restart: self.cr.restart(),
        });
        let name = identity.workload_name("daemonset");
        (workload::daemon_set(&identity, name.clone(), template), name, hash)
    }

    fn ignored(&self, mut ignored: Vec<String>, sets: &[Parameters], daemons: &[DaemonContainer]) -> Vec<String> {
        ignored.extend(self.pods.ignored.clone());
        let common = &self.cr.spec.common_configuration;
        ignored.extend(pod::ignored_overrides(self.identity, common, daemons));
        ignored.extend(groups::ignored(self.cr));
        ignored.extend(strategy::ignored(self.cr));
        ignored.extend(hibernation::ignored(self.cr, "nodes cannot do without the vRouter's agents"));
        let spec = &self.cr.spec.service_configuration;
        let cni = self.pods.bring_plugin();
        let of_cni = [
            ("cniMTU", spec.cni_mtu.is_some()),
            ("cniConfDir", spec.cni_conf_dir.is_some()),
            ("cniBinDir", spec.cni_bin_dir.is_some()),
            ("cniMetaPlugin", spec.cni_meta_plugin.is_some()),
            ("clusterName", spec.cluster_name.is_some()),
        ];
        let unused = of_cni.into_iter().filter(|(_, is_set)| *is_set && !cni);
        ignored.extend(unused.map(|(field, _)| {
            format!("spec.serviceConfiguration.{field}: the list of containers leaves out vroutercni")
        }));
        if spec.agent_not_ready_taint == Some(true) && !cni {
            let why = "spec.serviceConfiguration.agentNotReadyTaint: the list of containers leaves out vroutercni, so nodes have another network";
            ignored.push(why.into());
        }
        ignored.extend(dependency::ignored(&services::dependencies(self.cr), self.observed));
        ignored.extend(parameters::left_out(self.cr));
        ignored.extend(parameters::ignored(sets));
        ignored.extend(certificates::host_files_ignored(&self.cr.spec.common_configuration));
        ignored
    }
}

fn cni_object(identity: &Identity, name: String, content: String) -> Object {
    let data = BTreeMap::from([(cni::FILE.to_owned(), content)]);
    Object::new(CONFIG_MAP, &ConfigMap { metadata: identity.meta(name), data: Some(data), ..ConfigMap::default() })
}

/// What counts on the nodes of groups with profiles, and where it is stated, for people.
fn listed(identity: &Identity, groups: BTreeMap<String, String>) -> Object {
    let metadata = identity.meta(fit(&format!("{}-parameters", identity.name), 63));
    Object::new(CONFIG_MAP, &ConfigMap { metadata, data: Some(groups), ..ConfigMap::default() })
}

/// The variables of the spec for init containers, which run programs of the images, and what `tf-node host` finds the interface by. It exists without
/// any too, for the same reason.
fn environment(identity: &Identity, name: &str, variables: BTreeMap<String, String>) -> Object {
    publish::credentials(identity, name, &variables.into_iter().collect::<SecretData>())
}

/// What keeps agents from forwarding anything although they run: they learn every route from a control node.
fn without_control(
    sets: &[Parameters],
    services: &Services,
    drafts: &[Draft],
) -> Result<Option<(Reason, String)>, NotReady> {
    let mut has_none = false;
    for parameters in sets {
        has_none |= services.xmpp_servers(parameters)?.is_empty();
    }
    if !has_none {
        return Ok(None);
    }
    let control = drafts.iter().find(|draft| draft.kind == ConditionType::ControlReady);
    let cause = match control.filter(|draft| draft.reason != Reason::NotRequested) {
        Some(draft) => format!(": {}", draft.message),
        None => {
            "; create a Control in this namespace, or name control nodes in serviceConfiguration.envVariablesConfig \
            (CONTROL_NODES)"
                .to_owned()
        }
    };
    let message = format!("no control node is known, so agents run and forward nothing{cause}");
    Ok(Some((Reason::DependencyNotReady, message)))
}

/// What people should know: facts that are only assumed, and switches that do not fit what services publish.
fn notes(sets: &[Parameters], services: &Services, cluster: &Cluster) -> Result<Vec<String>, NotReady> {
    let mut notes = cluster.problems.clone();
    let Some(parameters) = sets.first() else { return Ok(notes) };
    if parameters.get(Name::CloudOrchestrator).is_some_and(|it| !ORCHESTRATORS.contains(&it)) {
        let path = parameters.path(Name::CloudOrchestrator);
        notes.push(format!("{path} is none of {} and counts as none", ORCHESTRATORS.join(", ")));
    }
    let links = [
        (&services.control, services::XMPP, "xmppSslEnable", agent::xmpp_tls(parameters)?),
        (&services.config, services::API, "configApiSslEnable", clients::api_tls(parameters)?),
        (&services.analytics, services::COLLECTOR, "sandeshSslEnable", agent::collector_tls(parameters)?),
    ];
    for (connection, endpoint, switch, ours) in links {
        let Some(theirs) = connection.as_ref().map(|connection| connection.tls(endpoint)) else { continue };
        if theirs != ours {
            let verb = if theirs { "needs" } else { "has no" };
            notes.push(format!("endpoint {endpoint} {verb} TLS and {switch} is {ours}; set it to {theirs}"));
        }
    }
    Ok(notes)
}

/// Agents by node, as far as their pods tell. Which control nodes an agent is connected to and whether those on
/// control-plane nodes serve (`activeOnControllers`) only the agents and the nodes know, and this operator reads neither.
fn own_status(observed: &Observed<Vrouter>, workloads: &[(String, String)]) -> Map<String, Value> {
    let pods = observed.pods.known().map(Vec::as_slice).unwrap_or_default();
    let current = |pod: &Pod| {
        let template = workloads.iter().find(|(name, _)| pod.workload() == name).map(|(_, hash)| hash);
        template.is_some() && template == pod.template.as_ref()
    };
    let mut agents: Vec<(&str, &str)> = pods
        .iter()
        .filter_map(|pod| {
            let state = match (pod.ready, current(pod)) {
                (false, _) => "Starting",
                (true, true) => "Ready",
                (true, false) => "Upgrading",
            };
            Some((pod.node.as_deref()?, state))
        })
        .collect();
    agents.sort_unstable();
    if agents.is_empty() || agents.len() > LISTED_AGENTS {
        return Map::new();
    }
    let agents: Vec<Value> = agents.iter().map(|(node, state)| json!({"name": node, "status": state})).collect();
    Map::from_iter([("agents".to_owned(), Value::Array(agents))])
}
