//! Files of a Redis server, of directives that every release from 6.0 on knows; loaded by a real 7.0.15.
//!
//! The server reads them where the node agent writes them. The password stands in [`AUTH_FILE`] alone, which is in a Secret.

use std::{collections::BTreeMap, net::IpAddr};

use tf_api::common::LogLevel;
use tf_pki::member::OPERATOR_DOMAIN;
use tf_plan::{
    component::Agents,
    files::{RedisConf, Separator, Settings as _, Unrepresentable},
    node::{
        self, KEYSTORE_PEM, RUN_DIR, TRUSTSTORE_PEM,
        launch::{Agent, Identity, Launch, OnChange, Probe, Unusable, port},
        redis::PASSWORD_FILE,
    },
};

use crate::{OPERATOR, password::Password, plan::CONTAINER, ports::Ports};

/// The configuration.
pub const CONFIG_FILE: &str = "redis.conf";
/// The part of it that is secret.
pub const AUTH_FILE: &str = "redis-auth.conf";

/// Databases 0 to 3 are for queries, state and sessions, 7 and up for alarm generators, each with one of its own (tf-components 2.4).
/// Redis's own number, 16, would do for nine of them.
const DATABASES: u32 = 64;

/// [`CONFIG_FILE`] of the member with this address.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn config_file(address: IpAddr, ports: Ports, level: LogLevel) -> Result<String, Unrepresentable> {
    let mut file = RedisConf::new(CONFIG_FILE);
    file.set("bind", address)
        // Nobody is served without TLS.
        .set("port", 0)
        .set("tls-port", ports.redis)
        // One file for both, so that key and certificate are always of one pair.
        .set("tls-cert-file", KEYSTORE_PEM)
        .set("tls-key-file", KEYSTORE_PEM)
        .set("tls-ca-cert-file", TRUSTSTORE_PEM)
        // Clients need the password. A certificate they need not have, but it has to be good if they show one.
        .set("tls-auth-clients", "optional")
        // Some clients of Tungsten Fabric speak nothing newer than 1.2 (tf-components 1.5).
        .list("tls-protocols", Separator::Blank, ["TLSv1.2", "TLSv1.3"])
        .set("include", format!("{RUN_DIR}/{AUTH_FILE}"))
        .set("databases", DATABASES)
        // What is kept here is a copy, and a stale one is worse than none: nothing is written to a disk (ADR 0029).
        .set("save", "")
        .set("dbfilename", "")
        .set("appendonly", "no")
        // As Tungsten Fabric's own containers have it (tf-components 2.4).
        .set("lua-time-limit", 15_000)
        .set("daemonize", "no")
        // To the console.
        .set("logfile", "")
        .set("loglevel", log_level(level));
    file.render()
}

/// [`AUTH_FILE`], the same for all members.
///
/// # Errors
/// When the password cannot be expressed in the file.
pub fn auth_file(password: &Password) -> Result<String, Unrepresentable> {
    let mut file = RedisConf::new(AUTH_FILE);
    file.set_credential("requirepass", password.expose());
    file.render()
}

/// Redis has four levels. `notice`, its own default, is what other daemons call information.
fn log_level(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Debug => "debug",
        LogLevel::Info => "notice",
        LogLevel::Warning | LogLevel::Error | LogLevel::Critical | LogLevel::None => "warning",
    }
}

/// How the agent runs the server.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn launch_file(ports: Ports, agents: &Agents) -> Result<String, Unusable> {
    Launch {
        files: BTreeMap::from([
            (CONFIG_FILE.into(), OnChange::Restart),
            (AUTH_FILE.into(), OnChange::Restart),
            // For the agent.
            (PASSWORD_FILE.into(), OnChange::Nothing),
        ]),
        ready: Probe::Redis { port: port("ready.port", ports.redis)? },
        agent: Some(Agent { port: port("agent.port", ports.agent)?, client: format!("{OPERATOR}.{OPERATOR_DOMAIN}") }),
        identity: Some(Identity {
            services: agents.services.clone(),
            lifetime_seconds: agents.lifetime_seconds,
            // The server does not start without the files.
            required: true,
            host_files: None,
            reload: Some(node::reload(CONTAINER)),
        }),
        ..Launch::new(vec!["redis-server".into(), format!("{RUN_DIR}/{CONFIG_FILE}")])
    }
    .render()
}
