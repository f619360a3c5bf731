//! What is written after `tf-node host`.

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::{Context as _, Result, bail, ensure};
use lexopt::prelude::{Long, Short, Value, ValueExt as _};
use tf_host::{
    CpuList, Mode, Wanted,
    data_path::Programs,
    facts::memory::{GIB_1, MIB_2},
    reload::OtherModule,
};

use crate::paths::Paths;

/// Where the host keeps the journal.
pub const JOURNAL: &str = "/var/lib/contrail/tf-node/host.json";

/// What people get when they ask for help.
pub const HELP: &str = "\
tf-node host: what this node is for the vRouter. Run it as root, in the network namespace of the node.

  tf-node host show     show what the node has, and what stands in the way of a vRouter; changes nothing
  tf-node host apply    load the kernel module and give vhost0 the place of the physical interface
  tf-node host virtual-functions
                        make virtual functions (SR-IOV) of interfaces
  tf-node host forward  give the physical interface to the forwarder of the DPDK mode, with vhost0 in its place as long as it runs
  tf-node host remove   take the CNI configuration and virtual functions away, give the physical interface its place back and remove vhost0

What the vRouter needs, for all of them:
  --mode kernel|dpdk             what forwards packets; kernel. apply is for the kernel mode, and forward for dpdk with one interface
  --module image|host            where the kernel module comes from: compiled by the vRouter's image, or on the node; image
  --module-parameter NAME=VALUE  may be repeated; counts when the module is loaded, before VROUTER_MODULE_OPTIONS of the environment
  --physical-interface NAME      the interface that the vRouter takes; several for several uplinks. Else it is found
  --data-subnet NETWORK          network of the overlay's packets
  --loopback-subnet NETWORK      network of the node's own address, on a node with several uplinks
  --gateway ADDRESS              router of the overlay's packets
  --control-node ADDRESS         may be repeated
  --pod-network NETWORK          network of pods or Services; may be repeated
  --pod-mtu BYTES                MTU of pods, where it is not what fits on the node
  --huge-pages-2m COUNT, --huge-pages-1g COUNT
  --virtual-functions NAME=COUNT how many an interface has to have; may be repeated
  --core-mask CPUS               CPUs of DPDK's forwarder, a list or a mask: 2-5, 0x3c
  --service-cores CPUS, --control-cores CPUS
                                 those among them that do not forward packets: threads for services, and of DPDK itself
  --dpdk-driver NAME             driver that DPDK gets the interface by; vfio-pci
  --dpdk-memory MIB              huge pages for packets on each NUMA node; 1024
  --dpdk-offloads                the interface computes checksums
  --dpdk-vlan-forwarding         frames of other VLANs go to an interface of the host
  --dpdk-argument ARGUMENT       a further argument of the forwarder; may be repeated
  --cni-directory DIR, --cni-programs DIR
                                 where the container runtime has CNI configurations and programs
  --root DIR                     where the node's / is mounted; /

For show:
  --json                         facts and findings as JSON
  --summary FILE                 a line of JSON besides, for kubectl tf nodes; the exit code is 0 whatever stands in the way

For apply, forward and remove:
  --peer ADDRESS:PORT            reached over TCP before, it has to be afterwards, or all is undone; may be repeated.
                                 In a pod the Kubernetes API is one, too
  --journal FILE                 what was begun, so that it can be undone; not below --root; /var/lib/contrail/tf-node/host.json
  --vif PROGRAM, --modprobe PROGRAM, --insmod PROGRAM
                                 the module's program, and those that load it; vif, modprobe, insmod
  --reload-module                apply: where nothing uses the vRouter, and the loaded module is another one than modprobe finds or has other
                                 parameters, unload it and load that one; where it does not work the one that worked before
  --same-module                  apply: do not compare modules, since an agent is at work
  --force                        remove vhost0 although pods or the agent use it

For remove:
  --keep-vhost0                  take away the CNI configuration and program alone

The exit code is 0 if a vRouter can be set up, or is (remove: vhost0 is gone); 3 if something blocks it and nothing was touched;
4 if a change failed and was undone; 2 otherwise.
";

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Show facts and findings.
    Show,
    /// Give `vhost0` the place of the uplink.
    Apply,
    /// Make virtual functions.
    VirtualFunctions,
    /// Run the forwarder of the DPDK mode.
    Forward,
    /// Give it back.
    Remove,
}

/// All that can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What a vRouter needs.
    pub wanted: Wanted,
    /// Whether a program reads what is shown.
    pub json: bool,
    /// File that gets a summary, for a table of all nodes.
    pub summary: Option<PathBuf>,
    /// Who has to be reached afterwards.
    pub peers: Vec<SocketAddr>,
    /// The journal.
    pub journal: PathBuf,
    /// What drives the module.
    pub programs: Programs,
    /// Whether `vhost0` is removed although it is in use.
    pub force: bool,
    /// What is done about another module than the loaded one.
    pub other_module: OtherModule,
    /// Whether nothing but the CNI configuration is taken away.
    pub keep_vhost0: bool,
    /// The process that this one guards: the change is undone if it ends before it is done.
    pub guard_of: Option<i32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            wanted: Wanted::default(),
            json: false,
            summary: None,
            peers: Vec::new(),
            journal: Path::new(JOURNAL).to_owned(),
            programs: Programs::default(),
            force: false,
            other_module: OtherModule::default(),
            keep_vhost0: false,
            guard_of: None,
        }
    }
}

/// Reads them. None: help is asked for.
///
/// # Errors
/// What makes no sense.
pub fn parse(parser: &mut lexopt::Parser, paths: &mut Paths) -> Result<Option<(Action, Options)>> {
    let (mut options, mut actions) = (Options::default(), Vec::new());
    while let Some(argument) = parser.next()? {
        let name = match argument {
            Value(value) => {
                actions.push(value.string()?);
                continue;
            }
            Long("help") | Short('h') => return Ok(None),
            Long("root") => {
                *paths = Paths::below(parser.value()?);
                continue;
            }
            Long(name) => name.to_owned(),
            other @ Short(_) => return Err(other.unexpected().into()),
        };
        options.set(&name, parser).with_context(|| format!("--{name}"))?;
    }
    let action = match actions.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["show"] => Action::Show,
        ["apply"] => Action::Apply,
        ["virtual-functions"] => Action::VirtualFunctions,
        ["forward"] => Action::Forward,
        ["remove"] => Action::Remove,
        _ => {
            bail!("host: write tf-node host show, apply, virtual-functions, forward or remove; see tf-node host --help")
        }
    };
    ensure!(!options.json || action == Action::Show, "--json is for show");
    ensure!(options.summary.is_none() || action == Action::Show, "--summary is for show");
    if action == Action::Forward {
        options.wanted.mode = Mode::Dpdk;
    }
    ensure!(action != Action::Apply || options.wanted.mode == Mode::Kernel, "--mode dpdk: write tf-node host forward");
    ensure!(!options.force || action == Action::Remove, "--force is for remove");
    let is_default = options.other_module == OtherModule::default();
    ensure!(is_default || action == Action::Apply, "--reload-module and --same-module are for apply");
    ensure!(!options.keep_vhost0 || action == Action::Remove, "--keep-vhost0 is for remove");
    options.wanted.multihomed =
        options.wanted.physical_interfaces.len() > 1 || options.wanted.loopback_subnet.is_some();
    Ok(Some((action, options)))
}

impl Options {
    /// A record of this name.
    pub fn beside_journal(&self, name: &str) -> PathBuf {
        self.journal.with_file_name(name)
    }

    /// Adds what the environment of a pod says: options of the module and of the forwarder, in the variables of the images' own scripts (NF `load_kernel_module`), control
    /// nodes and networks of pods, and the Kubernetes API. What is written on the command line wins.
    #[must_use]
    pub fn with_environment(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
        let stated = variable("VROUTER_MODULE_OPTIONS").unwrap_or_default();
        for (name, value) in
            stated.split_whitespace().filter_map(|option| option.trim_matches(['"', '\'']).split_once('='))
        {
            self.wanted.module_parameters.entry(name.into()).or_insert_with(|| value.into());
        }
        let more = variable("DPDK_COMMAND_ADDITIONAL_ARGS").unwrap_or_default();
        self.wanted.dpdk.arguments.extend(more.split_whitespace().map(str::to_owned));
        // Names of hosts say nothing about an interface.
        unless_stated(&mut self.wanted.control_nodes, variable("CONTROL_NODES"));
        unless_stated(&mut self.wanted.pod_networks, variable("KUBERNETES_POD_SUBNETS"));
        let kubernetes = || {
            let host: IpAddr = variable("KUBERNETES_SERVICE_HOST")?.parse().ok()?;
            Some(SocketAddr::new(host, variable("KUBERNETES_SERVICE_PORT")?.parse().ok()?))
        };
        self.peers.extend(kubernetes());
        self
    }

    fn set(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<()> {
        let wanted = &mut self.wanted;
        let mut pages = |size, parser: &mut lexopt::Parser| -> Result<()> {
            let count: u64 = parser.value()?.parse()?;
            wanted.huge_pages.retain(|other, _| *other != size);
            wanted.huge_pages.extend((count > 0).then_some((size, count)));
            Ok(())
        };
        match name {
            "json" => self.json = true,
            "summary" => self.summary = Some(parser.value()?.into()),
            "force" => self.force = true,
            "reload-module" => self.other_module = OtherModule::Loaded,
            "same-module" => self.other_module = OtherModule::Ignored,
            "keep-vhost0" => self.keep_vhost0 = true,
            "peer" => self.peers.push(parser.value()?.parse()?),
            "journal" => self.journal = parser.value()?.into(),
            "vif" => self.programs.vif = parser.value()?.string()?,
            "modprobe" => self.programs.modprobe = parser.value()?.string()?,
            "insmod" => self.programs.insmod = parser.value()?.string()?,
            "guard-of" => self.guard_of = Some(parser.value()?.parse()?),
            "mode" => wanted.mode = parser.value()?.parse()?,
            "module" => wanted.module = parser.value()?.parse()?,
            "module-parameter" => {
                let text = parser.value()?.string()?;
                let (name, value) = text.split_once('=').context("write NAME=VALUE")?;
                wanted.module_parameters.insert(name.into(), value.into());
            }
            "virtual-functions" => {
                let text = parser.value()?.string()?;
                let (name, count) = text.split_once('=').context("write NAME=COUNT")?;
                wanted.virtual_functions.insert(name.into(), count.parse()?);
            }
            "physical-interface" => {
                let names = parser.value()?.string()?;
                wanted.physical_interfaces.extend(names.split(',').filter(|name| !name.is_empty()).map(str::to_owned));
            }
            "data-subnet" => wanted.data_subnet = Some(parser.value()?.parse()?),
            "loopback-subnet" => wanted.loopback_subnet = Some(parser.value()?.parse()?),
            "gateway" => wanted.gateway = Some(parser.value()?.parse()?),
            "control-node" => wanted.control_nodes.push(parser.value()?.parse()?),
            "pod-network" => wanted.pod_networks.push(parser.value()?.parse()?),
            "pod-mtu" => wanted.pod_mtu = parser.value()?.parse()?,
            "huge-pages-2m" => pages(MIB_2, parser)?,
            "huge-pages-1g" => pages(GIB_1, parser)?,
            "core-mask" => wanted.dpdk.cores = Some(CpuList::from_mask(&parser.value()?.string()?)?),
            "service-cores" => wanted.dpdk.service_cores = Some(parser.value()?.parse()?),
            "control-cores" => wanted.dpdk.control_cores = Some(parser.value()?.parse()?),
            "dpdk-driver" => wanted.dpdk.driver = parser.value()?.string()?,
            "dpdk-memory" => wanted.dpdk.memory_per_node = parser.value()?.parse()?,
            "dpdk-offloads" => wanted.dpdk.offloads = true,
            "dpdk-vlan-forwarding" => wanted.dpdk.vlan_forwarding = true,
            "dpdk-argument" => wanted.dpdk.arguments.push(parser.value()?.string()?),
            "cni-directory" => wanted.cni_directory = parser.value()?.string()?,
            "cni-programs" => wanted.cni_programs = parser.value()?.string()?,
            _ => bail!("no such option; see tf-node host --help"),
        }
        Ok(())
    }
}

/// Fills a list that the command line leaves empty with what of a variable's list can be read.
fn unless_stated<T: FromStr>(list: &mut Vec<T>, variable: Option<String>) {
    if list.is_empty() {
        let variable = variable.unwrap_or_default();
        *list =
            variable.split(|it: char| it == ',' || it.is_whitespace()).filter_map(|item| item.parse().ok()).collect();
    }
}

#[cfg(test)]
mod tests {
    use tf_host::wanted::Dpdk;

    use super::*;

    fn parsed(line: &str) -> Result<Option<(Action, Options)>> {
        parse(&mut lexopt::Parser::from_args(line.split_whitespace()), &mut Paths::default())
    }

    #[test]
    fn what_people_ask_for_is_understood() {
        assert_eq!(parsed("show").unwrap(), Some((Action::Show, Options::default())));
        let wanted = Wanted {
            mode: Mode::Dpdk,
            physical_interfaces: vec!["eth0".into(), "eth1".into()],
            multihomed: true,
            gateway: Some([10, 0, 0, 1].into()),
            control_nodes: vec![[10, 0, 0, 2].into(), [10, 0, 0, 3].into()],
            huge_pages: [(MIB_2, 128)].into(),
            dpdk: Dpdk {
                cores: Some("2-5".parse().unwrap()),
                service_cores: Some("2".parse().unwrap()),
                arguments: vec!["--vr_mpls_labels".into(), "5120".into()],
                ..Dpdk::default()
            },
            ..Wanted::default()
        };
        let line = "show --json --mode dpdk --physical-interface eth0,eth1 --gateway=10.0.0.1 --control-node 10.0.0.2 \
                    --control-node 10.0.0.3 --huge-pages-2m 128 --huge-pages-1g 0 --core-mask 0x3c --service-cores 2 \
                    --dpdk-argument=--vr_mpls_labels --dpdk-argument 5120";
        assert_eq!(parsed(line).unwrap(), Some((Action::Show, Options { wanted, json: true, ..Options::default() })));
        let wanted =
            Wanted { module_parameters: [("vr_interfaces".to_owned(), "8000".to_owned())].into(), ..Wanted::default() };
        let options = Options {
            wanted,
            peers: vec!["10.0.0.1:6443".parse().unwrap(), "[2001:db8::1]:6443".parse().unwrap()],
            journal: "/tmp/host.json".into(),
            programs: Programs { vif: "/bin/vif".into(), ..Programs::default() },
            ..Options::default()
        };
        let line = "apply --peer 10.0.0.1:6443 --peer [2001:db8::1]:6443 --journal /tmp/host.json --vif /bin/vif \
                    --module-parameter vr_interfaces=8000";
        assert_eq!(parsed(line).unwrap(), Some((Action::Apply, options)));
        let wanted = Wanted { virtual_functions: [("eth3".to_owned(), 7)].into(), ..Wanted::default() };
        let options = Options { wanted, ..Options::default() };
        let line = "virtual-functions --virtual-functions eth3=7";
        assert_eq!(parsed(line).unwrap(), Some((Action::VirtualFunctions, options)));
        let options = Options { force: true, ..Options::default() };
        assert_eq!(parsed("remove --force").unwrap(), Some((Action::Remove, options)));
        assert_eq!(parsed("--help").unwrap(), None);
    }

    #[test]
    fn a_pod_s_environment_adds_the_kubernetes_api_and_options_of_the_module() {
        let of = |variables: &[(&str, &str)]| {
            let stated: Vec<_> =
                variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let (_, options) = parsed("apply --module-parameter vr_interfaces=8000").unwrap().unwrap();
            options.with_environment(|name| Some(stated.iter().find(|(stated, _)| stated == name)?.1.clone()))
        };
        let options = of(&[
            ("VROUTER_MODULE_OPTIONS", "\"vr_interfaces=4355 vr_mpls_labels=5120\""),
            ("DPDK_COMMAND_ADDITIONAL_ARGS", "--vr_mpls_labels 5120"),
            ("KUBERNETES_SERVICE_HOST", "fd00::1"),
            ("KUBERNETES_SERVICE_PORT", "443"),
            ("CONTROL_NODES", "10.0.0.1,control-2 10.0.0.3"),
            ("KUBERNETES_POD_SUBNETS", "10.32.0.0/12"),
        ]);
        assert_eq!(options.wanted.control_nodes, [IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 3])]);
        assert_eq!(options.wanted.pod_networks, ["10.32.0.0/12".parse().unwrap()]);
        assert_eq!(options.wanted.dpdk.arguments, ["--vr_mpls_labels", "5120"]);
        let parameters = [("vr_interfaces", "8000"), ("vr_mpls_labels", "5120")];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(
            (options.wanted.module_parameters, options.peers),
            (parameters, vec!["[fd00::1]:443".parse().unwrap()])
        );
        assert_eq!(of(&[("KUBERNETES_SERVICE_HOST", "fd00::1")]).peers, []);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_option_that_does_not() {
        for (line, expected) in [
            ("", "tf-node host show"),
            ("undo", "tf-node host show"),
            ("show now", "tf-node host show"),
            ("virtual-functions --virtual-functions eth3", "--virtual-functions"),
            ("virtual-functions --virtual-functions eth3=many", "--virtual-functions"),
            ("show --fast", "--fast"),
            ("show --force", "--force"),
            ("apply --json", "--json"),
            ("apply --mode dpdk", "--mode dpdk"),
            ("apply --summary /tmp/summary", "--summary"),
            ("apply --keep-vhost0", "--keep-vhost0"),
            ("remove --reload-module", "--reload-module"),
            ("apply --peer router", "--peer"),
            ("apply --module-parameter vr_interfaces", "--module-parameter"),
            ("show --mode vpp", "--mode"),
            ("show --gateway router", "--gateway"),
            ("show --huge-pages-2m many", "--huge-pages-2m"),
            ("show --core-mask 2", "write 0x4 or 2,3"),
            ("show -x", "-x"),
        ] {
            let error = format!("{:#}", parsed(line).unwrap_err());
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
