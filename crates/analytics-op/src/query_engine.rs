//! QueryEngine: answers what the API is asked of the database of analytics. It gets queries over Redis, from the member of the API that was asked.

use tf_api::{
    QueryEngine,
    common::LogLevel,
    contract::{ConditionType, Draft, MemberStatus},
    kinds::{ANALYTICS, CASSANDRA, QUERY_ENGINE, REDIS},
    names::ANALYTICSDB,
    ports,
    schema::Port,
};
use tf_contrail::{
    daemon::{self, Daemons, Entry},
    sandesh,
    services::{COLLECTOR, CQL, Cassandra, dependency, over_ipv4, unusable},
};
use tf_plan::{
    build::configuration::Files,
    component::{self, Agents},
    connection::Connection,
    declaration::Declaration,
    dependency::{self, Dependency, Need, Resolved},
    external_tls::{ExternalTls, File},
    images::Builtin,
    member_set::Parts,
    not_ready::NotReady,
    observed::Observed,
    plan::{Availability, Plan},
    procedure::AgentReport,
};

use crate::{
    OPERATOR,
    daemons::{members, query_engine},
    member::{self, GRACE_SECONDS},
    peer,
    services::{DAEMONS, REDIS_ENDPOINT, Redis},
};

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

    fn agent_report(cr: &QueryEngine, observed: &Observed<QueryEngine>) -> Option<AgentReport> {
        members(query_engine::CONTAINER.name).agent_report(cr, observed)
    }

    fn plan(cr: &QueryEngine, observed: &Observed<QueryEngine>) -> Result<Plan, NotReady> {
        plan(cr, observed)
    }
}

fn dependencies(cr: &QueryEngine) -> Vec<Dependency> {
    use ConditionType::{CassandraReady, CollectorReady, RedisReady};
    let from = &cr.spec.dependencies;
    vec![
        Dependency {
            default_name: ANALYTICSDB,
            ..dependency(CassandraReady, CASSANDRA, from.cassandra.as_ref(), CQL, Need::BringUp)
        },
        dependency(RedisReady, REDIS, from.redis.as_ref(), REDIS_ENDPOINT, Need::BringUp),
        dependency(CollectorReady, ANALYTICS, from.analytics.as_ref(), COLLECTOR, Need::BringUp),
    ]
}

fn agents(cr: &QueryEngine, cluster_domain: &str) -> Agents {
    Agents::of(OPERATOR, cr, ports::QUERY_ENGINE_AGENT, cluster_domain)
}

/// What the daemon connects to.
pub struct Services {
    /// The database of analytics.
    pub database: Cassandra,
    /// The current state.
    pub redis: Redis,
    /// Collectors.
    pub collectors: Connection,
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
    pub fn external_tls(&self) -> Vec<File> {
        let collectors = sandesh::external_tls(Some(&self.collectors));
        [&self.database.external_tls, &self.redis.external_tls, &collectors]
            .into_iter()
            .flat_map(ExternalTls::files)
            .collect()
    }
}

/// The port of the database, where the spec states one that the daemon can use.
fn stated_port(cr: &QueryEngine) -> Option<Port> {
    cr.spec.service_configuration.analyticsdb_port.filter(|port| *port != THRIFT)
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

/// Everything that the daemon of one resource is stated by.
pub struct Cluster<'a> {
    /// The resource.
    pub cr: &'a QueryEngine,
    /// What the daemon connects to.
    pub services: &'a Services,
    /// Level of the log.
    pub log_level: LogLevel,
    /// Members, in the order they joined.
    pub members: &'a [MemberStatus],
    /// How the members' agents are reached.
    pub agents: &'a Agents,
}

impl Cluster<'_> {
    /// The port of introspection.
    pub fn introspect(&self) -> Port {
        self.cr.spec.service_configuration.analyticsdb_introspect_port.unwrap_or(ports::QUERY_ENGINE_INTROSPECT)
    }
}

/// What a member can run.
fn table<'a>() -> [Entry<Cluster<'a>>; 1] {
    [Entry { container: query_engine::CONTAINER, daemon: query_engine::daemon }]
}

/// The containers that the spec may list.
pub fn containers() -> Vec<Builtin> {
    daemon::containers(&table())
}

fn carry_out(
    cr: &QueryEngine,
    observed: &Observed<QueryEngine>,
    services: &Services,
    drafts: Vec<Draft>,
) -> Result<Plan, NotReady> {
    let table = table();
    let listed = &cr.spec.service_configuration.containers;
    let mut member_set = member::prepare(cr, observed, &table, &[query_engine::CONTAINER.name], listed)?;
    member_set.membership.notes.extend(services.notes.iter().cloned());
    let agents = agents(cr, &observed.operator.cluster_domain);
    let log_level = cr.spec.common_configuration.log_level.unwrap_or_default();
    let cluster = Cluster { cr, services, log_level, members: member_set.members(), agents: &agents };
    let daemons = Daemons::of(&table, &member_set.containers, &cluster)?;
    let parts = Parts {
        grace_seconds: GRACE_SECONDS,
        ignored: ignored(cr, observed),
        drafts,
        ..daemons.parts(daemon::logs("queryengine", QUERY_ENGINE, &member_set.identity), Files::default())
    };
    member_set.roll_out(parts, &members(query_engine::CONTAINER.name), |_| ())
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
