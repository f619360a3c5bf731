//! AnalyticsSnmp: asks physical devices for their state, and computes how they are connected
//! (docs/upstream/analytics.md#snmp-collector-and-topology).
//!
//! Both daemons tell names of options apart by case, and share out their work by ZooKeeper.

use tf_agent_api::{
    launch::{Identity, OnChange, Unusable, file_name},
    node,
};
use tf_api::{
    AnalyticsSnmp,
    contract::{ConditionType, Draft, MemberStatus},
    kinds::{ANALYTICS, ANALYTICS_SNMP, CASSANDRA, CONFIG, RABBITMQ, ZOOKEEPER},
    ports,
    schema::Port,
};
use tf_config_api::types::ANALYTICS_SNMP_NODE;
use tf_config_files::{
    Ini, Section,
    Separator::{Blank, Comma},
    Settings as _, Unrepresentable,
};
use tf_contrail::{
    nodemanager::{self, NodeType},
    sandesh,
    services::{COLLECTOR, Login, collectors, configdb},
};
use tf_plan::{
    build::{
        configuration::Files,
        pod::{Daemon, mount},
    },
    component::{self, Agents},
    declaration::Declaration,
    dependency::{self, Dependency},
    ensemble::{Parts, sys_log_level},
    hibernation,
    images::{Builtin, Chosen},
    keystone::{self, Keystone},
    not_ready::NotReady,
    observed::Observed,
    plan::{Availability, Plan},
    procedure::{self, AgentReport},
    references::References,
};

use crate::{
    OPERATOR,
    config::{DEFAULTS, EVERYWHERE, path},
    launch::{client, daemon, reader},
    login,
    member::{self, GRACE_SECONDS, LOGS, Run, python},
    peer,
    procedure::members,
    registration::{self, Nodes},
    reporting::{self, Surroundings, log_local},
    services::{API, Sources},
};

/// The SNMP collector; this name and that of the other container are the Go tf-operator's.
pub const SNMP_COLLECTOR: &str = "analytics-snmp-collector";
/// What computes the topology.
pub const TOPOLOGY: &str = "analytics-snmp-topology";
/// The configuration of the SNMP collector.
pub const SNMP_FILE: &str = "tf-snmp-collector.conf";
/// The configuration of the topology daemon.
pub const TOPOLOGY_FILE: &str = "tf-topology.conf";
/// Devices beside those of the config API. The SNMP collector wants the file, and nobody needs what is in it.
const DEVICES: &str = "device.ini";
/// Containers that the spec may list.
pub const CONTAINERS: [Builtin; 3] = [
    Builtin { name: SNMP_COLLECTOR, image: "analytics-snmp-collector", default: true },
    Builtin { name: TOPOLOGY, image: "analytics-snmp-topology", default: true },
    nodemanager::CONTAINER,
];

/// The AnalyticsSnmp component.
pub struct Component;

impl component::Component for Component {
    type Cr = AnalyticsSnmp;

    /// Members share out the devices anew when one is gone (docs/upstream/daemons.md#members).
    const AVAILABILITY: Availability = Availability::Any;

    fn declaration() -> Declaration {
        crate::declaration(
            ANALYTICS_SNMP,
            vec![
                peer(CASSANDRA, ConditionType::CassandraReady, "the configuration is read from it"),
                peer(ZOOKEEPER, ConditionType::ZookeeperReady, "the daemons share out their work in it"),
                peer(RABBITMQ, ConditionType::RabbitmqReady, "delivers changes of the configuration"),
                peer(CONFIG, ConditionType::ConfigApiReady, "the daemons and the operator ask it"),
                peer(ANALYTICS, ConditionType::CollectorReady, "its collectors receive what is found"),
            ],
        )
    }

    fn references(cr: &AnalyticsSnmp) -> References {
        keystone::references(cr)
    }

    fn login(cr: &AnalyticsSnmp, observed: &Observed<AnalyticsSnmp>) -> Option<Keystone> {
        Keystone::named(cr, observed)
    }

    fn dependencies(cr: &AnalyticsSnmp) -> Vec<Dependency> {
        dependencies(cr)
    }

    fn agents(cr: &AnalyticsSnmp, cluster_domain: &str) -> Option<Agents> {
        Some(agents(cr, cluster_domain))
    }

    fn told(cr: &AnalyticsSnmp, observed: &Observed<AnalyticsSnmp>) -> Option<AgentReport> {
        members(SNMP_COLLECTOR).told(cr, observed)
    }

    fn plan(cr: &AnalyticsSnmp, observed: &Observed<AnalyticsSnmp>) -> Result<Plan, NotReady> {
        plan(cr, observed)
    }
}

fn dependencies(cr: &AnalyticsSnmp) -> Vec<Dependency> {
    let from = &cr.spec.dependencies;
    let sources = Sources {
        cassandra: from.cassandra.as_ref(),
        zookeeper: from.zookeeper.as_ref(),
        rabbitmq: from.rabbitmq.as_ref(),
        redis: None,
        config: from.config.as_ref(),
    };
    let mut all = reporting::dependencies(sources, from.analytics.as_ref());
    all.retain(|it| it.condition != ConditionType::RedisReady);
    let analytics = all.iter_mut().filter(|it| it.condition == ConditionType::CollectorReady);
    analytics.for_each(|it| it.logs_in = true);
    all
}

fn agents(cr: &AnalyticsSnmp, cluster_domain: &str) -> Agents {
    Agents::of(OPERATOR, cr, ports::SNMP_COLLECTOR_AGENT, cluster_domain)
}

/// Everything the files depend on.
struct Cluster<'a> {
    cr: &'a AnalyticsSnmp,
    around: Surroundings,
}

/// Plans SNMP collectors and topology daemons.
///
/// # Errors
/// When a service is not usable yet, an input is missing, there are no members to plan for, or the spec asks for what cannot be.
pub fn plan(cr: &AnalyticsSnmp, observed: &Observed<AnalyticsSnmp>) -> Result<Plan, NotReady> {
    let (resolved, drafts) = dependency::resolve_for(&dependencies(cr), cr, observed);
    let desired = || {
        let log_path = cr.spec.service_configuration.log_file_path.as_deref();
        let around = Surroundings::of(cr, &cr.spec.common_configuration, log_path, observed, resolved)?;
        carry_out(cr, observed, &Cluster { cr, around }, drafts.clone())
    };
    desired().map_err(|not_ready| not_ready.with_drafts(drafts.clone()))
}

fn carry_out(
    cr: &AnalyticsSnmp,
    observed: &Observed<AnalyticsSnmp>,
    cluster: &Cluster<'_>,
    drafts: Vec<Draft>,
) -> Result<Plan, NotReady> {
    let spec = &cr.spec.service_configuration;
    let run =
        Run { builtins: &CONTAINERS, needed: &[SNMP_COLLECTOR, TOPOLOGY], listed: &spec.containers, uses_auth: true };
    let mut ensemble = run.prepare(cr, observed)?;
    ensemble.membership.notes.extend(cluster.around.services.notes.iter().cloned());
    ensemble.membership.notes.extend(cluster.unheard(ensemble.members()));
    let agents = agents(cr, &observed.operator.cluster_domain);
    let mut files = Files::default();
    member::library(&mut files, &cluster.around.services, cluster.around.keystone.as_ref())?;
    files.foreign(cluster.around.foreign());
    if let Some(login) = Login::of(&cluster.around.analytics) {
        // In place of what is there with Keystone: topology alone reads the file, and nothing in it but a name and a password.
        files.shared_secret(keystone::FILE, login::file(&login)?);
    }
    files.shared(DEVICES, "");
    files.shared(&file_name(SNMP_COLLECTOR), cluster.launch_snmp(&agents)?);
    files.shared(&file_name(TOPOLOGY), cluster.launch_topology()?);
    let settings = nodemanager::Settings {
        node_type: NodeType::AnalyticsSnmp,
        log_level: cluster.around.level,
        collectors: Some(&cluster.around.analytics),
        database: None,
    };
    member::node_manager(&mut files, &ensemble, &settings)?;
    for member in ensemble.members() {
        files.member_secret(SNMP_FILE, &member.address, cluster.snmp(member)?);
        files.member_secret(TOPOLOGY_FILE, &member.address, cluster.topology(member)?);
    }
    let contents = files.content_hashes(ensemble.members());
    let container = |chosen: &Chosen| match chosen.name {
        SNMP_COLLECTOR => {
            let ports = vec![("snmp", cluster.snmp_port()), (node::AGENT_PORT, agents.port)];
            let mut daemon = python(chosen, ports, &cluster.around.log_dir);
            daemon.env.push(("SNMPCONFPATH".into(), node::RUN_DIR.into()));
            Daemon { speaks_for_pod: true, ..daemon }
        }
        TOPOLOGY => python(chosen, vec![("topology", cluster.topology_port())], &cluster.around.log_dir),
        _ => nodemanager::daemon(chosen, NodeType::AnalyticsSnmp, LOGS),
    };
    let daemons: Vec<Daemon> = ensemble.containers.iter().map(container).collect();
    let parts = Parts {
        files,
        volumes: member::volumes(&ensemble.identity, &ensemble.containers, "analytics-snmp", "analyticssnmp1"),
        owned_mounts: vec![mount(LOGS, &cluster.around.log_dir)],
        ports: daemons.iter().flat_map(|daemon| daemon.ports.clone()).collect(),
        daemons,
        grace_seconds: GRACE_SECONDS,
        ignored: ignored(cr, observed),
        drafts,
        ..Parts::default()
    };
    let mut plan = ensemble.plan(parts)?;
    procedure::complete(&members(SNMP_COLLECTOR), &mut plan, cr, observed, &contents);
    procedure::reseat(&mut plan, observed);
    let nodes = [Nodes::members(&plan, ANALYTICS_SNMP_NODE, "analytics_snmp_node_ip_address")];
    registration::complete(&mut plan, cr, observed, &cluster.around.services.config, &nodes);
    hibernation::finish(&mut plan);
    Ok(plan)
}

impl Cluster<'_> {
    fn snmp_port(&self) -> Port {
        let stated = self.cr.spec.service_configuration.snmp_collector_introspect_listen_port;
        stated.unwrap_or(ports::SNMP_COLLECTOR_INTROSPECT)
    }

    fn topology_port(&self) -> Port {
        let stated = self.cr.spec.service_configuration.topology_introspect_listen_port;
        stated.unwrap_or(ports::TOPOLOGY_INTROSPECT)
    }

    /// [`SNMP_FILE`], which holds passwords.
    fn snmp(&self, member: &MemberStatus) -> Result<String, Unrepresentable> {
        let spec = &self.cr.spec.service_configuration;
        let mut file = Ini::python(SNMP_FILE);
        let name = spec.snmp_collector_log_file_name.as_deref().unwrap_or("contrail-snmp-collector.log");
        let defaults = file.section(DEFAULTS);
        self.common(defaults, member, self.snmp_port(), name);
        defaults
            .set("scan_frequency", spec.snmp_collector_scan_frequency.unwrap_or(600))
            .set("fast_scan_frequency", spec.snmp_collector_fast_scan_frequency.unwrap_or(60));
        self.sections(&mut file, member);
        file.render()
    }

    /// [`TOPOLOGY_FILE`], which holds passwords.
    fn topology(&self, member: &MemberStatus) -> Result<String, Unrepresentable> {
        let spec = &self.cr.spec.service_configuration;
        let mut file = Ini::python(TOPOLOGY_FILE);
        let name = spec.topology_log_file_name.as_deref().unwrap_or("contrail-topology.log");
        let defaults = file.section(DEFAULTS);
        self.common(defaults, member, self.topology_port(), name);
        let frequency = spec.topology_scan_frequency.or(spec.topology_snmp_frequency).unwrap_or(600);
        defaults.set("scan_frequency", frequency);
        if !self.asks_its_node() {
            defaults.list("analytics_api", Blank, self.around.analytics.authorities(API));
        }
        self.sections(&mut file, member);
        file.render()
    }

    /// Whether topology asks the API of its node, by its own default. It speaks TLS to none (upstream `analytic_client.py`), and the port
    /// for administration has none.
    fn asks_its_node(&self) -> bool {
        let analytics = &self.around.analytics;
        analytics.tls(API) || analytics.hosts(API).is_empty()
    }

    /// As whom topology asks: nothing else is read of what it has about Keystone (upstream `tf_topology/config.py`). Keystone's
    /// administrator is none to be shown to another node without TLS.
    fn login(&self) -> Option<Login> {
        let keystone = self.around.keystone.as_ref().filter(|_| self.asks_its_node());
        Login::of(&self.around.analytics).or_else(|| keystone.map(login::of_administrator))
    }

    /// What keeps topology from learning anything, which it tells nobody itself.
    fn unheard(&self, members: &[MemberStatus]) -> Vec<String> {
        if !self.asks_its_node() {
            return Vec::new();
        }
        let refused = match self.login() {
            Some(login) => login::note(&login),
            None => Some(format!(
                "Analytics has published no login for {}, which topology asks, so nobody lets it in; where Analytics has authParameters, set \
                 the same here, and where it is no resource, name it as external with a secretRef",
                login::PLACE
            )),
        };
        self.far_from_an_api(members).into_iter().chain(refused).collect()
    }

    fn far_from_an_api(&self, members: &[MemberStatus]) -> Option<String> {
        let analytics = &self.around.analytics;
        let known = [API, COLLECTOR].map(|endpoint| analytics.hosts(endpoint)).concat();
        let far: Vec<&str> =
            members.iter().map(|it| it.address.as_str()).filter(|it| !known.iter().any(|host| host == it)).collect();
        (!far.is_empty()).then(|| {
            format!(
                "there is no Analytics on {}: topology there has nobody to ask, and leaves out the devices that fall to it; put both on the \
                 same nodes",
                far.join(", ")
            )
        })
    }

    fn common(&self, defaults: &mut Section, member: &MemberStatus, introspect: Port, log: &str) {
        defaults
            .set("host_ip", &member.address)
            .set("http_server_ip", EVERYWHERE)
            .set("http_server_port", introspect)
            .set("log_file", format!("{}/{log}", self.around.log_dir))
            .set("log_level", sys_log_level(self.around.level))
            .set_if_some("log_local", log_local(self.cr.spec.service_configuration.log_local.as_deref()).then_some(1))
            .list("collectors", Blank, collectors(Some(&self.around.analytics)))
            .list("zookeeper", Comma, &self.around.services.zookeeper);
    }

    fn sections(&self, file: &mut Ini, member: &MemberStatus) {
        let section = file.section(configdb::SECTION);
        configdb::database(section, &self.around.services.cassandra);
        section.set("cassandra_driver", "cql");
        configdb::bus(section, &self.around.services.rabbitmq, member, Blank, "rabbitmq_ssl");
        sandesh::fill(file.section(sandesh::SECTION), Some(&self.around.analytics));
    }

    fn launch_snmp(&self, agents: &Agents) -> Result<String, Unusable> {
        let argv = ["tf-snmp-collector", "-c", &path(SNMP_FILE), "--device-config-file", &path(DEVICES)];
        let files = [SNMP_FILE, tf_contrail::vnc_api::FILE];
        let launch = daemon(argv.map(str::to_owned).to_vec(), files, self.around.foreign());
        let mut launch = reader(launch, self.snmp_port(), self.around.level)?;
        launch.files.insert(DEVICES.into(), OnChange::Restart);
        launch.agent = agents.api()?;
        // It never reads them again (docs/upstream/daemons.md#certificates).
        launch.identity = Some(Identity { at_start: true, ..agents.certificate() });
        launch.render()
    }

    fn launch_topology(&self) -> Result<String, Unusable> {
        let own: Vec<&str> = [TOPOLOGY_FILE].into_iter().chain(self.login().map(|_| keystone::FILE)).collect();
        let named = own.iter().flat_map(|file| ["-c".into(), path(file)]);
        let argv = ["tf-topology".to_owned()].into_iter().chain(named).collect();
        let files = own.iter().copied().chain(client(self.around.keystone.as_ref()));
        reader(daemon(argv, files, self.around.foreign()), self.topology_port(), self.around.level)?.render()
    }
}

/// Fields of the spec that are set and have no effect.
fn ignored(cr: &AnalyticsSnmp, observed: &Observed<AnalyticsSnmp>) -> Vec<String> {
    let unused = member::unused("redis", cr.spec.dependencies.redis.is_some());
    let keystone = keystone::ignored(cr.spec.common_configuration.auth_parameters.as_ref()).into_iter();
    keystone.chain(member::ignored(cr, observed, &dependencies(cr))).chain(unused).collect()
}
