//! Files of a Redis server, of directives that every release from 6.0 on knows; loaded by a real 7.0.15.
//!
//! The server reads them where the node agent writes them. The password stands in [`AUTH_FILE`] alone, which is in a Secret.

use std::{collections::BTreeMap, fmt::Display, net::IpAddr};

use tf_agent_api::{
    launch::{Drain, Identity, Launch, Level, OnChange, Place, Probe, Tell, Unusable, When, port},
    node::{self, KEYSTORE_PEM, RUN_DIR, TRUSTSTORE_PEM},
    redis::{DIRECTORY, PASSWORD_FILE, PEER, PEER_PASSWORD_FILE, Replication},
};
use tf_api::common::LogLevel;
use tf_config_files::{RedisConf, Separator, Settings as _, Unrepresentable};
use tf_plan::component::Agents;

use crate::{password::Password, plan::CONTAINER, ports::Ports};

/// The configuration.
pub const CONFIG_FILE: &str = "redis.conf";
/// The part of it that is secret.
pub const AUTH_FILE: &str = "redis-auth.conf";

/// Databases 0 to 3 are for queries, state and sessions, 7 and up for alarm generators, each with one of its own (docs/upstream/redis.md#databases).
/// Redis's own number, 16, would do for nine of them.
const DATABASES: u32 = 64;

/// Seconds without a word from a copy after which it does not count for a server that takes writes. A server that is cut off is to stop
/// before another one takes its place, which is 5 s later at the earliest (`sentinel::DOWN_AFTER`); copies send word once a second.
pub const LONGEST_LAG: u32 = 3;
/// Seconds until a server that is about to be stopped goes on to take writes, because no other one will.
const STEP_DOWN_SECONDS: u32 = 25;

/// [`CONFIG_FILE`] of the member with this address. `replication`: the members, where they copy one of them.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn config_file(
    address: IpAddr,
    ports: Ports,
    level: LogLevel,
    replication: Option<&Replication>,
) -> Result<String, Unrepresentable> {
    let mut file = RedisConf::new(CONFIG_FILE);
    tls(&mut file, address, ports.redis);
    file.set("include", format!("{RUN_DIR}/{AUTH_FILE}"))
        .set("databases", DATABASES)
        // What is kept here is a copy, and a stale one is worse than none: nothing is written to a disk (ADR 0029).
        .set("save", "")
        .set("dbfilename", "")
        .set("appendonly", "no")
        // As Tungsten Fabric's own containers have it (docs/upstream/redis.md#settings).
        .set("lua-time-limit", 15_000)
        .set("daemonize", "no")
        // To the console.
        .set("logfile", "")
        .set("loglevel", log_level(level));
    if let Some(replication) = replication {
        file.set("tls-replication", "yes")
            .set("replica-announce-ip", address)
            .set("replica-announce-port", ports.redis)
            // From memory to memory, since there is no file; the old data counts until the new is complete.
            .set("repl-diskless-sync", "yes")
            .set("repl-diskless-sync-delay", 0)
            .set("repl-diskless-load", "swapdb")
            // With this server more than half of the members: one that is on the smaller side takes no writes.
            .set("min-replicas-to-write", replication.majority() - 1)
            .set("min-replicas-max-lag", LONGEST_LAG);
    }
    file.render()
}

/// What server and Sentinel say alike of the port that they serve.
pub fn tls(file: &mut RedisConf, address: IpAddr, port: impl Display) {
    file.set("bind", address)
        // Nobody is served without TLS.
        .set("port", 0)
        .set("tls-port", port)
        // One file for both, so that key and certificate are always of one pair.
        .set("tls-cert-file", KEYSTORE_PEM)
        .set("tls-key-file", KEYSTORE_PEM)
        .set("tls-ca-cert-file", TRUSTSTORE_PEM)
        // Clients need the password. A certificate they need not have, but it has to be good if they show one.
        .set("tls-auth-clients", "optional")
        // Some clients of Tungsten Fabric speak nothing newer than 1.2 (docs/upstream/daemons.md#tls-versions).
        .list("tls-protocols", Separator::Blank, ["TLSv1.2", "TLSv1.3"]);
}

/// [`AUTH_FILE`], the same for all members. `peers`: the password by which they speak with each other, where they do.
///
/// # Errors
/// When a password cannot be expressed in the file.
pub fn auth_file(password: &Password, peers: Option<&Password>) -> Result<String, Unrepresentable> {
    let mut file = RedisConf::new(AUTH_FILE);
    file.set_credential("requirepass", password.expose());
    if let Some(peers) = peers {
        // Another one than the clients', which is changed one member after the other.
        file.set("masteruser", PEER).set_credential("masterauth", peers.expose());
        peer(&mut file, peers);
    }
    file.render()
}

/// The user as whom members speak with each other.
pub fn peer(file: &mut RedisConf, password: &Password) {
    file.line("user", [PEER, "on", &format!(">{}", password.expose()), "~*", "&*", "+@all"]);
}

/// Redis has four levels. `notice`, its own default, is what other daemons call information.
pub fn log_level(level: LogLevel) -> &'static str {
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
pub fn launch_file(
    ports: Ports,
    agents: &Agents,
    level: LogLevel,
    replication: Option<&Replication>,
) -> Result<String, Unusable> {
    let mut launch = Launch {
        files: BTreeMap::from([
            (CONFIG_FILE.into(), OnChange::Restart),
            (AUTH_FILE.into(), OnChange::Restart),
            // For the agent.
            (PASSWORD_FILE.into(), OnChange::Nothing),
        ]),
        ready: Probe::Redis { port: port("ready.port", ports.redis)?, replication: replication.cloned() },
        level: Some(Level {
            value: log_level(level).to_owned(),
            lines: ["loglevel ".to_owned()].into(),
            tell: Tell::Redis,
        }),
        agent: agents.api()?,
        identity: Some(Identity { reload: Some(node::reload(CONTAINER)), ..agents.certificate() }),
        ..Launch::new(vec!["redis-server".into(), format!("{RUN_DIR}/{CONFIG_FILE}")])
    };
    if replication.is_some() {
        launch.files.insert(PEER_PASSWORD_FILE.into(), OnChange::Nothing);
        // Sentinels have it write its configuration anew.
        let to = format!("{DIRECTORY}/{CONFIG_FILE}");
        launch.argv = node::copy(CONTAINER, &to);
        launch.place = vec![Place { file: CONFIG_FILE.into(), to, when: When::Always, private: true }];
        launch.drain = Some(Drain { argv: node::step_down(CONTAINER), seconds: STEP_DOWN_SECONDS });
    }
    launch.render()
}
