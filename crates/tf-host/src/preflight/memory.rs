//! Memory: huge pages, or free memory in large pieces where there are none.

use super::{Finding, Id};
use crate::{
    HostFacts, Mode, Wanted,
    facts::memory::{GIB_1, MIB_2},
};

/// Tables of the kernel mode at the module's defaults: 77 pages of 2 MiB for flows and 10 for bridge entries, or 1 and 1 of 1 GiB.
const TABLES: [(u64, u64); 2] = [(MIB_2, 87), (GIB_1, 2)];
/// The same in blocks of 4 MiB: 173 MiB.
const TABLE_BLOCKS: u64 = 44;

pub fn check(facts: &HostFacts, wanted: &Wanted) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (size, count) in &wanted.huge_pages {
        findings.extend(pages(facts, wanted, *size, *count));
    }
    if wanted.huge_pages.is_empty() {
        findings.extend(match wanted.mode {
            Mode::Kernel => fragmented(facts),
            Mode::Dpdk => none_for_dpdk(facts),
        });
    }
    findings
}

fn pages(facts: &HostFacts, wanted: &Wanted, size: u64, count: u64) -> Vec<Finding> {
    let (memory, name) = (&facts.memory, named(size));
    let mut findings = Vec::new();
    if memory.mount_of(size).is_none() {
        let cause = format!("huge pages of {name} are not mounted");
        let action = format!("mount -t hugetlbfs -o pagesize={name} none DIRECTORY, and have the host do so at boot");
        findings.push(Finding::new(Id::HugePagesNotMounted, cause, action));
    }
    let tables = TABLES.iter().find(|(of, _)| *of == size).map_or(0, |(_, pages)| *pages);
    let needed = if wanted.mode == Mode::Kernel { count.max(tables) } else { count };
    let there = memory.huge_pages.get(&size).cloned().unwrap_or_default();
    // A loaded module holds those that its agent gave it until it is unloaded, and files of a forwarder those of its tables, which the next one takes.
    let is_in_use = facts.module.loaded.is_some() || wanted.mode == Mode::Dpdk;
    let (have, what) = if is_in_use { (there.total, "allocated") } else { (there.usable(), "free") };
    if have < needed {
        let cause = format!("{have} huge pages of {name} are {what} and {needed} are needed");
        let action = format!(
            "add hugepagesz={name} hugepages={needed} to the kernel's arguments and reboot, or write {needed} to nr_hugepages"
        );
        findings.push(Finding::new(Id::HugePagesTooFew, cause, action));
    }
    findings
}

fn none_for_dpdk(facts: &HostFacts) -> Option<Finding> {
    let any = facts.memory.huge_pages.values().any(|pages| pages.total > 0);
    let action = "add hugepagesz=1G hugepages=N to the kernel's arguments and reboot";
    (!any).then(|| Finding::new(Id::HugePagesTooFew, "DPDK needs huge pages, and the node has none", action))
}

fn fragmented(facts: &HostFacts) -> Option<Finding> {
    let free = facts.memory.free_blocks_of_4_mib;
    if facts.module.loaded.is_some() || facts.memory.total == 0 || free >= TABLE_BLOCKS {
        return None;
    }
    let cause = format!(
        "free memory has fewer than {TABLE_BLOCKS} pieces of 4 MiB, which the module's tables take: loading it may fail with ENOMEM"
    );
    Some(Finding::new(Id::MemoryFragmented, cause, "give the vRouter huge pages, or load the module soon after boot"))
}

/// `2M`, `1G`.
fn named(size: u64) -> String {
    if size.is_multiple_of(GIB_1) { format!("{}G", size / GIB_1) } else { format!("{}M", size >> 20) }
}
