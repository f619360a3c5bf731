//! Control groups: which processes belong to a machine of the lab, whatever they have become.
//!
//! Shims and containers are not children of the lab and cannot be recorded one by one. Each machine is a group within the
//! group of its lab, so all of them can be found and ended at once, also by a program that did not start them. Groups are
//! named after the folder of the lab, so nothing but that folder is needed to find them.
//!
//! Both hierarchies are served: version 2, and version 1 by its freezer.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use sha2::{Digest as _, Sha256};

/// Where hierarchies are mounted.
const MOUNTED: &str = "/sys/fs/cgroup";

/// Group of all labs.
const TOP: &str = "tf-lab";

/// What the kernel needs to end killed processes and to forget empty groups, and much more.
const LIMIT: Duration = Duration::from_secs(30);

/// Bytes of a process's name that the kernel keeps (`TASK_COMM_LEN`, with a zero at its end).
const KEPT: usize = 15;

/// A group, in every hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Below the root of a hierarchy.
    path: PathBuf,
}

impl Group {
    /// The group of the lab in `folder`.
    pub fn of_lab(folder: &Path) -> Self {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        // Labs of different users, or of different state folders, may have one name.
        let digest = Sha256::digest(folder.as_os_str().as_encoded_bytes());
        let short = u32::from_be_bytes(std::array::from_fn(|index| digest[index]));
        Self { path: Path::new(TOP).join(format!("{name}-{short:08x}")) }
    }

    /// A group within this one.
    #[must_use]
    pub fn within(&self, name: &str) -> Self {
        Self { path: self.path.join(name) }
    }

    /// Its name as container runtimes write it, absolute.
    pub fn name(&self) -> String {
        format!("/{}", self.path.display())
    }

    /// Makes it. Returns the folder for [`join`].
    pub fn create(&self) -> Result<PathBuf> {
        let folder = tracking()?.join(&self.path);
        // The group of all labs may go between its making and the next one.
        let made = (0..5).map(|_| fs::create_dir_all(&folder)).find(Result::is_ok);
        ensure!(made.is_some(), "cannot make the control group {}: real nodes need root", folder.display());
        Ok(folder)
    }

    /// Whether a process is in it or in a group within it.
    pub fn is_populated(&self) -> Result<bool> {
        Ok(!members(&tracking()?.join(&self.path))?.is_empty())
    }

    /// Ends all of its processes at the same moment, none of which can start another one before it ends, and waits until
    /// they are gone. A group that does not exist has none.
    pub fn kill(&self) -> Result<()> {
        let Ok(hierarchy) = tracking() else { return Ok(()) };
        let folder = hierarchy.join(&self.path);
        let deadline = Instant::now() + LIMIT;
        while folder.exists() {
            freeze(&folder, true)?;
            let members = members(&folder)?;
            for pid in &members {
                // Frozen, so that it is this process and no later one of the same number.
                if let Some(pid) = Pid::from_raw(*pid) {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
            freeze(&folder, false)?;
            if members.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("processes {members:?} in {} survive SIGKILL", folder.display());
            }
            sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Signals those of its processes that have this name, and says how many. Nothing outside of the group is touched, which
    /// cannot be said of `pkill` on a node: nodes see the processes of the whole machine.
    pub fn signal_named(&self, name: &str, signal: Signal) -> Result<usize> {
        let folder = tracking()?.join(&self.path);
        freeze(&folder, true)?;
        let signalled = self.named(name).map(|named| {
            let named = named.into_iter().filter_map(Pid::from_raw);
            named.filter(|pid| kill_process(*pid, signal).is_ok()).count()
        });
        freeze(&folder, false)?;
        signalled
    }

    /// The ids of its processes that have this name, of which the kernel keeps the beginning; with a blank and an argument, of those that have
    /// that on their command line, too.
    pub fn named(&self, name: &str) -> Result<Vec<i32>> {
        let (name, argument) = name.split_once(' ').unwrap_or((name, ""));
        let name = name.get(..KEPT).unwrap_or(name);
        let read = |pid: &i32, file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let is_told = |pid: &i32| argument.is_empty() || read(pid, "cmdline").split('\0').any(|it| it == argument);
        let is_named = |pid: &i32| read(pid, "comm").trim() == name && is_told(pid);
        Ok(members(&tracking()?.join(&self.path))?.into_iter().filter(is_named).collect())
    }

    /// Removes it from every hierarchy, with the groups within it. Its processes must have ended.
    pub fn remove(&self) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        for hierarchy in hierarchies() {
            let folder = hierarchy.join(&self.path);
            while let Err(error) = remove_tree(&folder) {
                // The last process may have ended a moment ago.
                if Instant::now() > deadline {
                    return Err(error).with_context(|| format!("removing the control group {}", folder.display()));
                }
                sleep(Duration::from_millis(10));
            }
            // Fails while there is another lab.
            let _ = fs::remove_dir(hierarchy.join(TOP));
        }
        Ok(())
    }
}

/// Moves a process into the group of `folder`.
pub fn join(folder: &Path, pid: u32) -> Result<()> {
    fs::write(folder.join("cgroup.procs"), pid.to_string())
        .with_context(|| format!("moving process {pid} into {}", folder.display()))
}

/// The hierarchy by which processes are found.
fn tracking() -> Result<PathBuf> {
    let mounted = Path::new(MOUNTED);
    if mounted.join("cgroup.controllers").exists() {
        return Ok(mounted.to_owned());
    }
    let freezer = mounted.join("freezer");
    ensure!(freezer.join("cgroup.procs").exists(), "no control groups with a freezer in {MOUNTED}");
    Ok(freezer)
}

/// All hierarchies: container runtimes make a container's group in each.
fn hierarchies() -> Vec<PathBuf> {
    let mounted = Path::new(MOUNTED);
    let mut found = vec![mounted.to_owned()];
    found.extend(folders(mounted).unwrap_or_default());
    found.retain(|folder| folder.join("cgroup.procs").exists());
    found
}

fn freeze(folder: &Path, frozen: bool) -> Result<()> {
    let (file, content) = if folder.join("cgroup.freeze").exists() {
        ("cgroup.freeze", if frozen { "1" } else { "0" })
    } else {
        ("freezer.state", if frozen { "FROZEN" } else { "THAWED" })
    };
    fs::write(folder.join(file), content).with_context(|| format!("writing {file} of {}", folder.display()))
}

/// Processes of a group and of those within it.
fn members(folder: &Path) -> Result<Vec<i32>> {
    let mut found = match fs::read_to_string(folder.join("cgroup.procs")) {
        Ok(list) => list.lines().filter_map(|line| line.parse().ok()).collect::<Vec<i32>>(),
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("reading {}", folder.display())),
    };
    for child in folders(folder)? {
        found.extend(members(&child)?);
    }
    Ok(found)
}

fn remove_tree(folder: &Path) -> io::Result<()> {
    for child in folders(folder)? {
        remove_tree(&child)?;
    }
    match fs::remove_dir(folder) {
        Err(error) if is_gone(&error) => Ok(()),
        outcome => outcome,
    }
}

fn folders(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labs_of_one_name_in_two_folders_have_two_groups() {
        let [one, two] = ["/a/tf", "/b/tf"].map(|folder| Group::of_lab(Path::new(folder)));
        assert_ne!(one, two);
        assert!(one.within("node-1").name().starts_with("/tf-lab/tf-"));
        assert_eq!(one, Group::of_lab(Path::new("/a/tf")));
    }
}
