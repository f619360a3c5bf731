//! Commands that are run beside the daemon, for what a store can be asked by its own tools alone.
//!
//! Children are reaped in one place ([`crate::process::reap`]), which tells whoever waits for one here.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::File,
    io::{Read as _, Seek as _},
    iter,
    process::Command,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use rustix::{
    fs::{MemfdFlags, memfd_create},
    process::{Pid, setpriority_process},
};
use tf_agent_api::state::Exit;
use tokio::{sync::oneshot, time::timeout};

use crate::process;

/// Bytes of what a command says that are looked at.
const LARGEST_OUTPUT: u64 = 4 * 1024 * 1024;
/// How far a command stands back behind the daemon (setpriority(2)).
const NICE: i32 = 10;
/// The same for a command that clients of the daemon wait for: on a busy node a command that stands back further does not end.
const NICE_IF_URGENT: i32 = 1;
/// Characters of it in an error.
const QUOTED: usize = 300;
/// What Erlang's tools say from here on is about the machine, and holds a hash of the cookie.
const DIAGNOSTICS: &str = "DIAGNOSTICS";

/// Commands that run.
#[derive(Clone, Debug, Default)]
pub struct Commands(Arc<Mutex<HashMap<Pid, oneshot::Sender<Exit>>>>);

impl Commands {
    /// Runs a command, and waits for its end for so long. If the caller does not wait any more, the command runs on. Gives back what it
    /// wrote to its standard output.
    ///
    /// # Errors
    /// When it cannot be started, does not end in time, or fails; with what it said.
    pub async fn run(&self, command: Command, patience: Duration) -> Result<String> {
        self.run_at(NICE, command, patience).await
    }

    /// The same for a command that clients of the daemon wait for.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub async fn run_urgently(&self, command: Command, patience: Duration) -> Result<String> {
        self.run_at(NICE_IF_URGENT, command, patience).await
    }

    async fn run_at(&self, nice: i32, mut command: Command, patience: Duration) -> Result<String> {
        let words = iter::once(command.get_program()).chain(command.get_args()).map(OsStr::to_string_lossy);
        let what = words.collect::<Vec<_>>().join(" ");
        let place = || memfd_create("output", MemfdFlags::CLOEXEC).map(File::from).context("a place for the output");
        let (output, errors) = (place()?, place()?);
        command.stdout(output.try_clone()?).stderr(errors.try_clone()?);
        let (pid, ended) = self.spawn(&mut command, nice).with_context(|| format!("start {what}"))?;
        match timeout(patience, ended).await {
            Ok(Ok(Exit::Code(0))) => read(output),
            Ok(Ok(exit)) => bail!("{what}: {exit:?}: {}", brief(&(read(output)? + &read(errors)?))),
            Ok(Err(_)) => bail!("{what}: its result is unknown"),
            Err(_) => {
                process::kill_group(pid);
                bail!("{what}: not finished within {} s", patience.as_secs())
            }
        }
    }

    /// A child has ended. Others than commands may have.
    pub fn ended(&self, pid: Pid, exit: &Exit) {
        if let Some(waiting) = self.lock().remove(&pid) {
            let _ = waiting.send(exit.clone());
        }
    }

    fn spawn(&self, command: &mut Command, nice: i32) -> std::io::Result<(Pid, oneshot::Receiver<Exit>)> {
        let (sender, receiver) = oneshot::channel();
        // It cannot be reaped unknown.
        let mut waiting = self.lock();
        let pid = Pid::from_child(&command.spawn()?);
        // A tool in Java needs as much of a processor as the server beside it, which others wait for.
        let _ = setpriority_process(Some(pid), nice);
        waiting.insert(pid, sender);
        Ok((pid, receiver))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Pid, oneshot::Sender<Exit>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was written.
fn read(mut output: File) -> Result<String> {
    output.rewind()?;
    let mut bytes = Vec::new();
    output.take(LARGEST_OUTPUT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The same on one line, for an error.
fn brief(text: &str) -> String {
    let text = text.split(DIAGNOSTICS).next().unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(QUOTED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tool_says_of_the_machine_is_not_repeated() {
        let said = "Error:\n  unable to perform an operation\n\nDIAGNOSTICS\n===\n * Erlang cookie hash: x";
        assert_eq!(brief(said), "Error: unable to perform an operation");
        assert_eq!(brief(&"word ".repeat(1000)).chars().count(), QUOTED);
    }
}
