//! Processes: how one is started, told something, and found dead.
//!
//! A daemon is the leader of a process group of its own, so that what it started can be ended with it. Children are reaped
//! here and nowhere else, those that others left to this process included.

use std::{
    env, io,
    process::{Command, Stdio},
};

use rustix::process::{self, Pid, WaitOptions, WaitStatus};
use tf_agent_api::{launch::Signal, state::Exit};

use crate::set::Set;

/// A command in a daemon's environment: the container's variables, then those of the environment file, then those of the
/// launch file.
pub fn command(argv: &[String], set: &Set) -> Command {
    use std::os::unix::process::CommandExt as _;

    let (program, arguments) = argv.split_first().map_or(("", &[][..]), |(program, rest)| (program.as_str(), rest));
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).process_group(0);
    for (name, value) in set.launch.environment.iter().chain(&set.environment) {
        if env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    if let Some(directory) = &set.launch.working_directory {
        command.current_dir(directory);
    }
    command
}

/// Starts a daemon. Its end comes from [`reap`].
pub fn spawn(set: &Set) -> io::Result<Pid> {
    command(&set.launch.argv, set).spawn().map(|child| Pid::from_child(&child))
}

/// Lets processes whose parent has ended become children of this one, as if it were process 1.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(process::set_child_subreaper(Some(process::getpid()))?)
}

/// Children that have ended since the last call.
pub fn reap() -> Vec<(Pid, Exit)> {
    let mut ended = Vec::new();
    while let Ok(Some((pid, status))) = process::wait(WaitOptions::NOHANG) {
        ended.extend(exit(status).map(|exit| (pid, exit)));
    }
    ended
}

fn exit(status: WaitStatus) -> Option<Exit> {
    status.exit_status().map(Exit::Code).or_else(|| status.terminating_signal().map(Exit::Signal))
}

/// Code that this process ends with in the place of its daemon, as a shell would.
pub fn code(exit: &Exit) -> u8 {
    match exit {
        Exit::Code(code) => u8::try_from(*code).unwrap_or(1),
        Exit::Signal(signal) => u8::try_from(*signal).unwrap_or(0).saturating_add(128),
        Exit::NotStarted(_) => 127,
    }
}

/// Sends a signal to one process. It may have ended already.
pub fn signal(pid: Pid, signal: Signal) {
    let _ = process::kill_process(pid, number(signal));
}

/// Sends a signal to a group.
pub fn signal_group(leader: Pid, signal: Signal) {
    let _ = process::kill_process_group(leader, number(signal));
}

/// Kills a group.
pub fn kill_group(leader: Pid) {
    let _ = process::kill_process_group(leader, process::Signal::KILL);
}

/// Whether a process of a group is left.
pub fn has_group(leader: Pid) -> bool {
    process::test_kill_process_group(leader) != Err(rustix::io::Errno::SRCH)
}

fn number(signal: Signal) -> process::Signal {
    match signal {
        Signal::Hup => process::Signal::HUP,
        Signal::Int => process::Signal::INT,
        Signal::Quit => process::Signal::QUIT,
        Signal::Usr1 => process::Signal::USR1,
        Signal::Usr2 => process::Signal::USR2,
        Signal::Term => process::Signal::TERM,
    }
}
