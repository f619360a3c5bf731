//! The place of the physical interface, which `vhost0` keeps: an agent's pod sets its node up again after the interface was made again, or another program
//! gave it an address.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde_json::json;
use tf_host::{
    Root,
    drift::{self, Below},
    program::quoted,
};
use tokio::{process::Command, sync::watch, time::sleep};

use crate::{
    host,
    keeping::{Counted, Keeping},
    log,
    paths::Paths,
};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(5);
/// Between attempts that fail.
const RETRY: Duration = Duration::from_secs(30);
/// How often addresses are moved before another program counts as the one that keeps setting them.
const MOVES: u32 = 3;

/// Keeps what a launch file asks for.
pub struct Vhost0 {
    paths: Paths,
    program: PathBuf,
    keeping: Keeping<Vec<String>>,
    problem: watch::Sender<Option<String>>,
}

impl Vhost0 {
    /// Keeps nothing yet. `program`: this one, whose `host apply` is run.
    pub fn new(paths: Paths, program: PathBuf) -> Self {
        Self { paths, program, keeping: Keeping::default(), problem: watch::Sender::default() }
    }

    /// Keeps the place from now on, by these options of `tf-node host apply`.
    pub fn follow(&mut self, options: Option<&Vec<String>>) {
        if !self.keeping.end_other(options) {
            return;
        }
        self.problem.send_replace(None);
        if let Some(options) = options {
            let root = Root::below(self.paths.at("/"));
            let keep = keep(options.clone(), root, self.program.clone(), self.problem.clone());
            self.keeping.start(options.clone(), keep);
        }
    }

    /// Why `vhost0` does not have the place, now and later.
    pub fn problem(&self) -> watch::Receiver<Option<String>> {
        self.problem.subscribe()
    }
}

async fn keep(options: Vec<String>, root: Root, program: PathBuf, problem: watch::Sender<Option<String>>) {
    let look = || drift::look(&root, &host::wanted(&options, &root)?);
    // What happened while nothing looked is found by the first run, which does nothing where all is as it should be.
    let mut before: Option<Below> = None;
    let (mut moves, mut counted) = (0, Counted::begin());
    loop {
        drift::loosen(&root);
        let now = look();
        let why = match (&before, &now) {
            (None, None) => None,
            (Some(before), None) => Some(format!("vhost0 or {} is gone", before.name)),
            (None, Some(_)) => Some("the agent has started".to_owned()),
            (Some(before), Some(now)) => drift::cause(before, now),
        };
        let is_move = matches!((&before, &now), (Some(before), Some(now)) if before.indexes == now.indexes);
        if counted.is_over() {
            moves = 0;
        }
        let mut failed = None;
        if let Some(why) = why {
            moves = if is_move { moves + 1 } else { 0 };
            if moves > MOVES {
                failed = Some(format!("another program keeps changing the interface: {why}"));
            } else {
                failed = apply(&program, &options).await.err();
                // The same again is no news.
                if before.is_some() && failed.is_none() || failed.is_some() && *problem.borrow() != failed {
                    log::warn("the node is set up again", &json!({"cause": why, "error": failed}));
                }
            }
            if failed.is_none() {
                before = look().map(|now| Below { addresses: Vec::new(), ..now });
            }
        }
        // An interface that is being made again is back in a moment.
        let wait = if failed.is_some() && now.is_some() { RETRY } else { LOOK };
        problem.send_replace(failed);
        sleep(wait).await;
    }
}

/// Runs `tf-node host apply`, which undoes what it began if this process ends.
async fn apply(program: &Path, options: &[String]) -> Result<(), String> {
    let run = Command::new(program).args(["host", "apply"]).args(options).stdin(Stdio::null()).output();
    let output = run.await.map_err(|error| format!("{}: {error}", program.display()))?;
    let said = [output.stdout, output.stderr].concat();
    if output.status.success() { Ok(()) } else { Err(quoted(&String::from_utf8_lossy(&said))) }
}
