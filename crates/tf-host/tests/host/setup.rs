//! A node that is set up and taken out again, on a real kernel.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use netlink_packet_route::{RouteNetlinkMessage, link::LinkMessage};
use tf_host::{
    Root, Wanted,
    data_path::DataPath as _,
    facts::{addresses::Address, memory::MIB_2},
    journal::{Journal, State},
    reload::{OtherModule, Reloaded},
    setup::{Done, Error, Setup},
};
use tf_sim::module::StandIn;

use crate::{
    kernel::on_node,
    managers::Direct,
    node::{add_to_vhost0, facts, has_what_was_added, lasting, node},
    router::{Probe, Router},
};

fn wanted() -> Wanted {
    Wanted { physical_interfaces: vec!["eth0".into()], ..Wanted::default() }
}

enum Do {
    Apply,
    Remove,
    Recover,
}

/// One run of a process of its own, as far as the node can see.
fn run(journal: &Path, wanted: &Wanted, what: &Do) -> Result<Done, Error> {
    let root = Root::default();
    let mut data_path = StandIn::open().unwrap();
    let root = &root;
    let (peers, other_module) = (&[][..], OtherModule::Noted);
    let mut setup = Setup { root, wanted, journal, peers, data_path: &mut data_path, programs: &Direct, other_module };
    match what {
        Do::Apply => setup.apply(),
        Do::Remove => setup.remove(false),
        Do::Recover => setup.recover().map(|recovered| Done { recovered, ..Done::default() }),
    }
}

fn done(uplink: Option<&str>, steps: usize) -> Done {
    Done { uplink: uplink.map(Into::into), steps, ..Done::default() }
}

/// The node's module was not loaded from a file.
fn removed(uplink: Option<&str>, steps: usize) -> Done {
    Done { module: Reloaded::Stays("Module vrouter is builtin".into()), ..done(uplink, steps) }
}

#[test]
fn a_node_that_is_set_up_and_taken_out_again_is_as_it_was_and_loses_nothing_on_the_way() {
    on_node(|kernel| {
        let router = Router::start();
        node(kernel, &router);
        let (directory, before) = (tempfile::tempdir().unwrap(), facts());
        let journal = directory.path().join("var/lib/host.json");
        let probe = Probe::start();
        for _ in 0..2 {
            let applied = run(&journal, &wanted(), &Do::Apply).unwrap();
            assert!(applied.steps > 10, "{applied:?}");
            assert_eq!(applied, done(Some("eth0"), applied.steps));
            assert_eq!(run(&journal, &wanted(), &Do::Apply).unwrap(), done(Some("eth0"), 0), "it is done");
            // Huge pages may be in use by the vRouter itself.
            let more = Wanted { huge_pages: [(MIB_2, 1 << 30)].into(), ..wanted() };
            assert_eq!(run(&journal, &more, &Do::Apply).unwrap(), done(Some("eth0"), 0), "it is done all the same");
            let after = facts();
            assert_eq!(lasting(&after.network, None), lasting(&before.network, Some(("eth0", "vhost0"))));
            let back = run(&journal, &wanted(), &Do::Remove).unwrap();
            assert_eq!(back, removed(Some("eth0"), back.steps));
            assert_eq!(lasting(&facts().network, None), lasting(&before.network, None));
            assert_eq!(run(&journal, &wanted(), &Do::Remove).unwrap(), removed(None, 0));
            assert!(!journal.exists());
        }
        thread::sleep(Duration::from_millis(300));
        let loss = probe.end();
        // Two switches, and two ways back.
        assert!(loss.sent > 200 && loss.lost <= 12 && loss.refused == 0, "{loss:?}");
    });
}

/// udev applies what sysctl.d has to each new interface a moment after it is there.
#[test]
fn a_strict_reverse_path_filter_that_something_sets_meanwhile_keeps_nothing_from_being_done() {
    on_node(|kernel| {
        let router = Router::start();
        node(kernel, &router);
        let directory = tempfile::tempdir().unwrap();
        let journal = directory.path().join("host.json");
        let filter = "/proc/sys/net/ipv4/conf/vhost0/rp_filter";
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let _ = fs::write(filter, "1");
                }
            });
            let applied = run(&journal, &wanted(), &Do::Apply);
            is_over.store(true, Ordering::Relaxed);
            assert!(applied.unwrap().steps > 10);
        });
        run(&journal, &wanted(), &Do::Apply).unwrap();
        assert_eq!(fs::read_to_string(filter).unwrap().trim(), "2");
    });
}

#[test]
fn what_was_added_to_vhost0_since_then_comes_back_with_the_rest_but_not_what_the_agent_made() {
    on_node(|kernel| {
        let router = Router::start();
        node(kernel, &router);
        let directory = tempfile::tempdir().unwrap();
        let journal = directory.path().join("host.json");
        run(&journal, &wanted(), &Do::Apply).unwrap();
        add_to_vhost0(kernel);
        run(&journal, &wanted(), &Do::Remove).unwrap();
        has_what_was_added(&facts().network);
    });
}

#[test]
fn what_an_ended_process_began_is_undone_before_anything_else_and_what_it_began_before_a_reboot_is_not() {
    on_node(|kernel| {
        let router = Router::start();
        node(kernel, &router);
        let directory = tempfile::tempdir().unwrap();
        let journal = directory.path().join("host.json");
        let before = lasting(&facts().network, None);
        run(&journal, &wanted(), &Do::Apply).unwrap();
        let mut begun = Journal::read(&journal).unwrap().unwrap();
        assert_eq!(begun.state, State::Committed);
        begun.state = State::Begun;
        begun.write(&journal).unwrap();
        let applied = run(&journal, &wanted(), &Do::Apply).unwrap();
        assert!(applied.recovered && applied.steps > 10, "{applied:?}");
        begun.write(&journal).unwrap();
        assert!(run(&journal, &wanted(), &Do::Recover).unwrap().recovered);
        assert_eq!(lasting(&facts().network, None), before);
        assert!(matches!(Journal::read(&journal).unwrap().unwrap().state, State::RolledBack { .. }));
        begun.boot_id = "another".into();
        begun.write(&journal).unwrap();
        assert!(!run(&journal, &wanted(), &Do::Apply).unwrap().recovered);
        fs::write(&journal, "torn").unwrap();
        let error = run(&journal, &wanted(), &Do::Remove).unwrap_err().to_string();
        assert!(
            error.contains("host.json cannot be used: not a journal") && error.ends_with("delete the file"),
            "{error}"
        );
    });
}

#[test]
fn an_uplink_that_went_and_came_back_is_connected_again_and_nothing_else_is_done() {
    on_node(|kernel| {
        let router = Router::start();
        node(kernel, &router);
        let directory = tempfile::tempdir().unwrap();
        let journal = directory.path().join("host.json");
        run(&journal, &wanted(), &Do::Apply).unwrap();
        let mut data_path = StandIn::open().unwrap();
        data_path.detach("eth0").unwrap();
        assert_eq!(run(&journal, &wanted(), &Do::Apply).unwrap(), done(Some("eth0"), 2));
        assert!(data_path.has("eth0").unwrap());
        // Undoing that may not take apart what was connected before.
        kernel.address("eth0", "10.0.0.9/24", vec![]);
        run(&journal, &wanted(), &Do::Apply).unwrap();
        let mut journalled = Journal::read(&journal).unwrap().unwrap();
        journalled.state = State::Begun;
        journalled.write(&journal).unwrap();
        assert!(run(&journal, &wanted(), &Do::Recover).unwrap().recovered);
        assert!(data_path.has("eth0").unwrap());
        Probe::start().end();
    });
}

#[test]
fn above_several_uplinks_vhost0_has_no_address_and_nothing_moves() {
    on_node(|kernel| {
        let router = Router::start();
        node(kernel, &router);
        kernel.address("lo", "192.0.2.7/32", vec![]);
        let directory = tempfile::tempdir().unwrap();
        let journal = directory.path().join("host.json");
        let wanted = Wanted {
            physical_interfaces: ["eth0", "eth1"].map(str::to_owned).into(),
            multihomed: true,
            loopback_subnet: Some("192.0.2.0/24".parse().unwrap()),
            ..Wanted::default()
        };
        let before = lasting(&facts().network, None);
        for _ in 0..2 {
            let applied = run(&journal, &wanted, &Do::Apply).unwrap();
            assert_eq!(applied, done(Some("eth0,eth1"), applied.steps));
            let network = facts().network;
            let vhost0 = network.link("vhost0").unwrap();
            assert_eq!((vhost0.mac.as_deref(), vhost0.mtu, vhost0.up), (Some("00:00:5e:00:01:00"), 1500, true));
            assert!(!network.addresses_of("vhost0").any(Address::is_global));
            assert_eq!(lasting(&network, None), before);
            let mut data_path = StandIn::open().unwrap();
            assert!(data_path.has("eth0").unwrap() && data_path.has("eth1").unwrap());
            assert_eq!(run(&journal, &wanted, &Do::Apply).unwrap(), done(Some("eth0,eth1"), 0), "it is done");
            data_path.detach("eth1").unwrap();
            assert_eq!(run(&journal, &wanted, &Do::Apply).unwrap(), done(Some("eth0,eth1"), 2), "one was made again");
            let back = run(&journal, &wanted, &Do::Remove).unwrap();
            assert_eq!(back, removed(Some("eth0,eth1"), back.steps));
            assert_eq!(lasting(&facts().network, None), before);
        }
    });
}

#[test]
fn two_processes_do_not_change_a_node_at_the_same_time() {
    on_node(|kernel| {
        let router = Router::start();
        node(kernel, &router);
        let directory = tempfile::tempdir().unwrap();
        let journal = directory.path().join("host.json");
        let lock = fs::File::create(journal.with_extension("lock")).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
        for what in [Do::Apply, Do::Remove, Do::Recover] {
            let error = run(&journal, &wanted(), &what).unwrap_err();
            assert!(matches!(error, Error::Busy), "{error}");
        }
        drop(lock);
        run(&journal, &wanted(), &Do::Apply).unwrap();
    });
}

#[test]
fn a_node_on_which_something_blocks_is_not_touched() {
    on_node(|kernel| {
        let router = Router::start();
        node(kernel, &router);
        let directory = tempfile::tempdir().unwrap();
        let journal = directory.path().join("host.json");
        let before = facts().network;
        let more = Wanted { huge_pages: [(MIB_2, 1 << 30)].into(), ..wanted() };
        assert!(matches!(run(&journal, &more, &Do::Apply), Err(Error::Blocked(_))));
        for (link, expected) in [("eth7", "the node has no interface eth7"), ("lo", "loopback interface")] {
            let wanted = Wanted { physical_interfaces: vec![link.into()], ..wanted() };
            let error = run(&journal, &wanted, &Do::Apply).unwrap_err();
            assert!(matches!(&error, Error::Blocked(_)) && error.to_string().contains(expected), "{error}");
        }
        assert_eq!(lasting(&facts().network, None), lasting(&before, None));
        assert!(!journal.exists());
    });
}

#[test]
fn an_uplink_that_is_gone_takes_nothing_with_it_and_says_what_to_do() {
    on_node(|kernel| {
        let router = Router::start();
        node(kernel, &router);
        let directory = tempfile::tempdir().unwrap();
        let journal = directory.path().join("host.json");
        run(&journal, &wanted(), &Do::Apply).unwrap();
        let mut link = LinkMessage::default();
        link.header.index = kernel.index("eth0");
        kernel.send(RouteNetlinkMessage::DelLink(link), 0).unwrap();
        let kept = facts().network.addresses_of("vhost0").filter(|address| Address::is_global(address)).count();
        for what in [Do::Apply, Do::Remove] {
            let error = run(&journal, &wanted(), &what).unwrap_err();
            assert!(error.to_string().starts_with("the node has no interface eth0"), "{error}");
        }
        let after = facts().network.addresses_of("vhost0").filter(|address| Address::is_global(address)).count();
        assert_eq!((kept, after), (4, 4));
    });
}
