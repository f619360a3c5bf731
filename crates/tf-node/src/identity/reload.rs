//! Daemons that have to be told that what they show and trust is another thing now, or to be started anew for it. Until such a one has read
//! it, nothing of it counts as in use: an authority is replaced only when everybody goes by the next one.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;
use tf_agent_api::{
    content::ContentHash,
    launch,
    state::{Phase, State},
};
use tokio::time::Instant;

use crate::{back_off::BackOff, command::Commands, log, materialise::RunDir, paths::Paths, process, state_file};

/// Between attempts. Each may start a virtual machine.
const RETRIES: [Duration; 2] = [Duration::from_secs(5), Duration::from_mins(5)];
/// Between looks at daemons that are to be started anew.
const LOOKS: Duration = Duration::from_secs(1);
/// After so many of them a daemon that cannot be told is to be started anew, if it may be: one of them may have met a busy machine.
const ATTEMPTS: u32 = 2;
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

/// How a daemon comes to know of it.
pub(super) enum How {
    /// It looks.
    Itself,
    /// By this command; where that fails and `else_anew` says so, when it starts, as decided by those who know how other pods are.
    Told { argv: Vec<String>, else_anew: bool },
    /// When it starts, as all daemons of the pod. When they are started anew is decided by those who know how other pods are.
    AtStart,
}

impl How {
    /// As a launch file says.
    pub(super) fn of(identity: &launch::Identity) -> Self {
        match &identity.reload {
            Some(argv) => Self::Told { argv: argv.clone(), else_anew: identity.at_start },
            None if identity.at_start => Self::AtStart,
            None => Self::Itself,
        }
    }
}

/// Tells a daemon.
pub(super) struct Reload {
    paths: Paths,
    daemon: String,
    commands: Commands,
    how: How,
    stale: Stale,
    /// What daemons of the pod do not go by before they are started anew.
    unused: Option<ContentHash>,
    due: Instant,
    retries: BackOff,
    /// How often it was told in vain.
    failures: u32,
    trouble: Option<String>,
}

impl Reload {
    /// Of a daemon.
    pub(super) fn new(paths: Paths, daemon: &str, commands: Commands, how: How) -> Self {
        Self {
            paths,
            daemon: daemon.to_owned(),
            commands,
            how,
            stale: Stale::Nobody,
            unused: None,
            due: Instant::now(),
            retries: BackOff::between(RETRIES[0], RETRIES[1]),
            failures: 0,
            trouble: None,
        }
    }

    /// The files are others from now on.
    pub(super) fn files_changed(&mut self) {
        self.stale = match self.state() {
            _ if !matches!(self.how, How::Told { .. }) => Stale::Nobody,
            Some(State { phase: Phase::Starting, .. }) => Stale::Unknown,
            state => state.and_then(|state| state.pid).map_or(Stale::Nobody, Stale::Process),
        };
        self.due = Instant::now();
        self.retries.reset();
        self.failures = 0;
    }

    /// Tells the daemon if that is due. Whether it goes by the files as they are.
    pub(super) async fn settle(&mut self) -> bool {
        if matches!(self.how, How::AtStart) {
            let present = super::hash(&self.paths);
            let goes_by_another = |state: &State| state.certificate.as_ref().is_some_and(|read| *read != present);
            let is_unused = state_file::read_all(&self.paths).values().any(goes_by_another);
            self.unused = is_unused.then_some(present);
            self.due = Instant::now() + LOOKS;
            return self.unused.is_none();
        }
        if let Stale::Process(pid) = self.stale
            && self.state().and_then(|state| state.pid) != Some(pid)
        {
            self.stale = Stale::Nobody;
        }
        // It was started when they were there already, whoever heard of what first.
        if self.stale != Stale::Nobody
            && self.state().and_then(|state| state.certificate) == Some(super::hash(&self.paths))
        {
            self.stale = Stale::Nobody;
        }
        if self.stale != Stale::Nobody && Instant::now() >= self.due {
            match self.tell().await {
                Ok(()) => {
                    log::info("the daemon reloads its certificates", &json!({"daemon": self.daemon}));
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
                    self.failures += 1;
                }
            }
        }
        if self.stale == Stale::Nobody {
            self.trouble = None;
        }
        let is_given_up = self.failures >= ATTEMPTS && matches!(self.how, How::Told { else_anew: true, .. });
        self.unused = (is_given_up && self.stale != Stale::Nobody).then(|| super::hash(&self.paths));
        self.stale == Stale::Nobody
    }

    /// Why the daemon does not go by the files, if it was told in vain.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Names the files as they are where a daemon of the pod goes by former ones until it is started anew.
    pub(super) fn unused(&self) -> Option<&ContentHash> {
        self.unused.as_ref()
    }

    /// When there is something to do again, if there is.
    pub(super) fn wait(&self) -> Option<Duration> {
        let is_waiting = self.stale != Stale::Nobody || self.unused.is_some();
        let wait = self.due.saturating_duration_since(Instant::now());
        // Whether it was started anew meanwhile is looked at more often than it is told.
        is_waiting.then(|| if self.unused.is_some() { wait.min(LOOKS) } else { wait })
    }

    async fn tell(&self) -> Result<()> {
        let How::Told { argv, .. } = &self.how else { return Ok(()) };
        let set = RunDir::new(self.paths.run_dir()).load(&self.daemon)?.context("the daemon was never started")?;
        self.commands.run(process::command(argv, &set), PATIENCE).await.map(drop)
    }

    fn state(&self) -> Option<State> {
        state_file::read_all(&self.paths).remove(&self.daemon)
    }
}
