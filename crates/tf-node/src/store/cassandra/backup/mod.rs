//! Folders of backups on their volume, which other people can change, fill and damage.
//!
//! What a folder holds, `<keyspace>/<table>-<id>/<file>`, is listed with checksums in [`SUMS`], in the form of `sha256sum`, and told by [`MANIFEST`],
//! which is written last, before the hidden folder gets its name. So a folder that has its name and a manifest is complete, and one without is no backup.
//! No link is followed below the volume.

mod read;
mod schema;
mod write;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    thread,
};

use anyhow::{Context as _, Result, bail, ensure};
use jiff::Timestamp;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tf_agent_api::cassandra::backup::Backup;
use tokio::sync::oneshot;

use crate::disk_space::DiskSpace;

pub(super) use self::{
    read::{STAGING, find, stage},
    schema::{is_harmless, schema},
    write::{Request, SNAPSHOT, clear, write},
};

/// What a folder is, written last.
const MANIFEST: &str = "manifest.json";
/// Checksums of its files.
const SUMS: &str = "SHA256SUMS";
/// The schema of a table, as the server writes it beside a snapshot of it.
const SCHEMA: &str = "schema.cql";
/// Data of a table.
const DATA: &str = "-Data.db";
/// Form of [`Manifest`].
const FORMAT: u32 = 1;
/// Bytes of a manifest or a list of checksums.
const LARGEST: u64 = 64 * 1024 * 1024;
/// Bytes that are copied at once.
const CHUNK: usize = 256 * 1024;

/// What a folder is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    format: u32,
    of: Backup,
    /// Uid of the resource.
    resource: String,
    /// Number of the member.
    member: u32,
    /// All members of the backup, each with its node.
    members: BTreeMap<u32, String>,
    /// Release of the server.
    release: String,
    at: Timestamp,
    /// Size of the files.
    bytes: u64,
    /// Keyspaces of clients, each with whether its writes go to the commit log.
    keyspaces: BTreeMap<String, bool>,
    /// Checksum of [`SUMS`].
    sums: String,
}

/// A file of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sum {
    hash: String,
    path: String,
}

/// Does something that waits for disks beside everything else. Unlike a task of the runtime it keeps nobody from ending.
pub(super) async fn beside<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let (sender, receiver) = oneshot::channel();
    thread::Builder::new().name("backup".to_owned()).spawn(move || sender.send(work()))?;
    receiver.await.context("its result is unknown")?
}

/// The directory of a backup, below a volume that is there. It need not be there itself.
fn directory(volume: &Path, of: &Backup) -> Result<PathBuf> {
    ensure!(volume.is_dir(), "no backup volume is mounted; name one in serviceConfiguration.backup");
    let relative = of.directory().context("the backup's name cannot be that of a directory")?;
    let mut directory = volume.to_owned();
    for part in relative.split('/') {
        directory.push(part);
        if fs::symlink_metadata(&directory).is_ok_and(|found| !found.is_dir()) {
            bail!("{} is not a directory", directory.display());
        }
    }
    Ok(directory)
}

fn make_directory(path: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o750).create(path);
    made.with_context(|| format!("create {}", path.display()))
}

/// Opens a file that is no link.
fn open(path: &Path) -> Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.with_context(|| format!("open {}", path.display()))?;
    ensure!(file.metadata()?.is_file(), "{} is not a file", path.display());
    Ok(file)
}

fn read_small(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = open(path)?;
    file.take(LARGEST).read_to_end(&mut bytes).with_context(|| format!("read {}", path.display()))?;
    Ok(bytes)
}

/// Writes a file and makes it durable.
fn write_small(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || -> io::Result<()> {
        let mut file = create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().with_context(|| format!("write {}", path.display()))
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o640).open(path)
}

/// Copies a file to where none is. Gives back its size and its checksum.
fn copy(from: &Path, to: &Path) -> Result<(u64, String)> {
    let mut source = open(from)?;
    let mut target = create(to).with_context(|| format!("write {}", to.display()))?;
    let (mut hash, mut size, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK]);
    loop {
        let read = source.read(&mut chunk).with_context(|| format!("read {}", from.display()))?;
        let Some(bytes) = chunk.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
        hash.update(bytes);
        target.write_all(bytes).with_context(|| format!("write {}", to.display()))?;
        size += read as u64;
    }
    target.sync_all().with_context(|| format!("write {}", to.display()))?;
    Ok((size, hex(&hash.finalize())))
}

fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Fails if a file system has no room for so many bytes. `data`: the server's data directory; where that is on the same one, some is kept free for
/// it.
fn make_sure_of_room(directory: &Path, data: &Path, bytes: u64) -> Result<()> {
    let look = |path: &Path| fs::metadata(path).with_context(|| format!("look at {}", path.display()));
    let room = DiskSpace::of(directory).with_context(|| format!("look at {}", directory.display()))?;
    // Others write at the same time, each beside its own data.
    let kept = if look(directory)?.dev() == look(data)?.dev() { room.reserve() } else { 0 };
    has_room(directory, bytes, room.left, kept)
}

fn has_room(directory: &Path, bytes: u64, free: u64, kept: u64) -> Result<()> {
    let directory = directory.display();
    ensure!(bytes < free, "{directory}: {bytes} bytes are needed and {free} are free; make room there");
    ensure!(
        bytes < free.saturating_sub(kept),
        "{directory}: {bytes} bytes are needed and {free} are free, and {kept} of them are kept for the server, whose data is on the same file system; make \
         room there, or name another volume"
    );
    Ok(())
}

/// The name of the table that a directory is of.
fn table_of(directory: &str) -> Option<&str> {
    Some(directory.rsplit_once('-')?.0).filter(|table| !table.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_room_is_named_with_what_is_needed() {
        let has_room = |bytes, free, kept| has_room(Path::new("/backup"), bytes, free, kept);
        assert!(has_room(5, 6, 0).is_ok() && has_room(5, 16, 10).is_ok());
        let why = has_room(7, 6, 0).unwrap_err().to_string();
        assert!(why.contains("/backup: 7 bytes are needed and 6 are free; make room"), "{why}");
        let why = has_room(5, 15, 10).unwrap_err().to_string();
        assert!(why.contains("15 are free, and 10 of them are kept for the server"), "{why}");
    }

    #[test]
    fn a_checksum_is_that_of_sha256sum_and_a_link_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::write(at("a"), "abc").unwrap();
        let (size, sum) = copy(&at("a"), &at("b")).unwrap();
        assert_eq!((size, sum.as_str()), (3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
        assert_eq!(hash(b"abc"), sum);
        std::os::unix::fs::symlink(at("a"), at("link")).unwrap();
        assert!(copy(&at("link"), &at("c")).is_err() && copy(&at("a"), &at("b")).is_err());
    }
}
