//! contrail-analytics-api (docs/upstream/analytics.md#analytics-api). Its file holds passwords and goes to the Secret.
//!
//! That it is `Functional` would be too much to ask: it is not while one Redis of any node is away, and answers all the same, so an answer counts, and what it is
//! not connected to is reported.

use tf_agent_api::{
    launch::{Identity, Launch, Probe, Unusable, one_worker, port},
    node,
};
use tf_api::contract::MemberStatus;
use tf_config_files::{Ini, Separator::Blank, Settings as _, Unrepresentable};
use tf_contrail::{
    daemon::{self, Daemon, LOG_DIR, path, python},
    sandesh,
};
use tf_plan::{
    build::{configuration::Files, pod::DaemonContainer},
    images::Builtin,
    keystone,
    not_ready::NotReady,
};

use super::client;
use crate::{
    analytics::cluster::Cluster,
    config::{self, DEFAULTS, PARTITIONS},
    services::API,
};

/// The container.
pub const CONTAINER: Builtin = Builtin { name: "analyticsapi", image: "analytics-api", default: true };
/// The configuration.
const FILE: &str = "contrail-analytics-api.conf";

/// The API.
///
/// # Errors
/// When a value cannot be expressed in a file.
pub fn daemon(cluster: &Cluster<'_>, container: DaemonContainer) -> Result<Daemon, NotReady> {
    let container = DaemonContainer {
        ports: vec![
            (API, cluster.spec.analytics_port),
            ("introspect", cluster.spec.analytics_introspect_port),
            (node::AGENT_PORT, cluster.agents.port),
        ],
        speaks_for_pod: true,
        ..python(container)
    };
    let files = Files::secret_of_each(FILE, cluster.members, |member| cluster.api(member))?;
    Ok(Daemon::new(container, launch(cluster)?, files))
}

fn launch(cluster: &Cluster<'_>) -> Result<Launch, Unusable> {
    let argv = ["contrail-analytics-api", "-c", &path(FILE), "-c", &path(keystone::FILE)];
    let argv = argv.map(str::to_owned).to_vec();
    let files = [FILE, keystone::FILE].into_iter().chain(client(cluster.keystone));
    let mut launch = daemon::launch(argv, files, cluster.services.external_tls());
    // Which links it shows (upstream `opserver.py`).
    launch.environment.extend([
        ("ANALYTICSDB_ENABLE".into(), cluster.database.is_some().to_string()),
        ("ANALYTICS_ALARM_ENABLE".into(), cluster.kafka.is_some().to_string()),
    ]);
    launch.ready = Probe::Http {
        port: port("ready.port", cluster.spec.analytics_port)?,
        path: "/".into(),
        host: None,
        tls: true,
        contains: None,
        workers: one_worker(),
    };
    launch.connections = Some(sandesh::connections(cluster.spec.analytics_introspect_port)?);
    // It takes another one as all daemons with this port do (upstream `sandesh_req_impl.py`, `SandeshReqImpl`).
    launch.level = Some(sandesh::level(cluster.log_level, cluster.spec.analytics_introspect_port)?);
    launch.agent = cluster.agents.api()?;
    // It never reads them again (docs/upstream/daemons.md#certificates).
    launch.identity = Some(Identity { at_start: true, ..cluster.agents.certificate() });
    Ok(launch)
}

impl Cluster<'_> {
    /// [`FILE`].
    fn api(&self, member: &MemberStatus) -> Result<String, Unrepresentable> {
        let Self { spec, services, .. } = self;
        let mut file = Ini::python(FILE);
        let defaults = file.section(DEFAULTS);
        defaults.set("host_ip", &member.address);
        let log = format!("{LOG_DIR}/contrail-analytics-api.log");
        config::common(defaults, spec.analytics_introspect_port, self.log_level, &log);
        self.lifetimes(defaults);
        defaults
            .set("rest_api_ip", &member.address)
            .set("rest_api_port", spec.analytics_port)
            .set("partitions", PARTITIONS)
            // Without the key the API assumes cloud-admin.
            .set("aaa_mode", self.aaa_mode().as_str())
            .set("cloud_admin_role", "admin")
            .list("collectors", Blank, self.collectors())
            .list("api_server", Blank, services.config.authorities(API))
            .set("api_server_use_ssl", services.config.tls(API))
            .list("zk_list", Blank, &services.zookeeper)
            .set("analytics_api_ssl_enable", true)
            // It asks for no client certificate then: people have none (upstream `opserver.py`).
            .set("analytics_api_insecure_enable", true)
            .set("analytics_api_ssl_certfile", node::CERTIFICATE)
            .set("analytics_api_ssl_keyfile", node::CERTIFICATE_KEY)
            .set("analytics_api_ssl_ca_cert", node::CA_BUNDLE);
        let redis = file.section("REDIS");
        config::redis(redis, &services.redis);
        if self.database.is_some() {
            // Queries go to the loopback address without TLS, and their results come from the node's own with it, on the same port.
            redis.set("redis_query_port", services.redis.port);
        }
        sandesh::fill(file.section(sandesh::SECTION), None);
        file.render()
    }
}
