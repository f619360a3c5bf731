//! AnalyticsAlarm: alarm generators, and a broker of Kafka beside each of them.

use tf_api::{
    AnalyticsAlarm,
    contract::{ConditionType, Draft, MemberStatus, Protocol},
    kinds::{ANALYTICS, ANALYTICS_ALARM, CASSANDRA, CONFIG, RABBITMQ, REDIS, ZOOKEEPER},
    ports,
    schema::Port,
};
use tf_config_api::types::ANALYTICS_ALARM_NODE;
use tf_contrail::{
    daemon::{self, Daemons, Entry, LOG_DIR, LOGS},
    nodemanager::{self, NodeType},
};
use tf_plan::{
    build::pod::mount,
    component::{self, Agents},
    declaration::Declaration,
    dependency::{self, Dependency},
    images::Builtin,
    keystone::{self, Keystone},
    member_set::Parts,
    not_ready::NotReady,
    observed::Observed,
    plan::{Availability, Plan},
    procedure::AgentReport,
    references::References,
};

use crate::{
    OPERATOR,
    config::PARTITIONS,
    daemons::{alarm_gen, kafka, members, node_manager},
    member::{self, GRACE_SECONDS},
    peer,
    registration::{self, Nodes},
    reporting::{self, Surroundings},
    services::{KAFKA as KAFKA_ENDPOINT, Sources},
};

/// Databases of a Redis that alarm generators may use: of the usual sixteen those above the ones that others use (docs/upstream/redis.md#databases).
const DATABASES: u32 = 9;

/// The AnalyticsAlarm component.
pub struct Component;

impl component::Component for Component {
    type Cr = AnalyticsAlarm;

    /// Members share out the partitions again when one is gone (docs/upstream/daemons.md#members).
    const AVAILABILITY: Availability = Availability::Any;

    fn declaration() -> Declaration {
        crate::declaration(
            ANALYTICS_ALARM,
            vec![
                peer(CASSANDRA, ConditionType::CassandraReady, "the configuration is read from it"),
                peer(ZOOKEEPER, ConditionType::ZookeeperReady, "brokers and alarm generators find each other in it"),
                peer(RABBITMQ, ConditionType::RabbitmqReady, "delivers changes of the configuration"),
                peer(REDIS, ConditionType::RedisReady, "the current state of everything is read from it"),
                peer(CONFIG, ConditionType::ConfigApiReady, "the daemons and the operator ask it"),
                peer(ANALYTICS, ConditionType::CollectorReady, "its collectors receive alarms"),
            ],
        )
    }

    fn references(cr: &AnalyticsAlarm) -> References {
        keystone::references(cr)
    }

    fn login(cr: &AnalyticsAlarm, observed: &Observed<AnalyticsAlarm>) -> Option<Keystone> {
        Keystone::named(cr, observed)
    }

    fn dependencies(cr: &AnalyticsAlarm) -> Vec<Dependency> {
        dependencies(cr)
    }

    fn agents(cr: &AnalyticsAlarm, cluster_domain: &str) -> Option<Agents> {
        Some(agents(cr, cluster_domain))
    }

    fn agent_report(cr: &AnalyticsAlarm, observed: &Observed<AnalyticsAlarm>) -> Option<AgentReport> {
        members(alarm_gen::CONTAINER.name).agent_report(cr, observed)
    }

    fn plan(cr: &AnalyticsAlarm, observed: &Observed<AnalyticsAlarm>) -> Result<Plan, NotReady> {
        plan(cr, observed)
    }
}

fn dependencies(cr: &AnalyticsAlarm) -> Vec<Dependency> {
    let from = &cr.spec.dependencies;
    let sources = Sources {
        cassandra: from.cassandra.as_ref(),
        zookeeper: from.zookeeper.as_ref(),
        rabbitmq: from.rabbitmq.as_ref(),
        redis: from.redis.as_ref(),
        config: from.config.as_ref(),
    };
    reporting::dependencies(sources, from.analytics.as_ref())
}

fn agents(cr: &AnalyticsAlarm, cluster_domain: &str) -> Agents {
    Agents::of(OPERATOR, cr, ports::ALARM_GEN_AGENT, cluster_domain)
}

/// Everything that the daemons of one resource are stated by.
pub struct Cluster<'a> {
    /// The resource.
    pub cr: &'a AnalyticsAlarm,
    /// What the daemons connect to, and where they log.
    pub around: &'a Surroundings,
    /// Members, in the order they joined.
    pub members: &'a [MemberStatus],
    /// How the members' agents are reached.
    pub agents: &'a Agents,
}

impl Cluster<'_> {
    /// The port of introspection of alarm generators.
    pub fn introspect(&self) -> Port {
        let stated = self.cr.spec.service_configuration.alarmgen_introspect_listen_port;
        stated.unwrap_or(ports::ALARM_GEN_INTROSPECT)
    }

    /// Which of the databases for it in Redis a member's generator uses, counted from 1. Each has one of its own, for good.
    pub fn database(&self, member: &MemberStatus) -> u32 {
        let first = self.cr.spec.service_configuration.alarmgen_redis_aggregate_db_offset.unwrap_or(1);
        first.saturating_add(member.id.saturating_sub(1))
    }
}

/// Plans alarm generators and their Kafka.
///
/// # Errors
/// When a service is not usable yet, an input is missing, there are no members to plan for, or the spec asks for what cannot be.
pub fn plan(cr: &AnalyticsAlarm, observed: &Observed<AnalyticsAlarm>) -> Result<Plan, NotReady> {
    let (resolved, drafts) = dependency::resolve_for(&dependencies(cr), cr, observed);
    let desired = || {
        let log_path = cr.spec.service_configuration.log_file_path.as_deref();
        let around = Surroundings::of(cr, &cr.spec.common_configuration, log_path, observed, resolved)?;
        carry_out(cr, observed, &around, drafts.clone())
    };
    desired().map_err(|not_ready| not_ready.with_drafts(drafts.clone()))
}

/// What a member can run.
fn table<'a>() -> [Entry<Cluster<'a>>; 3] {
    [
        Entry { container: alarm_gen::CONTAINER, daemon: alarm_gen::daemon },
        Entry { container: kafka::CONTAINER, daemon: kafka::daemon },
        Entry {
            container: nodemanager::CONTAINER,
            daemon: |cluster, container| {
                let Cluster { around, members, .. } = *cluster;
                node_manager(NodeType::AnalyticsAlarm, around.level, &around.analytics, members, container)
            },
        },
    ]
}

/// The containers that the spec may list.
pub fn containers() -> Vec<Builtin> {
    daemon::containers(&table())
}

fn carry_out(
    cr: &AnalyticsAlarm,
    observed: &Observed<AnalyticsAlarm>,
    around: &Surroundings,
    drafts: Vec<Draft>,
) -> Result<Plan, NotReady> {
    let table = table();
    let needed = [alarm_gen::CONTAINER.name, kafka::CONTAINER.name];
    let listed = &cr.spec.service_configuration.containers;
    let mut member_set = member::prepare(cr, observed, &table, &needed, listed)?;
    member_set.membership.notes.extend(around.services.notes.iter().cloned());
    let agents = agents(cr, &observed.operator.cluster_domain);
    let cluster = Cluster { cr, around, members: member_set.members(), agents: &agents };
    let too_many = too_many(&cluster);
    let daemons = Daemons::of(&table, &member_set.containers, &cluster)?;
    member_set.membership.notes.extend(too_many);
    let mut parts = Parts {
        owned_mounts: vec![mount(LOGS, LOG_DIR), kafka::data()],
        endpoints: vec![member_set.endpoint(KAFKA_ENDPOINT, Protocol::Tcp, ports::KAFKA, true)],
        grace_seconds: GRACE_SECONDS,
        ignored: ignored(cr, observed),
        drafts,
        ..daemons.parts(daemon::logs("analytics-alarm", ANALYTICS_ALARM, &member_set.identity), around.shared()?)
    };
    // Behind those of the node manager, as in pods of earlier releases: another order would be another pod.
    parts.volumes.push(kafka::volume());
    member_set.roll_out(parts, &members(alarm_gen::CONTAINER.name), |plan| {
        let nodes = [Nodes::members(plan, ANALYTICS_ALARM_NODE, "analytics_alarm_node_ip_address")];
        registration::complete(plan, cr, observed, &around.services.config, &nodes);
    })
}

/// Alarm generators whose database no usual Redis has.
fn too_many(cluster: &Cluster<'_>) -> Option<String> {
    let highest = cluster.members.iter().map(|member| cluster.database(member)).max()?;
    (highest > DATABASES).then(|| {
        format!(
            "alarm generators use the databases 7 to {} of Redis, which usually has sixteen: a lower alarmgenRedisAggregateDbOffset or fewer \
             members are needed",
            highest + 6
        )
    })
}

/// Fields of the spec that are set and have no effect.
fn ignored(cr: &AnalyticsAlarm, observed: &Observed<AnalyticsAlarm>) -> Vec<String> {
    let stated = cr.spec.service_configuration.alarmgen_partitions.filter(|stated| *stated != PARTITIONS);
    let partitions = stated.map(|_| {
        format!(
            "spec.serviceConfiguration.alarmgenPartitions: collectors and the API of Analytics share out {PARTITIONS} partitions, and alarm generators \
             have to go by the same number"
        )
    });
    let keystone = keystone::ignored(cr.spec.common_configuration.auth_parameters.as_ref()).into_iter();
    keystone.chain(member::ignored(cr, observed, &dependencies(cr))).chain(partitions).collect()
}
