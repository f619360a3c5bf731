//! CPUs and NUMA nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{CpuList, root::Reader};

/// CPUs of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cpus {
    /// CPUs that run.
    pub online: CpuList,
    /// CPUs that the kernel gives to no program by itself (`isolcpus`).
    pub isolated: CpuList,
    /// CPUs that this process may use: in a container, those of its cpuset.
    pub allowed: CpuList,
    /// CPUs of each NUMA node.
    pub nodes: BTreeMap<u32, CpuList>,
}

impl Cpus {
    pub(super) fn read(reader: &Reader<'_>) -> Self {
        const NODES: &str = "/sys/devices/system/node";
        let list = |path: &str| reader.value(path).and_then(|text| text.parse().ok()).unwrap_or_default();
        let status = reader.text("/proc/self/status").unwrap_or_default();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let node = |name: String| {
            let number = name.strip_prefix("node")?.parse().ok()?;
            Some((number, list(&format!("{NODES}/{name}/cpulist"))))
        };
        Self {
            online: list("/sys/devices/system/cpu/online"),
            isolated: list("/sys/devices/system/cpu/isolated"),
            allowed: allowed.and_then(|text| text.parse().ok()).unwrap_or_default(),
            nodes: reader.names(NODES).into_iter().filter_map(node).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tree;

    #[test]
    fn cpus_are_read_with_their_nodes() {
        let cpus = tree::read(
            &[
                ("/sys/devices/system/cpu/online", "0-7\n"),
                ("/sys/devices/system/cpu/isolated", "2-3\n"),
                ("/proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-5\n"),
                ("/sys/devices/system/node/node0/cpulist", "0-3\n"),
                ("/sys/devices/system/node/node1/cpulist", "4-7\n"),
                ("/sys/devices/system/node/possible", "0-1\n"),
            ],
            Cpus::read,
        );
        let list = |text: &str| text.parse().unwrap();
        let nodes = [(0, list("0-3")), (1, list("4-7"))].into();
        assert_eq!(cpus, Cpus { online: list("0-7"), isolated: list("2-3"), allowed: list("0-5"), nodes });
        assert_eq!(tree::read(&[], Cpus::read), Cpus::default());
    }
}
