//! Containers and volumes of the pods.
//!
//! Only what works on the node itself is privileged: the kernel module's installer and the agent. No
//! container has a hook that runs when it stops, so established flows go on until the next agent starts (docs/upstream/vrouter.md#stop). The plugin's
//! executable is placed by an init container; the configuration that makes the kubelet use it by the agent, once it serves (`Launch::cni`).

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        ConfigMapVolumeSource, Container, EnvVar, HostPathVolumeSource, ResourceRequirements, Volume, VolumeMount,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use serde_json::json;
use tf_agent_api::{host::PREFLIGHT, node};
use tf_api::{
    Vhost0, Vrouter, VrouterConfiguration, common::Container as Listed, contract::Reason, ports, schema::Port,
};
use tf_contrail::nodemanager::{self, NodeType};
use tf_plan::{
    build::{
        identity::Identity,
        pod::{DaemonContainer, Privileges, agent_mount, env_from, mount, read_only, security_context},
        storage::{self, host_path},
    },
    cluster::{Cluster, Platform},
    hash,
    images::{self, Builtin, Chosen, ImageOverrides, Release},
    not_ready::NotReady,
};

use crate::{
    config::{self, cni},
    dpdk,
    parameters::{Name, Parameters},
};

/// The agent.
pub const AGENT: &str = "vrouteragent";
const KERNEL_INIT: &str = "vrouterkernelinit";
const KERNEL_BUILD_INIT: &str = "vrouterkernelbuildinit";
const CNI_INIT: &str = "vroutercni";

/// Containers a pod can have.
pub const CONTAINERS: [Builtin; 6] = [
    Builtin { name: KERNEL_INIT, image: "vrouter-kernel-init", default: true },
    Builtin { name: KERNEL_BUILD_INIT, image: "vrouter-kernel-build-init", default: true },
    Builtin { name: CNI_INIT, image: "kubernetes-cni-init", default: true },
    nodemanager::CONTAINER,
    dpdk::BUILTIN,
    Builtin { name: AGENT, image: "vrouter-agent", default: true },
];

/// Containers of the Go tf-operator that are not needed.
pub const OBSOLETE: [(&str, &str); 4] = [
    ("nodeinit", "the agent's own container applies kernel settings (CONTRAIL_SYSCTL_TUNING)"),
    ("nodeinit-status-prefetch", "images are not fetched ahead"),
    ("nodeinit-tools-prefetch", "images are not fetched ahead"),
    ("provisioner", "nodes are registered by the operators, not by a container"),
];

const LOGS: &str = "logs";
const MODULES: &str = "lib-modules";
const SOURCES: &str = "usr-src";
const DEVICES: &str = "dev";
/// The name the node manager's volumes give it too.
const RUN: &str = "var-run";
const STATE: &str = "var-lib-contrail";
const STATE_DIR: &str = "/var/lib/contrail";
const CNI_CONFIG: &str = "cni-config";
const CNI_FILES: &str = "cni-config-files";
const CNI_BIN: &str = "cni-bin";
const CNI_LOGS: &str = "cni-logs";
const CNI_PORTS: &str = "cni-ports";
const MULTUS: &str = "multus-cni";
/// The init container that makes `vhost0`, and where `tf-node host` has the node's files.
const VHOST0: &str = "vhost0";
/// The init container that makes virtual functions.
const FUNCTIONS: &str = "virtual-functions";
const HOST: &str = "host";
const HOST_DIR: &str = "/host";
/// Letters of the kernel's names of interfaces (`dev_valid_name`), of which these are written.
const LONGEST_INTERFACE: usize = 15;

/// Seconds the agent gets to stop: it only has to close its connections. A forwarder needs more ([`dpdk::STOP_SECONDS`]).
pub const GRACE_SECONDS: i64 = 30;

/// Containers and volumes.
pub struct Pods {
    /// Init containers in their order.
    init: Vec<Init>,
    /// Options of `tf-node host` that are the same in all groups.
    host_options: Vec<String>,
    /// Daemons.
    pub daemons: Vec<DaemonContainer>,
    /// Options of `tf-node host forward`, in the DPDK mode.
    pub forward_options: Vec<String>,
    /// Whether pods make `vhost0` with the kernel module.
    makes_vhost0: bool,
    /// Seconds that a pod gets to stop.
    pub grace_seconds: i64,
    /// Volumes.
    pub volumes: Vec<Volume>,
    /// The init container that undoes on a node what pods changed there, with its volumes.
    pub removal: (Container, Vec<Volume>),
    /// Whether pods change anything on a node that lasts.
    pub changes_node: bool,
    /// Paths in the agent's container that get the node's CNI configuration. None where pods do not bring the plugin to their node.
    pub cni_targets: Vec<String>,
    /// Containers of the spec's list that do not run, with why.
    pub ignored: Vec<String>,
}

/// The init container that undoes on a node what pods changed there.
const REMOVAL: &str = "removal";

/// An init container.
enum Init {
    /// All groups have it alike.
    Same(Container),
    /// It runs `tf-node host`, with options of its group.
    OnHost(Action, Container),
}

/// What `tf-node host` does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    /// Reports what the node is, and changes nothing.
    Show,
    /// Gives `vhost0` the place of the node's interface.
    Apply,
    /// Makes virtual functions.
    VirtualFunctions,
}

impl Pods {
    /// Whether they bring the CNI plugin to their node.
    pub fn bring_plugin(&self) -> bool {
        !self.cni_targets.is_empty()
    }

    /// Options by which agents of a group set their node up again. None: pods do not make `vhost0`.
    ///
    /// # Errors
    /// When a parameter means nothing.
    pub fn vhost0_options(&self, parameters: &Parameters) -> Result<Option<Vec<String>>, NotReady> {
        let own = || ["--same-module".to_owned()];
        let options = || Ok([&self.host_options[..], &host_options(parameters)?, &own()].concat());
        self.makes_vhost0.then(options).transpose()
    }

    /// Init containers of a group. `reloads`: whether they load another kernel module where nothing uses the vRouter.
    ///
    /// # Errors
    /// When a parameter means nothing, or is for what pods cannot do.
    pub fn init_of(&self, parameters: &Parameters, reloads: bool) -> Result<Vec<Container>, NotReady> {
        let functions = function_options(parameters)?;
        let mut containers = Vec::new();
        for init in &self.init {
            let (action, container) = match init {
                Init::Same(container) => {
                    containers.push(container.clone());
                    continue;
                }
                Init::OnHost(action, container) => (*action, container),
            };
            if action == Action::Apply {
                interfaces(parameters)?;
            }
            let options = [&self.host_options[..], &host_options(parameters)?].concat();
            let command = match action {
                Action::Show => node::host_show(&[&options[..], &functions].concat()),
                Action::VirtualFunctions if functions.is_empty() => continue,
                Action::VirtualFunctions => node::host_virtual_functions(&[&options[..], &functions].concat()),
                Action::Apply if reloads => node::host_apply(&[&options[..], &["--reload-module".to_owned()]].concat()),
                Action::Apply => node::host_apply(&options),
            };
            containers.push(Container { command: Some(command), ..container.clone() });
        }
        Ok(containers)
    }
}

/// What the pods are made of.
pub struct PodInputs<'a> {
    /// The resource.
    pub cr: &'a Vrouter,
    /// Its identity.
    pub identity: &'a Identity,
    /// Containers that run.
    pub containers: &'a [Chosen],
    /// The release of their images.
    pub release: &'a Release,
    /// Images of the installation.
    pub overrides: &'a ImageOverrides,
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Parameters that the groups have in common.
    pub parameters: &'a Parameters,
    /// Secret with variables for init containers.
    pub variables: &'a str,
    /// ConfigMap with the CNI configuration.
    pub cni_map: &'a str,
    /// Port of the node agent.
    pub agent_port: Port,
}

impl PodInputs<'_> {
    /// Puts the pods together.
    ///
    /// # Errors
    /// When the spec's list leaves the agent out, or a parameter means nothing.
    pub fn pods(&self) -> Result<Pods, NotReady> {
        let agent = self.chosen(AGENT).ok_or_else(|| {
            let message = format!("serviceConfiguration.containers leaves out {AGENT}; add it");
            NotReady::invalid(Reason::InvalidSpec, message)
        })?;
        let cni = self.chosen(CNI_INIT);
        let manager = self.chosen(nodemanager::CONTAINER.name);
        let is_dpdk = self.parameters.is_dpdk();
        let (kernel, ignored) = if is_dpdk { (None, Vec::new()) } else { self.kernel() };
        // That of the DPDK mode is the forwarder's.
        let makes_vhost0 = !is_dpdk && self.spec().vhost0 == Some(Vhost0::Managed);
        // What it reports is of the node as it was before.
        let mut init = vec![Init::OnHost(Action::Show, self.preflight(agent))];
        init.extend(kernel.iter().map(|kernel| Init::Same(self.kernel_init(kernel))));
        init.extend(makes_vhost0.then(|| Init::OnHost(Action::Apply, self.vhost0_init(agent))));
        init.extend(cni.map(|chosen| Init::Same(self.cni_init(chosen))));
        init.push(Init::OnHost(Action::VirtualFunctions, self.functions_init(agent)));
        let host_options = self.host_options(kernel.is_some());
        let mut daemons: Vec<DaemonContainer> = manager.map(node_manager).into_iter().collect();
        let mut forward_options = Vec::new();
        if is_dpdk {
            daemons.push(self.forwarder()?);
            forward_options = [&host_options[..], &self::host_options(self.parameters)?].concat();
        }
        let mut daemon = self.agent(agent, cni.is_some(), kernel.is_some())?;
        // It sets the node up again where something changed the interface.
        daemon.mounts.extend(makes_vhost0.then(|| mount(HOST, HOST_DIR)));
        daemons.push(daemon);
        let mut volumes = self.volumes(cni.is_some(), kernel.is_some());
        volumes.extend(is_dpdk.then(|| existing(MODULES, "/lib/modules")));
        if manager.is_some() {
            let more = nodemanager::volumes().into_iter().filter(|more| volumes.iter().all(|v| v.name != more.name));
            volumes.extend(more.collect::<Vec<_>>());
        }
        volumes.push(existing(HOST, "/"));
        let cni_targets = if cni.is_some() { self.cni_targets() } else { Vec::new() };
        // One pod for all groups: of a resource whose forwarder is that of DPDK, another group may be of the kernel mode.
        let removal = self.removal(agent, self.spec().vhost0 == Some(Vhost0::Managed));
        let changes_node = is_dpdk || makes_vhost0 || cni.is_some() || self.parameters.is_set(Name::SriovVf);
        let grace_seconds = if is_dpdk { i64::from(dpdk::STOP_SECONDS) + 10 } else { GRACE_SECONDS };
        Ok(Pods {
            init,
            host_options,
            daemons,
            forward_options,
            makes_vhost0,
            grace_seconds,
            volumes,
            removal,
            changes_node,
            cni_targets,
            ignored,
        })
    }

    fn chosen(&self, name: &str) -> Option<&Chosen> {
        self.containers.iter().find(|container| container.name == name)
    }

    fn spec(&self) -> &VrouterConfiguration {
        &self.cr.spec.service_configuration
    }

    fn listed(&self, name: &str) -> Option<&Listed> {
        self.spec().containers.iter().find(|container| container.name.as_deref() == Some(name))
    }

    /// The installer of the kernel module. Ubuntu builds the module on the node and has an image of its own for that; naming
    /// either container asks for the installer, and the entry of the other one is not used.
    fn kernel(&self) -> (Option<Chosen>, Vec<String>) {
        let ubuntu = self.cr.spec.common_configuration.distribution.as_deref() == Some("ubuntu");
        let (wanted, other, whose) = if ubuntu {
            (KERNEL_BUILD_INIT, KERNEL_INIT, "nodes of other distributions than ubuntu")
        } else {
            (KERNEL_INIT, KERNEL_BUILD_INIT, "nodes of distribution ubuntu")
        };
        let ignored = self
            .listed(other)
            .map(|_| format!("spec.serviceConfiguration.containers[{other}]: it is for {whose}"))
            .into_iter()
            .collect();
        let fallback = || {
            let builtin = CONTAINERS.iter().find(|builtin| builtin.name == wanted)?;
            self.chosen(other)?;
            let image = images::reference(builtin.image, self.release, self.overrides);
            Some(Chosen { name: KERNEL_INIT, image, command: Vec::new() })
        };
        (self.chosen(wanted).cloned().or_else(fallback), ignored)
    }

    fn kernel_init(&self, chosen: &Chosen) -> Container {
        Container {
            name: KERNEL_INIT.into(),
            command: (!chosen.command.is_empty()).then(|| chosen.command.clone()),
            volume_mounts: Some(vec![
                mount(SOURCES, "/usr/src"),
                mount(MODULES, "/lib/modules"),
                mount(LOGS, config::LOG_DIR),
            ]),
            ..self.init(chosen, &Privileges::Host)
        }
    }

    /// Brings the plugin to the node. The directories for its ports and logs are made by mounting them.
    fn cni_init(&self, chosen: &Chosen) -> Container {
        const TARGET: &str = "/host/opt_cni_bin";
        let copy = node::place(&format!("/usr/bin/{}", cni::PLUGIN), &format!("{TARGET}/{}", cni::PLUGIN));
        Container {
            name: CNI_INIT.into(),
            command: Some(if chosen.command.is_empty() { copy } else { chosen.command.clone() }),
            volume_mounts: Some(vec![
                agent_mount(),
                mount(CNI_BIN, TARGET),
                mount(CNI_PORTS, cni::PORTS_DIR),
                mount(CNI_LOGS, cni::LOG_DIR),
            ]),
            // Root only because the node's directories are root's.
            ..self.init(chosen, &Privileges::Root(&[]))
        }
    }

    /// Reports what the node is, for `kubectl tf nodes`. It ends well whatever stands in the way: what cannot work ends by itself, with the cause.
    /// Privileged only because SELinux keeps others from files of the node, which are mounted as what changes the node has them: otherwise each directory would be
    /// one in which no file can be made.
    fn preflight(&self, agent: &Chosen) -> Container {
        Container {
            name: PREFLIGHT.into(),
            volume_mounts: Some(vec![agent_mount(), mount(HOST, HOST_DIR)]),
            ..self.init(agent, &Privileges::Host)
        }
    }

    /// Runs in the agent's image, which has the module's program `vif`. The node's files are where preflight looks for what owns the address, for the
    /// module and for CNI. What it prints last is the cause that the pod's status has.
    fn vhost0_init(&self, agent: &Chosen) -> Container {
        Container {
            name: VHOST0.into(),
            volume_mounts: Some(vec![agent_mount(), mount(HOST, HOST_DIR), mount(STATE, STATE_DIR)]),
            termination_message_policy: Some("FallbackToLogsOnError".into()),
            ..self.init(agent, &Privileges::Host)
        }
    }

    /// Makes virtual functions, last, as the images' own scripts do. It ends at once where they are there.
    fn functions_init(&self, agent: &Chosen) -> Container {
        Container { name: FUNCTIONS.into(), ..self.vhost0_init(agent) }
    }

    /// Like the container that makes `vhost0`. Where pods did not make it, it stays.
    fn removal(&self, agent: &Chosen, made_vhost0: bool) -> (Container, Vec<Volume>) {
        let mut options = self.directories();
        options.extend((!made_vhost0).then(|| "--keep-vhost0".to_owned()));
        let container =
            Container { name: REMOVAL.into(), command: Some(node::host_remove(&options)), ..self.vhost0_init(agent) };
        (container, vec![existing(HOST, "/"), host_path(STATE, STATE_DIR)])
    }

    /// Options of `tf-node host` that name directories of the node.
    fn directories(&self) -> Vec<String> {
        vec![
            format!("--root={HOST_DIR}"),
            format!("--cni-directory={}", self.cni_conf_dir()),
            format!("--cni-programs={}", self.cni_bin_dir()),
        ]
    }

    /// The same for nodes that stay. `installs`: whether pods bring the kernel module.
    fn host_options(&self, installs: bool) -> Vec<String> {
        let mut options = self.directories();
        options.push(format!("--module={}", if installs { "image" } else { "host" }));
        options.extend(self.spec().cni_mtu.map(|mtu| format!("--pod-mtu={mtu}")));
        options
    }

    fn init(&self, chosen: &Chosen, privileges: &Privileges) -> Container {
        Container {
            image: Some(chosen.image.clone()),
            image_pull_policy: Some("IfNotPresent".into()),
            env: Some(vec![EnvVar {
                name: "NODE_TYPE".into(),
                value: Some(NodeType::Vrouter.name().into()),
                ..EnvVar::default()
            }]),
            env_from: Some(vec![env_from(self.variables)]),
            security_context: Some(security_context(privileges)),
            ..Container::default()
        }
    }

    /// Privileged: it loads the module, makes `vhost0` out of the node's interface and talks to the module. What of the
    /// parameters stands here is a directory, a port and numbers, which are no secrets wherever they come from.
    /// Where modules are concerns a pod that installs one.
    fn agent(&self, chosen: &Chosen, cni: bool, module: bool) -> Result<DaemonContainer, NotReady> {
        let log_dir = config::agent::log_dir(self.parameters)?;
        let introspect = config::agent::introspect_port(self.parameters)?;
        let mut mounts = vec![mount(DEVICES, "/dev"), mount(RUN, "/var/run")];
        mounts.extend(module.then(|| read_only(MODULES, "/lib/modules")));
        mounts.extend([mount(STATE, STATE_DIR), mount(LOGS, log_dir)]);
        if cni {
            mounts.extend(self.cni_mounts());
        }
        Ok(DaemonContainer {
            ports: vec![
                ("introspect", introspect),
                ("port-api", ports::AGENT_PORT_API),
                (node::AGENT_PORT, self.agent_port),
            ],
            speaks_for_pod: true,
            env: vec![("NODE_TYPE".to_owned(), NodeType::Vrouter.name().to_owned())],
            mounts,
            privileges: Privileges::Host,
            resources: if self.parameters.is_dpdk() { None } else { huge_pages(self.parameters)? },
            ..DaemonContainer::new(AGENT, chosen.image.clone(), chosen.command.clone())
        })
    }

    /// Privileged: it gives hardware another driver. It needs no ready port: an agent is not Functional without it.
    fn forwarder(&self) -> Result<DaemonContainer, NotReady> {
        let image = || images::reference(dpdk::BUILTIN.image, self.release, self.overrides);
        let chosen = self.chosen(dpdk::FORWARDER);
        let mounts = vec![
            mount(DEVICES, "/dev"),
            mount(RUN, "/var/run"),
            read_only(MODULES, "/lib/modules"),
            mount(STATE, STATE_DIR),
            mount(LOGS, config::agent::log_dir(self.parameters)?),
            mount(HOST, HOST_DIR),
        ];
        // Its variables count from its start, which is that of its pod. Its arguments are those of another container of the pod, too.
        let variables = config::host::environment_file(&node::environment_file(dpdk::FORWARDER), self.parameters)?;
        let variables = hash::of_value(&json!(variables));
        Ok(DaemonContainer {
            env: vec![
                ("NODE_TYPE".to_owned(), NodeType::Vrouter.name().to_owned()),
                ("VARIABLES_HASH".to_owned(), variables),
            ],
            mounts,
            privileges: Privileges::Host,
            probed: false,
            resources: huge_pages(self.parameters)?,
            ..DaemonContainer::new(
                dpdk::FORWARDER,
                chosen.map_or_else(image, |chosen| chosen.image.clone()),
                chosen.map(|chosen| chosen.command.clone()).unwrap_or_default(),
            )
        })
    }

    /// Directory of the node with CNI configurations.
    fn cni_conf_dir(&self) -> String {
        let stated = self.spec().cni_conf_dir.clone();
        stated.unwrap_or_else(|| format!("{}/net.d", self.cluster.cni_config_dir))
    }

    /// Directory of the node with CNI plugins.
    fn cni_bin_dir(&self) -> &str {
        self.spec().cni_bin_dir.as_deref().unwrap_or(&self.cluster.cni_binary_dir)
    }

    fn cni_mounts(&self) -> Vec<VolumeMount> {
        let mut mounts = vec![read_only(CNI_CONFIG, node::CNI_DIR), mount(CNI_FILES, "/host/etc_cni")];
        if self.cluster.platform == Platform::OpenShift {
            mounts.push(mount(MULTUS, "/host/multus"));
        }
        mounts
    }

    /// On OpenShift multus waits for the configuration of the default network under a name of its own.
    fn cni_targets(&self) -> Vec<String> {
        let directory = self.cni_conf_dir();
        let (_, name) = split(&directory);
        let mut targets = vec![format!("/host/etc_cni/{name}/{}", cni::FILE)];
        if self.cluster.platform == Platform::OpenShift {
            targets.push("/host/multus/cni/net.d/80-openshift-network.conf".into());
        }
        targets
    }

    fn volumes(&self, cni: bool, module: bool) -> Vec<Volume> {
        let logs = storage::node_directory(config::LOG_DIR, "vrouter-agent", &["vrouter1"], self.identity);
        let mut volumes = vec![host_path(LOGS, &logs), existing(DEVICES, "/dev"), existing(RUN, "/var/run")];
        if module {
            volumes.extend([existing(MODULES, "/lib/modules"), host_path(SOURCES, "/usr/src")]);
        }
        volumes.push(host_path(STATE, STATE_DIR));
        if cni {
            volumes.extend([
                Volume {
                    name: CNI_CONFIG.into(),
                    config_map: Some(ConfigMapVolumeSource {
                        name: self.cni_map.to_owned(),
                        default_mode: Some(0o444),
                        ..ConfigMapVolumeSource::default()
                    }),
                    ..Volume::default()
                },
                host_path(CNI_FILES, split(&self.cni_conf_dir()).0),
                host_path(CNI_BIN, self.cni_bin_dir()),
                host_path(CNI_LOGS, cni::LOG_DIR),
                host_path(CNI_PORTS, cni::PORTS_DIR),
            ]);
            if self.cluster.platform == Platform::OpenShift {
                volumes.push(host_path(MULTUS, "/var/run/multus"));
            }
        }
        volumes
    }
}

/// Refuses what pods cannot make `vhost0` with: several interfaces without the network of the node's own address, and that without their names.
fn interfaces(parameters: &Parameters) -> Result<(), NotReady> {
    let interfaces = parameters.items(Name::PhysicalInterface);
    if !interfaces.iter().all(|name| is_interface(name)) {
        let hint =
            "use names of interfaces as ip link shows them, for example eth1; correct it, or remove vhost0: Managed";
        return Err(parameters.invalid(Name::PhysicalInterface, hint));
    }
    match (parameters.is_set(Name::L3mhCidr), interfaces.len()) {
        (false, 0 | 1) | (true, 2 | 3) => Ok(()),
        (false, _) => {
            let hint = "pods make vhost0 with one interface, or with up to three and l3mhCidr; correct it, or remove vhost0: Managed";
            Err(parameters.invalid(Name::PhysicalInterface, hint))
        }
        (true, _) => {
            let hint = "pods make vhost0 above two or three interfaces that physicalInterface names; add them, or remove vhost0: Managed";
            Err(parameters.invalid(Name::L3mhCidr, hint))
        }
    }
}

/// Options of `tf-node host` for the nodes of a group. Names and addresses are no secrets wherever they come from; options of the module are, and
/// are in the environment.
fn host_options(parameters: &Parameters) -> Result<Vec<String>, NotReady> {
    let interfaces = parameters.items(Name::PhysicalInterface);
    let mut options = if parameters.is_dpdk() { dpdk::options(parameters)? } else { Vec::new() };
    options
        .extend(interfaces.iter().filter(|name| is_interface(name)).map(|name| format!("--physical-interface={name}")));
    let gateway = parameters.addresses(Name::VrouterGateway)?.into_iter().next();
    options.extend(gateway.map(|gateway| format!("--gateway={gateway}")));
    options.extend(parameters.subnet(Name::DataSubnet)?.map(|subnet| format!("--data-subnet={subnet}")));
    let loopback = parameters.subnet(Name::L3mhCidr)?.filter(|_| !parameters.is_dpdk());
    options.extend(loopback.map(|subnet| format!("--loopback-subnet={subnet}")));
    for (name, option) in [(Name::HugePages2M, "2m"), (Name::HugePages1G, "1g")] {
        let pages = parameters.pages(name)?;
        options.extend((pages > 0).then(|| format!("--huge-pages-{option}={pages}")));
    }
    Ok(options)
}

/// Options of `tf-node host` that name virtual functions. Empty where there are to be none.
fn function_options(parameters: &Parameters) -> Result<Vec<String>, NotReady> {
    let functions = config::host::virtual_functions(parameters)?;
    let is_named = |(name, _): &&(String, u16)| is_interface(name);
    if let Some((name, _)) = functions.iter().find(|it| !is_named(it)) {
        let hint = format!("{name} is no name of an interface; use one as ip link shows it, for example ens2f0");
        return Err(parameters.invalid(Name::SriovPhysicalInterface, &hint));
    }
    Ok(functions.iter().map(|(name, count)| format!("--virtual-functions={name}={count}")).collect())
}

/// A path that begins with `/`, as the directory above and the name in it.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("/", path))
}

/// Whether text is a name that the kernel takes for an interface.
fn is_interface(name: &str) -> bool {
    name.len() <= LONGEST_INTERFACE && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte))
}

/// It reads the statistics of load balancers from below the agent's directory (docs/upstream/config.md#node-manager).
fn node_manager(chosen: &Chosen) -> DaemonContainer {
    let mut daemon = nodemanager::container(DaemonContainer::of(chosen), NodeType::Vrouter, LOGS);
    daemon.mounts.push(mount(STATE, STATE_DIR));
    daemon
}

/// A directory that every node has; a node without it is not one to change.
fn existing(name: &str, path: &str) -> Volume {
    Volume {
        name: name.into(),
        host_path: Some(HostPathVolumeSource { path: path.into(), type_: Some("Directory".into()) }),
        ..Volume::default()
    }
}

/// Huge pages of both sizes. Kubernetes wants their request to equal their limit, and a request of memory or CPU beside
/// them; the Go tf-operator asked for as much memory.
fn huge_pages(parameters: &Parameters) -> Result<Option<ResourceRequirements>, NotReady> {
    let small = u64::from(parameters.pages(Name::HugePages2M)?) * 2;
    let large = u64::from(parameters.pages(Name::HugePages1G)?) * 1024;
    let mut limits = BTreeMap::new();
    if small > 0 {
        limits.insert("hugepages-2Mi".to_owned(), mebibytes(small));
    }
    if large > 0 {
        limits.insert("hugepages-1Gi".to_owned(), mebibytes(large));
    }
    if limits.is_empty() {
        return Ok(None);
    }
    let mut requests = limits.clone();
    requests.insert("memory".to_owned(), mebibytes(small + large));
    Ok(Some(ResourceRequirements { limits: Some(limits), requests: Some(requests), ..ResourceRequirements::default() }))
}

/// As the API server writes it: with the largest unit that leaves a whole number.
fn mebibytes(mut count: u64) -> Quantity {
    let mut units = ["Mi", "Gi", "Ti", "Pi"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    while count.is_multiple_of(1024)
        && let Some(larger) = units.next()
    {
        count /= 1024;
        unit = larger;
    }
    Quantity(format!("{count}{unit}"))
}
