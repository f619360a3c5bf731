//! Each finding has a node that provokes it, and a node that is as it should be provokes none.

use std::{collections::BTreeSet, fmt::Write as _};

use strum::VariantArray as _;
use tf_host::{
    HostFacts, Mode, Wanted,
    facts::{
        addresses::Address,
        cni::{Configuration, Directory, Runtime},
        devices::{VirtualFunction, VirtualFunctions},
        kernel::Lockdown,
        links::{Bond, Link},
        memory::{GIB_1, MIB_2},
        module::Loaded,
        neighbours::Neighbour,
        owners::{Owner, Program},
        platform::Cloud,
        processes::{Process, Role},
        routes::Route,
    },
    preflight,
    preflight::Id,
    root::{Access, Unread},
    uplink::{Source, choose},
    wanted::ModuleSource,
};

use crate::fixture::{MAC, address, facts, hop, link, route, wanted};

type Spoil = fn(&mut HostFacts, &mut Wanted);

fn of_kind(name: &str, index: u32, kind: &str) -> Link {
    Link { kind: Some(kind.into()), ..link(name, index) }
}

fn above(parent: &str, name: &str, index: u32, kind: &str) -> Link {
    Link { parent: Some(parent.into()), mac: Some(MAC.into()), ..of_kind(name, index, kind) }
}

fn owner(program: Program, dhcp: bool, evidence: &str) -> Owner {
    Owner { link: "eth0".into(), program, dhcp, evidence: evidence.into() }
}

fn process(id: u32, name: &str, role: Role) -> Process {
    Process { id, name: name.into(), role, arguments: vec![] }
}

fn neighbour(address: &str, state: &str) -> Neighbour {
    Neighbour { link: "eth0".into(), address: address.parse().unwrap(), mac: None, state: state.into(), router: false }
}

fn several(wanted: &mut Wanted, names: &[&str]) {
    wanted.multihomed = true;
    wanted.physical_interfaces = names.iter().map(|name| (*name).to_owned()).collect();
}

fn dpdk(wanted: &mut Wanted) {
    wanted.mode = Mode::Dpdk;
}

/// `vhost0` has taken the place of `eth0`.
fn switch(facts: &mut HostFacts) {
    let network = &mut facts.network;
    network.links.push(Link { mac: Some(MAC.into()), ..of_kind("vhost0", 9, "vhost") });
    network
        .addresses
        .iter_mut()
        .filter(|address| address.link == "eth0")
        .for_each(|address| address.link = "vhost0".into());
    let hops = network.routes.iter_mut().flat_map(|route| &mut route.hops);
    hops.filter(|hop| hop.link == "eth0").for_each(|hop| hop.link = "vhost0".into());
}

/// What each finding comes from, in the order of ids.
const PROVOKED: &[(Id, Spoil)] = &[
    (Id::FactsUnread, |facts, _| {
        facts.unread = ["/etc/cni/net.d", "/run/NetworkManager/devices/2"]
            .map(|what| Unread { what: what.into(), error: "Permission denied (os error 13)".into() })
            .into();
    }),
    (Id::KernelWithoutModules, |facts, _| facts.kernel.loads_modules = false),
    (Id::KernelHeadersMissing, |facts, wanted| {
        wanted.module = ModuleSource::Image;
        facts.kernel.has_headers = false;
        facts.module.files.clear();
    }),
    (Id::ModuleMissing, |facts, _| facts.module.files.clear()),
    (Id::ModulesReadOnly, |facts, wanted| {
        wanted.module = ModuleSource::Image;
        facts.module.access = Some(Access::ReadOnly);
    }),
    (Id::ModuleForOtherKernel, |facts, _| {
        facts.module.files[0].content.as_mut().unwrap().vermagic = Some("6.1.0-17 SMP".into());
    }),
    (Id::ModuleNotIndexed, |facts, _| facts.module.indexed = false),
    (Id::ModuleNotSigned, |facts, _| {
        facts.kernel.secure_boot = Some(true);
        facts.kernel.lockdown = Lockdown::Integrity;
    }),
    (Id::ModuleVersionDiffers, |facts, wanted| {
        facts.module.loaded = Some(Loaded { version: Some("21.4".into()), ..Loaded::default() });
        wanted.module_version = Some("24.1".into());
    }),
    (Id::ModuleParametersDiffer, |facts, wanted| {
        let parameters = [("vr_flow_entries".to_owned(), "524288".to_owned())].into();
        facts.module.loaded = Some(Loaded { parameters, ..Loaded::default() });
        wanted.module_parameters = [("vr_flow_entries".to_owned(), "1048576".to_owned())].into();
    }),
    (Id::ModuleParameterCpuMissing, |_, wanted| {
        wanted.module_parameters = [("vr_perfq1".to_owned(), "8".to_owned())].into();
    }),
    (Id::NextKernelWithoutModule, |facts, _| facts.kernel.installed.push("6.1.0-21".into())),
    (Id::KernelArgumentsMissing, |_, wanted| wanted.huge_pages = [(GIB_1, 2)].into()),
    (Id::UplinkNotFound, |_, wanted| wanted.physical_interfaces = vec!["ens1".into()]),
    (Id::UplinkAmbiguous, |facts, _| facts.network.routes[0].hops.push(hop("eth1", Some("192.0.2.1")))),
    (Id::UplinksTooMany, |facts, wanted| {
        several(wanted, &["eth0", "eth1", "eth2", "eth3"]);
        for (name, index) in [("eth2", 12), ("eth3", 13)] {
            let link = Link { name: name.into(), index, ..facts.network.link("eth1").unwrap().clone() };
            facts.network.links.push(link);
        }
    }),
    (Id::UplinkMtusDiffer, |facts, wanted| {
        several(wanted, &["eth0", "eth1"]);
        facts.network.links.iter_mut().filter(|link| link.name == "eth1").for_each(|link| link.mtu = 4000);
    }),
    (Id::UplinkKindNotSupported, |facts, _| facts.network.links[1].kind = Some("bridge".into())),
    (Id::UplinkIsPort, |facts, _| {
        facts.network.links[1].master = Some("br0".into());
        facts.network.links.push(of_kind("br0", 4, "bridge"));
    }),
    (Id::UplinkHasChildren, |facts, _| facts.network.links.push(above("eth0", "mac0", 4, "macvlan"))),
    (Id::UplinkHasXdp, |facts, _| facts.network.links[1].xdp = true),
    (Id::UplinkHasFilters, |facts, _| facts.network.links[1].ingress = Some("clsact".into())),
    (Id::UplinkDown, |facts, _| facts.network.links[1].up = false),
    (Id::UplinkNoCarrier, |facts, _| facts.network.links[1].carrier = false),
    (Id::UplinkMtuSmall, |facts, _| facts.network.links[1].mtu = 1300),
    (Id::BondMacChanges, |facts, _| {
        let bond = Bond { mode: "active-backup".into(), mac_of_active_member: true, ..Bond::default() };
        facts.network.links[1].kind = Some("bond".into());
        facts.network.links[1].bond = Some(bond);
    }),
    (Id::InterfaceIndexTooHigh, |facts, _| facts.network.links[1].index = 4355),
    (Id::InterfaceIndexHigh, |facts, _| facts.network.links[2].index = 4000),
    (Id::Vhost0AboveOther, |facts, wanted| {
        switch(facts);
        wanted.physical_interfaces = vec!["eth1".into()];
    }),
    (Id::Vhost0OfOtherKind, |facts, wanted| {
        wanted.physical_interfaces = vec!["eth0".into()];
        facts.network.links.push(of_kind("vhost0", 4, "dummy"));
    }),
    (Id::Vhost0OfOtherMode, |facts, wanted| {
        wanted.physical_interfaces = vec!["eth0".into()];
        facts.network.links.push(of_kind("vhost0", 4, "tun"));
    }),
    (Id::UplinkWithoutIpv4, |facts, _| {
        facts.network.addresses[1].address = "2001:db8::7/64".parse().unwrap();
    }),
    (Id::LoopbackAddressMissing, |_, wanted| {
        several(wanted, &["eth0", "eth1"]);
        wanted.loopback_subnet = Some("198.18.0.0/24".parse().unwrap());
    }),
    (Id::UplinkHostPrefix, |facts, _| facts.network.addresses[1].address = "10.0.0.7/32".parse().unwrap()),
    (Id::UplinkAddressLeased, |facts, _| {
        facts.network.addresses[1].valid = Some(3600);
        facts.owners = vec![owner(Program::Networkd, true, "/run/systemd/netif/links/2")];
    }),
    (Id::UplinkAddressOwned, |facts, _| {
        facts.owners = vec![owner(Program::Ifupdown, false, "/etc/network/interfaces")];
    }),
    (Id::CloudDhcp, |facts, _| {
        facts.network.addresses[1].valid = Some(3600);
        facts.platform.cloud = Some(Cloud::Google);
    }),
    (Id::PodNetworkOverlaps, |_, wanted| wanted.pod_networks = vec!["10.0.0.0/12".parse().unwrap()]),
    (Id::GatewayNotOnUplink, |_, wanted| wanted.physical_interfaces = vec!["eth1".into()]),
    (Id::GatewayOutsideNetworks, |_, wanted| {
        wanted.physical_interfaces = vec!["eth0".into()];
        wanted.gateway = Some([10, 9, 0, 1].into());
    }),
    (Id::GatewayUnreachable, |facts, _| facts.network.neighbours = vec![neighbour("10.0.0.1", "failed")]),
    (Id::ControlNodesApart, |_, wanted| {
        wanted.control_nodes = vec![[10, 0, 0, 11].into(), [192, 0, 2, 12].into(), [198, 51, 100, 13].into()];
    }),
    (Id::RouteNotMovable, |facts, _| facts.network.routes[0].next_hop_object = Some(12)),
    (Id::UplinkCarriesAll, |facts, _| facts.network.addresses.truncate(2)),
    (Id::RpFilterStrict, |facts, _| {
        switch(facts);
        facts.sysctls.links.insert("vhost0".into(), [("ipv4.rp_filter".to_owned(), "1".to_owned())].into());
    }),
    (Id::HugePagesNotMounted, |facts, wanted| {
        wanted.huge_pages = [(MIB_2, 128)].into();
        facts.memory.mounts.clear();
    }),
    (Id::HugePagesTooFew, |facts, wanted| {
        wanted.huge_pages = [(MIB_2, 64)].into();
        facts.memory.huge_pages.get_mut(&MIB_2).unwrap().free = 80;
    }),
    (Id::HugePagesFarFromUplink, |facts, wanted| {
        dpdk(wanted);
        facts.memory.huge_pages.get_mut(&MIB_2).unwrap().total_by_node = [(0, 0), (1, 64)].into();
    }),
    (Id::MemoryFragmented, |facts, _| facts.memory.free_blocks_of_4_mib = 12),
    (Id::UplinkWithoutPci, |facts, wanted| {
        dpdk(wanted);
        facts.devices.clear();
    }),
    (Id::DpdkDriverUnknown, |facts, wanted| {
        dpdk(wanted);
        facts.devices.get_mut("eth0").unwrap().driver = Some("r8169".into());
    }),
    (Id::IommuOff, |facts, wanted| {
        dpdk(wanted);
        facts.passthrough.iommu = false;
    }),
    (Id::IommuGroupShared, |facts, wanted| {
        dpdk(wanted);
        let group = facts.devices.get_mut("eth0").unwrap().iommu.as_mut().unwrap();
        group.others = [("0000:03:00.1", "i40e"), ("0000:00:1c.0", "pcieport")]
            .map(|(device, driver)| (device.to_owned(), Some(driver.to_owned())))
            .into();
    }),
    (Id::LockdownForbidsDriver, |facts, wanted| {
        dpdk(wanted);
        wanted.dpdk.driver = "uio_pci_generic".into();
        facts.kernel.lockdown = Lockdown::Integrity;
    }),
    (Id::CoresNotAvailable, |_, wanted| {
        dpdk(wanted);
        wanted.dpdk.cores = Some("6-9".parse().unwrap());
    }),
    (Id::CoresTooFew, |_, wanted| {
        dpdk(wanted);
        wanted.dpdk.cores = Some("2".parse().unwrap());
    }),
    (Id::BondTooLarge, |facts, wanted| {
        dpdk(wanted);
        facts.network.links[1].kind = Some("bond".into());
        let device = facts.devices["eth1"].clone();
        for index in 10..17 {
            let name = format!("ens{index}");
            facts.network.links.push(Link { master: Some("eth0".into()), ..link(&name, index) });
            facts.devices.insert(name, device.clone());
        }
    }),
    (Id::UplinkVlansLost, |facts, wanted| {
        dpdk(wanted);
        facts.network.links.push(above("eth0", "eth0.100", 4, "vlan"));
    }),
    (Id::VirtualFunctionsTooFew, |_, wanted| wanted.virtual_functions = [("eth1".to_owned(), 65)].into()),
    (Id::VirtualFunctionsDiffer, |facts, wanted| {
        wanted.virtual_functions = [("eth1".to_owned(), 8)].into();
        let functions = facts.devices.get_mut("eth1").unwrap().virtual_functions.as_mut().unwrap();
        functions.configured = 4;
        let driver = Some("vfio-pci".to_owned());
        functions.functions = vec![VirtualFunction { pci: "0000:03:02.0".into(), driver, links: Vec::new() }];
    }),
    (Id::VirtualFunctionsOnUplink, |_, wanted| wanted.virtual_functions = [("eth0".to_owned(), 8)].into()),
    (Id::VirtualFunctionsManaged, |facts, wanted| {
        wanted.virtual_functions = [("eth1".to_owned(), 8)].into();
        facts.devices.get_mut("eth1").unwrap().virtual_functions.as_mut().unwrap().managed = true;
    }),
    (Id::CniDirectoryNotWritable, |facts, _| facts.cni.programs[0].access = Access::ReadOnly),
    (Id::CniDirectoryDiffers, |facts, _| {
        let file = "/etc/containerd/config.toml".into();
        facts.cni.runtimes = vec![Runtime { file, configurations: Some("/srv/cni".into()), programs: None }];
    }),
    (Id::CniOtherNetworkFirst, |facts, _| {
        facts.cni.directories[0].configurations[0].file = "10-flannel.conflist".into();
    }),
    (Id::CniConfigurationStale, |facts, _| {
        let types = vec!["contrail-k8s-cni".into()];
        let stale = Configuration { file: "10-contrail.conf".into(), types, ..Configuration::default() };
        facts.cni.directories[0].configurations.insert(0, stale);
    }),
    (Id::CniConfigurationBroken, |facts, _| {
        facts.cni.directories[0].configurations[0].error = Some("expected value at line 1 column 1".into());
    }),
    (Id::PortTaken, |facts, _| facts.listeners = [22, 9091].into_iter().collect()),
    (Id::AgentRuns, |facts, _| {
        facts.processes = vec![process(4711, "contrail-vrouter-agent", Role::VrouterAgent)];
        facts.listeners = [8085, 9091].into_iter().collect();
    }),
    (Id::OtherDataPlane, |facts, _| facts.processes = vec![process(900, "ovs-vswitchd", Role::OpenVswitch)]),
    (Id::FirewallZone, |facts, _| facts.firewall.zones = [("eth0".to_owned(), "public".to_owned())].into()),
];

fn spoilt(spoil: Spoil) -> (HostFacts, Wanted) {
    let (mut facts, mut wanted) = (facts(), wanted());
    spoil(&mut facts, &mut wanted);
    (facts, wanted)
}

fn ids(spoil: Spoil) -> Vec<Id> {
    let (facts, wanted) = spoilt(spoil);
    preflight(&facts, &wanted).iter().map(|finding| finding.id).collect()
}

#[test]
fn a_node_as_it_should_be_has_no_findings() {
    assert_eq!(preflight(&facts(), &wanted()), []);
    assert_eq!(ids(|_, wanted| dpdk(wanted)), []);
}

#[test]
fn each_finding_is_provoked_and_says_the_cause_and_what_to_do() {
    let mut text = String::new();
    for (id, spoil) in PROVOKED {
        let (facts, wanted) = spoilt(*spoil);
        let findings = preflight(&facts, &wanted);
        let Some(found) = findings.iter().find(|finding| finding.id == *id) else {
            panic!("{id} is not found, but {findings:#?}")
        };
        assert_eq!(found.severity, id.severity());
        writeln!(text, "{} {id}: {found}", found.severity).unwrap();
        // What follows from the same cause, and nothing else.
        for other in findings.iter().filter(|finding| finding.id != *id) {
            writeln!(text, "    and {}", other.id).unwrap();
        }
    }
    insta::assert_snapshot!(text);
    let provoked: BTreeSet<Id> = PROVOKED.iter().map(|(id, _)| *id).collect();
    assert_eq!(provoked, Id::VARIANTS.iter().copied().collect());
}

#[test]
fn findings_that_block_come_first() {
    let findings = ids(|facts, _| {
        facts.network.links[1].mtu = 1300;
        facts.network.links[1].xdp = true;
        facts.unread = vec![Unread { what: "netlink: rules".into(), error: "refused".into() }];
    });
    assert_eq!(findings, [Id::UplinkHasXdp, Id::FactsUnread, Id::UplinkMtuSmall]);
}

#[test]
fn a_node_whose_addresses_are_on_vhost0_already_is_taken_as_it_is() {
    let (mut facts, wanted) = (facts(), wanted());
    switch(&mut facts);
    // The module that runs holds what it was given, and the program that would set addresses leaves vhost0 alone.
    facts.module.loaded = Some(Loaded::default());
    facts.module.files.clear();
    facts.memory.free_blocks_of_4_mib = 0;
    facts.owners = vec![owner(Program::NetworkManager, true, "/run/NetworkManager/devices/2")];
    assert_eq!(preflight(&facts, &wanted), []);
    let uplinks = choose(&facts, &wanted).unwrap();
    assert_eq!((uplinks[0].link.name.as_str(), uplinks[0].source), ("eth0", Source::BelowVhost0));
}

#[test]
fn below_vhost0_a_vlan_counts_before_its_bond_and_members_never() {
    let mut facts = facts();
    switch(&mut facts);
    let same = |link: Link| Link { mac: Some(MAC.into()), ..link };
    facts.network.links[1].master = Some("bond0".into());
    facts.network.links.push(same(of_kind("bond0", 4, "bond")));
    assert_eq!(choose(&facts, &wanted()).unwrap()[0].link.name, "bond0");
    facts.network.links.push(above("bond0", "bond0.100", 5, "vlan"));
    assert_eq!(choose(&facts, &wanted()).unwrap()[0].link.name, "bond0.100");
    facts.network.links.push(above("bond0", "bond0.200", 6, "vlan"));
    let several = choose(&facts, &wanted()).unwrap_err();
    assert_eq!(
        (several.id, several.cause.as_str()),
        (Id::UplinkAmbiguous, "bond0.100, bond0.200 have the MAC address of vhost0")
    );
    let noted = |name: &str| Wanted { below_vhost0: Some(name.into()), ..wanted() };
    assert_eq!(choose(&facts, &noted("bond0.200")).unwrap()[0].link.name, "bond0.200", "the journal has it");
    assert_eq!(choose(&facts, &noted("eth1")).unwrap_err().id, Id::UplinkAmbiguous, "it is another one by now");
    facts.network.links.iter_mut().for_each(|link| link.mac = None);
    assert_eq!(choose(&facts, &wanted()).unwrap_err().id, Id::UplinkNotFound);
}

#[test]
fn what_router_advertisements_renew_moves_only_where_the_kernel_handles_them() {
    let spoilt = |accept_ra: &str, spoil: Spoil| {
        let (mut facts, wanted) = spoilt(spoil);
        facts.sysctls.links.insert("eth0".into(), [("ipv6.accept_ra".to_owned(), accept_ra.to_owned())].into());
        let found = preflight(&facts, &wanted).into_iter().find(|finding| finding.id == Id::UplinkAddressLeased);
        found.map(|finding| finding.cause.split(" ends ").next().unwrap_or_default().to_owned())
    };
    let of_address: Spoil = |facts, _| {
        facts.network.addresses.push(Address { valid: Some(1800), ..address("eth0", "2001:db8::7/64") });
    };
    let of_route: Spoil = |facts, _| {
        let hops = vec![hop("eth0", Some("fe80::1"))];
        facts.network.routes.push(Route { expires: Some(1800), ..route("::/0", hops, "ra") });
    };
    assert_eq!(spoilt("0", of_address).as_deref(), Some("2001:db8::7/64 of eth0"));
    assert_eq!(spoilt("0", of_route).as_deref(), Some("the route to ::/0 of eth0"));
    for renewed in [spoilt("1", of_address), spoilt("2", of_route), spoilt("0", |_, _| ())] {
        assert_eq!(renewed, None);
    }
}

#[test]
fn members_of_the_bond_of_the_uplink_may_share_an_iommu_group() {
    let (mut facts, wanted) = spoilt(|_, wanted| dpdk(wanted));
    let group = facts.devices.get_mut("eth0").unwrap().iommu.as_mut().unwrap();
    group.others = [("0000:03:00.1".to_owned(), Some("i40e".to_owned()))].into();
    let has = |facts: &HostFacts, id| preflight(facts, &wanted).iter().any(|finding| finding.id == id);
    assert!(has(&facts, Id::IommuGroupShared));
    facts.network.links.push(Link { mac: Some(MAC.into()), ..of_kind("bond0", 4, "bond") });
    for link in &mut facts.network.links[1..3] {
        link.master = Some("bond0".into());
    }
    for address in &mut facts.network.addresses[1..] {
        address.link = "bond0".into();
    }
    facts.network.routes.iter_mut().flat_map(|route| &mut route.hops).for_each(|hop| hop.link = "bond0".into());
    assert!(!has(&facts, Id::IommuGroupShared));
}

#[test]
fn the_interface_is_chosen_in_the_order_of_the_images() {
    let chosen = |spoil: Spoil| {
        let (facts, wanted) = spoilt(spoil);
        let uplink = choose(&facts, &wanted).unwrap().remove(0);
        (uplink.link.name.clone(), uplink.source)
    };
    let eth1 = |source| ("eth1".to_owned(), source);
    assert_eq!(chosen(|_, _| ()), ("eth0".to_owned(), Source::DefaultRoute));
    assert_eq!(chosen(|_, wanted| wanted.gateway = Some([192, 0, 2, 1].into())), eth1(Source::Gateway));
    assert_eq!(chosen(|_, wanted| wanted.control_nodes = vec![[192, 0, 2, 9].into()]), eth1(Source::ControlNode));
    assert_eq!(chosen(|_, wanted| wanted.data_subnet = "192.0.2.0/24".parse().ok()), eth1(Source::DataSubnet));
    assert_eq!(chosen(|_, wanted| wanted.physical_interfaces = vec!["eth1".into()]), eth1(Source::Named));
}

#[test]
fn the_route_with_the_longest_prefix_and_then_the_smallest_metric_counts_unless_rules_choose() {
    let mut facts = facts();
    let towards =
        |facts: &HostFacts, address: [u8; 4]| Some(facts.network.hops_to(address.into())?.first()?.link.clone());
    let mut worse = route("0.0.0.0/0", vec![hop("eth1", Some("192.0.2.1"))], "dhcp");
    worse.metric = Some(200);
    facts.network.routes.insert(0, worse);
    assert_eq!(towards(&facts, [198, 51, 100, 1]).as_deref(), Some("eth0"));
    assert_eq!(towards(&facts, [192, 0, 2, 9]).as_deref(), Some("eth1"));
    facts.network.rules = vec![tf_host::facts::rules::Rule {
        ipv6: false,
        priority: 100,
        from: None,
        to: None,
        incoming: None,
        outgoing: None,
        mark: Some((1, 1)),
        tos: 0,
        action: "lookup".into(),
        table: Some(100),
        inverted: false,
        vrf: false,
        protocol: Some("unspec".into()),
        incomplete: false,
    }];
    assert_eq!(towards(&facts, [192, 0, 2, 9]), None, "a rule may choose another table");
}

#[test]
fn what_the_image_compiles_needs_headers_and_a_kernel_that_takes_it() {
    let image: Spoil = |facts, wanted| {
        wanted.module = ModuleSource::Image;
        facts.module.files.clear();
    };
    assert_eq!(ids(image), []);
    let locked = |facts: &mut HostFacts, wanted: &mut Wanted| {
        wanted.module = ModuleSource::Image;
        facts.module.files.clear();
        facts.kernel.enforces_signatures = true;
    };
    assert_eq!(ids(locked), [Id::ModuleNotSigned]);
    // A file that the image replaces does not count.
    let replaced = |facts: &mut HostFacts, wanted: &mut Wanted| {
        wanted.module = ModuleSource::Image;
        facts.module.files[0].path = "/lib/modules/6.1.0-18/kernel/net/vrouter/vrouter.ko".into();
        facts.module.files[0].content.as_mut().unwrap().vermagic = Some("6.1.0-17 SMP".into());
    };
    assert_eq!(ids(replaced), []);
}

#[test]
fn a_compressed_module_is_not_concluded_from() {
    let compressed: Spoil = |facts, _| {
        facts.kernel.lockdown = Lockdown::Integrity;
        facts.module.files[0].content = None;
    };
    assert_eq!(ids(compressed), []);
}

#[test]
fn several_uplinks_have_to_be_named() {
    let multihomed: Spoil = |_, wanted| wanted.multihomed = true;
    assert_eq!(ids(multihomed), [Id::UplinkNotFound]);
    let named: Spoil = |facts, wanted| {
        wanted.multihomed = true;
        wanted.physical_interfaces = ["eth0", "eth1"].map(str::to_owned).into();
        facts.network.addresses.truncate(1);
    };
    assert_eq!(ids(named), []);
}

#[test]
fn hardware_that_dpdk_works_beside_needs_no_iommu() {
    let mellanox: Spoil = |facts, wanted| {
        dpdk(wanted);
        facts.passthrough.iommu = false;
        facts.devices.get_mut("eth0").unwrap().driver = Some("mlx5_core".into());
    };
    assert_eq!(ids(mellanox), [Id::KernelArgumentsMissing]);
}

#[test]
fn dpdk_takes_no_hardware_that_something_else_of_the_node_is_on() {
    let functions: Spoil = |facts, wanted| {
        dpdk(wanted);
        let device = facts.devices.get_mut("eth0").unwrap();
        device.virtual_functions = Some(VirtualFunctions { total: 8, configured: 2, ..VirtualFunctions::default() });
    };
    assert!(ids(functions).contains(&Id::VirtualFunctionsOnUplink), "{:?}", ids(functions));
    // The address of the interface below the VLAN that carries the overlay.
    let below: Spoil = |facts, wanted| {
        dpdk(wanted);
        wanted.physical_interfaces = vec!["eth0.100".into()];
        facts.network.links.push(above("eth0", "eth0.100", 4, "vlan"));
        let address = facts.network.addresses.iter().find(|address| address.link == "eth0").unwrap().clone();
        facts.network.addresses.push(Address {
            link: "eth0.100".into(),
            address: "10.3.0.7/24".parse().unwrap(),
            ..address
        });
    };
    assert!(ids(below).contains(&Id::UplinkVlansLost), "{:?}", ids(below));
}

#[test]
fn the_forwarder_of_dpdk_has_taken_the_interface_from_the_kernel() {
    let taken: Spoil = |facts, wanted| {
        dpdk(wanted);
        wanted.physical_interfaces = vec!["eth0".into()];
        switch(facts);
        facts.network.links.last_mut().unwrap().kind = Some("tun".into());
        facts.network.links.retain(|link| link.name != "eth0");
    };
    assert_eq!(ids(taken), []);
}

#[test]
fn a_network_that_calls_the_vrouters_plugin_does_not_count_as_another_one() {
    let multus: Spoil = |facts, _| {
        let types = vec!["multus".into()];
        let first = Configuration { file: "00-multus.conf".into(), types, ..Configuration::default() };
        facts.cni.directories =
            vec![Directory { path: "/etc/cni/net.d".into(), access: Access::Writable, configurations: vec![first] }];
    };
    assert_eq!(ids(multus), []);
}

#[test]
fn facts_and_findings_are_the_same_after_json() {
    let (facts, wanted) = spoilt(|facts, wanted| {
        switch(facts);
        wanted.physical_interfaces = vec!["eth1".into()];
        facts.network.addresses.push(address("eth1", "2001:db8::7/64"));
    });
    let text = serde_json::to_string(&facts).unwrap();
    assert_eq!(serde_json::from_str::<HostFacts>(&text).unwrap(), facts);
    let text = serde_json::to_string(&wanted).unwrap();
    assert_eq!(serde_json::from_str::<Wanted>(&text).unwrap(), wanted);
    let findings = preflight(&facts, &wanted);
    let value = serde_json::to_value(&findings[0]).unwrap();
    assert_eq!((&value["id"], &value["severity"]), (&"vhost0-above-other".into(), &"blocks".into()));
}
