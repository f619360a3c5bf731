//! What VrouterProfiles give the nodes of a group: parameters, of which those of a later profile win.
//!
//! In a profile the fields of `dpdk` and `sriov` come first, then `moreConfig` of `dpdk` or `kernelMode`, of `sriov` and of `other`, each of which wins over
//! the former. A profile's `dpdk` or `kernelMode` says what forwards packets on the group's nodes.
//! A profile is of fewer nodes than the Vrouter's spec, so it wins over `serviceConfiguration` and `envVariablesConfig`; the group's own fields win over
//! it, unless the group says `override`.

use std::collections::BTreeMap;

use strum::VariantArray as _;
use tf_api::{
    Managed, SriovProfile, VirtualFunctionMapping, Vrouter, VrouterProfileSpec, contract::Reason, fields::nearest,
    kinds::VROUTER_PROFILE, schema::Sensitive,
};
use tf_plan::{
    not_ready::NotReady,
    observed::{Observed, Specs},
};

use crate::{
    groups::Group,
    parameters::{DPDK, Name, Parameters, RESERVED, Setting, is_option},
};

/// Variables that programs of the images know and this operator does not.
const OF_IMAGES: [&str; 3] = ["DPDK_COMMAND_ADDITIONAL_ARGS", "KERNEL_INIT_VHOST0", "VROUTER_MODULE_OPTIONS"];
/// Parameters that are the same for all nodes of a Vrouter: how agents are reached, and where they are registered.
const OF_RESOURCE: [Name; 6] = [
    Name::AuthMode,
    Name::ConfigApiPort,
    Name::ConfigApiServerCaCertfile,
    Name::ConfigApiSslEnable,
    Name::ConfigNodes,
    Name::VrouterAgentIntrospectPort,
];
/// The variable by which an agent has another name than its node.
const HOSTNAME: &str = "VROUTER_HOSTNAME";

/// A profile with its name.
struct Profile<'a> {
    name: &'a str,
    spec: VrouterProfileSpec,
}

/// The parameters of a group: those of the resource with those of the group's profiles.
///
/// # Errors
/// When a profile does not exist or cannot be read, or asks for what cannot be.
pub fn apply(
    parameters: &Parameters,
    cr: &Vrouter,
    group: &Group<'_>,
    observed: &Observed<Vrouter>,
) -> Result<Parameters, NotReady> {
    if group.profiles.is_empty() {
        return Ok(parameters.clone());
    }
    let none = Specs::new();
    let specs = match observed.specs.get(VROUTER_PROFILE.kind) {
        Some(specs) => specs.known().map_err(NotReady::from)?,
        None => &none,
    };
    let profiles =
        group.profiles.iter().map(|name| read(name, cr, group, specs)).collect::<Result<Vec<Profile<'_>>, _>>()?;
    one_mode(&profiles, group)?;
    parameters.clone().with_settings(settings(&profiles)?)
}

fn read<'a>(name: &'a str, cr: &Vrouter, group: &Group<'_>, specs: &Specs) -> Result<Profile<'a>, NotReady> {
    let (kind, home, path) = (VROUTER_PROFILE.kind, cr.home(), path(group));
    let spec = specs.get(name).ok_or_else(|| {
        let message = format!(
            "{kind} {home}/{name} does not exist, and {path} names it; create it, or take the name out. Until then nothing changes"
        );
        NotReady::input(Reason::DependencyNotFound, message)
    })?;
    // Of the error only the place is shown: values may be secrets.
    let spec = spec.read().map_err(|_| {
        let message =
            format!("{kind} {home}/{name}, which {path} names, is not of this release's schema; apply it again");
        NotReady::invalid(Reason::InvalidSpec, message)
    })?;
    Ok(Profile { name, spec })
}

fn path(group: &Group<'_>) -> String {
    format!("spec.groups[{}].profiles", group.name.unwrap_or_default())
}

/// Refuses two modes in one group.
fn one_mode(profiles: &[Profile<'_>], group: &Group<'_>) -> Result<(), NotReady> {
    let dpdk = profiles.iter().find(|profile| profile.spec.dpdk.is_some());
    let kernel = profiles.iter().find(|profile| profile.spec.kernel_mode.is_some());
    let (Some(dpdk), Some(kernel)) = (dpdk, kernel) else { return Ok(()) };
    let (path, dpdk, kernel) = (path(group), dpdk.name, kernel.name);
    let message = if dpdk == kernel {
        format!("VrouterProfile {dpdk} has dpdk and kernelMode; a node forwards in one of both, so make two profiles")
    } else {
        format!(
            "{path}: {dpdk} is for DPDK and {kernel} for the kernel; a node forwards in one of both, so take one out"
        )
    };
    Err(NotReady::invalid(Reason::InvalidSpec, message))
}

/// What the fields of `dpdk` and `kernelMode` say.
fn of_mode(profile: &Profile<'_>) -> Result<Vec<Setting>, NotReady> {
    let Profile { name, spec: VrouterProfileSpec { dpdk, kernel_mode, .. } } = profile;
    let setting = |parameter: Name, field: &str, value: String| Setting {
        variable: parameter.as_ref().to_owned(),
        value,
        path: format!("VrouterProfile {name}: {field}"),
        is_variable: false,
    };
    let Some(dpdk) = dpdk else {
        return Ok(kernel_mode.iter().map(|_| setting(Name::AgentMode, "kernelMode", "kernel".into())).collect());
    };
    let pages = |pages: Option<u32>| pages.map(|pages| pages.to_string());
    let stated = [
        (Name::CpuCoreMask, "dpdk.coreMask", dpdk.core_mask.clone()),
        (Name::ServiceCoreMask, "dpdk.cpuPinning", dpdk.cpu_pinning.clone()),
        (Name::HugePages2M, "dpdk.hugePages2M", pages(dpdk.hugepages_2m)),
        (Name::HugePages1G, "dpdk.hugePages1G", pages(dpdk.hugepages_1g)),
    ];
    let mut settings = vec![setting(Name::AgentMode, "dpdk", DPDK.to_owned())];
    for (parameter, field, value) in stated.into_iter().filter_map(|(name, field, value)| Some((name, field, value?))) {
        if dpdk.more_config.contains_key(parameter.as_ref()) {
            let message = format!(
                "VrouterProfile {name}: dpdk.moreConfig[{}] and {field} state the same; state one of both",
                parameter.as_ref()
            );
            return Err(NotReady::invalid(Reason::InvalidSpec, message));
        }
        settings.push(setting(parameter, field, value));
    }
    Ok(settings)
}

/// Parameters of profiles, those of a later one instead of those of an earlier one.
fn settings(profiles: &[Profile<'_>]) -> Result<Vec<Setting>, NotReady> {
    let mut merged: BTreeMap<String, Setting> = BTreeMap::new();
    let mut mappings: BTreeMap<String, (VirtualFunctionMapping, &str)> = BTreeMap::new();
    for profile in profiles {
        let Profile { name, spec: VrouterProfileSpec { dpdk, kernel_mode, sriov, other } } = profile;
        for setting in of_mode(profile)? {
            merged.insert(setting.variable.clone(), setting);
        }
        let more = [
            ("dpdk", dpdk.as_ref().map(|it| &it.more_config)),
            ("kernelMode", kernel_mode.as_ref().map(|it| &it.more_config)),
            ("sriov", sriov.as_ref().map(|it| &it.more_config)),
            ("other", other.as_ref().map(|it| &it.more_config)),
        ];
        for (block, variables) in more {
            for (variable, value) in variables.into_iter().flatten() {
                let path = format!("VrouterProfile {name}: {block}.moreConfig[{variable}]");
                known(variable, &path)?;
                let has_mappings = sriov.as_ref().is_some_and(|sriov| !sriov.virtual_function_mappings.is_empty());
                if has_mappings && is_of_mappings(variable) {
                    let message = format!("{path} and sriov.virtualFunctionMappings state the same; state one of both");
                    return Err(NotReady::invalid(Reason::InvalidSpec, message));
                }
                merged.insert(variable.clone(), more_setting(variable, value, path));
            }
        }
        for mapping in sriov.iter().flat_map(mappings_of) {
            mappings.insert(mapping.physical_interface.clone(), (mapping, name));
        }
    }
    for setting in of_mappings(&mappings)? {
        merged.insert(setting.variable.clone(), setting);
    }
    Ok(merged.into_values().collect())
}

fn more_setting(variable: &str, value: &Sensitive, path: String) -> Setting {
    Setting { variable: variable.to_owned(), value: value.expose().to_owned(), path, is_variable: true }
}

/// Whether `moreConfig` may have a variable.
fn known(variable: &str, path: &str) -> Result<(), NotReady> {
    let refused = |why: String| Err(NotReady::invalid(Reason::InvalidSpec, format!("{path} {why}")));
    let name = variable.parse::<Name>().ok();
    if name == Some(Name::AgentMode) {
        return refused("states what the fields dpdk and kernelMode are for; use these".into());
    }
    let is_of_resource = name.is_some_and(|name| OF_RESOURCE.contains(&name) || name.as_ref().starts_with("KEYSTONE_"));
    if is_of_resource || RESERVED.contains(&variable) || variable == HOSTNAME {
        return refused("is the same for all nodes of a Vrouter; state it in the Vrouter's spec".into());
    }
    if name.is_some() || is_option(variable) || OF_IMAGES.contains(&variable) {
        return Ok(());
    }
    let all = Name::VARIANTS.iter().map(AsRef::as_ref).chain(OF_IMAGES);
    let near = nearest(variable, all).map(|near| format!("{near}, or ")).unwrap_or_default();
    refused(format!(
        "is no parameter of the vRouter; write {near}VROUTER_AGENT__SECTION__OPTION for an option of the agent's file"
    ))
}

fn is_of_mappings(variable: &str) -> bool {
    let names = [Name::SriovPhysicalInterface, Name::SriovPhysicalNetwork, Name::SriovVf];
    variable.parse().is_ok_and(|name: Name| names.contains(&name))
}

/// Mappings of a profile, with the number of virtual functions that it states for all.
fn mappings_of(sriov: &SriovProfile) -> Vec<VirtualFunctionMapping> {
    let number = sriov.number_of_vfs;
    let mappings = sriov.virtual_function_mappings.iter().cloned();
    mappings.map(|it| VirtualFunctionMapping { number_of_vfs: it.number_of_vfs.or(number), ..it }).collect()
}

/// Mappings as lists, an item for each interface (docs/upstream/vrouter.md#sr-iov).
fn of_mappings(mappings: &BTreeMap<String, (VirtualFunctionMapping, &str)>) -> Result<Vec<Setting>, NotReady> {
    let counts: Vec<Option<u32>> = mappings.values().map(|(mapping, _)| mapping.number_of_vfs).collect();
    let has_counts = counts.iter().any(Option::is_some);
    let without = mappings.values().find(|(mapping, _)| mapping.number_of_vfs.is_none());
    if let Some((mapping, profile)) = without.filter(|_| has_counts) {
        let message = format!(
            "VrouterProfile {profile}: sriov.virtualFunctionMappings[{}] has no numberOfVfs and other interfaces of the group do; state it for all",
            mapping.physical_interface
        );
        return Err(NotReady::invalid(Reason::InvalidSpec, message));
    }
    let mut names: Vec<&str> = mappings.values().map(|(_, profile)| *profile).collect();
    names.dedup();
    let path = format!("VrouterProfile {}: sriov.virtualFunctionMappings", names.join(", "));
    let list = |name: Name, item: &dyn Fn(&VirtualFunctionMapping) -> String| Setting {
        variable: name.as_ref().to_owned(),
        value: mappings.values().map(|(mapping, _)| item(mapping)).collect::<Vec<_>>().join(","),
        path: path.clone(),
        is_variable: false,
    };
    let mut lists = Vec::new();
    if !mappings.is_empty() {
        lists.push(list(Name::SriovPhysicalInterface, &|mapping| mapping.physical_interface.clone()));
        lists.push(list(Name::SriovPhysicalNetwork, &|mapping| mapping.physical_network.clone()));
    }
    if has_counts {
        lists.push(list(Name::SriovVf, &|mapping| mapping.number_of_vfs.unwrap_or_default().to_string()));
    }
    Ok(lists)
}
