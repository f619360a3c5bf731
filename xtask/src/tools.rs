//! Programs that commands run, found before anything is built: on Debian they are installed where that is allowed, else the error has the command.

use std::{
    env,
    fmt::{self, Display, Formatter},
    path::Path,
    process::Command,
};

use anyhow::Result;
use tf_testing::assets;

/// What commands need besides Rust and a C compiler, without which they would not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Kubernetes, built with Go.
    Lab,
    /// Namespaces, block devices and file systems of real nodes.
    RealNodes,
    /// Images of stores.
    Stores,
    /// Tests that read files back as the daemons do.
    Parsers,
}

/// How something that commands run is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// A program in the path.
    Program(&'static str),
    /// A module of Python.
    Module(&'static str),
}

impl Need {
    /// What has to be there, each with Debian's package that has it.
    fn probes(self) -> &'static [(Probe, &'static str)] {
        use Probe::{Module, Program};
        match self {
            Self::Lab => &[],
            Self::RealNodes => &[
                (Program("ip"), "iproute2"),
                (Program("losetup"), "mount"),
                (Program("mkfs.ext4"), "e2fsprogs"),
                (Program("unshare"), "util-linux"),
            ],
            Self::Stores => &[(Program("mmdebstrap"), "mmdebstrap"), (Program("mvn"), "maven")],
            Self::Parsers => &[
                (Program("python3"), "python3"),
                (Program("javac"), "default-jdk-headless"),
                (Program("node"), "nodejs"),
                // The parser of YAML that written files are read back with.
                (Module("yaml"), "python3-yaml"),
            ],
        }
    }
}

/// What a user has to install. Its text is all that there is to say: no backtrace helps.
#[derive(Debug)]
pub struct Missing(String);

impl Display for Missing {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Missing {}

/// Sees to it that the programs are there, in the first second, or as long as their installation takes.
///
/// # Errors
/// [`Missing`], with the command that installs what is missing.
pub fn ensure(needs: &[Need]) -> Result<()> {
    if needs.contains(&Need::Lab) {
        assets::obtainable().map_err(|error| Missing(format!("{error:#}")))?;
    }
    let packages = packages(needs, is_there);
    if packages.is_empty() {
        return Ok(());
    }
    let may_install = rustix::process::geteuid().is_root() && Path::new("/etc/debian_version").exists();
    if !may_install {
        return Err(missing(&packages).into());
    }
    println!("installing {} with apt-get", packages.join(", "));
    let steps =
        [vec!["update", "-qq"], [vec!["install", "-y", "-qq", "--no-install-recommends"], packages.clone()].concat()];
    for step in steps {
        let outcome = Command::new("apt-get").args(&step).env("DEBIAN_FRONTEND", "noninteractive").output();
        let said = match outcome {
            Ok(output) if output.status.success() => continue,
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        return Err(Missing(format!("apt-get {} failed: {said}\n{}", step[0], missing(&packages))).into());
    }
    Ok(())
}

fn missing(packages: &[&str]) -> Missing {
    let packages = packages.join(" ");
    Missing(format!(
        "these packages are missing; install them, on Debian with: apt-get install --no-install-recommends {packages}"
    ))
}

/// The packages of what is not there, each once.
fn packages(needs: &[Need], is_there: impl Fn(Probe) -> bool) -> Vec<&'static str> {
    let mut packages = Vec::new();
    for (probe, package) in needs.iter().flat_map(|need| need.probes()) {
        if !packages.contains(package) && !is_there(*probe) {
            packages.push(*package);
        }
    }
    packages
}

fn is_there(probe: Probe) -> bool {
    match probe {
        Probe::Program(name) => {
            // Users without rights do not have the folders of the administrator's programs in their path.
            let path = env::var_os("PATH").unwrap_or_default();
            let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
            folders.into_iter().any(|folder| folder.join(name).is_file())
        }
        Probe::Module(name) => {
            let output = Command::new("python3").args(["-c", &format!("import {name}")]).output();
            output.is_ok_and(|output| output.status.success())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_missing_programs_are_named_once_with_the_command_that_installs_them() {
        // Several layers of tests may have the same needs.
        let needs = [Need::Lab, Need::Stores, Need::RealNodes, Need::Stores, Need::Parsers];
        assert!(packages(&needs, |_| true).is_empty());
        let missing_ones = [Probe::Program("mmdebstrap"), Probe::Program("mvn"), Probe::Module("yaml")];
        let found = packages(&needs, |probe| !missing_ones.contains(&probe));
        assert_eq!(found, ["mmdebstrap", "maven", "python3-yaml"]);
        assert_eq!(
            missing(&found).to_string(),
            "these packages are missing; install them, on Debian with: apt-get install --no-install-recommends mmdebstrap maven python3-yaml"
        );
    }

    #[test]
    fn what_a_command_does_not_need_is_not_asked_for() {
        assert!(packages(&[Need::Lab], |_| false).is_empty());
        assert!(!packages(&[Need::Stores], |_| false).contains(&"iproute2"));
    }
}
