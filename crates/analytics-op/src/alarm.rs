//! AnalyticsAlarm: makes alarms of the state that collectors tell to Kafka (docs/upstream/analytics.md#alarm-generator), and runs that Kafka
//! (docs/upstream/analytics.md#kafka), a broker beside each alarm generator.
//!
//! What is in Kafka is told again by collectors, so a broker keeps it in a directory that goes with its pod. Brokers and their clients show
//! certificates to each other; nobody else gets in.

use tf_agent_api::{
    launch::{Identity, Probe, Unusable, file_name, port},
    node,
};
use tf_api::{
    AnalyticsAlarm,
    contract::{ConditionType, Draft, MemberStatus, Protocol},
    kinds::{ANALYTICS, ANALYTICS_ALARM, CASSANDRA, CONFIG, RABBITMQ, REDIS, ZOOKEEPER},
    ports,
    schema::Port,
};
use tf_config_api::types::ANALYTICS_ALARM_NODE;
use tf_config_files::{
    Ini, Properties,
    Separator::{Blank, Comma},
    Settings as _, Unrepresentable,
    url::authority,
};
use tf_contrail::{
    nodemanager::{self, NodeType},
    sandesh,
    services::{collectors, configdb},
};
use tf_plan::{
    build::{
        configuration::Files,
        pod::{Daemon, mount},
        storage::empty_dir,
    },
    component::{self, Agents},
    declaration::Declaration,
    dependency::{self, Dependency},
    ensemble::{Ensemble, Parts, sys_log_level},
    foreign::Foreign,
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
    config::{self, DEFAULTS, EVERYWHERE, LOG_DIR, PARTITIONS, path},
    launch::{client, daemon, reader},
    member::{self, GRACE_SECONDS, LOGS, Run, native, python},
    peer,
    procedure::members,
    registration::{self, Nodes},
    reporting::{self, Surroundings, log_local},
    services::{KAFKA as KAFKA_ENDPOINT, Kafka, Sources},
};

/// The alarm generator; this name and that of the other container are the Go tf-operator's.
pub const ALARM_GENERATOR: &str = "analytics-alarm-gen";
/// The broker.
pub const KAFKA: &str = "kafka";
/// The configuration of the alarm generator.
pub const FILE: &str = "contrail-alarm-gen.conf";
/// The configuration of the broker.
pub const KAFKA_FILE: &str = "server.properties";
/// Containers that the spec may list.
pub const CONTAINERS: [Builtin; 3] = [
    Builtin { name: ALARM_GENERATOR, image: "analytics-alarm-gen", default: true },
    Builtin { name: KAFKA, image: "external-kafka", default: true },
    nodemanager::CONTAINER,
];
/// Volume of what brokers keep.
const DATA: &str = "kafka-data";
const DATA_DIR: &str = "/var/lib/kafka";
/// Where the images have the program (docs/upstream/images.md#programs).
const PROGRAM: &str = "/opt/kafka/bin/kafka-server-start.sh";
/// Databases of a Redis that alarm generators may use: of the usual sixteen those above the ones that others use (docs/upstream/redis.md#databases).
const DATABASES: u32 = 9;

/// The AnalyticsAlarm component.
pub struct Component;

impl component::Component for Component {
    type Cr = AnalyticsAlarm;

    /// Members share out the partitions anew when one is gone (docs/upstream/daemons.md#members).
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

    fn told(cr: &AnalyticsAlarm, observed: &Observed<AnalyticsAlarm>) -> Option<AgentReport> {
        members(ALARM_GENERATOR).told(cr, observed)
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

/// Everything the files depend on.
struct Cluster<'a> {
    cr: &'a AnalyticsAlarm,
    around: Surroundings,
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
        carry_out(cr, observed, &Cluster { cr, around }, drafts.clone())
    };
    desired().map_err(|not_ready| not_ready.with_drafts(drafts.clone()))
}

fn carry_out(
    cr: &AnalyticsAlarm,
    observed: &Observed<AnalyticsAlarm>,
    cluster: &Cluster<'_>,
    drafts: Vec<Draft>,
) -> Result<Plan, NotReady> {
    let spec = &cr.spec.service_configuration;
    let run =
        Run { builtins: &CONTAINERS, needed: &[ALARM_GENERATOR, KAFKA], listed: &spec.containers, uses_auth: true };
    let mut ensemble = run.prepare(cr, observed)?;
    ensemble.membership.notes.extend(cluster.around.services.notes.iter().cloned());
    ensemble.membership.notes.extend(too_many(cluster, ensemble.members()));
    let agents = agents(cr, &observed.operator.cluster_domain);
    let files = files(&ensemble, cluster, &agents)?;
    let contents = files.content_hashes(ensemble.members());
    let container = |chosen: &Chosen| match chosen.name {
        ALARM_GENERATOR => {
            let ports = vec![("introspect", cluster.introspect()), (node::AGENT_PORT, agents.port)];
            Daemon { speaks_for_pod: true, ..python(chosen, ports, &cluster.around.log_dir) }
        }
        KAFKA => {
            let mut daemon = native(chosen, vec![(KAFKA_ENDPOINT, ports::KAFKA)], LOG_DIR);
            daemon.mounts.push(mount(DATA, DATA_DIR));
            daemon
        }
        _ => nodemanager::daemon(chosen, NodeType::AnalyticsAlarm, LOGS),
    };
    let daemons: Vec<Daemon> = ensemble.containers.iter().map(container).collect();
    let kafka = ensemble.endpoint(KAFKA_ENDPOINT, Protocol::Tcp, ports::KAFKA, true);
    let mut volumes = member::volumes(&ensemble.identity, &ensemble.containers, "analytics-alarm", "analyticsalarm1");
    volumes.push(empty_dir(DATA));
    let parts = Parts {
        files,
        volumes,
        owned_mounts: vec![mount(LOGS, LOG_DIR), mount(DATA, DATA_DIR)],
        ports: daemons.iter().flat_map(|daemon| daemon.ports.clone()).collect(),
        daemons,
        endpoints: vec![kafka],
        grace_seconds: GRACE_SECONDS,
        ignored: ignored(cr, observed),
        drafts,
        ..Parts::default()
    };
    let mut plan = ensemble.plan(parts)?;
    procedure::complete(&members(ALARM_GENERATOR), &mut plan, cr, observed, &contents);
    procedure::reseat(&mut plan, observed);
    let nodes = [Nodes::members(&plan, ANALYTICS_ALARM_NODE, "analytics_alarm_node_ip_address")];
    registration::complete(&mut plan, cr, observed, &cluster.around.services.config, &nodes);
    hibernation::finish(&mut plan);
    Ok(plan)
}

/// Alarm generators whose database no usual Redis has.
fn too_many(cluster: &Cluster<'_>, members: &[MemberStatus]) -> Option<String> {
    let highest = members.iter().map(|member| cluster.database(member)).max()?;
    (highest > DATABASES).then(|| {
        format!(
            "alarm generators use the databases 7 to {} of Redis, which usually has sixteen: a lower alarmgenRedisAggregateDbOffset or fewer \
             members are needed",
            highest + 6
        )
    })
}

fn files(ensemble: &Ensemble<'_, AnalyticsAlarm>, cluster: &Cluster<'_>, agents: &Agents) -> Result<Files, NotReady> {
    let mut files = Files::default();
    member::library(&mut files, &cluster.around.services, cluster.around.keystone.as_ref())?;
    files.foreign(cluster.around.foreign());
    let settings = nodemanager::Settings {
        node_type: NodeType::AnalyticsAlarm,
        log_level: cluster.around.level,
        collectors: Some(&cluster.around.analytics),
        database: None,
    };
    member::node_manager(&mut files, ensemble, &settings)?;
    let addresses = ensemble.addresses();
    files.shared(&file_name(KAFKA), launch_kafka()?);
    for member in ensemble.members() {
        let address = &member.address;
        files.member(&file_name(ALARM_GENERATOR), address, cluster.launch(member, agents)?);
        files.member_secret(FILE, address, cluster.file(member, &addresses)?);
        files.member(KAFKA_FILE, address, cluster.kafka(member, addresses.len())?);
    }
    Ok(files)
}

impl Cluster<'_> {
    fn introspect(&self) -> Port {
        let stated = self.cr.spec.service_configuration.alarmgen_introspect_listen_port;
        stated.unwrap_or(ports::ALARM_GEN_INTROSPECT)
    }

    /// Which of the databases for it in Redis a member's generator uses, counted from 1. Each has one of its own, for good.
    fn database(&self, member: &MemberStatus) -> u32 {
        let first = self.cr.spec.service_configuration.alarmgen_redis_aggregate_db_offset.unwrap_or(1);
        first.saturating_add(member.id.saturating_sub(1))
    }

    /// [`FILE`], which holds passwords.
    fn file(&self, member: &MemberStatus, brokers: &[String]) -> Result<String, Unrepresentable> {
        let Surroundings { services, .. } = &self.around;
        let spec = &self.cr.spec.service_configuration;
        let name = spec.alarmgen_log_file_name.as_deref().unwrap_or("contrail-alarm-gen.log");
        let mut file = Ini::python(FILE);
        file.section(DEFAULTS)
            .set("host_ip", &member.address)
            .set("http_server_ip", EVERYWHERE)
            .set("http_server_port", self.introspect())
            .set("log_file", format!("{}/{name}", self.around.log_dir))
            .set("log_level", sys_log_level(self.around.level))
            .set_if_some("log_local", log_local(spec.log_local.as_deref()).then_some(1))
            .set("partitions", PARTITIONS)
            .list("collectors", Blank, collectors(Some(&self.around.analytics)))
            .list("zk_list", Blank, &services.zookeeper);
        let redis = file.section("REDIS");
        redis.set("redis_server_port", services.redis.port);
        config::redis(redis, &services.redis);
        let brokers = brokers.iter().map(|address| authority(address, ports::KAFKA.get())).collect();
        config::kafka(file.section("KAFKA"), &Kafka { brokers, tls: true, foreign: Foreign::default() });
        let section = file.section(configdb::SECTION);
        configdb::database(section, &services.cassandra);
        section.set("cassandra_driver", "cql");
        // Its names of certificates are those of another library (docs/upstream/files.md#configdb).
        configdb::bus(section, &services.rabbitmq, member, Comma, "kombu_ssl");
        if services.rabbitmq.tls {
            section.set("kombu_ssl_version", "tlsv1_2");
        }
        sandesh::fill(file.section(sandesh::SECTION), Some(&self.around.analytics));
        file.render()
    }

    /// [`KAFKA_FILE`]. What is made automatically is on as many brokers as there are, three at most.
    fn kafka(&self, member: &MemberStatus, brokers: usize) -> Result<String, Unrepresentable> {
        let copies = brokers.clamp(1, 3);
        let listener = format!("SSL://{}", authority(&member.address, ports::KAFKA.get()));
        let mut file = Properties::java(KAFKA_FILE);
        file.set("broker.id", member.id)
            .set("reserved.broker.max.id", 100_001)
            .set("listeners", &listener)
            .set("advertised.listeners", &listener)
            .set("security.inter.broker.protocol", "SSL")
            .set("ssl.client.auth", "required")
            .set("ssl.keystore.type", "PEM")
            .set("ssl.keystore.location", node::KEYSTORE_PEM)
            .set("ssl.truststore.type", "PEM")
            .set("ssl.truststore.location", node::TRUSTSTORE_PEM)
            .list("zookeeper.connect", Comma, &self.around.services.zookeeper)
            .set("log.dirs", DATA_DIR)
            .set("num.partitions", PARTITIONS)
            .set("default.replication.factor", copies)
            .set("offsets.topic.replication.factor", copies)
            // Topics that were made when there were fewer brokers have fewer copies, and nobody could write to them.
            .set("min.insync.replicas", 1)
            // Of a partition without any copy in sync another one is better than none: collectors tell the state again.
            .set("unclean.leader.election.enable", true)
            .set("log.cleanup.policy", "delete")
            .set("log.retention.hours", 24)
            .set("log.retention.bytes", 268_435_456)
            .set("log.segment.bytes", 268_435_456)
            // Of memory. The usual 128 MiB are for many compacted topics, and there is none but that of consumers' offsets.
            .set("log.cleaner.dedupe.buffer.size", 16_777_216);
        file.render()
    }

    fn launch(&self, member: &MemberStatus, agents: &Agents) -> Result<String, Unusable> {
        let argv = vec!["contrail-alarm-gen".into(), "-c".into(), path(FILE)];
        let files = [FILE].into_iter().chain(client(self.around.keystone.as_ref()));
        let mut launch = reader(daemon(argv, files, self.around.foreign()), self.introspect(), self.around.level)?;
        let database = self.database(member).to_string();
        launch.environment.insert("ALARMGEN_REDIS_AGGREGATE_DB_OFFSET".into(), database);
        launch.agent = agents.api()?;
        // It never reads them again (docs/upstream/daemons.md#certificates).
        launch.identity = Some(Identity { at_start: true, ..agents.certificate() });
        launch.render()
    }
}

fn launch_kafka() -> Result<String, Unusable> {
    let mut launch = daemon(vec![PROGRAM.into(), path(KAFKA_FILE)], [KAFKA_FILE], Vec::new());
    launch.awaits.extend([node::KEYSTORE_PEM, node::TRUSTSTORE_PEM].map(str::to_owned));
    launch.environment.insert("LOG_DIR".into(), LOG_DIR.into());
    launch.ready = Probe::Kafka { port: port("ready.port", ports::KAFKA)? };
    launch.render()
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
