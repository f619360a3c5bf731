//! `tf-node host forward`: the forwarder of the DPDK mode, with `vhost0` in the place of the interface as long as it runs.
//!
//! The interface gets everything back when the forwarder ends, when this process is asked to end, and, by the guard, when it is killed: the forwarder dies
//! with it. Where a whole container is killed, the next run and `tf-node host remove` give it back.

use std::{
    env,
    ffi::OsString,
    fs,
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Command, ExitCode},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use nix::sys::signal::{SigSet, Signal};
use tf_agent_api::host::{FORWARD_WORDS, TAKEN};
use tf_host::{
    Root,
    dpdk::{
        forward::{Error, Forwarder as _, Forwarding, VERIFIED},
        process::Process,
    },
};

use super::{
    BLOCKED, FAILED, UNDONE,
    guard::{self, Guard},
    options::Options,
    programs::HostRoot,
};

/// How often the interface is given back what it had, as long as that fails.
const ATTEMPTS: u32 = 5;
/// Between two attempts.
const AGAIN: Duration = Duration::from_secs(2);
/// The command of this program that becomes another one which dies with its parent.
pub const WITH_PARENT: &str = "with-parent";
/// Between two looks at what `vhost0` has.
const KEEP: Duration = Duration::from_secs(10);
/// Between two looks at the forwarder.
const LOOK: Duration = Duration::from_millis(500);

/// Runs the forwarder, or guards a process that does. Out: what is printed at the end, and the exit code.
///
/// # Errors
/// When a process or thread cannot be started. The node was not touched then.
pub fn run(root: &Root, options: &Options) -> Result<(String, u8)> {
    let is_to_end = Arc::new(AtomicBool::new(false));
    let own = std::process::id().to_string();
    let starter = [env::current_exe()?.display().to_string(), WITH_PARENT.to_owned(), own];
    let mut forwarder = Process::new(options.programs.vif.clone(), starter.to_vec(), Arc::clone(&is_to_end));
    let node = Node::new(root, options);
    if let Some(process) = options.guard_of {
        guard::wait(process, &options.journal);
        return Ok(given_back(ended(&node, &mut forwarder)));
    }
    let guard = Guard::start()?;
    let (asked, ask) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        let mut signals = SigSet::empty();
        signals.extend([Signal::SIGTERM, Signal::SIGINT]);
        // Those that this process waits with, which it inherits.
        if let Ok(signal) = signals.wait() {
            is_to_end.store(true, Ordering::Relaxed);
            let _ = asked.send(signal);
        }
    })?;
    let words = options.beside_journal(FORWARD_WORDS);
    let begun = node.with(&mut forwarder).begin();
    // What an earlier one said.
    let _ = fs::remove_file(&words);
    let (text, code) = match begun {
        Err(error) => failed(&error),
        Ok(taken) => {
            println!("vhost0 has the place of {}, which the forwarder has", taken.uplink.name);
            let why = forwarded(&node, &mut forwarder, &ask);
            let (text, code) = given_back(ended(&node, &mut forwarder));
            (format!("{why}; {text}"), if code == 0 && why != ASKED { FAILED } else { code })
        }
    };
    if code != 0
        && let Err(error) = fs::write(&words, &text)
    {
        println!("{}: {error}", words.display());
    }
    guard.end();
    Ok((text, code))
}

/// Why it ends when it was asked to.
const ASKED: &str = "asked to end";

/// Looks after the forwarder until it ends or this process is asked to end. Out: why.
fn forwarded(node: &Node<'_>, forwarder: &mut Process, ask: &mpsc::Receiver<Signal>) -> String {
    let mut kept = Instant::now();
    loop {
        match ask.recv_timeout(LOOK) {
            Ok(_) | Err(RecvTimeoutError::Disconnected) => return ASKED.to_owned(),
            Err(RecvTimeoutError::Timeout) => {}
        }
        match forwarder.ended() {
            Ok(None) => {}
            Ok(Some(why)) => return why,
            Err(error) => return format!("the forwarder: {error}"),
        }
        if kept.elapsed() > KEEP {
            kept = Instant::now();
            if let Err(error) = node.with(forwarder).keep() {
                println!("what vhost0 has is not recorded: {error}");
            }
        }
    }
}

/// Gives back what was taken. What the interface does not get back at once is tried again, while the kubelet still waits for the container.
fn ended(node: &Node<'_>, forwarder: &mut Process) -> Result<bool, Error> {
    for _ in 1..ATTEMPTS {
        match node.with(forwarder).end() {
            Err(error @ Error::NotGivenBack { .. }) => println!("{error}; this is tried again"),
            done => return done,
        }
        thread::sleep(AGAIN);
    }
    node.with(forwarder).end()
}

/// Gives back what was taken, for `remove`. None: nothing was.
pub fn remove(root: &Root, options: &Options) -> Option<(String, u8)> {
    let mut forwarder = Process::new(options.programs.vif.clone(), Vec::new(), Arc::default());
    match Node::new(root, options).with(&mut forwarder).end() {
        Ok(false) => None,
        done => Some(given_back(done)),
    }
}

/// A node without its forwarder.
struct Node<'a> {
    root: &'a Root,
    options: &'a Options,
    record: PathBuf,
    programs: HostRoot<'a>,
}

impl<'a> Node<'a> {
    fn new(root: &'a Root, options: &'a Options) -> Self {
        Self { root, options, record: options.beside_journal(TAKEN), programs: HostRoot(root) }
    }

    fn with<'b>(&'b self, forwarder: &'b mut Process) -> Forwarding<'b, Process> {
        Forwarding {
            root: self.root,
            wanted: &self.options.wanted,
            record: &self.record,
            peers: &self.options.peers,
            patience: VERIFIED,
            forwarder,
            modprobe: &self.options.programs.modprobe,
            programs: &self.programs,
        }
    }
}

fn given_back(done: Result<bool, Error>) -> (String, u8) {
    match done {
        Ok(true) => ("the interface has its addresses and routes back\n".to_owned(), 0),
        Ok(false) => ("nothing was taken\n".to_owned(), 0),
        Err(error) => failed(&error),
    }
}

fn failed(error: &Error) -> (String, u8) {
    match error {
        Error::Blocked(_) | Error::NotKept(_) => (format!("{error}; nothing was touched\n"), BLOCKED),
        Error::Busy | Error::InUse => (format!("{error}\n"), BLOCKED),
        Error::NotTaken(_) => (format!("{error}\n"), UNDONE),
        Error::Record { .. } | Error::NotGivenBack { .. } => (format!("{error}\n"), FAILED),
    }
}

/// Becomes a program that is killed when the process ends that started it: the number of that process, the program, its arguments.
///
/// # Errors
/// When it cannot.
pub fn with_parent(words: &[OsString]) -> Result<ExitCode> {
    let [parent, program, arguments @ ..] = words else {
        anyhow::bail!("write tf-node {WITH_PARENT} PROCESS PROGRAM [ARGUMENT]...")
    };
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // It may have ended before.
    let is_there = nix::unistd::getppid().to_string() == parent.to_string_lossy();
    anyhow::ensure!(is_there, "the process that started this one has ended");
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| program.display().to_string())
}
