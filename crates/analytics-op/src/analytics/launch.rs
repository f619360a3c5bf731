//! How the node agent runs the daemons of a member: command lines (docs/upstream/analytics.md#daemons-of-analytics), the files that they
//! read, when they serve.
//!
//! The collector serves when NodeStatus says `Functional`. To the API that would be too much: it is not while one Redis of any node is away,
//! and answers all the same, so an answer counts, and what it is not connected to is told.

use tf_agent_api::launch::{Identity, OnChange, Probe, Relay, Unusable, one_worker, port};
use tf_api::schema::Port;
use tf_contrail::sandesh;
use tf_plan::{component::Agents, keystone};

use super::config::{API_FILE, COLLECTOR_FILE, Cluster};
use crate::{
    config::{REDIS_PASSWORD, path},
    launch::{client, daemon, introspected},
};

/// The launch file of the API.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn api(cluster: &Cluster<'_>, agents: &Agents) -> Result<String, Unusable> {
    let argv = ["contrail-analytics-api", "-c", &path(API_FILE), "-c", &path(keystone::FILE)];
    let argv = argv.map(str::to_owned).to_vec();
    let files = [API_FILE, keystone::FILE].into_iter().chain(client(cluster.keystone));
    let mut launch = daemon(argv, files, cluster.services.foreign());
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
    launch.agent = agents.api()?;
    // It never reads them again (docs/upstream/daemons.md#certificates).
    launch.identity = Some(Identity { at_start: true, ..agents.certificate() });
    launch.render()
}

/// The launch file of the collector of the member with this address.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn collector(address: &str, cluster: &Cluster<'_>) -> Result<String, Unusable> {
    let mut argv = vec!["contrail-collector".into(), "--conf_file".into(), path(COLLECTOR_FILE)];
    argv.extend(cluster.keystone.into_iter().flat_map(|_| ["--conf_file".into(), path(keystone::FILE)]));
    // By the file of the library it finds the authority of the config API (upstream `vncapi.cc`).
    let files = [COLLECTOR_FILE].into_iter().chain(client(cluster.keystone));
    let introspect = cluster.spec.collector_introspect_port;
    let mut launch = introspected(daemon(argv, files, cluster.foreign()), introspect, cluster.log_level)?;
    let redis = &cluster.services.redis;
    let authorities = redis.foreign.ca_file();
    let password = redis.password.as_ref().map(|_| REDIS_PASSWORD.to_owned());
    // The agent reads them for each connection.
    launch.files.extend([&authorities, &password].into_iter().flatten().map(|file| (file.clone(), OnChange::Nothing)));
    launch.relay = Some(Relay {
        port: port("relay.port", Port(redis.port))?,
        host: redis.server(address).to_owned(),
        server: port("relay.server", Port(redis.port))?,
        tls: redis.tls,
        authorities,
        password,
    });
    launch.render()
}
