//! Files of a RabbitMQ server, in the forms of 3.10; each is loaded by a real 3.10.8.
//!
//! The server reads them where the node agent writes them, but for [`COOKIE_FILE`], which is copied into [`DATA_DIR`]. What a
//! member only has to know before it joins, or when it starts, is in files of their own: another member restarts nobody.

use std::{collections::BTreeMap, net::IpAddr};

use tf_agent_api::{
    launch::{Drain, Launch, Level, OnChange, Place, Probe, Signal, Stop, Tell, Unusable, When, port},
    node::{KEYSTORE_PEM, MEMBER_FILE, OTHER_MEMBERS_FILE, RUN_DIR, TRUSTSTORE_PEM},
    rabbitmq::{FORMATION_FILE, FORMATION_NODES, PASSWORD_FILE},
};
use tf_api::{PartitionHandling, RabbitmqConfiguration, TcpListenOptions, common::LogLevel};
use tf_config_files::{EnvFile, Settings as _, Sysctl, Unrepresentable};
use tf_contrail::nodemanager::NodeType;
use tf_plan::component::Agents;

use crate::{definitions, distribution, nodes::Node, ports::Ports};

/// Directory of the database and, as the home of the server's user, of [`COOKIE_FILE`].
pub const DATA_DIR: &str = "/var/lib/rabbitmq";
/// Directory of the log.
pub const LOG_DIR: &str = "/var/log/rabbitmq";
/// The configuration.
pub const CONFIG_FILE: &str = "rabbitmq.conf";
/// [`FORMATION_FILE`] for releases from 4.0 on, with settings that former ones do not know.
pub const FORMATION_FILE_4: &str = "rabbitmq-formation-4.conf";
/// Where the one of the server's release is, and its definitions.
const PLACED_FORMATION: &str = "/var/lib/rabbitmq/formation.conf";
const PLACED_DEFINITIONS: &str = "/var/lib/rabbitmq/definitions.json";
/// First number of the releases that the others are for.
const FOUR: u32 = 4;
/// The environment: what has to be known before the configuration is read, by the server and by its command line tools.
pub const ENV_FILE: &str = "rabbitmq-env.conf";
/// Its variable with arguments for the server's Erlang.
pub const SERVER_ARGUMENTS: &str = "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS";
/// How Erlang looks up the names of members.
pub const INETRC_FILE: &str = "erl_inetrc";
/// Addresses of the members by name.
pub const HOSTS_FILE: &str = "erl_hosts";
/// Plugins to load.
pub const PLUGINS_FILE: &str = "enabled_plugins";
/// The secret the members recognise each other by, with mode 0600.
pub const COOKIE_FILE: &str = ".erlang.cookie";

/// Setting with the number of processes by which a server calls others.
pub const DELEGATE_COUNT: &str = "delegate_count";
/// Its value in Tungsten Fabric's own containers (docs/upstream/rabbitmq.md#settings).
pub const DELEGATES: u32 = 20;
/// The server's own, which it has where nothing is said, as with the Go tf-operator.
pub const SERVERS_DELEGATES: u32 = 16;

/// Seconds that a server has to end what it is doing.
const STOP_SECONDS: u32 = 120;
/// Until a server that has not come up is started anew: three times as long as it waits for others (ADR 0044).
const LONGEST_START: u32 = 900;
/// Until one that has served and does not any more is started anew: RabbitMQ's own `autoheal` takes some ten seconds (ADR 0044).
const LONGEST_RECOVERY: u32 = 300;
/// Seconds until a server that is to be stopped has moved its connections and leaders to others. It is stopped then.
const DRAIN_SECONDS: u32 = 60;
/// Erlang looks every second whether files with certificates are others, for what a server shows and for whom it trusts: by default
/// every two minutes. Without its cache (`bypass_pem_cache`) it would never trust another authority while a connection is open, since
/// only what is in the cache is looked at (`ssl_pem_cache:pem_cache_validate/2`, `ssl_pkix_db:add_trusted_certs/3`, ssl 10.8.7).
/// Distribution has a cache of its own, which goes by the same setting, since RabbitMQ loads the application before it starts distribution.
const FRESH_CERTIFICATES: &str = "-ssl ssl_pem_cache_clean 1000";

/// A cluster, for its files to be written.
pub struct Cluster<'a> {
    /// Name that tells the cluster from others.
    pub name: String,
    /// Uid of its resource.
    pub uid: &'a str,
    /// Settings of the spec.
    pub spec: &'a RabbitmqConfiguration,
    /// Log level.
    pub log_level: LogLevel,
    /// Memory limit of a member in bytes; none for all of its node.
    pub memory: Option<u64>,
    /// Ports.
    pub ports: Ports,
    /// Whether members speak TLS with each other.
    pub tls: bool,
    /// By how many processes each of them calls the others.
    pub delegates: u32,
    /// Members in the order they joined.
    pub nodes: &'a [Node],
}

impl Cluster<'_> {
    /// `rabbitmq.conf` of a member. Numbers without a comment are those of Tungsten Fabric's own containers
    /// (docs/upstream/rabbitmq.md#settings).
    ///
    /// # Errors
    /// When a value cannot be expressed in the file.
    pub fn config_file(&self, node: &Node) -> Result<String, Unrepresentable> {
        let mut file = Sysctl::new(CONFIG_FILE);
        file.set("cluster_name", &self.name);
        self.listeners(&mut file, node.address);
        file.set("loopback_users", "none")
            .set("heartbeat", 60)
            .set("channel_max", 5000)
            .set(DELEGATE_COUNT, self.delegates)
            .set("net_ticktime", 60)
            .set_if_some("total_memory_available_override_value", self.memory)
            .set("vm_memory_high_watermark.relative", 0.8)
            .set("disk_free_limit.absolute", "50MB")
            .set("load_definitions", PLACED_DEFINITIONS)
            .set("cluster_partition_handling", self.partition_handling());
        self.log(&mut file);
        file.render()
    }

    /// [`FORMATION_FILE`], the same for all members: one without data looks for the others here, one with data asks those it knows.
    ///
    /// # Errors
    /// When a value cannot be expressed in the file.
    pub fn formation_file(&self) -> Result<String, Unrepresentable> {
        let mut file = Sysctl::new(FORMATION_FILE);
        self.formation(&mut file);
        file.render()
    }

    /// [`FORMATION_FILE_4`]. These releases serve metrics without TLS, too, where nothing else is said, and from 4.3 on refuse the queues of
    /// Tungsten Fabric's clients: neither durable nor exclusive (docs/upstream/rabbitmq.md#releases).
    ///
    /// # Errors
    /// When a value cannot be expressed in the file.
    pub fn formation_file_4(&self) -> Result<String, Unrepresentable> {
        let mut file = Sysctl::new(FORMATION_FILE_4);
        self.formation(&mut file);
        file.set("prometheus.tcp.listener", "none").set("deprecated_features.permit.transient_nonexcl_queues", true);
        file.render()
    }

    fn formation(&self, file: &mut Sysctl) {
        file.set("cluster_formation.peer_discovery_backend", "classic_config");
        for (number, node) in (1..).zip(self.nodes) {
            file.set(&format!("{FORMATION_NODES}{number}"), node.name());
        }
    }

    fn listeners(&self, file: &mut Sysctl, address: IpAddr) {
        file.set("listeners.tcp", "none")
            // Without brackets even for IPv6: RabbitMQ splits at the last colon and does not start with brackets.
            .set("listeners.ssl.default", format!("{address}:{}", self.ports.amqp));
        tls(file, "ssl_options");
        // What all clients of Tungsten Fabric speak, and some of them nothing else (docs/upstream/files.md#rabbitmq).
        file.set("ssl_options.versions.1", "tlsv1.2")
            .set("ssl_options.honor_cipher_order", true)
            .set("ssl_options.honor_ecc_order", true)
            .set("ssl_options.client_renegotiation", false)
            .set("ssl_options.secure_renegotiate", true)
            .set("ssl_options.verify", "verify_peer")
            .set("ssl_options.fail_if_no_peer_cert", true);
        self.socket(file);
        for (plugin, port) in [("management", self.ports.management), ("prometheus", self.ports.prometheus)] {
            let prefix = format!("{plugin}.ssl");
            file.set(&format!("{prefix}.ip"), address).set(&format!("{prefix}.port"), port);
            tls(file, &prefix);
            // The first one is the node agent's.
            file.set(&format!("{prefix}.versions.1"), "tlsv1.3").set(&format!("{prefix}.versions.2"), "tlsv1.2");
        }
        file.set("distribution.listener.interface", address)
            .set("distribution.listener.port_range.min", self.ports.distribution)
            .set("distribution.listener.port_range.max", self.ports.distribution);
    }

    /// One of these settings replaces all of the server's own at once, so all are written, with the server's values where
    /// the spec has none. `keepalive` is Tungsten Fabric's.
    fn socket(&self, file: &mut Sysctl) {
        let TcpListenOptions { backlog, exit_on_close, linger_on, linger_timeout, nodelay } =
            self.spec.tcp_listen_options.clone().unwrap_or_default();
        file.set("tcp_listen_options.backlog", backlog.unwrap_or(128))
            .set("tcp_listen_options.nodelay", nodelay.unwrap_or(true))
            .set("tcp_listen_options.linger.on", linger_on.unwrap_or(true))
            .set("tcp_listen_options.linger.timeout", linger_timeout.unwrap_or(0))
            .set("tcp_listen_options.exit_on_close", exit_on_close.unwrap_or(false))
            .set("tcp_listen_options.keepalive", true);
    }

    fn partition_handling(&self) -> &'static str {
        match self.spec.cluster_partition_handling {
            PartitionHandling::Ignore => "ignore",
            PartitionHandling::Autoheal => "autoheal",
            PartitionHandling::PauseMinority => "pause_minority",
        }
    }

    /// To the console for people and to a file for what happened before the container was restarted. Without limits the
    /// file would fill the node.
    fn log(&self, file: &mut Sysctl) {
        let level = log_level(self.log_level);
        file.set("log.console", true)
            .set("log.console.level", level)
            .set("log.console.use_colors", "off")
            .set("log.file", "rabbitmq.log")
            .set("log.file.level", level)
            .set("log.file.rotation.size", 10 * 1024 * 1024)
            .set("log.file.rotation.count", 5);
    }

    /// `rabbitmq-env.conf` of a member.
    ///
    /// # Errors
    /// When a value cannot be expressed in the file.
    pub fn env_file(&self, node: &Node) -> Result<String, Unrepresentable> {
        let mut file = EnvFile::new(ENV_FILE);
        file.set("RABBITMQ_NODENAME", node.name())
            .set("RABBITMQ_USE_LONGNAME", true)
            .set("ERL_EPMD_PORT", self.ports.epmd)
            // Loopback is always among them.
            .set("ERL_EPMD_ADDRESS", node.address);
        let distribution = distribution::arguments(node.address, self.tls, &in_run_dir(distribution::FILE));
        file.set_if_some("RABBITMQ_CTL_ERL_ARGS", distribution.as_ref());
        let arguments: Vec<&str> = [FRESH_CERTIFICATES].into_iter().chain(distribution.as_deref()).collect();
        file.set(SERVER_ARGUMENTS, arguments.join(" "));
        file.render()
    }

    /// `erl_inetrc`: Erlang terms. It is read when a server starts, so it names no member: of one that joins later those that run would not know the
    /// address, and Erlang's `global` is never well again after an attempt to connect to a name that is not known.
    pub fn inetrc_file(&self) -> String {
        let mut lines = vec![format!(r#"{{hosts_file, "{}"}}."#, in_run_dir(HOSTS_FILE))];
        if self.nodes.iter().any(|node| node.address.is_ipv6()) {
            lines.push("{inet6, true}.".to_owned());
        }
        lines.push("{lookup, [file, native]}.\n".to_owned());
        lines.join("\n")
    }

    /// The addresses of all members, the same for all, in the form of `hosts(5)`. Erlang looks every few seconds whether it is another one.
    pub fn hosts_file(&self) -> String {
        let lines = self.nodes.iter().map(|node| format!("{} {}", node.address, node.host));
        lines.chain([String::new()]).collect::<Vec<_>>().join("\n")
    }
}

/// `enabled_plugins`: an Erlang term.
pub fn plugins_file() -> String {
    "[rabbitmq_management,rabbitmq_prometheus].\n".to_owned()
}

/// Environment that does not differ between members, in the container's own so that commands run by people have it too.
pub fn environment() -> Vec<(String, String)> {
    vec![
        ("HOME".to_owned(), DATA_DIR.to_owned()),
        ("ERL_INETRC".to_owned(), in_run_dir(INETRC_FILE)),
        ("RABBITMQ_CONF_ENV_FILE".to_owned(), in_run_dir(ENV_FILE)),
        ("RABBITMQ_CONFIG_FILE".to_owned(), in_run_dir(CONFIG_FILE)),
        // A pattern.
        ("RABBITMQ_CONFIG_FILES".to_owned(), PLACED_FORMATION.to_owned()),
        ("RABBITMQ_ENABLED_PLUGINS_FILE".to_owned(), in_run_dir(PLUGINS_FILE)),
        ("NODE_TYPE".to_owned(), NodeType::ConfigDatabase.name().to_owned()),
    ]
}

fn log_level(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Warning => "warning",
        LogLevel::Error => "error",
        LogLevel::Critical => "critical",
        LogLevel::None => "none",
    }
}

/// How the agent runs the server.
///
/// # Errors
/// When a value cannot be expressed in the file.
pub fn launch_file(cluster: &Cluster<'_>, agents: &Agents) -> Result<String, Unusable> {
    let (ports, level) = (&cluster.ports, log_level(cluster.log_level));
    // One that is paused may be for as long as the network is cut.
    let pauses = cluster.spec.cluster_partition_handling == PartitionHandling::PauseMinority;
    let mut launch = Launch {
        working_directory: Some(DATA_DIR.into()),
        starting: Some(LONGEST_START),
        recovering: (!pauses).then_some(LONGEST_RECOVERY),
        files: BTreeMap::from([
            (CONFIG_FILE.into(), OnChange::Restart),
            (ENV_FILE.into(), OnChange::Restart),
            (PLUGINS_FILE.into(), OnChange::Restart),
            // The agent tells the server.
            (definitions::FILE.into(), OnChange::Nothing),
            (definitions::FILE_4.into(), OnChange::Nothing),
            // Members that start know those that run.
            (FORMATION_FILE.into(), OnChange::Nothing),
            (FORMATION_FILE_4.into(), OnChange::Nothing),
            (INETRC_FILE.into(), OnChange::Nothing),
            (HOSTS_FILE.into(), OnChange::Nothing),
            // For the agent.
            (PASSWORD_FILE.into(), OnChange::Nothing),
            (MEMBER_FILE.into(), OnChange::Nothing),
            (OTHER_MEMBERS_FILE.into(), OnChange::Nothing),
        ]),
        place: vec![
            // Erlang refuses one that others could read.
            place(COOKIE_FILE, &format!("{DATA_DIR}/{COOKIE_FILE}"), When::Always),
            place(FORMATION_FILE, PLACED_FORMATION, When::Always),
            place(FORMATION_FILE_4, PLACED_FORMATION, When::Since { major: FOUR }),
            place(definitions::FILE, PLACED_DEFINITIONS, When::Always),
            place(definitions::FILE_4, PLACED_DEFINITIONS, When::Since { major: FOUR }),
        ],
        stop: Stop { signal: Signal::Term, seconds: STOP_SECONDS },
        drain: Some(Drain {
            argv: vec!["rabbitmq-upgrade".into(), "drain".into(), "--timeout".into(), DRAIN_SECONDS.to_string()],
            seconds: DRAIN_SECONDS,
        }),
        ready: Probe::RabbitMq {
            port: port("ready.port", ports.amqp)?,
            management: port("ready.management", ports.management)?,
            definitions: Some(definitions::FILE.into()),
        },
        level: Some(Level {
            value: level.to_owned(),
            lines: ["log.console.level = ", "log.file.level = "].map(str::to_owned).into(),
            tell: Tell::Command { argv: ["rabbitmqctl", "set_log_level", level].map(str::to_owned).to_vec() },
        }),
        agent: agents.api()?,
        // It looks every second.
        identity: Some(agents.certificate()),
        ..Launch::new(vec!["rabbitmq-server".into()])
    };
    if cluster.tls {
        launch.files.insert(distribution::FILE.into(), OnChange::Restart);
    }
    launch.render()
}

/// A copy that nobody but the server reads.
fn place(file: &str, to: &str, when: When) -> Place {
    Place { file: file.into(), to: to.into(), when, private: true }
}

/// What a listener shows and trusts.
fn tls(file: &mut Sysctl, prefix: &str) {
    file.set(&format!("{prefix}.cacertfile"), TRUSTSTORE_PEM)
        .set(&format!("{prefix}.certfile"), KEYSTORE_PEM)
        .set(&format!("{prefix}.keyfile"), KEYSTORE_PEM);
}

fn in_run_dir(file: &str) -> String {
    format!("{RUN_DIR}/{file}")
}
