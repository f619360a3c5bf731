//! What was begun on a node, so that a later process can end or undo it. It is written before the first step and once more
//! after the last one, each time as a whole and durably; between them nothing is written, since the node's network is at stake
//! and a disk may be slow.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::{Root, atomic, data_path::each, facts::boot_id, plan::Plan};

/// Name of the file, beside other records.
pub const FILE: &str = "host.json";
/// The version of what is written.
const VERSION: u32 = 1;

/// What was begun on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Journal {
    version: u32,
    /// The boot that it was begun in: after another one nothing of it is left in the kernel.
    pub boot_id: String,
    /// How far it has come.
    pub state: State,
    /// What was begun.
    pub plan: Plan,
}

/// How far a plan has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Any number of steps is done.
    Begun,
    /// All steps are done, and the node was verified.
    Committed,
    /// All steps are undone.
    RolledBack {
        /// Why.
        reason: String,
    },
}

/// What a process that finds a journal has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Nothing: it was ended, or is of an earlier boot.
    Nothing,
    /// Undo the plan, of which any number of steps is done.
    RollBack,
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is none, or part of one.
    #[error("not a journal: {0}")]
    NoJournal(#[from] serde_json::Error),
    /// It is of another release.
    #[error("a journal of version {0}, and this program knows version {VERSION}")]
    OtherVersion(u32),
}

/// Keeps other processes from changing the node as long as it lives. The kernel gives it back when this process ends. None: another process has it.
///
/// # Errors
/// When there can be no file for it.
pub(crate) fn lock(journal: &Path) -> io::Result<Option<File>> {
    fs::create_dir_all(journal.parent().unwrap_or(Path::new("/")))?;
    let file = File::create(journal.with_extension("lock"))?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Journal {
    /// The journal of a plan that is about to be carried out.
    pub fn begin(plan: Plan, boot_id: &str) -> Self {
        Self { version: VERSION, boot_id: boot_id.to_owned(), state: State::Begun, plan }
    }

    /// Reads a journal. None if there is none.
    ///
    /// # Errors
    /// When there is one that cannot be used. Nothing may be begun then.
    pub fn read(path: &Path) -> Result<Option<Self>, Error> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let Version { version } = serde_json::from_slice(&text)?;
        if version != VERSION {
            return Err(Error::OtherVersion(version));
        }
        Ok(Some(serde_json::from_slice(&text)?))
    }

    /// Writes it in the place of what was there, as a whole, and makes it durable.
    ///
    /// # Errors
    /// When that fails; what was there is as it was.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        atomic::write(path, &serde_json::to_vec(self)?, 0o600)?;
        Ok(atomic::sync_directory(path.parent().unwrap_or(Path::new("/")))?)
    }

    /// The interfaces that `vhost0` was made above in this boot: several on a multihomed node. Empty where no journal of this boot can be read.
    pub fn uplinks(path: &Path, root: &Root) -> Vec<String> {
        let journal = Self::read(path).ok().flatten().filter(|journal| journal.boot_id == boot_id(root));
        journal.iter().flat_map(|journal| each(&journal.plan.uplink)).map(str::to_owned).collect()
    }

    /// The interface that `vhost0` was made above in this boot. None where it is above several, and where no journal of this boot can be read.
    pub fn uplink(path: &Path, root: &Root) -> Option<String> {
        let mut uplinks = Self::uplinks(path, root);
        uplinks.pop().filter(|_| uplinks.is_empty())
    }

    /// What is to be done about it in a boot.
    pub fn recovery(&self, boot_id: &str) -> Recovery {
        if self.state == State::Begun && self.boot_id == boot_id { Recovery::RollBack } else { Recovery::Nothing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Step;

    fn journal() -> Journal {
        Journal::begin(Plan { uplink: "eth0".into(), steps: vec![Step::SetUp, Step::Attach] }, "boot-1")
    }

    #[test]
    fn a_journal_is_read_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("host.json");
        assert_eq!(Journal::read(&path).unwrap(), None);
        for state in [State::Begun, State::Committed, State::RolledBack { reason: "no answer".into() }] {
            let journal = Journal { state, ..journal() };
            journal.write(&path).unwrap();
            assert_eq!(Journal::read(&path).unwrap(), Some(journal));
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_journal_that_is_torn_or_of_another_release_is_no_reason_to_begin_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("host.json");
        journal().write(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        for (text, expected) in [
            (&text[..text.len() / 2], "not a journal"),
            ("", "not a journal"),
            (&text.replace("\"version\":1", "\"version\":2"), "a journal of version 2"),
        ] {
            fs::write(&path, text).unwrap();
            assert!(Journal::read(&path).unwrap_err().to_string().starts_with(expected), "{text}");
        }
    }

    #[test]
    fn only_what_was_begun_in_this_boot_is_undone() {
        let begun = journal();
        assert_eq!([begun.recovery("boot-1"), begun.recovery("boot-2")], [Recovery::RollBack, Recovery::Nothing]);
        let committed = Journal { state: State::Committed, ..begun };
        assert_eq!(committed.recovery("boot-1"), Recovery::Nothing);
    }
}
