//! What the files say to contrail-control and contrail-dns (docs/upstream/control.md#daemons-of-control), which end at whatever they do not know.

use std::{
    net::{IpAddr, SocketAddrV4},
    path::PathBuf,
};

use crate::{
    boost::{Boost, Fault},
    exit::Exit,
    options::{Cassandra, Pair, Rabbitmq, RabbitmqTls, Tls},
};

/// A daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    /// contrail-control.
    Control,
    /// contrail-dns.
    Dns,
}

impl Daemon {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Control, Self::Dns];

    /// Name of the program, and of the module in NodeStatus.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Control => "contrail-control",
            Self::Dns => "contrail-dns",
        }
    }

    /// How it ends at a file that it does not take: contrail-control with -1, contrail-dns by an exception that nobody catches.
    const fn code(self) -> u8 {
        match self {
            Self::Control => 255,
            Self::Dns => 134,
        }
    }

    /// Options of its own, as its `options.cc` and `dns_options.cc` declare them.
    const fn own(self) -> &'static [&'static str] {
        match self {
            Self::Control => &[
                "CONFIGDB.config_db_use_etcd",
                "DEFAULT.bgp_config_file",
                "DEFAULT.bgp_port",
                "DEFAULT.gr_helper_bgp_disable",
                "DEFAULT.gr_helper_xmpp_disable",
                "DEFAULT.mvpn_ipv4_enable",
                "DEFAULT.optimize_snat",
                "DEFAULT.task_track_run_time",
                "DEFAULT.tcp_hold_time",
                "DEFAULT.xmpp_auth_enable",
                "DEFAULT.xmpp_server_port",
            ],
            Self::Dns => &[
                "DEFAULT.dns_config_file",
                "DEFAULT.dns_server_port",
                "DEFAULT.named_config_directory",
                "DEFAULT.named_config_file",
                "DEFAULT.named_log_file",
                "DEFAULT.named_max_cache_size",
                "DEFAULT.named_max_retransmissions",
                "DEFAULT.named_retransmission_interval",
                "DEFAULT.rndc_config_file",
                "DEFAULT.rndc_secret",
                "DEFAULT.xmpp_dns_auth_enable",
            ],
        }
    }
}

/// Options of both, and of the library for introspection and collectors.
const COMMON: [&str; 48] = [
    "CONFIGDB.config_db_ca_certs",
    "CONFIGDB.config_db_password",
    "CONFIGDB.config_db_server_list",
    "CONFIGDB.config_db_use_ssl",
    "CONFIGDB.config_db_username",
    "CONFIGDB.rabbitmq_password",
    "CONFIGDB.rabbitmq_server_list",
    "CONFIGDB.rabbitmq_ssl_ca_certs",
    "CONFIGDB.rabbitmq_ssl_certfile",
    "CONFIGDB.rabbitmq_ssl_keyfile",
    "CONFIGDB.rabbitmq_ssl_version",
    "CONFIGDB.rabbitmq_use_ssl",
    "CONFIGDB.rabbitmq_user",
    "CONFIGDB.rabbitmq_vhost",
    COLLECTORS,
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
    "DEFAULT.sandesh_send_rate_limit",
    "DEFAULT.syslog_facility",
    "DEFAULT.test_mode",
    "DEFAULT.use_syslog",
    "DEFAULT.xmpp_ca_cert",
    "DEFAULT.xmpp_server_cert",
    "DEFAULT.xmpp_server_key",
    "SANDESH.disable_object_logs",
    "SANDESH.introspect_ssl_enable",
    "SANDESH.introspect_ssl_insecure",
    "SANDESH.sandesh_ca_cert",
    "SANDESH.sandesh_certfile",
    "SANDESH.sandesh_keyfile",
    "SANDESH.sandesh_server_certfile",
    "SANDESH.sandesh_server_keyfile",
    "SANDESH.sandesh_ssl_enable",
    "SANDESH.tcp_keepalive_enable",
    "SANDESH.tcp_keepalive_idle_time",
    "SANDESH.tcp_keepalive_interval",
    "SANDESH.tcp_keepalive_probes",
    "STATS.stats_collector",
];
const COLLECTORS: &str = "DEFAULT.collectors";
/// Options that are lists; every other one stands there once.
const LISTS: [&str; 3] = [COLLECTORS, "CONFIGDB.config_db_server_list", "CONFIGDB.rabbitmq_server_list"];
/// The built-in collector, with which nobody waits for one.
const BUILT_IN: &str = "127.0.0.1:8086";

/// What a daemon goes by.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who it is.
    pub daemon: Daemon,
    /// Its address.
    pub address: IpAddr,
    /// The name of its node.
    pub name: String,
    /// Where introspection listens, and what it shows if it speaks TLS.
    pub introspect: ((IpAddr, u16), Option<Pair>),
    /// Collectors with port, unless it is the built-in one alone.
    pub collectors: Vec<String>,
    /// TLS to collectors, if it is spoken.
    pub collector_tls: Tls,
    /// The database.
    pub cassandra: Cassandra,
    /// The message bus.
    pub rabbitmq: Rabbitmq,
    /// Port for agents, whom contrail-dns awaits where no option says otherwise.
    pub xmpp: u16,
    /// TLS with agents, if it is spoken.
    pub xmpp_tls: Tls,
    /// Port for BGP, which only one of them speaks.
    pub bgp: Option<u16>,
    /// The name server of the other one.
    pub named: Option<Named>,
}

/// How contrail-dns tells the name server what to do.
#[derive(Clone, PartialEq, Eq)]
pub struct Named {
    /// Its configuration.
    pub file: PathBuf,
    /// How it is told to read it.
    pub rndc: PathBuf,
    /// The key of that.
    pub secret: String,
    /// Its log.
    pub log: String,
    /// Its port for machines.
    pub port: u16,
}

impl std::fmt::Debug for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on port {}", self.file.display(), self.port)
    }
}

impl Options {
    /// Reads the file.
    ///
    /// # Errors
    /// What ends the daemon.
    pub fn read(daemon: Daemon, text: &str) -> Result<Self, Exit> {
        Self::of(daemon, text).map_err(|fault| Exit { code: daemon.code(), why: fault.to_string() })
    }

    fn of(daemon: Daemon, text: &str) -> Result<Self, Fault> {
        let boost = Boost::read(text)?;
        boost.only(|name| COMMON.contains(&name) || daemon.own().contains(&name))?;
        for name in COMMON.iter().chain(daemon.own()).filter(|name| !LISTS.contains(name)) {
            boost.text(name)?;
        }
        for name in ["log_local", "log_disable", "use_syslog", "test_mode"].map(|name| format!("DEFAULT.{name}")) {
            boost.flag(&name)?;
        }
        let listen = boost.parsed("DEFAULT.http_server_ip")?.unwrap_or(IpAddr::from([0, 0, 0, 0]));
        let port = |name, default| Ok::<u16, Fault>(boost.parsed(name)?.unwrap_or(default));
        let (introspect, xmpp, switch) = match daemon {
            Daemon::Control => (8083, port("DEFAULT.xmpp_server_port", 5269)?, "DEFAULT.xmpp_auth_enable"),
            Daemon::Dns => (8092, 8093, "DEFAULT.xmpp_dns_auth_enable"),
        };
        let introspect = port("DEFAULT.http_server_port", introspect)?;
        let pair = pair(&boost, "SANDESH.sandesh_server_certfile", "SANDESH.sandesh_server_keyfile")?;
        let is_tls = boost.flag("SANDESH.introspect_ssl_enable")?.unwrap_or(false);
        boost.flag("SANDESH.introspect_ssl_insecure")?;
        Ok(Self {
            daemon,
            address: boost.parsed("DEFAULT.hostip")?.ok_or_else(|| missing("DEFAULT.hostip"))?,
            name: given(&boost, "DEFAULT.hostname")?.ok_or_else(|| missing("DEFAULT.hostname"))?,
            introspect: ((listen, introspect), is_tls.then_some(pair)),
            collectors: collectors(daemon, &boost)?,
            collector_tls: tls(
                &boost,
                "SANDESH.sandesh_ssl_enable",
                ["SANDESH.sandesh_certfile", "SANDESH.sandesh_keyfile", "SANDESH.sandesh_ca_cert"],
            )?,
            cassandra: cassandra(&boost)?,
            rabbitmq: rabbitmq(&boost)?,
            xmpp,
            xmpp_tls: tls(
                &boost,
                switch,
                ["DEFAULT.xmpp_server_cert", "DEFAULT.xmpp_server_key", "DEFAULT.xmpp_ca_cert"],
            )?,
            bgp: (daemon == Daemon::Control).then(|| port("DEFAULT.bgp_port", 179)).transpose()?,
            named: (daemon == Daemon::Dns).then(|| named(&boost)).transpose()?,
        })
    }
}

fn missing(name: &str) -> Fault {
    Fault::Value(name.to_owned())
}

pub(crate) fn given(boost: &Boost, name: &str) -> Result<Option<String>, Fault> {
    Ok(boost.text(name)?.filter(|value| !value.is_empty()).map(str::to_owned))
}

pub(crate) fn pair(boost: &Boost, certificate: &str, key: &str) -> Result<Pair, Fault> {
    let file = |name, default: &str| Ok::<_, Fault>(given(boost, name)?.unwrap_or_else(|| default.to_owned()).into());
    let certificate = file(certificate, "/etc/contrail/ssl/certs/server.pem")?;
    Ok(Pair { certificate, key: file(key, "/etc/contrail/ssl/private/server-privkey.pem")? })
}

pub(crate) fn tls(boost: &Boost, switch: &str, [certificate, key, authorities]: [&str; 3]) -> Result<Tls, Fault> {
    if !boost.flag(switch)?.unwrap_or(false) {
        return Ok(None);
    }
    let authorities = given(boost, authorities)?.unwrap_or_else(|| "/etc/contrail/ssl/certs/ca-cert.pem".into());
    Ok(Some((pair(boost, certificate, key)?, authorities.into())))
}

/// contrail-control takes nothing but IPv4 addresses with ports (upstream `address_util.cc`); contrail-dns does not look, and finds no other.
fn collectors(daemon: Daemon, boost: &Boost) -> Result<Vec<String>, Fault> {
    let listed = boost.list(COLLECTORS);
    if daemon == Daemon::Control && listed.iter().any(|item| item.parse::<SocketAddrV4>().is_err()) {
        return Err(Fault::Value(COLLECTORS.to_owned()));
    }
    Ok(if listed == [BUILT_IN] { Vec::new() } else { listed })
}

/// What stands before the first colon is the server, and before the second one the port (upstream `config_db_client.cc`).
pub(crate) fn server(item: &str) -> (String, u16) {
    let mut parts = item.split(':').filter(|part| !part.is_empty());
    let mut part = || parts.next().unwrap_or_default();
    (part().to_owned(), part().parse().unwrap_or_default())
}

pub(crate) fn cassandra(boost: &Boost) -> Result<Cassandra, Fault> {
    let servers: Vec<(String, u16)> =
        boost.list("CONFIGDB.config_db_server_list").iter().map(|item| server(item)).collect();
    let login = given(boost, "CONFIGDB.config_db_username")?.zip(given(boost, "CONFIGDB.config_db_password")?);
    Ok(Cassandra {
        port: servers.first().map_or(9042, |(_, port)| *port),
        listed: servers.len(),
        hosts: servers.into_iter().map(|(host, _)| host).collect(),
        tls: boost.flag("CONFIGDB.config_db_use_ssl")?.unwrap_or(false),
        authorities: given(boost, "CONFIGDB.config_db_ca_certs")?.map(PathBuf::from),
        login,
    })
}

pub(crate) fn rabbitmq(boost: &Boost) -> Result<Rabbitmq, Fault> {
    let text = |name: &str, default: &str| {
        let value = given(boost, &format!("CONFIGDB.rabbitmq_{name}"))?;
        Ok::<_, Fault>(value.unwrap_or_else(|| default.to_owned()))
    };
    let file = |name: &str| Ok::<_, Fault>(given(boost, &format!("CONFIGDB.rabbitmq_ssl_{name}"))?.map(PathBuf::from));
    let pair = file("certfile")?.zip(file("keyfile")?).map(|(certificate, key)| Pair { certificate, key });
    let tls = RabbitmqTls { has_version: true, pair, authorities: file("ca_certs")? };
    let servers = boost.list("CONFIGDB.rabbitmq_server_list");
    Ok(Rabbitmq {
        servers: servers.iter().map(|item| server(item)).map(|(host, port)| format!("{host}:{port}")).collect(),
        user: text("user", "guest")?,
        password: text("password", "guest")?,
        vhost: text("vhost", "/")?,
        // It has no option for them.
        heartbeat: 0,
        tls: boost.flag("CONFIGDB.rabbitmq_use_ssl")?.unwrap_or(false).then_some(tls),
    })
}

fn named(boost: &Boost) -> Result<Named, Fault> {
    let text = |name: &str, default: &str| {
        Ok::<_, Fault>(given(boost, &format!("DEFAULT.{name}"))?.unwrap_or_else(|| default.to_owned()))
    };
    let folder = PathBuf::from(text("named_config_directory", "/etc/contrail/dns")?);
    Ok(Named {
        file: folder.join(text("named_config_file", "contrail-named.conf")?),
        rndc: folder.join(text("rndc_config_file", "contrail-rndc.conf")?),
        secret: text("rndc_secret", "xvysmOR8lnUQRBcunkC6vg==")?,
        log: text("named_log_file", "/var/log/contrail/contrail-named.log")?,
        port: boost.parsed("DEFAULT.dns_server_port")?.unwrap_or(53),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(daemon: Daemon, more: &str) -> Result<Options, Exit> {
        Options::read(daemon, &format!("[DEFAULT]\nhostip = 10.0.0.1\nhostname = n\n{more}\n"))
    }

    fn control(more: &str) -> Options {
        read(Daemon::Control, more).unwrap()
    }

    #[test]
    fn the_least_file_has_the_defaults() {
        let (control, dns) = (control(""), read(Daemon::Dns, "").unwrap());
        assert_eq!((control.bgp, control.xmpp, control.introspect.0.1), (Some(179), 5269, 8083));
        assert_eq!((dns.bgp, dns.xmpp, dns.introspect.0.1), (None, 8093, 8092));
        let named = dns.named.unwrap();
        assert_eq!((named.port, named.file), (53, "/etc/contrail/dns/contrail-named.conf".into()));
        assert!(control.named.is_none() && control.collectors.is_empty() && control.xmpp_tls.is_none());
    }

    #[test]
    fn what_the_other_one_knows_ends_this_one() {
        for (daemon, option, code) in [
            (Daemon::Control, "rndc_secret = a", 255),
            (Daemon::Dns, "bgp_port = 179", 134),
            (Daemon::Control, "nothing = x", 255),
            (Daemon::Control, "HOSTNAME = x", 255),
            (Daemon::Dns, "[ELSEWHERE]\nhostip = x", 134),
        ] {
            let exit = read(daemon, option).unwrap_err();
            assert!(exit.code == code && exit.why.contains("unrecognised option"), "{option}: {exit:?}");
        }
    }

    #[test]
    fn a_scalar_stands_there_once_and_a_list_may_go_on() {
        let exit = read(Daemon::Control, "[CONFIGDB]\nrabbitmq_user = a\nrabbitmq_user = a").unwrap_err();
        assert!(exit.why.contains("multiple_occurrences"), "{exit:?}");
        let options = control("[CONFIGDB]\nconfig_db_server_list = a:1 b:2\nconfig_db_server_list = c:3");
        assert_eq!(
            (options.cassandra.hosts.as_slice(), options.cassandra.port),
            (["a", "b", "c"].map(String::from).as_slice(), 1)
        );
    }

    #[test]
    fn collectors_are_addresses_with_ports_and_the_built_in_one_is_none() {
        for list in ["collector.example:8086", "[fd00::1]:8086", "10.0.0.1", "10.0.0.1:8086,10.0.0.2:8086"] {
            assert!(read(Daemon::Control, &format!("collectors = {list}")).is_err(), "{list}");
        }
        assert_eq!(control("collectors = 10.0.0.1:1 10.0.0.2:1").collectors.len(), 2);
        assert!(control("collectors = 127.0.0.1:8086").collectors.is_empty());
    }

    #[test]
    fn an_ipv6_address_of_a_store_is_cut_at_its_colons() {
        let options = control("[CONFIGDB]\nrabbitmq_server_list = [fd00::1]:5673 mq:5673");
        assert_eq!(options.rabbitmq.servers, ["[fd00:0", "mq:5673"]);
    }

    #[test]
    fn a_number_sign_cuts_a_password_and_no_value_is_quoted() {
        assert_eq!(control("[CONFIGDB]\nrabbitmq_password = hunter#2").rabbitmq.password, "hunter");
        let exit = read(Daemon::Control, "bgp_port = hunter").unwrap_err();
        assert!(!exit.why.contains("hunter"), "{exit:?}");
    }
}
