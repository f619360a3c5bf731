//! What is beside a Cassandra server's data, and what becomes of data of a member that left the ring.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use tf_agent_api::{
    cassandra::{
        SERVED_FILE,
        backup::{Restored, Saved},
    },
    launch,
    release::CASSANDRA,
};
use tf_host::atomic;

use super::{
    super::{
        line,
        owner::{self, OWNER, exists},
    },
    backup, founds, image,
};
use crate::{log, paths::Paths, set::Set};

/// Keyspaces that were repaired, each with the number of members that its rows were to be on.
const REPAIRED: &str = ".tf-repaired";
/// Keyspaces that were repaired, each with when that ended.
const REPAIRED_AT: &str = ".tf-repaired-at";
/// Folders of backups that were written.
const BACKUPS: &str = ".tf-backups";
/// Newest ones of them that are noted.
const NOTED_BACKUPS: usize = 10;
/// What was taken in of a backup.
const RESTORED: &str = ".tf-restored";
/// Where the member has left the ring with this data.
const LEFT: &str = ".tf-left";
/// Among the states of the pod's daemons, where the server has served in this pod.
const SERVED: &str = "served";
/// Beside it, where the server was started last with data that none had served with.
const BEGUN: &str = "begun";
/// Beside it, of whom the data was that the server fetched in this pod, and whose it is.
const RENUMBERED: &str = "renumbered";
/// Where the server has its keyspaces.
const KEYSPACES: &str = "data";
/// Where data of a former member is. One generation is kept.
const FORMER: &str = "former";
/// The same while it is being moved.
const MOVING: &str = "former.part";
/// Of the file system itself.
const LOST_AND_FOUND: &str = "lost+found";

/// What was noted by [`note_repaired`].
pub(super) fn repaired(data: &Path) -> BTreeMap<String, u32> {
    noted(data, REPAIRED)
}

/// What was noted by [`note_repaired_at`].
pub(super) fn repaired_at(data: &Path) -> BTreeMap<String, Timestamp> {
    noted(data, REPAIRED_AT)
}

/// Notes that a keyspace was repaired when each of its rows was to be on so many members.
pub(super) fn note_repaired(data: &Path, keyspace: &str, factor: u32) -> Result<()> {
    note(data, REPAIRED, keyspace, factor)
}

/// Notes when a keyspace was repaired.
pub(super) fn note_repaired_at(data: &Path, keyspace: &str, now: Timestamp) -> Result<()> {
    note(data, REPAIRED_AT, keyspace, now)
}

/// What was noted by [`note_backup`].
pub(super) fn backups(data: &Path) -> BTreeMap<String, Saved> {
    noted(data, BACKUPS)
}

/// Notes that a folder of a backup was written.
pub(super) fn note_backup(data: &Path, name: &str, saved: Saved) -> Result<()> {
    let mut all = backups(data);
    all.insert(name.to_owned(), saved);
    while let Some(oldest) = all.iter().min_by_key(|(_, saved)| saved.at).map(|(name, _)| name.clone())
        && all.len() > NOTED_BACKUPS
    {
        all.remove(&oldest);
    }
    Ok(atomic::replace(&data.join(BACKUPS), &serde_json::to_vec(&all)?, 0o644)?)
}

/// What was noted by [`note_restored`].
pub(super) fn restored(data: &Path) -> Option<Restored> {
    fs::read(data.join(RESTORED)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok())
}

/// Notes what was taken in of a backup. It outlives a power failure: whoever does not know of it takes keyspaces for those of clients.
pub(super) fn note_restored(data: &Path, restored: &Restored) -> Result<()> {
    atomic::write(&data.join(RESTORED), &serde_json::to_vec(restored)?, 0o644)?;
    atomic::sync_directory(data).with_context(|| format!("write {}", data.display()))
}

/// Where the server has its keyspaces.
pub(super) fn keyspaces(data: &Path) -> PathBuf {
    data.join(KEYSPACES)
}

fn noted<T: DeserializeOwned>(data: &Path, file: &str) -> BTreeMap<String, T> {
    // What cannot be read is done again.
    fs::read(data.join(file)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

fn note<T: DeserializeOwned + Serialize>(data: &Path, file: &str, keyspace: &str, value: T) -> Result<()> {
    let mut all = noted(data, file);
    all.insert(keyspace.to_owned(), value);
    Ok(atomic::replace(&data.join(file), &serde_json::to_vec(&all)?, 0o644)?)
}

/// Whether the server has served with this data.
pub(super) fn has_served(data: &Path) -> bool {
    data.join(SERVED_FILE).exists()
}

/// Notes that the server has served with this data. Where its owner is not noted ([`prepare`]) the data is not what the server was started with: the
/// disk was emptied beside it. What cannot be written is tried again at the next look.
///
/// A server that was struck off while it had nothing may have joined since, as the member that it was: the ring has it with what it fetched, which is that of the
/// member that is recorded in its place now. `recorded`: who that is.
pub(super) fn note_served(data: &Path, paths: &Paths, recorded: impl FnOnce() -> Option<String>) {
    if owner::of(data).is_none() {
        return;
    }
    let [served, begun] = [SERVED, BEGUN].map(|file| paths.state_dir().join(file));
    if begun.exists()
        && !served.exists()
        && let Some(member) = recorded()
    {
        owner::renumber(&member, data, &paths.state_dir().join(RENUMBERED));
    }
    // Somebody had it come back (`cassandra.override_decommission`).
    let _ = fs::remove_file(data.join(LEFT));
    for file in [data.join(SERVED_FILE), served].into_iter().filter(|file| !file.exists()) {
        let _ = atomic::replace(&file, b"", 0o644);
    }
}

/// Notes whether the server is started with data that none has served with.
fn note_begun(data: &Path, paths: &Paths) -> Result<()> {
    let begun = paths.state_dir().join(BEGUN);
    if !has_served(data) {
        return Ok(atomic::replace(&begun, b"", 0o644)?);
    }
    if exists(&begun)? {
        fs::remove_file(&begun).with_context(|| format!("remove {}", begun.display()))?;
    }
    Ok(())
}

/// Fails if the data that a founder has served with is gone: it would be back in the ring without, as a seed of its own.
fn has_what_it_served_with(data: &Path, set: &Set, paths: &Paths) -> Result<()> {
    let is_gone = founds(&set.launch) && paths.state_dir().join(SERVED).exists() && !has_served(data);
    let directory = data.display();
    ensure!(
        !is_gone,
        "{directory} was emptied after the server had been ready; it starts again with other files, or in another pod"
    );
    Ok(())
}

/// Notes that the member has left the ring, and handed over what it holds. No server starts with such data (`This node was decommissioned`).
pub(super) fn note_left(data: &Path) -> Result<()> {
    Ok(atomic::replace(&data.join(LEFT), b"", 0o644)?)
}

/// What was noted by [`note_left`].
pub(super) fn has_left(data: &Path) -> bool {
    data.join(LEFT).exists()
}

/// Whether the server joined a ring with this data.
pub(super) fn joined(data: &Path) -> bool {
    data.join(launch::begun(SERVED_FILE)).exists()
}

/// Puts aside what belongs to a member that left the ring.
///
/// # Errors
/// When a file cannot be moved, or the server must not have the data.
pub fn prepare(data: &Path, set: &Set, paths: &Paths) -> Result<()> {
    has_what_it_served_with(data, set, paths)?;
    // Of an agent that was stopped while it made a backup. They keep files that the server has no more.
    if let Err(error) = backup::clear(&keyspaces(data)) {
        log::warn("a snapshot was not removed", &json!({"error": format!("{error:#}")}));
    }
    if !owner::is_renumbered(set, data, &paths.state_dir().join(RENUMBERED)) {
        owner::claim(set, data, put_aside)?;
    }
    note_begun(data, paths)?;
    line::may_start(&CASSANDRA, data, image::version().as_deref())
}

/// Moves everything, and goes on where it was stopped before.
fn put_aside(data: &Path) -> Result<()> {
    let (moving, former) = (data.join(MOVING), data.join(FORMER));
    let entries = entries(data)?;
    if entries.is_empty() && !exists(&moving)? {
        return Ok(());
    }
    fs::create_dir_all(&moving).with_context(|| format!("create {}", moving.display()))?;
    for entry in entries {
        let target = moving.join(entry.file_name().unwrap_or_default());
        fs::rename(&entry, target).with_context(|| format!("rename {}", entry.display()))?;
    }
    if exists(&former)? {
        fs::remove_dir_all(&former).with_context(|| format!("remove {}", former.display()))?;
    }
    fs::rename(&moving, &former).with_context(|| format!("rename {}", moving.display()))?;
    atomic::sync_directory(data).with_context(|| format!("write {}", data.display()))?;
    log::info("put the data of a former member aside", &json!({"directory": former}));
    Ok(())
}

fn entries(data: &Path) -> Result<Vec<PathBuf>> {
    const STAY: [&str; 4] = [OWNER, FORMER, MOVING, LOST_AND_FOUND];
    let stays = |path: &PathBuf| path.file_name().is_some_and(|name| STAY.iter().any(|it| name == OsStr::new(it)));
    let all: std::io::Result<Vec<PathBuf>> =
        fs::read_dir(data).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let all = all.with_context(|| format!("read {}", data.display()))?;
    Ok(all.into_iter().filter(|path| !stays(path)).collect())
}

#[cfg(test)]
mod tests {
    use tf_agent_api::{
        launch::{Launch, OnChange, Place, When},
        node::{MEMBER_FILE, OTHER_MEMBERS_FILE},
    };

    use super::*;
    use crate::set::tests::content;

    #[test]
    fn repairs_are_noted_by_keyspace_and_nonsense_counts_for_none() {
        let root = tempfile::tempdir().unwrap();
        note_repaired(root.path(), "a", 2).unwrap();
        note_repaired(root.path(), "b", 3).unwrap();
        note_repaired(root.path(), "a", 3).unwrap();
        assert_eq!(repaired(root.path()), BTreeMap::from([("a".into(), 3), ("b".into(), 3)]));
        fs::write(root.path().join(REPAIRED), "{").unwrap();
        assert_eq!(repaired(root.path()), BTreeMap::new());
    }

    #[test]
    fn a_server_has_served_with_what_it_was_started_with_and_not_with_what_came_in_its_place() {
        let root = tempfile::tempdir().unwrap();
        let (paths, data) = (Paths::below(root.path()), root.path().join("data"));
        let set = |place: Vec<Place>| {
            let text = Launch { place, ..Launch::new(vec!["d".into()]) }.render().unwrap();
            Set::select(&content(&[("d.launch", text.as_bytes()), ("conf", b"")]), "d", "n").unwrap()
        };
        let new = When::New { served: "/data/.tf-served".into() };
        let joining = set(vec![Place { file: "conf".into(), to: "/data/conf".into(), when: new, private: false }]);
        let founding = set(Vec::new());
        fs::create_dir_all(paths.state_dir()).unwrap();
        fs::create_dir(&data).unwrap();
        prepare(&data, &founding, &paths).unwrap();
        note_served(&data, &paths, || None);
        assert!(!has_served(&data), "the disk was emptied beside it");
        owner::belongs_to("a/1", &[], &data, put_aside).unwrap();
        note_served(&data, &paths, || None);
        assert!(has_served(&data));
        prepare(&data, &founding, &paths).unwrap();
        fs::remove_dir_all(&data).unwrap();
        fs::create_dir(&data).unwrap();
        note_served(&data, &paths, || None);
        assert!(!has_served(&data));
        let why = prepare(&data, &founding, &paths).unwrap_err().to_string();
        assert!(why.contains("was emptied after the server had been ready"), "{why}");
        prepare(&data, &joining, &paths).unwrap();
    }

    #[test]
    fn data_that_a_server_fetched_is_that_of_the_member_that_is_recorded_when_it_serves_first() {
        let root = tempfile::tempdir().unwrap();
        let (paths, data) = (Paths::below(root.path()), root.path().join("data"));
        let set = |member: &str| {
            let mut launch = Launch::new(vec!["d".into()]);
            launch.files = [MEMBER_FILE, OTHER_MEMBERS_FILE].map(|file| (file.to_owned(), OnChange::Nothing)).into();
            let text = launch.render().unwrap();
            let files =
                [("d.launch", text.as_bytes()), (MEMBER_FILE, member.as_bytes()), (OTHER_MEMBERS_FILE, b"1\n2")];
            Set::select(&content(&files), "d", "n").unwrap()
        };
        fs::create_dir_all(paths.state_dir()).unwrap();
        fs::create_dir(&data).unwrap();
        prepare(&data, &set("a/3"), &paths).unwrap();
        fs::write(data.join("rows"), "").unwrap();
        // It is struck off, and another one is recorded on its node, while it joins.
        note_served(&data, &paths, || Some("a/4".into()));
        assert_eq!(owner::of(&data), Some(4));
        // It is started again before it is told to take the files of this one.
        prepare(&data, &set("a/3"), &paths).unwrap();
        assert!(data.join("rows").exists() && owner::of(&data) == Some(4));
        // From now on the data is that of this one.
        note_served(&data, &paths, || Some("a/5".into()));
        prepare(&data, &set("a/4"), &paths).unwrap();
        note_served(&data, &paths, || Some("a/5".into()));
        assert!(data.join("rows").exists() && owner::of(&data) == Some(4));
        // In another pod, too: it was not begun with there.
        fs::remove_dir_all(paths.state_dir()).unwrap();
        fs::create_dir_all(paths.state_dir()).unwrap();
        prepare(&data, &set("a/4"), &paths).unwrap();
        note_served(&data, &paths, || Some("a/5".into()));
        assert_eq!(owner::of(&data), Some(4));
        prepare(&data, &set("a/5"), &paths).unwrap();
        assert!(!data.join("rows").exists() && owner::of(&data) == Some(5));
        // Never that of another resource.
        note_served(&data, &paths, || Some("b/6".into()));
        assert_eq!(owner::of(&data), Some(5));
    }

    #[test]
    fn the_newest_backups_are_noted() {
        let root = tempfile::tempdir().unwrap();
        let saved = |second| Saved {
            resource: "uid".into(),
            at: Timestamp::from_second(second).unwrap(),
            bytes: second.unsigned_abs(),
        };
        for second in (0..15).rev() {
            note_backup(root.path(), &format!("b{second}"), saved(second)).unwrap();
        }
        let kept = backups(root.path());
        assert_eq!(kept.len(), NOTED_BACKUPS);
        assert_eq!((kept.get("b14"), kept.get("b4")), (Some(&saved(14)), None));
    }

    #[test]
    fn data_of_a_member_that_left_is_put_aside_as_a_whole_also_when_that_was_cut_short() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path();
        let write = |file: &str, text: &str| {
            fs::create_dir_all(data.join(file).parent().unwrap()).unwrap();
            fs::write(data.join(file), text).unwrap();
        };
        let read = |file: &str| fs::read_to_string(data.join(file)).ok();
        write("data/t/1", "of the first");
        write(SERVED_FILE, "");
        note_left(data).unwrap();
        for member in ["a/1", "b/1", "b/1"] {
            owner::belongs_to(member, &[], data, put_aside).unwrap();
            assert!(read("data/t/1").is_some() && has_served(data) && has_left(data), "{member}");
        }
        // A part of it has been moved.
        write("former.part/commitlog/1", "of the first");
        write("former/data/t/1", "of an older one");
        assert_eq!(owner::of(data), Some(1));
        owner::belongs_to("b/2", &[], data, put_aside).unwrap();
        assert_eq!(owner::of(data), Some(2));
        assert_eq!(read("former/data/t/1").as_deref(), Some("of the first"));
        assert_eq!(read("former/commitlog/1").as_deref(), Some("of the first"));
        assert!(read("data/t/1").is_none() && !has_served(data) && !has_left(data));
        // Of a member that is on another node nothing is touched.
        let why = owner::belongs_to("b/3", &["1", "2"], data, put_aside).unwrap_err().to_string();
        assert!(why.starts_with("its volume has the data of member 2, which is on another node"), "{why}");
        assert_eq!(owner::of(data), Some(2));
        // Nothing takes the place of the only copy.
        write(OWNER, "b/1");
        owner::belongs_to("b/2", &[], data, put_aside).unwrap();
        assert_eq!(read("former/data/t/1").as_deref(), Some("of the first"));
    }
}
