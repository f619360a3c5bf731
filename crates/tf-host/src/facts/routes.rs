//! Routes of all tables but `local`, for IPv4 and IPv6 (`RTM_GETROUTE`).

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// The table that routes are in unless another one is stated.
pub const MAIN: u32 = 254;

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// Number of the table.
    pub table: u32,
    /// Where it leads; `0.0.0.0/0` or `::/0` for the default route.
    pub destination: IpNet,
    /// Sources that it is for, if not for all.
    pub from: Option<IpNet>,
    /// `unicast`, `blackhole`, `unreachable`, `prohibit`, `throw`, or its number.
    pub kind: String,
    /// Who made it, as `ip route` says: `kernel`, `static`, `dhcp`, `ra`, ... or its number.
    pub protocol: String,
    /// `global`, `link`, `host`, or its number.
    pub scope: String,
    /// Type of service that it is for; 0 for all.
    pub tos: u8,
    /// The smallest wins.
    pub metric: Option<u32>,
    /// Source address of what this host sends.
    pub source: Option<IpAddr>,
    /// Next hops: several for a multipath route, none for a `blackhole`.
    pub hops: Vec<Hop>,
    /// Numbers of `RTA_METRICS` by the names of `ip route`: `mtu`, `advmss`, `initcwnd`, ...
    pub metrics: BTreeMap<String, u32>,
    /// Seconds until it ends. None: never.
    pub expires: Option<u32>,
    /// Preference of a router advertisement: `low`, `medium`, `high`.
    pub preference: Option<String>,
    /// Whether it has something that is not listed here: another header (MPLS, segment routing), a realm, a congestion algorithm.
    pub incomplete: bool,
    /// Number of the next-hop object that it uses (`ip nexthop`).
    pub next_hop_object: Option<u32>,
}

/// A next hop of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hop {
    /// Interface.
    pub link: String,
    /// The router; none where destinations are on the link.
    pub gateway: Option<IpAddr>,
    /// Share of a multipath route, 1 and more.
    pub weight: u16,
    /// Whether the router counts as on the link whatever addresses say.
    pub onlink: bool,
}

impl Route {
    /// Whether it leads everywhere.
    pub fn is_default(&self) -> bool {
        self.destination.prefix_len() == 0 && self.kind == "unicast"
    }

    /// Whether a hop of it uses an interface.
    pub fn is_over(&self, link: &str) -> bool {
        self.hops.iter().any(|hop| hop.link == link)
    }
}
