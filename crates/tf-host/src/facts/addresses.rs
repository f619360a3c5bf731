//! Addresses of interfaces as the kernel has them (`RTM_GETADDR`), with all that is needed to set the same elsewhere.

use std::{collections::BTreeSet, net::IpAddr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// An address of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Address {
    /// Name of the interface.
    pub link: String,
    /// The address with the prefix length of its network.
    pub address: IpNet,
    /// The other end of a point-to-point interface.
    pub peer: Option<IpAddr>,
    /// Broadcast address.
    pub broadcast: Option<IpAddr>,
    /// Label, if it differs from the interface's name.
    pub label: Option<String>,
    /// Scope: `global`, `link`, `host`, or its number.
    pub scope: String,
    /// Flags.
    pub flags: BTreeSet<Flag>,
    /// Seconds that it is still valid. None: for ever.
    pub valid: Option<u32>,
    /// Seconds that new connections may still use it. None: for ever.
    pub preferred: Option<u32>,
    /// Metric of the route to its network, if one was stated.
    pub metric: Option<u32>,
    /// Who set it, if it says so (`IFA_PROTO`): 1 and 3 the kernel, 2 a router advertisement, others programs.
    pub protocol: Option<u8>,
}

impl Address {
    /// Whether it counts for the overlay: not of the link or the host only.
    pub fn is_global(&self) -> bool {
        match self.address.addr() {
            IpAddr::V4(address) => !address.is_loopback() && !address.is_link_local(),
            IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local(),
        }
    }

    /// Whether it ends by itself.
    pub fn expires(&self) -> bool {
        self.valid.is_some()
    }
}

/// A flag of an address (`IFA_F_*` of `linux/if_addr.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flag {
    /// Another address of the same network came first; for IPv6, a temporary address.
    Secondary,
    /// No check for duplicates.
    NoDad,
    /// May be used before that check has ended.
    Optimistic,
    /// Another host has it.
    DadFailed,
    /// Mobile IPv6.
    HomeAddress,
    /// New connections do not use it.
    Deprecated,
    /// That check has not ended.
    Tentative,
    /// It has no lifetime.
    Permanent,
    /// The kernel makes temporary addresses from it.
    ManageTempAddr,
    /// Its setter makes the route to its network.
    NoPrefixRoute,
    /// Groups are joined with it.
    McAutoJoin,
    /// Made by the kernel from a secret.
    StablePrivacy,
}
