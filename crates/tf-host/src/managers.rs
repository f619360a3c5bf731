//! Programs of the host that set addresses of interfaces, NetworkManager and systemd-networkd: as long as `vhost0` has the place of an interface, they
//! leave both alone.
//!
//! Either reads files below `/run`, which a boot removes, when it is asked to. A file names `vhost0` before that exists: it has the MAC address of the
//! interface, by which networkd would take it for the interface, and NetworkManager sets up Ethernet that it does not know. Another file names the
//! interface when its addresses are on `vhost0`, so that there is nothing left that the program could take away with it. NetworkManager reads that one
//! when it starts, and is asked for the same at once. Neither sets the link down (tried with 1.42 and 252, also when they are started again).

use std::{
    fs, io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::{
    HostFacts, Root,
    atomic::{self, of},
    facts::{network::Network, observe_network, owners::Program, processes::Role, routes::Route},
    netlink::Writer,
    observe,
};

/// For a program to do what it was asked for.
const DONE: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// How often routes and rules are looked at after a program has left an interface alone.
const SETTLING: u32 = 5;
/// Others have to read what no secret is in.
const MODE: u32 = 0o644;

/// Starts programs of the host.
pub trait HostPrograms {
    /// Runs a program of the host to its end.
    ///
    /// # Errors
    /// When it cannot be started or fails; the message has what it printed.
    fn call(&self, program: &str, arguments: &[&str]) -> io::Result<()>;
}

/// A program that sets addresses, and how it is kept from interfaces.
struct Manager {
    program: Program,
    /// Its processes. Those of containers of this host are among them.
    role: Role,
    /// What it makes on the host that it manages.
    state: &'static str,
    /// File that names `vhost0`.
    vhost0: &'static str,
    /// File that names the interface.
    uplink: &'static str,
    /// What a file has for these interfaces.
    content: fn(&str) -> String,
    /// Has it read its files.
    reload: (&'static str, &'static [&'static str]),
    /// Asks it to set up an interface, or not to. None: files suffice.
    ask: Option<fn(&str, bool) -> [String; 7]>,
}

/// `vhost0`, and the interface of the agent.
const OWN: &str = "vhost0 pkt*";

const MANAGERS: [Manager; 2] = [
    Manager {
        program: Program::Networkd,
        role: Role::Networkd,
        state: "/run/systemd/netif/state",
        vhost0: "/run/systemd/network/00-tf-vhost0.network",
        uplink: "/run/systemd/network/00-tf-uplink.network",
        content: |links| {
            format!(
                "# tf-node: the vRouter sets these up (systemd.network)\n[Match]\nName={links}\n\n[Link]\nUnmanaged=yes\n"
            )
        },
        reload: ("networkctl", &["reload"]),
        ask: None,
    },
    Manager {
        program: Program::NetworkManager,
        role: Role::NetworkManager,
        state: "/run/NetworkManager/devices",
        vhost0: "/run/NetworkManager/conf.d/00-tf-vhost0.conf",
        uplink: "/run/NetworkManager/conf.d/00-tf-uplink.conf",
        content: |links| {
            let names: Vec<String> = links.split(' ').map(|name| format!("interface-name:{name}")).collect();
            // A section for each file: one that comes again in another file would replace it.
            let section = if links == OWN { "vhost0" } else { "uplink" };
            format!(
                "# tf-node: the vRouter sets these up (NetworkManager.conf)\n[device-tf-{section}]\nmatch-device={}\nmanaged=0\n",
                names.join(",")
            )
        },
        reload: ("nmcli", &["--wait", "10", "general", "reload", "conf"]),
        ask: Some(|link, is_to| {
            let answer = if is_to { "yes" } else { "no" };
            ["--wait", "10", "device", "set", link, "managed", answer].map(str::to_owned)
        }),
    },
];

impl Manager {
    fn runs(&self, facts: &HostFacts, root: &Root) -> bool {
        root.at(self.state).exists() && facts.processes.iter().any(|process| process.role == self.role)
    }

    fn manages(&self, facts: &HostFacts, link: &str) -> bool {
        facts.owners.iter().any(|owner| owner.program == self.program && owner.link == link)
    }
}

/// The managers of a node.
pub struct Managers<'a> {
    root: &'a Root,
    programs: &'a dyn HostPrograms,
}

impl<'a> Managers<'a> {
    /// Those whose files are below this root.
    pub fn new(root: &'a Root, programs: &'a dyn HostPrograms) -> Self {
        Self { root, programs }
    }

    /// Keeps those that run from `vhost0`, which does not exist yet.
    ///
    /// # Errors
    /// When a file cannot be written or a program does not read it.
    pub fn keep_from_vhost0(&self, facts: &HostFacts) -> io::Result<()> {
        MANAGERS.iter().filter(|manager| manager.runs(facts, self.root)).try_for_each(|manager| {
            self.write(manager.vhost0, &(manager.content)(OWN))?;
            self.reload(manager)
        })
    }

    /// Has those that set addresses of the interface leave it alone. Whether there was one.
    ///
    /// # Errors
    /// When a file cannot be written, or a program does not leave it alone.
    pub fn release(&self, facts: &HostFacts, link: &str) -> io::Result<bool> {
        let owning: Vec<&Manager> =
            MANAGERS.iter().filter(|manager| manager.runs(facts, self.root) && manager.manages(facts, link)).collect();
        let before = observe_network(self.root);
        for manager in &owning {
            self.write(manager.uplink, &(manager.content)(link))?;
            self.reload(manager)?;
            self.ask(manager, link, false)?;
        }
        let begun = Instant::now();
        while let Some(manager) = owning.iter().find(|manager| manager.manages(&observe(self.root), link)) {
            if begun.elapsed() > DONE {
                return Err(io::Error::other(format!("{} still sets up {link}", manager.program)));
            }
            thread::sleep(LOOK);
        }
        for _ in 0..if owning.is_empty() { 0 } else { SETTLING } {
            self.restore(&before)?;
            thread::sleep(LOOK);
        }
        Ok(!owning.is_empty())
    }

    /// Adds again what a program took away when it left the interface alone: networkd removes rules and routes of its configuration, wherever they lead by
    /// then.
    fn restore(&self, before: &Network) -> io::Result<()> {
        let now = observe_network(self.root);
        let is_same = |one: &Route, other: &Route| {
            (one.table, one.destination, one.metric, &one.hops)
                == (other.table, other.destination, other.metric, &other.hops)
        };
        let is_stated = |route: &Route| route.protocol != "kernel" && route.expires.is_none() && !route.incomplete;
        let routes = before.routes.iter().filter(|route| is_stated(route));
        let routes = routes.filter(|route| now.routes.iter().all(|other| !is_same(route, other)));
        let rules = before.rules.iter().filter(|rule| !rule.is_default() && !rule.incomplete);
        let mut writer = Writer::open()?;
        for route in routes {
            writer.replace_route(route)?;
        }
        for rule in rules.filter(|rule| !now.rules.contains(rule)) {
            writer.add_rule(rule)?;
        }
        Ok(())
    }

    /// Lets them set up the interface again.
    ///
    /// # Errors
    /// When a file cannot be removed or a program does not read that it is gone; then it is there again.
    pub fn give_back(&self, facts: &HostFacts, link: Option<&str>) -> io::Result<()> {
        for manager in &MANAGERS {
            let files: Vec<(&str, Vec<u8>)> = [manager.vhost0, manager.uplink]
                .into_iter()
                .filter_map(|path| Some((path, fs::read(self.root.at(path)).ok()?)))
                .collect();
            for (path, _) in &files {
                fs::remove_file(self.root.at(path)).map_err(|error| of(Path::new(path), &error))?;
            }
            if files.is_empty() || !manager.runs(facts, self.root) {
                continue;
            }
            let uplink = link.filter(|_| files.iter().any(|(path, _)| *path == manager.uplink));
            let done = self.reload(manager).and_then(|()| uplink.map_or(Ok(()), |link| self.ask(manager, link, true)));
            if let Err(error) = done {
                for (path, content) in &files {
                    atomic::write(&self.root.at(path), content, MODE)?;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn write(&self, path: &str, content: &str) -> io::Result<()> {
        let file = self.root.at(path);
        fs::create_dir_all(file.parent().unwrap_or(&file)).map_err(|error| of(Path::new(path), &error))?;
        atomic::write(&file, content.as_bytes(), MODE)
    }

    fn reload(&self, manager: &Manager) -> io::Result<()> {
        let (program, arguments) = manager.reload;
        self.programs.call(program, arguments)
    }

    fn ask(&self, manager: &Manager, link: &str, is_to: bool) -> io::Result<()> {
        let Some(ask) = manager.ask else { return Ok(()) };
        let (program, _) = manager.reload;
        self.programs.call(program, &ask(link, is_to).each_ref().map(String::as_str))
    }
}
