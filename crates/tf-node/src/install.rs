//! `tf-node install` and `tf-node place`: executables where others run them, and directories whose owner is the daemons' user.

use std::{
    fs::{self, File},
    path::Path,
};

use anyhow::{Context as _, Result, ensure};
use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Stat, Uid, chownat, fchmod, fchown, fstat, open, openat, statat},
    io::Errno,
};
use serde_json::json;
use tf_agent_api::node;
use tf_host::atomic;

use crate::{log, paths::Paths};

/// Every directory: its owner and group write, and what is made in it has the group.
const DIRECTORY: Mode = Mode::from_raw_mode(0o2770);
/// Every other file, unless only its owner may read it.
const FILE: Mode = Mode::from_raw_mode(0o660);
/// No daemon's data comes near it.
const DEEPEST: u32 = 128;

/// Copies this program into a directory, makes the directory of states beside it, and gives directories to the daemons'
/// user.
pub fn install(paths: &Paths, directory: &str, own: &[String], offer: &[String]) -> Result<()> {
    let binary = Path::new(node::BINARY).file_name().unwrap_or_default();
    let directory = paths.at(directory);
    executable(Path::new("/proc/self/exe"), &directory.join(binary))?;
    let states = directory.join(node::STATES);
    fs::create_dir_all(&states).with_context(|| format!("create {}", states.display()))?;
    give(&states, node::USER)?;
    for directory in offer {
        // Whoever needs it says so when it does.
        if let Err(error) = give_top(&paths.at(directory), node::USER) {
            log::warn("a directory was not given to the daemons' user", &json!({"error": format!("{error:#}")}));
        }
    }
    own.iter().try_for_each(|directory| give(&paths.at(directory), node::USER))
}

/// Copies an executable over another one, which may be running and goes on as it is.
pub fn place(paths: &Paths, from: &str, to: &str) -> Result<()> {
    executable(&paths.at(from), &paths.at(to))
}

fn executable(from: &Path, to: &Path) -> Result<()> {
    let mut source = File::open(from).with_context(|| format!("open {}", from.display()))?;
    Ok(atomic::copy(&mut source, to, 0o755)?)
}

/// Gives a directory and everything below it to a user and its group. The top comes last, so one that is right already has
/// been done completely and is left alone, however large it is. Links are not followed, other file systems not entered.
pub fn give(directory: &Path, user: i64) -> Result<()> {
    given(directory, user, |owner, top, stat| {
        let is_right = owner.has(stat) && Mode::from_raw_mode(stat.st_mode).contains(DIRECTORY);
        if is_right { Ok(()) } else { owner.give_tree(top, stat, 0) }
    })
}

/// Gives a directory alone to a user and its group, unless it is theirs already.
///
/// # Errors
/// When its file system does not let anybody do so, say.
pub fn give_top(directory: &Path, user: i64) -> Result<()> {
    given(directory, user, |owner, top, stat| if owner.has(stat) { Ok(()) } else { owner.give(top, stat) })
}

/// Opens a directory that is no link, and has it given to a user and its group.
fn given(directory: &Path, user: i64, give: impl FnOnce(&Owner, &OwnedFd, &Stat) -> Result<()>) -> Result<()> {
    let context = || format!("give {} to user {user}", directory.display());
    let owner = Owner::of(user).with_context(context)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let top = open(directory, flags, Mode::empty()).with_context(context)?;
    let stat = fstat(&top).with_context(context)?;
    give(&owner, &top, &stat).with_context(context)
}

struct Owner {
    user: Uid,
    group: Gid,
}

impl Owner {
    fn of(user: i64) -> Result<Self> {
        let id = u32::try_from(user).context("not the number of a user")?;
        Ok(Self { user: Uid::from_raw(id), group: Gid::from_raw(id) })
    }

    fn give(&self, directory: &OwnedFd, stat: &Stat) -> Result<()> {
        fchown(directory, Some(self.user), Some(self.group))?;
        fchmod(directory, permissions(stat.st_mode) | DIRECTORY)?;
        Ok(())
    }

    fn has(&self, stat: &Stat) -> bool {
        (stat.st_uid, stat.st_gid) == (self.user.as_raw(), self.group.as_raw())
    }

    /// What is below first, so that a directory that is right has nothing wrong in it. Open at a time are the directories
    /// of one path.
    fn give_tree(&self, directory: &OwnedFd, stat: &Stat, depth: u32) -> Result<()> {
        ensure!(depth < DEEPEST, "directories are nested too deeply");
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let below = self.give_entry(directory, name, stat.st_dev);
            if let Some((directory, stat)) = below.with_context(|| name.to_string_lossy().into_owned())? {
                self.give_tree(&directory, &stat, depth + 1).with_context(|| name.to_string_lossy().into_owned())?;
            }
        }
        self.give(directory, stat)
    }

    /// Gives what is no directory, and opens what is one.
    fn give_entry(
        &self,
        parent: &OwnedFd,
        name: &std::ffi::CStr,
        device: u64,
    ) -> Result<Option<(OwnedFd, Stat)>, Errno> {
        let stat = match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            // Removed by somebody else in the meantime.
            Err(Errno::NOENT) => return Ok(None),
            stat => stat?,
        };
        if stat.st_dev != device {
            return Ok(None);
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let directory = openat(parent, name, flags | OFlags::DIRECTORY, Mode::empty())?;
                Ok(Some((directory, stat)))
            }
            FileType::RegularFile => {
                let file = openat(parent, name, flags, Mode::empty())?;
                fchown(&file, Some(self.user), Some(self.group))?;
                let mode = permissions(stat.st_mode);
                // A key or cookie that only its owner may read stays one.
                let is_private = !mode.intersects(Mode::from_raw_mode(0o077));
                fchmod(&file, if is_private { mode } else { mode | FILE })?;
                Ok(None)
            }
            _ => {
                chownat(parent, name, Some(self.user), Some(self.group), AtFlags::SYMLINK_NOFOLLOW)?;
                Ok(None)
            }
        }
    }
}

/// Without the bits that let a program run as its owner.
fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & 0o1777)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    /// To oneself, so that it needs no rights.
    fn give_to_me(path: &Path) {
        give(path, i64::from(rustix::process::getuid().as_raw())).unwrap();
    }

    #[test]
    fn owner_and_group_write_and_private_files_stay_private() {
        let root = tempfile::tempdir().unwrap();
        let top = root.path().join("data");
        fs::create_dir_all(top.join("sub")).unwrap();
        for (name, bits) in [("sub/open", 0o644), ("sub/private", 0o400), ("sub/program", 0o4755)] {
            fs::write(top.join(name), "x").unwrap();
            fs::set_permissions(top.join(name), fs::Permissions::from_mode(bits)).unwrap();
        }
        give_to_me(&top);
        assert_eq!((mode(&top) & 0o2770, mode(&top.join("sub")) & 0o2770), (0o2770, 0o2770));
        let modes = ["sub/open", "sub/private", "sub/program"].map(|name| mode(&top.join(name)));
        assert_eq!(modes, [0o664, 0o400, 0o775]);
    }

    #[test]
    fn links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let outside = root.path().join("outside");
        fs::write(&outside, "x").unwrap();
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o644)).unwrap();
        fs::create_dir(root.path().join("data")).unwrap();
        symlink(&outside, root.path().join("data/link")).unwrap();
        give_to_me(&root.path().join("data"));
        assert_eq!(mode(&outside), 0o644);
        symlink(root.path(), root.path().join("top")).unwrap();
        assert!(give(&root.path().join("top"), 0).is_err());
    }

    #[test]
    fn what_is_offered_is_given_alone_and_its_absence_keeps_nobody_from_starting() {
        let root = tempfile::tempdir().unwrap();
        let top = root.path().join("volume");
        fs::create_dir(&top).unwrap();
        fs::write(top.join("theirs"), "x").unwrap();
        fs::set_permissions(top.join("theirs"), fs::Permissions::from_mode(0o600)).unwrap();
        let uid = rustix::process::getuid().as_raw();
        give_top(&top, i64::from(uid)).unwrap();
        assert_eq!(mode(&top.join("theirs")), 0o600);
        assert!(give_top(&root.path().join("absent"), i64::from(uid)).is_err());
        let paths = Paths::below(root.path());
        fs::create_dir(root.path().join("bin")).unwrap();
        install(&paths, "/bin", &[], &["/absent".to_owned()]).unwrap();
    }

    #[test]
    fn what_is_done_is_not_done_again() {
        let root = tempfile::tempdir().unwrap();
        let top = root.path().join("data");
        fs::create_dir(&top).unwrap();
        give_to_me(&top);
        fs::write(top.join("new"), "x").unwrap();
        fs::set_permissions(top.join("new"), fs::Permissions::from_mode(0o644)).unwrap();
        give_to_me(&top);
        assert_eq!(mode(&top.join("new")), 0o644);
    }

    #[test]
    fn a_running_executable_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::below(root.path());
        fs::copy("/bin/sleep", root.path().join("old")).unwrap();
        fs::write(root.path().join("new"), "new").unwrap();
        let mut running = std::process::Command::new(root.path().join("old")).arg("10").spawn().unwrap();
        place(&paths, "/new", "/old").unwrap();
        assert_eq!(
            (fs::read(root.path().join("old")).unwrap(), mode(&root.path().join("old"))),
            (b"new".to_vec(), 0o755)
        );
        assert!(running.try_wait().unwrap().is_none());
        running.kill().unwrap();
        running.wait().unwrap();
        assert!(place(&paths, "/absent", "/old").is_err());
        assert_eq!(fs::metadata(root.path().join("old")).unwrap().size(), 3);
    }
}
