//! Another kernel module in the place of the loaded one, on a real kernel whose module is played.

use std::{fs, path::Path};

use nix::mount::{MsFlags, mount};
use rustix::system::uname;
use tf_host::{
    Root, Wanted,
    data_path::DataPath as _,
    facts::network::Network,
    observe,
    reload::{OtherModule, RECORD, Record, Reloaded},
    setup::{Done, Error, Setup},
};
use tf_sim::module::StandIn;

use crate::{
    kernel::{Kernel, on_node},
    managers::Direct,
    node::{lasting, node},
    router::{Probe, Router},
};

/// Where the node's files are, in the mount namespace of the test.
const ROOT: &str = "/mnt/node";
const LOADED: &str = "/mnt/node/sys/module/vrouter";
const JOURNAL: &str = "/mnt/node/var/lib/contrail/tf-node/host.json";
const PORTS: &str = "/mnt/node/var/lib/contrail/ports/vm";

/// A node on which modules can be installed, with module A and `vhost0`.
struct Node {
    _router: Router,
    before: Network,
}

fn on_node_with_modules(test: impl FnOnce(Node)) {
    on_node(|kernel: &Kernel| {
        let bind = |from: &str, to: &str| {
            fs::create_dir_all(to).unwrap();
            mount(Some(from), to, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>).unwrap();
        };
        mount(None::<&str>, "/mnt", Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
        fs::create_dir_all(Path::new(JOURNAL).parent().unwrap()).unwrap();
        bind("/proc/sys", "/mnt/node/proc/sys");
        bind("/sys", "/mnt/node/sys");
        fs::write("/mnt/node/proc/modules", "").unwrap();
        fs::remove_dir(LOADED).unwrap();
        let router = Router::start();
        node(kernel, &router);
        let before = observe(&Root::below(ROOT)).network;
        install("A");
        let module = apply(false).unwrap().module;
        assert_eq!((module, loaded().as_str()), (Reloaded::No, "A"));
        test(Node { _router: router, before });
    });
}

/// Puts a module on the node, in the place of the one that is there.
fn install(sources: &str) {
    let release = uname().release().to_str().unwrap().to_owned();
    let directory = Path::new(ROOT).join("lib/modules").join(&release).join("kernel/net/vrouter");
    fs::create_dir_all(&directory).unwrap();
    let file = format!("\u{7f}ELF\0text\0version=24.1\0srcversion={sources}\0vermagic={release} SMP\0rest");
    fs::write(directory.join("vrouter.ko"), file).unwrap();
}

fn loaded() -> String {
    fs::read_to_string(Path::new(LOADED).join("srcversion")).unwrap()
}

/// One run of a process of its own, as far as the node can see.
fn run(reload: bool, removes: bool) -> Result<Done, Error> {
    let root = Root::below(ROOT);
    let wanted = Wanted { physical_interfaces: vec!["eth0".into()], ..Wanted::default() };
    let mut data_path = StandIn::below(ROOT).unwrap();
    let (root, wanted, journal) = (&root, &wanted, Path::new(JOURNAL));
    let other_module = if reload { OtherModule::Loaded } else { OtherModule::Noted };
    let (peers, programs) = (&[][..], &Direct);
    let mut setup = Setup { root, wanted, journal, peers, data_path: &mut data_path, programs, other_module };
    if removes { setup.remove(false) } else { setup.apply() }
}

fn apply(reload: bool) -> Result<Done, Error> {
    run(reload, false)
}

fn record() -> Record {
    Record::read(&Path::new(JOURNAL).with_file_name(RECORD), &Root::below(ROOT))
}

impl Node {
    fn is_switched(&self) -> bool {
        let after = observe(&Root::below(ROOT)).network;
        lasting(&after, None) == lasting(&self.before, Some(("eth0", "vhost0")))
    }
}

#[test]
fn another_module_takes_the_place_of_the_loaded_one_where_nothing_uses_the_vrouter() {
    on_node_with_modules(|node| {
        install("B");
        assert_eq!(apply(false).unwrap().module, Reloaded::No, "it is not asked for");
        let Record { cause, failed, reload, .. } = record();
        let cause = cause.unwrap();
        assert!(cause.contains("srcversion A") && cause.contains("srcversion B"), "{cause}");
        assert_eq!((failed, reload), (None, false));

        let port = Path::new(PORTS).join("pod-1/port-1");
        fs::create_dir_all(&port).unwrap();
        assert_eq!((apply(true).unwrap().module, loaded().as_str()), (Reloaded::No, "A"), "a pod uses it");
        assert!(record().reload);
        fs::remove_dir_all(PORTS).unwrap();

        let probe = Probe::start();
        let done = apply(true).unwrap();
        let loss = probe.end();
        assert_eq!((done.module, loaded().as_str()), (Reloaded::Yes, "B"));
        assert!(done.steps > 10 && node.is_switched(), "{} steps", done.steps);
        // A way back and a switch.
        assert!(loss.sent > 20 && loss.lost <= 6 && loss.refused == 0, "{loss:?}");
        assert_eq!((record().cause, apply(true).unwrap().module), (None, Reloaded::No));

        let removed = run(false, true).unwrap();
        assert_eq!(removed.module, Reloaded::Unloaded);
        let left: Vec<_> = fs::read_dir(Path::new(JOURNAL).parent().unwrap()).unwrap().flatten().collect();
        assert!(left.iter().all(|entry| entry.file_name() == "host.lock"), "{left:?}");
        assert_eq!(lasting(&observe(&Root::below(ROOT)).network, None), lasting(&node.before, None));
    });
}

#[test]
fn the_module_that_worked_is_loaded_where_the_other_one_is_refused_and_that_is_tried_once() {
    on_node_with_modules(|node| {
        install("REFUSED");
        let Reloaded::Failed(why) = apply(true).unwrap().module else { panic!("it was loaded") };
        assert!(why.contains("Exec format error"), "{why}");
        assert!(loaded() == "A" && node.is_switched());
        let noted = record();
        assert_eq!((noted.failed.as_ref(), noted.reload), (Some(&why), true));
        assert!(noted.cause.unwrap().contains("REFUSED"));
        let again = apply(true).unwrap();
        assert_eq!((again.module, again.steps), (Reloaded::No, 0), "it was tried in this boot");
        assert_eq!(record().failed, Some(why));
        install("B");
        assert_eq!((apply(true).unwrap().module, loaded().as_str()), (Reloaded::Yes, "B"));
        assert_eq!((record().cause, record().failed), (None, None));
    });
}

#[test]
fn the_module_that_worked_is_loaded_where_the_node_is_not_as_it_should_be_with_the_other_one() {
    on_node_with_modules(|node| {
        install("SILENT");
        let Reloaded::Failed(why) = apply(true).unwrap().module else { panic!("it was kept") };
        assert!(why.contains("is not connected with eth0") && why.ends_with("; undone"), "{why}");
        assert!(loaded() == "A" && node.is_switched());
    });
}

#[test]
fn what_a_process_left_that_was_killed_without_the_module_is_gone_on_with() {
    on_node_with_modules(|node| {
        install("B");
        let mut module = StandIn::below(ROOT).unwrap();
        run(true, true).unwrap();
        let _ = module.unload();
        let done = apply(true).unwrap();
        assert_eq!((done.module, loaded().as_str()), (Reloaded::No, "B"), "it is the one that a boot would load, too");
        assert!(node.is_switched());
    });
}

#[test]
fn a_module_that_the_kernel_would_refuse_touches_nothing() {
    on_node_with_modules(|node| {
        let file = format!("{ROOT}/lib/modules/{}/updates/vrouter.ko", uname().release().to_str().unwrap());
        fs::create_dir_all(Path::new(&file).parent().unwrap()).unwrap();
        fs::write(file, "\u{7f}ELF\0version=24.2\0srcversion=C\0vermagic=5.4.0 SMP\0rest").unwrap();
        fs::remove_dir_all(format!("{ROOT}/lib/modules/{}/kernel", uname().release().to_str().unwrap())).unwrap();
        let done = apply(true).unwrap();
        let Reloaded::Failed(why) = done.module else { panic!("it was tried") };
        assert!(why.contains("is for the kernel 5.4.0") && done.steps == 0, "{why}");
        assert!(loaded() == "A" && node.is_switched());
    });
}
