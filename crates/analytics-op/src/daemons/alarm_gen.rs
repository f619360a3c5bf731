//! contrail-alarm-gen, which makes alarms of the state that collectors send to Kafka (docs/upstream/analytics.md#alarm-generator).

use tf_agent_api::{
    launch::{Identity, Launch, Unusable},
    node,
};
use tf_api::{contract::MemberStatus, ports};
use tf_config_files::{
    Ini,
    Separator::{Blank, Comma},
    Settings as _, Unrepresentable,
    url::authority,
};
use tf_contrail::{
    daemon::{self, Daemon, LOGS, path, python},
    sandesh,
    services::{collectors, configdb},
};
use tf_plan::{
    build::{
        configuration::Files,
        pod::{DaemonContainer, mount},
    },
    external_tls::ExternalTls,
    images::Builtin,
    member_set::sys_log_level,
    not_ready::NotReady,
};

use super::{client, reader};
use crate::{
    alarm::Cluster,
    config::{self, DEFAULTS, EVERYWHERE, PARTITIONS},
    reporting::{Surroundings, log_local},
    services::Kafka,
};

/// The container.
pub const CONTAINER: Builtin = Builtin { name: "analytics-alarm-gen", image: "analytics-alarm-gen", default: true };
/// The configuration.
const FILE: &str = "contrail-alarm-gen.conf";

/// The alarm generator.
///
/// # Errors
/// When a value cannot be expressed in a file.
pub fn daemon(cluster: &Cluster<'_>, container: DaemonContainer) -> Result<Daemon, NotReady> {
    let container = DaemonContainer {
        ports: vec![("introspect", cluster.introspect()), (node::AGENT_PORT, cluster.agents.port)],
        mounts: vec![mount(LOGS, &cluster.around.log_dir)],
        speaks_for_pod: true,
        ..python(container)
    };
    let files = Files::secret_of_each(FILE, cluster.members, |member| file(cluster, member))?;
    Ok(Daemon::by_member(container, cluster.members, |member| launch(cluster, member), files)?)
}

fn launch(cluster: &Cluster<'_>, member: &MemberStatus) -> Result<Launch, Unusable> {
    let argv = vec!["contrail-alarm-gen".into(), "-c".into(), path(FILE)];
    let files = [FILE].into_iter().chain(client(cluster.around.keystone.as_ref()));
    let launch = daemon::launch(argv, files, cluster.around.external_tls());
    let mut launch = reader(launch, cluster.introspect(), cluster.around.level)?;
    let database = cluster.database(member).to_string();
    launch.environment.insert("ALARMGEN_REDIS_AGGREGATE_DB_OFFSET".into(), database);
    launch.agent = cluster.agents.api()?;
    // It never reads them again (docs/upstream/daemons.md#certificates).
    launch.identity = Some(Identity { at_start: true, ..cluster.agents.certificate() });
    Ok(launch)
}

/// [`FILE`], which holds passwords.
fn file(cluster: &Cluster<'_>, member: &MemberStatus) -> Result<String, Unrepresentable> {
    let Surroundings { services, .. } = &cluster.around;
    let spec = &cluster.cr.spec.service_configuration;
    let name = spec.alarmgen_log_file_name.as_deref().unwrap_or("contrail-alarm-gen.log");
    let mut file = Ini::python(FILE);
    file.section(DEFAULTS)
        .set("host_ip", &member.address)
        .set("http_server_ip", EVERYWHERE)
        .set("http_server_port", cluster.introspect())
        .set("log_file", format!("{}/{name}", cluster.around.log_dir))
        .set("log_level", sys_log_level(cluster.around.level))
        .set_if_some("log_local", log_local(spec.log_local.as_deref()).then_some(1))
        .set("partitions", PARTITIONS)
        .list("collectors", Blank, collectors(Some(&cluster.around.analytics)))
        .list("zk_list", Blank, &services.zookeeper);
    let redis = file.section("REDIS");
    redis.set("redis_server_port", services.redis.port);
    config::redis(redis, &services.redis);
    let brokers = cluster.members.iter().map(|it| authority(&it.address, ports::KAFKA.get())).collect();
    config::kafka(file.section("KAFKA"), &Kafka { brokers, tls: true, external_tls: ExternalTls::default() });
    let section = file.section(configdb::SECTION);
    configdb::database(section, &services.cassandra);
    section.set("cassandra_driver", "cql");
    // Its names of certificates are those of another library (docs/upstream/files.md#configdb).
    configdb::bus(section, &services.rabbitmq, member, Comma, "kombu_ssl");
    if services.rabbitmq.tls {
        section.set("kombu_ssl_version", "tlsv1_2");
    }
    sandesh::fill(file.section(sandesh::SECTION), Some(&cluster.around.analytics));
    file.render()
}
