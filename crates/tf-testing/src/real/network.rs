//! Addresses of a lab with real nodes, and the commands that make its network.
//!
//! A lab takes one unused 10.N.0.0/16 of the machine:
//!
//! | Address | Whose |
//! | --- | --- |
//! | 10.N.0.1 | the machine's end: the API server listens here, and tests are here |
//! | 10.N.0.2 | the router |
//! | 10.N.1.K | node K, from 1 to 127 |
//! | 10.N.128+K.0/24 | pods of node K |
//!
//! The router is a network namespace of its own to which every node has a link, as hosts have in a routed fabric. Nothing
//! of the network but one veth device is in the machine's own namespace: no bridge, no rule, no parameter. That device
//! ends with the router's namespace, and its name, which only one lab can take, is the claim to the range.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

/// Second octets to choose from: the end of 10.0.0.0/8, which people number from its beginning.
const NUMBERS: std::ops::RangeInclusive<u8> = 200..=254;

/// The network of one lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Second octet of its addresses.
    number: u8,
}

impl Network {
    /// The highest number of a node.
    pub const MAX_NODES: u8 = 127;

    /// Networks that overlap with no route of the machine, by what `/proc/net/route` says.
    pub fn unused(routes: &str) -> impl Iterator<Item = Self> {
        let taken = destinations(routes);
        NUMBERS.map(|number| Self { number }).filter(move |network| {
            let range = network.range();
            !taken.iter().any(|other| other.contains(&range) || range.contains(other))
        })
    }

    /// All of its addresses.
    pub fn range(self) -> Ipv4Net {
        Ipv4Net::new_assert(self.address(0, 0), 16)
    }

    /// Where the API server listens.
    pub fn api_server(self) -> Ipv4Addr {
        self.address(0, 1)
    }

    /// What routes between the nodes and the API server.
    pub fn router(self) -> Ipv4Addr {
        self.address(0, 2)
    }

    /// Node `number`.
    pub fn node(self, number: u8) -> Ipv4Addr {
        self.address(1, number)
    }

    /// Pods of node `number`.
    pub fn pods(self, number: u8) -> Ipv4Net {
        Ipv4Net::new_assert(self.address(128 + number, 0), 24)
    }

    /// Pods of all nodes.
    pub fn all_pods(self) -> Ipv4Net {
        Ipv4Net::new_assert(self.address(128, 0), 17)
    }

    /// The lab's device in the machine's own namespace.
    pub fn device(self) -> String {
        format!("tf-lab-{}", self.number)
    }

    /// Arguments of `ip` that claim the network for the router, whose namespace process `router` is in.
    pub fn claim(self, router: i32) -> [String; 10] {
        let (device, router) = (self.device(), router.to_string());
        let words = ["link", "add", &device, "type", "veth", "peer", "name", "api", "netns", &router];
        words.map(str::to_owned)
    }

    /// Commands for `ip -batch` in the machine's namespace, behind the claim.
    pub fn on_machine(self) -> String {
        let (device, address, router, range) = (self.device(), self.api_server(), self.router(), self.range());
        format!("address add {address}/30 dev {device}\nlink set {device} up\nroute add {range} via {router}\n")
    }

    /// Commands for `ip -batch` on the router. To an address without a node it is silent, as a network is to one whose
    /// machine is without power.
    pub fn on_router(self) -> String {
        let (address, range) = (self.router(), self.range());
        format!("link set lo up\naddress add {address}/30 dev api\nlink set api up\nroute add blackhole {range}\n")
    }

    /// Commands for `ip -batch` on the router that link node `number`, called `name`, whose namespace process `pid` is in.
    pub fn link(self, name: &str, number: u8, pid: i32) -> String {
        let (node, pods) = (self.node(number), self.pods(number));
        format!(
            "link add {name} type veth peer name eth0 netns {pid}\nlink set {name} up\n\
             route add {node} dev {name}\nroute add {pods} via {node} dev {name}\n"
        )
    }

    /// Commands for `ip -batch` on node `number`, behind the link.
    pub fn on_node(self, number: u8) -> String {
        let (node, router) = (self.node(number), self.router());
        format!(
            "link set lo up\naddress add {node}/32 dev eth0\nlink set eth0 up\n\
             route add {router} dev eth0 scope link\nroute add default via {router}\n"
        )
    }

    fn address(self, third: u8, fourth: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, self.number, third, fourth)
    }
}

/// Destinations of a table as `/proc/net/route` shows it (addresses in hexadecimal, first octet last), without default
/// routes.
fn destinations(routes: &str) -> Vec<Ipv4Net> {
    let address = |field: &str| Some(Ipv4Addr::from(u32::from_str_radix(field, 16).ok()?.swap_bytes()));
    let destination = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        Ipv4Net::with_netmask(address(fields.get(1)?)?, address(fields.get(7)?)?).ok()
    };
    routes.lines().filter_map(destination).filter(|found| found.prefix_len() > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
tf-lab-200\t0000C80A\t0200C80A\t0003\t0\t0\t0\t0000FFFF\t0\t0\t0
vpn\t0407CA0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
";

    #[test]
    fn a_network_overlaps_with_no_route_but_the_default() {
        let numbers: Vec<u8> = Network::unused(ROUTES).map(|network| network.number).collect();
        assert_eq!(numbers[..2], [201, 203]);
        assert_eq!(numbers.len(), NUMBERS.count() - 2);
        assert_eq!(
            Network::unused("other\t0000000A\t0\t0\t0\t0\t0\t000000FF\n").count(),
            0,
            "all of 10.0.0.0/8 is routed"
        );
    }

    #[test]
    fn no_two_nodes_share_an_address_and_all_are_in_range() {
        let network = Network { number: 200 };
        for number in 1..=Network::MAX_NODES {
            assert!(network.range().contains(&network.node(number)) && network.range().contains(&network.pods(number)));
            assert!(network.all_pods().contains(&network.pods(number)));
            assert!(!network.all_pods().contains(&network.node(number)));
        }
        assert_ne!(network.pods(1), network.pods(2));
        assert!(network.device().len() <= 15, "the kernel's limit");
    }
}
