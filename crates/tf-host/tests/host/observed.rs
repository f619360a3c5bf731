//! The whole of a node: a fake tree of files, and this machine.

use std::fs;

use tf_host::{
    HostFacts, Root, Wanted,
    facts::{kernel::Lockdown, memory::MIB_2, network::Network, observe_files, owners::Program},
    observe, preflight,
    preflight::Id,
};

use crate::fixture;

/// Files of a node on which NetworkManager leases the address of `eth0`.
const FILES: &[(&str, &str)] = &[
    ("/proc/sys/kernel/osrelease", "5.14.0-503.el9.x86_64\n"),
    ("/proc/modules", ""),
    ("/proc/cmdline", "root=/dev/vda1\n"),
    ("/proc/meminfo", "MemTotal: 16384000 kB\nHugepagesize: 2048 kB\n"),
    ("/proc/1/mountinfo", "30 22 0:27 / /dev/hugepages rw - hugetlbfs hugetlbfs rw\n"),
    ("/proc/net/tcp", "   0: 00000000:2383 00000000:0000 0A 0 0 0\n"),
    ("/proc/811/comm", "NetworkManager\n"),
    ("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "64\n"),
    ("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "64\n"),
    ("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n"),
    ("/sys/class/dmi/id/chassis_vendor", "Google\n"),
    ("/run/NetworkManager/devices/2", "[device]\nmanaged=true\nconnection-uuid=8d\n"),
    ("/var/lib/NetworkManager/internal-8d-eth0.lease", "ADDRESS=10.0.0.7\n"),
    ("/etc/cni/net.d/05-cilium.conflist", r#"{"name": "cilium", "plugins": [{"type": "cilium-cni"}]}"#),
    ("/opt/cni/bin/loopback", ""),
];

#[test]
fn files_of_a_node_lead_to_its_findings() {
    let directory = tempfile::tempdir().unwrap();
    let root = Root::below(directory.path());
    for (path, content) in FILES {
        fs::create_dir_all(root.at(path).parent().unwrap()).unwrap();
        fs::write(root.at(path), content).unwrap();
    }
    let facts = observe_files(&root, fixture::facts().network);
    assert_eq!(facts.unread, []);
    assert_eq!((facts.kernel.lockdown, facts.memory.huge_pages[&MIB_2].total), (Lockdown::Integrity, 64));
    assert_eq!((facts.owners[0].program, facts.owners[0].dhcp), (Program::NetworkManager, true));
    let wanted = Wanted { huge_pages: [(MIB_2, 128)].into(), ..Wanted::default() };
    let ids: Vec<Id> = preflight(&facts, &wanted).iter().map(|finding| finding.id).collect();
    assert_eq!(
        ids,
        [
            Id::KernelHeadersMissing,
            Id::ModuleNotSigned,
            Id::UplinkAddressLeased,
            Id::HugePagesTooFew,
            Id::PortTaken,
            Id::CloudDhcp,
            Id::CniOtherNetworkFirst,
        ]
    );
}

#[test]
fn an_empty_tree_is_a_node_of_which_little_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let facts = observe_files(&Root::below(directory.path()), Network::default());
    assert_eq!(facts.unread.len(), 1, "{:?}", facts.unread);
    let findings = preflight(&facts, &Wanted::default());
    let ids: Vec<Id> = findings.iter().map(|finding| finding.id).collect();
    assert_eq!(ids, [Id::UplinkNotFound, Id::FactsUnread]);
    assert!(findings[1].cause.starts_with("/proc/sys/kernel/osrelease could not be read (is not there)"));
}

#[test]
fn this_machine_is_read_without_a_gap_that_root_would_not_have() {
    let facts: HostFacts = observe(&Root::default());
    let loopback = facts.network.links.iter().find(|link| link.name == "lo").unwrap();
    assert!(loopback.loopback && !loopback.ethernet);
    assert_eq!(facts.kernel.release, rustix::system::uname().release().to_string_lossy());
    assert!(!facts.cpus.online.is_empty() && facts.memory.total > 0 && !facts.kernel.boot_id.is_empty());
    let is_refused = |error: &str| error.contains("denied") || error.contains("permitted");
    assert!(facts.unread.iter().all(|unread| is_refused(&unread.error)), "{:?}", facts.unread);
}
