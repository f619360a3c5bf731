//! Neighbours: which MAC address an IP address on a link has (`RTM_GETNEIGH`).

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Neighbour {
    /// Interface.
    pub link: String,
    /// Its address.
    pub address: IpAddr,
    /// Its MAC address, if known.
    pub mac: Option<String>,
    /// `reachable`, `stale`, `delay`, `probe`, `incomplete`, `failed`, `permanent`, `noarp`, `none`, or its number.
    pub state: String,
    /// Whether it is a router (IPv6).
    pub router: bool,
}

impl Neighbour {
    /// Whether the kernel asked for its MAC address and nothing answered.
    pub fn has_failed(&self) -> bool {
        self.state == "failed"
    }
}
