//! `contrail-collector.conf` and `contrail-analytics-api.conf` (docs/upstream/analytics.md#collector, docs/upstream/analytics.md#analytics-api). Both
//! hold passwords and go to the Secret.
//!
//! What older tools render and the collector ignores is left out, and so are thresholds that are its own. It opens the port for structured
//! syslog only where a file says so: none does, because whoever reaches that port may write.

use tf_agent_api::node;
use tf_api::{
    AnalyticsConfiguration,
    common::{AaaMode, LogLevel},
    contract::MemberStatus,
};
use tf_config_files::{
    Ini, Section,
    Separator::{Blank, Comma},
    Settings as _, Unrepresentable,
    url::authority,
};
use tf_contrail::{
    sandesh,
    services::{Cassandra, Login, configdb},
};
use tf_plan::{
    foreign::{File, Foreign},
    keystone::Keystone,
};

use crate::{
    config::{self, DEFAULTS, LOG_DIR, PARTITIONS},
    services::{API, Kafka, Services},
};

/// The configuration of the collector.
pub const COLLECTOR_FILE: &str = "contrail-collector.conf";
/// The configuration of the API.
pub const API_FILE: &str = "contrail-analytics-api.conf";
/// Where the agent makes Redis reachable to the collector.
const LOOPBACK: &str = "127.0.0.1";

/// Everything the files of one resource depend on.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// The spec.
    pub spec: &'a AnalyticsConfiguration,
    /// Level of the logs.
    pub log_level: LogLevel,
    /// What the daemons connect to.
    pub services: &'a Services,
    /// The database of analytics, if there is one.
    pub database: Option<&'a Cassandra>,
    /// Where alarms are made, if they are.
    pub kafka: Option<&'a Kafka>,
    /// Keystone, if it authenticates users.
    pub keystone: Option<&'a Keystone>,
    /// Who is let in at the API's port for administration.
    pub login: &'a Login,
    /// Addresses of the members, in the order they joined.
    pub addresses: &'a [String],
}

impl Cluster<'_> {
    /// Files for TLS to services of other authorities.
    pub fn foreign(&self) -> Vec<File> {
        let stores = [self.database.map(|it| &it.foreign), self.kafka.map(|it| &it.foreign)];
        let stores = stores.into_iter().flatten().flat_map(Foreign::files);
        self.services.foreign().into_iter().chain(stores).collect()
    }

    /// [`COLLECTOR_FILE`].
    ///
    /// # Errors
    /// When a value cannot be expressed in the file.
    pub fn collector(&self, member: &MemberStatus) -> Result<String, Unrepresentable> {
        let Self { spec, services, .. } = self;
        let mut file = Ini::boost(COLLECTOR_FILE);
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

    /// [`API_FILE`].
    ///
    /// # Errors
    /// When a value cannot be expressed in the file.
    pub fn api(&self, member: &MemberStatus) -> Result<String, Unrepresentable> {
        let Self { spec, services, .. } = self;
        let mut file = Ini::python(API_FILE);
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

    /// Hours that data is kept.
    fn lifetimes(&self, defaults: &mut Section) {
        let spec = self.spec;
        defaults
            .set("analytics_data_ttl", spec.analytics_data_ttl)
            .set("analytics_config_audit_ttl", spec.analytics_config_audit_ttl)
            .set("analytics_statistics_ttl", spec.analytics_statistics_ttl)
            .set("analytics_flow_ttl", spec.analytics_flow_ttl);
    }

    /// Who may do what: what the spec says, else what suits the authentication.
    pub fn aaa_mode(&self) -> AaaMode {
        let usual = if self.keystone.is_some() { AaaMode::Rbac } else { AaaMode::NoAuth };
        self.spec.aaa_mode.unwrap_or(usual)
    }

    fn collectors(&self) -> Vec<String> {
        self.addresses.iter().map(|address| authority(address, self.spec.collector_port.get())).collect()
    }
}
