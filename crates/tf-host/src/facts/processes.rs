//! Programs that matter to the vRouter. Of a container without the host's processes, only its own are visible.

use serde::{Deserialize, Serialize};

use crate::root::Reader;

/// What each of these programs does to a vRouter, by the beginning of its name (the kernel keeps 15 letters).
const KNOWN: [(&str, Role); 12] = [
    ("dhclient", Role::DhcpClient),
    ("dhcpcd", Role::DhcpClient),
    ("udhcpc", Role::DhcpClient),
    ("NetworkManager", Role::NetworkManager),
    ("systemd-network", Role::Networkd),
    ("contrail-vroute", Role::VrouterAgent),
    ("contrail-vrouter-agent", Role::VrouterAgent),
    ("contrail-vrouter-dpdk", Role::VrouterDpdk),
    ("ovs-vswitchd", Role::OpenVswitch),
    ("firewalld", Role::Firewalld),
    ("dockerd", Role::Docker),
    ("vpp_main", Role::Vpp),
];

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Leases addresses.
    DhcpClient,
    /// Sets up interfaces.
    NetworkManager,
    /// Sets up interfaces: systemd-networkd.
    Networkd,
    /// The vRouter's agent.
    VrouterAgent,
    /// The vRouter's forwarder.
    VrouterDpdk,
    /// Another data plane.
    OpenVswitch,
    /// Another data plane.
    Vpp,
    /// Filters packets.
    Firewalld,
    /// Runs containers beside those of Kubernetes.
    Docker,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// What it does.
    pub role: Role,
    /// Arguments of a DHCP client, which name interfaces. Of other programs none are kept: they may hold passwords.
    pub arguments: Vec<String>,
}

/// Programs that matter, by their numbers.
pub(super) fn read(reader: &Reader<'_>) -> Vec<Process> {
    let mut ids: Vec<u32> = reader.names("/proc").iter().filter_map(|name| name.parse().ok()).collect();
    ids.sort_unstable();
    ids.into_iter().filter_map(|id| process(reader, id)).collect()
}

fn process(reader: &Reader<'_>, id: u32) -> Option<Process> {
    let name = reader.value(&format!("/proc/{id}/comm"))?;
    let (_, role) = KNOWN.iter().find(|(known, _)| *known == name)?;
    // Of another user's process the kernel may refuse it; then it names no interface.
    let line = reader.try_text(&format!("/proc/{id}/cmdline")).unwrap_or_default();
    let mut words = line.split('\0').filter(|word| !word.is_empty()).map(str::to_owned);
    let program = words.next().and_then(|path| Some(path.rsplit('/').next()?.to_owned()));
    // The kernel shortens contrail-vrouter-agent and contrail-vrouter-dpdk to the same name.
    let full = program.filter(|program| program.starts_with(&name)).unwrap_or(name);
    let role = KNOWN.iter().find(|(known, _)| *known == full).map_or(*role, |(_, role)| *role);
    let arguments = if role == Role::DhcpClient { words.collect() } else { Vec::new() };
    Some(Process { id, name: full, role, arguments })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tree;

    #[test]
    fn programs_are_known_by_their_full_names_and_only_dhcp_clients_keep_arguments() {
        let found = tree::read(
            &[
                ("/proc/12/comm", "dhclient\n"),
                ("/proc/12/cmdline", "/sbin/dhclient\0-4\0eth0\0"),
                ("/proc/900/comm", "contrail-vroute\n"),
                ("/proc/900/cmdline", "/usr/bin/contrail-vrouter-dpdk\0--no-daemon\0"),
                ("/proc/7/comm", "bash\n"),
                ("/proc/8/comm", "NetworkManager\n"),
                ("/proc/self/comm", "x\n"),
            ],
            read,
        );
        let told: Vec<_> = found.iter().map(|found| (found.id, found.name.as_str(), found.role)).collect();
        assert_eq!(
            told,
            [
                (8, "NetworkManager", Role::NetworkManager),
                (12, "dhclient", Role::DhcpClient),
                (900, "contrail-vrouter-dpdk", Role::VrouterDpdk),
            ]
        );
        assert_eq!(found[1].arguments, ["-4", "eth0"]);
        assert_eq!(found[2].arguments, [""; 0]);
    }
}
