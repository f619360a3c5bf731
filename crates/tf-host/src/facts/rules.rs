//! Rules that choose the table of routes (`RTM_GETRULE`).

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// Whether it is for IPv6.
    pub ipv6: bool,
    /// The smallest is looked at first.
    pub priority: u32,
    /// Sources that it is for.
    pub from: Option<IpNet>,
    /// Destinations that it is for.
    pub to: Option<IpNet>,
    /// Interface that packets come from; `lo` for those of this host.
    pub incoming: Option<String>,
    /// Interface that a socket is bound to.
    pub outgoing: Option<String>,
    /// Mark of packets and its mask.
    pub mark: Option<(u32, u32)>,
    /// Type of service; 0 for all.
    pub tos: u8,
    /// `lookup`, `blackhole`, `unreachable`, `prohibit`, `goto`, `nop`, or its number.
    pub action: String,
    /// Table, for `lookup`.
    pub table: Option<u32>,
    /// Whether it is for what does not match.
    pub inverted: bool,
    /// Whether the table is that of the VRF of the interface.
    pub vrf: bool,
    /// Who made it, as with routes.
    pub protocol: Option<String>,
    /// Whether it has something that is not listed here: ports, users, a rule to go on with.
    pub incomplete: bool,
}

impl Rule {
    /// Whether the kernel has it on its own: all packets, priorities 0, 32766 and 32767, and 1000 for VRFs.
    pub fn is_default(&self) -> bool {
        let is_for_all = self.from.is_none()
            && self.to.is_none()
            && self.incoming.is_none()
            && self.outgoing.is_none()
            && self.mark.is_none()
            && self.tos == 0
            && !self.inverted;
        is_for_all
            && (self.vrf
                || matches!((self.priority, self.table), (0, Some(255)) | (32766, Some(254)) | (32767, Some(253))))
    }
}
