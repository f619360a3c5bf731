//! Where a lab keeps its state, and how a lab nobody owns any more is found and removed.
//!
//! All labs of a user live below one root, one folder each. A folder holds `lab.json` ([`LabRecord`]), a record per
//! process, logs, keys, the data of etcd and the audit log. Everything in it is readable by its owner only: it holds
//! the keys of the cluster. A folder appears complete (it is filled elsewhere and renamed), and the root is locked
//! while folders come and go, so that any number of programs may start labs at the same time.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::{
    identity::{Identity, stop_all},
    options::Options,
    process,
    real::{cgroup::Group, network::Network},
};

/// How long the processes of a lab as a whole have to end before they are killed. Its data is removed afterwards, so
/// there is nothing worth waiting for.
const TEARDOWN_GRACE: Duration = Duration::from_secs(2);

/// What a folder says about its lab.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabRecord {
    /// Name of the lab, also of the folder.
    pub name: String,
    /// The program that ends the lab when it ends itself. `None`: the lab stays until someone takes it down.
    pub owner: Option<Identity>,
    /// What was asked for.
    pub options: Options,
    /// The network of its real nodes, once there is one.
    #[serde(default)]
    pub network: Option<Network>,
}

/// The folder of one lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Output of the process `name`.
    pub fn log(&self, name: &str) -> PathBuf {
        self.path.join("logs").join(format!("{name}.log"))
    }

    /// Folder of the process records.
    pub fn process_records(&self) -> PathBuf {
        self.path.join("processes")
    }

    /// Record of the process `name`.
    pub fn process_record(&self, name: &str) -> PathBuf {
        self.process_records().join(format!("{name}.json"))
    }

    /// A key or certificate.
    pub fn pki(&self, file: &str) -> PathBuf {
        self.path.join("pki").join(file)
    }

    /// The kubeconfig of `user`; `admin` may do everything.
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.path.join("kubeconfig").join(user)
    }

    /// The API server's audit log, one JSON event per line.
    pub fn audit_log(&self) -> PathBuf {
        self.path.join("audit.log")
    }

    /// The record of the lab.
    pub fn record(&self) -> Result<LabRecord> {
        let path = self.path.join("lab.json");
        let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&bytes).with_context(|| format!("{}", path.display()))
    }

    /// Replaces the record of the lab.
    pub fn write_record(&self, record: &LabRecord) -> Result<()> {
        write_atomically(&self.path.join("lab.json"), &serde_json::to_vec_pretty(record)?)
    }

    fn destroy(&self) -> Result<()> {
        self.end_processes()?;
        fs::remove_dir_all(&self.path).with_context(|| format!("removing {}", self.path.display()))
    }

    /// Ends every recorded process that still is the recorded one, and every process on the lab's machines.
    pub fn end_processes(&self) -> Result<()> {
        let machines = Group::of_lab(&self.path);
        machines.kill()?;
        machines.remove()?;
        let records = process::records(self)?;
        let identities: Vec<&Identity> = records.iter().map(|record| &record.identity).collect();
        stop_all(&identities, TEARDOWN_GRACE)
            .with_context(|| format!("ending the processes of {}", self.path.display()))
    }

    /// A lab's folder without a lab, for tests of what lives in it.
    #[cfg(test)]
    pub(crate) fn create_in(root: &Path, name: &str) -> Result<Self> {
        let record =
            LabRecord { name: name.into(), owner: Some(Identity::own()?), options: Options::api(), network: None };
        create(root, &record)
    }
}

/// The root of all labs of this user: `$TF_LAB_STATE`, else `$XDG_STATE_HOME/tf-lab`, else `~/.local/state/tf-lab`.
pub fn root() -> Result<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("TF_LAB_STATE")
        .or_else(|| variable("XDG_STATE_HOME").map(|home| home.join("tf-lab")))
        .or_else(|| variable("HOME").map(|home| home.join(".local/state/tf-lab")))
        .context("no place for the state of a lab: set HOME or TF_LAB_STATE")
}

/// Makes the folder of a new lab, after removing stale ones. A name that is taken is an error.
pub fn reserve(root: &Path, record: &LabRecord) -> Result<Folder> {
    let _lock = lock(root)?;
    sweep_locked(root)?;
    create(root, record)
}

/// Removes labs whose owner has ended, and labs without an owner of which no process is left (after a reboot).
/// Returns their names.
pub fn sweep(root: &Path) -> Result<Vec<String>> {
    let _lock = lock(root)?;
    sweep_locked(root)
}

/// Ends every process of a lab and removes its folder, while nobody else makes or removes one.
pub fn destroy(folder: &Folder) -> Result<()> {
    let root = folder.path.parent().context("a lab's folder lies in a root")?;
    let _lock = lock(root)?;
    folder.destroy()
}

/// The labs there are, by name. Folders that are not of a lab are ignored.
pub fn list(root: &Path) -> Result<Vec<(Folder, LabRecord)>> {
    let entries = match fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("reading {}", root.display()))?,
    };
    let mut labs = Vec::new();
    for entry in entries {
        let folder = Folder { path: entry?.path() };
        if let Ok(record) = folder.record()
            && folder.path.file_name().is_some_and(|name| name == record.name.as_str())
        {
            labs.push((folder, record));
        }
    }
    labs.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
    Ok(labs)
}

/// The lab called `name`.
pub fn find(root: &Path, name: &str) -> Result<(Folder, LabRecord)> {
    list(root)?.into_iter().find(|(_, record)| record.name == name).with_context(|| format!("there is no lab {name:?}"))
}

fn sweep_locked(root: &Path) -> Result<Vec<String>> {
    let mut swept = Vec::new();
    for (folder, record) in list(root)? {
        let stale = match &record.owner {
            Some(owner) => !owner.is_alive(),
            None => !process::records(&folder)?.iter().any(|process| process.identity.is_alive()),
        };
        if stale {
            tracing::info!(lab = record.name, "removing a stale lab");
            folder.destroy()?;
            swept.push(record.name);
        }
    }
    Ok(swept)
}

fn create(root: &Path, record: &LabRecord) -> Result<Folder> {
    let name = &record.name;
    ensure!(
        (1..=40).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
        "{name:?} is not a name for a lab: 1 to 40 lower-case letters, digits and dashes"
    );
    let path = root.join(name);
    if path.exists() {
        bail!("there is a lab {name:?} already, in {}", path.display());
    }
    let unfinished = Folder { path: root.join(format!(".{name}.{}", std::process::id())) };
    for folder in ["logs", "processes", "pki", "kubeconfig", "etcd", "nodes"] {
        private_folder(&unfinished.path.join(folder))?;
    }
    unfinished.write_record(record)?;
    fs::rename(&unfinished.path, &path).with_context(|| format!("making {}", path.display()))?;
    Ok(Folder { path })
}

/// Held while folders are made or removed; released when the returned file is dropped.
fn lock(root: &Path) -> Result<File> {
    private_folder(root)?;
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(root.join("lock"))?;
    file.lock().with_context(|| format!("locking {}", root.display()))?;
    Ok(file)
}

fn private_folder(path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).with_context(|| format!("making {}", path.display()))
}

/// Writes a file only its owner may read, so that a reader sees the old content or the new one.
pub fn write_atomically(path: &Path, content: &[u8]) -> Result<()> {
    let attempt = || -> io::Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let temporary = path.with_file_name(format!(".{name}.{}", std::process::id()));
        let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(content)?;
        drop(file);
        fs::rename(&temporary, path)
    };
    attempt().with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::process::{Process, Spec};

    fn record(name: &str, owner: Option<Identity>) -> LabRecord {
        LabRecord { name: name.into(), owner, options: Options::api(), network: None }
    }

    /// An owner that has ended.
    fn ghost() -> Identity {
        let own = Identity::own().unwrap();
        Identity { start_ticks: own.start_ticks - 1, ..own }
    }

    fn background_sleeper(folder: &Folder) -> Identity {
        let mut process = Process::spawn(folder, Spec::new("sleeper", "/bin/sleep").args(["600"])).unwrap();
        process.outlive_guard();
        process.identity().clone()
    }

    #[test]
    fn a_lab_whose_owner_has_ended_is_swept_with_its_processes() {
        let root = tempfile::tempdir().unwrap();
        let stale = create(root.path(), &record("stale", Some(ghost()))).unwrap();
        let orphan = background_sleeper(&stale);
        let live = create(root.path(), &record("live", Some(Identity::own().unwrap()))).unwrap();

        assert_eq!(sweep(root.path()).unwrap(), ["stale"]);
        assert!(!orphan.is_alive());
        assert!(!stale.path().exists() && live.path().exists());
    }

    #[test]
    fn a_background_lab_stays_until_its_last_process_has_ended() {
        let root = tempfile::tempdir().unwrap();
        let folder = create(root.path(), &record("background", None)).unwrap();
        let sleeper = background_sleeper(&folder);
        assert!(sweep(root.path()).unwrap().is_empty());
        stop_all(&[&sleeper], Duration::from_secs(5)).unwrap();
        assert_eq!(sweep(root.path()).unwrap(), ["background"]);
    }

    #[test]
    fn a_recorded_pid_that_belongs_to_another_process_now_is_not_touched() {
        let root = tempfile::tempdir().unwrap();
        let folder = create(root.path(), &record("stale", Some(ghost()))).unwrap();
        let bystander = background_sleeper(&folder);
        let file = folder.process_record("sleeper");
        let mut reused: process::Record = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        reused.identity.start_ticks -= 1;
        write_atomically(&file, &serde_json::to_vec(&reused).unwrap()).unwrap();

        assert_eq!(sweep(root.path()).unwrap(), ["stale"]);
        assert!(bystander.is_alive());
        stop_all(&[&bystander], Duration::from_secs(5)).unwrap();
    }

    #[test]
    fn folders_that_are_not_of_a_lab_are_left_alone() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("holiday-pictures")).unwrap();
        assert!(sweep(root.path()).unwrap().is_empty());
        assert!(root.path().join("holiday-pictures").exists());
        assert!(list(root.path()).unwrap().is_empty());
    }

    #[test]
    fn nobody_else_can_read_a_lab() {
        let root = tempfile::tempdir().unwrap();
        let folder = reserve(&root.path().join("labs"), &record("mine", None)).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(folder.path()), 0o700);
        assert_eq!(mode(&folder.path().join("lab.json")), 0o600);
    }

    #[test]
    fn names_that_leave_the_root_or_are_taken_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let owner = Some(Identity::own().unwrap());
        for name in ["", "..", "a/b", ".hidden", "Upper"] {
            assert!(reserve(root.path(), &record(name, owner.clone())).is_err(), "{name:?}");
        }
        reserve(root.path(), &record("one", owner.clone())).unwrap();
        assert!(reserve(root.path(), &record("one", owner)).is_err());
    }
}
