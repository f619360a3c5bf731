//! What was taken from the kernel, a file on the host: the interface with all that was on it. It is written before a device gets another driver, and is
//! gone when the interface has everything back. A boot gives every device its own driver, so that a record of an earlier boot says nothing.

use std::{fs, io, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    Finding, HostFacts, Root, Wanted, atomic,
    facts::{addresses::Address, boot_id, links::Link, network::Network, routes::Route},
    preflight::{Id, hardware},
    uplink::choose,
};

/// The version of what is written.
const VERSION: u32 = 1;

/// What was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taken {
    pub(super) version: u32,
    /// In which boot.
    pub boot_id: String,
    /// Whether `vhost0` had everything. Until then what it has says nothing.
    #[serde(default)]
    pub is_switched: bool,
    /// The interface whose place `vhost0` has.
    pub uplink: Link,
    /// Hardware or a bond: the interface below a VLAN, or the uplink itself.
    pub lower: Link,
    /// Its MAC address.
    pub mac: String,
    /// The hardware: several of a bond.
    pub devices: Vec<Device>,
    /// Addresses, routes, rules and neighbours, under the name of the uplink: as they were, and later as `vhost0` had them.
    pub network: Network,
    /// Kernel settings of the uplink: `ipv4.rp_filter` and so on.
    pub sysctls: Vec<(String, String)>,
}

/// Hardware of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Device {
    /// The interface's name.
    pub link: String,
    /// PCI address.
    pub pci: String,
    /// Its own driver.
    pub driver: Option<String>,
    /// What its `driver_override` was.
    pub driver_override: Option<String>,
    /// NUMA node.
    pub numa_node: Option<u32>,
}

impl Taken {
    /// What is to be taken.
    ///
    /// # Errors
    /// Why nothing can be.
    pub fn of(facts: &HostFacts, wanted: &Wanted) -> Result<Self, Finding> {
        let network = &facts.network;
        let no_uplink = |cause: String| Finding::new(Id::UplinkNotFound, cause, "set physicalInterface");
        let uplinks = choose(facts, wanted)?;
        let [uplink] = &uplinks[..] else {
            return Err(no_uplink("the DPDK mode takes one interface".into()));
        };
        let uplink = uplink.link;
        let parent = uplink.parent.as_deref().filter(|_| uplink.kind.as_deref() == Some("vlan"));
        let lower = parent.and_then(|parent| network.link(parent)).unwrap_or(uplink);
        let mac = uplink.mac.clone().ok_or_else(|| no_uplink(format!("{} has no MAC address", uplink.name)))?;
        let device = |link: &&Link| {
            let found = facts.devices.get(&link.name)?;
            Some(Device {
                link: link.name.clone(),
                pci: found.pci.clone()?,
                driver: found.driver.clone(),
                driver_override: found.driver_override.clone(),
                numa_node: found.numa_node,
            })
        };
        let sysctls = facts.sysctls.links.get(&uplink.name).into_iter().flatten();
        Ok(Self {
            version: VERSION,
            boot_id: facts.kernel.boot_id.clone(),
            is_switched: false,
            uplink: uplink.clone(),
            lower: lower.clone(),
            mac,
            devices: hardware(network, uplink).iter().filter_map(device).collect(),
            network: of_link(network, &uplink.name),
            sysctls: sysctls.map(|(name, value)| (name.clone(), value.clone())).collect(),
        })
    }

    /// What was taken in this boot. None if nothing was.
    ///
    /// # Errors
    /// When there is a record that cannot be used.
    pub fn read(path: &Path, root: &Root) -> io::Result<Option<Self>> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let taken: Self = serde_json::from_slice(&text)?;
        if taken.version != VERSION {
            let why = format!("it has version {}, and this program knows version {VERSION}", taken.version);
            return Err(io::Error::other(why));
        }
        Ok((taken.boot_id == boot_id(root)).then_some(taken))
    }

    /// Writes it in the place of what was there, as a whole, and makes it durable.
    ///
    /// # Errors
    /// When that fails.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let directory = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(directory)?;
        atomic::write(path, &serde_json::to_vec(self)?, 0o600)?;
        atomic::sync_directory(directory)
    }

    /// Takes in what `vhost0` has, if it has had everything, is up and has an address. Whether something is another than before. One look alone may be
    /// taken while `vhost0` goes with its forwarder: links, addresses and routes are read one after the other, and routes go first. So two looks have to
    /// show the same.
    pub fn update(&mut self, looks: [&Network; 2], vhost0: &str) -> bool {
        let has_address = |network: &Network| network.addresses_of(vhost0).any(Address::is_global);
        let is_up = |network: &Network| network.link(vhost0).is_some_and(|link| link.up);
        if !self.is_switched || !looks.iter().all(|network| is_up(network) && has_address(network)) {
            return false;
        }
        let [now, again] = looks.map(|network| renamed(&of_link(network, vhost0), vhost0, &self.uplink.name));
        let is_other = essence(&now) == essence(&again) && essence(&now) != essence(&self.network);
        if is_other {
            self.network = now;
        }
        is_other
    }
}

/// What of a network belongs to an interface.
fn of_link(network: &Network, link: &str) -> Network {
    let named = |name: &Option<String>| name.as_deref() == Some(link);
    Network {
        links: network.links.iter().filter(|other| other.name == link).cloned().collect(),
        addresses: network.addresses_of(link).cloned().collect(),
        routes: network.routes.iter().filter(|route| route.is_over(link)).cloned().collect(),
        rules: network.rules.iter().filter(|rule| named(&rule.incoming) || named(&rule.outgoing)).cloned().collect(),
        neighbours: network.neighbours.iter().filter(|neighbour| neighbour.link == link).cloned().collect(),
    }
}

/// The same under another name of the interface.
pub(super) fn renamed(network: &Network, from: &str, to: &str) -> Network {
    let mut network = network.clone();
    let rename = |name: &mut String| {
        if name == from {
            to.clone_into(name);
        }
    };
    network.links.iter_mut().for_each(|link| rename(&mut link.name));
    network.neighbours.iter_mut().for_each(|neighbour| rename(&mut neighbour.link));
    network.routes.iter_mut().flat_map(|route| &mut route.hops).for_each(|hop| rename(&mut hop.link));
    for address in &mut network.addresses {
        rename(&mut address.link);
        if let Some(label) = &mut address.label {
            *label = label.replacen(from, to, 1);
        }
    }
    for rule in &mut network.rules {
        rule.incoming.iter_mut().chain(&mut rule.outgoing).for_each(rename);
    }
    network
}

/// What of a network does not change by the passing of time.
fn essence(network: &Network) -> (Vec<Address>, Vec<Route>, usize) {
    let address = |address: &Address| Address { valid: None, preferred: None, ..address.clone() };
    let route = |route: &Route| Route { expires: None, ..route.clone() };
    let addresses = network.addresses.iter().map(address).collect();
    (addresses, network.routes.iter().map(route).collect(), network.rules.len())
}
