//! One run after the other, each a process of its own.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tf_host::{
    Root,
    data_path::{DataPath as _, Module, Programs},
    facts::network::Network,
    journal::{Journal, State},
};

use crate::{
    kernel::{Kernel, on_node},
    node::{facts, lasting, node},
    router::{FAR, PORT, Probe, Router},
};

/// For a guard to undo what was begun.
const UNDONE: Duration = Duration::from_secs(20);

/// What is said of a module that `modprobe` does not unload.
const STAYS: &str = "; the kernel module stays loaded until the node boots: the kernel keeps it loaded";

/// A node with a router, and the program.
pub struct Node {
    router: Router,
    directory: TempDir,
    before: Network,
}

impl Node {
    pub fn new(kernel: &Kernel) -> Self {
        let router = Router::start();
        node(kernel, &router);
        Self { router, directory: tempfile::tempdir().unwrap(), before: facts().network }
    }

    pub fn journal(&self) -> PathBuf {
        self.directory.path().join("host.json")
    }

    /// Runs `tf-node host`. `variable`: what the stand-in is to do, if anything.
    pub fn run(&self, arguments: &str, variable: Option<(&str, &str)>) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tf-node"));
        // The stand-in cannot be unloaded.
        command.args(["host", "--modprobe", "true"]).args(arguments.split_whitespace()).args(self.options());
        command.envs(variable).output().unwrap()
    }

    /// Options that each run has.
    pub fn options(&self) -> Vec<String> {
        let (vif, journal) = (vif(), self.journal());
        let [vif, journal] = [&vif, &journal].map(|path| path.to_str().unwrap());
        ["--physical-interface", "eth0", "--vif", vif, "--journal", journal].map(str::to_owned).to_vec()
    }

    /// The same where it has to succeed.
    fn prints(&self, arguments: &str, expected: &str) {
        let output = self.run(arguments, None);
        assert_eq!((output.status.code(), text(&output)), (Some(0), format!("{expected}\n")));
    }

    fn is_as_before(&self) -> bool {
        lasting(&facts().network, None) == lasting(&self.before, None)
    }

    pub fn is_switched(&self) -> bool {
        lasting(&facts().network, None) == lasting(&self.before, Some(("eth0", "vhost0")))
    }
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

/// The stand-in, an example beside this test.
fn vif() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let vif = test.ancestors().nth(2).unwrap().join("examples/vif");
    assert!(vif.exists(), "build the stand-in first: cargo build -p tf-node --examples");
    vif
}

#[test]
fn a_node_is_switched_and_given_back_by_the_program_and_its_connections_stay() {
    on_node(|kernel| {
        let node = Node::new(kernel);
        let probe = Probe::start();
        let peer = format!("--peer {FAR}:{PORT}");
        let first = node.run(&format!("apply {peer}"), None);
        let said = text(&first);
        assert!(said.starts_with("vhost0 has the place of eth0 (after ") && first.status.success(), "{said}");
        assert!(node.is_switched());
        assert_eq!(Journal::read(&node.journal()).unwrap().unwrap().state, State::Committed);
        node.prints("apply", "vhost0 has the place of eth0 (already)");
        node.prints("remove", &format!("eth0 has its addresses and routes back, and vhost0 is gone{STAYS}"));
        assert!(node.is_as_before() && !node.journal().exists());
        node.prints("remove", &format!("there is no vhost0{STAYS}"));
        let loss = probe.end();
        assert!(loss.sent > 50 && loss.lost <= 6 && loss.refused == 0, "{loss:?}");
    });
}

#[test]
fn a_process_that_is_killed_at_any_call_of_the_module_is_undone_by_its_guard_and_the_next_one_succeeds() {
    on_node(|kernel| {
        let node = Node::new(kernel);
        let mut probe = Probe::start();
        for step in ["create", "physical", "attach"] {
            for moment in ["before", "after"] {
                let at = format!("{step}:{moment}");
                let output = node.run("apply", Some(("STAND_IN_KILLS", &at)));
                assert_eq!(output.status.code(), None, "{at}: {}", text(&output));
                until(&at, || node.is_as_before() && !is_begun(&node.journal()));
                probe.exchange();
            }
        }
        assert!(node.run("apply", None).status.success());
        for step in ["detach", "forget"] {
            for moment in ["before", "after"] {
                let at = format!("{step}:{moment}");
                let output = node.run("remove", Some(("STAND_IN_KILLS", &at)));
                assert_eq!(output.status.code(), None, "{at}: {}", text(&output));
                until(&at, || node.is_switched() && !is_begun(&node.journal()));
                probe.exchange();
            }
        }
        node.prints("remove", &format!("eth0 has its addresses and routes back, and vhost0 is gone{STAYS}"));
        assert!(node.is_as_before());
    });
}

#[test]
fn a_guard_that_is_killed_with_its_process_leaves_what_the_next_run_undoes() {
    on_node(|kernel| {
        let node = Node::new(kernel);
        let mut probe = Probe::start();
        assert!(node.run("apply", None).status.success());
        let mut begun = Journal::read(&node.journal()).unwrap().unwrap();
        begun.state = State::Begun;
        begun.write(&node.journal()).unwrap();
        node.prints("remove", &format!("undid what an earlier process began; there is no vhost0{STAYS}"));
        assert!(node.is_as_before());
        probe.exchange();
    });
}

#[test]
fn a_module_that_refuses_a_step_without_an_exit_code_is_noticed_and_the_node_is_as_before() {
    on_node(|kernel| {
        let node = Node::new(kernel);
        for (step, expected) in [
            ("create", "make vhost0: "),
            (
                "physical",
                "show the uplink to the data plane: the module did not take eth0: vRouter(Response): No such device (19)",
            ),
            (
                "attach",
                "connect vhost0 with the uplink: the module did not take vhost0: vRouter(Response): No such device (19)",
            ),
        ] {
            let output = node.run("apply", Some(("STAND_IN_IGNORES", step)));
            let said = text(&output);
            assert!(said.starts_with(expected) && said.ends_with("; undone\n"), "{said}");
            assert_eq!(output.status.code(), Some(4));
            assert!(node.is_as_before());
        }
        assert!(node.run("apply", None).status.success());
        let output = node.run("remove", Some(("STAND_IN_IGNORES", "detach")));
        assert!(
            text(&output).starts_with("disconnect vhost0 from the uplink: the module keeps vhost0"),
            "{}",
            text(&output)
        );
        assert_eq!(output.status.code(), Some(4));
        assert!(node.is_switched());
    });
}

#[test]
fn what_blocks_is_said_with_what_to_do_and_nothing_is_touched() {
    on_node(|kernel| {
        let node = Node::new(kernel);
        let output = node.run("apply --physical-interface eth9", None);
        let said = text(&output);
        assert!(said.contains("eth9") && said.ends_with("; nothing was touched\n"), "{said}");
        assert_eq!(output.status.code(), Some(3));
        let output = node.run("apply --vif /nowhere/vif", None);
        assert_eq!(output.status.code(), Some(0), "the last one counts: {}", text(&output));
        assert!(node.is_switched());
        fs::remove_dir("/sys/module/vrouter").unwrap();
        let output = node.run("remove --modprobe /nowhere/modprobe", None);
        let said = text(&output);
        assert!(said.starts_with("the vRouter's kernel module cannot be used: /nowhere/modprobe: "), "{said}");
        assert_eq!(output.status.code(), Some(2));
        assert!(node.is_switched());
    });
}

#[test]
fn a_peer_that_does_not_answer_any_more_has_all_of_it_undone() {
    on_node(|kernel| {
        let node = Node::new(kernel);
        // A peer on the node's own address, which is gone by the time that it is looked for again.
        let listener = TcpListener::bind("10.0.0.7:0").unwrap();
        let peer: SocketAddr = listener.local_addr().unwrap();
        let accepted = thread::spawn(move || listener.accept().map(drop));
        let output = node.run(&format!("apply --peer {peer}"), None);
        accepted.join().unwrap().unwrap();
        let said = text(&output);
        assert_eq!(said, format!("{peer}, which answered before, does not answer any more; undone\n"));
        assert_eq!(output.status.code(), Some(4));
        assert!(node.is_as_before());
    });
}

#[test]
fn the_module_is_loaded_with_its_parameters_and_only_once() {
    let directory = tempfile::tempdir().unwrap();
    let root = Root::below(directory.path());
    let (log, loaded) = (directory.path().join("log"), root.at("/sys/module/vrouter"));
    let script = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let modprobe = script("modprobe", &format!("echo \"$@\" >> {}\nmkdir -p {}", log.display(), loaded.display()));
    let programs = Programs { modprobe, vif: script("vif", "exit 0"), ..Programs::default() };
    let parameters = [("vr_interfaces", "8000"), ("vr_mpls_labels", "5120")];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let mut module = Module::new(&root, programs.clone(), parameters);
    module.prepare().unwrap();
    module.prepare().unwrap();
    assert_eq!(
        fs::read_to_string(&log).unwrap(),
        format!("-v -d {}/ vrouter vr_interfaces=8000 vr_mpls_labels=5120\n", directory.path().display())
    );
    fs::remove_dir(loaded).unwrap();
    let modprobe = script("broken", "echo 'could not insert vrouter: Required key not available' >&2; exit 1");
    let mut module = Module::new(&root, Programs { modprobe, ..programs }, [].into());
    let error = module.prepare().unwrap_err().to_string();
    assert!(error.contains("exit status: 1: could not insert vrouter: Required key not available"), "{error}");
}

fn is_begun(journal: &Path) -> bool {
    matches!(Journal::read(journal), Ok(Some(Journal { state: State::Begun, .. })))
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < UNDONE, "{what}: not undone");
        thread::sleep(Duration::from_millis(50));
    }
}
