//! The state of each daemon of the pod, as files that its containers share.
//!
//! A state is worth something only while its writer lives. The writer keeps a lock for as long as it does, which the kernel
//! takes back however it ends; a reader that could have the lock knows that nobody supervises the daemon.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use tf_agent_api::state::{Phase, State};
use tf_host::atomic;

use crate::{log, paths::Paths};

/// Readers hold the lock for a moment.
const ATTEMPTS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(25);

/// The state file of one daemon, which only this process writes.
pub struct StateFile {
    path: PathBuf,
    published: Option<State>,
    failed: bool,
    _lock: File,
}

impl StateFile {
    /// Becomes the one that writes.
    ///
    /// # Errors
    /// When another process runs the daemon, or the directory cannot be written.
    pub fn claim(paths: &Paths, daemon: &str) -> Result<Self> {
        let path = paths.state_dir().join(format!("{daemon}.lock"));
        let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o644).open(&path);
        let _ = fs::create_dir_all(paths.state_dir());
        let lock = open().with_context(|| format!("open {}", path.display()))?;
        for _ in 0..ATTEMPTS {
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                // Whoever was taken out of service before is a new process now.
                let _ = fs::remove_file(draining_file(paths, daemon));
                return Ok(Self { path: state_file(paths, daemon), published: None, failed: false, _lock: lock });
            }
            thread::sleep(PAUSE);
        }
        bail!("another process runs {daemon}")
    }

    /// Publishes a state if it differs from the last one. Its time is that of the last change of phase.
    pub fn publish(&mut self, mut state: State) {
        if let Some(published) = self.published.as_ref().filter(|published| published.phase == state.phase) {
            state.since = published.since;
        }
        if self.published.as_ref() == Some(&state) {
            return;
        }
        let text = serde_json::to_vec(&state).unwrap_or_default();
        match atomic::replace(&self.path, &text, 0o644) {
            Ok(()) => {
                self.published = Some(state);
                self.failed = false;
            }
            // The daemon matters more; the next publication tries again.
            Err(error) if !self.failed => {
                log::warn("the state cannot be written", &json!({"error": format!("{error:#}")}));
                self.failed = true;
            }
            Err(_) => {}
        }
    }
}

/// The state of a daemon, if a living process supervises it.
pub fn read(paths: &Paths, daemon: &str) -> Option<State> {
    let lock = File::open(paths.state_dir().join(format!("{daemon}.lock"))).ok()?;
    if flock(&lock, FlockOperation::NonBlockingLockShared).is_ok() {
        return None;
    }
    let mut state: State = serde_json::from_slice(&fs::read(state_file(paths, daemon)).ok()?).ok()?;
    if is_draining(paths, daemon) {
        state.phase = Phase::Stopping;
        state.message.get_or_insert_with(|| "is taken out of service".to_owned());
    }
    Some(state)
}

/// The states of all daemons of the pod that are supervised.
pub fn read_all(paths: &Paths) -> BTreeMap<String, State> {
    let entries = fs::read_dir(paths.state_dir()).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".lock")?.to_owned()));
    names.filter_map(|name| Some((name.clone(), read(paths, &name)?))).collect()
}

/// Notes that a daemon is taken out of service: it no longer counts as serving, and its end is not the beginning of a restart.
pub fn mark_draining(paths: &Paths, daemon: &str) -> Result<()> {
    let path = draining_file(paths, daemon);
    Ok(atomic::replace(&path, Timestamp::now().to_string().as_bytes(), 0o644)?)
}

/// Whether a daemon is taken out of service.
pub fn is_draining(paths: &Paths, daemon: &str) -> bool {
    draining_file(paths, daemon).exists()
}

fn state_file(paths: &Paths, daemon: &str) -> PathBuf {
    paths.state_dir().join(format!("{daemon}.json"))
}

fn draining_file(paths: &Paths, daemon: &str) -> PathBuf {
    paths.state_dir().join(format!("{daemon}.draining"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(phase: Phase) -> State {
        State { phase, since: Timestamp::now(), ..State::default() }
    }

    #[test]
    fn a_state_counts_for_as_long_as_its_writer_lives() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::below(root.path());
        assert_eq!(read(&paths, "d"), None);
        let mut file = StateFile::claim(&paths, "d").unwrap();
        file.publish(state(Phase::Running));
        assert_eq!(read(&paths, "d").unwrap().phase, Phase::Running);
        assert!(StateFile::claim(&paths, "d").is_err());
        drop(file);
        assert_eq!(read(&paths, "d"), None);
        assert!(read_all(&paths).is_empty());
    }

    #[test]
    fn the_time_is_that_of_the_change_of_phase() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::below(root.path());
        let mut file = StateFile::claim(&paths, "d").unwrap();
        let since = |file: &mut StateFile, state: State| {
            file.publish(state);
            read(&paths, "d").unwrap().since
        };
        let first = since(&mut file, state(Phase::Waiting));
        assert_eq!(since(&mut file, State { message: Some("x".into()), ..state(Phase::Waiting) }), first);
        assert!(since(&mut file, state(Phase::Running)) > first);
    }

    #[test]
    fn a_daemon_that_is_drained_shows_it_until_it_is_started_anew() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::below(root.path());
        let mut file = StateFile::claim(&paths, "d").unwrap();
        file.publish(state(Phase::Running));
        mark_draining(&paths, "d").unwrap();
        assert_eq!(read_all(&paths)["d"].phase, Phase::Stopping);
        drop(file);
        let mut file = StateFile::claim(&paths, "d").unwrap();
        file.publish(state(Phase::Running));
        assert_eq!(read(&paths, "d").unwrap().phase, Phase::Running);
    }
}
