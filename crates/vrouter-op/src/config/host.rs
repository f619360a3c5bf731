//! What the node agent needs to prepare a node: parameters of `vhost0` and kernel settings.

use std::collections::BTreeMap;

use tf_agent_api::node;
use tf_config_files::{EnvFile, Settings as _, Sysctl};
use tf_plan::{cluster::Cluster, not_ready::NotReady};

use crate::{
    parameters::{DPDK, Name, Parameters},
    services::Services,
};

/// Kernel settings of every node with daemons (docs/upstream/vrouter.md#kernel-settings). The pattern of core files is the node's own business.
const SYSCTLS: [(&str, &str); 5] = [
    ("net.ipv4.tcp_keepalive_time", "5"),
    ("net.ipv4.tcp_keepalive_probes", "5"),
    ("net.ipv4.tcp_keepalive_intvl", "1"),
    ("vm.max_map_count", "128960"),
    ("net.core.wmem_max", "9160000"),
];
/// Parameters that are handed on as they are.
const HANDED_ON: [Name; 6] = [
    Name::CloudOrchestrator,
    Name::HugePages1G,
    Name::HugePages2M,
    Name::PhysicalInterface,
    Name::PriorityId,
    Name::QosQueueId,
];

/// `params.env`: what decides over `vhost0`, virtual functions, queues and the values of placeholders. Variables of the
/// spec stand in it whether they mean something to this operator or not, options of the kernel module among them.
///
/// # Errors
/// When a value means nothing, or cannot be expressed in the file.
pub fn parameters_file(parameters: &Parameters, services: &Services, cluster: &Cluster) -> Result<String, NotReady> {
    let mut variables = variables(parameters, services, cluster)?;
    let mut set = |name: Name, value: Option<String>| {
        if let Some(value) = value {
            variables.entry(name.as_ref().to_owned()).or_insert(value);
        }
    };
    set(Name::AgentMode, Some(if parameters.is_dpdk() { DPDK } else { "kernel" }.into()));
    for name in HANDED_ON {
        set(name, parameters.get(name).map(str::to_owned));
    }
    set(Name::DataSubnet, parameters.subnet(Name::DataSubnet)?.map(|subnet| subnet.to_string()));
    set(Name::L3mhCidr, parameters.subnet(Name::L3mhCidr)?.map(|subnet| subnet.to_string()));
    let gateways = parameters.addresses(Name::VrouterGateway)?;
    set(Name::VrouterGateway, (!gateways.is_empty()).then(|| joined(&gateways)));
    let functions = virtual_functions(parameters)?;
    if !functions.is_empty() {
        let (interfaces, numbers): (Vec<_>, Vec<_>) = functions.into_iter().unzip();
        set(Name::SriovPhysicalInterface, Some(joined(&interfaces)));
        set(Name::SriovVf, Some(joined(&numbers)));
    }
    let mut file = EnvFile::new(node::PARAMETERS_FILE);
    for (name, value) in &variables {
        file.set(name, value);
    }
    Ok(file.render()?)
}

/// The variables of the spec, with control nodes and networks of pods where it has none: by these the interface is found, and checked.
///
/// # Errors
/// When a network is none.
pub fn variables(
    parameters: &Parameters,
    services: &Services,
    cluster: &Cluster,
) -> Result<BTreeMap<String, String>, NotReady> {
    let mut variables = parameters.variables().clone();
    let pods = match parameters.subnets(Name::KubernetesPodSubnets)? {
        stated if !stated.is_empty() => stated,
        _ => cluster.pod_subnets.clone(),
    };
    for (name, value) in [
        (Name::ControlNodes, services.control_hosts(parameters).join(",")),
        (Name::KubernetesPodSubnets, joined(&pods)),
    ] {
        variables.entry(name.as_ref().to_owned()).or_insert(value);
    }
    Ok(variables)
}

/// Interfaces with the numbers of their virtual functions. None where either is not stated.
///
/// # Errors
/// When there is not one number for each interface.
pub fn virtual_functions(parameters: &Parameters) -> Result<Vec<(String, u16)>, NotReady> {
    if !parameters.is_set(Name::SriovPhysicalInterface) || !parameters.is_set(Name::SriovVf) {
        return Ok(Vec::new());
    }
    let interfaces = parameters.items(Name::SriovPhysicalInterface);
    let numbers: Result<Vec<u16>, _> = parameters.items(Name::SriovVf).iter().map(|count| count.parse()).collect();
    match numbers {
        Ok(numbers) if numbers.len() == interfaces.len() => Ok(interfaces.iter().cloned().zip(numbers).collect()),
        _ => Err(parameters.invalid(Name::SriovVf, "use one number for each interface of sriovPhysicalInterface")),
    }
}

/// `sysctl.conf`.
///
/// # Errors
/// When the settings of the spec are no settings.
pub fn sysctl_file(parameters: &Parameters) -> Result<String, NotReady> {
    let mut file = Sysctl::new(node::SYSCTL_FILE);
    let settings = parameters.items(Name::ContrailSysctlTuning);
    // To the image an empty variable means that nothing is to be set.
    if settings.is_empty() && !parameters.is_blanked(Name::ContrailSysctlTuning) {
        for (name, value) in SYSCTLS {
            file.set(name, value);
        }
    }
    for setting in &settings {
        let (name, value) = setting.split_once('=').ok_or_else(|| {
            parameters.invalid(Name::ContrailSysctlTuning, "use name=value pairs separated by blanks or commas")
        })?;
        file.set(name, value);
    }
    Ok(file.render()?)
}

/// The variables of the spec, for the environment of a daemon. None if there are none.
///
/// # Errors
/// When a name is no name of a variable.
pub fn environment_file(file: &str, parameters: &Parameters) -> Result<Option<String>, NotReady> {
    let variables = parameters.variables();
    if variables.is_empty() {
        return Ok(None);
    }
    let mut file = EnvFile::new(file);
    for (name, value) in variables {
        file.set(name, value);
    }
    Ok(Some(file.render()?))
}

fn joined(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
