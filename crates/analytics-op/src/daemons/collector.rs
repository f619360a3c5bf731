//! contrail-collector (docs/upstream/analytics.md#collector). It serves when NodeStatus says `Functional`. Its file holds passwords and goes to the Secret.
//!
//! What older tools render and the collector ignores is left out, and so are thresholds that are its own. It opens the port for structured
//! syslog only where a file says so: none does, because every client that reaches that port may write.

use tf_agent_api::launch::{Launch, OnChange, Relay, Unusable, port};
use tf_api::{contract::MemberStatus, schema::Port};
use tf_config_files::{
    Ini,
    Separator::{Blank, Comma},
    Settings as _, Unrepresentable,
};
use tf_contrail::{
    daemon::{self, Daemon, LOG_DIR, native, path},
    sandesh,
    services::{COLLECTOR, configdb},
};
use tf_plan::{
    build::{configuration::Files, pod::DaemonContainer},
    images::Builtin,
    keystone,
    not_ready::NotReady,
};

use super::{client, introspected};
use crate::{
    analytics::cluster::Cluster,
    config::{self, PARTITIONS, REDIS_PASSWORD},
    services::API,
};

/// The container.
pub const CONTAINER: Builtin = Builtin { name: "collector", image: "analytics-collector", default: true };
/// The configuration.
const FILE: &str = "contrail-collector.conf";
/// Where the agent makes Redis reachable to the collector.
const LOOPBACK: &str = "127.0.0.1";

/// The collector.
///
/// # Errors
/// When a value cannot be expressed in a file.
pub fn daemon(cluster: &Cluster<'_>, container: DaemonContainer) -> Result<Daemon, NotReady> {
    let spec = cluster.spec;
    let ports = vec![(COLLECTOR, spec.collector_port), ("col-introspect", spec.collector_introspect_port)];
    let files = Files::secret_of_each(FILE, cluster.members, |member| cluster.collector(member))?;
    let container = DaemonContainer { ports, ..native(container) };
    Ok(Daemon::by_member(container, cluster.members, |member| launch(&member.address, cluster), files)?)
}

/// How it is run on the member with this address.
fn launch(address: &str, cluster: &Cluster<'_>) -> Result<Launch, Unusable> {
    let mut argv = vec!["contrail-collector".into(), "--conf_file".into(), path(FILE)];
    argv.extend(cluster.keystone.into_iter().flat_map(|_| ["--conf_file".into(), path(keystone::FILE)]));
    // By the file of the library it finds the authority of the config API (upstream `vncapi.cc`).
    let files = [FILE].into_iter().chain(client(cluster.keystone));
    let introspect = cluster.spec.collector_introspect_port;
    let mut launch = introspected(daemon::launch(argv, files, cluster.external_tls()), introspect, cluster.log_level)?;
    let redis = &cluster.services.redis;
    let authorities = redis.external_tls.ca_file();
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
    Ok(launch)
}

impl Cluster<'_> {
    /// [`FILE`].
    fn collector(&self, member: &MemberStatus) -> Result<String, Unrepresentable> {
        let Self { spec, services, .. } = self;
        let mut file = Ini::boost(FILE);
        let defaults = file.section("DEFAULT");
        // The daemon finds its name by the address; the option is for people (docs/upstream/daemons.md#names).
        defaults.set("hostip", &member.address).set("hostname", &member.node);
        let log = format!("{LOG_DIR}/contrail-collector.log");
        config::common(defaults, spec.collector_introspect_port, self.log_level, &log);
        self.lifetimes(defaults);
        defaults.set("partitions", PARTITIONS).list("zookeeper_server_list", Comma, &services.zookeeper);
        if let Some(database) = self.database {
            defaults.list("cassandra_server_list", Blank, &database.servers);
            config::database(file.section("CASSANDRA"), database);
        }
        file.section("COLLECTOR").set("server", &member.address).set("port", spec.collector_port);
        file.section("API_SERVER")
            .list("api_server_list", Blank, services.config.authorities(API))
            .set("api_server_use_ssl", services.config.tls(API));
        file.section("REDIS")
            .set("server", LOOPBACK)
            .set("port", services.redis.port)
            .set_if_some("password", services.redis.password.as_ref());
        if let Some(kafka) = self.kafka {
            config::kafka(file.section("KAFKA"), kafka);
        }
        configdb::fill(file.section(configdb::SECTION), &services.cassandra, &services.rabbitmq, member);
        // Collectors show the same as other daemons do to them.
        sandesh::fill(file.section(sandesh::SECTION), None);
        file.render()
    }
}
