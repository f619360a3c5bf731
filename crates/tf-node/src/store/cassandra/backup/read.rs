//! Reading folders: what there is, and its files beside the server that takes them in.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use tf_agent_api::cassandra::backup::{Backup, Folder, Found};

use super::{
    DATA, FORMAT, MANIFEST, Manifest, SCHEMA, SUMS, Sum, copy, directory, hash, make_directory, make_sure_of_room,
    read_small, table_of,
    write::{entries, remove},
};

/// Where files are that the server takes in, in its data directory: it moves them.
pub(in super::super) const STAGING: &str = "restoring";

/// Files of a table that the server can take in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Table {
    /// Its keyspace.
    pub(in super::super) keyspace: String,
    /// Its name.
    pub(in super::super) name: String,
    /// Where they are.
    pub(in super::super) path: PathBuf,
}

impl Table {
    /// Whether data is there that was not taken in.
    pub(in super::super) fn has_data(&self) -> Result<bool> {
        Ok(entries(&self.path)?.iter().any(|path| path.to_string_lossy().ends_with(DATA)))
    }
}

/// What a folder says of itself.
///
/// # Errors
/// When it is no complete folder, or of a form that is not known.
pub(super) fn manifest(folder: &Path) -> Result<Manifest> {
    let path = folder.join(MANIFEST);
    let bytes = read_small(&path).with_context(|| format!("{} is no complete backup", folder.display()))?;
    let manifest: Manifest = serde_json::from_slice(&bytes).with_context(|| damaged(&path))?;
    let format = manifest.format;
    ensure!(format == FORMAT, "{} is of form {format}, which this release does not know", folder.display());
    Ok(manifest)
}

fn damaged(path: &Path) -> String {
    format!("{} is damaged", path.display())
}

/// Looks for a backup.
pub(in super::super) fn find(volume: &Path, of: &Backup) -> Found {
    let mut found = Found { of: of.clone(), at: Timestamp::now(), folders: [].into(), trouble: None };
    let paths = directory(volume, of).and_then(|directory| entries(&directory));
    let paths = paths.unwrap_or_else(|error| {
        found.trouble = Some(format!("{error:#}"));
        Vec::new()
    });
    for path in paths {
        let number = path.file_name().and_then(|name| name.to_str()?.parse().ok());
        // Others are half done, or nobody knows what.
        let Some(number) = number else { continue };
        match whole(&path, of, number) {
            Ok((Manifest { resource, members, .. }, _)) => {
                drop(found.folders.insert(number, Folder { resource, members }));
            }
            Err(error) => found.trouble = Some(format!("{error:#}")),
        }
    }
    found
}

/// What a folder of a backup says of itself, with the files that it is to have.
pub(super) fn whole(folder: &Path, of: &Backup, number: u32) -> Result<(Manifest, Vec<Sum>)> {
    let is_directory = fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir());
    ensure!(is_directory, "{} is not a directory", folder.display());
    let manifest = manifest(folder)?;
    let (says, member) = (&manifest.of, manifest.member);
    ensure!(says.name == of.name && member == number, "{}: its manifest is of another one", folder.display());
    ensure!(manifest.members.contains_key(&number), damaged(&folder.join(MANIFEST)));
    let path = folder.join(SUMS);
    let bytes = read_small(&path)?;
    ensure!(hash(&bytes) == manifest.sums, damaged(&path));
    let text = String::from_utf8(bytes).with_context(|| damaged(&path))?;
    let sums = text.lines().map(parse).collect::<Option<_>>().with_context(|| damaged(&path))?;
    Ok((manifest, sums))
}

/// The list of checksums.
pub(super) fn render(sums: &[Sum]) -> String {
    let lines = sums.iter().map(|Sum { hash, path }| [hash.as_str(), "  ", path.as_str(), "\n"].concat());
    lines.collect()
}

/// A line of it that names a file of a table and nothing else.
fn parse(line: &str) -> Option<Sum> {
    let (hash, path) = line.split_once("  ")?;
    let is_name = |part: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
        !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_plain)
    };
    let is_file = path.split('/').count() == 3 && path.split('/').all(is_name);
    is_file.then(|| Sum { hash: hash.to_owned(), path: path.to_owned() })
}

/// Reads a small file of a folder, if it is as it was.
pub(super) fn read_file(folder: &Path, sum: &Sum) -> Result<Vec<u8>> {
    let path = folder.join(&sum.path);
    let bytes = read_small(&path)?;
    ensure!(hash(&bytes) == sum.hash, damaged(&path));
    Ok(bytes)
}

/// Copies the files of a folder to where the server can take them in, in the place of what is left of an earlier attempt. Gives back the tables that have
/// data.
///
/// # Errors
/// When a file is missing or damaged, with its name, or there is no room.
pub(in super::super) fn stage(volume: &Path, of: &Backup, number: u32, data: &Path) -> Result<Vec<Table>> {
    let folder = directory(volume, of)?.join(number.to_string());
    let (manifest, sums) = whole(&folder, of, number)?;
    let staging = data.join(STAGING);
    remove(&staging)?;
    make_sure_of_room(data, data, manifest.bytes)?;
    let staging = staging.join(number.to_string());
    for sum in sums.iter().filter(|sum| !is_description(&sum.path)) {
        let (from, to) = (folder.join(&sum.path), staging.join(&sum.path));
        to.parent().map_or(Ok(()), make_directory)?;
        let (_, hash) = copy(&from, &to)?;
        ensure!(hash == sum.hash, damaged(&from));
    }
    let with_data = sums.iter().filter(|sum| sum.path.ends_with(DATA));
    let directories: BTreeSet<&str> = with_data.filter_map(|sum| Some(sum.path.rsplit_once('/')?.0)).collect();
    let table = |directory: &str| {
        let (keyspace, name) = directory.split_once('/')?;
        let (keyspace, name) = (keyspace.to_owned(), table_of(name)?.to_owned());
        Some(Table { keyspace, name, path: staging.join(directory) })
    };
    directories.into_iter().map(table).collect::<Option<_>>().with_context(|| damaged(&folder.join(SUMS)))
}

/// Whether a file describes a snapshot and is none of its data.
fn is_description(path: &str) -> bool {
    path.ends_with(&format!("/{SCHEMA}")) || path.ends_with("/manifest.json")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::{
        super::write::{
            tests::{backup, request, server},
            write,
        },
        *,
    };

    /// A volume with a folder, and the data directory of a new server.
    fn written() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let (root, volume, data) = server();
        write(&volume, &data, &request()).unwrap();
        let new = root.path().join("new");
        fs::create_dir(&new).unwrap();
        (root, volume, new)
    }

    #[test]
    fn what_was_written_is_found_and_staged_and_what_is_half_done_is_not() {
        let (_root, volume, data) = written();
        let parent = volume.join("tf/configdb1/first");
        fs::create_dir(parent.join(".3.part")).unwrap();
        fs::create_dir(parent.join("lost+found")).unwrap();
        let found = find(&volume, &backup());
        assert_eq!((found.folders.keys().collect::<Vec<_>>(), found.trouble), (vec![&2], None));
        fs::create_dir_all(data.join("restoring/9/lab")).unwrap();
        let tables = stage(&volume, &backup(), 2, &data).unwrap();
        let path = data.join("restoring/2/lab/journal-1a");
        assert_eq!(tables, [Table { keyspace: "lab".into(), name: "journal".into(), path: path.clone() }]);
        assert!(tables[0].has_data().unwrap() && !data.join("restoring/9").exists());
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "the data alone");
        fs::remove_file(path.join("nb-1-big-Data.db")).unwrap();
        assert!(!tables[0].has_data().unwrap());
    }

    #[test]
    fn a_volume_or_a_backup_that_is_not_there_is_no_folder() {
        let (root, volume, _) = written();
        let other = Backup { name: "second".into(), ..backup() };
        assert_eq!((find(&volume, &other).folders.len(), find(&volume, &other).trouble), (0, None));
        let trouble = find(&root.path().join("none"), &backup()).trouble.unwrap();
        assert!(trouble.contains("no backup volume is mounted"), "{trouble}");
    }

    /// Why a folder with which this was done is not taken in.
    fn refused(damage: impl FnOnce(&Path)) -> String {
        let (_root, volume, data) = written();
        damage(&volume.join("tf/configdb1/first/2"));
        let staged = stage(&volume, &backup(), 2, &data);
        format!("{:#}", staged.unwrap_err())
    }

    #[test]
    fn a_file_that_is_damaged_missing_or_a_link_is_refused_by_its_name() {
        const FILE: &str = "lab/journal-1a/nb-1-big-Data.db";
        assert!(refused(|it| fs::write(it.join(FILE), "rowz").unwrap()).contains("nb-1-big-Data.db is damaged"));
        assert!(refused(|it| fs::remove_file(it.join(FILE)).unwrap()).contains("nb-1-big-Data.db"));
        let linked = refused(|it| {
            fs::rename(it.join(FILE), it.join("rows")).unwrap();
            symlink(it.join("rows"), it.join(FILE)).unwrap();
        });
        assert!(linked.contains("nb-1-big-Data.db"), "{linked}");
        assert!(refused(|it| fs::write(it.join(SUMS), "").unwrap()).contains("SHA256SUMS is damaged"));
        assert!(refused(|it| fs::write(it.join(MANIFEST), "{").unwrap()).contains("manifest.json is damaged"));
        assert!(refused(|it| fs::remove_file(it.join(MANIFEST)).unwrap()).contains("is no complete backup"));
    }

    #[test]
    fn a_folder_under_the_number_of_another_member_is_told() {
        let (_root, volume, _) = written();
        let parent = volume.join("tf/configdb1/first");
        fs::rename(parent.join("2"), parent.join("1")).unwrap();
        let found = find(&volume, &backup());
        assert!(found.folders.is_empty() && found.trouble.unwrap().contains("/1: its manifest is of another one"));
    }

    #[test]
    fn a_list_that_names_what_is_not_in_the_folder_is_not_believed() {
        let sum = |path: &str| parse(&format!("00  {path}"));
        assert!(sum("lab/t-1/nb-1-big-Data.db").is_some() && sum("lab/t-1/nb-1-big-SAI+aa+Meta.db").is_some());
        for path in ["../t-1/a", "/lab/t-1/a", "lab/t-1", "lab/t-1/.hidden", "lab/t-1/a/b", "lab//a", "lab/t 1/a"] {
            assert_eq!(sum(path), None, "{path}");
        }
    }
}
