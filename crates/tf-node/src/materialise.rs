//! The directory that a daemon reads, switched from one set of files to the next in one step.
//!
//! ```text
//! /etc/contrail/zoo.cfg              -> ..data/zoo.cfg
//! /etc/contrail/..data               -> ..set-7
//! /etc/contrail/..set-7/zoo.cfg
//! /etc/contrail/..set-7/..manifest      the hash of the member's content, and of what is here
//! ```
//!
//! As the kubelet does it with volumes: a set is written completely to a new directory, made durable, and then `..data` is
//! replaced. On an error, a full disk say, the old set is as it was. Other files of the directory are left alone.

use std::{
    collections::BTreeMap,
    fs, io,
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use tf_agent_api::content::{ContentHash, content_hash};
use tf_host::atomic;

use crate::set::{File, Set};

const DATA: &str = "..data";
const NEW_LINK: &str = "..data-new";
const PREFIX: &str = "..set-";
const MANIFEST: &str = "..manifest";
/// Owner and group: a daemon that gives up being root keeps its group.
const SECRET_MODE: u32 = 0o640;
const OPEN_MODE: u32 = 0o644;

/// What is in a set's directory.
#[derive(Serialize, Deserialize)]
struct Manifest {
    /// The member's content.
    content: ContentHash,
    /// The files here, to tell a set that a power failure damaged.
    files: ContentHash,
    /// Names of the files, and whether each holds a secret.
    names: BTreeMap<String, bool>,
}

/// The directory.
#[derive(Clone, Debug)]
pub struct RunDir(PathBuf);

/// A set that is written and not yet read by anybody. Dropping it removes it.
#[derive(Debug)]
pub struct Staged {
    directory: PathBuf,
    switched: bool,
    /// What it holds.
    pub set: Set,
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.switched {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

impl RunDir {
    /// The directory at this path.
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// The set that is there; none if there never was one.
    ///
    /// # Errors
    /// When there is one and it is damaged.
    pub fn load(&self, daemon: &str) -> Result<Option<Set>> {
        let directory = match fs::read_link(self.0.join(DATA)) {
            Ok(target) => self.0.join(target),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("read {}", self.0.join(DATA).display())),
        };
        let set = load(&directory, daemon).with_context(|| format!("{} is damaged", directory.display()))?;
        Ok(Some(set))
    }

    /// Writes a set beside the one that is read.
    pub fn stage(&self, set: Set) -> Result<Staged> {
        let directory = self.0.join(format!("{PREFIX}{}", self.next_number()?));
        let context = || format!("write {}", directory.display());
        // What would make the switch fail is found out now, while the daemon still runs.
        for name in set.files.keys() {
            let path = self.0.join(name);
            ensure!(
                !fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()),
                "{} is a directory",
                path.display()
            );
        }
        let staged = Staged { directory: directory.clone(), switched: false, set };
        fs::create_dir(&directory).with_context(context)?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).with_context(context)?;
        for (name, file) in &staged.set.files {
            let mode = if file.secret { SECRET_MODE } else { OPEN_MODE };
            write(&directory.join(name), &file.bytes, mode).with_context(context)?;
        }
        let manifest = Manifest {
            content: staged.set.hash.clone(),
            files: digest(&staged.set.files),
            names: staged.set.files.iter().map(|(name, file)| (name.clone(), file.secret)).collect(),
        };
        let manifest = serde_json::to_vec(&manifest).with_context(context)?;
        write(&directory.join(MANIFEST), &manifest, OPEN_MODE).with_context(context)?;
        atomic::sync_directory(&directory).with_context(context)?;
        Ok(staged)
    }

    /// Makes a set the one that is read.
    pub fn switch(&self, mut staged: Staged) -> Result<Set> {
        let context = || format!("switch {}", self.0.display());
        // Before the switch they lead to the old set or nowhere, after it to the new one.
        for name in staged.set.files.keys() {
            self.link(name).with_context(context)?;
        }
        let target = staged.directory.file_name().map(PathBuf::from).unwrap_or_default();
        self.replace_link(DATA, NEW_LINK, &target).with_context(context)?;
        staged.switched = true;
        let set = staged.set.clone();
        // What stays behind is removed by the next switch.
        let _ = atomic::sync_directory(&self.0);
        let _ = self.tidy(&set, &target);
        Ok(set)
    }

    fn next_number(&self) -> Result<u64> {
        fs::create_dir_all(&self.0).with_context(|| format!("create {}", self.0.display()))?;
        let entries = fs::read_dir(&self.0).with_context(|| format!("list {}", self.0.display()))?;
        let number = |name: &str| name.strip_prefix(PREFIX)?.parse::<u64>().ok();
        let numbers = entries.flatten().filter_map(|entry| number(entry.file_name().to_str()?));
        Ok(numbers.max().unwrap_or(0) + 1)
    }

    fn link(&self, name: &str) -> io::Result<()> {
        let target = Path::new(DATA).join(name);
        if fs::read_link(self.0.join(name)).is_ok_and(|present| present == target) {
            return Ok(());
        }
        // An image may bring a file of this name.
        self.replace_link(name, &format!("..link-{name}"), &target)
    }

    fn replace_link(&self, name: &str, temporary: &str, target: &Path) -> io::Result<()> {
        let temporary = self.0.join(temporary);
        let _ = fs::remove_file(&temporary);
        symlink(target, &temporary)?;
        fs::rename(&temporary, self.0.join(name)).inspect_err(|_| drop(fs::remove_file(&temporary)))
    }

    /// Removes earlier sets, and links to files that are no more.
    fn tidy(&self, set: &Set, current: &Path) -> io::Result<()> {
        for entry in fs::read_dir(&self.0)?.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let path = entry.path();
            if name.starts_with(PREFIX) && Path::new(name) != current {
                fs::remove_dir_all(path)?;
            } else if !set.files.contains_key(name)
                && fs::read_link(&path).is_ok_and(|target| target == Path::new(DATA).join(name))
            {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

fn load(directory: &Path, daemon: &str) -> Result<Set> {
    let manifest = fs::read(directory.join(MANIFEST)).context(MANIFEST)?;
    let Manifest { content, files: expected, names } = serde_json::from_slice(&manifest).context(MANIFEST)?;
    let mut files = BTreeMap::new();
    for (name, secret) in names {
        let bytes = fs::read(directory.join(&name)).with_context(|| name.clone())?;
        files.insert(name, File { bytes, secret });
    }
    ensure!(digest(&files) == expected, "its files are not those that were written");
    Set::assemble(content, files, daemon)
}

fn digest(files: &BTreeMap<String, File>) -> ContentHash {
    let bytes: BTreeMap<String, &[u8]> =
        files.iter().map(|(name, file)| (name.clone(), file.bytes.as_slice())).collect();
    content_hash(&bytes)
}

fn write(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let mut file = atomic::create(path, mode)?;
    file.write_all(content)?;
    file.sync_all()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tf_agent_api::launch::{Launch, OnChange};

    use super::*;
    use crate::set::tests::content;

    fn set(files: &[(&str, &str)]) -> Set {
        let mut launch = Launch::new(vec!["d".into()]);
        launch.files = files.iter().map(|(name, _)| ((*name).to_owned(), OnChange::Restart)).collect();
        let launch = launch.render().unwrap();
        let mut all: Vec<(&str, &[u8])> = files.iter().map(|(name, text)| (*name, text.as_bytes())).collect();
        all.push(("d.launch", launch.as_bytes()));
        Set::select(&content(&all), "d", "n").unwrap()
    }

    fn listing(path: &Path) -> Vec<String> {
        let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn a_switch_replaces_files_of_the_image_and_leaves_others_alone() {
        let root = tempfile::tempdir().unwrap();
        let run = RunDir::new(root.path().join("etc"));
        fs::create_dir(root.path().join("etc")).unwrap();
        fs::write(root.path().join("etc/a"), "of the image").unwrap();
        fs::write(root.path().join("etc/other"), "of the image").unwrap();
        assert!(run.load("d").unwrap().is_none());
        run.switch(run.stage(set(&[("a", "1"), ("b", "1")])).unwrap()).unwrap();
        run.switch(run.stage(set(&[("a", "2")])).unwrap()).unwrap();
        assert_eq!(fs::read_to_string(root.path().join("etc/a")).unwrap(), "2");
        assert_eq!(listing(&root.path().join("etc")), ["..data", "..set-2", "a", "d.launch", "other"]);
        let loaded = run.load("d").unwrap().unwrap();
        assert_eq!((loaded.hash, loaded.files["a"].bytes.as_slice()), (set(&[("a", "2")]).hash, b"2".as_slice()));
    }

    #[test]
    fn secrets_are_not_for_everybody() {
        let root = tempfile::tempdir().unwrap();
        let run = RunDir::new(root.path().to_owned());
        let mut set = set(&[("a", "1"), ("s", "1")]);
        set.files.get_mut("s").unwrap().secret = true;
        run.switch(run.stage(set).unwrap()).unwrap();
        let mode = |name: &str| fs::metadata(root.path().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("a"), mode("s")), (0o644, 0o640));
        assert!(run.load("d").unwrap().unwrap().files["s"].secret);
    }

    #[test]
    fn a_set_that_is_not_switched_leaves_nothing_behind() {
        let root = tempfile::tempdir().unwrap();
        let run = RunDir::new(root.path().to_owned());
        drop(run.stage(set(&[("a", "1")])).unwrap());
        assert_eq!(listing(root.path()), Vec::<String>::new());
    }

    #[test]
    fn a_failed_write_leaves_the_old_set() {
        let root = tempfile::tempdir().unwrap();
        let run = RunDir::new(root.path().to_owned());
        run.switch(run.stage(set(&[("a", "1")])).unwrap()).unwrap();
        // A directory in the way of a file is an error for root too.
        fs::create_dir_all(root.path().join("b/c")).unwrap();
        assert!(run.stage(set(&[("a", "2"), ("b", "2")])).is_err());
        assert_eq!(fs::read_to_string(root.path().join("a")).unwrap(), "1");
        assert_eq!(listing(root.path()), ["..data", "..set-1", "a", "b", "d.launch"]);
    }

    #[test]
    fn a_damaged_set_is_noticed() {
        let root = tempfile::tempdir().unwrap();
        let run = RunDir::new(root.path().to_owned());
        run.switch(run.stage(set(&[("a", "1")])).unwrap()).unwrap();
        fs::write(root.path().join("a"), "").unwrap();
        assert!(format!("{:#}", run.load("d").unwrap_err()).contains("not those that were written"));
    }
}
