//! Writing a folder.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use tf_agent_api::cassandra::backup::{Backup, Saved};
use tf_host::atomic;

use super::{
    FORMAT, MANIFEST, Manifest, SUMS, Sum, copy, directory, hash, make_directory, make_sure_of_room,
    read::{manifest, render},
    write_small,
};

/// Name of the snapshots that folders are copied from. There is one at a time.
pub(in super::super) const SNAPSHOT: &str = "tf-backup";
/// Where the server keeps snapshots of a table.
const SNAPSHOTS: &str = "snapshots";

/// What a folder is to be.
#[derive(Clone, Debug)]
pub(in super::super) struct Request {
    /// Of which backup.
    pub(in super::super) of: Backup,
    /// Uid of the resource.
    pub(in super::super) resource: String,
    /// Number of the member.
    pub(in super::super) member: u32,
    /// All members, each with its node.
    pub(in super::super) members: BTreeMap<u32, String>,
    /// Release of the server.
    pub(in super::super) release: String,
    /// Keyspaces, each with whether its writes go to the commit log.
    pub(in super::super) keyspaces: BTreeMap<String, bool>,
}

/// A file of a snapshot.
struct Source {
    from: PathBuf,
    /// Where it is in the folder.
    path: String,
    /// Bytes of it.
    size: u64,
}

/// Copies the snapshots below a server's data directory. What was half done before is removed, what is complete is left as it is.
///
/// # Errors
/// When there is another folder in its place, there is no room, or a file cannot be read or written.
pub(in super::super) fn write(volume: &Path, data: &Path, request: &Request) -> Result<Saved> {
    let parent = directory(volume, &request.of)?;
    let folder = parent.join(request.member.to_string());
    if let Some(saved) = present(&folder, request)? {
        return Ok(saved);
    }
    make_directory(&parent)?;
    let part = parent.join(format!(".{}.part", request.member));
    remove(&part)?;
    let (files, bytes) = sources(data, request.keyspaces.keys())?;
    make_sure_of_room(&parent, data, bytes)?;
    make_directory(&part)?;
    let manifest = fill(&part, data, request, &files)?;
    fs::rename(&part, &folder).with_context(|| format!("rename {}", part.display()))?;
    sync(&parent)?;
    Ok(Saved { resource: manifest.resource, at: manifest.at, bytes: manifest.bytes })
}

/// What is in the place of the folder, if it is that very one.
fn present(folder: &Path, request: &Request) -> Result<Option<Saved>> {
    if fs::symlink_metadata(folder).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(None);
    }
    let manifest =
        manifest(folder).context("there is something else in the place of the backup; choose another name")?;
    let Request { of, resource, member, members, .. } = request;
    if (&manifest.of, &manifest.resource, &manifest.member, &manifest.members) != (of, resource, member, members) {
        bail!("{} is of another ring, or of other members of this one; choose another name", folder.display());
    }
    Ok(Some(Saved { resource: manifest.resource, at: manifest.at, bytes: manifest.bytes }))
}

/// Copies the files, and tells of them last.
fn fill(part: &Path, data: &Path, request: &Request, files: &[Source]) -> Result<Manifest> {
    let (mut sums, mut bytes) = (Vec::new(), 0);
    for Source { from, path, size } in files {
        // The server writes, too.
        make_sure_of_room(part, data, *size)?;
        let to = part.join(path);
        to.parent().map_or(Ok(()), make_directory)?;
        let (size, hash) = copy(from, &to)?;
        bytes += size;
        sums.push(Sum { hash, path: path.clone() });
    }
    let sums = render(&sums);
    write_small(&part.join(SUMS), sums.as_bytes())?;
    for directory in directories(part)? {
        sync(&directory)?;
    }
    let Request { of, resource, member, members, release, keyspaces } = request.clone();
    let (at, sums) = (Timestamp::now(), hash(sums.as_bytes()));
    let manifest = Manifest { format: FORMAT, of, resource, member, members, release, at, bytes, keyspaces, sums };
    write_small(&part.join(MANIFEST), &serde_json::to_vec_pretty(&manifest)?)?;
    sync(part)?;
    Ok(manifest)
}

/// Files of the snapshots of some keyspaces, and their size. Those of secondary indexes, which have directories of their own, are made anew by the
/// server that takes the rows in.
fn sources<'a>(data: &Path, keyspaces: impl Iterator<Item = &'a String>) -> Result<(Vec<Source>, u64)> {
    let (mut sources, mut bytes) = (Vec::new(), 0);
    for keyspace in keyspaces {
        for table in entries(&data.join(keyspace))? {
            let name = table.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for from in entries(&table.join(SNAPSHOTS).join(SNAPSHOT))? {
                let found = fs::symlink_metadata(&from).with_context(|| format!("look at {}", from.display()))?;
                if found.is_file() {
                    let file = from.file_name().unwrap_or_default().to_string_lossy();
                    let size = found.len();
                    bytes += size;
                    sources.push(Source { path: format!("{keyspace}/{name}/{file}"), from, size });
                }
            }
        }
    }
    Ok((sources, bytes))
}

/// Removes what is left of snapshots below a server's data directory. They are links to files that the server has, or has no more.
///
/// # Errors
/// When one cannot be removed.
pub(in super::super) fn clear(data: &Path) -> Result<()> {
    for keyspace in entries(data)? {
        for table in entries(&keyspace)? {
            remove(&table.join(SNAPSHOTS).join(SNAPSHOT))?;
        }
    }
    Ok(())
}

/// Paths in a directory, in their order; none if there is no such directory.
pub(super) fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let list = || -> io::Result<Vec<PathBuf>> { fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect() };
    match list() {
        Ok(mut paths) => {
            paths.sort();
            Ok(paths)
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("read {}", directory.display())),
    }
}

/// Removes a directory with everything in it. Links in it go, and what they lead to stays.
pub(super) fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

/// Directories with files in them, and those that they are in.
fn directories(part: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for keyspace in entries(part)? {
        for table in entries(&keyspace)? {
            all.push(table);
        }
        all.push(keyspace);
    }
    all.retain(|path| path.is_dir());
    Ok(all)
}

fn sync(directory: &Path) -> Result<()> {
    atomic::sync_directory(directory).with_context(|| format!("write {}", directory.display()))
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    pub(in super::super) fn backup() -> Backup {
        Backup { namespace: "tf".into(), ring: "configdb1".into(), name: "first".into() }
    }

    pub(in super::super) fn request() -> Request {
        Request {
            of: backup(),
            resource: "uid".into(),
            member: 2,
            members: BTreeMap::from([(1, "cp1".into()), (2, "cp2".into())]),
            release: "5.0.9".into(),
            keyspaces: BTreeMap::from([("lab".into(), true)]),
        }
    }

    /// A volume, and the data of a server with a snapshot.
    pub(in super::super) fn server() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let (volume, data) = (root.path().join("volume"), root.path().join("data"));
        fs::create_dir(&volume).unwrap();
        let put = |path: &str, text: &str| {
            let path = data.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("lab/journal-1a/nb-2-big-Data.db", "rows that came later");
        put("lab/journal-1a/snapshots/tf-backup/nb-1-big-Data.db", "rows");
        put(
            "lab/journal-1a/snapshots/tf-backup/schema.cql",
            "CREATE TABLE IF NOT EXISTS lab.journal (n int PRIMARY KEY);",
        );
        put("lab/journal-1a/snapshots/tf-backup/.index/nb-1-big-Data.db", "an index");
        put("lab/journal-1a/snapshots/other/nb-1-big-Data.db", "somebody else's");
        put("lab/view-1b/snapshots/tf-backup/schema.cql", "CREATE MATERIALIZED VIEW IF NOT EXISTS lab.view;");
        put("other/t-1c/snapshots/tf-backup/nb-1-big-Data.db", "not asked for");
        (root, volume, data)
    }

    #[test]
    fn a_folder_has_the_snapshots_of_the_keyspaces_that_were_asked_for_and_is_written_once() {
        let (_root, volume, data) = server();
        let saved = write(&volume, &data, &request()).unwrap();
        let folder = volume.join("tf/configdb1/first/2");
        let sums = fs::read_to_string(folder.join(SUMS)).unwrap();
        let files: Vec<&str> = sums.lines().map(|line| &line[66..]).collect();
        assert_eq!(files, ["lab/journal-1a/nb-1-big-Data.db", "lab/journal-1a/schema.cql", "lab/view-1b/schema.cql"]);
        assert_eq!(saved.bytes, manifest(&folder).unwrap().bytes);
        fs::write(data.join("lab/journal-1a/snapshots/tf-backup/nb-3-big-Data.db"), "more").unwrap();
        assert_eq!(write(&volume, &data, &request()).unwrap(), saved);
        let others: [fn(&mut Request); 2] =
            [|it| it.resource = "another".into(), |it| drop(it.members.insert(3, "cp3".into()))];
        for change in others {
            let mut other = request();
            change(&mut other);
            let why = write(&volume, &data, &other).unwrap_err().to_string();
            assert!(why.contains("choose another name"), "{why}");
        }
    }

    #[test]
    fn what_was_cut_short_is_no_backup_and_is_done_anew() {
        let (_root, volume, data) = server();
        let part = volume.join("tf/configdb1/first/.2.part");
        fs::create_dir_all(part.join("lab/journal-1a")).unwrap();
        fs::write(part.join("lab/journal-1a/nb-1-big-Data.db"), "ro").unwrap();
        write(&volume, &data, &request()).unwrap();
        let folder = volume.join("tf/configdb1/first/2");
        assert!(!part.exists());
        assert_eq!(fs::read_to_string(folder.join("lab/journal-1a/nb-1-big-Data.db")).unwrap(), "rows");
        // A folder without a manifest is not ours to remove.
        fs::remove_file(folder.join(MANIFEST)).unwrap();
        assert!(format!("{:#}", write(&volume, &data, &request()).unwrap_err()).contains("choose another name"));
    }

    #[test]
    fn a_link_leads_nowhere_and_a_volume_that_is_not_there_is_told() {
        let (root, volume, data) = server();
        let elsewhere = root.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, volume.join("tf")).unwrap();
        assert!(write(&volume, &data, &request()).unwrap_err().to_string().contains("is not a directory"));
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
        let why = write(&root.path().join("none"), &data, &request()).unwrap_err().to_string();
        assert!(why.contains("no backup volume is mounted"), "{why}");
    }

    #[test]
    fn snapshots_are_removed_and_nobody_elses() {
        let (_root, _, data) = server();
        clear(&data).unwrap();
        let left = |path: &str| data.join(path).exists();
        assert!(!left("lab/journal-1a/snapshots/tf-backup") && !left("other/t-1c/snapshots/tf-backup"));
        assert!(left("lab/journal-1a/snapshots/other") && left("lab/journal-1a/nb-2-big-Data.db"));
        clear(&data.join("none")).unwrap();
    }
}
