//! Daemons that have to be told that what they show and trust is another thing now. Until such a one has read it, nothing of it counts as in
//! use: an authority is replaced only when everybody goes by the next one.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;
use tf_plan::node::state::{Phase, State};
use tokio::time::Instant;

use crate::{back_off::BackOff, command::Commands, log, materialise::RunDir, paths::Paths, process, state_file};

/// Between attempts. Each may start a virtual machine.
const RETRIES: [Duration; 2] = [Duration::from_secs(5), Duration::from_mins(5)];
/// For one attempt.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which process has not read the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stale {
    /// None: each was started later, or was told.
    Nobody,
    /// This one.
    Process(i32),
    /// One that was being started when they changed.
    Unknown,
}

/// Tells a daemon.
pub(super) struct Reload {
    paths: Paths,
    daemon: String,
    commands: Commands,
    argv: Option<Vec<String>>,
    stale: Stale,
    due: Instant,
    retries: BackOff,
    trouble: Option<String>,
}

impl Reload {
    /// A daemon that is told by this command; without one it looks itself.
    pub(super) fn new(paths: Paths, daemon: &str, commands: Commands, argv: Option<Vec<String>>) -> Self {
        Self {
            paths,
            daemon: daemon.to_owned(),
            commands,
            argv,
            stale: Stale::Nobody,
            due: Instant::now(),
            retries: BackOff::between(RETRIES[0], RETRIES[1]),
            trouble: None,
        }
    }

    /// The files are others from now on.
    pub(super) fn files_changed(&mut self) {
        self.stale = match self.state() {
            _ if self.argv.is_none() => Stale::Nobody,
            Some(State { phase: Phase::Starting, .. }) => Stale::Unknown,
            state => state.and_then(|state| state.pid).map_or(Stale::Nobody, Stale::Process),
        };
        self.due = Instant::now();
        self.retries.reset();
    }

    /// Tells the daemon if that is due. Whether it goes by the files as they are.
    pub(super) async fn settle(&mut self) -> bool {
        if let Stale::Process(pid) = self.stale
            && self.state().and_then(|state| state.pid) != Some(pid)
        {
            self.stale = Stale::Nobody;
        }
        if self.stale != Stale::Nobody && Instant::now() >= self.due {
            match self.tell().await {
                Ok(()) => {
                    log::info("the daemon was told to read its certificates", &json!({"daemon": self.daemon}));
                    self.stale = Stale::Nobody;
                }
                Err(error) => {
                    let trouble =
                        format!("the daemon does not read its certificates before it is restarted: {error:#}");
                    if self.trouble.as_ref() != Some(&trouble) {
                        log::warn("has trouble with its certificate", &json!({"error": trouble}));
                        self.trouble = Some(trouble);
                    }
                    self.due = Instant::now() + self.retries.wait();
                }
            }
        }
        if self.stale == Stale::Nobody {
            self.trouble = None;
        }
        self.stale == Stale::Nobody
    }

    /// Why the daemon does not go by the files, if it was told in vain.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// When there is something to do again, if there is.
    pub(super) fn wait(&self) -> Option<Duration> {
        (self.stale != Stale::Nobody).then(|| self.due.saturating_duration_since(Instant::now()))
    }

    async fn tell(&self) -> Result<()> {
        let Some(argv) = &self.argv else { return Ok(()) };
        let set = RunDir::new(self.paths.run_dir()).load(&self.daemon)?.context("the daemon was never started")?;
        self.commands.run(process::command(argv, &set), PATIENCE).await.map(drop)
    }

    fn state(&self) -> Option<State> {
        state_file::read_all(&self.paths).remove(&self.daemon)
    }
}
