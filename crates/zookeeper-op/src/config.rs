//! Files of a ZooKeeper server.
//!
//! The static file has nothing about other members; those are listed in the dynamic file, which ZooKeeper
//! itself rewrites at a reconfiguration (docs/upstream/zookeeper.md#reconfiguration). The node agent copies both to the data directory before each
//! start, since a server that is told to go on from an old list may find none of its peers (pravega #94).

use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use sha1::{Digest as _, Sha1};
use tf_agent_api::{
    launch::{HostFiles, Identity, Launch, OnChange, Place, Probe, Signal, Stop, Unusable, When, port},
    node::{KEYSTORE_PEM, RUN_DIR, TRUSTSTORE_PEM},
    zookeeper::{SUPER_FILE, Server},
};
use tf_api::{
    ZookeeperConfiguration,
    common::LogLevel,
    kinds::{ClientAuthentication, PlainClients, QuorumTlsMode},
    schema::Port,
};
use tf_config_files::{Properties, Settings as _, Unrepresentable};
use tf_plan::component::Agents;

/// The user that may change the list of members.
const SUPER: &str = "super";
/// Directory of snapshots, logs, `myid` and the files that ZooKeeper rewrites.
pub const DATA_DIR: &str = "/var/lib/zookeeper";
/// The static configuration.
pub const STATIC_FILE: &str = "zoo.cfg";
/// The list of members.
pub const DYNAMIC_FILE: &str = "zoo.cfg.dynamic";
/// The identity of one member.
pub const ID_FILE: &str = "myid";
/// Logging of servers up to 3.7.
pub const LOG_FILE: &str = "log4j.properties";
/// Logging of later ones. Their script looks for it in the same folder, and without it they log everything, since the folder
/// takes the place of their image's (`zkEnv.sh`).
pub const LOGBACK_FILE: &str = "logback.xml";
/// Content of [`LOGBACK_FILE`].
const LOGBACK: &str = include_str!("config/logback.xml");
/// The level in it.
const ROOT: &str = "  <root level=\"INFO\">\n";
/// Classes that log at `DEBUG` what clients log in with (`ZooKeeperServer.checkACL`, up to 3.5 in `PrepRequestProcessor`), the operator's own
/// digest among it.
const INDISCREET: [&str; 2] =
    ["org.apache.zookeeper.server.PrepRequestProcessor", "org.apache.zookeeper.server.ZooKeeperServer"];

/// Seconds that a server has to end what it is doing; it takes less than one (docs/upstream/zookeeper.md#restarts).
const STOP_SECONDS: u32 = 60;
/// Four-letter words that probes and people need. None of them changes anything.
const FOUR_LETTER_WORDS: &str = "conf,isro,mntr,ruok,srvr,stat";

/// `zoo.cfg`.
///
/// The AdminServer asks for no password and tells everything about the server, so it is for the node alone. The port for clients
/// that speak TLS is on the member's address, as the plain one is by the list of members.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn static_file(
    spec: &ZookeeperConfiguration,
    address: &str,
    quorum_tls: QuorumTlsMode,
    super_password: &str,
) -> Result<String, Unrepresentable> {
    let mut file = Properties::zookeeper(STATIC_FILE);
    file.set("dataDir", DATA_DIR)
        .set("dynamicConfigFile", format!("{DATA_DIR}/{DYNAMIC_FILE}"))
        // An ensemble of one runs the quorum protocol too, so that it can grow.
        .set("standaloneEnabled", false)
        .set("reconfigEnabled", true)
        .set("tickTime", spec.tick_time.unwrap_or(2000))
        .set("initLimit", spec.init_limit.unwrap_or(5))
        .set("syncLimit", spec.sync_limit.unwrap_or(2))
        .set("maxClientCnxns", spec.max_client_cnxns.unwrap_or(60))
        // Clients of Tungsten Fabric ask for up to 400 s, and the next one is elected when the session of a lost one has ended (ADR 0067).
        .set("maxSessionTimeout", spec.session_timeout())
        // Without it snapshots and logs are never removed.
        .set("autopurge.snapRetainCount", spec.snap_retain_count.unwrap_or(3))
        .set("autopurge.purgeInterval", spec.purge_interval.unwrap_or(1))
        .set("4lw.commands.whitelist", FOUR_LETTER_WORDS)
        // Who may change the list of members. What the server does not know it takes for a Java property `zookeeper.<key>`.
        .set("DigestAuthenticationProvider.superDigest", super_digest(super_password))
        .set("admin.enableServer", spec.admin_enabled)
        .set("admin.serverAddress", loopback(address))
        .set("admin.serverPort", spec.admin_port);
    if let Some(timeout) = spec.min_session_timeout {
        file.set("minSessionTimeout", timeout);
    }
    if quorum_tls != QuorumTlsMode::Plain {
        file.set("sslQuorum", quorum_tls >= QuorumTlsMode::Preferred)
            .set("portUnification", quorum_tls <= QuorumTlsMode::Preferred)
            .set("sslQuorumReloadCertFiles", true)
            // In this mode, the default from 3.9 on, the server leaves out all verification of addresses without a word.
            .set("fips-mode", false)
            .set("ssl.quorum.hostnameVerification", true)
            // A node with several addresses may begin connections from another one than its members' certificate is for.
            .set("ssl.quorum.clientHostnameVerification", false);
        stores(&mut file, "ssl.quorum");
    }
    if let Some((tls, port)) = spec.tls.as_ref().and_then(|tls| Some((tls, tls.client_port?))) {
        let authentication = match tls.client_authentication {
            ClientAuthentication::None => "none",
            ClientAuthentication::Request => "want",
            ClientAuthentication::Require => "need",
        };
        file.set("secureClientPort", port)
            .set("secureClientPortAddress", address)
            // The default one speaks no TLS.
            .set("serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory")
            // Who shows a certificate is known by its subject: the server adds the provider `x509` by itself.
            .set("ssl.clientAuth", authentication)
            .set("client.certReload", true);
        stores(&mut file, "ssl");
    }
    if let Some(port) = spec.metrics_port {
        file.set("metricsProvider.className", "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider")
            // Servers before 3.8 do not know it and listen on every address of the node.
            .set("metricsProvider.httpHost", address)
            .set("metricsProvider.httpPort", port)
            .set("metricsProvider.exportJvmInfo", true);
    }
    file.render()
}

/// The address of the node that nobody else reaches, in the family of the member's.
fn loopback(address: &str) -> &'static str {
    if address.contains(':') { "::1" } else { "127.0.0.1" }
}

/// What a server shows, and what it trusts.
fn stores(file: &mut Properties, prefix: &str) {
    for (store, path) in [("keyStore", KEYSTORE_PEM), ("trustStore", TRUSTSTORE_PEM)] {
        file.set(&format!("{prefix}.{store}.location"), path).set(&format!("{prefix}.{store}.type"), "PEM");
    }
}

/// How the server knows the password of its `super` user (`DigestAuthenticationProvider.generateDigest`).
fn super_digest(password: &str) -> String {
    let login = format!("{SUPER}:{password}");
    format!("{SUPER}:{}", BASE64_STANDARD.encode(Sha1::digest(login)))
}

/// The port of the members' agents: the spec's, or the first after that for clients which is free.
pub fn agent_port(spec: &ZookeeperConfiguration) -> Port {
    let used = [spec.client_port, spec.election_port, spec.server_port, spec.admin_port];
    let candidates = (1..=u16::MAX).cycle().skip(usize::from(spec.client_port.get()) + 1).map(Port);
    let mut free = candidates.filter(|port| !used.contains(port) && spec.metrics_port != Some(*port));
    spec.agent_port.or_else(|| free.next()).unwrap_or(spec.client_port)
}

/// From where clients that speak no TLS may connect. Where there is no port for others, it is from everywhere.
pub fn plain_clients(spec: &ZookeeperConfiguration) -> PlainClients {
    let tls = spec.tls.as_ref().filter(|tls| tls.client_port.is_some());
    tls.map(|tls| tls.plain_clients).unwrap_or_default()
}

/// A server at an address, as the list of members has it.
pub fn server(spec: &ZookeeperConfiguration, address: &str) -> Server {
    Server {
        address: address.to_owned(),
        quorum_port: spec.election_port.get(),
        election_port: spec.server_port.get(),
        votes: true,
        client_address: match plain_clients(spec) {
            PlainClients::Everywhere => address.to_owned(),
            PlainClients::Node => loopback(address).to_owned(),
        },
        client_port: spec.client_port.get(),
    }
}

/// How the agent runs the server: by the script of ZooKeeper's own distribution, which every image has on its `PATH`
/// (docs/upstream/images.md#programs). `ensemble` is the uid of the resource.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn launch_file(
    spec: &ZookeeperConfiguration,
    ensemble: &str,
    agents: &Agents,
    host_files: Option<HostFiles>,
) -> Result<String, Unusable> {
    let in_data =
        |file: &str, when| Place { file: file.into(), to: format!("{DATA_DIR}/{file}"), when, private: false };
    // A server that starts with an older list than it had may form a quorum of its own.
    let newest =
        When::NewestList { id: ID_FILE.into(), config: STATIC_FILE.into(), ensemble: Some(ensemble.to_owned()) };
    Launch {
        working_directory: Some(DATA_DIR.into()),
        // Where the script looks for the configuration of its logging.
        environment: BTreeMap::from([("ZOOCFGDIR".into(), RUN_DIR.into())]),
        files: BTreeMap::from([
            (STATIC_FILE.into(), OnChange::Restart),
            (ID_FILE.into(), OnChange::Restart),
            // Logback reads its file again by itself; servers before 3.8 have Log4j and take another level when they start. A restart for it would end with
            // an election, during which the config API answers 503.
            (LOG_FILE.into(), OnChange::Nothing),
            (LOGBACK_FILE.into(), OnChange::Nothing),
            // The ensemble tells its servers of a change itself; a start goes by the file.
            (DYNAMIC_FILE.into(), OnChange::Nothing),
            // For the agent.
            (SUPER_FILE.into(), OnChange::Nothing),
        ]),
        place: vec![in_data(STATIC_FILE, When::Always), in_data(ID_FILE, When::Always), in_data(DYNAMIC_FILE, newest)],
        stop: Stop { signal: Signal::Term, seconds: STOP_SECONDS },
        ready: Probe::ZooKeeper { port: port("ready.port", spec.client_port)?, host: None, tls: false },
        agent: agents.api()?,
        // Clients and servers without TLS do not need one. It watches the files.
        identity: Some(Identity { required: false, host_files, ..agents.certificate() }),
        ..Launch::new(vec!["zkServer.sh".into(), "start-foreground".into(), format!("{DATA_DIR}/{STATIC_FILE}")])
    }
    .render()
}

/// [`LOGBACK_FILE`] with this level.
pub fn logback_file(level: LogLevel) -> String {
    let root = match level {
        LogLevel::Info => "INFO",
        LogLevel::Debug => "DEBUG",
        LogLevel::Warning => "WARN",
        LogLevel::Error | LogLevel::Critical => "ERROR",
        LogLevel::None => "OFF",
    };
    let quieter = |class: &&str| format!("  <logger name=\"{class}\" level=\"INFO\"/>\n");
    let loggers: String = INDISCREET.iter().filter(|_| level == LogLevel::Debug).map(quieter).collect();
    LOGBACK.replace(ROOT, &format!("{loggers}  <root level=\"{root}\">\n"))
}

/// `log4j.properties`: to the console, where the node agent picks it up.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn log_file(level: LogLevel) -> Result<String, Unrepresentable> {
    let root = match level {
        LogLevel::Info => "INFO",
        LogLevel::Debug => "DEBUG",
        LogLevel::Warning => "WARN",
        LogLevel::Error => "ERROR",
        LogLevel::Critical => "FATAL",
        LogLevel::None => "OFF",
    };
    let mut file = Properties::java(LOG_FILE);
    for class in INDISCREET.iter().filter(|_| level == LogLevel::Debug) {
        file.set(&format!("log4j.logger.{class}"), "INFO");
    }
    file.set("log4j.rootLogger", format!("{root}, CONSOLE"))
        .set("log4j.appender.CONSOLE", "org.apache.log4j.ConsoleAppender")
        .set("log4j.appender.CONSOLE.layout", "org.apache.log4j.PatternLayout")
        .set(
            "log4j.appender.CONSOLE.layout.ConversionPattern",
            "%d{ISO8601} [myid:%X{myid}] - %-5p [%t:%C{1}@%L] - %m%n",
        );
    file.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_of_later_servers_is_in_one_line_and_nothing_else_in_the_file_varies() {
        assert_eq!(logback_file(LogLevel::Info), LOGBACK);
        let (usual, quiet) = (LOGBACK.lines(), logback_file(LogLevel::None));
        let others: Vec<_> = usual.zip(quiet.lines()).filter(|(usual, other)| usual != other).collect();
        assert_eq!(others, [("  <root level=\"INFO\">", "  <root level=\"OFF\">")]);
    }

    #[test]
    fn what_clients_log_in_with_is_logged_at_no_level() {
        let (later, earlier) = (logback_file(LogLevel::Debug), log_file(LogLevel::Debug).unwrap());
        assert!(later.contains("<root level=\"DEBUG\">") && earlier.contains("log4j.rootLogger=DEBUG, CONSOLE"));
        for class in INDISCREET {
            assert!(later.contains(&format!("<logger name=\"{class}\" level=\"INFO\"/>")), "{later}");
            assert!(earlier.contains(&format!("log4j.logger.{class}=INFO\n")), "{earlier}");
        }
        for quieter in [LogLevel::Info, LogLevel::None] {
            assert!(!logback_file(quieter).contains("<logger") && !log_file(quieter).unwrap().contains("log4j.logger"));
        }
    }
}
