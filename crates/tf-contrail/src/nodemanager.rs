//! The node manager that may stand beside the daemons of a component (docs/upstream/config.md#node-manager).
//!
//! It reports the state of the node and of the component's containers to the collectors, and repairs a Cassandra every day.
//! A cluster works without it, and it needs every privilege, so it runs only where the spec lists it.

use k8s_openapi::api::core::v1::Volume;
use tf_agent_api::launch::Launch;
use tf_api::{common::LogLevel, contract::MemberStatus, ports, schema::Port};
use tf_config_files::{Ini, Separator::Blank, Settings as _, Unrepresentable};
use tf_plan::{
    build::{
        configuration::Files,
        pod::{DaemonContainer, Privileges, mount},
        storage::host_path,
    },
    connection::Connection,
    images::Builtin,
    member_set::sys_log_level,
};

use crate::{
    daemon::{self, Daemon, LOG_DIR, LOGS},
    sandesh,
    services::COLLECTOR,
};

/// The container, for the list of what a component can run.
pub const CONTAINER: Builtin = Builtin { name: "nodemanager", image: "nodemgr", default: false };

/// What the daemon watches besides the node itself: the part after `contrail-` in its `--nodetype`, and the value of
/// `NODE_TYPE` by which it and `contrail-status` recognise containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum NodeType {
    /// The daemons of Config.
    Config,
    /// The Cassandra of the configuration.
    ConfigDatabase,
    /// The daemons of Control.
    Control,
    /// The vRouter agent.
    Vrouter,
    /// The Cassandra of analytics.
    Database,
    /// Collector and analytics API.
    Analytics,
    /// Alarm generator and Kafka.
    AnalyticsAlarm,
    /// SNMP collector and topology.
    AnalyticsSnmp,
}

impl NodeType {
    /// The type as the daemon writes it.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Name of the configuration file, which the daemon looks for in [`tf_agent_api::node::RUN_DIR`].
    pub fn file(self) -> String {
        format!("contrail-{}-nodemgr.conf", self.name())
    }

    /// The introspect port, which cannot be moved.
    pub const fn port(self) -> Port {
        match self {
            Self::Config => ports::NODEMGR_CONFIG,
            Self::ConfigDatabase => ports::NODEMGR_CONFIG_DATABASE,
            Self::Control => ports::NODEMGR_CONTROL,
            Self::Vrouter => ports::NODEMGR_VROUTER,
            Self::Database => ports::NODEMGR_DATABASE,
            Self::Analytics => ports::NODEMGR_ANALYTICS,
            Self::AnalyticsAlarm => ports::NODEMGR_ANALYTICS_ALARM,
            Self::AnalyticsSnmp => ports::NODEMGR_ANALYTICS_SNMP,
        }
    }
}

/// The Cassandra that the node manager of a database watches and repairs.
#[derive(Clone, Copy, Debug)]
pub struct Database {
    /// Port for CQL clients, over TLS.
    pub cql_port: Port,
    /// Port of JMX on the loopback address.
    pub jmx_port: Port,
    /// Size of the data's file system in GB below which an alarm is raised.
    pub minimum_disk_gb: u32,
}

/// What is the same for the node managers of a component.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// What it watches.
    pub node_type: NodeType,
    /// Level of its log.
    pub log_level: LogLevel,
    /// Where it reports to; without, it works for the node alone.
    pub collectors: Option<&'a Connection>,
    /// The Cassandra, for the two types that have one.
    pub database: Option<Database>,
}

/// The configuration of the node manager on one node. `hostname` is the node's name in the config API.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn file(settings: &Settings<'_>, hostname: &str, address: &str) -> Result<String, Unrepresentable> {
    let Settings { node_type, log_level, collectors, database } = settings;
    let mut file = Ini::python(node_type.file());
    let defaults = file.section("DEFAULTS");
    defaults
        // Introspection knows IPv4 only, and listens everywhere as that of the other daemons does.
        .set("http_server_ip", "0.0.0.0")
        .set("hostip", address)
        .set("hostname", hostname)
        .set("log_file", format!("{LOG_DIR}/contrail-{}-nodemgr.log", node_type.name()))
        .set("log_level", sys_log_level(*log_level))
        .set("log_local", 1)
        .set("corefile_path", CRASH_DIR);
    if let Some(database) = database {
        defaults
            .set("db_port", database.cql_port)
            .set("db_jmx_port", database.jmx_port)
            .set("db_use_ssl", true)
            // Its own default of 256 GB keeps every smaller node from being functional.
            .set("minimum_diskGB", database.minimum_disk_gb)
            .set("cassandra_repair_interval", 24)
            .set("cassandra_repair_logdir", format!("{LOG_DIR}/"));
    }
    let servers = collectors.map(|connection| connection.authorities(COLLECTOR)).unwrap_or_default();
    file.section("COLLECTOR").list_unless_empty("server_list", Blank, servers);
    sandesh::fill(file.section(sandesh::SECTION), *collectors);
    file.render()
}

/// The node manager of a component that keeps no data, one of whose daemons it is.
///
/// # Errors
/// When a value cannot be expressed in its file.
pub fn daemon(
    node_type: NodeType,
    log_level: LogLevel,
    collectors: Option<&Connection>,
    members: &[MemberStatus],
    container: DaemonContainer,
) -> Result<Daemon, Unrepresentable> {
    let settings = Settings { node_type, log_level, collectors, database: None };
    let mut files = Files::default();
    for MemberStatus { node, address, .. } in members {
        files.member(&node_type.file(), address, file(&settings, node, address)?);
    }
    let container = self::container(container, node_type, LOGS);
    Ok(Daemon { volumes: volumes(), ..Daemon::new(container, launch(node_type, collectors), files) })
}

/// How the node agent runs it. No probe asks it anything.
pub fn launch(node_type: NodeType, collectors: Option<&Connection>) -> Launch {
    let argv = vec!["contrail-nodemgr".into(), format!("--nodetype=contrail-{}", node_type.name())];
    let external_tls = sandesh::external_tls(collectors).files().into_iter().collect();
    Launch { patience: None, ..daemon::launch(argv, [node_type.file()], external_tls) }
}

/// The container. `logs` is the volume of the component's logs.
///
/// Privileged because it asks the container runtime for the state of other containers and runs commands in them. It is not
/// probed: a node whose clock is not synchronised is not functional to it, and that must not take a healthy daemon beside
/// it out of service.
pub fn container(container: DaemonContainer, node_type: NodeType, logs: &str) -> DaemonContainer {
    DaemonContainer {
        ports: vec![("nodemgr", node_type.port())],
        env: vec![("NODE_TYPE".into(), node_type.name().into())],
        mounts: vec![mount(logs, LOG_DIR), mount(RUN, "/var/run"), mount(RUNC, "/run/runc"), mount(CRASHES, CRASH_DIR)],
        privileges: Privileges::Host,
        probed: false,
        ..container
    }
}

const RUN: &str = "var-run";
const RUNC: &str = "run-runc";
const CRASHES: &str = "var-crashes";
const CRASH_DIR: &str = "/var/crashes";

/// Volumes of the container besides the logs: the runtime's sockets and state, and core files.
pub fn volumes() -> Vec<Volume> {
    vec![host_path(RUN, "/var/run"), host_path(RUNC, "/run/runc"), host_path(CRASHES, CRASH_DIR)]
}

#[cfg(test)]
mod tests {
    use tf_api::contract::{Endpoint, Protocol};
    use tf_config_files::read;

    use super::*;

    fn collectors(nodes: &[&str], tls: bool) -> Connection {
        let endpoint = Endpoint {
            name: COLLECTOR.into(),
            protocol: Protocol::Tcp,
            port: 8086,
            tls,
            service: None,
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
        };
        Connection { endpoints: [(COLLECTOR.to_owned(), endpoint)].into(), ..Connection::default() }
    }

    fn settings(collectors: Option<&Connection>) -> Settings<'_> {
        Settings { node_type: NodeType::ConfigDatabase, log_level: LogLevel::Warning, collectors, database: None }
    }

    #[test]
    fn types_are_spelt_as_the_daemon_spells_them() {
        assert_eq!(NodeType::ConfigDatabase.file(), "contrail-config-database-nodemgr.conf");
        assert_eq!(NodeType::AnalyticsSnmp.name(), "analytics-snmp");
    }

    #[test]
    fn collectors_are_separated_by_blanks_and_decide_on_tls() {
        let connection = collectors(&["10.0.0.1", "fd00::2"], false);
        let read = read::python(&file(&settings(Some(&connection)), "cp1", "10.0.0.9").unwrap()).unwrap();
        assert_eq!(read["COLLECTOR"]["server_list"], "10.0.0.1:8086 [fd00::2]:8086");
        assert_eq!(read["SANDESH"]["sandesh_ssl_enable"], "false");
        assert_eq!(read["DEFAULTS"]["log_level"], "SYS_WARN");
        assert!(!read["DEFAULTS"].contains_key("db_port"));
    }

    #[test]
    fn without_collectors_there_is_no_list_and_not_an_empty_one() {
        let read = read::python(&file(&settings(None), "cp1", "10.0.0.9").unwrap()).unwrap();
        assert!(read["COLLECTOR"].is_empty());
        assert_eq!(read["SANDESH"]["sandesh_ssl_enable"], "true");
    }
}
