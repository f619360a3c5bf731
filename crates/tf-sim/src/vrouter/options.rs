//! What the file says to contrail-vrouter-agent (docs/upstream/vrouter.md#agent-file).

use std::{net::IpAddr, path::PathBuf};

use crate::{
    boost::{Boost, Fault},
    exit::{Exit, exception},
    options::Pair,
};

/// Options that are one value, with what they have to be. What else stands there is ignored.
const FLAGS: [&str; 7] = [
    "DEFAULT.log_local",
    "DEFAULT.xmpp_auth_enable",
    "DEFAULT.xmpp_dns_auth_enable",
    "METADATA.metadata_use_ssl",
    "SANDESH.introspect_ssl_enable",
    "SANDESH.introspect_ssl_insecure",
    "SANDESH.sandesh_ssl_enable",
];
const NUMBERS: [&str; 3] = ["DEFAULT.http_server_port", "DEFAULT.rest_port", "FLOWS.fabric_snat_hash_table_size"];
const DESTINATIONS: [&str; 3] = ["collector", "file", "syslog"];

/// What the agent goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Its name, and that of its node.
    pub name: String,
    /// Where introspection listens, and what it shows if it speaks TLS.
    pub introspect: ((IpAddr, u16), Option<Pair>),
    /// Port for the CNI plugin, on all addresses.
    pub rest: u16,
    /// Control nodes with port.
    pub control: Vec<String>,
    /// DNS servers with port.
    pub dns: Vec<String>,
    /// Collectors with port.
    pub collectors: Vec<String>,
    /// What control nodes are shown, with the authorities they are judged by, if TLS is spoken to them.
    pub xmpp_tls: Option<(Pair, PathBuf)>,
    /// The same for collectors.
    pub collector_tls: Option<(Pair, PathBuf)>,
    /// Name of the interface that the kernel module makes.
    pub vhost0: String,
    /// Its address with the prefix length; none with several uplinks.
    pub ip: Option<(IpAddr, u8)>,
    /// The node's own addresses in the overlay.
    pub addresses: Vec<IpAddr>,
    /// Physical interfaces.
    pub interfaces: Vec<String>,
}

impl From<Fault> for Exit {
    fn from(fault: Fault) -> Self {
        exception(fault.to_string())
    }
}

impl Options {
    /// Reads the file.
    ///
    /// # Errors
    /// What ends the agent.
    pub fn read(text: &str) -> Result<Self, Exit> {
        let boost = Boost::read(text)?;
        for name in FLAGS {
            boost.flag(name)?;
        }
        for name in NUMBERS {
            boost.parsed::<u16>(name)?;
        }
        for name in ["SESSION.slo_destination", "SESSION.sample_destination"] {
            if boost.list(name).iter().any(|word| !DESTINATIONS.contains(&word.as_str())) {
                // With a code that tells nobody of it (docs/upstream/vrouter.md#values-that-end-the-agent).
                return Err(Exit { code: 0, why: format!("{name}: no such destination") });
            }
        }
        let on = |name| Ok::<_, Fault>(boost.flag(name)?.unwrap_or(false));
        let pair = |certificate, key| {
            let file = |name| Ok::<_, Fault>(boost.text(name)?.filter(|path| !path.is_empty()).map(PathBuf::from));
            Ok::<_, Fault>(file(certificate)?.zip(file(key)?).map(|(certificate, key)| Pair { certificate, key }))
        };
        let tls = |switch, certificate, key, authorities| {
            let shown = pair(certificate, key)?.zip(boost.text(authorities)?.map(PathBuf::from));
            match (on(switch)?, shown) {
                (false, _) => Ok(None),
                (true, Some(shown)) => Ok(Some(shown)),
                (true, None) => Err(exception(format!("{switch} without certificate, key and authorities"))),
            }
        };
        let introspect_tls = if on("SANDESH.introspect_ssl_enable")? {
            let pair = pair("SANDESH.sandesh_server_certfile", "SANDESH.sandesh_server_keyfile")?;
            Some(pair.ok_or_else(|| exception("SANDESH.introspect_ssl_enable without certificate and key"))?)
        } else {
            None
        };
        let listen = boost.parsed("DEFAULT.http_server_ip")?.unwrap_or(IpAddr::from([0, 0, 0, 0]));
        Ok(Self {
            name: name(&boost)?,
            introspect: ((listen, boost.parsed("DEFAULT.http_server_port")?.unwrap_or(8085)), introspect_tls),
            rest: boost.parsed("DEFAULT.rest_port")?.unwrap_or(9091),
            control: servers(&boost, "CONTROL-NODE.servers")?,
            dns: servers(&boost, "DNS.servers")?,
            collectors: servers(&boost, "DEFAULT.collectors")?,
            xmpp_tls: tls(
                "DEFAULT.xmpp_auth_enable",
                "DEFAULT.xmpp_server_cert",
                "DEFAULT.xmpp_server_key",
                "DEFAULT.xmpp_ca_cert",
            )?,
            collector_tls: tls(
                "SANDESH.sandesh_ssl_enable",
                "SANDESH.sandesh_certfile",
                "SANDESH.sandesh_keyfile",
                "SANDESH.sandesh_ca_cert",
            )?,
            vhost0: boost.text("VIRTUAL-HOST-INTERFACE.name")?.unwrap_or("vhost0").to_owned(),
            ip: address(&boost)?,
            addresses: addresses(&boost, "VIRTUAL-HOST-INTERFACE.compute_node_address")?,
            interfaces: boost.list("VIRTUAL-HOST-INTERFACE.physical_interface"),
        })
    }
}

/// Both options have to be the name of one object in the config API (docs/upstream/daemons.md#names).
fn name(boost: &Boost) -> Result<String, Exit> {
    let [host, agent] = ["DEFAULT.hostname", "DEFAULT.agent_name"].map(|name| boost.text(name));
    match (host?, agent?) {
        (Some(host), Some(agent)) if host == agent && !host.is_empty() => Ok(host.to_owned()),
        _ => Err(exception("DEFAULT.hostname and DEFAULT.agent_name are not one name")),
    }
}

/// A prefix length of a single host is refused, and a list of gateways with something else in it ends the agent
/// (docs/upstream/vrouter.md#values-that-end-the-agent).
fn address(boost: &Boost) -> Result<Option<(IpAddr, u8)>, Exit> {
    addresses(boost, "VIRTUAL-HOST-INTERFACE.gateway")?;
    let Some(text) = boost.text("VIRTUAL-HOST-INTERFACE.ip")? else { return Ok(None) };
    let read = text.split_once('/').and_then(|(address, prefix)| Some((address.parse().ok()?, prefix.parse().ok()?)));
    match read {
        Some((address, prefix)) if prefix < 32 => Ok(Some((address, prefix))),
        _ => Err(exception("VIRTUAL-HOST-INTERFACE.ip: no address with a prefix length below 32")),
    }
}

fn addresses(boost: &Boost, name: &str) -> Result<Vec<IpAddr>, Exit> {
    let items = boost.list(name);
    items.iter().map(|item| item.parse().map_err(|_| exception(format!("{name}: no address")))).collect()
}

/// `host:port`; a comma is part of a host and never resolved.
fn servers(boost: &Boost, name: &str) -> Result<Vec<String>, Exit> {
    let servers = boost.list(name);
    let is_server = |server: &String| {
        let parts = server.rsplit_once(':');
        parts.is_some_and(|(host, port)| !host.is_empty() && !host.contains(',') && port.parse::<u16>().is_ok())
    };
    if servers.iter().all(is_server) { Ok(servers) } else { Err(exception(format!("{name}: no servers with ports"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = "[DEFAULT]\nhostname = n\nagent_name = n\n";

    fn read(more: &str) -> Result<Options, Exit> {
        Options::read(&format!("{LEAST}{more}\n"))
    }

    #[test]
    fn the_least_file_has_the_defaults_and_names_nobody() {
        let options = read("").unwrap();
        assert_eq!((options.name.as_str(), options.rest, options.introspect.0.1), ("n", 9091, 8085));
        assert!(options.control.is_empty() && options.collectors.is_empty() && options.xmpp_tls.is_none());
    }

    #[test]
    fn unknown_options_are_ignored_and_known_ones_stand_there_once() {
        assert!(read("nothing = x\n[ELSEWHERE]\nrest_port = y").is_ok());
        assert!(
            read("rest_port = 1\nrest_port = 2").unwrap_err().why.contains("multiple_occurrences: DEFAULT.rest_port")
        );
        assert_eq!(read("collectors = a:1\ncollectors = b:2 c:3").unwrap().collectors, ["a:1", "b:2", "c:3"]);
    }

    #[test]
    fn a_number_sign_begins_a_comment_wherever_it_stands() {
        assert_eq!(read("rest_port = 1#2").unwrap().rest, 1);
    }

    #[test]
    fn what_is_not_of_its_type_ends_the_agent() {
        for text in [
            "rest_port =",
            "rest_port = 70000",
            "log_local = perhaps",
            "http_server_ip = all",
            "collectors = a:1,b:1",
            "collectors = a",
            "no sign",
            "[VIRTUAL-HOST-INTERFACE]\nip = 10.0.0.1/32",
            "[VIRTUAL-HOST-INTERFACE]\nip = 10.0.0.1",
            "[VIRTUAL-HOST-INTERFACE]\ngateway = 10.0.0.1,10.0.0.2",
            "xmpp_auth_enable = true",
            "[SANDESH]\nintrospect_ssl_enable = on",
        ] {
            assert_eq!(read(text).unwrap_err().code, 1, "{text}");
        }
        assert_eq!(Options::read("[DEFAULT]\nhostname = a\nagent_name = b\n").unwrap_err().code, 1);
        for text in ["yes", "ON", "0"] {
            assert!(read(&format!("log_local = {text}")).is_ok(), "{text}");
        }
    }

    #[test]
    fn another_destination_ends_it_with_the_code_of_success() {
        assert_eq!(read("[SESSION]\nslo_destination = collector kafka").unwrap_err().code, 0);
        assert!(read("[SESSION]\nsample_destination = file syslog").is_ok());
    }
}
