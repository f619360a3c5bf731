//! The command line of the forwarder (VR dpdk/dpdk_vrouter.c; upstream's scripts in `containers/vrouter/agent-dpdk`). Pure.

use super::taken::Taken;
use crate::{CpuList, HostFacts, Wanted, facts::links::Bond};

/// The forwarder.
const PROGRAM: &str = "contrail-vrouter-dpdk";
/// Modes of a bond by the kernel's names, in the order of their numbers, which DPDK has alike.
const MODES: [&str; 7] =
    ["balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"];

/// The command line: the forwarder on its CPUs, with memory on each NUMA node that has huge pages, and what the interface is.
pub fn command(taken: &Taken, facts: &HostFacts, wanted: &Wanted) -> Vec<String> {
    let dpdk = &wanted.dpdk;
    let mut words: Vec<String> = Vec::new();
    if let Some(cores) = &dpdk.cores {
        words.extend(["taskset".to_owned(), "-c".to_owned(), cores.to_string()]);
    }
    words.extend([PROGRAM, "--no-daemon", "--socket-mem"].map(str::to_owned));
    words.push(memory(facts, dpdk.memory_per_node));
    // In brackets they are a list. A mask would end at CPU 31.
    let mut cores = |option: &str, cores: &Option<CpuList>| {
        words.extend(cores.iter().flat_map(|cores| [option.to_owned(), format!("({cores})")]));
    };
    cores("--service_core_mask", &dpdk.service_cores);
    cores("--dpdk_ctrl_thread_mask", &dpdk.control_cores);
    words.extend(dpdk.offloads.then(|| "--offloads".to_owned()));
    if let Some(id) = taken.uplink.vlan {
        words.extend(["--vlan_tci".to_owned(), id.to_string()]);
        if dpdk.vlan_forwarding {
            words.extend(["--vlan_fwd_intf_name".to_owned(), taken.lower.name.clone()]);
        }
    }
    words.extend(taken.lower.bond.iter().flat_map(|bond| ["--vdev".to_owned(), device_of(taken, bond)]));
    words.extend(dpdk.arguments.iter().cloned());
    words
}

/// MiB for each NUMA node in their order: none where it has no huge pages, with which the forwarder would end. Pages in use count, since those of a
/// forwarder that was killed are in use until the next one starts.
fn memory(facts: &HostFacts, per_node: u32) -> String {
    let has_pages = |node: &u32| {
        facts.memory.huge_pages.values().any(|pages| pages.total_by_node.get(node).is_some_and(|it| *it > 0))
    };
    let of_node = |node: &u32| if has_pages(node) { per_node } else { 0 };
    let nodes: Vec<String> = facts.cpus.nodes.keys().map(|node| of_node(node).to_string()).collect();
    if nodes.len() < 2 { per_node.to_string() } else { nodes.join(",") }
}

/// A bond as DPDK makes it of the same members.
fn device_of(taken: &Taken, bond: &Bond) -> String {
    let mode = MODES.iter().position(|mode| *mode == bond.mode).unwrap_or_default();
    let policy = match bond.policy.as_str() {
        "layer2+3" | "encap2+3" => "l23",
        "layer3+4" | "encap3+4" => "l34",
        _ => "l2",
    };
    let node = taken.devices.first().and_then(|device| device.numa_node).unwrap_or_default();
    let rate = u8::from(bond.fast);
    let (name, mac) = (&taken.lower.name, &taken.mac);
    let bond = format!("eth_bond_{name},mode={mode},xmit_policy={policy},socket_id={node},mac={mac},lacp_rate={rate}");
    taken.devices.iter().fold(bond, |bond, member| bond + ",slave=" + &member.pci)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        dpdk::taken::Device,
        facts::{links::Link, memory::HugePages},
        wanted::Dpdk,
    };

    fn taken(links: &[(&str, &str)]) -> Taken {
        let device = |(link, pci): &(&str, &str)| Device {
            link: (*link).into(),
            pci: (*pci).into(),
            driver: Some("i40e".into()),
            numa_node: Some(1),
            ..Device::default()
        };
        let link = Link { name: links[0].0.into(), ..Link::default() };
        Taken {
            mac: "52:54:00:00:00:07".into(),
            uplink: link.clone(),
            lower: link,
            devices: links.iter().map(device).collect(),
            ..Taken::default()
        }
    }

    fn two_nodes() -> HostFacts {
        let mut facts = HostFacts::default();
        facts.cpus.nodes = [(0, "0-3".parse().unwrap()), (1, "4-7".parse().unwrap())].into();
        let pages = HugePages { total_by_node: [(0, 0), (1, 4)].into(), ..HugePages::default() };
        facts.memory.huge_pages = [(1 << 30, pages)].into();
        facts
    }

    fn line(taken: &Taken, dpdk: Dpdk) -> String {
        command(taken, &two_nodes(), &Wanted { dpdk, ..Wanted::default() }).join(" ")
    }

    #[test]
    fn cpus_memory_and_arguments_are_those_that_are_stated() {
        let ens1 = taken(&[("ens1", "0000:03:00.0")]);
        assert_eq!(line(&ens1, Dpdk::default()), "contrail-vrouter-dpdk --no-daemon --socket-mem 0,1024");
        let dpdk = Dpdk {
            cores: Some("2-5,33".parse().unwrap()),
            service_cores: Some("2,33".parse().unwrap()),
            control_cores: Some("3".parse().unwrap()),
            memory_per_node: 2048,
            offloads: true,
            vlan_forwarding: true,
            arguments: vec!["--vr_mpls_labels".into(), "5120".into()],
            ..Dpdk::default()
        };
        assert_eq!(dpdk.forwarding().unwrap().to_string(), "4-5");
        assert_eq!(
            line(&ens1, dpdk),
            "taskset -c 2-5,33 contrail-vrouter-dpdk --no-daemon --socket-mem 0,2048 --service_core_mask (2,33) \
             --dpdk_ctrl_thread_mask (3) --offloads --vr_mpls_labels 5120"
        );
        let one_node = command(&ens1, &HostFacts::default(), &Wanted::default()).join(" ");
        assert_eq!(one_node, "contrail-vrouter-dpdk --no-daemon --socket-mem 1024");
    }

    #[test]
    fn a_vlan_above_a_bond_is_the_id_of_the_frames_and_the_same_bond_of_its_members() {
        let mut taken = taken(&[("ens1f0", "0000:03:00.0"), ("ens1f1", "0000:03:00.1")]);
        let bond = Bond { mode: "802.3ad".into(), policy: "layer3+4".into(), fast: true, ..Bond::default() };
        taken.lower = Link { name: "bond0".into(), bond: Some(bond), ..Link::default() };
        taken.uplink = Link { name: "bond0.100".into(), vlan: Some(100), ..Link::default() };
        let vdev = "eth_bond_bond0,mode=4,xmit_policy=l34,socket_id=1,mac=52:54:00:00:00:07,lacp_rate=1,slave=0000:03:00.0,slave=0000:03:00.1";
        let start = "contrail-vrouter-dpdk --no-daemon --socket-mem 0,1024 --vlan_tci 100";
        assert_eq!(line(&taken, Dpdk::default()), format!("{start} --vdev {vdev}"));
        let forwarding = Dpdk { vlan_forwarding: true, ..Dpdk::default() };
        assert_eq!(line(&taken, forwarding), format!("{start} --vlan_fwd_intf_name bond0 --vdev {vdev}"));
        for (policy, expected) in [("layer2", "l2"), ("encap2+3", "l23"), ("encap3+4", "l34"), ("vlan+srcmac", "l2")] {
            taken.lower.bond = Some(Bond { mode: "active-backup".into(), policy: policy.into(), ..Bond::default() });
            let line = line(&taken, Dpdk::default());
            assert!(
                line.contains(&format!("mode=1,xmit_policy={expected},")) && line.contains("lacp_rate=0"),
                "{line}"
            );
        }
    }
}
