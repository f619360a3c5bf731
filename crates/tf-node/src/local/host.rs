//! What the kernel tells of a node: interfaces, addresses, routes, mounts. The pod uses the node's network, so its own is the node's.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    path::Path,
};

use anyhow::{Context as _, Result};
use ipnet::IpNet;
use nix::ifaddrs::getifaddrs;
use tf_host::{
    Root,
    dpdk::taken::Taken,
    facts::{devices::pci_of, memory::bytes},
};

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Name.
    pub name: String,
    /// MAC address, if it has one.
    pub mac: Option<String>,
    /// Whether it is part of another one: of a bond, say.
    pub enslaved: bool,
    /// Addresses with the prefix lengths of their networks, in the kernel's order.
    pub addresses: Vec<IpNet>,
}

/// A default route for IPv4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultRoute {
    /// Name of the interface.
    pub link: String,
    /// The next router; none on a link without one.
    pub gateway: Option<Ipv4Addr>,
    /// The smallest wins.
    pub metric: u32,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Interfaces.
    pub links: Vec<Link>,
    /// Default routes, the best first.
    pub routes: Vec<DefaultRoute>,
    /// Where huge pages are mounted, by their size in bytes.
    pub huge_pages: BTreeMap<u64, String>,
    /// Interfaces that a program has (DPDK), which the kernel does not show, with the PCI addresses of their hardware; and those of the others.
    pub pci: BTreeMap<String, Vec<String>>,
    /// Own address of packets to the first control node. None where none is known by address.
    pub towards_control: Option<IpAddr>,
    /// The interface below `vhost0`, where the journal of this boot has it.
    pub below_vhost0: Option<String>,
}

impl Host {
    /// The same with hardware. `record`: where what a forwarder has is recorded.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn with_hardware(mut self, record: &Path) -> Result<Self> {
        let root = Root::default();
        let taken = Taken::read(record, &root).with_context(|| format!("read {}", record.display()))?;
        let of_link = |link: &Link| Some((link.name.clone(), vec![pci_of(&root, &link.name)?]));
        self.pci = self.links.iter().filter_map(of_link).collect();
        if let Some(Taken { uplink, mac, devices, .. }) = taken {
            self.pci.insert(uplink.name.clone(), devices.into_iter().map(|device| device.pci).collect());
            if self.links.iter().all(|link| link.name != uplink.name) {
                self.links.push(Link { name: uplink.name, mac: Some(mac), ..Link::default() });
            }
        }
        Ok(self)
    }

    /// Looks at the node.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn look(control: Option<IpAddr>) -> Result<Self> {
        let read = |path: &str| fs::read_to_string(path).with_context(|| format!("read {path}"));
        Ok(Self {
            links: links()?,
            routes: default_routes(&read("/proc/net/route")?),
            huge_pages: huge_pages(&read("/proc/mounts")?),
            pci: BTreeMap::new(),
            towards_control: control.and_then(own_address),
            below_vhost0: None,
        })
    }
}

/// Addresses of the node's interfaces in a network.
///
/// # Errors
/// When the kernel does not tell.
pub fn addresses_in(network: IpNet) -> Result<BTreeSet<IpAddr>> {
    // One that moves from an interface to `vhost0` above it may be on both.
    let addresses = links()?.into_iter().flat_map(|link| link.addresses).map(|address| address.addr());
    Ok(addresses.filter(|address| network.contains(address)).collect())
}

fn links() -> Result<Vec<Link>> {
    let mut links: Vec<Link> = Vec::new();
    for found in getifaddrs().context("list the node's addresses")? {
        // An address with a label has it instead of the interface's name: eth0:1.
        let name = found.interface_name.split(':').next().unwrap_or_default();
        let index = links.iter().position(|link| link.name == name).unwrap_or_else(|| {
            let enslaved = Path::new("/sys/class/net").join(name).join("master").exists();
            links.push(Link { name: name.to_owned(), enslaved, ..Link::default() });
            links.len() - 1
        });
        let link = &mut links[index];
        let Some(address) = found.address else { continue };
        if let Some(mac) = address.as_link_addr().and_then(nix::sys::socket::LinkAddr::addr) {
            link.mac = Some(mac.map(|byte| format!("{byte:02x}")).join(":"));
        }
        let ip = |storage: &nix::sys::socket::SockaddrStorage| {
            let v4 = storage.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
            v4.or_else(|| storage.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
        };
        let network = ip(&address).zip(found.netmask.as_ref().and_then(ip));
        if let Some(Ok(address)) = network.map(|(address, mask)| IpNet::with_netmask(address, mask)) {
            link.addresses.push(address);
        }
    }
    Ok(links)
}

/// What packets to an address have as their source. None is sent.
fn own_address(peer: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = if peer.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).ok()?;
    socket.connect(SocketAddr::new(peer, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Default routes of `/proc/net/route` (proc(5)): addresses in hexadecimal, first octet last.
fn default_routes(table: &str) -> Vec<DefaultRoute> {
    let address = |field: &str| Some(Ipv4Addr::from(u32::from_str_radix(field, 16).ok()?.swap_bytes()));
    let route = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [link, destination, gateway, _, _, _, metric, mask, ..] = fields[..] else { return None };
        let is_default = address(destination)?.is_unspecified() && address(mask)?.is_unspecified();
        let gateway = address(gateway).filter(|gateway| !gateway.is_unspecified());
        is_default.then(|| Some(DefaultRoute { link: link.to_owned(), gateway, metric: metric.parse().ok()? }))?
    };
    let mut routes: Vec<DefaultRoute> = table.lines().filter_map(route).collect();
    routes.sort_by_key(|route| route.metric);
    routes
}

/// Where huge pages are mounted, from `/proc/mounts`: of several places the first.
fn huge_pages(mounts: &str) -> BTreeMap<u64, String> {
    let mut found = BTreeMap::new();
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, directory, "hugetlbfs", options, ..] = fields[..] else { continue };
        let size = options.split(',').find_map(|option| option.strip_prefix("pagesize=")).and_then(bytes);
        if let Some(size) = size {
            found.entry(size).or_insert_with(|| directory.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_default_route_comes_first_and_others_do_not_count() {
        let table = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0
eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
tun0\t00000000\t00000000\t0001\t0\t0\t900\t00000000\t0\t0\t0
vpn\t00000000\t010200C0\t0003\t0\t0\t0\t00000080\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
";
        let routes = default_routes(table);
        let told: Vec<_> = routes.iter().map(|route| (route.link.as_str(), route.gateway)).collect();
        let eth0 = Some(Ipv4Addr::new(192, 0, 2, 1));
        assert_eq!(told, [("eth0", eth0), ("wlan0", Some(Ipv4Addr::new(192, 168, 1, 1))), ("tun0", None)]);
        assert_eq!(default_routes("garbage\n\n"), []);
    }

    #[test]
    fn huge_pages_are_told_by_their_size() {
        let mounts = "proc /proc proc rw 0 0\nhugetlbfs /dev/hugepages hugetlbfs rw,relatime,pagesize=2M 0 0\n\
                      none /other hugetlbfs rw,pagesize=2M 0 0\nnone /huge hugetlbfs rw,pagesize=1024M 0 0\n\
                      none /odd hugetlbfs rw 0 0\n";
        let expected = [(2 << 20, "/dev/hugepages".to_owned()), (1 << 30, "/huge".to_owned())];
        assert_eq!(huge_pages(mounts), expected.into());
        assert_eq!(["1G", "4096K", "M", "1T", ""].map(bytes), [Some(1 << 30), Some(4 << 20), None, None, None]);
    }

    #[test]
    fn this_machine_has_a_loopback_interface() {
        let host = Host::look(Some([127, 0, 0, 1].into())).unwrap();
        let loopback = host.links.iter().find(|link| link.name == "lo").unwrap();
        assert!(loopback.addresses.contains(&"127.0.0.1/8".parse().unwrap()), "{loopback:?}");
        assert_eq!(host.towards_control, Some([127, 0, 0, 1].into()));
        let within = |network: &str| addresses_in(network.parse().unwrap()).unwrap();
        assert_eq!(within("127.0.0.0/24"), [[127, 0, 0, 1].into()].into());
        assert_eq!(within("127.0.9.0/24"), [].into());
    }
}
