//! contrail-query-engine (docs/upstream/analytics.md#query-engine).
//!
//! It ends at an option that it does not know and at one that stands there twice, so what is written is what its `options.cc` declares.

use tf_agent_api::{
    launch::{Identity, Launch, Lists, Unusable},
    node,
};
use tf_api::contract::MemberStatus;
use tf_config_files::{Ini, Separator::Blank, Settings as _, Unrepresentable};
use tf_contrail::{
    daemon::{self, Daemon, LOG_DIR, native, path},
    sandesh,
    services::collectors,
};
use tf_plan::{
    build::{configuration::Files, pod::DaemonContainer},
    images::Builtin,
    not_ready::NotReady,
};

use super::introspected;
use crate::{config, query_engine::Cluster};

/// The container.
pub const CONTAINER: Builtin = Builtin { name: "queryengine", image: "analytics-query-engine", default: true };
/// The configuration.
const FILE: &str = "contrail-query-engine.conf";
/// Parts of a query at the same time (docs/upstream/analytics.md#query-engine).
const TASKS: u32 = 16;

/// The query engine.
///
/// # Errors
/// When a value cannot be expressed in a file.
pub fn daemon(cluster: &Cluster<'_>, container: DaemonContainer) -> Result<Daemon, NotReady> {
    let container = DaemonContainer {
        ports: vec![("introspect", cluster.introspect()), (node::AGENT_PORT, cluster.agents.port)],
        speaks_for_pod: true,
        ..native(container)
    };
    let mut files = Files::secret_of_each(FILE, cluster.members, |member| file(cluster, member))?;
    files.external_tls(cluster.services.external_tls());
    Ok(Daemon::new(container, launch(cluster)?, files))
}

fn launch(cluster: &Cluster<'_>) -> Result<Launch, Unusable> {
    let argv = vec!["contrail-query-engine".into(), "--conf_file".into(), path(FILE)];
    let launch = daemon::launch(argv, [FILE], cluster.services.external_tls());
    let mut launch = introspected(launch, cluster.introspect(), cluster.log_level)?;
    launch.lists = Some(Lists::of(&["collectors"]));
    launch.agent = cluster.agents.api()?;
    // It never reads them again (docs/upstream/daemons.md#certificates).
    launch.identity = Some(Identity { at_start: true, ..cluster.agents.certificate() });
    Ok(launch)
}

/// [`FILE`], which holds passwords.
fn file(cluster: &Cluster<'_>, member: &MemberStatus) -> Result<String, Unrepresentable> {
    let Cluster { services, log_level, .. } = *cluster;
    let mut file = Ini::boost(FILE);
    let defaults = file.section("DEFAULT");
    defaults.set("hostip", &member.address).set("hostname", &member.node);
    config::common(defaults, cluster.introspect(), log_level, &format!("{LOG_DIR}/contrail-query-engine.log"));
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
            .set("redis_ca_cert", services.redis.external_tls.trust());
    }
    sandesh::fill(file.section(sandesh::SECTION), Some(&services.collectors));
    file.render()
}
