//! Queues of the hardware below the vRouter, where QoS is configured: the vRouter chooses the queue of a packet, so that the kernel may not do so by CPU
//! (XPS), and priority groups get their share of the bandwidth (DCB) by the vRouter's own program `qosmap`.
//!
//! What CPUs queues had is recorded, so that [`give_back`] sets it again.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use serde::{Deserialize, Serialize};

use crate::{
    HostFacts, Root, Wanted, atomic,
    facts::{boot_id, links::Link, network::Network, observe_network},
    journal::{self, Journal},
    preflight::hardware,
    program, record,
    sysctls::Look,
    uplink::choose,
};

/// File beside the journal: CPUs that queues had.
pub const RECORD: &str = "queues.json";
/// Priority groups of DCB (IEEE 802.1Qaz).
pub const GROUPS: u8 = 8;
/// How often a queue is written before another program counts as the one that keeps changing it.
const WRITES: u32 = 3;

/// A priority group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its number, below [`GROUPS`].
    pub number: u8,
    /// Its share of the bandwidth, percent. 0 where it is strict.
    pub bandwidth: u8,
    /// Whether its packets go before those of groups that are not strict.
    pub strict: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Record {
    /// Masks by their files below `/sys/class/net`.
    cpus: BTreeMap<String, String>,
}

/// Keeps queues, and remembers what it did.
#[derive(Clone, Debug)]
pub struct Keeper {
    /// Interfaces of the vRouter; empty: it is found.
    interfaces: Vec<String>,
    groups: Vec<Group>,
    record: PathBuf,
    /// `qosmap`.
    program: String,
    /// Interfaces that have their priority groups.
    grouped: BTreeSet<String>,
    writes: BTreeMap<String, u32>,
}

/// Arguments of `qosmap`: bandwidth and strictness of each group; each traffic class has the group of its own number.
fn arguments(interface: &str, groups: &[Group]) -> Vec<String> {
    let of = |number: u8| groups.iter().find(|group| group.number == number);
    let numbers = || 0..GROUPS;
    let bandwidths: Vec<String> =
        numbers().map(|number| of(number).map_or(0, |group| group.bandwidth).to_string()).collect();
    let strict: String =
        numbers().map(|number| if of(number).is_some_and(|group| group.strict) { '1' } else { '0' }).collect();
    let classes: Vec<String> = numbers().map(|number| number.to_string()).collect();
    let words =
        ["--set-queue", interface, "--dcbx", "ieee", "--bw", &bandwidths.join(","), "--strict", &strict, "--tc"];
    words.into_iter().map(str::to_owned).chain([classes.join(",")]).collect()
}

impl Keeper {
    /// Of these interfaces, or of the one that is found. `record`: a file on the host.
    pub fn new(interfaces: Vec<String>, groups: Vec<Group>, record: PathBuf, program: String) -> Self {
        Self { interfaces, groups, record, program, grouped: BTreeSet::new(), writes: BTreeMap::new() }
    }

    /// What was written so far does not count any more against another program.
    pub fn forget_writes(&mut self) {
        self.writes.clear();
    }

    /// Sets what is not as it should be.
    pub fn look(&mut self, root: &Root) -> Look {
        self.look_at(root, observe_network(root))
    }

    fn look_at(&mut self, root: &Root, network: Network) -> Look {
        let facts = HostFacts { network, ..HostFacts::default() };
        let wanted = Wanted {
            multihomed: self.interfaces.len() > 1,
            physical_interfaces: self.interfaces.clone(),
            below_vhost0: Journal::uplink(&self.record.with_file_name(journal::FILE), root),
            ..Wanted::default()
        };
        let mut look = Look::default();
        let uplinks = match choose(&facts, &wanted) {
            Ok(uplinks) => uplinks,
            Err(finding) => return Look { problems: vec![finding.to_string()], ..look },
        };
        for uplink in uplinks {
            for link in hardware(&facts.network, uplink.link) {
                if let Err(why) = self.without_cpus(root, link, &mut look) {
                    look.problems.push(why);
                }
                if let Err(why) = self.with_groups(uplink.link, link) {
                    look.problems.push(why);
                }
            }
        }
        look
    }

    /// No CPU chooses a queue of this interface.
    fn without_cpus(&mut self, root: &Root, link: &Link, look: &mut Look) -> Result<(), String> {
        let name = &link.name;
        let differing: Vec<(String, String)> =
            masks(root, name).into_iter().filter(|(_, mask)| !is_empty(mask)).collect();
        if differing.is_empty() {
            return Ok(());
        }
        let writes = self.writes.entry(name.clone()).or_default();
        if *writes >= WRITES {
            return Err(format!("another program keeps setting xps_cpus of {name}"));
        }
        *writes += 1;
        let boot = boot_id(root);
        let unusable = |error: io::Error| format!("{}: {error}", self.record.display());
        let mut record: Record = record::read(&self.record, &boot).map_err(unusable)?;
        for (file, mask) in &differing {
            record.cpus.entry(file.clone()).or_insert_with(|| mask.clone());
        }
        record::write(&self.record, &boot, &record).map_err(unusable)?;
        for (file, _) in &differing {
            fs::write(path(root, file), "0").map_err(|error| format!("the kernel does not take {file}: {error}"))?;
        }
        look.written.push(format!("xps_cpus of {name}"));
        Ok(())
    }

    /// The interface has its priority groups. The kernel forgets them when the interface is made again, as with another process of this.
    fn with_groups(&mut self, uplink: &Link, link: &Link) -> Result<(), String> {
        if self.groups.is_empty() || self.grouped.contains(&link.name) {
            return Ok(());
        }
        if uplink.kind.as_deref() == Some("vlan") {
            return Err(format!("{} is a VLAN, and has no priority groups; remove priorityId", uplink.name));
        }
        program::run(Command::new(&self.program).args(arguments(&link.name, &self.groups)))
            .map_err(|error| format!("{} does not take priority groups: {error}", link.name))?;
        self.grouped.insert(link.name.clone());
        Ok(())
    }
}

/// Gives queues the CPUs that they had, unless another program has given them some. Names of files that were written.
///
/// # Errors
/// When the record cannot be used.
pub fn give_back(root: &Root, record: &Path) -> io::Result<Vec<String>> {
    let Record { cpus } = record::read(record, &boot_id(root))?;
    let mut given = Vec::new();
    for (file, mask) in cpus {
        let path = path(root, &file);
        let is_ours = fs::read_to_string(&path).is_ok_and(|mask| is_empty(&mask));
        // The interface may be gone.
        if is_ours && fs::write(&path, mask).is_ok() {
            given.push(file);
        }
    }
    atomic::remove(record)?;
    Ok(given)
}

/// Masks of an interface's queues for sending, by their files. The kernel has none for an interface of one queue.
fn masks(root: &Root, link: &str) -> Vec<(String, String)> {
    let queues = format!("{link}/queues");
    let entries = fs::read_dir(path(root, &queues)).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut files: Vec<String> =
        names.filter(|name| name.starts_with("tx-")).map(|name| format!("{queues}/{name}/xps_cpus")).collect();
    files.sort();
    let read = |file: String| {
        let mask = fs::read_to_string(path(root, &file)).ok()?;
        Some((file, mask.trim().to_owned()))
    };
    files.into_iter().filter_map(read).collect()
}

fn path(root: &Root, file: &str) -> PathBuf {
    root.at("/sys/class/net").join(file)
}

/// Whether a mask names no CPU: `0`, or `00000000,00000000`.
fn is_empty(mask: &str) -> bool {
    mask.trim().chars().all(|digit| digit == '0' || digit == ',')
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A node with a bond of two interfaces of two queues each, and a VLAN above it.
    struct Node(tempfile::TempDir);

    impl Node {
        fn new() -> Self {
            let node = Self(tempfile::tempdir().unwrap());
            for (file, mask) in
                [("eth0/queues/tx-0", "1"), ("eth0/queues/tx-1", "2"), ("eth1/queues/tx-0", "0,00000003")]
            {
                node.set(&format!("{file}/xps_cpus"), mask);
            }
            fs::create_dir_all(node.0.path().join("sys/class/net/eth0/queues/rx-0")).unwrap();
            let qosmap = format!("#!/bin/sh\necho \"$@\" >> {}\n", node.0.path().join("ran").display());
            fs::write(node.program(), qosmap).unwrap();
            fs::set_permissions(node.program(), fs::Permissions::from_mode(0o755)).unwrap();
            node
        }

        fn program(&self) -> PathBuf {
            self.0.path().join("qosmap")
        }

        fn record(&self) -> PathBuf {
            self.0.path().join("state").join(RECORD)
        }

        fn root(&self) -> Root {
            Root::below(self.0.path())
        }

        fn file(&self, file: &str) -> PathBuf {
            self.0.path().join("sys/class/net").join(file)
        }

        fn set(&self, file: &str, mask: &str) {
            fs::create_dir_all(self.file(file).parent().unwrap()).unwrap();
            fs::write(self.file(file), format!("{mask}\n")).unwrap();
        }

        fn masks(&self) -> Vec<String> {
            ["eth0", "eth1"].into_iter().flat_map(|link| masks(&self.root(), link)).map(|(_, mask)| mask).collect()
        }

        fn keeper(&self, interface: &str, groups: &[Group]) -> Keeper {
            let program = self.program().display().to_string();
            Keeper::new(vec![interface.into()], groups.to_vec(), self.record(), program)
        }
    }

    fn network() -> Network {
        let link = |name: &str, kind: Option<&str>, master: Option<&str>, parent: Option<&str>| Link {
            name: name.into(),
            kind: kind.map(Into::into),
            master: master.map(Into::into),
            parent: parent.map(Into::into),
            ..Link::default()
        };
        let links = vec![
            link("eth0", None, Some("bond0"), None),
            link("eth1", None, Some("bond0"), None),
            link("bond0", Some("bond"), None, None),
            link("bond0.7", Some("vlan"), None, Some("bond0")),
        ];
        Network { links, ..Network::default() }
    }

    fn groups() -> [Group; 2] {
        [Group { number: 0, bandwidth: 0, strict: true }, Group { number: 1, bandwidth: 100, strict: false }]
    }

    #[test]
    fn no_cpu_chooses_a_queue_and_groups_have_their_bandwidth_until_the_vrouter_leaves() {
        let node = Node::new();
        let mut keeper = node.keeper("bond0", &groups());
        let look = keeper.look_at(&node.root(), network());
        let written = ["xps_cpus of eth0", "xps_cpus of eth1"].map(str::to_owned).to_vec();
        assert_eq!(look, Look { written, problems: vec![] });
        assert_eq!(node.masks(), ["0", "0", "0"]);
        let ran = fs::read_to_string(node.0.path().join("ran")).unwrap();
        let options = "--dcbx ieee --bw 0,100,0,0,0,0,0,0 --strict 10000000 --tc 0,1,2,3,4,5,6,7";
        assert_eq!(ran, format!("--set-queue eth0 {options}\n--set-queue eth1 {options}\n"));
        assert_eq!(keeper.look_at(&node.root(), network()), Look::default());
        assert_eq!(fs::read_to_string(node.0.path().join("ran")).unwrap(), ran, "once");
        // Another process of the agent finds it done, and knows what was there before.
        assert_eq!(node.keeper("bond0", &[]).look_at(&node.root(), network()), Look::default());
        node.set("eth0/queues/tx-1/xps_cpus", "8");
        assert_eq!(node.keeper("bond0", &[]).look_at(&node.root(), network()).written, ["xps_cpus of eth0"]);
        assert_eq!(give_back(&node.root(), &node.record()).unwrap().len(), 3);
        assert_eq!(node.masks(), ["1", "2", "0,00000003"]);
        assert_eq!(give_back(&node.root(), &node.record()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn what_cannot_be_is_named() {
        let node = Node::new();
        let mut keeper = node.keeper("bond0.7", &groups());
        let look = keeper.look_at(&node.root(), network());
        let vlan = "bond0.7 is a VLAN, and has no priority groups; remove priorityId";
        assert_eq!(look.problems, [vlan, vlan]);
        assert_eq!(look.written.len(), 2, "queues are as they should be all the same");
        fs::write(node.program(), "#!/bin/sh\necho 'Operation not supported'; exit 1\n").unwrap();
        let look = node.keeper("eth0", &groups()).look_at(&node.root(), network());
        assert_eq!(look.problems.len(), 1);
        let why = &look.problems[0];
        assert!(
            why.starts_with("eth0 does not take priority groups: ") && why.ends_with("Operation not supported"),
            "{why}"
        );
        let look = node.keeper("eth7", &[]).look_at(&node.root(), network());
        assert!(look.problems[0].starts_with("the node has no interface eth7"), "{look:?}");
    }

    #[test]
    fn another_program_that_keeps_changing_it_is_named_and_not_fought_over() {
        let node = Node::new();
        let mut keeper = node.keeper("eth0", &[]);
        for _ in 0..WRITES {
            assert_eq!(keeper.look_at(&node.root(), network()).written, ["xps_cpus of eth0"]);
            node.set("eth0/queues/tx-0/xps_cpus", "f");
        }
        let look = keeper.look_at(&node.root(), network());
        assert_eq!(look.problems, ["another program keeps setting xps_cpus of eth0"]);
        assert_eq!(node.masks()[0], "f");
    }
}
