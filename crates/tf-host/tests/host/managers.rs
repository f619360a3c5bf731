//! Programs that set addresses are kept from `vhost0` and the interface, and get the interface back. What real ones do then is in
//! `e2e/tests/real/managers.rs`.

use std::{
    cell::RefCell,
    fs,
    io::{self, Error},
    process::Command,
};

use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    rule::{RuleAction, RuleAttribute, RuleMessage},
};
use tf_host::{
    Root,
    managers::{HostPrograms, Managers},
    observe, program,
};

use crate::{
    kernel,
    node::{add, message, over, via},
};

/// Programs of this machine.
pub struct Direct;

impl HostPrograms for Direct {
    fn call(&self, program: &str, arguments: &[&str]) -> io::Result<()> {
        program::run(Command::new(program).args(arguments)).map(drop)
    }
}

/// A host on which programs manage an interface.
struct Host {
    directory: tempfile::TempDir,
    called: RefCell<Vec<String>>,
    /// Why programs fail.
    fails: Option<&'static str>,
    /// What networkd removes when it leaves the interface alone.
    removes: RefCell<Vec<RouteNetlinkMessage>>,
}

const NETWORKD: &str = "systemd-network";
const NETWORK_MANAGER: &str = "NetworkManager";

impl Host {
    fn with(programs: &[&str]) -> Self {
        let host = Self {
            directory: tempfile::tempdir().unwrap(),
            called: RefCell::default(),
            fails: None,
            removes: RefCell::default(),
        };
        for (number, program) in programs.iter().enumerate() {
            host.write(&format!("/proc/{}/comm", 100 + number), &format!("{program}\n"));
        }
        host.write("/run/systemd/netif/state", "OPER_STATE=routable\n");
        host
    }

    fn root(&self) -> Root {
        Root::below(self.directory.path())
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root().at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn files(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for directory in ["/run/systemd/network", "/run/NetworkManager/conf.d"] {
            for entry in fs::read_dir(self.root().at(directory)).into_iter().flatten().flatten() {
                let name = format!("{directory}/{}", entry.file_name().to_str().unwrap());
                found.push((name, fs::read_to_string(entry.path()).unwrap()));
            }
        }
        found.sort();
        found
    }

    /// What was called since the last time.
    fn called(&self) -> Vec<String> {
        self.called.take()
    }
}

impl HostPrograms for Host {
    fn call(&self, program: &str, arguments: &[&str]) -> io::Result<()> {
        self.called.borrow_mut().push(format!("{program} {}", arguments.join(" ")));
        if let Some(why) = self.fails {
            return Err(Error::other(why));
        }
        // It does what it was asked for.
        if arguments.ends_with(&["managed", "no"]) {
            self.write("/run/NetworkManager/devices/2", "[device]\nmanaged=false\n");
        }
        if program == "networkctl" && self.root().at("/run/systemd/network/00-tf-uplink.network").exists() {
            self.write("/run/systemd/netif/links/2", "ADMIN_STATE=unmanaged\n");
            for message in self.removes.take() {
                kernel::open().send(message, 0).unwrap();
            }
        }
        Ok(())
    }
}

/// In a network namespace that has an interface `eth0` with the number 2.
fn on_host(programs: &[&str], test: impl FnOnce(&Host, &Managers<'_>)) {
    kernel::in_namespace(|kernel| {
        kernel.add_pair("eth0", "peer0");
        let host = Host::with(programs);
        let number = kernel.index("eth0");
        host.write("/run/NetworkManager/devices/2", "[device]\nmanaged=true\nconnection-uuid=4b\n");
        host.write("/run/systemd/netif/links/2", "ADMIN_STATE=configured\n");
        // The numbers of a pair are drawn.
        if number != 2 {
            for directory in ["/run/NetworkManager/devices", "/run/systemd/netif/links"] {
                let directory = host.root().at(directory);
                std::os::unix::fs::symlink("2", directory.join(number.to_string())).unwrap();
            }
        }
        let root = host.root();
        test(&host, &Managers::new(&root, &host));
    });
}

#[test]
fn networkd_reads_of_vhost0_before_it_exists_and_of_the_interface_when_that_has_no_address_left() {
    on_host(&[NETWORKD], |host, managers| {
        managers.keep_from_vhost0(&observe(&host.root())).unwrap();
        let [(path, text)] = &host.files()[..] else { panic!("{:?}", host.files()) };
        assert_eq!(path, "/run/systemd/network/00-tf-vhost0.network");
        assert!(text.ends_with("[Match]\nName=vhost0 pkt*\n\n[Link]\nUnmanaged=yes\n"), "{text}");
        assert_eq!(host.called(), ["networkctl reload"]);

        assert!(managers.release(&observe(&host.root()), "eth0").unwrap());
        assert_eq!(host.called(), ["networkctl reload"]);
        assert!(host.files()[0].1.contains("Name=eth0\n"), "{:?}", host.files());
        assert!(!managers.release(&observe(&host.root()), "eth0").unwrap(), "it is left alone");
        assert_eq!(host.called(), [""; 0]);

        managers.give_back(&observe(&host.root()), Some("eth0")).unwrap();
        assert_eq!((host.files(), host.called()), (vec![], vec!["networkctl reload".to_owned()]));
        managers.give_back(&observe(&host.root()), Some("eth0")).unwrap();
        assert_eq!(host.called(), [""; 0]);
    });
}

#[test]
fn rules_and_routes_that_networkd_takes_away_with_the_interface_are_there_again() {
    on_host(&[NETWORKD], |host, managers| {
        let kernel = kernel::open();
        kernel.set("eth0", vec![]);
        kernel.add_pair("vhost0", "peer1");
        kernel.address("vhost0", "10.0.0.7/24", vec![]);
        let route = message("192.0.2.0/24", 1000, vec![over(kernel.index("vhost0")), via("10.0.0.1")]);
        add(&kernel, route.clone());
        let mut rule = RuleMessage::default();
        rule.header.family = AddressFamily::Inet;
        rule.header.src_len = 32;
        rule.header.action = RuleAction::ToTable;
        rule.attributes =
            vec![RuleAttribute::Priority(900), RuleAttribute::Source([10, 0, 0, 7].into()), RuleAttribute::Table(1000)];
        kernel.request(RouteNetlinkMessage::NewRule(rule.clone())).unwrap();
        let before = observe(&host.root()).network;
        host.removes.replace(vec![RouteNetlinkMessage::DelRule(rule), RouteNetlinkMessage::DelRoute(route)]);
        assert!(managers.release(&observe(&host.root()), "eth0").unwrap());
        assert!(host.removes.borrow().is_empty());
        let after = observe(&host.root()).network;
        assert_eq!((after.routes, after.rules), (before.routes, before.rules));
    });
}

#[test]
fn networkmanager_is_asked_besides_since_it_reads_of_devices_when_it_starts() {
    on_host(&[NETWORK_MANAGER], |host, managers| {
        managers.keep_from_vhost0(&observe(&host.root())).unwrap();
        assert_eq!(host.called(), ["nmcli --wait 10 general reload conf"]);
        assert!(managers.release(&observe(&host.root()), "eth0").unwrap());
        assert_eq!(
            host.called(),
            ["nmcli --wait 10 general reload conf", "nmcli --wait 10 device set eth0 managed no"]
        );
        let texts: Vec<String> = host.files().into_iter().map(|(_, text)| text).collect();
        assert!(texts[0].contains("[device-tf-uplink]\nmatch-device=interface-name:eth0\nmanaged=0\n"), "{texts:?}");
        let own = "[device-tf-vhost0]\nmatch-device=interface-name:vhost0,interface-name:pkt*\nmanaged=0\n";
        assert!(texts[1].contains(own), "{texts:?}");
        managers.give_back(&observe(&host.root()), Some("eth0")).unwrap();
        assert_eq!(
            host.called(),
            ["nmcli --wait 10 general reload conf", "nmcli --wait 10 device set eth0 managed yes"]
        );
        assert_eq!(host.files(), []);
    });
}

#[test]
fn a_program_that_does_not_answer_is_named_and_asked_again() {
    on_host(&[NETWORK_MANAGER], |host, managers| {
        managers.keep_from_vhost0(&observe(&host.root())).unwrap();
        managers.release(&observe(&host.root()), "eth0").unwrap();
        let files = host.files();
        let root = host.root();
        let broken = Host { fails: Some("no bus"), ..Host::with(&[]) };
        let silent = Managers::new(&root, &broken);
        assert_eq!(silent.keep_from_vhost0(&observe(&root)).unwrap_err().to_string(), "no bus");
        assert_eq!(silent.give_back(&observe(&root), Some("eth0")).unwrap_err().to_string(), "no bus");
        assert_eq!(host.files(), files, "so that the next try knows what is to be given back");
    });
}

#[test]
fn a_host_without_them_is_not_touched_and_files_of_one_that_has_ended_go() {
    on_host(&[], |host, managers| {
        let facts = observe(&host.root());
        managers.keep_from_vhost0(&facts).unwrap();
        assert!(!managers.release(&facts, "eth0").unwrap());
        assert_eq!((host.files(), host.called()), (vec![], vec![]));
        host.write("/run/systemd/network/00-tf-uplink.network", "");
        managers.give_back(&facts, None).unwrap();
        assert_eq!((host.files(), host.called()), (vec![], vec![]));
    });
}
