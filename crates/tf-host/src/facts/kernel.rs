//! The kernel that runs, and what it lets in: modules, signatures, secure boot, lockdown.

use serde::{Deserialize, Serialize};

use crate::root::Reader;

/// Where the distributions keep modules, a directory for each kernel.
pub const MODULES: &str = "/lib/modules";
/// A node has it wherever its `/proc` is mounted.
const RELEASE: &str = "/proc/sys/kernel/osrelease";
/// The variable that says whether the firmware checks signatures (UEFI, global variable GUID).
const SECURE_BOOT: &str = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";

/// The kernel that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Kernel {
    /// As `uname -r` says. Empty if it could not be read: then the node's files are not where they were looked for.
    pub release: String,
    /// As `uname -m` says, where this kernel has it in a file, else that of this program.
    pub architecture: String,
    /// Arguments of the kernel.
    pub command_line: Vec<String>,
    /// Whether modules can be loaded at all (`CONFIG_MODULES`).
    pub loads_modules: bool,
    /// Whether only modules with a valid signature are taken.
    pub enforces_signatures: bool,
    /// Whether the firmware checks signatures. None without UEFI, or where the variable is not readable.
    pub secure_boot: Option<bool>,
    /// What root may not do.
    pub lockdown: Lockdown,
    /// Whether there are headers to compile a module for this kernel.
    pub has_headers: bool,
    /// Kernels that have a directory of modules, sorted.
    pub installed: Vec<String>,
    /// Changes with each boot.
    pub boot_id: String,
}

/// What root may not do (`/sys/kernel/security/lockdown`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::Display, strum::EnumString)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Lockdown {
    /// This kernel has no lockdown, or it is off.
    #[default]
    None,
    /// Nothing that changes the running kernel.
    Integrity,
    /// Nor anything that reads its memory.
    Confidentiality,
}

impl Kernel {
    pub(super) fn read(reader: &Reader<'_>) -> Self {
        let release = reader.value(RELEASE).unwrap_or_else(|| {
            reader.missed(RELEASE, "is not there");
            String::new()
        });
        Self {
            architecture: reader.value("/proc/sys/kernel/arch").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            command_line: words(reader.value("/proc/cmdline")),
            loads_modules: reader.exists("/proc/modules"),
            enforces_signatures: reader.value("/sys/module/module/parameters/sig_enforce").as_deref() == Some("Y"),
            secure_boot: secure_boot(reader),
            lockdown: lockdown(reader.value("/sys/kernel/security/lockdown")),
            has_headers: !release.is_empty() && reader.exists(&format!("{MODULES}/{release}/build/Makefile")),
            installed: installed(reader),
            boot_id: boot_id(reader),
            release,
        }
    }

    /// Whether an argument of the kernel is there: `iommu=pt`.
    pub fn has_argument(&self, argument: &str) -> bool {
        self.command_line.iter().any(|word| word == argument)
    }

    /// Whether modules without a signature are refused.
    pub fn refuses_unsigned(&self) -> bool {
        self.enforces_signatures || self.lockdown != Lockdown::None
    }
}

/// Names this boot.
pub(super) fn boot_id(reader: &Reader<'_>) -> String {
    reader.value("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

fn words(text: Option<String>) -> Vec<String> {
    text.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// Four bytes of attributes come before the value.
fn secure_boot(reader: &Reader<'_>) -> Option<bool> {
    Some(*reader.bytes(SECURE_BOOT)?.get(4)? == 1)
}

/// `none [integrity] confidentiality`: the one in brackets counts.
fn lockdown(text: Option<String>) -> Lockdown {
    let text = text.unwrap_or_default();
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.and_then(|(name, _)| name.parse().ok()).unwrap_or_default()
}

fn installed(reader: &Reader<'_>) -> Vec<String> {
    let is_kernel = |name: &String| reader.exists(&format!("{MODULES}/{name}/modules.dep"));
    reader.names(MODULES).into_iter().filter(is_kernel).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tree;

    #[test]
    fn a_kernel_is_read_with_what_it_lets_in() {
        let kernel = tree::read(
            &[
                ("/proc/sys/kernel/osrelease", "5.14.0-503.el9.x86_64\n"),
                ("/proc/sys/kernel/arch", "x86_64\n"),
                ("/proc/sys/kernel/random/boot_id", "c0ffee\n"),
                ("/proc/cmdline", "root=/dev/vda1 intel_iommu=on iommu=pt\n"),
                ("/proc/modules", ""),
                ("/sys/module/module/parameters/sig_enforce", "Y\n"),
                (SECURE_BOOT, "\u{6}\0\0\0\u{1}"),
                ("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n"),
                ("/lib/modules/5.14.0-503.el9.x86_64/modules.dep", ""),
                ("/lib/modules/5.14.0-503.el9.x86_64/build", "->/usr/src/kernels/5.14.0-503.el9.x86_64"),
                ("/usr/src/kernels/5.14.0-503.el9.x86_64/Makefile", ""),
                ("/lib/modules/5.14.0-570.el9.x86_64/modules.dep", ""),
                ("/lib/modules/leftover/x", ""),
            ],
            Kernel::read,
        );
        assert_eq!(
            kernel,
            Kernel {
                release: "5.14.0-503.el9.x86_64".into(),
                architecture: "x86_64".into(),
                command_line: ["root=/dev/vda1", "intel_iommu=on", "iommu=pt"].map(str::to_owned).into(),
                loads_modules: true,
                enforces_signatures: true,
                secure_boot: Some(true),
                lockdown: Lockdown::Integrity,
                has_headers: true,
                installed: ["5.14.0-503.el9.x86_64", "5.14.0-570.el9.x86_64"].map(str::to_owned).into(),
                boot_id: "c0ffee".into(),
            }
        );
        assert!(kernel.has_argument("iommu=pt") && !kernel.has_argument("iommu"));
    }

    #[test]
    fn a_kernel_without_any_of_it_is_read_as_such() {
        let kernel = tree::read(&[("/proc/sys/kernel/osrelease", "6.1.0\n")], Kernel::read);
        assert_eq!((kernel.loads_modules, kernel.secure_boot, kernel.lockdown), (false, None, Lockdown::None));
        assert!(!kernel.has_headers && !kernel.refuses_unsigned());
    }
}
