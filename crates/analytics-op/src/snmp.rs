//! AnalyticsSnmp: asks physical devices for their state, and computes how they are connected
//! (docs/upstream/analytics.md#snmp-collector-and-topology).
//!
//! To both daemons names of options differ by case, and share out their work by ZooKeeper.

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
    Settings as _,
};
use tf_contrail::{
    daemon::{self, Daemons, Entry, LOGS},
    nodemanager::{self, NodeType},
    sandesh,
    services::{COLLECTOR, Login, collectors, configdb},
};
use tf_plan::{
    build::pod::mount,
    component::{self, Agents},
    declaration::Declaration,
    dependency::{self, Dependency},
    images::Builtin,
    keystone::{self, Keystone},
    member_set::{Parts, sys_log_level},
    not_ready::NotReady,
    observed::Observed,
    plan::{Availability, Plan},
    procedure::AgentReport,
    references::References,
};

use crate::{
    OPERATOR,
    config::EVERYWHERE,
    daemons::{members, node_manager, snmp_collector, topology},
    login,
    member::{self, GRACE_SECONDS},
    peer,
    registration::{self, Nodes},
    reporting::{self, Surroundings, log_local},
    services::{API, Sources},
};

/// The AnalyticsSnmp component.
pub struct Component;

impl component::Component for Component {
    type Cr = AnalyticsSnmp;

    /// Members share out the devices again when one is gone (docs/upstream/daemons.md#members).
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

    fn agent_report(cr: &AnalyticsSnmp, observed: &Observed<AnalyticsSnmp>) -> Option<AgentReport> {
        members(snmp_collector::CONTAINER.name).agent_report(cr, observed)
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

/// Everything that the daemons of one resource are stated by.
pub struct Cluster<'a> {
    /// The resource.
    pub cr: &'a AnalyticsSnmp,
    /// What the daemons connect to, and where they log.
    pub around: &'a Surroundings,
    /// Members, in the order they joined.
    pub members: &'a [MemberStatus],
    /// How the members' agents are reached.
    pub agents: &'a Agents,
}

/// What a member can run.
fn table<'a>() -> [Entry<Cluster<'a>>; 3] {
    [
        Entry { container: snmp_collector::CONTAINER, daemon: snmp_collector::daemon },
        Entry { container: topology::CONTAINER, daemon: topology::daemon },
        Entry {
            container: nodemanager::CONTAINER,
            daemon: |cluster, container| {
                let Cluster { around, members, .. } = *cluster;
                node_manager(NodeType::AnalyticsSnmp, around.level, &around.analytics, members, container)
            },
        },
    ]
}

/// The containers that the spec may list.
pub fn containers() -> Vec<Builtin> {
    daemon::containers(&table())
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
        carry_out(cr, observed, &around, drafts.clone())
    };
    desired().map_err(|not_ready| not_ready.with_drafts(drafts.clone()))
}

fn carry_out(
    cr: &AnalyticsSnmp,
    observed: &Observed<AnalyticsSnmp>,
    around: &Surroundings,
    drafts: Vec<Draft>,
) -> Result<Plan, NotReady> {
    let table = table();
    let needed = [snmp_collector::CONTAINER.name, topology::CONTAINER.name];
    let listed = &cr.spec.service_configuration.containers;
    let mut member_set = member::prepare(cr, observed, &table, &needed, listed)?;
    member_set.membership.notes.extend(around.services.notes.iter().cloned());
    let agents = agents(cr, &observed.operator.cluster_domain);
    let cluster = Cluster { cr, around, members: member_set.members(), agents: &agents };
    let unheard = cluster.unheard();
    let daemons = Daemons::of(&table, &member_set.containers, &cluster)?;
    member_set.membership.notes.extend(unheard);
    let mut shared = around.shared()?;
    if let Some(login) = Login::of(&around.analytics) {
        // In place of what is there with Keystone: topology alone reads the file, and nothing in it but a name and a password.
        shared.shared_secret(keystone::FILE, login::file(&login)?);
    }
    let parts = Parts {
        owned_mounts: vec![mount(LOGS, &around.log_dir)],
        grace_seconds: GRACE_SECONDS,
        ignored: ignored(cr, observed),
        drafts,
        ..daemons.parts(daemon::logs("analytics-snmp", ANALYTICS_SNMP, &member_set.identity), shared)
    };
    member_set.roll_out(parts, &members(snmp_collector::CONTAINER.name), |plan| {
        let nodes = [Nodes::members(plan, ANALYTICS_SNMP_NODE, "analytics_snmp_node_ip_address")];
        registration::complete(plan, cr, observed, &around.services.config, &nodes);
    })
}

impl Cluster<'_> {
    /// The port of introspection of SNMP collectors.
    pub fn snmp_port(&self) -> Port {
        let stated = self.cr.spec.service_configuration.snmp_collector_introspect_listen_port;
        stated.unwrap_or(ports::SNMP_COLLECTOR_INTROSPECT)
    }

    /// The port of introspection of topology daemons.
    pub fn topology_port(&self) -> Port {
        let stated = self.cr.spec.service_configuration.topology_introspect_listen_port;
        stated.unwrap_or(ports::TOPOLOGY_INTROSPECT)
    }

    /// Whether topology asks the API of its node, by its own default. It speaks TLS to none (upstream `analytic_client.py`), and the port
    /// for administration has none.
    pub fn asks_its_node(&self) -> bool {
        let analytics = &self.around.analytics;
        analytics.tls(API) || analytics.hosts(API).is_empty()
    }

    /// As whom topology asks: nothing else is read of what it has about Keystone (upstream `tf_topology/config.py`). Keystone's
    /// administrator is none to be shown to another node without TLS.
    pub fn login(&self) -> Option<Login> {
        let keystone = self.around.keystone.as_ref().filter(|_| self.asks_its_node());
        Login::of(&self.around.analytics).or_else(|| keystone.map(login::of_administrator))
    }

    /// What keeps topology from learning anything, which it does not report itself.
    fn unheard(&self) -> Vec<String> {
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
        self.far_from_an_api().into_iter().chain(refused).collect()
    }

    fn far_from_an_api(&self) -> Option<String> {
        let analytics = &self.around.analytics;
        let known = [API, COLLECTOR].map(|endpoint| analytics.hosts(endpoint)).concat();
        let far: Vec<&str> = self
            .members
            .iter()
            .map(|it| it.address.as_str())
            .filter(|it| !known.iter().any(|host| host == it))
            .collect();
        (!far.is_empty()).then(|| {
            format!(
                "there is no Analytics on {}: topology there has nobody to ask, and leaves out the devices that fall to it; put both on the \
                 same nodes",
                far.join(", ")
            )
        })
    }

    /// What the section of defaults of both daemons begins with.
    pub fn common(&self, defaults: &mut Section, member: &MemberStatus, introspect: Port, log: &str) {
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

    /// The sections that both daemons have besides.
    pub fn sections(&self, file: &mut Ini, member: &MemberStatus) {
        let section = file.section(configdb::SECTION);
        configdb::database(section, &self.around.services.cassandra);
        section.set("cassandra_driver", "cql");
        configdb::bus(section, &self.around.services.rabbitmq, member, Blank, "rabbitmq_ssl");
        sandesh::fill(file.section(sandesh::SECTION), Some(&self.around.analytics));
    }
}

/// Fields of the spec that are set and have no effect.
fn ignored(cr: &AnalyticsSnmp, observed: &Observed<AnalyticsSnmp>) -> Vec<String> {
    let unused = member::unused("redis", cr.spec.dependencies.redis.is_some());
    let keystone = keystone::ignored(cr.spec.common_configuration.auth_parameters.as_ref()).into_iter();
    keystone.chain(member::ignored(cr, observed, &dependencies(cr))).chain(unused).collect()
}
