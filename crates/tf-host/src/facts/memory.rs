//! Memory: huge pages of each size and of each NUMA node, where they are mounted, and how fragmented the rest is.

use std::{collections::BTreeMap, io};

use serde::{Deserialize, Serialize};

use crate::root::Reader;

/// Bytes of the huge pages that the vRouter takes.
pub const MIB_2: u64 = 2 << 20;
/// Bytes of the larger huge pages that the vRouter takes.
pub const GIB_1: u64 = 1 << 30;
/// The order of the largest blocks that `buddyinfo` counts: 2^10 pages of 4 KiB, 4 MiB.
const LARGEST_ORDER: usize = 10;

/// Memory of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// Bytes.
    pub total: u64,
    /// Bytes that can be had without swapping.
    pub available: u64,
    /// Huge pages by their size in bytes.
    pub huge_pages: BTreeMap<u64, HugePages>,
    /// Mounts of huge pages, in the order of the kernel's list.
    pub mounts: Vec<Mount>,
    /// Free blocks of 4 MiB, which large tables of the kernel are made of.
    pub free_blocks_of_4_mib: u64,
}

/// Huge pages of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HugePages {
    /// Allocated to be huge pages.
    pub total: u64,
    /// Of these, not in use.
    pub free: u64,
    /// Of the free ones, promised to a program.
    pub reserved: u64,
    /// Allocated pages of each NUMA node, in use or not.
    pub total_by_node: BTreeMap<u32, u64>,
}

/// A mount of huge pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Mount {
    /// The directory.
    pub path: String,
    /// Bytes of a page. None: the kernel's default size.
    pub page: Option<u64>,
}

impl HugePages {
    /// Pages that a program can still have.
    pub fn usable(&self) -> u64 {
        self.free.saturating_sub(self.reserved)
    }
}

impl Memory {
    pub(super) fn read(reader: &Reader<'_>) -> Self {
        let info = reader.text("/proc/meminfo").unwrap_or_default();
        let kib = |name: &str| {
            let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            value.split_whitespace().next()?.parse::<u64>().ok()
        };
        let default = kib("Hugepagesize").map(|kib| kib << 10);
        let mut mounts = mounts(&mount_table(reader));
        for mount in &mut mounts {
            mount.page = mount.page.or(default);
        }
        Self {
            total: kib("MemTotal").unwrap_or_default() << 10,
            available: kib("MemAvailable").unwrap_or_default() << 10,
            huge_pages: huge_pages(reader),
            mounts,
            free_blocks_of_4_mib: free_blocks(&reader.text("/proc/buddyinfo").unwrap_or_default()),
        }
    }

    /// Where pages of a size are mounted: of several places the last, as the vRouter's images choose.
    pub fn mount_of(&self, page: u64) -> Option<&Mount> {
        self.mounts.iter().rev().find(|mount| mount.page == Some(page))
    }
}

/// The mounts of process 1, which are the host's even where this process has others.
fn mount_table(reader: &Reader<'_>) -> String {
    match reader.try_text("/proc/1/mountinfo") {
        Ok(table) => table,
        Err(error) if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound) => {
            reader.text("/proc/self/mountinfo").unwrap_or_default()
        }
        Err(error) => {
            reader.missed("/proc/1/mountinfo", error);
            String::new()
        }
    }
}

/// Mounts of `hugetlbfs` (proc_pid_mountinfo(5)): the type is the first field after the separator `-`.
fn mounts(table: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let (place, file_system) = line.split_once(" - ")?;
        let mut fields = file_system.split(' ');
        let (kind, _source, options) = (fields.next()?, fields.next()?, fields.next().unwrap_or_default());
        let path = place.split(' ').nth(4)?;
        let page = options.split(',').find_map(|option| option.strip_prefix("pagesize=")).and_then(bytes);
        (kind == "hugetlbfs").then(|| Mount { path: path.to_owned(), page })
    };
    table.lines().filter_map(mount).collect()
}

/// Bytes of the size of a page as mounts state it: `2M`, `1024M`, `1G`.
pub fn bytes(size: &str) -> Option<u64> {
    let (number, unit) = size.split_at(size.find(|letter: char| !letter.is_ascii_digit())?);
    let unit = match unit {
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

fn huge_pages(reader: &Reader<'_>) -> BTreeMap<u64, HugePages> {
    const SIZES: &str = "/sys/kernel/mm/hugepages";
    const NODES: &str = "/sys/devices/system/node";
    let nodes: Vec<(u32, String)> = reader
        .names(NODES)
        .into_iter()
        .filter_map(|name| Some((name.strip_prefix("node")?.parse().ok()?, name)))
        .collect();
    let size = |name: String| {
        let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let count = |file: &str| reader.number(&format!("{SIZES}/{name}/{file}")).unwrap_or_default();
        let of_node = |(node, directory): &(u32, String)| {
            Some((*node, reader.number(&format!("{NODES}/{directory}/hugepages/{name}/nr_hugepages"))?))
        };
        let pages = HugePages {
            total: count("nr_hugepages"),
            free: count("free_hugepages"),
            reserved: count("resv_hugepages"),
            total_by_node: nodes.iter().filter_map(of_node).collect(),
        };
        Some((kib << 10, pages))
    };
    reader.names(SIZES).into_iter().filter_map(size).collect()
}

/// Free blocks of the largest order in all zones: `Node 0, zone Normal 4 3 ... 12`, a column for each order.
fn free_blocks(buddyinfo: &str) -> u64 {
    let of_zone = |line: &str| {
        let (_, zone) = line.split_once("zone")?;
        zone.split_whitespace().skip(1).nth(LARGEST_ORDER)?.parse::<u64>().ok()
    };
    buddyinfo.lines().filter_map(of_zone).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tree;

    #[test]
    fn huge_pages_are_read_by_size_and_node_with_their_mounts() {
        let sizes = "/sys/kernel/mm/hugepages/hugepages-2048kB";
        let memory = tree::read(
            &[
                ("/proc/meminfo", "MemTotal:  16384 kB\nMemAvailable: 8192 kB\nHugepagesize:       2048 kB\n"),
                (&format!("{sizes}/nr_hugepages"), "128\n"),
                (&format!("{sizes}/free_hugepages"), "100\n"),
                (&format!("{sizes}/resv_hugepages"), "13\n"),
                ("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "78\n"),
                ("/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages", "50\n"),
                ("/sys/devices/system/node/has_cpu", "0-1\n"),
                (
                    "/proc/1/mountinfo",
                    "22 1 0:20 / /proc rw shared:5 - proc proc rw\n\
                     30 22 0:27 / /dev/hugepages rw,relatime shared:9 - hugetlbfs hugetlbfs rw\n\
                     31 22 0:28 / /mnt/huge1g rw - hugetlbfs none rw,pagesize=1024M\n\
                     32 22 0:29 / /mnt/huge rw - hugetlbfs none rw,pagesize=2M\n",
                ),
                (
                    "/proc/buddyinfo",
                    "Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      2\n\
                     Node 0, zone   Normal   4381   1093    185   1530    567    102      4      0      0      0     40\n",
                ),
            ],
            Memory::read,
        );
        let pages = &memory.huge_pages[&MIB_2];
        assert_eq!((pages.total, pages.usable(), &pages.total_by_node), (128, 87, &[(0, 78), (1, 50)].into()));
        let paths = [MIB_2, GIB_1].map(|size| memory.mount_of(size).map(|mount| mount.path.as_str()));
        assert_eq!(paths, [Some("/mnt/huge"), Some("/mnt/huge1g")], "the last of several");
        assert_eq!((memory.total, memory.available, memory.free_blocks_of_4_mib), (16 << 20, 8 << 20, 42));
    }

    #[test]
    fn without_process_1_the_mounts_are_those_of_this_process() {
        let line = "30 22 0:27 / /dev/hugepages rw - hugetlbfs hugetlbfs rw,pagesize=2M\n";
        let memory = tree::read(&[("/proc/self/mountinfo", line)], Memory::read);
        assert_eq!(memory.mounts, [Mount { path: "/dev/hugepages".into(), page: Some(MIB_2) }]);
        assert_eq!(["1G", "4096K", "M", "1T", ""].map(bytes), [Some(1 << 30), Some(4 << 20), None, None, None]);
    }
}
