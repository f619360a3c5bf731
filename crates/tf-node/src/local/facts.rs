//! What a node is for the vRouter, from what the kernel tells and what the operator wants (docs/upstream/vrouter.md#parameters). Pure.
//!
//! The interface that carries the overlay is the first of these: the one with the stated address, one with an address in the stated
//! network, `vhost0`, the stated physical one, the one towards the first control node, that of the default route. Once there is a `vhost0` it has taken over
//! address and MAC address of the interface below it, which is found by the latter.

use std::{collections::BTreeMap, net::IpAddr, path::Path};

use anyhow::{Context as _, Result};
use ipnet::IpNet;
use tf_agent_api::{
    host::{STATE_DIR, TAKEN},
    node::PARAMETERS_FILE,
    template::Local,
};
use tf_config_files::env;
use tf_host::{
    Root,
    journal::{self, Journal},
};

use super::host::{Host, Link};

/// The interface that the kernel module makes.
const VHOST0: &str = "vhost0";
const HUGE_PAGES_2M: u64 = 2 << 20;
const HUGE_PAGES_1G: u64 = 1 << 30;

// Variables of the parameters' file, as the agent's image calls them.
const ADDRESS: &str = "VROUTER_COMPUTE_NODE_ADDRESS";
const CONTROL_NODES: &str = "CONTROL_NODES";
const HOSTNAME: &str = "VROUTER_HOSTNAME";
const INTERFACES: &str = "PHYSICAL_INTERFACE";
const L3MH: &str = "L3MH_CIDR";
const MODE: &str = "AGENT_MODE";
const SUBNET: &str = "DATA_SUBNET";
/// The mode in which a program has the interface.
const DPDK: &str = "dpdk";

/// What values of placeholders come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// What the kernel tells.
    pub host: Host,
    /// The operator's parameters.
    pub parameters: BTreeMap<String, String>,
    /// Name of the Node.
    pub node: String,
}

/// An interface with the address that others reach the node by.
struct Carrier<'a> {
    link: &'a Link,
    address: IpNet,
}

impl Facts {
    /// Looks at the node. `parameters`: the operator's file, if there is one.
    ///
    /// # Errors
    /// When the file cannot be read, or the kernel does not tell.
    pub fn look(parameters: Option<&[u8]>, node: &str) -> Result<Self> {
        let text = std::str::from_utf8(parameters.unwrap_or_default()).context(PARAMETERS_FILE)?;
        let parameters = env::parse(text).context(PARAMETERS_FILE)?;
        let facts = Self { host: Host::default(), parameters, node: node.to_owned() };
        let control = facts.items(CONTROL_NODES).next().and_then(|first| first.parse().ok());
        let mut host = Host::look(control)?;
        host.below_vhost0 = Journal::uplink(&Path::new(STATE_DIR).join(journal::FILE), &Root::default());
        if facts.parameter(MODE) == Some(DPDK) {
            host = host.with_hardware(&Path::new(STATE_DIR).join(TAKEN))?;
        }
        Ok(Self { host, ..facts })
    }

    /// The value of a placeholder; none where the node has none and the file is right without.
    ///
    /// # Errors
    /// Why the node cannot tell, and what to state instead.
    pub fn value(&self, local: Local) -> Result<Option<String>, String> {
        match local {
            Local::Name => self.name().map(Some),
            Local::Address => Ok(Some(self.carrier()?.address.addr().to_string())),
            Local::Cidr => self.cidr().map(Some),
            Local::ControlAddress => match self.host.towards_control {
                Some(address) => Ok(Some(address.to_string())),
                None => self.value(Local::Address),
            },
            Local::Interfaces => Ok(Some(joined(self.uplinks()?.iter().map(|link| link.name.clone())))),
            Local::Macs => self.macs().map(Some),
            Local::PciAddresses => self.pci_addresses().map(Some),
            Local::InterfaceCidrs => self.interface_cidrs().map(Some),
            Local::Gateway => self.gateways(),
            Local::HugePages2M => Ok(self.host.huge_pages.get(&HUGE_PAGES_2M).cloned()),
            Local::HugePages1G => Ok(self.host.huge_pages.get(&HUGE_PAGES_1G).cloned()),
        }
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn items(&self, name: &str) -> impl Iterator<Item = &str> {
        let separated = self.parameter(name).unwrap_or_default().split([',', ' ']);
        separated.filter(|item| !item.is_empty())
    }

    fn name(&self) -> Result<String, String> {
        let stated = self.parameter(HOSTNAME).unwrap_or(&self.node);
        if stated.is_empty() { Err("the pod has no name of its node".into()) } else { Ok(stated.to_owned()) }
    }

    /// Interfaces, `vhost0` first: while addresses move to it they may be on both.
    fn links(&self) -> impl Iterator<Item = &Link> {
        let (first, others): (Vec<_>, Vec<_>) = self.host.links.iter().partition(|link| link.name == VHOST0);
        first.into_iter().chain(others)
    }

    fn link(&self, name: &str) -> Option<&Link> {
        self.host.links.iter().find(|link| link.name == name)
    }

    fn network(&self, name: &str) -> Result<Option<IpNet>, String> {
        let Some(stated) = self.parameter(name) else { return Ok(None) };
        stated.parse().map(Some).map_err(|_| format!("{name} is no network"))
    }

    /// Where the overlay is carried.
    fn carrier(&self) -> Result<Carrier<'_>, String> {
        let with = |is_it: &dyn Fn(&IpNet) -> bool| {
            self.links().find_map(|link| {
                let address = link.addresses.iter().find(|address| is_it(address))?;
                Some(Carrier { link, address: *address })
            })
        };
        if let Some(stated) = self.parameter(ADDRESS) {
            let address: IpAddr = stated.parse().map_err(|_| format!("{ADDRESS} is no address"))?;
            return with(&|found| found.addr() == address)
                .ok_or_else(|| format!("no interface has {address}, which {ADDRESS} states"));
        }
        for name in [SUBNET, L3MH] {
            if let Some(network) = self.network(name)? {
                return with(&|found| network.contains(&found.addr())).ok_or_else(|| {
                    let has = joined(self.links().flat_map(|link| &link.addresses).map(ToString::to_string));
                    format!("no interface has an address in {network}, which {name} states; the node has {has}")
                });
            }
        }
        if let Some(carrier) = self.link(VHOST0).and_then(carried) {
            return Ok(carrier);
        }
        if let Some(link) = self.stated_uplinks()?.first() {
            return carried(link).ok_or_else(|| no_address(link));
        }
        if let Some(carrier) = self.host.towards_control.and_then(|own| with(&|found| found.addr() == own)) {
            return Ok(carrier);
        }
        let route = self.host.routes.first().ok_or_else(|| {
            format!("no default route and no {VHOST0} shows which interface to use; state {INTERFACES} or {SUBNET}")
        })?;
        let link = self.link(&route.link).ok_or_else(|| format!("the node has no interface {}", route.link))?;
        carried(link).ok_or_else(|| no_address(link))
    }

    /// The address with a prefix length that the agent takes: one of a single host it refuses (docs/upstream/vrouter.md#values-that-end-the-agent).
    fn cidr(&self) -> Result<String, String> {
        let Carrier { link, address } = self.carrier()?;
        if address.prefix_len() < address.max_prefix_len() {
            return Ok(address.to_string());
        }
        match self.network(SUBNET)? {
            Some(network) if network.prefix_len() < network.max_prefix_len() => {
                Ok(format!("{}/{}", address.addr(), network.prefix_len()))
            }
            _ => Err(format!(
                "{} has {address}, and the agent does not take the network of a single host; state {SUBNET}",
                link.name
            )),
        }
    }

    fn stated_uplinks(&self) -> Result<Vec<&Link>, String> {
        let find = |name: &str| {
            self.link(name).ok_or_else(|| {
                let has = joined(self.host.links.iter().map(|link| link.name.clone()));
                format!("{INTERFACES} states an interface that the node does not have; it has {has}")
            })
        };
        self.items(INTERFACES).map(find).collect()
    }

    /// The physical interfaces below `vhost0`.
    fn uplinks(&self) -> Result<Vec<&Link>, String> {
        let stated = self.stated_uplinks()?;
        if !stated.is_empty() {
            return Ok(stated);
        }
        if self.parameter(L3MH).is_some() {
            return Err(format!("several uplinks are found by {INTERFACES} only; state it"));
        }
        let carrier = self.carrier()?.link;
        if carrier.name != VHOST0 {
            return Ok(vec![carrier]);
        }
        let is_below =
            |link: &&Link| link.name != VHOST0 && !link.enslaved && link.mac.is_some() && link.mac == carrier.mac;
        let below: Vec<&Link> = self.host.links.iter().filter(is_below).collect();
        let noted = below.iter().find(|link| Some(&link.name) == self.host.below_vhost0.as_ref());
        match noted.map_or(&below[..], std::slice::from_ref) {
            [link] => Ok(vec![*link]),
            [] => Err(format!("no interface has the MAC address of {VHOST0}; state {INTERFACES}")),
            _ => {
                let names = joined(below.iter().map(|link| link.name.clone()));
                Err(format!("{names} have the MAC address of {VHOST0}; state which of them is {INTERFACES}"))
            }
        }
    }

    fn macs(&self) -> Result<String, String> {
        let mac = |link: &&Link| link.mac.clone().ok_or_else(|| format!("{} has no MAC address", link.name));
        Ok(self.uplinks()?.iter().map(mac).collect::<Result<Vec<_>, _>>()?.join(" "))
    }

    fn pci_addresses(&self) -> Result<String, String> {
        let of_link = |link: &&Link| {
            let found = self.host.pci.get(&link.name).filter(|found| !found.is_empty());
            found.map(|found| found.join(",")).ok_or_else(|| format!("{} is not on PCI", link.name))
        };
        Ok(self.uplinks()?.iter().map(of_link).collect::<Result<Vec<_>, _>>()?.join(" "))
    }

    fn interface_cidrs(&self) -> Result<String, String> {
        let cidr = |link: &&Link| carried(link).map(|found| found.address.to_string()).ok_or_else(|| no_address(link));
        Ok(self.uplinks()?.iter().map(cidr).collect::<Result<Vec<_>, _>>()?.join(" "))
    }

    /// Gateways of the default routes over these interfaces, or over `vhost0` above them.
    fn gateways(&self) -> Result<Option<String>, String> {
        let uplinks = self.uplinks()?;
        let is_ours = |name: &str| name == VHOST0 || uplinks.iter().any(|link| link.name == name);
        let routes = self.host.routes.iter().filter(|route| is_ours(&route.link));
        let mut gateways: Vec<String> = Vec::new();
        for gateway in routes.filter_map(|route| Some(route.gateway?.to_string())) {
            if !gateways.contains(&gateway) {
                gateways.push(gateway);
            }
        }
        // One uplink has one.
        gateways.truncate(uplinks.len());
        Ok((!gateways.is_empty()).then(|| gateways.join(" ")))
    }
}

/// What an interface carries: its first IPv4 address, which the overlay prefers, else its first one of more than the link.
fn carried(link: &Link) -> Option<Carrier<'_>> {
    let is_of_link = |address: &IpAddr| matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    let mut usable = link.addresses.iter().filter(|address| !is_of_link(&address.addr()));
    let address = usable.clone().find(|address| address.addr().is_ipv4()).or_else(|| usable.next())?;
    Some(Carrier { link, address: *address })
}

fn no_address(link: &Link) -> String {
    format!("interface {} has no address", link.name)
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use strum::VariantArray as _;

    use super::*;
    use crate::local::host::DefaultRoute;

    fn link(name: &str, mac: &str, addresses: &[&str]) -> Link {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Link { name: name.into(), mac: (!mac.is_empty()).then(|| mac.into()), enslaved: false, addresses }
    }

    fn route(link: &str, gateway: [u8; 4], metric: u32) -> DefaultRoute {
        DefaultRoute { link: link.into(), gateway: Some(gateway.into()), metric }
    }

    const MAC: &str = "52:54:00:00:00:01";
    const OTHER: &str = "52:54:00:00:00:02";

    /// A node with a management and a fabric network.
    fn node(parameters: &[(&str, &str)]) -> Facts {
        let links = vec![
            link("lo", "", &["127.0.0.1/8"]),
            link("eth0", MAC, &["fe80::1/64", "10.0.0.7/24"]),
            link("eth1", OTHER, &["10.1.0.7/16"]),
        ];
        let host = Host { links, routes: vec![route("eth0", [10, 0, 0, 1], 0)], ..Host::default() };
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Facts { host, parameters, node: "node-1".into() }
    }

    /// The same once the module has made `vhost0` above an interface.
    fn with_vhost0(mut facts: Facts, above: &str) -> Facts {
        let below = facts.host.links.iter_mut().find(|link| link.name == above).unwrap();
        let vhost0 = Link { name: VHOST0.into(), addresses: std::mem::take(&mut below.addresses), ..below.clone() };
        facts.host.links.push(vhost0);
        facts.host.routes.iter_mut().filter(|route| route.link == above).for_each(|route| route.link = VHOST0.into());
        facts
    }

    fn told(facts: &Facts) -> [String; 5] {
        [Local::Address, Local::Cidr, Local::Interfaces, Local::Macs, Local::Gateway]
            .map(|local| facts.value(local).unwrap().unwrap_or_else(|| "none".into()))
    }

    #[test]
    fn an_interface_is_the_same_before_and_after_vhost0_is_above_it() {
        let fabric = &[(SUBNET, "10.1.0.0/16")][..];
        for (parameters, above, expected) in [
            (&[][..], "eth0", ["10.0.0.7", "10.0.0.7/24", "eth0", MAC, "10.0.0.1"]),
            (fabric, "eth1", ["10.1.0.7", "10.1.0.7/16", "eth1", OTHER, "none"]),
            (&[(INTERFACES, "eth1")], "eth1", ["10.1.0.7", "10.1.0.7/16", "eth1", OTHER, "none"]),
            (&[(ADDRESS, "10.1.0.7")], "eth1", ["10.1.0.7", "10.1.0.7/16", "eth1", OTHER, "none"]),
        ] {
            assert_eq!(told(&node(parameters)), expected, "{parameters:?}");
            assert_eq!(told(&with_vhost0(node(parameters), above)), expected, "{parameters:?} with vhost0");
        }
    }

    #[test]
    fn an_interface_that_a_forwarder_has_is_known_by_what_was_recorded() {
        let mut facts = with_vhost0(node(&[]), "eth0");
        facts.host.pci = [("eth0".to_owned(), vec!["0000:03:00.0".to_owned(), "0000:03:00.1".to_owned()])].into();
        assert_eq!(facts.value(Local::Interfaces), Ok(Some("eth0".into())));
        assert_eq!(facts.value(Local::PciAddresses), Ok(Some("0000:03:00.0,0000:03:00.1".into())));
        facts.host.pci.clear();
        assert_eq!(facts.value(Local::PciAddresses), Err("eth0 is not on PCI".into()));
    }

    #[test]
    fn the_way_to_the_control_nodes_goes_before_the_default_route() {
        let mut facts = node(&[]);
        facts.host.towards_control = Some([10, 1, 0, 7].into());
        assert_eq!(told(&facts)[..3], ["10.1.0.7", "10.1.0.7/16", "eth1"]);
        assert_eq!(facts.value(Local::ControlAddress), Ok(Some("10.1.0.7".into())));
        assert_eq!(node(&[]).value(Local::ControlAddress), Ok(Some("10.0.0.7".into())), "none is known");
    }

    #[test]
    fn an_address_that_is_on_both_counts_as_that_of_vhost0() {
        let mut facts = node(&[(ADDRESS, "10.0.0.7")]);
        facts.host.links[1].addresses = vec!["10.0.0.7/32".parse().unwrap()];
        facts.host.links.push(link(VHOST0, MAC, &["10.0.0.7/24"]));
        assert_eq!(told(&facts), ["10.0.0.7", "10.0.0.7/24", "eth0", MAC, "10.0.0.1"]);
    }

    #[test]
    fn the_network_of_a_single_host_gives_way_to_the_stated_one() {
        let with = |parameters| {
            let mut facts = node(parameters);
            facts.host.links[1].addresses = vec!["10.0.0.7/32".parse().unwrap()];
            facts.value(Local::Cidr)
        };
        assert_eq!(with(&[(SUBNET, "10.0.0.0/20")]), Ok(Some("10.0.0.7/20".into())));
        assert!(with(&[]).unwrap_err().contains("eth0 has 10.0.0.7/32"));
    }

    #[test]
    fn several_uplinks_keep_their_addresses_and_the_nodes_is_on_the_loopback_interface() {
        let mut facts = node(&[(L3MH, "10.9.0.0/24"), (INTERFACES, "eth0,eth1")]);
        facts.host.links[0].addresses.push("10.9.0.7/32".parse().unwrap());
        facts.host.routes.push(route("eth1", [10, 1, 0, 1], 10));
        let value = |local| facts.value(local).unwrap().unwrap();
        assert_eq!(value(Local::Address), "10.9.0.7");
        assert_eq!(value(Local::Interfaces), "eth0 eth1");
        assert_eq!(value(Local::InterfaceCidrs), "10.0.0.7/24 10.1.0.7/16");
        assert_eq!(value(Local::Gateway), "10.0.0.1 10.1.0.1");
        let unstated = Facts { parameters: [(L3MH.to_owned(), "10.9.0.0/24".to_owned())].into(), ..facts.clone() };
        assert!(unstated.value(Local::Interfaces).unwrap_err().contains(INTERFACES));
    }

    #[test]
    fn a_bond_is_told_from_its_parts_and_from_nothing_that_cannot_be_told() {
        let mut facts = with_vhost0(node(&[]), "eth0");
        facts.host.links[1].enslaved = true;
        assert!(facts.value(Local::Interfaces).unwrap_err().contains("no interface has the MAC address"));
        facts.host.links.push(link("bond0", MAC, &[]));
        assert_eq!(facts.value(Local::Interfaces), Ok(Some("bond0".into())));
        facts.host.links.push(link("bond0.100", MAC, &[]));
        assert!(facts.value(Local::Interfaces).unwrap_err().starts_with("bond0 bond0.100 have the MAC address"));
        facts.host.below_vhost0 = Some("bond0.100".into());
        assert_eq!(facts.value(Local::Interfaces), Ok(Some("bond0.100".into())), "the journal has it");
    }

    #[test]
    fn what_cannot_be_found_is_said_with_what_there_is() {
        for (parameters, why) in [
            (&[(SUBNET, "10.2.0.0/16")][..], "the node has 127.0.0.1/8 fe80::1/64 10.0.0.7/24 10.1.0.7/16"),
            (&[(INTERFACES, "eth9")], "it has lo eth0 eth1"),
            (&[(ADDRESS, "10.2.0.1")], "no interface has 10.2.0.1"),
            (&[(SUBNET, "fabric")], "DATA_SUBNET is no network"),
        ] {
            let error = node(parameters).value(Local::Address).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let mut without = node(&[]);
        without.host.links[1].addresses.clear();
        assert_eq!(without.value(Local::Cidr), Err("interface eth0 has no address".into()));
        assert!(Facts::default().value(Local::Name).is_err());
        assert_eq!(node(&[(HOSTNAME, "vr-1")]).value(Local::Name), Ok(Some("vr-1".into())));
    }

    proptest! {
        /// Whatever the kernel tells, every question is answered.
        #[test]
        fn no_node_is_too_odd(
            links in prop::collection::vec(("[a-c]|vhost0", prop::option::of("[ab]"), any::<bool>(), prop::collection::vec(any::<(IpAddr, u8)>(), 0..2)), 0..4),
            routes in prop::collection::vec(("[a-c]|vhost0", any::<Option<std::net::Ipv4Addr>>(), any::<u32>()), 0..3),
            parameters in prop::collection::btree_map(prop::sample::select(vec![ADDRESS, HOSTNAME, INTERFACES, L3MH, SUBNET]), "[a-c]|10\\.0\\.0\\.0/8|::1|", 0..3),
        ) {
            let links = links.into_iter().map(|(name, mac, enslaved, addresses)| Link {
                name, mac, enslaved,
                addresses: addresses.into_iter().map(|(address, prefix)| {
                    let longest = if address.is_ipv4() { 32 } else { 128 };
                    IpNet::new_assert(address, prefix % (longest + 1))
                }).collect(),
            }).collect();
            let routes = routes.into_iter().map(|(link, gateway, metric)| DefaultRoute { link, gateway, metric }).collect();
            let host = Host { links, routes, ..Host::default() };
            let parameters = parameters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let facts = Facts { host, parameters, node: "n".into() };
            for local in Local::VARIANTS {
                let told = facts.value(*local);
                prop_assert!(told.as_ref().ok().and_then(Option::as_ref).is_none_or(|value| !value.is_empty()));
            }
        }
    }
}
