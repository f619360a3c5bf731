//! Files of a ZooKeeper server.
//!
//! The static file is the same for every member; members are listed in the dynamic file, which ZooKeeper
//! itself rewrites at a reconfiguration (stateful-services 2.1). The node agent copies both to the data directory.

use tf_api::{ZookeeperConfiguration, common::LogLevel, contract::MemberStatus};
use tf_plan::files::{Properties, Settings as _, Unrepresentable};

/// Directory of snapshots, logs, `myid` and the files that ZooKeeper rewrites.
pub const DATA_DIR: &str = "/var/lib/zookeeper";
/// The static configuration.
pub const STATIC_FILE: &str = "zoo.cfg";
/// The list of members.
pub const DYNAMIC_FILE: &str = "zoo.cfg.dynamic";
/// The identity of one member.
pub const ID_FILE: &str = "myid";
/// Logging of servers up to 3.7; later ones are configured by their image.
pub const LOG_FILE: &str = "log4j.properties";

/// Four-letter words that probes and people need. None of them changes anything.
const FOUR_LETTER_WORDS: &str = "conf,isro,mntr,ruok,srvr,stat";

/// `zoo.cfg`.
///
/// The AdminServer asks for no password and tells everything about the server, so it is for the node alone.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn static_file(spec: &ZookeeperConfiguration, members: &[MemberStatus]) -> Result<String, Unrepresentable> {
    let ipv6 = members.iter().all(|member| member.address.contains(':'));
    let mut file = Properties::zookeeper(STATIC_FILE);
    file.set("dataDir", DATA_DIR)
        .set("dynamicConfigFile", format!("{DATA_DIR}/{DYNAMIC_FILE}"))
        // An ensemble of one runs the quorum protocol too, so that it can grow.
        .set("standaloneEnabled", false)
        .set("reconfigEnabled", true)
        .set("tickTime", 2000)
        .set("initLimit", 5)
        .set("syncLimit", 2)
        .set("maxClientCnxns", 60)
        // Clients of Tungsten Fabric ask for 400 s; a longer session survives longer outages of the ensemble.
        .set("maxSessionTimeout", 120_000)
        // Without it snapshots and logs are never removed.
        .set("autopurge.snapRetainCount", 3)
        .set("autopurge.purgeInterval", 1)
        .set("4lw.commands.whitelist", FOUR_LETTER_WORDS)
        .set("admin.enableServer", spec.admin_enabled)
        .set("admin.serverAddress", if ipv6 { "::1" } else { "127.0.0.1" })
        .set("admin.serverPort", spec.admin_port);
    file.render()
}

/// `zoo.cfg.dynamic`: every member with equal rights.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn dynamic_file(spec: &ZookeeperConfiguration, members: &[MemberStatus]) -> Result<String, Unrepresentable> {
    let mut file = Properties::zookeeper(DYNAMIC_FILE);
    for member in members {
        let host = bracketed(&member.address);
        file.set(
            &format!("server.{}", member.id),
            format!("{host}:{}:{}:participant;{host}:{}", spec.election_port, spec.server_port, spec.client_port),
        );
    }
    file.render()
}

/// `log4j.properties`: to the console, where the node agent picks it up.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn log_file(level: LogLevel) -> Result<String, Unrepresentable> {
    let level = match level {
        LogLevel::Info => "INFO",
        LogLevel::Debug => "DEBUG",
        LogLevel::Warning => "WARN",
        LogLevel::Error => "ERROR",
        LogLevel::Critical => "FATAL",
        LogLevel::None => "OFF",
    };
    let mut file = Properties::java(LOG_FILE);
    file.set("log4j.rootLogger", format!("{level}, CONSOLE"))
        .set("log4j.appender.CONSOLE", "org.apache.log4j.ConsoleAppender")
        .set("log4j.appender.CONSOLE.layout", "org.apache.log4j.PatternLayout")
        .set(
            "log4j.appender.CONSOLE.layout.ConversionPattern",
            "%d{ISO8601} [myid:%X{myid}] - %-5p [%t:%C{1}@%L] - %m%n",
        );
    file.render()
}

/// An address as it stands before a port.
fn bracketed(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}
