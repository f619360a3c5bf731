//! A child process that cannot be forgotten.
//!
//! [`Process::spawn`] writes what it started into the lab's folder before anything else happens, so that a later
//! [sweep](crate::folder::sweep) finds it even if this program is killed. Dropping the guard ends the process, on a
//! panic too. Output goes to a log file of the lab.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::{
    folder::{Folder, write_atomically},
    identity::{Identity, Usage, stop_all},
    real::cgroup,
};

/// How long a process has to act on SIGTERM before it is killed.
pub const GRACE: Duration = Duration::from_secs(5);

/// What to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// Name within the lab: of its log file and of its record.
    pub name: String,
    /// The executable; not looked up on `PATH`.
    pub program: PathBuf,
    /// Arguments after the program's own name.
    pub args: Vec<String>,
    /// Variables set in addition to the environment of the caller.
    pub env: BTreeMap<String, String>,
    /// In a process group of its own: a Ctrl-C in the terminal that started it does not reach it.
    pub own_group: bool,
    /// Control group it is moved into right after its start, by that group's folder. Children follow it there.
    #[serde(default)]
    pub cgroup: Option<PathBuf>,
}

impl Spec {
    /// A program without arguments, in the process group of the caller.
    pub fn new(name: impl Into<String>, program: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            own_group: false,
            cgroup: None,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(key.into(), value.into());
        self
    }
}

/// What the lab's folder remembers of a process, enough to end it and to start it again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// What was run.
    pub spec: Spec,
    /// Which process it became.
    pub identity: Identity,
}

/// A process of a lab.
#[derive(Debug)]
pub struct Process {
    record: Record,
    folder: Folder,
    /// Present when it is a child of ours and must be reaped.
    child: Option<Child>,
    ends_with_guard: bool,
}

impl Process {
    /// Starts a process and records it. A process of that name which still runs is an error.
    pub fn spawn(folder: &Folder, spec: Spec) -> Result<Self> {
        if let Some(record) = read_record(&folder.process_record(&spec.name))?
            && record.identity.is_alive()
        {
            bail!("{} runs already in this lab, as process {}", spec.name, record.identity.pid);
        }
        let (record, child) = start(folder, spec)?;
        Ok(Self { record, folder: folder.clone(), child: Some(child), ends_with_guard: true })
    }

    /// A handle to a process which another program started. Dropping it does nothing.
    pub fn adopt(folder: &Folder, name: &str) -> Result<Self> {
        let record = read_record(&folder.process_record(name))?.with_context(|| format!("no record of {name}"))?;
        Ok(Self { record, folder: folder.clone(), child: None, ends_with_guard: false })
    }

    /// Name within the lab.
    pub fn name(&self) -> &str {
        &self.record.spec.name
    }

    /// Which process it is.
    pub fn identity(&self) -> &Identity {
        &self.record.identity
    }

    /// Memory and processor time, or `None` when it has ended.
    pub fn usage(&self) -> Option<Usage> {
        self.record.identity.usage()
    }

    /// True while it runs (paused counts as running).
    pub fn is_running(&self) -> bool {
        self.record.identity.is_alive()
    }

    /// The file that holds its output, both streams.
    pub fn log(&self) -> PathBuf {
        self.folder.log(self.name())
    }

    /// The last `lines` lines of its output, for error messages; empty when there is no log.
    pub fn tail(&self, lines: usize) -> String {
        tail(&self.log(), lines).unwrap_or_default()
    }

    /// Stops it from running without ending it (SIGSTOP): its connections stay open and nothing answers.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Ends [a pause](Self::pause).
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Sends any other signal; an error when the process has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        if !self.record.identity.signal(signal)? {
            bail!("{} has ended; its last output:\n{}", self.name(), self.tail(5));
        }
        Ok(())
    }

    /// Ends it without warning (SIGKILL) and waits until it is gone. It can be [started again](Self::restart).
    pub fn kill(&mut self) -> Result<()> {
        self.record.identity.signal(Signal::KILL)?;
        self.record.identity.wait(Instant::now() + GRACE)?;
        self.reap();
        Ok(())
    }

    /// Ends it by request (SIGTERM), after [`GRACE`] by force, and waits until it is gone.
    pub fn stop(&mut self) -> Result<()> {
        stop_all(&[&self.record.identity], GRACE).with_context(|| format!("stopping {}", self.name()))?;
        self.reap();
        Ok(())
    }

    /// Asks it to end (SIGTERM) and does not wait.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Starts what had ended once more, with the same arguments and the same log file.
    pub fn restart(&mut self) -> Result<()> {
        if self.is_running() {
            bail!("{} still runs", self.name());
        }
        self.reap();
        let (record, child) = start(&self.folder, self.record.spec.clone())?;
        self.record = record;
        self.child = Some(child);
        Ok(())
    }

    /// From now on dropping the guard does not end the process; its record stays for a later `down`.
    pub fn outlive_guard(&mut self) {
        self.ends_with_guard = false;
    }

    /// Collects the exit status of a child that has ended, so that no zombie stays behind.
    pub(crate) fn reap(&mut self) {
        if let Some(child) = &mut self.child
            && matches!(child.try_wait(), Ok(Some(_)) | Err(_))
        {
            self.child = None;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ends_with_guard
            && let Err(error) = self.stop()
        {
            // Nobody is left to return it to; the record stays, so the next sweep tries again.
            tracing::error!(process = self.name(), "{error:#}");
        }
        self.reap();
    }
}

fn start(folder: &Folder, spec: Spec) -> Result<(Record, Child)> {
    let log = File::options().create(true).append(true).open(folder.log(&spec.name)).context("opening the log")?;
    let mut command = Command::new(&spec.program);
    command
        .args(spec.args.iter().map(OsString::from))
        .envs(&spec.env)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("log")?)
        .stderr(log);
    if spec.own_group {
        command.process_group(0);
    }
    let mut child = command.spawn().with_context(|| format!("starting {}", spec.program.display()))?;
    let joined = spec.cgroup.as_deref().map_or(Ok(()), |group| cgroup::join(group, child.id()));
    match joined.and_then(|()| record(folder, spec, child.id())) {
        Ok(record) => Ok((record, child)),
        Err(error) => {
            // Not recorded means nobody could find it later.
            let _ = child.kill();
            let _ = child.wait();
            Err(error)
        }
    }
}

fn record(folder: &Folder, spec: Spec, pid: u32) -> Result<Record> {
    let identity = Identity::of(pid)?.with_context(|| format!("{} ended at once", spec.name))?;
    let record = Record { spec, identity };
    write_atomically(&folder.process_record(&record.spec.name), &serde_json::to_vec_pretty(&record)?)?;
    Ok(record)
}

/// All processes a lab has recorded, ended ones included, by name.
pub fn records(folder: &Folder) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for entry in fs::read_dir(folder.process_records()).context("reading the process records")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            records.extend(read_record(&path)?);
        }
    }
    records.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
    Ok(records)
}

/// What a lab has recorded as `name`, ended or not.
pub fn find(folder: &Folder, name: &str) -> Result<Option<Record>> {
    read_record(&folder.process_record(name))
}

/// Removes the record of a process that has ended.
pub fn forget(folder: &Folder, name: &str) -> Result<()> {
    let path = folder.process_record(name);
    match fs::remove_file(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        outcome => outcome.with_context(|| format!("removing {}", path.display())),
    }
}

fn read_record(path: &Path) -> Result<Option<Record>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes).with_context(|| format!("{}", path.display()))?)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

/// The last `lines` lines of a file, of at most its last 64 KiB.
pub fn tail(path: &Path, lines: usize) -> Result<String> {
    const WINDOW: u64 = 64 * 1024;
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(WINDOW)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    Ok(all[all.len().saturating_sub(lines)..].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::create_in(root.path(), "lab").unwrap();
        (root, folder)
    }

    #[test]
    fn the_record_is_there_as_soon_as_the_process_is() {
        let (_root, folder) = folder();
        let process = Process::spawn(&folder, Spec::new("sleeper", "/bin/sleep").args(["60"])).unwrap();
        let records = records(&folder).unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!(&records[0].identity, process.identity());
    }

    #[test]
    fn dropping_the_guard_ends_the_process_on_a_panic_too() {
        let (_root, folder) = folder();
        let identity = std::thread::scope(|scope| {
            let (send, receive) = std::sync::mpsc::channel();
            let folder = &folder;
            let thread = scope.spawn(move || {
                let process = Process::spawn(folder, Spec::new("sleeper", "/bin/sleep").args(["60"])).unwrap();
                send.send(process.identity().clone()).unwrap();
                panic!("the test failed");
            });
            assert!(thread.join().is_err());
            receive.recv().unwrap()
        });
        assert!(!identity.is_alive());
    }

    #[test]
    fn a_killed_process_can_be_started_again_and_keeps_its_log() {
        let (_root, folder) = folder();
        let mut process = Process::spawn(
            &folder,
            Spec::new("echo", "/bin/sh").args(["-c", "echo $WORD; exec sleep 60"]).env("WORD", "here"),
        )
        .unwrap();
        let has_lines = |process: &Process, lines: usize| {
            while process.tail(9).lines().count() < lines {
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        has_lines(&process, 1);
        process.kill().unwrap();
        assert!(!process.is_running());
        assert!(process.pause().is_err(), "a signal to what has ended is reported");
        process.restart().unwrap();
        has_lines(&process, 2);
        assert_eq!(process.tail(9), "here\nhere");
        assert!(process.is_running());
    }

    #[test]
    fn two_processes_of_one_name_are_refused() {
        let (_root, folder) = folder();
        let spec = Spec::new("sleeper", "/bin/sleep").args(["60"]);
        let first = Process::spawn(&folder, spec.clone()).unwrap();
        assert!(Process::spawn(&folder, spec.clone()).is_err());
        drop(first);
        Process::spawn(&folder, spec).unwrap();
    }

    #[test]
    fn tail_gives_the_last_lines_only() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "one\ntwo\nthree\n").unwrap();
        assert_eq!(tail(file.path(), 2).unwrap(), "two\nthree");
        assert_eq!(tail(file.path(), 9).unwrap(), "one\ntwo\nthree");
    }
}
