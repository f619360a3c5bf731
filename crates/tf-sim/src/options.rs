//! What the files say to contrail-api, contrail-schema, contrail-svc-monitor and contrail-device-manager, by the parsers of each value
//! (docs/upstream/observed.md#options, docs/upstream/files.md#files-of-the-daemons). Unknown options are ignored, as by the daemons.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use crate::{
    exit::{Exit, exception, usage},
    ini::{Fault, Ini},
    keystone::Guard,
    library::Brought,
};

/// A daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    /// contrail-api.
    Api,
    /// contrail-schema.
    Schema,
    /// contrail-svc-monitor.
    SvcMonitor,
    /// contrail-device-manager.
    DeviceManager,
}

impl Daemon {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Api, Self::Schema, Self::SvcMonitor, Self::DeviceManager];

    /// Name of the program, and of the module in NodeStatus.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Api => "contrail-api",
            Self::Schema => "contrail-schema",
            Self::SvcMonitor => "contrail-svc-monitor",
            Self::DeviceManager => "contrail-device-manager",
        }
    }

    /// Where it is elected in ZooKeeper; the API elects only who looks after the database first.
    pub const fn election(self) -> &'static str {
        match self {
            Self::Api => "/api-server-election",
            Self::Schema => "/schema-transformer",
            Self::SvcMonitor => "/svc-monitor",
            Self::DeviceManager => "/device-manager",
        }
    }

    /// The keyspaces it makes.
    pub const fn keyspaces(self) -> &'static [&'static str] {
        match self {
            Self::Api => &["config_db_uuid", "useragent"],
            Self::Schema => &["to_bgp_keyspace"],
            Self::SvcMonitor => &["svc_monitor_keyspace"],
            Self::DeviceManager => &["dm_keyspace"],
        }
    }

    /// How long a session with ZooKeeper lasts that it asks for, if its file says nothing of that (upstream `zkclient.py`; `zk_timeout` of schema).
    const fn session(self) -> Duration {
        Duration::from_secs(if matches!(self, Self::Schema) { 120 } else { 400 })
    }

    /// Port of introspection, if the files name none.
    const fn introspect(self) -> &'static str {
        match self {
            Self::Api => "8084",
            Self::Schema => "8087",
            Self::SvcMonitor => "8088",
            Self::DeviceManager => "8096",
        }
    }

    /// Seconds between heartbeats of the message bus, if the files name none; 0 for a daemon that has none.
    const fn heartbeat(self) -> u16 {
        if matches!(self, Self::Api) { 120 } else { 0 }
    }
}

/// What a daemon goes by.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who it is.
    pub daemon: Daemon,
    /// Where the API listens.
    pub listen: (IpAddr, u16),
    /// What the API shows, if it speaks TLS.
    pub rest: Option<Pair>,
    /// Number of the worker.
    pub worker: String,
    /// Where introspection listens.
    pub introspect: (IpAddr, u16),
    /// What it shows there, if it speaks TLS.
    pub introspect_pair: Option<Pair>,
    /// The database.
    pub cassandra: Cassandra,
    /// Servers with port as ZooKeeper's client wants them. None if it could not make sense of them, and never connects.
    pub zookeeper: Option<String>,
    /// The session that is asked for there; servers allow as much as they are set to.
    pub session: Duration,
    /// The message bus.
    pub rabbitmq: Rabbitmq,
    /// Collectors with port.
    pub collectors: Vec<String>,
    /// TLS to collectors, if it is spoken.
    pub collector_tls: Tls,
    /// How clients of the API find it.
    pub api: ApiServer,
    /// As whom they log in there.
    pub login: Brought,
    /// What stands before the API, where Keystone knows its users.
    pub guard: Option<Arc<Guard>>,
}

/// Files of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// What is shown to whoever connects, and the authorities they are judged by.
pub type Tls = Option<(Pair, PathBuf)>;

/// How the database is reached.
#[derive(Clone, Debug)]
pub struct Cassandra {
    /// Hosts.
    pub hosts: Vec<String>,
    /// The one port.
    pub port: u16,
    /// Entries of the list, by which keyspaces are made.
    pub listed: usize,
    /// Whether it speaks TLS.
    pub tls: bool,
    /// Authorities, if any are named.
    pub authorities: Option<PathBuf>,
    /// User and password.
    pub login: Option<(String, String)>,
}

/// How the message bus is reached.
#[derive(Clone, Debug)]
pub struct Rabbitmq {
    /// Servers with port.
    pub servers: Vec<String>,
    /// User, which is pasted into a URL as it is.
    pub user: String,
    /// Password, likewise.
    pub password: String,
    /// Virtual host, likewise.
    pub vhost: String,
    /// Seconds between heartbeats, 0 for none.
    pub heartbeat: u16,
    /// TLS, if it is spoken.
    pub tls: Option<RabbitmqTls>,
}

/// TLS to the message bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RabbitmqTls {
    /// Whether the version is one that there is; with another one no connection comes about.
    pub has_version: bool,
    /// What is shown.
    pub pair: Option<Pair>,
    /// Authorities.
    pub authorities: Option<PathBuf>,
}

/// How a client finds the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiServer {
    /// Hosts.
    pub hosts: Vec<String>,
    /// Port.
    pub port: u16,
    /// Whether it speaks TLS.
    pub tls: bool,
}

impl Options {
    /// Reads the texts of the files that the command line names, in that order.
    ///
    /// # Errors
    /// What ends the daemon.
    pub fn read(daemon: Daemon, texts: &[String]) -> Result<Self, Exit> {
        let mut ini = Ini::default();
        for text in texts {
            ini.read(text)?;
        }
        Values::merge(daemon, &ini)?.options(daemon)
    }
}

impl From<Fault> for Exit {
    fn from(fault: Fault) -> Self {
        exception(fault.to_string())
    }
}

/// Options of all sections in one.
pub(crate) struct Values(BTreeMap<String, String>);

impl Values {
    /// Those of these sections, as far as they are there; of two that have an option the later one counts.
    pub(crate) fn of(ini: &Ini, sections: &[&str]) -> Result<Self, Exit> {
        let mut values = BTreeMap::new();
        for section in sections.iter().filter(|section| ini.has(section)) {
            values.extend(ini.options(section)?);
        }
        Ok(Self(values))
    }

    fn merge(daemon: Daemon, ini: &Ini) -> Result<Self, Exit> {
        let mut sections = vec!["DEFAULTS", "SECURITY", "KEYSTONE", "CASSANDRA", "SANDESH"];
        if daemon == Daemon::Api {
            sections.push("ZOOKEEPER");
        } else if !ini.has("DEFAULTS") {
            return Err(exception("NoSectionError: DEFAULTS"));
        }
        let mut values = BTreeMap::new();
        for section in sections.into_iter().filter(|section| ini.has(section)) {
            let options = ini.options(section)?;
            let is_used = section != "SECURITY" || options.get("use_certs").is_some_and(|value| is_true(value));
            if is_used {
                values.extend(options);
            }
        }
        Ok(Self(values))
    }

    fn options(&self, daemon: Daemon) -> Result<Options, Exit> {
        self.ranges()?;
        if daemon == Daemon::Api {
            // A Python literal, for this daemon alone.
            let literals = ["True", "False", "None"];
            let local = self.or("log_local", "False");
            if !literals.contains(&local.as_str()) && local.parse::<i64>().is_err() {
                return Err(exception("ValueError: malformed node or string: log_local"));
            }
        }
        let listen = (self.address("listen_ip_addr")?, self.port("listen_port", "8082")?);
        Ok(Options {
            daemon,
            listen,
            rest: self.pair("config_api_ssl_enable", "config_api_ssl_certfile", "config_api_ssl_keyfile"),
            worker: self.or("worker_id", "0"),
            introspect: (self.address("http_server_ip")?, self.port("http_server_port", daemon.introspect())?),
            introspect_pair: self.pair("introspect_ssl_enable", "sandesh_server_certfile", "sandesh_server_keyfile"),
            cassandra: self.cassandra()?,
            zookeeper: zookeeper(&self.or("zk_server_ip", "127.0.0.1:2181")),
            session: self.session(daemon)?,
            rabbitmq: self.rabbitmq(daemon.heartbeat())?,
            collectors: words(&self.or("collectors", "")),
            collector_tls: self.collector_tls(),
            api: ApiServer {
                hosts: self.or("api_server_ip", "127.0.0.1").split(',').map(|host| host.trim().to_owned()).collect(),
                port: self.port("api_server_port", "8082")?,
                tls: self.is_on("api_server_use_ssl"),
            },
            login: self.login(daemon),
            guard: if daemon == Daemon::Api { Guard::of(self)?.map(Arc::new) } else { None },
        })
    }

    fn session(&self, daemon: Daemon) -> Result<Duration, Exit> {
        match self.given("zk_timeout").filter(|_| daemon == Daemon::Schema) {
            Some(seconds) => seconds.parse().map(Duration::from_secs).map_err(|_| usage("argument --zk_timeout")),
            None => Ok(daemon.session()),
        }
    }

    fn login(&self, daemon: Daemon) -> Brought {
        let defaults = if daemon == Daemon::Api { [""; 3] } else { ["user1", "password1", "default-domain"] };
        let [user, password, project] = defaults;
        // An option that is there counts, also an empty one.
        let read = |option: &str, default: &str| self.0.get(option).map_or(default, String::as_str).to_owned();
        let login = [("admin_user", user), ("admin_password", password), ("admin_tenant_name", project)];
        Brought { login: login.map(|(option, default)| read(option, default)), ..Brought::default() }
    }

    /// What the parser of arguments checks itself (docs/upstream/files.md#configparser).
    fn ranges(&self) -> Result<(), Exit> {
        for (option, range) in [("max_bytes", 5_000_000..=50_000_000), ("backup_count", 10..=100)] {
            let Some(value) = self.0.get(option) else { continue };
            if !value.parse::<u64>().is_ok_and(|value| range.contains(&value)) {
                return Err(usage(format!("argument --{option}: invalid value")));
            }
        }
        Ok(())
    }

    pub(crate) fn cassandra(&self) -> Result<Cassandra, Exit> {
        if self.or("cassandra_driver", "cql") != "cql" {
            return Err(exception("NotImplementedError: cassandra_driver"));
        }
        let list = words(&self.or("cassandra_server_list", "127.0.0.1:9160"));
        let mut port = None;
        let mut hosts = Vec::new();
        for item in &list {
            let parts: Vec<&str> = item.split(':').collect();
            let host = match parts[..] {
                [host, number] => {
                    let number = number.parse::<u16>().map_err(|_| exception("ValueError: cassandra_server_list"))?;
                    port = port.or(Some(number));
                    host
                }
                _ => item,
            };
            if host.contains(',') {
                return Err(exception("DatabaseUnavailableError: UnresolvableContactPoints"));
            }
            hosts.push(host.to_owned());
        }
        let login = self.given("cassandra_user").zip(self.given("cassandra_password"));
        Ok(Cassandra {
            listed: hosts.len(),
            hosts,
            port: port.unwrap_or(9042),
            tls: self.is_on("cassandra_use_ssl"),
            authorities: self.given("cassandra_ca_certs").map(PathBuf::from),
            login,
        })
    }

    /// What is shown to collectors, and the authorities they are judged by.
    pub(crate) fn collector_tls(&self) -> Tls {
        let pair = self.pair("sandesh_ssl_enable", "sandesh_certfile", "sandesh_keyfile");
        pair.zip(self.given("sandesh_ca_cert").map(Into::into))
    }

    /// `heartbeat`: seconds between heartbeats of a daemon whose file says nothing of them, and 0 of one that does not read what it says: none but the
    /// API does (upstream at fbb63bcd).
    pub(crate) fn rabbitmq(&self, heartbeat: u16) -> Result<Rabbitmq, Exit> {
        let port = self.port("rabbit_port", "5672")?;
        let servers = self.or("rabbit_server", "localhost");
        let servers = servers.split([',', ' ']).filter(|server| !server.is_empty());
        // Everything but an IPv6 address without brackets.
        let has_port =
            |server: &str| server.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
        let servers =
            servers.map(|server| if has_port(server) { server.to_owned() } else { format!("{server}:{port}") });
        let file = |option| self.given(option).map(PathBuf::from);
        let pair = file("kombu_ssl_certfile").zip(file("kombu_ssl_keyfile"));
        let tls = self.is_on("rabbit_use_ssl").then(|| RabbitmqTls {
            has_version: self
                .given("kombu_ssl_version")
                .is_none_or(|version| ["tlsv1_2", "tlsv1.2"].contains(&&*version)),
            pair: pair.map(|(certificate, key)| Pair { certificate, key }),
            authorities: file("kombu_ssl_ca_certs"),
        });
        Ok(Rabbitmq {
            servers: servers.collect(),
            user: self.or("rabbit_user", "guest"),
            password: self.or("rabbit_password", "guest"),
            vhost: self.given("rabbit_vhost").unwrap_or_else(|| "/".into()),
            heartbeat: match self.given("rabbit_health_check_interval") {
                Some(seconds) if heartbeat > 0 => {
                    whole(&seconds).ok_or_else(|| exception("ValueError: rabbit_health_check_interval"))?
                }
                _ => heartbeat,
            },
            tls,
        })
    }

    pub(crate) fn given(&self, option: &str) -> Option<String> {
        self.0.get(option).filter(|value| !value.is_empty()).cloned()
    }

    pub(crate) fn or(&self, option: &str, default: &str) -> String {
        self.given(option).unwrap_or_else(|| default.to_owned())
    }

    pub(crate) fn is_on(&self, option: &str) -> bool {
        self.0.get(option).is_some_and(|value| is_true(value))
    }

    pub(crate) fn port(&self, option: &str, default: &str) -> Result<u16, Exit> {
        self.or(option, default).parse().map_err(|_| exception(format!("ValueError: {option}")))
    }

    pub(crate) fn address(&self, option: &str) -> Result<IpAddr, Exit> {
        self.or(option, "0.0.0.0").parse().map_err(|_| exception(format!("OSError: {option}")))
    }

    pub(crate) fn pair(&self, switch: &str, certificate: &str, key: &str) -> Option<Pair> {
        let file = |option| PathBuf::from(self.or(option, "/etc/contrail/ssl/none"));
        self.is_on(switch).then(|| Pair { certificate: file(certificate), key: file(key) })
    }
}

/// A number without what stands behind its point.
fn whole(number: &str) -> Option<u16> {
    number.split('.').next()?.parse().ok()
}

/// Every other word means no.
fn is_true(value: &str) -> bool {
    value.eq_ignore_ascii_case("true")
}

pub(crate) fn words(list: &str) -> Vec<String> {
    list.split_whitespace().map(str::to_owned).collect()
}

/// The client splits at commas, and reads what follows the last colon as a number.
pub(crate) fn zookeeper(list: &str) -> Option<String> {
    let is_server = |server: &str| {
        let has_port = server.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        has_port && !server.trim().contains(char::is_whitespace)
    };
    list.split(',').all(is_server).then(|| list.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(daemon: Daemon, more: &str) -> Result<Options, Exit> {
        Options::read(daemon, &[format!("[DEFAULTS]\n{more}\n")])
    }

    fn api(more: &str) -> Options {
        read(Daemon::Api, more).unwrap()
    }

    fn why(daemon: Daemon, more: &str) -> (u8, String) {
        let exit = read(daemon, more).unwrap_err();
        (exit.code, exit.why)
    }

    #[test]
    fn servers_of_cassandra_are_separated_by_blanks_and_share_the_first_port() {
        let cassandra = api("cassandra_server_list = 10.0.0.1:9041 10.0.0.2:9999 fd00::3").cassandra;
        assert_eq!(cassandra.hosts, ["10.0.0.1", "10.0.0.2", "fd00::3"]);
        assert_eq!((cassandra.port, cassandra.listed), (9041, 3));
        assert_eq!(api("cassandra_server_list = a b").cassandra.port, 9042);
        let (code, text) = why(Daemon::Schema, "cassandra_server_list = a:9041,b:9041");
        assert_eq!(code, 1);
        assert!(text.contains("UnresolvableContactPoints"), "{text}");
    }

    #[test]
    fn servers_of_zookeeper_are_separated_by_commas_or_never_found() {
        assert_eq!(api("zk_server_ip = a:2181,b:2181").zookeeper.as_deref(), Some("a:2181,b:2181"));
        assert_eq!(api("zk_server_ip = a:2181 b:2181").zookeeper, None);
    }

    #[test]
    fn servers_of_rabbitmq_are_separated_by_either() {
        let servers = |list: &str| api(&format!("rabbit_server = {list}\nrabbit_port = 5673")).rabbitmq.servers;
        for list in ["a:1,b", "a:1 b", "a:1, b"] {
            assert_eq!(servers(list), ["a:1", "b:5673"], "{list}");
        }
        assert_eq!(servers("[fd00::1]:1"), ["[fd00::1]:1"]);
        assert_eq!(api("").rabbitmq.vhost, "/");
    }

    #[test]
    fn the_api_alone_has_heartbeats_and_reads_how_often() {
        let heartbeat = |daemon, more: &str| read(daemon, more).unwrap().rabbitmq.heartbeat;
        for daemon in Daemon::ALL {
            let of = |seconds| if daemon == Daemon::Api { seconds } else { 0 };
            assert_eq!(heartbeat(daemon, "rabbit_health_check_interval = 10"), of(10));
            assert_eq!(heartbeat(daemon, "rabbit_health_check_interval = 7.5"), of(7));
            assert_eq!(heartbeat(daemon, ""), of(120));
        }
    }

    #[test]
    fn sessions_last_long_and_the_one_of_schema_can_be_set() {
        let session = |daemon, more: &str| read(daemon, more).unwrap().session.as_secs();
        for daemon in Daemon::ALL {
            let (default, set) = if daemon == Daemon::Schema { (120, 40) } else { (400, 400) };
            assert_eq!((session(daemon, ""), session(daemon, "zk_timeout = 40")), (default, set), "{daemon:?}");
        }
        assert_eq!(why(Daemon::Schema, "zk_timeout = x").0, 2);
    }

    #[test]
    fn only_true_switches_tls_on() {
        for (value, on) in [("true", true), ("True", true), ("yes", false), ("1", false), ("on", false), ("", false)] {
            assert_eq!(api(&format!("config_api_ssl_enable = {value}")).rest.is_some(), on, "{value}");
            assert_eq!(api(&format!("rabbit_use_ssl = {value}")).rabbitmq.tls.is_some(), on, "{value}");
        }
    }

    #[test]
    fn log_local_of_the_api_is_a_literal_and_that_of_others_is_not() {
        for value in ["1", "0", "True", "False"] {
            api(&format!("log_local = {value}"));
        }
        assert_eq!(why(Daemon::Api, "log_local = true").0, 1);
        assert!(read(Daemon::Schema, "log_local = true").is_ok());
    }

    #[test]
    fn what_ends_a_daemon_has_its_exit_code_and_quotes_no_value() {
        let (code, text) = why(Daemon::Api, "rabbit_password = hunter%2");
        assert_eq!(code, 1);
        assert!(text.contains("InterpolationSyntaxError") && !text.contains("hunter"), "{text}");
        assert_eq!(why(Daemon::Api, "http_server_port = x").0, 1);
        assert_eq!(why(Daemon::Schema, "max_bytes = 1").0, 2);
        assert_eq!(Options::read(Daemon::Schema, &["[DEFAULT]\n".into()]).unwrap_err().why, "NoSectionError: DEFAULTS");
        assert!(Options::read(Daemon::Api, &[String::new()]).is_ok());
    }

    #[test]
    fn an_escaped_percent_sign_is_one_in_the_password() {
        assert_eq!(api("rabbit_password = a%%b").rabbitmq.password, "a%b");
    }

    #[test]
    fn unknown_options_and_words_are_taken_silently() {
        api("nothing = x\naaa_mode = whatever\nauth = keystone\nlog_level = x");
    }

    #[test]
    fn sections_are_one_space_and_security_counts_only_when_it_says_so() {
        let text = "[DEFAULTS]\n[CASSANDRA]\ncassandra_user = u\ncassandra_password = p\n";
        let login = |daemon| Options::read(daemon, &[text.to_owned()]).unwrap().cassandra.login;
        assert_eq!(login(Daemon::Api), Some(("u".into(), "p".into())));
        let security = |on| format!("[DEFAULTS]\n[SECURITY]\nuse_certs = {on}\nrabbit_user = x\n");
        let user = |on| Options::read(Daemon::Schema, &[security(on)]).unwrap().rabbitmq.user;
        assert_eq!((user("true"), user("false")), ("x".to_owned(), "guest".to_owned()));
    }

    #[test]
    fn a_version_of_tls_that_there_is_not_is_no_reason_to_end() {
        let tls = |version| api(&format!("rabbit_use_ssl = true\nkombu_ssl_version = {version}")).rabbitmq.tls.unwrap();
        assert!(tls("tlsv1_2").has_version && tls("tlsv1.2").has_version && !tls("tlsv9").has_version);
    }
}
