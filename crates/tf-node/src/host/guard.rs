//! A process that undoes a change of the node's network if the one that makes it ends, or hangs, before it is done.
//!
//! It is a child of the process that it guards: the kernel gives it another parent when that one ends. Where a whole container
//! is killed, both end, and the next `apply` or `remove` undoes it.

use std::{
    env, io,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{SigSet, Signal, kill},
    unistd::{Pid, getppid},
};
use tf_host::journal::{Journal, State};

/// How long a change may take: a verification takes up to ten seconds, and undoing it as long again.
const PATIENCE: Duration = Duration::from_mins(1);
/// A program that the ended process had started may be at work for a moment more, and what it does then has to be undone, too.
const SETTLING: Duration = Duration::from_millis(500);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Guards this process.
pub struct Guard(Child);

impl Guard {
    /// Starts it. From here on SIGTERM and SIGINT wait until the change is done or undone.
    ///
    /// # Errors
    /// When it cannot be started. Nothing was changed then.
    pub fn start() -> io::Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        command.args(env::args_os().skip(1)).arg("--guard-of").arg(std::process::id().to_string());
        let child = command.stdin(Stdio::null()).spawn()?;
        let mut signals = SigSet::empty();
        signals.extend([Signal::SIGTERM, Signal::SIGINT]);
        signals.thread_block()?;
        Ok(Self(child))
    }

    /// Ends it: this process has ended what it began.
    pub fn end(mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the process that is guarded ends, and kills it if it has been at a change for too long.
pub fn wait(guarded: i32, journal: &Path) {
    // A supervisor asks what its daemon started to end when that has ended.
    let mut signals = SigSet::empty();
    signals.extend([Signal::SIGTERM, Signal::SIGINT]);
    let _ = signals.thread_block();
    let guarded = Pid::from_raw(guarded);
    let mut lasts = Duration::ZERO;
    while getppid() == guarded {
        let is_at_it = matches!(Journal::read(journal), Ok(Some(Journal { state: State::Begun, .. })));
        lasts = if is_at_it { lasts + LOOK } else { Duration::ZERO };
        if lasts > PATIENCE {
            let _ = kill(guarded, Signal::SIGKILL);
        }
        thread::sleep(LOOK);
    }
    thread::sleep(SETTLING);
}
