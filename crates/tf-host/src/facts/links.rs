//! Network interfaces as the kernel has them (`RTM_GETLINK`), in this network namespace.

use serde::{Deserialize, Serialize};

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Link {
    /// Name.
    pub name: String,
    /// The kernel's number of it.
    pub index: u32,
    /// Kind of a virtual interface (`bond`, `vlan`, `vhost`, ...). None for hardware.
    pub kind: Option<String>,
    /// Interface that this one is a port or member of.
    pub master: Option<String>,
    /// Interface below this one: of a VLAN, macvlan, or the other end of a veth pair. None if it is in another network namespace.
    pub parent: Option<String>,
    /// MAC address. None where there is none.
    pub mac: Option<String>,
    /// MAC address of the hardware, whatever was set since.
    pub permanent_mac: Option<String>,
    /// Bytes.
    pub mtu: u32,
    /// Whether it is set up.
    pub up: bool,
    /// Whether there is a signal. Only known while it is up.
    pub carrier: bool,
    /// Whether it is the loopback interface.
    pub loopback: bool,
    /// Whether it has frames of Ethernet.
    pub ethernet: bool,
    /// VLAN id.
    pub vlan: Option<u16>,
    /// Settings of a bond.
    pub bond: Option<Bond>,
    /// Whether an XDP program is attached.
    pub xdp: bool,
    /// Queueing discipline with filters for what arrives: `clsact` or `ingress`.
    pub ingress: Option<String>,
}

/// Settings of a bond.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Bond {
    /// As the kernel names it: `802.3ad`, `active-backup`, ...
    pub mode: String,
    /// Whether the bond's MAC address is that of the active member.
    pub mac_of_active_member: bool,
    /// What chooses the member for a packet, as the kernel names it: `layer2`, `layer3+4`, ...
    pub policy: String,
    /// Whether members ask for LACP every second (`lacp_rate fast`).
    pub fast: bool,
}
