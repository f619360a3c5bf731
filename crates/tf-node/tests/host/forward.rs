//! `tf-node host forward` as a program that starts a forwarder, with a stand-in for both the forwarder and `vif`: scripts, for which a thread makes `vhost0`.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nix::{
    mount::{MsFlags, mount},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tf_host::facts::network::Network;

use crate::{
    kernel::on_node,
    node::{facts, lasting, node},
    pci::{OWN, Pci},
    router::{FAR, PORT, Probe, Router},
};

/// For a change of the node to be done.
const DONE: Duration = Duration::from_secs(30);

/// A node and the scripts.
struct Node {
    pci: Arc<Pci>,
    before: Network,
    is_over: Arc<AtomicBool>,
}

impl Node {
    fn new() -> Self {
        // What the forwarder and `vif` write there is not for this machine.
        mount(None::<&str>, "/etc", Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
        let node = Self { pci: Arc::new(Pci::new()), before: facts().network, is_over: Arc::default() };
        let at = |file: &str| node.pci.path(file).display().to_string();
        fs::create_dir_all(node.pci.path("/programs")).unwrap();
        node.script(
            "contrail-vrouter-dpdk",
            &format!(
                "echo \"$@\" > {}\necho $$ > {}\nmkdir -p /var/run/vrouter\n: > /var/run/vrouter/dpdk_netlink\nexec sleep 1000",
                at("command"),
                at("pid")
            ),
        );
        let (list, wanted) = (at("list"), at("wanted"));
        node.script(
            "vif",
            &format!(
                "case \"$*\" in\n\
                 --list) cat {list} 2>/dev/null || true;;\n\
                 *' physical '*) printf 'vif0/0      PCI: 0000:03:00.0\\n            Type:Physical\\n' > {list};;\n\
                 *) echo \"$4\" > {wanted}.new; mv {wanted}.new {wanted}; while [ ! -e {list}.made ]; do sleep 0.02; done\n\
                    printf 'vif0/1      PMD: vhost0\\n            Type:Host\\n' >> {list};;\n\
                 esac"
            ),
        );
        let (pci, over) = (Arc::clone(&node.pci), Arc::clone(&node.is_over));
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                play(&pci);
                thread::sleep(Duration::from_millis(10));
            }
        });
        node
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.pci.path("/programs").join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Starts `tf-node host`.
    fn start(&self, arguments: &str) -> Child {
        let programs = self.pci.path("/programs");
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_tf-node"));
        command.arg("host").args(arguments.split_whitespace()).arg("--root").arg(self.pci.path("/"));
        command.args(["--physical-interface", "eth0", "--core-mask", "0-1", "--peer", &format!("{FAR}:{PORT}")]);
        command.arg("--vif").arg(programs.join("vif")).arg("--journal").arg(self.pci.path("/state/host.json"));
        command.env("PATH", path).stdout(Stdio::piped()).spawn().unwrap()
    }

    fn is_switched(&self) -> bool {
        lasting(&facts().network, None) == lasting(&self.before, Some(("eth0", "vhost0")))
    }

    fn is_as_before(&self) -> bool {
        lasting(&facts().network, None) == lasting(&self.before, None)
            && self.pci.driver() == OWN
            && !self.pci.path("/state/dpdk.json").exists()
    }

    /// This program and its guard, which have the journal's path among their arguments.
    fn processes(&self) -> Vec<Pid> {
        let journal = self.pci.path("/state/host.json").display().to_string();
        let of = |entry: fs::DirEntry| {
            let words = fs::read_to_string(entry.path().join("cmdline")).ok()?;
            let is_ours = words.split('\0').any(|word| word == journal);
            is_ours.then(|| entry.file_name().to_string_lossy().parse().ok().map(Pid::from_raw))?
        };
        fs::read_dir("/proc").unwrap().flatten().filter_map(of).collect()
    }

    fn forwarder(&self) -> Pid {
        Pid::from_raw(fs::read_to_string(self.pci.path("pid")).unwrap().trim().parse().unwrap())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// `vhost0` is made when it is asked for, and goes with its forwarder.
fn play(pci: &Pci) {
    let (made, wanted) = (pci.path("list.made"), pci.path("wanted"));
    let pid = fs::read_to_string(pci.path("pid")).unwrap_or_default();
    let runs = !pid.is_empty() && is_alive(pid.trim());
    if made.exists() && !runs {
        pci.end_vhost0();
        for file in ["list", "wanted", "list.made", "pid"] {
            let _ = fs::remove_file(pci.path(file));
        }
    } else if !made.exists() && runs && wanted.exists() {
        pci.make_vhost0(fs::read_to_string(wanted).unwrap().trim(), true);
        fs::write(made, "").unwrap();
    }
}

/// Whether a process is there that is no zombie.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
}

fn ended(child: Child) -> (Option<i32>, String) {
    let Output { status, stdout, .. } = child.wait_with_output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap())
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < DONE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_interface_comes_back_when_the_program_is_asked_to_end_or_killed_and_when_the_forwarder_ends() {
    on_node(|kernel| {
        let router = Router::start();
        node(kernel, &router);
        let node = Node::new();
        let mut probe = Probe::start();

        let child = node.start("forward");
        until("vhost0 has everything", || node.is_switched());
        let command = fs::read_to_string(node.pci.path("command")).unwrap();
        assert_eq!(command, "--no-daemon --socket-mem 1024\n");
        probe.exchange();
        kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
        let said = "vhost0 has the place of eth0, which the forwarder has\nasked to end; the interface has its addresses and routes back\n";
        assert_eq!(ended(child), (Some(0), said.to_owned()));
        assert!(node.is_as_before());
        probe.exchange();

        let child = node.start("forward");
        until("vhost0 has everything", || node.is_switched());
        let refused = loop {
            let refused = ended(node.start("remove"));
            // It verifies its peers.
            if !refused.1.starts_with("another tf-node host is at work") {
                break refused;
            }
        };
        assert!(refused.1.starts_with("a forwarder that another process has started still runs"), "{refused:?}");
        assert!(refused.0 == Some(3) && node.is_switched());
        kill(node.forwarder(), Signal::SIGKILL).unwrap();
        let (code, said) = ended(child);
        assert!(said.contains("the forwarder ended by signal 9") && code == Some(2), "{code:?} {said}");
        assert!(node.is_as_before());
        probe.exchange();

        let mut child = node.start("forward");
        until("vhost0 has everything", || node.is_switched());
        child.kill().unwrap();
        child.wait().unwrap();
        until("the guard gives it back", || node.is_as_before());
        probe.exchange();
        assert_eq!(ended(node.start("remove")), (Some(0), "there is no vhost0\n".to_owned()));

        // With a whole container the guard is killed, too.
        let child = node.start("forward");
        until("vhost0 has everything", || node.is_switched());
        for process in node.processes() {
            kill(process, Signal::SIGKILL).unwrap();
        }
        drop(ended(child));
        until("the forwarder is gone", || facts().network.link("vhost0").is_none());
        assert!(!node.is_as_before());
        let given = "the interface has its addresses and routes back; there is no vhost0\n";
        assert_eq!(ended(node.start("remove")), (Some(0), given.to_owned()));
        assert!(node.is_as_before());
        probe.exchange();
    });
}
