//! What files of several daemons have in common. Names of files are those that the daemons and the stock images give them. The key of a
//! file is its name and the address of its member.

use tf_api::{common::LogLevel, schema::Port};
use tf_config_files::{Section, Separator::Blank, Settings as _, Unrepresentable};
use tf_contrail::{
    services::Cassandra,
    vnc_api::{self, Library},
};
use tf_plan::{keystone::Keystone, member_set::sys_log_level};

use crate::services::{API, Kafka, Redis, Services};

/// File with the password of Redis.
pub const REDIS_PASSWORD: &str = "redis-password";
/// Partitions that the state of everything is shared out in. Collectors, API and alarm generators have to agree
/// (docs/upstream/analytics.md#partitions).
pub const PARTITIONS: u32 = 30;
/// The section of defaults of the daemons in Python.
pub const DEFAULTS: &str = "DEFAULTS";

/// Introspection of Python daemons opens an IPv4 socket only (upstream `sandesh_http.py`), and probes and people ask at any address.
pub const EVERYWHERE: &str = "0.0.0.0";

/// How introspection listens and where the daemon logs.
pub fn common(defaults: &mut Section, introspect: Port, level: LogLevel, log: &str) {
    defaults
        .set("http_server_ip", EVERYWHERE)
        .set("http_server_port", introspect)
        .set("log_file", log)
        .set("log_level", sys_log_level(level))
        // To the daemons in Python every text means yes.
        .set("log_local", true);
}

/// The database of analytics, for daemons in C++: servers stand among the defaults, and how they are logged in to in a section.
pub fn database(section: &mut Section, cassandra: &Cassandra) {
    section.set("cassandra_use_ssl", cassandra.tls);
    if cassandra.tls {
        section.set("cassandra_ca_certs", cassandra.external_tls.trust());
    }
    if let Some(login) = &cassandra.login {
        section.set("cassandra_user", &login.user).set("cassandra_password", &login.password);
    }
}

/// Redis, for daemons in Python, in its section. They are asked for no certificate of their own.
pub fn redis(section: &mut Section, redis: &Redis) {
    section
        .list("redis_uve_list", Blank, redis.servers())
        .set_if_some("redis_password", redis.password.as_ref())
        .set("redis_use_ssl", redis.tls);
    if redis.tls {
        section.set("redis_ca_cert", redis.external_tls.trust());
    }
}

/// Kafka, in its section.
pub fn kafka(section: &mut Section, kafka: &Kafka) {
    section.list("kafka_broker_list", Blank, &kafka.brokers).set("kafka_ssl_enable", kafka.tls);
    if kafka.tls {
        section
            .set("kafka_keyfile", kafka.external_tls.key())
            .set("kafka_certfile", kafka.external_tls.certificate())
            .set("kafka_ca_cert", kafka.external_tls.trust());
    }
}

/// How programs find the config API.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn library(services: &Services, keystone: Option<&Keystone>) -> Result<String, Unrepresentable> {
    let config = &services.config;
    vnc_api::file(&Library {
        servers: &config.hosts(API),
        port: config.port(API).unwrap_or_default(),
        tls: config.tls(API),
        external_tls: Some(&services.api()),
        keystone,
        as_administrator: true,
    })
}
