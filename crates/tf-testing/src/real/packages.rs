//! What real nodes need and Debian packages: the container runtime, network plugins, iptables, and programs that set addresses of interfaces.
//!
//! Nothing is installed. The packages are downloaded with `apt-get` and unpacked into the lab's cache, and a node sees
//! them laid over the machine's own `/usr`. A machine without `apt-get` must have the programs installed.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

use crate::assets::{self, in_cache, say};

/// The packages, with those libraries that a small Debian lacks. busybox is for images of tests.
const PACKAGES: [&str; 22] = [
    "busybox-static",
    "containerd",
    "containernetworking-plugins",
    "dbus-daemon",
    "iptables",
    "libapparmor1",
    "libdbus-1-3",
    "libexpat1",
    "libip4tc2",
    "libip6tc2",
    "libmnl0",
    "libndp0",
    "libnetfilter-conntrack3",
    "libnfnetlink0",
    "libnftnl11",
    "libnm0",
    "libseccomp2",
    "libsystemd-shared",
    "libxtables12",
    "network-manager",
    "runc",
    "systemd",
];

/// Programs a machine without apt-get must have.
const PROGRAMS: [&str; 5] = ["containerd", "containerd-shim-runc-v2", "ctr", "runc", "iptables"];

/// Directories that are links to those of the same name in `usr`.
const LINKS: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// Names under which the packet filter is called; a package's own scripts would make them.
const FILTERS: [&str; 6] =
    ["iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"];

/// A tree whose `usr` is laid over the machine's, or `None` when the machine has all that is needed. Blocks while packages
/// are downloaded, the first time.
pub fn find() -> Result<Option<PathBuf>> {
    match in_cache(&assets::cache()?, &key()?, download) {
        Ok(tree) => Ok(Some(tree)),
        Err(_) if installed() => Ok(None),
        Err(error) => Err(error.context(format!(
            "real nodes need Debian's packages: either apt-get must be able to download them, or install {}",
            PACKAGES.join(" ")
        ))),
    }
}

/// Says of which release the packages are: their libraries must suit the machine's own.
fn key() -> Result<String> {
    let release = fs::read_to_string("/etc/os-release").context("reading /etc/os-release")?;
    let digest = Sha256::digest(PACKAGES.join(" "));
    let short = u32::from_be_bytes(std::array::from_fn(|index| digest[index]));
    Ok(format!("packages@{}-{short:08x}", release_name(&release)))
}

/// `debian-12` for Debian 12.
fn release_name(os_release: &str) -> String {
    let value = |key: &str| {
        let line = os_release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim_matches('"').to_owned())
    };
    let name = [value("ID"), value("VERSION_ID")].into_iter().flatten().collect::<Vec<_>>().join("-");
    name.chars().filter(|character| character.is_ascii_alphanumeric() || "-.".contains(*character)).collect()
}

fn download(tree: &Path) -> Result<()> {
    say("downloading the container runtime of real nodes: some seconds, once");
    // Of an attempt that was interrupted.
    let archives = tree.with_extension("archives");
    for folder in [tree, &archives] {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
    }
    let own_lists = archives.join("lists");
    if fetch(&archives, &[]).is_err() {
        // A machine that has never asked which packages there are. The answer is kept out of its own folders.
        fs::create_dir_all(own_lists.join("partial"))?;
        let lists = [format!("Dir::State::lists={}", own_lists.display())];
        apt_get(&archives, &lists, &["update"])?;
        fetch(&archives, &lists)?;
    }
    for entry in fs::read_dir(&archives)? {
        let archive = entry?.path();
        if archive.extension().is_some_and(|extension| extension == "deb") {
            unpack(&archive, tree)?;
        }
    }
    for name in FILTERS {
        symlink("xtables-nft-multi", tree.join("usr/sbin").join(name))?;
    }
    Ok(fs::remove_dir_all(archives)?)
}

/// Unpacks a package. What it has in directories that are links into `usr` on a machine goes there.
fn unpack(archive: &Path, tree: &Path) -> Result<()> {
    for name in LINKS {
        let link = tree.join(name);
        if !link.exists() {
            fs::create_dir_all(tree.join("usr").join(name))?;
            symlink(Path::new("usr").join(name), link)?;
        }
    }
    let mut reader = Command::new("dpkg-deb").arg("--fsys-tarfile").arg(archive).stdout(Stdio::piped()).spawn()?;
    let tar = reader.stdout.take().context("no output of dpkg-deb")?;
    let mut command = Command::new("tar");
    run(command.args(["--extract", "--keep-directory-symlink", "--directory"]).arg(tree).stdin(tar))?;
    let status = reader.wait()?;
    ensure!(status.success(), "dpkg-deb --fsys-tarfile {}: {status}", archive.display());
    Ok(())
}

fn fetch(folder: &Path, settings: &[String]) -> Result<()> {
    let mut arguments = vec!["download"];
    arguments.extend(PACKAGES);
    apt_get(folder, settings, &arguments)
}

fn apt_get(folder: &Path, settings: &[String], arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    // Its own user cannot write into a folder of root.
    command.current_dir(folder).args(["--quiet", "--option", "APT::Sandbox::User=root"]);
    for setting in settings {
        command.args(["--option", setting]);
    }
    run(command.args(arguments))
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("running {}", command.get_program().display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed: {}", command.get_program().display(), said.trim());
    }
    Ok(())
}

fn installed() -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = |program: &&str| env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let plugins = ["/usr/lib/cni/ptp", "/usr/libexec/cni/ptp"];
    PROGRAMS.iter().all(on_path) && plugins.iter().any(|plugin| Path::new(plugin).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_keyed_by_the_release_of_the_distribution() {
        let release = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\nID=debian\n";
        assert_eq!(release_name(release), "debian-12");
        assert_eq!(release_name("ID=arch\n"), "arch");
    }
}
