//! What the files say to the daemons of analytics (docs/upstream/analytics.md#daemons-of-analytics). The collector ignores what it does
//! not know, the query engine ends at it, and those in Python ignore it.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
};

use crate::{
    boost::{Boost, Fault},
    control::options::{cassandra, given, pair, rabbitmq, server, tls},
    exit::{Exit, exception},
    ini::Ini,
    library::Brought,
    options::{ApiServer, Cassandra, Pair, Rabbitmq, RabbitmqTls, Tls, Values, words, zookeeper},
};

/// A daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    /// contrail-collector.
    Collector,
    /// contrail-analytics-api.
    Api,
    /// contrail-query-engine.
    QueryEngine,
    /// contrail-alarm-gen.
    AlarmGenerator,
    /// tf-snmp-collector.
    SnmpCollector,
    /// tf-topology.
    Topology,
}

impl Daemon {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Collector, Self::Api, Self::QueryEngine, Self::AlarmGenerator, Self::SnmpCollector, Self::Topology];

    /// Name of the program, and of the module in NodeStatus.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Collector => "contrail-collector",
            Self::Api => "contrail-analytics-api",
            Self::QueryEngine => "contrail-query-engine",
            Self::AlarmGenerator => "contrail-alarm-gen",
            Self::SnmpCollector => "tf-snmp-collector",
            Self::Topology => "tf-topology",
        }
    }

    /// Whether its files are read by Boost's parser.
    pub const fn is_native(self) -> bool {
        matches!(self, Self::Collector | Self::QueryEngine)
    }

    /// Types of the configuration that it follows, of those that stumble over every other one (upstream `alarmgen_config_db.py`, `snmp_config_db.py`,
    /// `topology_config_db.py`).
    pub const fn known(self) -> Option<&'static [&'static str]> {
        match self {
            Self::AlarmGenerator => Some(&["alarm", "global_system_config"]),
            Self::SnmpCollector => Some(&["physical_router"]),
            Self::Topology => Some(&["logical_interface", "virtual_machine_interface"]),
            Self::Collector | Self::Api | Self::QueryEngine => None,
        }
    }

    const fn introspect(self) -> &'static str {
        match self {
            Self::Collector => "8089",
            Self::Api => "8090",
            Self::QueryEngine => "8091",
            Self::AlarmGenerator => "5995",
            Self::SnmpCollector => "5920",
            Self::Topology => "5921",
        }
    }
}

/// Options of the query engine, as its `options.cc` and the library declare them. Those of the first list are lists.
const QUERY_ENGINE_LISTS: [&str; 3] = ["DEFAULT.collectors", "DEFAULT.cassandra_server_list", "REDIS.server_list"];
const QUERY_ENGINE: [&str; 42] = [
    "CASSANDRA.cassandra_ca_certs",
    "CASSANDRA.cassandra_password",
    "CASSANDRA.cassandra_use_ssl",
    "CASSANDRA.cassandra_user",
    "DATABASE.cluster_id",
    "DEFAULT.analytics_data_ttl",
    "DEFAULT.hostip",
    "DEFAULT.hostname",
    "DEFAULT.http_server_ip",
    "DEFAULT.http_server_port",
    "DEFAULT.log_category",
    "DEFAULT.log_disable",
    "DEFAULT.log_file",
    "DEFAULT.log_file_size",
    "DEFAULT.log_files_count",
    "DEFAULT.log_level",
    "DEFAULT.log_local",
    "DEFAULT.log_property_file",
    "DEFAULT.max_slice",
    "DEFAULT.max_tasks",
    "DEFAULT.sandesh_send_rate_limit",
    "DEFAULT.start_time",
    "DEFAULT.syslog_facility",
    "DEFAULT.test_mode",
    "DEFAULT.use_syslog",
    "REDIS.password",
    "REDIS.port",
    "REDIS.redis_ca_cert",
    "REDIS.redis_certfile",
    "REDIS.redis_keyfile",
    "REDIS.redis_ssl_enable",
    "REDIS.server",
    "SANDESH.disable_object_logs",
    "SANDESH.introspect_ssl_enable",
    "SANDESH.introspect_ssl_insecure",
    "SANDESH.sandesh_ca_cert",
    "SANDESH.sandesh_certfile",
    "SANDESH.sandesh_keyfile",
    "SANDESH.sandesh_server_certfile",
    "SANDESH.sandesh_server_keyfile",
    "SANDESH.sandesh_ssl_enable",
    "STATS.stats_collector",
];
/// Sections that the daemons in Python put into one, of which a later one wins over those before it.
const SECTIONS: [&str; 6] = ["DEFAULTS", "REDIS", "KEYSTONE", "CONFIGDB", "SANDESH", "KAFKA"];

/// Redis.
#[derive(Clone, PartialEq, Eq)]
pub struct Redis {
    /// Servers with port.
    pub servers: Vec<String>,
    /// Password, if there is one.
    pub password: Option<String>,
    /// Whether TLS is spoken, the authorities that the server is judged by, and what is shown, if anything.
    pub tls: Option<(PathBuf, Option<Pair>)>,
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.servers).finish()
    }
}

/// The port for administration of the API, without TLS and with basic authentication.
#[derive(Clone, PartialEq, Eq)]
pub struct Administration {
    /// Where it is, with port: of the API its own one, of topology those that it asks.
    pub servers: Vec<String>,
    /// Who is let in, or who asks.
    pub user: String,
    /// The password.
    pub password: String,
}

impl std::fmt::Debug for Administration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.servers).finish()
    }
}

/// What a daemon goes by.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who it is.
    pub daemon: Daemon,
    /// Its address.
    pub address: IpAddr,
    /// Where introspection listens, and what it shows if it speaks TLS.
    pub introspect: ((IpAddr, u16), Option<Pair>),
    /// Where it listens itself, and TLS there: clients of the collector show certificates, those of the API none.
    pub listen: Option<((IpAddr, u16), Tls)>,
    /// Collectors with port.
    pub collectors: Vec<String>,
    /// TLS to collectors, if it is spoken.
    pub collector_tls: Tls,
    /// The database of the configuration, for those that read it.
    pub cassandra: Option<Cassandra>,
    /// The database of analytics, for those that have it.
    pub database: Option<Cassandra>,
    /// The message bus, for those that hear it.
    pub rabbitmq: Option<Rabbitmq>,
    /// Servers with port as ZooKeeper's client wants them, for those that use it; within, none if it could not make sense of them.
    pub zookeeper: Option<Option<String>>,
    /// The config API, for those that ask it, and as whom.
    pub api: Option<(ApiServer, Brought)>,
    /// Redis, for those that use it.
    pub redis: Option<Redis>,
    /// The port on the loopback address that queries go to.
    pub queries: Option<u16>,
    /// Kafka, for those that use it.
    pub kafka: Option<(Vec<String>, Tls)>,
    /// Partitions, for those that have to agree on them.
    pub partitions: Option<u32>,
    /// The port for administration, for the API, which has it, and topology, which asks there.
    pub administration: Option<Administration>,
}

impl Options {
    /// Reads the texts of the files that the command line names, in that order.
    ///
    /// # Errors
    /// What ends the daemon.
    pub fn read(daemon: Daemon, texts: &[String]) -> Result<Self, Exit> {
        if daemon.is_native() {
            let read = Self::native(daemon, &texts.join("\n"));
            return read.map_err(|fault| Exit { code: 255, why: fault.to_string() });
        }
        let mut ini = Ini::default();
        for text in texts {
            ini.read(text)?;
        }
        Self::python(daemon, &Values::of(&ini, &SECTIONS)?)
    }

    fn native(daemon: Daemon, text: &str) -> Result<Self, Fault> {
        let boost = Boost::read(text)?;
        if daemon == Daemon::QueryEngine {
            boost.only(|name| QUERY_ENGINE.contains(&name) || QUERY_ENGINE_LISTS.contains(&name))?;
            QUERY_ENGINE.iter().try_for_each(|name| boost.text(name).map(drop))?;
        }
        for name in ["log_local", "log_disable", "use_syslog", "test_mode"] {
            boost.flag(&format!("DEFAULT.{name}"))?;
        }
        for name in ["data", "config_audit", "statistics", "flow"] {
            boost.parsed::<i64>(&format!("DEFAULT.analytics_{name}_ttl"))?;
        }
        let listen = boost.parsed("DEFAULT.http_server_ip")?.unwrap_or(IpAddr::from(Ipv4Addr::UNSPECIFIED));
        let default = daemon.introspect().parse().unwrap_or_default();
        let introspect = boost.parsed("DEFAULT.http_server_port")?.unwrap_or(default);
        let shown = pair(&boost, "SANDESH.sandesh_server_certfile", "SANDESH.sandesh_server_keyfile")?;
        let is_tls = boost.flag("SANDESH.introspect_ssl_enable")?.unwrap_or(false);
        let sandesh = tls(
            &boost,
            "SANDESH.sandesh_ssl_enable",
            ["SANDESH.sandesh_certfile", "SANDESH.sandesh_keyfile", "SANDESH.sandesh_ca_cert"],
        )?;
        let is_collector = daemon == Daemon::Collector;
        let address: IpAddr = boost.parsed("DEFAULT.hostip")?.ok_or_else(|| Fault::Value("DEFAULT.hostip".into()))?;
        let port = boost.parsed("COLLECTOR.port")?.unwrap_or(8086);
        let own: IpAddr = boost.parsed("COLLECTOR.server")?.unwrap_or(IpAddr::from(Ipv4Addr::UNSPECIFIED));
        let partitions = boost.parsed("DEFAULT.partitions")?;
        Ok(Self {
            daemon,
            address,
            introspect: ((listen, introspect), is_tls.then_some(shown)),
            listen: is_collector.then(|| ((own, port), sandesh.clone())),
            // A collector reports to itself.
            collectors: if is_collector { vec![format!("{address}:{port}")] } else { boost.list("DEFAULT.collectors") },
            collector_tls: sandesh,
            cassandra: is_collector.then(|| cassandra(&boost)).transpose()?,
            database: database(&boost)?,
            rabbitmq: is_collector.then(|| rabbitmq(&boost)).transpose()?,
            zookeeper: given(&boost, "DEFAULT.zookeeper_server_list")?.map(|list| zookeeper(&list)),
            api: None,
            redis: Some(redis(daemon, &boost)?),
            queries: None,
            kafka: kafka(&boost)?,
            partitions: is_collector.then_some(partitions.unwrap_or(15)),
            administration: None,
        })
    }

    fn python(daemon: Daemon, values: &Values) -> Result<Self, Exit> {
        let is_api = daemon == Daemon::Api;
        let is_snmp = matches!(daemon, Daemon::SnmpCollector | Daemon::Topology);
        let address: IpAddr = values.or("host_ip", "127.0.0.1").parse().map_err(|_| exception("OSError: host_ip"))?;
        let introspect = (values.address("http_server_ip")?, values.port("http_server_port", daemon.introspect())?);
        for option in ["scan_frequency", "fast_scan_frequency", "partitions", "analytics_data_ttl"] {
            if values.given(option).is_some_and(|value| value.parse::<i64>().is_err()) {
                return Err(exception(format!("argument --{option}: invalid int value")));
            }
        }
        if values.given("aaa_mode").is_some_and(|mode| !["no-auth", "cloud-admin", "rbac"].contains(&&*mode)) {
            return Err(exception("argument --aaa_mode: invalid choice"));
        }
        let rest = || Ok::<_, Exit>((values.address("rest_api_ip")?, values.port("rest_api_port", "8081")?));
        let rest_pair =
            values.pair("analytics_api_ssl_enable", "analytics_api_ssl_certfile", "analytics_api_ssl_keyfile");
        if rest_pair.is_some() && !values.is_on("analytics_api_insecure_enable") {
            // Clients would have to show certificates, which people do not.
            return Err(exception("ssl.CERT_REQUIRED"));
        }
        let authorities = values.given("analytics_api_ssl_ca_cert").map(PathBuf::from).unwrap_or_default();
        let listen = is_api.then(|| Ok::<_, Exit>((rest()?, rest_pair.map(|pair| (pair, authorities))))).transpose()?;
        let (list, is_list_of_blanks) = if is_snmp { ("zookeeper", false) } else { ("zk_list", true) };
        let servers = values.or(list, "127.0.0.1:2181");
        let servers = if is_list_of_blanks { words(&servers).join(",") } else { servers };
        let partitions = values.given("partitions").and_then(|value| value.parse().ok());
        Ok(Self {
            daemon,
            address,
            introspect: (
                introspect,
                values.pair("introspect_ssl_enable", "sandesh_server_certfile", "sandesh_server_keyfile"),
            ),
            listen,
            collectors: words(&values.or("collectors", "")),
            collector_tls: values.collector_tls(),
            cassandra: (!is_api).then(|| config_database(values)),
            database: None,
            rabbitmq: (!is_api).then(|| bus(daemon, values)).transpose()?,
            zookeeper: Some(zookeeper(&servers)),
            api: is_api.then(|| api(values)).transpose()?,
            redis: (!is_snmp).then(|| Redis {
                servers: words(&values.or("redis_uve_list", "127.0.0.1:6379")),
                password: values.given("redis_password"),
                tls: values.is_on("redis_use_ssl").then(|| (values.or("redis_ca_cert", "").into(), None)),
            }),
            queries: values.given("redis_query_port").map(|_| values.port("redis_query_port", "6379")).transpose()?,
            kafka: (daemon == Daemon::AlarmGenerator).then(|| {
                let tls = values
                    .pair("kafka_ssl_enable", "kafka_certfile", "kafka_keyfile")
                    .zip(values.given("kafka_ca_cert").map(Into::into));
                (words(&values.or("kafka_broker_list", "127.0.0.1:9092")), tls)
            }),
            partitions: (!is_snmp).then_some(partitions.unwrap_or(15)),
            administration: administration(daemon, values)?,
        })
    }
}

/// The two have not the same defaults (upstream `opserver.py`, `tf_topology/config.py`).
fn administration(daemon: Daemon, values: &Values) -> Result<Option<Administration>, Exit> {
    let (servers, user, password) = match daemon {
        Daemon::Api => (vec![format!("127.0.0.1:{}", values.port("admin_port", "8181")?)], "admin", "contrail123"),
        Daemon::Topology => (words(&values.or("analytics_api", "127.0.0.1:8181")), "user1", "password1"),
        _ => return Ok(None),
    };
    Ok(Some(Administration {
        servers,
        user: values.or("admin_user", user),
        password: values.or("admin_password", password),
    }))
}

/// The database of analytics of a daemon in C++.
fn database(boost: &Boost) -> Result<Option<Cassandra>, Fault> {
    let servers: Vec<(String, u16)> =
        boost.list("DEFAULT.cassandra_server_list").iter().map(|item| server(item)).collect();
    let Some((_, port)) = servers.first() else { return Ok(None) };
    Ok(Some(Cassandra {
        port: *port,
        listed: servers.len(),
        hosts: servers.iter().map(|(host, _)| host.clone()).collect(),
        tls: boost.flag("CASSANDRA.cassandra_use_ssl")?.unwrap_or(false),
        authorities: given(boost, "CASSANDRA.cassandra_ca_certs")?.map(PathBuf::from),
        login: given(boost, "CASSANDRA.cassandra_user")?.zip(given(boost, "CASSANDRA.cassandra_password")?),
    }))
}

/// The collector has one server and speaks no TLS to it; the query engine has a list, and shows a certificate that has to be there.
fn redis(daemon: Daemon, boost: &Boost) -> Result<Redis, Fault> {
    let password = given(boost, "REDIS.password")?;
    if daemon == Daemon::Collector {
        let port: u16 = boost.parsed("REDIS.port")?.unwrap_or(6379);
        let host = given(boost, "REDIS.server")?.unwrap_or_else(|| "127.0.0.1".into());
        return Ok(Redis { servers: vec![format!("{host}:{port}")], password, tls: None });
    }
    let files = ["REDIS.redis_certfile", "REDIS.redis_keyfile", "REDIS.redis_ca_cert"];
    let tls = tls(boost, "REDIS.redis_ssl_enable", files)?;
    let tls = tls.map(|(pair, authorities)| (authorities, Some(pair)));
    Ok(Redis { servers: boost.list("REDIS.server_list"), password, tls })
}

fn kafka(boost: &Boost) -> Result<Option<(Vec<String>, Tls)>, Fault> {
    let brokers = boost.list("KAFKA.kafka_broker_list");
    let files = ["KAFKA.kafka_certfile", "KAFKA.kafka_keyfile", "KAFKA.kafka_ca_cert"];
    let tls = tls(boost, "KAFKA.kafka_ssl_enable", files)?;
    Ok((!brokers.is_empty()).then_some((brokers, tls)))
}

/// The database of the configuration of a daemon in Python.
fn config_database(values: &Values) -> Cassandra {
    let servers: Vec<(String, u16)> =
        words(&values.or("config_db_server_list", "")).iter().map(|item| server(item)).collect();
    Cassandra {
        port: servers.first().map_or(9042, |(_, port)| *port),
        listed: servers.len(),
        hosts: servers.into_iter().map(|(host, _)| host).collect(),
        tls: values.is_on("config_db_use_ssl"),
        authorities: values.given("config_db_ca_certs").map(PathBuf::from),
        login: values.given("config_db_username").zip(values.given("config_db_password")),
    }
}

/// Commas separate the servers of the alarm generator, and blanks those of the others; each names certificates in its own way
/// (docs/upstream/files.md#lists, docs/upstream/files.md#configdb).
fn bus(daemon: Daemon, values: &Values) -> Result<Rabbitmq, Exit> {
    let (separator, prefix) = if daemon == Daemon::AlarmGenerator { (',', "kombu_ssl") } else { (' ', "rabbitmq_ssl") };
    let list = values.or("rabbitmq_server_list", "");
    let servers: Vec<String> = list.split(separator).filter(|item| !item.is_empty()).map(str::to_owned).collect();
    let is_server = |item: &String| {
        item.rsplit_once(':').is_some_and(|(host, port)| port.parse::<u16>().is_ok() && !host.contains([',', ' ']))
    };
    if !servers.iter().all(is_server) {
        return Err(exception("ValueError: rabbitmq_server_list"));
    }
    let file = |name: &str| values.given(&format!("{prefix}_{name}")).map(PathBuf::from);
    let pair = file("certfile").zip(file("keyfile")).map(|(certificate, key)| Pair { certificate, key });
    let tls = RabbitmqTls { has_version: true, pair, authorities: file("ca_certs") };
    Ok(Rabbitmq {
        servers,
        user: values.or("rabbitmq_user", "guest"),
        password: values.or("rabbitmq_password", "guest"),
        vhost: values.or("rabbitmq_vhost", "/"),
        // It has no option for them.
        heartbeat: 0,
        tls: values.is_on("rabbitmq_use_ssl").then_some(tls),
    })
}

fn api(values: &Values) -> Result<(ApiServer, Brought), Exit> {
    let servers: Vec<(String, u16)> =
        words(&values.or("api_server", "127.0.0.1:8082")).iter().map(|item| server(item)).collect();
    let port = servers.first().map(|(_, port)| *port).filter(|port| *port != 0);
    let server = ApiServer {
        port: port.ok_or_else(|| exception("ValueError: api_server"))?,
        hosts: servers.into_iter().map(|(host, _)| host).collect(),
        tls: values.is_on("api_server_use_ssl"),
    };
    // Its own defaults hide what the library's file has (upstream `opserver.py`).
    let login = [("admin_user", "admin"), ("admin_password", "contrail123"), ("admin_tenant_name", "default-domain")];
    let keystone = [("auth_protocol", "http"), ("auth_host", "127.0.0.1"), ("auth_port", "35357")];
    let read = |options: [(&str, &str); 3]| options.map(|(option, default)| values.or(option, default));
    Ok((server, Brought { login: read(login), token_url: None, server: Some(read(keystone)) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(daemon: Daemon, text: &str) -> Result<Options, Exit> {
        Options::read(daemon, &[text.to_owned()])
    }

    #[test]
    fn the_query_engine_ends_at_what_it_does_not_know_and_the_collector_does_not() {
        let own = "[DEFAULT]\nhostip = 10.0.0.1\n";
        let more = format!("{own}partitions = 30\n");
        let exit = read(Daemon::QueryEngine, &more).unwrap_err();
        assert!(exit.why.contains("unrecognised option: DEFAULT.partitions"), "{exit:?}");
        assert_eq!(read(Daemon::Collector, &more).unwrap().partitions, Some(30));
        assert!(read(Daemon::Collector, &format!("{own}nothing = x\n")).is_ok());
        let twice = read(Daemon::QueryEngine, &format!("{own}max_tasks = 1\nmax_tasks = 1\n")).unwrap_err();
        assert!(twice.why.contains("multiple_occurrences"), "{twice:?}");
    }

    #[test]
    fn zookeeper_is_separated_by_blanks_for_some_and_by_commas_for_others() {
        let of = |daemon, line: &str| read(daemon, &format!("[DEFAULTS]\n{line}\n")).unwrap().zookeeper.flatten();
        assert_eq!(of(Daemon::Api, "zk_list = a:1 b:1").as_deref(), Some("a:1,b:1"));
        assert_eq!(of(Daemon::Topology, "zookeeper = a:1,b:1").as_deref(), Some("a:1,b:1"));
        assert_eq!(of(Daemon::SnmpCollector, "zookeeper = a:1 b:1"), None);
    }

    #[test]
    fn certificates_for_the_bus_have_two_names() {
        let text = "[CONFIGDB]\nrabbitmq_use_ssl = true\nkombu_ssl_certfile = /k\nkombu_ssl_keyfile = /k\nrabbitmq_ssl_certfile = /r\nrabbitmq_ssl_keyfile = /r\n";
        let certificate = |daemon| read(daemon, text).unwrap().rabbitmq.unwrap().tls.unwrap().pair.unwrap().certificate;
        assert_eq!(certificate(Daemon::AlarmGenerator), PathBuf::from("/k"));
        assert_eq!(certificate(Daemon::SnmpCollector), PathBuf::from("/r"));
        let list = |list: &str| format!("[CONFIGDB]\nrabbitmq_server_list = {list}\n");
        assert!(read(Daemon::AlarmGenerator, &list("a:1,b:1")).is_ok());
        assert!(read(Daemon::AlarmGenerator, &list("a:1 b:1")).is_err());
        assert!(read(Daemon::Topology, &list("a:1,b:1")).is_err());
    }

    #[test]
    fn the_api_wants_no_certificates_of_its_clients() {
        let text = "[DEFAULTS]\nanalytics_api_ssl_enable = True\n";
        assert!(read(Daemon::Api, text).is_err());
        let listen =
            read(Daemon::Api, &format!("{text}analytics_api_insecure_enable = True\n")).unwrap().listen.unwrap();
        assert_eq!((listen.0.1, listen.1.is_some()), (8081, true));
        assert!(read(Daemon::Api, "[DEFAULTS]\naaa_mode = none\n").is_err());
    }

    #[test]
    fn without_a_login_the_api_and_topology_have_different_ones() {
        let of = |daemon, text: &str| read(daemon, text).unwrap().administration;
        let (api, topology) = (of(Daemon::Api, "").unwrap(), of(Daemon::Topology, "").unwrap());
        assert_eq!(api.servers, topology.servers);
        assert_ne!((api.user, api.password), (topology.user, topology.password));
        let both = "[KEYSTONE]\nadmin_user = admin\nadmin_password = s3cret\n";
        assert_eq!(of(Daemon::Api, both), of(Daemon::Topology, both));
        let elsewhere = format!("[DEFAULTS]\nanalytics_api = a:8081 b:8081\n{both}");
        assert_eq!(of(Daemon::Topology, &elsewhere).unwrap().servers, ["a:8081", "b:8081"]);
        assert_eq!(of(Daemon::SnmpCollector, both), None);
    }

    #[test]
    fn debug_shows_no_password() {
        let text = "[REDIS]\nredis_password = secret-of-redis\n[KEYSTONE]\nadmin_password = secret-of-redis\n";
        assert!(!format!("{:?}", read(Daemon::Api, text).unwrap()).contains("secret-of-redis"));
    }
}
