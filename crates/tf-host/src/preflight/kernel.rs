//! The kernel, its arguments, and the vRouter's module.

use super::{Finding, Id};
use crate::{
    HostFacts, Mode, Wanted,
    facts::{kernel::Kernel, memory::GIB_1, module::Content},
    root::Access,
    wanted::ModuleSource,
};

/// Parameters that name a CPU. Loading fails if it is not there.
const CPU_PARAMETERS: [&str; 3] = ["vr_perfq1", "vr_perfq2", "vr_perfq3"];

pub fn check(facts: &HostFacts, wanted: &Wanted) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(arguments(facts, wanted));
    // Without it nothing is known of the kernel, and nothing concluded.
    if wanted.mode == Mode::Kernel && !facts.kernel.release.is_empty() {
        findings.extend(presence(facts, wanted));
        findings.extend(read_only(facts, wanted));
        findings.extend(file(facts, wanted));
        findings.extend(loaded(facts, wanted));
        findings.extend(missing_cpus(facts, wanted));
        findings.extend(next_kernel(facts, wanted));
    }
    findings
}

/// Whether there is a module, or can be.
fn presence(facts: &HostFacts, wanted: &Wanted) -> Option<Finding> {
    let kernel = &facts.kernel;
    if facts.module.loaded.is_some() {
        return None;
    }
    let release = &kernel.release;
    if !kernel.loads_modules {
        let cause = format!("this kernel ({release}) loads no modules, so it cannot have vrouter.ko");
        return Some(Finding::new(Id::KernelWithoutModules, cause, "run a kernel with CONFIG_MODULES, or use DPDK"));
    }
    match wanted.module {
        ModuleSource::Host if facts.module.files.is_empty() => {
            let cause = format!("vrouter.ko is not in /lib/modules/{release}");
            let action = "install it for this kernel (a package, DKMS), or let the vRouter's image compile it";
            Some(Finding::new(Id::ModuleMissing, cause, action))
        }
        ModuleSource::Image if facts.module.files.is_empty() && !kernel.has_headers => {
            let cause = format!("kernel headers of {release} are missing in /lib/modules/{release}/build");
            Some(Finding::new(Id::KernelHeadersMissing, cause, "install kernel-devel or linux-headers of this kernel"))
        }
        _ => None,
    }
}

/// The image puts its module there before each start of the agent.
fn read_only(facts: &HostFacts, wanted: &Wanted) -> Option<Finding> {
    let is_read_only = wanted.module == ModuleSource::Image && facts.module.access == Some(Access::ReadOnly);
    let cause = "/lib/modules is on a file system that is mounted read-only, so vrouter.ko cannot be put there";
    let action =
        "have the module in the image of the operating system, and leave the kernel's init container out of containers";
    is_read_only.then(|| Finding::new(Id::ModulesReadOnly, cause, action))
}

/// Whether the kernel takes the file that `modprobe` would load.
fn file(facts: &HostFacts, wanted: &Wanted) -> Vec<Finding> {
    let (kernel, module) = (&facts.kernel, &facts.module);
    if module.loaded.is_some() {
        return Vec::new();
    }
    // The image puts its own there, whatever there is.
    let is_replaced = |path: &str| wanted.module == ModuleSource::Image && path.contains("/kernel/net/vrouter/");
    let Some(file) = module.files.first().filter(|file| !is_replaced(&file.path)) else {
        let is_compiled = wanted.module == ModuleSource::Image && kernel.loads_modules && kernel.refuses_unsigned();
        return is_compiled
            .then(|| not_signed(kernel, "vrouter.ko is compiled on the node without a signature"))
            .into_iter()
            .collect();
    };
    let mut findings = Vec::new();
    if let Some(content) = &file.content {
        if let Some(found) = other_kernel(kernel, content) {
            let cause = format!("{} is for the kernel {found}, and {} runs", file.path, kernel.release);
            let action = "install it for the kernel that runs, or remove the file if the vRouter's image compiles it";
            findings.push(Finding::new(Id::ModuleForOtherKernel, cause, action));
        }
        if kernel.refuses_unsigned() && !content.signed {
            findings.push(not_signed(kernel, &format!("{} has no signature", file.path)));
        }
    }
    if !module.indexed {
        let cause = format!("{} is not in modules.dep, so modprobe does not find it", file.path);
        findings.push(Finding::new(Id::ModuleNotIndexed, cause, format!("run depmod -a {}", kernel.release)));
    }
    findings
}

fn not_signed(kernel: &Kernel, what: &str) -> Finding {
    let why =
        if kernel.secure_boot == Some(true) { "secure boot is on" } else { "the kernel takes signed modules only" };
    let action = "sign the module with a key that is enrolled on this machine (mokutil) and install it, or switch secure boot off";
    Finding::new(Id::ModuleNotSigned, format!("{why} and {what}"), action)
}

/// The kernel that a module's file is for, if that is another one.
fn other_kernel(kernel: &Kernel, content: &Content) -> Option<String> {
    let release = content.kernel()?;
    (release != kernel.release).then(|| release.to_owned())
}

/// What of the loaded module is not as it would be if it were loaded now.
pub fn loaded(facts: &HostFacts, wanted: &Wanted) -> Vec<Finding> {
    let Some(loaded) = &facts.module.loaded else { return Vec::new() };
    let reload = "drain the node, and unload the module or reboot";
    let mut findings = Vec::new();
    let versions = loaded.version.as_ref().zip(wanted.module_version.as_ref());
    if let Some((found, wanted)) = versions.filter(|(found, wanted)| found != wanted) {
        let cause = format!("the loaded vrouter module is {found}, and {wanted} is wanted");
        findings.push(Finding::new(Id::ModuleVersionDiffers, cause, reload));
    }
    if let Some(file) = facts.module.replacement() {
        let content = file.content.clone().unwrap_or_default();
        let found = said(loaded.version.as_ref(), loaded.source_version.as_ref());
        let cause = format!(
            "the loaded vrouter module is {found}, and {} is {}",
            file.path,
            said(content.version.as_ref(), content.source_version.as_ref())
        );
        findings.push(Finding::new(Id::ModuleVersionDiffers, cause, reload));
    }
    let differs = |(name, wanted): (&String, &String)| {
        let found = loaded.parameters.get(name)?;
        (found != wanted).then(|| format!("{name} is {found} and not {wanted}"))
    };
    let different: Vec<String> = wanted.module_parameters.iter().filter_map(differs).collect();
    if !different.is_empty() {
        let cause = format!("parameters of the vrouter module are set when it is loaded: {}", different.join(", "));
        findings.push(Finding::new(Id::ModuleParametersDiffer, cause, reload));
    }
    findings
}

/// A module in words: releases may have the same version and other sources.
fn said(version: Option<&String>, sources: Option<&String>) -> String {
    let sources = sources.map(|sources| format!("srcversion {sources}"));
    [version.cloned(), sources].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn missing_cpus(facts: &HostFacts, wanted: &Wanted) -> Option<Finding> {
    let missing = |name: &&str| {
        let cpu: u32 = wanted.module_parameters.get(*name)?.parse().ok()?;
        (cpu != 0 && !facts.cpus.online.is_empty() && !facts.cpus.online.contains(cpu)).then(|| format!("{name}={cpu}"))
    };
    let missing: Vec<String> = CPU_PARAMETERS.iter().filter_map(missing).collect();
    let cause = format!(
        "{} names a CPU that is not there (the node has {}), and the vrouter module is not loaded with it",
        missing.join(" "),
        facts.cpus.online
    );
    let finding = || Finding::new(Id::ModuleParameterCpuMissing, cause, "set a CPU that is online, or none");
    (!missing.is_empty()).then(finding)
}

/// The module is compiled for the kernel that runs. After the next boot another one does.
fn next_kernel(facts: &HostFacts, wanted: &Wanted) -> Option<Finding> {
    let kernel = &facts.kernel;
    let next =
        kernel.installed.iter().filter(|found| is_newer(found, &kernel.release)).max_by_key(|found| numbers(found))?;
    if wanted.module == ModuleSource::Image || facts.module.kernels.contains(next) {
        return None;
    }
    let cause = format!("the newer kernel {next} is installed, and vrouter.ko is not in /lib/modules/{next}");
    Some(Finding::new(Id::NextKernelWithoutModule, cause, "install it for that kernel before the next reboot"))
}

fn is_newer(release: &str, than: &str) -> bool {
    numbers(release) > numbers(than)
}

/// Numbers of a release in their order: 5.14.0-503.el9 is 5, 14, 0, 503, 9.
fn numbers(release: &str) -> Vec<u64> {
    release.split(|letter: char| !letter.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

fn arguments(facts: &HostFacts, wanted: &Wanted) -> Option<Finding> {
    let kernel = &facts.kernel;
    let mut missing: Vec<String> = Vec::new();
    if wanted.mode == Mode::Dpdk && wanted.dpdk.driver == "vfio-pci" && !facts.passthrough.iommu {
        let intel = ["intel_iommu=on", "iommu=pt"].into_iter().filter(|argument| !kernel.has_argument(argument));
        missing.extend(intel.map(str::to_owned));
    }
    // Pages of this size are rarely free in one piece once a machine runs.
    let pages = wanted.huge_pages.get(&GIB_1).copied().unwrap_or_default();
    let there = facts.memory.huge_pages.get(&GIB_1).map_or(0, |pages| pages.total);
    if pages > there {
        missing.push("hugepagesz=1G".into());
        missing.push(format!("hugepages={pages}"));
    }
    let cause = format!("arguments of the kernel are missing: {}", missing.join(" "));
    let action =
        "add them to the boot loader's configuration and reboot (OpenShift: a MachineConfig with kernelArguments)";
    (!missing.is_empty()).then(|| Finding::new(Id::KernelArgumentsMissing, cause, action))
}
