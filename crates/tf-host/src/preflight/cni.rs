//! CNI: whether the vRouter's configuration can be put on the node, and whether the runtime would take it.

use super::{Finding, Id};
use crate::{
    HostFacts, Wanted,
    cni::{PLUGIN, is_read_by_plugin},
    facts::cni::{Configuration, Directory},
    root::Access,
};

/// Plugins that call others, the vRouter's among them.
const META_PLUGINS: [&str; 2] = ["multus", "multus-shim"];
/// Where the plugin reads its own configuration, whatever the runtime gave it.
const PLUGIN_DIRECTORIES: [&str; 2] = ["/etc/cni/net.d", "/etc/kubernetes/cni/net.d"];

pub fn check(facts: &HostFacts, wanted: &Wanted) -> Vec<Finding> {
    let cni = &facts.cni;
    let mut findings = Vec::new();
    findings.extend(not_writable(facts, wanted));
    findings.extend(differs(facts, wanted));
    if let Some(directory) = cni.directory(&wanted.cni_directory) {
        findings.extend(other_first(directory, wanted));
        findings.extend(directory.configurations.iter().filter_map(|file| broken(directory, file)));
    }
    let read_by_plugin =
        cni.directories.iter().filter(|directory| PLUGIN_DIRECTORIES.contains(&directory.path.as_str()));
    findings.extend(read_by_plugin.flat_map(|directory| stale(directory, wanted)));
    findings
}

/// Only a read-only file system is certain: another user than root may write nowhere.
fn not_writable(facts: &HostFacts, wanted: &Wanted) -> Vec<Finding> {
    let configurations =
        facts.cni.directory(&wanted.cni_directory).map(|directory| (&directory.path, directory.access));
    let programs = facts.cni.programs.iter().find(|programs| programs.path == wanted.cni_programs);
    let programs = programs.map(|programs| (&programs.path, programs.access));
    let read_only = [configurations, programs].into_iter().flatten().filter(|(_, access)| *access == Access::ReadOnly);
    let finding = |(path, _): (&String, Access)| {
        let cause = format!("{path} is on a file system that is mounted read-only");
        Finding::new(
            Id::CniDirectoryNotWritable,
            cause,
            "set cniConfDir or cniBinDir to the directory that the container runtime uses on this system",
        )
    };
    read_only.map(finding).collect()
}

fn differs(facts: &HostFacts, wanted: &Wanted) -> Vec<Finding> {
    let mut findings = Vec::new();
    for runtime in &facts.cni.runtimes {
        let pairs = [
            ("configurations", "cniConfDir", &runtime.configurations, &wanted.cni_directory),
            ("programs", "cniBinDir", &runtime.programs, &wanted.cni_programs),
        ];
        for (what, field, found, wanted) in pairs {
            let Some(found) =
                found.as_deref().filter(|found| found.trim_end_matches('/') != wanted.trim_end_matches('/'))
            else {
                continue;
            };
            let cause = format!("{} has CNI {what} in {found}, and the vRouter's go to {wanted}", runtime.file);
            findings.push(Finding::new(Id::CniDirectoryDiffers, cause, format!("set {field} to {found}")));
        }
    }
    findings
}

fn other_first(directory: &Directory, wanted: &Wanted) -> Option<Finding> {
    let is_other = |types: &[String]| !types.iter().any(|kind| kind == PLUGIN || META_PLUGINS.contains(&kind.as_str()));
    let first = directory.configurations.iter().find(|file| file.error.is_none())?;
    if first.file >= wanted.cni_file || !is_other(&first.types) {
        return None;
    }
    let cause = format!(
        "{}/{} ({}) comes before {}, so the container runtime keeps using it",
        directory.path,
        first.file,
        first.types.join(", "),
        wanted.cni_file
    );
    let action = "remove that network once the vRouter serves; its pods have to be deleted, so that they get addresses of the overlay";
    Some(Finding::new(Id::CniOtherNetworkFirst, cause, action))
}

fn broken(directory: &Directory, file: &Configuration) -> Option<Finding> {
    let error = file.error.as_ref()?;
    let cause =
        format!("{}/{} is no CNI configuration ({error}), and containerd loads none then", directory.path, file.file);
    Some(Finding::new(Id::CniConfigurationBroken, cause, "correct or remove it"))
}

/// The plugin takes the first of these files, and what the runtime gives it field by field on top.
fn stale(directory: &Directory, wanted: &Wanted) -> Vec<Finding> {
    let is_before = |file: &&Configuration| is_read_by_plugin(&file.file) && file.file < wanted.cni_file;
    let others = directory.configurations.iter().filter(is_before);
    let finding = |file: &Configuration| {
        let cause = format!(
            "{}/{} is of an earlier installation, and the plugin takes it before {}",
            directory.path, file.file, wanted.cni_file
        );
        Finding::new(
            Id::CniConfigurationStale,
            cause,
            "no action is needed: the vRouter sets it aside when it puts its own there",
        )
    };
    others.map(finding).collect()
}
