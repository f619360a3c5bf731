//! QueryEngine: answers what the API is asked of the database of analytics (docs/upstream/analytics.md#query-engine).
//!
//! The daemon ends at an option that it does not know and at one that stands there twice, so what is written is what its `options.cc`
//! declares. It is told queries over Redis, by whichever member of the API was asked.

use tf_agent_api::{
    launch::{Identity, Lists, Unusable, file_name},
    node,
};
use tf_api::{
    QueryEngine,
    common::LogLevel,
    contract::{ConditionType, Draft, MemberStatus},
    kinds::{ANALYTICS, CASSANDRA, QUERY_ENGINE, REDIS},
    ports,
    schema::Port,
};
use tf_config_files::{Ini, Separator::Blank, Settings as _, Unrepresentable};
use tf_contrail::{
    sandesh,
    services::{COLLECTOR, CQL, Cassandra, collectors, dependency, over_ipv4, unusable},
};
use tf_plan::{
    build::{
        configuration::Files,
        pod::{Daemon, mount},
    },
    component::{self, Agents},
    connection::Connection,
    declaration::Declaration,
    dependency::{self, Dependency, Need, Resolved},
    ensemble::Parts,
    foreign::{File, Foreign},
    hibernation,
    images::Builtin,
    not_ready::NotReady,
    observed::Observed,
    plan::{Availability, Plan},
    procedure::{self, AgentReport},
};

use crate::{
    OPERATOR,
    config::{self, LOG_DIR, path},
    launch::{daemon, introspected},
    member::{self, GRACE_SECONDS, LOGS, Run, native},
    peer,
    procedure::members,
    services::{DAEMONS, REDIS_ENDPOINT, Redis},
};

/// The daemon's container, as the Go tf-operator called it.
pub const QUERY_ENGINE_CONTAINER: &str = "queryengine";
/// The configuration.
pub const FILE: &str = "contrail-query-engine.conf";
/// Containers that the spec may list.
pub const CONTAINERS: [Builtin; 1] =
    [Builtin { name: QUERY_ENGINE_CONTAINER, image: "analytics-query-engine", default: true }];
/// Parts of a query at the same time (docs/upstream/analytics.md#query-engine).
const TASKS: u32 = 16;
/// Thrift of the database of analytics, the Go tf-operator's default of a field that it did not use. The daemon speaks CQL.
const THRIFT: Port = Port(9160);

/// The QueryEngine component.
pub struct Component;

impl component::Component for Component {
    type Cr = QueryEngine;

    /// Whichever engine is free takes the next query (docs/upstream/daemons.md#members).
    const AVAILABILITY: Availability = Availability::Any;

    fn declaration() -> Declaration {
        let peers = vec![
            peer(CASSANDRA, ConditionType::CassandraReady, "analytics are stored in it"),
            peer(REDIS, ConditionType::RedisReady, "queries come and go over it"),
            peer(ANALYTICS, ConditionType::CollectorReady, "its collectors make the tables that are asked"),
        ];
        Declaration { deregisters: false, ..crate::declaration(QUERY_ENGINE, peers) }
    }

    fn dependencies(cr: &QueryEngine) -> Vec<Dependency> {
        dependencies(cr)
    }

    fn agents(cr: &QueryEngine, cluster_domain: &str) -> Option<Agents> {
        Some(agents(cr, cluster_domain))
    }

    fn told(cr: &QueryEngine, observed: &Observed<QueryEngine>) -> Option<AgentReport> {
        members(QUERY_ENGINE_CONTAINER).told(cr, observed)
    }

    fn plan(cr: &QueryEngine, observed: &Observed<QueryEngine>) -> Result<Plan, NotReady> {
        plan(cr, observed)
    }
}

fn dependencies(cr: &QueryEngine) -> Vec<Dependency> {
    use ConditionType::{CassandraReady, CollectorReady, RedisReady};
    let from = &cr.spec.dependencies;
    vec![
        dependency(CassandraReady, CASSANDRA, from.cassandra.as_ref(), "analyticsdb1", CQL, Need::BringUp),
        dependency(RedisReady, REDIS, from.redis.as_ref(), "redis1", REDIS_ENDPOINT, Need::BringUp),
        dependency(CollectorReady, ANALYTICS, from.analytics.as_ref(), "analytics1", COLLECTOR, Need::BringUp),
    ]
}

fn agents(cr: &QueryEngine, cluster_domain: &str) -> Agents {
    Agents::of(OPERATOR, cr, ports::QUERY_ENGINE_AGENT, cluster_domain)
}

/// What the daemon connects to.
struct Services {
    database: Cassandra,
    redis: Redis,
    collectors: Connection,
    notes: Vec<String>,
}

impl Services {
    fn of(cr: &QueryEngine, resolved: &Resolved) -> Result<Self, NotReady> {
        let mut notes = Vec::new();
        let mut reachable = |condition, endpoint, service| {
            let connection = resolved.connection(condition).cloned().unwrap_or_default();
            over_ipv4(connection, endpoint, service, DAEMONS, &mut notes)
                .map_err(|message| unusable(condition, message))
        };
        let mut cassandra = reachable(ConditionType::CassandraReady, CQL, "Cassandra")?;
        let collectors = reachable(ConditionType::CollectorReady, COLLECTOR, "collectors")?;
        if let (Some(port), Some(endpoint)) = (stated_port(cr), cassandra.endpoints.get_mut(CQL)) {
            endpoint.port = port.get();
        }
        let redis = resolved.connection(ConditionType::RedisReady).cloned().unwrap_or_default();
        Ok(Self {
            database: Cassandra::of(&cassandra, cassandra.authorities(CQL)).of_analytics(&cassandra),
            redis: Redis::of(&redis, &mut notes)?,
            collectors,
            notes,
        })
    }

    /// Files for TLS to those of other authorities.
    fn foreign(&self) -> Vec<File> {
        let collectors = sandesh::foreign(Some(&self.collectors));
        [&self.database.foreign, &self.redis.foreign, &collectors].into_iter().flat_map(Foreign::files).collect()
    }
}

/// The port of the database, where the spec states one that the daemon can use.
fn stated_port(cr: &QueryEngine) -> Option<Port> {
    cr.spec.service_configuration.analyticsdb_port.filter(|port| *port != THRIFT)
}

fn introspect(cr: &QueryEngine) -> Port {
    cr.spec.service_configuration.analyticsdb_introspect_port.unwrap_or(ports::QUERY_ENGINE_INTROSPECT)
}

/// Plans query engines.
///
/// # Errors
/// When a service is not usable yet, there are no members to plan for, or the spec asks for what cannot be.
pub fn plan(cr: &QueryEngine, observed: &Observed<QueryEngine>) -> Result<Plan, NotReady> {
    let (resolved, drafts) = dependency::resolve_for(&dependencies(cr), cr, observed);
    let desired = || {
        let services = Services::of(cr, &resolved?)?;
        carry_out(cr, observed, &services, drafts.clone())
    };
    desired().map_err(|not_ready| not_ready.with_drafts(drafts.clone()))
}

fn carry_out(
    cr: &QueryEngine,
    observed: &Observed<QueryEngine>,
    services: &Services,
    drafts: Vec<Draft>,
) -> Result<Plan, NotReady> {
    let spec = &cr.spec.service_configuration;
    let run =
        Run { builtins: &CONTAINERS, needed: &[QUERY_ENGINE_CONTAINER], listed: &spec.containers, uses_auth: false };
    let mut ensemble = run.prepare(cr, observed)?;
    ensemble.membership.notes.extend(services.notes.iter().cloned());
    let agents = agents(cr, &observed.operator.cluster_domain);
    let level = cr.spec.common_configuration.log_level.unwrap_or_default();
    let mut files = Files::default();
    files.shared(&file_name(QUERY_ENGINE_CONTAINER), launch(cr, services, level, &agents)?);
    files.foreign(services.foreign());
    for member in ensemble.members() {
        files.member_secret(FILE, &member.address, file(cr, services, level, member)?);
    }
    let contents = files.content_hashes(ensemble.members());
    let daemon = |chosen| {
        let ports = vec![("introspect", introspect(cr)), (node::AGENT_PORT, agents.port)];
        Daemon { speaks_for_pod: true, ..native(chosen, ports, LOG_DIR) }
    };
    let daemons: Vec<Daemon> = ensemble.containers.iter().map(daemon).collect();
    let parts = Parts {
        files,
        volumes: member::volumes(&ensemble.identity, &ensemble.containers, "queryengine", "queryengine1"),
        owned_mounts: vec![mount(LOGS, LOG_DIR)],
        ports: daemons.iter().flat_map(|daemon| daemon.ports.clone()).collect(),
        daemons,
        grace_seconds: GRACE_SECONDS,
        ignored: ignored(cr, observed),
        drafts,
        ..Parts::default()
    };
    let mut plan = ensemble.plan(parts)?;
    procedure::complete(&members(QUERY_ENGINE_CONTAINER), &mut plan, cr, observed, &contents);
    procedure::reseat(&mut plan, observed);
    hibernation::finish(&mut plan);
    Ok(plan)
}

/// The launch file.
fn launch(cr: &QueryEngine, services: &Services, level: LogLevel, agents: &Agents) -> Result<String, Unusable> {
    let argv = vec!["contrail-query-engine".into(), "--conf_file".into(), path(FILE)];
    let mut launch = introspected(daemon(argv, [FILE], services.foreign()), introspect(cr), level)?;
    launch.lists = Some(Lists::of(&["collectors"]));
    launch.agent = agents.api()?;
    // It never reads them again (docs/upstream/daemons.md#certificates).
    launch.identity = Some(Identity { at_start: true, ..agents.certificate() });
    launch.render()
}

/// [`FILE`], which holds passwords.
fn file(
    cr: &QueryEngine,
    services: &Services,
    level: LogLevel,
    member: &MemberStatus,
) -> Result<String, Unrepresentable> {
    let mut file = Ini::boost(FILE);
    let defaults = file.section("DEFAULT");
    defaults.set("hostip", &member.address).set("hostname", &member.node);
    config::common(defaults, introspect(cr), level, &format!("{LOG_DIR}/contrail-query-engine.log"));
    defaults.set("max_tasks", TASKS).list("cassandra_server_list", Blank, &services.database.servers).list(
        "collectors",
        Blank,
        collectors(Some(&services.collectors)),
    );
    config::database(file.section("CASSANDRA"), &services.database);
    let redis = file.section("REDIS");
    redis
        .list("server_list", Blank, services.redis.servers())
        .set_if_some("password", services.redis.password.as_ref())
        .set("redis_ssl_enable", services.redis.tls);
    if services.redis.tls {
        // Redis asks for none, and the daemon does not connect without.
        redis
            .set("redis_keyfile", node::CERTIFICATE_KEY)
            .set("redis_certfile", node::CERTIFICATE)
            .set("redis_ca_cert", services.redis.foreign.trust());
    }
    sandesh::fill(file.section(sandesh::SECTION), Some(&services.collectors));
    file.render()
}

/// Fields of the spec that are set and have no effect.
fn ignored(cr: &QueryEngine, observed: &Observed<QueryEngine>) -> Vec<String> {
    let from = &cr.spec.dependencies;
    let thrift = (cr.spec.service_configuration.analyticsdb_port == Some(THRIFT)).then(|| {
        format!(
            "spec.serviceConfiguration.analyticsdbPort: {THRIFT} is for Thrift, and the daemon speaks CQL; it uses the port that Cassandra publishes"
        )
    });
    let unused = [
        member::unused("zookeeper", from.zookeeper.is_some()),
        member::unused("rabbitmq", from.rabbitmq.is_some()),
        member::unused("config", from.config.is_some()),
        thrift,
    ];
    member::ignored(cr, observed, &dependencies(cr)).into_iter().chain(unused.into_iter().flatten()).collect()
}
