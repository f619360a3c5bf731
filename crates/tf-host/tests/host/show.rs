//! What people see of a node.

use tf_host::{
    facts::{
        addresses::Flag,
        cni::Configuration,
        links::{Bond, Link},
        memory::MIB_2,
        module::Loaded,
        owners::{Owner, Program},
    },
    preflight, show,
};

use crate::fixture::{MAC, address, facts, hop, link, wanted};

#[test]
fn a_node_with_a_plain_interface() {
    let (mut facts, wanted) = (facts(), wanted());
    facts.network.addresses[1].valid = Some(43_200);
    facts.network.addresses[1].flags = [Flag::NoPrefixRoute].into();
    facts.network.links[1].mtu = 1500;
    facts.owners = vec![Owner {
        link: "eth0".into(),
        program: Program::Networkd,
        dhcp: true,
        evidence: "/run/systemd/netif/links/2".into(),
    }];
    facts.cni.directories[0].configurations[0].file = "05-bridge.conf".into();
    insta::assert_snapshot!(show(&facts, &wanted, &preflight(&facts, &wanted)));
}

#[test]
fn a_node_with_vhost0_above_a_vlan_of_a_bond() {
    let (mut facts, mut wanted) = (facts(), wanted());
    wanted.huge_pages = [(MIB_2, 128)].into();
    let network = &mut facts.network;
    let same = |link: Link| Link { mac: Some(MAC.into()), ..link };
    network.links[1].master = Some("bond0".into());
    let bond = Bond { mode: "802.3ad".into(), ..Bond::default() };
    network.links.push(same(Link { kind: Some("bond".into()), bond: Some(bond), ..link("bond0", 4) }));
    let vlan =
        Link { kind: Some("vlan".into()), vlan: Some(100), parent: Some("bond0".into()), ..link("bond0.100", 5) };
    network.links.push(same(vlan));
    network.links.push(same(Link { kind: Some("vhost".into()), ..link("vhost0", 6) }));
    network.addresses[1] = address("vhost0", "10.0.0.7/24");
    network.routes[0].hops = vec![hop("vhost0", Some("10.0.0.1")), hop("eth1", Some("192.0.2.1"))];
    network.routes[0].metric = Some(100);
    facts.module.loaded = Some(Loaded { version: Some("24.1".into()), users: Some(1), ..Loaded::default() });
    facts.cni.directories[0].configurations = vec![Configuration {
        file: "10-tf-cni.conf".into(),
        network: Some("contrail-k8s-cni".into()),
        types: vec!["contrail-k8s-cni".into()],
        error: None,
    }];
    insta::assert_snapshot!(show(&facts, &wanted, &preflight(&facts, &wanted)));
}

#[test]
fn a_node_of_which_nothing_is_known() {
    let (facts, wanted) = (tf_host::HostFacts::default(), wanted());
    insta::assert_snapshot!(show(&facts, &wanted, &preflight(&facts, &wanted)));
}
