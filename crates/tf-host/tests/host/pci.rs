//! An interface on PCI and the kernel that gives it drivers, which a thread plays on a made-up `/sys`: with a driver for programs the interface is in
//! another network namespace, and with its own one it comes back, down and empty.

use std::{
    fs::{self, File},
    os::{fd::AsRawFd as _, unix::fs::symlink},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{LinkAttribute, LinkFlags, LinkMessage},
};
use nix::sched::{CloneFlags, setns, unshare};
use tf_host::data_path::DataPath as _;
use tf_sim::module::{OTHER_END, StandIn};

use crate::kernel::open;

/// Address of the interface.
pub const PCI: &str = "0000:03:00.0";
/// Its own driver.
pub const OWN: &str = "virtio-pci";

/// The root of a node whose interface `eth0` is on PCI, and where that goes when a program has it.
pub struct Pci {
    directory: tempfile::TempDir,
    own: File,
    elsewhere: File,
    otherwise: Otherwise,
    is_over: Arc<AtomicBool>,
}

/// Does something in another network namespace.
fn within<T>(namespace: &File, own: &File, does: impl FnOnce() -> T) -> T {
    setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
    let done = does();
    setns(own, CloneFlags::CLONE_NEWNET).unwrap();
    done
}

/// What an interface is called when it comes back, and after which time it has its name again.
type Otherwise = Arc<Mutex<Option<(&'static str, Option<Duration>)>>>;

/// Gives an interface of this network namespace another name, if it is down.
fn named(link: &str, new: &str) {
    let kernel = open();
    let mut message = LinkMessage::default();
    message.header.index = kernel.index(link);
    message.attributes = vec![LinkAttribute::IfName(new.to_owned())];
    kernel.send(RouteNetlinkMessage::SetLink(message), 0).unwrap();
}

/// Moves an interface of this network namespace to another one.
fn moved(link: &str, to: &File) {
    let kernel = open();
    let mut message = LinkMessage::default();
    message.header.index = kernel.index(link);
    message.attributes = vec![LinkAttribute::NetNsFd(to.as_raw_fd())];
    kernel.send(RouteNetlinkMessage::SetLink(message), 0).unwrap();
}

impl Pci {
    /// For the network namespace of this thread.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let own = File::open("/proc/thread-self/ns/net").unwrap();
        let (send, elsewhere) = mpsc::channel();
        let (root, node, is_over) =
            (directory.path().to_owned(), own.try_clone().unwrap(), Arc::new(AtomicBool::new(false)));
        let over = Arc::clone(&is_over);
        let otherwise = Otherwise::default();
        let comes_back = Arc::clone(&otherwise);
        let files = [
            ("/proc/sys/kernel/osrelease", "6.1.0\n"),
            ("/proc/sys/kernel/random/boot_id", "first\n"),
            ("/proc/modules", ""),
            ("/sys/kernel/iommu_groups/1/type", "DMA\n"),
            ("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "1024\n"),
            ("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "1024\n"),
            ("/sys/devices/system/cpu/online", "0-7\n"),
            ("/sys/bus/pci/drivers_probe", ""),
            ("/sys/bus/pci/drivers/virtio-pci/unbind", ""),
            ("/sys/bus/pci/drivers/virtio-pci/bind", ""),
            ("/sys/bus/pci/drivers/vfio-pci/unbind", ""),
            ("/sys/bus/pci/devices/0000:03:00.0/driver_override", "(null)\n"),
            ("/sys/bus/pci/devices/0000:03:00.0/virtio0/net/eth0/type", "1\n"),
            ("/etc/cni/net.d/none", ""),
            ("/opt/cni/bin/none", ""),
        ];
        for (path, content) in files {
            let path = root.join(&path[1..]);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let device = root.join("sys/bus/pci/devices").join(PCI);
        symlink(format!("../../drivers/{OWN}"), device.join("driver")).unwrap();
        fs::create_dir_all(root.join("sys/class/net/eth0")).unwrap();
        symlink(format!("../../../bus/pci/devices/{PCI}"), root.join("sys/class/net/eth0/device")).unwrap();
        thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            let here = File::open("/proc/thread-self/ns/net").unwrap();
            send.send(here.try_clone().unwrap()).unwrap();
            while !over.load(Ordering::Relaxed) {
                played(&root, &node, &here, &comes_back);
                thread::sleep(Duration::from_millis(5));
            }
        });
        Self { directory, own, elsewhere: elsewhere.recv().unwrap(), otherwise, is_over }
    }

    /// The interface has this name when it comes back, and its own one after some time, or never.
    pub fn comes_back_as(&self, name: &'static str, renamed: Option<Duration>) {
        *self.otherwise.lock().unwrap() = Some((name, renamed));
    }

    /// The directory that stands for `/`.
    pub fn path(&self, of: &str) -> PathBuf {
        self.directory.path().join(of.trim_start_matches('/'))
    }

    /// The driver that the interface has.
    pub fn driver(&self) -> String {
        let link = self.path(&format!("/sys/bus/pci/devices/{PCI}/driver"));
        fs::read_link(link).unwrap().file_name().unwrap().to_str().unwrap().to_owned()
    }

    /// Makes `vhost0`, as a forwarder does that has the interface. `passes`: whether packets pass between them.
    pub fn make_vhost0(&self, mac: &str, passes: bool) {
        within(&self.elsewhere, &self.own, || {
            let mut path = StandIn::open().unwrap();
            path.create(mac, 1500).unwrap();
            if passes {
                path.add_physical("eth0").unwrap();
                path.attach("eth0").unwrap();
            }
            moved("vhost0", &self.own);
        });
    }

    /// `vhost0` goes, as it does when its forwarder ends.
    pub fn end_vhost0(&self) {
        within(&self.elsewhere, &self.own, || {
            let kernel = open();
            if let Some(link) = kernel.observe().network.link(OTHER_END) {
                let mut message = LinkMessage::default();
                message.header.index = link.index;
                message.header.flags = LinkFlags::empty();
                kernel.send(RouteNetlinkMessage::DelLink(message), 0).unwrap();
                StandIn::open().unwrap().detach("eth0").unwrap();
            }
        });
    }
}

impl Drop for Pci {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// What the kernel does about what was written: an interface goes with its driver and everything on it, and comes back down and empty.
fn played(root: &Path, node: &File, here: &File, otherwise: &Otherwise) {
    let bus = root.join("sys/bus/pci");
    let device = bus.join("devices").join(PCI);
    let asked = |file: &Path| fs::read_to_string(file).is_ok_and(|text| text == PCI);
    for driver in [OWN, "vfio-pci"] {
        let file = bus.join("drivers").join(driver).join("unbind");
        if asked(&file) {
            fs::write(file, "").unwrap();
            fs::remove_file(device.join("driver")).unwrap();
            if driver == OWN {
                within(node, here, || moved("eth0", here));
                open().set("eth0", vec![]);
                fs::remove_dir_all(device.join("virtio0")).unwrap();
            }
        }
    }
    let probe = bus.join("drivers_probe");
    if asked(&probe) && !device.join("driver").exists() {
        fs::write(probe, "").unwrap();
        let stated = fs::read_to_string(device.join("driver_override")).unwrap();
        let driver = if matches!(stated.trim(), "" | "(null)") { OWN } else { stated.trim() };
        let net = device.join("virtio0/net");
        let other = otherwise.lock().unwrap().take();
        if driver == OWN {
            let (name, _) = other.unwrap_or(("eth0", None));
            if name != "eth0" {
                named("eth0", name);
            }
            moved(name, node);
            fs::create_dir_all(net.join(name)).unwrap();
        }
        symlink(format!("../../drivers/{driver}"), device.join("driver")).unwrap();
        if let Some((name, Some(after))) = other {
            thread::sleep(after);
            within(node, here, || named(name, "eth0"));
            fs::rename(net.join(name), net.join("eth0")).unwrap();
        }
    }
}
