//! Whether a daemon has room for what it writes.

use std::{io, path::Path};

use tf_agent_api::launch::{Launch, Probe};

use crate::paths::Paths;

/// With less than this, in bytes, nothing useful can be written: a segment of Cassandra's commit log takes 32 MiB, of ZooKeeper's log
/// 64 MiB.
const LEAST: u64 = 16 << 20;

/// Why a daemon may fail that has no room: which of its directories, and what is left. Nothing if it has some.
pub fn wanting(launch: &Launch, paths: &Paths) -> Option<String> {
    let data = match &launch.ready {
        Probe::Cassandra { data, .. } => Some(data),
        _ => None,
    };
    data.into_iter().chain(&launch.working_directory).find_map(|directory| full(directory, &paths.at(directory)))
}

fn full(name: &str, directory: &Path) -> Option<String> {
    // What cannot be looked at is told by who needs it.
    let space = DiskSpace::of(directory).ok()?;
    space
        .is_full()
        .then(|| format!("the disk of {name} is full: {} of {} MiB are left", space.left >> 20, space.all >> 20))
}

/// Bytes of a file system.
pub struct DiskSpace {
    /// What those without special rights can still use.
    pub left: u64,
    all: u64,
}

impl DiskSpace {
    /// That of the file system of a directory.
    ///
    /// # Errors
    /// When it cannot be looked at.
    pub fn of(directory: &Path) -> io::Result<Self> {
        let disk = rustix::fs::statvfs(directory)?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        Ok(Self { left: bytes(disk.f_bavail), all: bytes(disk.f_blocks) })
    }

    /// What a server keeps free where it has its data: a tenth, 10 GiB at most.
    pub fn reserve(&self) -> u64 {
        (self.all / 10).min(10 << 30)
    }

    /// Whether nothing useful can be written. The kernel's own file systems have no blocks at all.
    pub const fn is_full(&self) -> bool {
        self.left < LEAST && self.all > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_room_and_what_has_no_size_is_not_full_and_what_is_missing_is_told_by_others() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(full("/data", folder.path()), None);
        assert_eq!(full("/proc", Path::new("/proc")), None);
        assert_eq!(full("/data", &folder.path().join("missing")), None);
    }

    #[test]
    fn a_tenth_of_a_small_file_system_and_some_of_a_large_one_is_kept_free() {
        let reserve = |all| DiskSpace { left: 0, all }.reserve();
        assert_eq!((reserve(0), reserve(50 << 30), reserve(4 << 40)), (0, 5 << 30, 10 << 30));
    }

    #[test]
    fn a_disk_without_room_is_named_with_what_is_left() {
        // Of this size, so that nothing has to be written.
        let folder = tempfile::tempdir().unwrap();
        let mount = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=3m", "tmpfs"])
            .arg(folder.path())
            .output();
        if !mount.is_ok_and(|done| done.status.success()) {
            println!("skipped: file systems cannot be mounted here");
            return;
        }
        let told = full("/data", folder.path());
        std::process::Command::new("umount").arg(folder.path()).status().unwrap();
        assert_eq!(told.as_deref(), Some("the disk of /data is full: 3 of 3 MiB are left"));
    }
}
