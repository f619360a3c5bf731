//! Kernel settings that decide whether packets and tables of the vRouter work (sysctl).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::network::{Network, VHOST0};
use crate::root::Reader;

/// Of the whole host.
const GLOBAL: [&str; 9] = [
    "kernel.core_pattern",
    "net.core.wmem_max",
    "net.ipv4.ip_forward",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv6.conf.all.disable_ipv6",
    "net.ipv6.conf.all.forwarding",
    "vm.max_map_count",
];

/// Of an interface, for IPv4.
const IPV4: [&str; 8] = [
    "accept_local",
    "arp_announce",
    "arp_filter",
    "arp_ignore",
    "forwarding",
    "promote_secondaries",
    "rp_filter",
    "src_valid_mark",
];

/// Of an interface, for IPv6.
const IPV6: [&str; 7] = [
    "accept_ra",
    "accept_ra_rt_info_max_plen",
    "addr_gen_mode",
    "autoconf",
    "forwarding",
    "keep_addr_on_down",
    "use_tempaddr",
];

/// Kernel settings. One that this kernel does not have is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Sysctls {
    /// Of the whole host, by their names.
    pub global: BTreeMap<String, String>,
    /// Of `all`, `default`, `vhost0` and interfaces with addresses: `ipv4.rp_filter` and so on.
    pub links: BTreeMap<String, BTreeMap<String, String>>,
}

impl Sysctls {
    pub(super) fn read(reader: &Reader<'_>, network: &Network) -> Self {
        let global = |name: &str| Some((name.to_owned(), reader.value(&path(name))?));
        let with_addresses = network.addresses.iter().map(|address| address.link.as_str());
        let links: BTreeSet<&str> = with_addresses.chain(["all", "default", VHOST0]).collect();
        let of_link = |link: &&str| {
            let settings = IPV4.map(|name| ("ipv4", name)).into_iter().chain(IPV6.map(|name| ("ipv6", name)));
            let read = |(family, name)| {
                let value = reader.value(&format!("/proc/sys/net/{family}/conf/{link}/{name}"))?;
                Some((format!("{family}.{name}"), value))
            };
            let found: BTreeMap<_, _> = settings.filter_map(read).collect();
            (!found.is_empty()).then(|| ((*link).to_owned(), found))
        };
        Self {
            global: GLOBAL.into_iter().filter_map(global).collect(),
            links: links.iter().filter_map(of_link).collect(),
        }
    }

    /// The number of an interface's setting: `ipv4.rp_filter`.
    pub fn of(&self, link: &str, name: &str) -> Option<i64> {
        self.links.get(link)?.get(name)?.parse().ok()
    }
}

fn path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{addresses::Address, tree};

    #[test]
    fn settings_of_interfaces_with_a_dot_in_their_names_are_read() {
        let address = Address {
            link: "eth0.100".into(),
            address: "10.0.0.7/24".parse().unwrap(),
            peer: None,
            broadcast: None,
            label: None,
            scope: "global".into(),
            flags: [].into(),
            valid: None,
            preferred: None,
            metric: None,
            protocol: None,
        };
        let network = Network { addresses: vec![address], ..Network::default() };
        let sysctls = tree::read(
            &[
                ("/proc/sys/net/ipv4/conf/eth0.100/rp_filter", "1\n"),
                ("/proc/sys/net/ipv6/conf/all/accept_ra", "1\n"),
                ("/proc/sys/net/ipv4/conf/eth9/rp_filter", "1\n"),
                ("/proc/sys/vm/max_map_count", "65530\n"),
            ],
            |reader| Sysctls::read(reader, &network),
        );
        assert_eq!(sysctls.of("eth0.100", "ipv4.rp_filter"), Some(1));
        assert_eq!(sysctls.links.keys().collect::<Vec<_>>(), ["all", "eth0.100"]);
        assert_eq!(sysctls.global, [("vm.max_map_count".to_owned(), "65530".to_owned())].into());
    }
}
