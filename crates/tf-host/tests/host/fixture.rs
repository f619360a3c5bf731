//! A node that a kernel-mode vRouter can be set up on, of which tests spoil one thing at a time.

use tf_host::{
    HostFacts, Wanted,
    facts::{
        addresses::{Address, Flag},
        cni::{Cni, Configuration, Directory, Programs},
        cpus::Cpus,
        devices::{Device, IommuGroup, Passthrough, VirtualFunctions},
        kernel::Kernel,
        links::Link,
        memory::{HugePages, MIB_2, Memory, Mount},
        module::{Content, File, Module},
        network::Network,
        platform::Platform,
        routes::{Hop, MAIN, Route},
        sysctls::Sysctls,
    },
    root::Access,
    wanted::ModuleSource,
};

pub const MAC: &str = "52:54:00:00:00:01";

pub fn link(name: &str, index: u32) -> Link {
    let mac = Some(format!("52:54:00:00:00:{:02x}", index - 1));
    Link { name: name.into(), index, mac, mtu: 9000, up: true, carrier: true, ethernet: true, ..Link::default() }
}

pub fn address(link: &str, address: &str) -> Address {
    Address {
        link: link.into(),
        address: address.parse().unwrap(),
        peer: None,
        broadcast: None,
        label: None,
        scope: "global".into(),
        flags: [Flag::Permanent].into(),
        valid: None,
        preferred: None,
        metric: None,
        protocol: None,
    }
}

pub fn hop(link: &str, gateway: Option<&str>) -> Hop {
    Hop { link: link.into(), gateway: gateway.map(|gateway| gateway.parse().unwrap()), weight: 1, onlink: false }
}

pub fn route(destination: &str, hops: Vec<Hop>, protocol: &str) -> Route {
    Route {
        table: MAIN,
        destination: destination.parse().unwrap(),
        from: None,
        kind: "unicast".into(),
        protocol: protocol.into(),
        scope: if hops.iter().all(|hop| hop.gateway.is_none()) { "link" } else { "global" }.into(),
        tos: 0,
        metric: None,
        source: None,
        hops,
        metrics: [].into(),
        expires: None,
        preference: None,
        incomplete: false,
        next_hop_object: None,
    }
}

fn network() -> Network {
    let loopback = Link { loopback: true, ethernet: false, mac: None, ..link("lo", 1) };
    Network {
        links: vec![loopback, link("eth0", 2), link("eth1", 3)],
        addresses: vec![address("lo", "127.0.0.1/8"), address("eth0", "10.0.0.7/24"), address("eth1", "192.0.2.7/24")],
        routes: vec![
            route("0.0.0.0/0", vec![hop("eth0", Some("10.0.0.1"))], "static"),
            route("10.0.0.0/24", vec![hop("eth0", None)], "kernel"),
            route("192.0.2.0/24", vec![hop("eth1", None)], "kernel"),
        ],
        ..Network::default()
    }
}

fn device(pci: &str) -> Device {
    Device {
        pci: Some(pci.into()),
        driver: Some("i40e".into()),
        driver_override: None,
        model: Some("8086:1572".into()),
        numa_node: Some(0),
        iommu: Some(IommuGroup { number: "12".into(), others: [].into() }),
        virtual_functions: Some(VirtualFunctions { total: 64, ..VirtualFunctions::default() }),
    }
}

/// Such a node.
pub fn facts() -> HostFacts {
    let pages = HugePages { total: 128, free: 128, reserved: 0, total_by_node: [(0, 64), (1, 64)].into() };
    let content = Content {
        version: Some("24.1".into()),
        vermagic: Some("6.1.0-18 SMP mod_unload".into()),
        ..Content::default()
    };
    let path = "/lib/modules/6.1.0-18/updates/dkms/vrouter.ko".into();
    let flannel =
        Configuration { file: "20-other.conf".into(), types: vec!["bridge".into()], ..Configuration::default() };
    HostFacts {
        kernel: Kernel {
            release: "6.1.0-18".into(),
            architecture: "x86_64".into(),
            loads_modules: true,
            has_headers: true,
            installed: vec!["6.1.0-18".into()],
            ..Kernel::default()
        },
        module: Module {
            loaded: None,
            files: vec![File { path, content: Some(content) }],
            indexed: true,
            kernels: vec!["6.1.0-18".into()],
            access: Some(Access::Writable),
        },
        network: network(),
        devices: [("eth0".to_owned(), device("0000:03:00.0")), ("eth1".to_owned(), device("0000:03:00.1"))].into(),
        passthrough: Passthrough { iommu: true, unsafe_no_iommu: false },
        memory: Memory {
            total: 32 << 30,
            available: 30 << 30,
            huge_pages: [(MIB_2, pages)].into(),
            mounts: vec![Mount { path: "/dev/hugepages".into(), page: Some(MIB_2) }],
            free_blocks_of_4_mib: 5000,
        },
        cpus: Cpus {
            online: "0-7".parse().unwrap(),
            allowed: "0-7".parse().unwrap(),
            nodes: [(0, "0-3".parse().unwrap()), (1, "4-7".parse().unwrap())].into(),
            ..Cpus::default()
        },
        sysctls: Sysctls {
            links: [("all".to_owned(), [("ipv4.rp_filter".to_owned(), "0".to_owned())].into())].into(),
            ..Sysctls::default()
        },
        cni: Cni {
            directories: vec![Directory {
                path: "/etc/cni/net.d".into(),
                access: Access::Writable,
                configurations: vec![flannel],
            }],
            programs: vec![Programs {
                path: "/opt/cni/bin".into(),
                access: Access::Writable,
                files: vec!["loopback".into()],
            }],
            runtimes: vec![],
        },
        platform: Platform { system: Some("Debian GNU/Linux 12 (bookworm)".into()), ..Platform::default() },
        ..HostFacts::default()
    }
}

/// What the vRouter needs of it.
pub fn wanted() -> Wanted {
    Wanted { module: ModuleSource::Host, ..Wanted::default() }
}
