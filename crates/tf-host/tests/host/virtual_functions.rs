//! Virtual functions on a made-up `/sys`, which a thread plays the kernel of: what no hardware is there for.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use tf_host::{
    Root, Wanted,
    preflight::Id,
    virtual_functions::{Change, Error, apply, remove},
};

use crate::kernel::in_namespace;

const PCI: &str = "0000:03:00.0";

/// A node whose interface `ens1` can have virtual functions. The kernel makes them as their number is written.
struct Node {
    directory: tempfile::TempDir,
    kernel: Option<thread::JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
}

impl Node {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::below(directory.path());
        let device = root.at(format!("/sys/bus/pci/devices/{PCI}"));
        fs::create_dir_all(&device).unwrap();
        for (file, text) in
            [("sriov_totalvfs", "8\n"), ("sriov_numvfs", "0\n"), ("vendor", "0x8086\n"), ("device", "0x1572\n")]
        {
            fs::write(device.join(file), text).unwrap();
        }
        let link = root.at("/sys/class/net/ens1");
        fs::create_dir_all(&link).unwrap();
        symlink(format!("../../../bus/pci/devices/{PCI}"), link.join("device")).unwrap();
        let release = root.at("/proc/sys/kernel/osrelease");
        fs::create_dir_all(release.parent().unwrap()).unwrap();
        fs::write(release, "6.1.0\n").unwrap();
        let node = Self { directory, kernel: None, is_over: Arc::default() };
        node.boot("first");
        node
    }

    fn boot(&self, id: &str) {
        let file = self.root().at("/proc/sys/kernel/random/boot_id");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("{id}\n")).unwrap();
    }

    fn root(&self) -> Root {
        Root::below(self.directory.path())
    }

    fn record(&self) -> PathBuf {
        self.directory.path().join("state/virtual-functions.json")
    }

    fn numbers(&self) -> PathBuf {
        self.root().at(format!("/sys/bus/pci/devices/{PCI}/sriov_numvfs"))
    }

    /// From here on a kernel makes what is written.
    fn with_a_kernel(mut self) -> Self {
        let (numbers, over) = (self.numbers(), Arc::clone(&self.is_over));
        let devices = self.root().at("/sys/bus/pci/devices");
        self.kernel = Some(thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let wanted: usize = fs::read_to_string(&numbers).unwrap().trim().parse().unwrap_or_default();
                made(&devices, wanted);
                thread::sleep(Duration::from_millis(5));
            }
        }));
        self
    }

    fn apply(&self, count: u32) -> Result<Vec<Change>, Error> {
        let wanted = Wanted { virtual_functions: [("ens1".to_owned(), count)].into(), ..Wanted::default() };
        apply(&self.root(), &wanted, &self.record())
    }

    fn number(&self) -> String {
        fs::read_to_string(self.numbers()).unwrap().trim().to_owned()
    }

    /// Has a program take the first function.
    fn hand_over(&self) {
        let function = self.root().at("/sys/bus/pci/devices/0000:03:02.0");
        fs::create_dir_all(&function).unwrap();
        symlink("../../drivers/vfio-pci", function.join("driver")).unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(kernel) = self.kernel.take() {
            kernel.join().unwrap();
        }
    }
}

/// As many functions as the kernel has to have.
fn made(devices: &Path, wanted: usize) {
    let device = devices.join(PCI);
    for number in 0..8 {
        let link = device.join(format!("virtfn{number}"));
        let function = devices.join(format!("0000:03:02.{number}"));
        if number < wanted && !link.exists() {
            fs::create_dir_all(&function).unwrap();
            let _ = symlink(format!("../0000:03:02.{number}"), link);
        } else if number >= wanted && link.symlink_metadata().is_ok() {
            let _ = fs::remove_file(link);
            let _ = fs::remove_dir_all(function);
        }
    }
}

fn change(from: u32, to: u32) -> Change {
    Change { link: "ens1".into(), pci: PCI.into(), from, to }
}

/// In a network namespace that has the interface.
fn on_node(test: impl FnOnce(Node)) {
    in_namespace(|kernel| {
        kernel.add_pair("ens1", "peer0");
        test(Node::new().with_a_kernel());
    });
}

#[test]
fn they_are_made_once_another_number_takes_the_place_and_what_was_made_is_taken_away() {
    on_node(|node| {
        assert_eq!(node.apply(4).unwrap(), [change(0, 4)]);
        assert_eq!(node.apply(4).unwrap(), []);
        assert_eq!(node.apply(7).unwrap(), [change(4, 7)]);
        assert_eq!(node.number(), "7");
        assert_eq!(remove(&node.root(), &node.record()).unwrap(), (vec![change(7, 0)], vec![]));
        assert_eq!((node.number().as_str(), node.record().exists()), ("0", false));
        assert_eq!(remove(&node.root(), &node.record()).unwrap(), (vec![], vec![]));
    });
}

#[test]
fn functions_that_a_program_has_stay_whatever_is_wanted() {
    on_node(|node| {
        node.apply(4).unwrap();
        node.hand_over();
        let Error::Blocked(findings) = node.apply(7).unwrap_err() else { panic!("not blocked") };
        assert_eq!(findings.len(), 1);
        assert_eq!(
            findings[0].to_string(),
            "ens1 has 4 virtual functions and 7 are wanted, which takes all of them away, and 0000:03:02.0 is handed to a program (vfio-pci); \
             drain the node and free its virtual functions, or ask for the number that there is"
        );
        assert_eq!(node.apply(4).unwrap(), [], "as many as are wanted");
        let kept = "virtual functions of ens1, since 0000:03:02.0 is handed to a program (vfio-pci)".to_owned();
        assert_eq!(remove(&node.root(), &node.record()).unwrap(), (vec![], vec![kept]));
        assert_eq!((node.number().as_str(), node.record().exists()), ("4", true));
    });
}

#[test]
fn what_others_made_is_not_taken_away_nor_what_an_earlier_boot_had() {
    on_node(|node| {
        node.apply(4).unwrap();
        fs::write(node.numbers(), "2").unwrap();
        thread::sleep(Duration::from_millis(50));
        assert_eq!(remove(&node.root(), &node.record()).unwrap(), (vec![], vec![]));
        assert_eq!(node.number(), "2");
        node.apply(4).unwrap();
        node.boot("second");
        assert_eq!(remove(&node.root(), &node.record()).unwrap(), (vec![], vec![]));
        assert_eq!(node.number(), "4");
    });
}

#[test]
fn an_interface_with_too_few_or_that_another_operator_manages_is_named_or_left() {
    on_node(|node| {
        let Error::Blocked(findings) = node.apply(9).unwrap_err() else { panic!("not blocked") };
        assert_eq!(findings[0].id, Id::VirtualFunctionsTooFew);
        let managed = node.root().at(format!("/etc/sriov-operator/pci/{PCI}"));
        fs::create_dir_all(managed.parent().unwrap()).unwrap();
        fs::write(managed, "").unwrap();
        assert_eq!((node.apply(4).unwrap(), node.number()), (vec![], "0".to_owned()));
    });
}
