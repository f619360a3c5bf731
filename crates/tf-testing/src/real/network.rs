//! Addresses of a lab with real nodes, and the commands that make its network.
//!
//! A lab takes one unused 10.N.0.0/16 of the machine, or one fd10:N::/32 where it has IPv6 alone. In those the same numbers
//! stand in the same places, N, K and 128+K as hexadecimal ones:
//!
//! | Address | With IPv6 | Whose |
//! | --- | --- | --- |
//! | 10.N.0.1 | fd10:N::1 | the machine's end: the API server listens here, and tests are here |
//! | 10.N.0.2 | fd10:N::2 | the router |
//! | 10.N.1.K | fd10:N:1::K | node K, from 1 to 127 |
//! | 10.N.128+K.0/24 | fd10:N:128+K::/64 | pods of node K |
//!
//! The router is a network namespace of its own to which every node has a link, as hosts have in a routed fabric. Nothing
//! of the network but one veth device is in the machine's own namespace: no bridge, no rule, no parameter. That device
//! ends with the router's namespace, and its name, which only one lab can take, is the claim to the range. Nobody else
//! can have its addresses, so that none is looked for before it is used (nodad).

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::options::IpFamily;

/// What tells ranges apart: a second octet from the end of 10.0.0.0/8, which people number from its beginning.
const NUMBERS: std::ops::RangeInclusive<u8> = 200..=254;

/// The network of one lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// What tells its addresses from those of other labs.
    number: u8,
    /// Their family.
    #[serde(default)]
    family: IpFamily,
}

impl Network {
    /// The highest number of a node.
    pub const MAX_NODES: u8 = 127;

    /// Networks that overlap with no route of the machine, by what its table of this family ([`routes`]) says.
    pub fn unused(family: IpFamily, routes: &str) -> impl Iterator<Item = Self> {
        let taken = destinations(family, routes);
        NUMBERS.map(move |number| Self { number, family }).filter(move |network| {
            let range = network.range();
            !taken.iter().any(|other| other.contains(&range) || range.contains(other))
        })
    }

    /// The family of its addresses.
    pub fn family(self) -> IpFamily {
        self.family
    }

    /// All of its addresses.
    pub fn range(self) -> IpNet {
        self.net(0, 0, (16, 32))
    }

    /// Where the API server listens.
    pub fn api_server(self) -> IpAddr {
        self.address(0, 1)
    }

    /// What routes between the nodes and the API server.
    pub fn router(self) -> IpAddr {
        self.address(0, 2)
    }

    /// Node `number`.
    pub fn node(self, number: u8) -> IpAddr {
        self.address(1, number)
    }

    /// Pods of node `number`.
    pub fn pods(self, number: u8) -> IpNet {
        self.net(128 + number, 0, (24, 64))
    }

    /// Pods of all nodes.
    pub fn all_pods(self) -> IpNet {
        self.net(128, 0, (17, 41))
    }

    /// The program that filters its packets.
    pub fn packet_filter(self) -> &'static str {
        match self.family {
            IpFamily::V4 => "iptables",
            IpFamily::V6 => "ip6tables",
        }
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
        let (device, router, range) = (self.device(), self.router(), self.range());
        let own = self.own(self.end(self.api_server()));
        format!("address add {own} dev {device}\nlink set {device} up\nroute add {range} via {router}\n")
    }

    /// Commands for `ip -batch` on the router. To an address without a node it is silent, as a network is to one whose
    /// machine is without power.
    pub fn on_router(self) -> String {
        let (own, range) = (self.own(self.end(self.router())), self.range());
        format!("link set lo up\naddress add {own} dev api\nlink set api up\nroute add blackhole {range}\n")
    }

    /// Commands for `ip -batch` on the router that link node `number`, called `name`, whose namespace process `pid` is in.
    pub fn link(self, name: &str, number: u8, pid: i32) -> String {
        let (node, pods) = (self.node(number), self.pods(number));
        // Over IPv4 the router answers for its address wherever it is asked, over IPv6 only where it has it.
        let address = match self.family {
            IpFamily::V4 => String::new(),
            IpFamily::V6 => format!("address add {} dev {name}\n", self.own(self.router().into())),
        };
        format!(
            "link add {name} type veth peer name eth0 netns {pid}\n{address}link set {name} up\n\
             route add {node} dev {name}\nroute add {pods} via {node} dev {name}\n"
        )
    }

    /// Commands for `ip -batch` on node `number`, behind the link.
    pub fn on_node(self, number: u8) -> String {
        let (own, router) = (self.own(self.node(number).into()), self.router());
        format!(
            "link set lo up\naddress add {own} dev eth0\nlink set eth0 up\n\
             route add {router} dev eth0 scope link\nroute add default via {router}\n"
        )
    }

    /// An end of the link between the machine and the router.
    fn end(self, address: IpAddr) -> IpNet {
        IpNet::new_assert(address, self.length((30, 126)))
    }

    /// An address of one's own, as `ip address add` takes it.
    fn own(self, address: IpNet) -> String {
        match self.family {
            IpFamily::V4 => address.to_string(),
            IpFamily::V6 => format!("{address} nodad"),
        }
    }

    fn net(self, third: u8, fourth: u8, lengths: (u8, u8)) -> IpNet {
        IpNet::new_assert(self.address(third, fourth), self.length(lengths))
    }

    /// The one of two lengths of a prefix that is of the family.
    fn length(self, (v4, v6): (u8, u8)) -> u8 {
        match self.family {
            IpFamily::V4 => v4,
            IpFamily::V6 => v6,
        }
    }

    fn address(self, third: u8, fourth: u8) -> IpAddr {
        match self.family {
            IpFamily::V4 => Ipv4Addr::new(10, self.number, third, fourth).into(),
            IpFamily::V6 => Ipv6Addr::new(0xfd10, self.number.into(), third.into(), 0, 0, 0, 0, fourth.into()).into(),
        }
    }
}

/// Whether this machine gives addresses of a family to network devices: containers of CI often have no IPv6.
pub fn has(family: IpFamily) -> bool {
    match family {
        IpFamily::V4 => true,
        IpFamily::V6 => fs::read_to_string("/proc/net/if_inet6").is_ok_and(|addresses| !addresses.is_empty()),
    }
}

/// Where the kernel shows the machine's routes of a family.
pub fn routes(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "/proc/net/route",
        IpFamily::V6 => "/proc/net/ipv6_route",
    }
}

/// Destinations of a table as [`routes`] shows it (addresses in hexadecimal, those of IPv4 with the first octet last), without
/// default routes.
fn destinations(family: IpFamily, routes: &str) -> Vec<IpNet> {
    let v4 = |field: &str| Some(Ipv4Addr::from(u32::from_str_radix(field, 16).ok()?.swap_bytes()).into());
    let v6 = |field: &str| Some(Ipv6Addr::from(u128::from_str_radix(field, 16).ok()?).into());
    let destination = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match family {
            IpFamily::V4 => IpNet::with_netmask(v4(fields.get(1)?)?, v4(fields.get(7)?)?).ok(),
            IpFamily::V6 => IpNet::new(v6(fields.first()?)?, u8::from_str_radix(fields.get(1)?, 16).ok()?).ok(),
        }
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

    const ROUTES_6: &str = "\
fd1000c8000000000000000000000000 20 00000000000000000000000000000000 00 fd1000c8000000000000000000000002 00000400 1 0 00000003 tf-lab-200
fd1000ca0001000000000000000000ff 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000400 1 0 00000001      vpn
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fd000000000000000000000000000001 00000400 1 0 00000003     eth0
";

    fn numbers(family: IpFamily, routes: &str) -> Vec<u8> {
        Network::unused(family, routes).map(|network| network.number).collect()
    }

    #[test]
    fn a_network_overlaps_with_no_route_but_the_default() {
        for (family, routes) in [(IpFamily::V4, ROUTES), (IpFamily::V6, ROUTES_6)] {
            let numbers = numbers(family, routes);
            assert_eq!(numbers[..2], [201, 203], "{family:?}");
            assert_eq!(numbers.len(), NUMBERS.count() - 2);
        }
        let all = numbers(IpFamily::V4, "other\t0000000A\t0\t0\t0\t0\t0\t000000FF\n");
        assert!(all.is_empty(), "all of 10.0.0.0/8 is routed");
    }

    #[test]
    fn no_two_nodes_share_an_address_and_all_are_in_range() {
        for family in [IpFamily::V4, IpFamily::V6] {
            let network = Network { number: 200, family };
            for number in 1..=Network::MAX_NODES {
                let (node, pods) = (network.node(number), network.pods(number));
                assert!(network.range().contains(&node) && network.range().contains(&pods));
                assert!(network.all_pods().contains(&pods));
                assert!(!network.all_pods().contains(&node));
            }
            assert_ne!(network.pods(1), network.pods(2));
            assert!(network.device().len() <= 15, "the kernel's limit");
        }
    }

    #[test]
    fn a_node_s_commands_name_addresses_of_the_lab_s_family_alone() {
        let on_node = |family| Network { number: 200, family }.on_node(10);
        assert_eq!(
            on_node(IpFamily::V4),
            "link set lo up\naddress add 10.200.1.10/32 dev eth0\nlink set eth0 up\n\
             route add 10.200.0.2 dev eth0 scope link\nroute add default via 10.200.0.2\n"
        );
        assert_eq!(
            on_node(IpFamily::V6),
            "link set lo up\naddress add fd10:c8:1::a/128 nodad dev eth0\nlink set eth0 up\n\
             route add fd10:c8::2 dev eth0 scope link\nroute add default via fd10:c8::2\n"
        );
    }

    #[test]
    fn the_router_is_asked_for_over_every_link_and_has_its_ipv6_address_on_each() {
        let link = |family| Network { number: 200, family }.link("node-10", 10, 7);
        assert_eq!(
            link(IpFamily::V4),
            "link add node-10 type veth peer name eth0 netns 7\nlink set node-10 up\n\
             route add 10.200.1.10 dev node-10\nroute add 10.200.138.0/24 via 10.200.1.10 dev node-10\n"
        );
        assert_eq!(
            link(IpFamily::V6),
            "link add node-10 type veth peer name eth0 netns 7\naddress add fd10:c8::2/128 nodad dev node-10\n\
             link set node-10 up\nroute add fd10:c8:1::a dev node-10\nroute add fd10:c8:8a::/64 via fd10:c8:1::a dev node-10\n"
        );
    }
}
