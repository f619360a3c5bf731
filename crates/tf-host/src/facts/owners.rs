//! Who sets addresses of interfaces, as far as files and processes show. It would set them again after they were moved.

use serde::{Deserialize, Serialize};

use super::{
    links::Link,
    processes::{Process, Role},
};
use crate::root::Reader;

/// A program that has to do with an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// The interface.
    pub link: String,
    /// The program.
    pub program: Program,
    /// Whether addresses are leased. A lease ends when its owner no longer renews it.
    pub dhcp: bool,
    /// What shows it: a file or process.
    pub evidence: String,
}

/// Programs that set addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
pub enum Program {
    /// NetworkManager.
    NetworkManager,
    /// systemd-networkd, also under netplan.
    #[serde(rename = "systemd-networkd")]
    #[strum(serialize = "systemd-networkd")]
    Networkd,
    /// ifupdown of Debian.
    #[serde(rename = "ifupdown")]
    #[strum(serialize = "ifupdown")]
    Ifupdown,
    /// network-scripts of Red Hat.
    #[serde(rename = "network-scripts")]
    #[strum(serialize = "network-scripts")]
    NetworkScripts,
    /// A DHCP client that runs.
    #[serde(rename = "DHCP client")]
    #[strum(serialize = "a DHCP client")]
    DhcpClient,
}

/// Owners of all interfaces but the loopback interface.
pub(super) fn read(reader: &Reader<'_>, links: &[Link], processes: &[Process]) -> Vec<Owner> {
    let links: Vec<&Link> = links.iter().filter(|link| !link.loopback).collect();
    let mut owners: Vec<Owner> = Vec::new();
    owners.extend(links.iter().filter_map(|link| network_manager(reader, link)));
    owners.extend(links.iter().filter_map(|link| networkd(reader, link)));
    owners.extend(links.iter().filter_map(|link| network_scripts(reader, link)));
    let stanzas = interfaces(reader);
    owners.extend(stanzas.into_iter().filter(|owner| links.iter().any(|link| link.name == owner.link)));
    owners.extend(processes.iter().flat_map(|process| leased(process, &links)));
    owners
}

/// NetworkManager's state of a device: a key file by the interface's number.
fn network_manager(reader: &Reader<'_>, link: &Link) -> Option<Owner> {
    let evidence = format!("/run/NetworkManager/devices/{}", link.index);
    let text = reader.text(&evidence)?;
    let is_managed = setting(&text, "managed") == Some("true") && setting(&text, "connection-uuid").is_some();
    let dhcp = text.lines().any(|line| line.starts_with("[dhcp"))
        || reader.names("/var/lib/NetworkManager").iter().any(|name| name.ends_with(&format!("-{}.lease", link.name)));
    is_managed.then(|| Owner { link: link.name.clone(), program: Program::NetworkManager, dhcp, evidence })
}

/// networkd's state of a link: a file by the interface's number.
fn networkd(reader: &Reader<'_>, link: &Link) -> Option<Owner> {
    let evidence = format!("/run/systemd/netif/links/{}", link.index);
    let text = reader.text(&evidence)?;
    let is_managed = matches!(setting(&text, "ADMIN_STATE"), Some(state) if state != "unmanaged");
    let dhcp = reader.exists(&format!("/run/systemd/netif/leases/{}", link.index));
    is_managed.then(|| Owner { link: link.name.clone(), program: Program::Networkd, dhcp, evidence })
}

fn network_scripts(reader: &Reader<'_>, link: &Link) -> Option<Owner> {
    let evidence = format!("/etc/sysconfig/network-scripts/ifcfg-{}", link.name);
    let text = reader.text(&evidence)?;
    let plain = |key: &str| setting(&text, key).map(|value| value.trim_matches(['"', '\'']).to_ascii_lowercase());
    let is_left_alone =
        plain("NM_CONTROLLED").as_deref() == Some("no") && plain("BOOTPROTO").as_deref() == Some("none");
    let has_address = text.lines().any(|line| line.starts_with("IPADDR"));
    let dhcp = plain("BOOTPROTO").as_deref() == Some("dhcp");
    (!is_left_alone || has_address || dhcp).then(|| Owner {
        link: link.name.clone(),
        program: Program::NetworkScripts,
        dhcp,
        evidence,
    })
}

/// `iface NAME inet METHOD` of interfaces(5), if the machine uses ifupdown: it keeps the interfaces that it has set up.
fn interfaces(reader: &Reader<'_>) -> Vec<Owner> {
    let state = reader.text("/run/network/ifstate").unwrap_or_default();
    let is_up = |name: &str| state.lines().any(|line| line.split('=').next() == Some(name));
    let more = reader.names("/etc/network/interfaces.d");
    let more = more.iter().map(|name| format!("/etc/network/interfaces.d/{name}"));
    let mut owners = Vec::new();
    for file in std::iter::once("/etc/network/interfaces".to_owned()).chain(more) {
        for line in reader.text(&file).unwrap_or_default().lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let ["iface", link, "inet", method, ..] = words[..]
                && matches!(method, "static" | "dhcp")
                && is_up(link)
            {
                let (link, evidence) = (link.to_owned(), file.clone());
                owners.push(Owner { link, program: Program::Ifupdown, dhcp: method == "dhcp", evidence });
            }
        }
    }
    owners
}

/// Interfaces that a DHCP client's arguments name. One that names none serves all it finds, which nothing shows.
fn leased(process: &Process, links: &[&Link]) -> Vec<Owner> {
    if process.role != Role::DhcpClient {
        return Vec::new();
    }
    let evidence = format!("process {} ({})", process.id, process.name);
    let named = links.iter().filter(|link| process.arguments.contains(&link.name));
    let owner = |link: &&Link| {
        let (link, evidence) = (link.name.clone(), evidence.clone());
        Owner { link, program: Program::DhcpClient, dhcp: true, evidence }
    };
    named.map(owner).collect()
}

/// The value of `KEY=value`.
fn setting<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let value = text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='))?;
    Some(value.trim()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{processes, tree};

    fn owners(files: &[(&str, &str)]) -> Vec<(String, Program, bool)> {
        let link = |name: &str, index| Link { name: name.into(), index, ..Link::default() };
        let links = [link("eth0", 2), link("eth1", 3), Link { loopback: true, ..link("lo", 1) }];
        let found = tree::read(files, |reader| read(reader, &links, &processes::read(reader)));
        found.into_iter().map(|owner| (owner.link, owner.program, owner.dhcp)).collect()
    }

    #[test]
    fn who_sets_an_address_is_seen_in_files_and_processes() {
        let eth0 = || "eth0".to_owned();
        for (files, expected) in [
            (
                &[("/run/NetworkManager/devices/2", "[device]\nmanaged=true\nconnection-uuid=4b\n[dhcp4]\n")][..],
                vec![(eth0(), Program::NetworkManager, true)],
            ),
            (&[("/run/NetworkManager/devices/2", "[device]\nmanaged=false\n")], vec![]),
            (
                &[
                    ("/run/systemd/netif/links/2", "ADMIN_STATE=configured\n"),
                    ("/run/systemd/netif/links/3", "ADMIN_STATE=unmanaged\n"),
                    ("/run/systemd/netif/leases/2", "ADDRESS=10.0.0.7\n"),
                ],
                vec![(eth0(), Program::Networkd, true)],
            ),
            (
                &[
                    ("/etc/network/interfaces", "auto eth0\niface eth0 inet static\n  address 10.0.0.7/24\n"),
                    ("/etc/network/interfaces.d/eth1", "iface eth1 inet dhcp\n"),
                    ("/run/network/ifstate", "lo=lo\neth0=eth0\n"),
                ],
                vec![(eth0(), Program::Ifupdown, false)],
            ),
            (
                &[("/etc/sysconfig/network-scripts/ifcfg-eth0", "BOOTPROTO=\"dhcp\"\nDEVICE=eth0\n")],
                vec![(eth0(), Program::NetworkScripts, true)],
            ),
            (&[("/etc/sysconfig/network-scripts/ifcfg-eth0", "NM_CONTROLLED=no\nBOOTPROTO=none\n")], vec![]),
            (
                &[("/proc/12/comm", "dhclient\n"), ("/proc/12/cmdline", "dhclient\0-v\0eth0\0")],
                vec![(eth0(), Program::DhcpClient, true)],
            ),
            (&[("/proc/12/comm", "dhclient\n"), ("/proc/12/cmdline", "dhclient\0")], vec![]),
        ] {
            assert_eq!(owners(files), expected, "{files:?}");
        }
    }
}
