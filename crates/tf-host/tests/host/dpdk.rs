//! An interface that a program has for itself, and back: see [`crate::pci`] for what plays hardware. No hardware was used, and no DPDK.

use std::{
    fs, io,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    time::{Duration, Instant},
};

use tf_host::{
    HostFacts, Mode, Root, Wanted,
    dpdk::{
        forward::{Error, Forwarder, Forwarding},
        taken::Taken,
    },
    facts::{links::Link, network::Network},
    preflight::Id,
    wanted::Dpdk,
};

use crate::{
    fixture::{address, hop, link, route},
    kernel::{Kernel, in_namespace, open},
    managers::Direct,
    node::{add_to_vhost0, facts, has_what_was_added, lasting, node},
    pci::{OWN, Pci},
    router::{FAR, PORT, Probe, Router},
};

/// A node, and its interface on PCI.
struct Node(Pci);

impl Node {
    fn root(&self) -> Root {
        Root::below(self.0.path("/"))
    }

    fn record(&self) -> PathBuf {
        self.0.path("state/dpdk.json")
    }

    /// One run of a process of its own, as far as the node can see.
    fn run<'n, T>(&self, forwarder: &mut Played<'n>, run: impl FnOnce(&mut Forwarding<'_, Played<'n>>) -> T) -> T {
        let (root, wanted, record) = (self.root(), wanted(), self.record());
        let peers = [SocketAddr::from((FAR, PORT))];
        let mut forwarding = Forwarding {
            root: &root,
            wanted: &wanted,
            record: &record,
            peers: &peers,
            patience: Duration::from_secs(3),
            forwarder,
            modprobe: "modprobe",
            programs: &Direct,
        };
        run(&mut forwarding)
    }

    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is of one lifetime")]
    fn begin(&self, forwarder: &mut Played<'_>) -> Result<Taken, Error> {
        self.run(forwarder, |forwarding| forwarding.begin())
    }

    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is of one lifetime")]
    fn end(&self, forwarder: &mut Played<'_>) -> Result<bool, Error> {
        self.run(forwarder, |forwarding| forwarding.end())
    }
}

/// What becomes of a forwarder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Works,
    /// It ends before it takes requests.
    EndsAtOnce,
    /// It makes a `vhost0` that no packet passes.
    PassesNothing,
    /// Everything is killed when it was started, and when it was to take the interface.
    KilledAtStart,
    KilledAtAdd,
}

/// Passes packets where the interface is when the kernel does not have it.
struct Played<'a> {
    node: &'a Node,
    fate: Fate,
    runs: bool,
    commands: Vec<String>,
}

impl<'a> Played<'a> {
    fn new(node: &'a Node, fate: Fate) -> Self {
        Self { node, fate, runs: false, commands: Vec::new() }
    }

    /// It ends, whatever the reason, and `vhost0` with it.
    fn die(&mut self) {
        self.runs = false;
        self.node.0.end_vhost0();
    }
}

impl Forwarder for Played<'_> {
    fn start(&mut self, command: &[String]) -> io::Result<()> {
        assert_eq!(self.node.0.driver(), "vfio-pci");
        assert!(open().observe().network.link("eth0").is_none(), "the kernel has it no more");
        self.commands.push(command.join(" "));
        assert!(self.fate != Fate::KilledAtStart);
        self.runs = self.fate != Fate::EndsAtOnce;
        Ok(())
    }

    fn ended(&mut self) -> io::Result<Option<String>> {
        Ok((!self.runs).then(|| "the forwarder ended with exit code 1".to_owned()))
    }

    fn answers(&mut self) -> bool {
        self.runs
    }

    fn add(&mut self, uplink: &str, mac: &str) -> io::Result<()> {
        assert!(self.fate != Fate::KilledAtAdd);
        assert_eq!(uplink, "eth0");
        self.node.0.make_vhost0(mac, self.fate != Fate::PassesNothing);
        if self.fate == Fate::PassesNothing {
            // What is on it before it has everything is nothing that the interface had.
            open().address("vhost0", "10.0.0.99/24", vec![]);
        }
        Ok(())
    }

    fn stop(&mut self) -> io::Result<()> {
        self.die();
        Ok(())
    }
}

fn wanted() -> Wanted {
    let dpdk = Dpdk { cores: Some("2-5".parse().unwrap()), ..Dpdk::default() };
    Wanted { mode: Mode::Dpdk, physical_interfaces: vec!["eth0".into()], dpdk, ..Wanted::default() }
}

/// A node with addresses, routes and rules of all sorts, connected with a router.
fn on_dpdk_node(test: impl FnOnce(&Kernel, &Node)) {
    in_namespace(|kernel| {
        let router = Router::start();
        node(kernel, &router);
        test(kernel, &Node(Pci::new()));
    });
}

fn is_as_before(before: &HostFacts, node: &Node) {
    assert_eq!(lasting(&facts().network, None), lasting(&before.network, None));
    assert_eq!(node.0.driver(), OWN);
    assert!(!node.record().exists());
}

#[test]
fn a_program_has_the_interface_and_the_node_its_addresses_and_gets_the_interface_back() {
    on_dpdk_node(|_, node| {
        let before = facts();
        let mut probe = Probe::start();
        let mut forwarder = Played::new(node, Fate::Works);
        for _ in 0..2 {
            let begun = Instant::now();
            node.begin(&mut forwarder).unwrap();
            assert_eq!(lasting(&facts().network, None), lasting(&before.network, Some(("eth0", "vhost0"))));
            probe.exchange();
            assert!(node.end(&mut forwarder).unwrap());
            assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
            is_as_before(&before, node);
            probe.exchange();
            assert!(!node.end(&mut forwarder).unwrap(), "there is nothing to give back");
        }
        let expected = "taskset -c 2-5 contrail-vrouter-dpdk --no-daemon --socket-mem 1024";
        assert_eq!(forwarder.commands, [expected, expected]);
        probe.end();
    });
}

#[test]
fn what_vhost0_had_last_comes_back_when_the_forwarder_ends_by_itself() {
    on_dpdk_node(|kernel, node| {
        let before = facts();
        let mut forwarder = Played::new(node, Fate::Works);
        node.begin(&mut forwarder).unwrap();
        assert!(!node.run(&mut forwarder, |forwarding| forwarding.keep()).unwrap(), "it is as it was");
        add_to_vhost0(kernel);
        assert!(node.run(&mut forwarder, |forwarding| forwarding.keep()).unwrap());
        forwarder.die();
        assert!(node.end(&mut forwarder).unwrap());
        let network = facts().network;
        has_what_was_added(&network);
        let addresses = |network: &Network| network.addresses.iter().filter(|address| address.is_global()).count();
        assert_eq!(addresses(&network), addresses(&before.network) + 1);
    });
}

#[test]
fn what_vhost0_has_while_it_goes_replaces_nothing() {
    let network = |up, destinations: &[&str]| Network {
        links: vec![Link { up, ..link("vhost0", 9) }],
        addresses: vec![address("vhost0", "10.0.0.7/24")],
        routes: destinations.iter().map(|to| route(to, vec![hop("vhost0", None)], "static")).collect(),
        ..Network::default()
    };
    let (all, more) = (network(true, &["10.0.0.0/24", "0.0.0.0/0"]), network(true, &["0.0.0.0/0", "192.0.2.0/24"]));
    let mut taken = Taken::default();
    (taken.is_switched, taken.uplink) = (true, link("eth0", 2));
    assert!(taken.update([&all, &all], "vhost0"));
    assert!(!taken.update([&all, &all], "vhost0"), "it is recorded");
    let (without_routes, down) = (network(true, &[]), network(false, &["10.0.0.0/24"]));
    for looks in [[&without_routes, &down], [&down, &down], [&all, &without_routes], [&all, &Network::default()]] {
        assert!(!taken.update(looks, "vhost0"));
        assert_eq!(taken.network.routes.len(), 2);
    }
    assert!(taken.update([&more, &more], "vhost0"));
    assert_eq!(taken.network.routes[1].hops[0].link, "eth0");
}

/// The kernel calls it something else at first, and udev renames it after a moment, or never.
#[test]
fn an_interface_that_comes_back_under_another_name_gets_its_name_and_everything_else_back() {
    for renamed in [Some(Duration::from_millis(300)), None] {
        on_dpdk_node(|_, node| {
            let before = facts();
            let mut forwarder = Played::new(node, Fate::Works);
            node.begin(&mut forwarder).unwrap();
            node.0.comes_back_as("eth9", renamed);
            let begun = Instant::now();
            assert!(node.end(&mut forwarder).unwrap());
            assert_eq!(begun.elapsed() > Duration::from_secs(4), renamed.is_none(), "{:?}", begun.elapsed());
            is_as_before(&before, node);
        });
    }
}

#[test]
fn a_forwarder_that_does_not_work_leaves_the_node_as_it_was() {
    on_dpdk_node(|_, node| {
        let before = facts();
        let error = node.begin(&mut Played::new(node, Fate::EndsAtOnce)).unwrap_err();
        let expected = "the forwarder ended with exit code 1; the interface has its addresses and routes back";
        assert_eq!(error.to_string(), expected);
        is_as_before(&before, node);
    });
}

#[test]
fn peers_that_do_not_answer_any_more_have_the_interface_given_back() {
    on_dpdk_node(|_, node| {
        let before = facts();
        let error = node.begin(&mut Played::new(node, Fate::PassesNothing)).unwrap_err().to_string();
        assert!(error.starts_with("198.51.100.1:7007, which answered before, does not answer any more"), "{error}");
        is_as_before(&before, node);
    });
}

#[test]
fn what_a_killed_process_had_taken_is_given_back_by_the_next_one_or_taken_again() {
    on_dpdk_node(|_, node| {
        let before = facts();
        for fate in [Fate::KilledAtStart, Fate::KilledAtAdd, Fate::Works] {
            for again in [false, true] {
                let mut forwarder = Played::new(node, fate);
                let run = catch_unwind(AssertUnwindSafe(|| node.begin(&mut forwarder)));
                assert_eq!(run.is_ok(), fate == Fate::Works);
                forwarder.die();
                assert!(facts().network.link("eth0").is_none());
                let mut next = Played::new(node, Fate::Works);
                if again {
                    node.begin(&mut next).unwrap();
                    let expected = lasting(&before.network, Some(("eth0", "vhost0")));
                    assert_eq!(lasting(&facts().network, None), expected);
                }
                assert!(node.end(&mut next).unwrap());
                is_as_before(&before, node);
            }
        }
    });
}

#[test]
fn a_record_of_an_earlier_boot_says_nothing_and_one_that_is_torn_blocks() {
    on_dpdk_node(|_, node| {
        let mut forwarder = Played::new(node, Fate::Works);
        let mut taken = node.begin(&mut forwarder).unwrap();
        node.end(&mut forwarder).unwrap();
        let before = facts();
        "earlier".clone_into(&mut taken.boot_id);
        taken.write(&node.record()).unwrap();
        assert!(!node.end(&mut forwarder).unwrap());
        node.begin(&mut forwarder).unwrap();
        node.end(&mut forwarder).unwrap();
        is_as_before(&before, node);
        fs::write(node.record(), "{\"version\":").unwrap();
        let error = node.begin(&mut forwarder).unwrap_err();
        assert!(matches!(error, Error::Record { .. }), "{error}");
        assert_eq!(lasting(&facts().network, None), lasting(&before.network, None));
    });
}

#[test]
fn what_blocks_leaves_the_node_untouched() {
    on_dpdk_node(|_, node| {
        let before = facts();
        let groups = node.root().at("/sys/kernel/iommu_groups");
        fs::remove_dir_all(groups.join("1")).unwrap();
        let mut forwarder = Played::new(node, Fate::Works);
        let Err(Error::Blocked(findings)) = node.begin(&mut forwarder) else { panic!("it is blocked") };
        assert_eq!(findings.iter().map(|finding| finding.id).collect::<Vec<_>>(), [Id::IommuOff]);
        is_as_before(&before, node);
        assert!(forwarder.commands.is_empty());
    });
}
