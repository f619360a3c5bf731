//! What a node is. [`observe()`] reads it, one file of this folder for each kind of fact, and changes nothing.
//!
//! All types can be serialised, so that facts of a node can be kept, shown elsewhere and used in tests.

pub mod addresses;
pub mod cni;
pub mod cpus;
pub mod devices;
pub mod firewall;
pub mod kernel;
pub mod links;
pub mod listeners;
pub mod memory;
pub mod module;
pub mod neighbours;
pub mod network;
pub mod owners;
pub mod platform;
pub mod processes;
pub mod routes;
pub mod rules;
pub mod sysctls;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    netlink,
    root::{Reader, Root, Unread},
};

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostFacts {
    /// The kernel, and what it lets in.
    pub kernel: kernel::Kernel,
    /// The vRouter's kernel module, loaded and on disk.
    pub module: module::Module,
    /// Interfaces, addresses, routes, rules, neighbours.
    pub network: network::Network,
    /// Hardware of interfaces, by their names.
    pub devices: BTreeMap<String, devices::Device>,
    /// What the kernel has for handing devices to programs.
    pub passthrough: devices::Passthrough,
    /// Who sets addresses of interfaces.
    pub owners: Vec<owners::Owner>,
    /// Memory and huge pages.
    pub memory: memory::Memory,
    /// CPUs and NUMA nodes.
    pub cpus: cpus::Cpus,
    /// Kernel settings.
    pub sysctls: sysctls::Sysctls,
    /// CNI configuration and programs.
    pub cni: cni::Cni,
    /// Zones of firewalld that name interfaces.
    pub firewall: firewall::Firewall,
    /// TCP ports that something listens on.
    pub listeners: listeners::Listeners,
    /// Programs that matter to the vRouter.
    pub processes: Vec<processes::Process>,
    /// The machine and its distribution.
    pub platform: platform::Platform,
    /// What could not be read. Facts of it are missing, which does not mean that there are none.
    pub unread: Vec<Unread>,
}

/// Reads a node: files below a root, and the network of the network namespace that the caller is in.
pub fn observe(root: &Root) -> HostFacts {
    let reader = Reader::new(root);
    let network = netlink::network(&reader);
    read(reader, network)
}

/// The network of the network namespace that the caller is in, and nothing else of a node: for what is looked at often.
pub(crate) fn observe_network(root: &Root) -> network::Network {
    netlink::network(&Reader::new(root))
}

/// Names the boot of a node, and reads nothing else of it.
pub(crate) fn boot_id(root: &Root) -> String {
    kernel::boot_id(&Reader::new(root))
}

/// Reads all of a node but its network, which is given.
pub fn observe_files(root: &Root, network: network::Network) -> HostFacts {
    read(Reader::new(root), network)
}

fn read(reader: Reader<'_>, network: network::Network) -> HostFacts {
    let kernel = kernel::Kernel::read(&reader);
    let processes = processes::read(&reader);
    HostFacts {
        module: module::Module::read(&reader, &kernel.release),
        devices: devices::read(&reader, &network.links),
        passthrough: devices::Passthrough::read(&reader),
        owners: owners::read(&reader, &network.links, &processes),
        memory: memory::Memory::read(&reader),
        cpus: cpus::Cpus::read(&reader),
        sysctls: sysctls::Sysctls::read(&reader, &network),
        cni: cni::Cni::read(&reader),
        firewall: firewall::Firewall::read(&reader),
        listeners: listeners::Listeners::read(&reader),
        platform: platform::Platform::read(&reader),
        kernel,
        processes,
        network,
        unread: reader.into_unread(),
    }
}

/// Fake trees for tests of readers.
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "helpers of tests")]
pub(crate) mod tree {
    use std::{fs, os::unix::fs::symlink, path::Path};

    use crate::root::{Reader, Root};

    /// A directory with these files; a content that begins with `->` is a symbolic link.
    pub fn of(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::below(directory.path());
        for (path, content) in files {
            let path = root.at(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match content.strip_prefix("->") {
                Some(target) => symlink(target, path).unwrap(),
                None => fs::write(path, content).unwrap(),
            }
        }
        directory
    }

    /// What a reader makes of such files. Nothing may be unread.
    pub fn read<T>(files: &[(&str, &str)], read: impl FnOnce(&Reader<'_>) -> T) -> T {
        below(of(files).path(), read)
    }

    pub fn below<T>(directory: &Path, read: impl FnOnce(&Reader<'_>) -> T) -> T {
        let root = Root::below(directory);
        let reader = Reader::new(&root);
        let found = read(&reader);
        assert_eq!(reader.into_unread(), []);
        found
    }
}
