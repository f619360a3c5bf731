//! Files of a Cassandra server, 3.11 to 5.0, and where the node agent puts them ([`launch_file`]).
//!
//! | File | Where | For |
//! | --- | --- | --- |
//! | [`YAML_FILE`], or [`JOINING_FILE`] in its place | [`CONF_DIR`], as `cassandra.yaml` | the server, and node managers, which look for the data directories there |
//! | [`LOG_FILE`] | [`CONF_DIR`] | the server |
//! | [`CQLSH_FILE`] | `.cassandra` in [`CONF_DIR`], the home of every process in the container | people and node managers |
//! | `cassandra.env` ([`jvm`]) | the server's environment | the server |
//! | `member`, `other-members` | nowhere: they are read by the agent, which puts aside what a former member left | the agent |
//! | [`PRIVATE_FILE`] or [`JOINING_PRIVATE_FILE`], over both | the same | a server that clients log in to and that was not told with what |
//! | `login.env` | nowhere: it is read by the agent, which tells the server what clients log in with | the agent |
//! | `stores.env` | nowhere: it is read by the agent, which makes the stores | the agent |
//! | `cassandra.launch` | nowhere | the agent |
//!
//! JMX listens on the loopback address and asks for no password: node managers run `nodetool` without one
//! (`cassandra_manager.py`), and a password on its command line would be open to everybody on the node.

pub mod jvm;
pub mod yaml;

use std::collections::BTreeMap;

use tf_agent_api::{
    cassandra::{self, LOGIN_FILE, PASSWORD, SERVED_FILE, USER},
    launch::{Drain, Identity, Launch, Level, OnChange, Place, Probe, Signal, Stop, Tell, Unusable, When, port},
    node,
};
use tf_api::{CassandraConfiguration, common::LogLevel};
use tf_config_files::{EnvFile, Ini, Settings as _, Unrepresentable};
use tf_plan::component::Agents;

pub use jvm::thrift;
pub use yaml::{ClientListener, Ring};

use crate::login;

/// Configuration directory of the images.
pub const CONF_DIR: &str = "/etc/cassandra";
/// Everything a server stores.
pub const DATA_DIR: &str = "/var/lib/cassandra";
/// Log of the server and of its garbage collector.
pub const LOG_DIR: &str = "/var/log/cassandra";
/// The server's configuration.
pub const YAML_FILE: &str = "cassandra.yaml";
/// The configuration of a member whose disk is new, see [`crate::seeds`].
pub const JOINING_FILE: &str = "cassandra-joining.yaml";
/// The configuration of a server that nobody but its agent is to reach.
pub const PRIVATE_FILE: &str = "cassandra-private.yaml";
/// The same of a member whose disk is new.
pub const JOINING_PRIVATE_FILE: &str = "cassandra-joining-private.yaml";
/// Logging: console and one file, at the level of the property `tf.log.level`.
pub const LOG_FILE: &str = "logback.xml";
/// Content of [`LOG_FILE`].
const LOGBACK: &str = include_str!("logback.xml");
/// Beginning of its line with the level of all that is not said otherwise.
const ROOT: &str = "  <root level=\"";
/// Settings of `cqlsh`.
pub const CQLSH_FILE: &str = "cqlshrc";
/// Where `cqlsh` looks for them, and keeps what was typed.
pub const CQLSH_DIR: &str = "/etc/cassandra/.cassandra";

/// Seconds until a server that is to be stopped has written what is only in memory. It is stopped then.
pub const DRAIN_SECONDS: u32 = 900;
/// Seconds that a server has to end. One that was not drained writes what is only in memory, too.
pub const STOP_SECONDS: u32 = 900;

/// How the agent runs the server. `initialized`: the ring was brought up, so there is a [`JOINING_FILE`] for members that are new. `login`: how
/// clients log in, if they are given anything.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn launch_file(
    spec: &CassandraConfiguration,
    agents: &Agents,
    level: LogLevel,
    initialized: bool,
    login: Option<cassandra::Login>,
) -> Result<String, Unusable> {
    let level = log_level(level);
    let place = |file: &str, to: &str, when| Place { file: file.into(), to: to.into(), when, private: false };
    let in_conf = |file: &str| format!("{CONF_DIR}/{file}");
    let nodetool = |command: &[&str]| -> Vec<String> {
        let jmx = spec.jmx_local_port.to_string();
        ["nodetool", "-p", &jmx].iter().chain(command).map(|&word| word.to_owned()).collect()
    };
    let served = || format!("{DATA_DIR}/{SERVED_FILE}");
    let yaml = |file, when| place(file, &in_conf(YAML_FILE), when);
    let asked = login.is_some_and(|login| login.asked);
    let copies = [
        Some(yaml(YAML_FILE, When::Always)),
        initialized.then(|| yaml(JOINING_FILE, When::New { served: served() })),
        asked.then(|| yaml(PRIVATE_FILE, When::Private { served: None })),
        (asked && initialized).then(|| yaml(JOINING_PRIVATE_FILE, When::Private { served: Some(served()) })),
    ];
    let others = [
        place(LOG_FILE, &in_conf(LOG_FILE), When::Always),
        Place { private: login.is_some(), ..place(CQLSH_FILE, &format!("{CQLSH_DIR}/{CQLSH_FILE}"), When::Always) },
    ];
    let login_file = login.map(|_| (LOGIN_FILE.into(), OnChange::Nothing));
    Launch {
        // Java leaves here what it knew when it crashed.
        working_directory: Some(LOG_DIR.into()),
        files: BTreeMap::from([
            (YAML_FILE.into(), OnChange::Restart),
            (LOG_FILE.into(), OnChange::Restart),
            (CQLSH_FILE.into(), OnChange::Nothing),
            // For the agent; the server has the passwords in its configuration.
            (node::STORES_FILE.into(), OnChange::Nothing),
            (node::MEMBER_FILE.into(), OnChange::Nothing),
            (node::OTHER_MEMBERS_FILE.into(), OnChange::Nothing),
        ])
        .into_iter()
        .chain(login_file)
        .collect(),
        place: copies.into_iter().flatten().chain(others).collect(),
        stop: Stop { signal: Signal::Term, seconds: STOP_SECONDS },
        drain: Some(Drain { argv: nodetool(&["drain"]), seconds: DRAIN_SECONDS }),
        ready: Probe::Cassandra {
            port: port("ready.port", spec.cql_port)?,
            jmx: port("ready.jmx", spec.jmx_local_port)?,
            data: DATA_DIR.into(),
            login,
        },
        level: Some(Level {
            value: level.to_owned(),
            lines: [ROOT.to_owned()].into(),
            tell: Tell::Command { argv: nodetool(&["setlogginglevel", "ROOT", level]) },
        }),
        only_at_start: [yaml::SEEDS.to_owned()].into(),
        agent: agents.api()?,
        // By itself it looks every ten minutes. 3.11 knows no such command, and never looks.
        identity: Some(Identity { reload: Some(nodetool(&["reloadssl"])), at_start: true, ..agents.certificate() }),
        ..Launch::new(vec!["cassandra".into(), "-f".into()])
    }
    .render()
}

/// [`LOG_FILE`] with this level.
pub fn log_file(level: LogLevel) -> String {
    LOGBACK.replacen(&format!("{ROOT}INFO"), &format!("{ROOT}{}", log_level(level)), 1)
}

fn log_level(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Info => "INFO",
        LogLevel::Debug => "DEBUG",
        LogLevel::Warning => "WARN",
        LogLevel::Error | LogLevel::Critical => "ERROR",
        LogLevel::None => "OFF",
    }
}

/// `cqlshrc`: how to reach the member's own server. `password`: what clients log in with, if they are given anything.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn cqlshrc(
    spec: &CassandraConfiguration,
    address: &str,
    password: Option<&str>,
) -> Result<String, Unrepresentable> {
    let mut file = Ini::python(CQLSH_FILE);
    file.section("connection").set("hostname", address).set("port", spec.cql_port).set("ssl", true);
    // SSLv23 is Python's name for the highest version both sides know; the default of cqlsh 3.11 is TLS 1.0.
    file.section("ssl").set("certfile", node::CA_BUNDLE).set("validate", true).set("version", "SSLv23");
    if let Some(password) = password {
        file.section("authentication").set("username", login::USER).set("password", password);
    }
    file.render()
}

/// `login.env`: what clients and the agent log in with.
///
/// # Errors
/// When the password cannot be expressed in the file.
pub fn login_file(password: &str) -> Result<String, Unrepresentable> {
    let mut file = EnvFile::new(LOGIN_FILE);
    file.set(USER, login::USER).set(PASSWORD, password);
    file.render()
}

/// `stores.env`: with what the agent protects the stores that the server opens.
///
/// # Errors
/// When a password cannot be expressed in the file.
pub fn stores(ring: &Ring<'_>) -> Result<String, Unrepresentable> {
    let mut file = EnvFile::new(node::STORES_FILE);
    file.set("KEYSTORE_PASSWORD", ring.keystore_password).set("TRUSTSTORE_PASSWORD", ring.truststore_password);
    file.render()
}

/// Environment of the node manager: the members by address, among which it finds its own turn to repair the ring.
///
/// # Errors
/// When an address cannot be expressed in the file.
pub fn nodes(daemon: &str, variable: &str, addresses: &[String]) -> Result<String, Unrepresentable> {
    let mut file = EnvFile::new(node::environment_file(daemon));
    file.set(variable, addresses.join(","));
    file.render()
}

#[cfg(test)]
mod tests {
    use tf_config_files::{env, read};

    use super::*;

    #[test]
    fn cqlsh_reaches_the_own_server_over_tls() {
        let spec = CassandraConfiguration::default();
        let read = read::python(&cqlshrc(&spec, "fd00::1", None).unwrap()).unwrap();
        assert!(!read.contains_key("authentication"));
        assert_eq!(read["connection"]["hostname"], "fd00::1");
        assert_eq!(read["connection"]["port"], "9041");
        assert_eq!(read["connection"]["ssl"], "true");
        assert_eq!(read["ssl"]["certfile"], "/etc/ssl/certs/kubernetes/ca-bundle.crt");
    }

    #[test]
    fn cqlsh_and_the_agent_log_in_where_clients_do() {
        let spec = CassandraConfiguration::default();
        let read = read::python(&cqlshrc(&spec, "10.0.0.1", Some("secret")).unwrap()).unwrap();
        assert_eq!(read["authentication"]["username"], "tf");
        assert_eq!(read["authentication"]["password"], "secret");
        let read = env::parse(&login_file("secret").unwrap()).unwrap();
        assert_eq!((read["USER"].as_str(), read["PASSWORD"].as_str()), ("tf", "secret"));
    }

    #[test]
    fn the_agent_reads_the_passwords_as_they_are() {
        let spec = CassandraConfiguration::default();
        let (keystore_password, truststore_password) = ("it's \"$HOME\" 100%", "ü#;=");
        let ring = Ring { cluster_name: "c", spec: &spec, keystore_password, truststore_password, asks: false };
        let read = env::parse(&stores(&ring).unwrap()).unwrap();
        assert_eq!(read["KEYSTORE_PASSWORD"], keystore_password);
        assert_eq!(read["TRUSTSTORE_PASSWORD"], truststore_password);
    }

    #[test]
    fn the_level_of_the_log_is_in_one_line_and_nothing_else_in_the_file_varies() {
        assert_eq!(log_file(LogLevel::Info), LOGBACK);
        let (usual, debug) = (LOGBACK.lines(), log_file(LogLevel::Debug));
        let others: Vec<_> = usual.zip(debug.lines()).filter(|(usual, other)| usual != other).collect();
        assert_eq!(others, [("  <root level=\"INFO\">", "  <root level=\"DEBUG\">")]);
    }
}
