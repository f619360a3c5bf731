//! Queues of the vRouter's hardware: set when a launch file names them, and again where another program changed them. What is done to files is in
//! [`tf_host::queues`].

use std::time::Duration;

use serde_json::json;
use tf_agent_api::{host::STATE_DIR, launch};
use tf_host::{
    Root,
    queues::{Group, Keeper, RECORD, give_back},
};
use tokio::{sync::watch, task::spawn_blocking, time::sleep};

use crate::{
    keeping::{Counted, Keeping, report},
    log,
    paths::Paths,
};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(300);
/// The vRouter's program for priority groups.
const PROGRAM: &str = "qosmap";

/// Keeps the queues that a launch file asks for.
pub struct Queues {
    paths: Paths,
    keeping: Keeping<launch::Queues>,
    problem: watch::Sender<Option<String>>,
}

impl Queues {
    /// Keeps none yet.
    pub fn new(paths: Paths) -> Self {
        Self { paths, keeping: Keeping::default(), problem: watch::Sender::default() }
    }

    /// Keeps these from now on. Where none are asked for any more, queues get the CPUs back that they had.
    pub fn follow(&mut self, wanted: Option<&launch::Queues>) {
        let root = Root::below(self.paths.at("/"));
        let record = root.at(STATE_DIR).join(RECORD);
        if wanted.is_none() && record.exists() {
            match give_back(&root, &record) {
                Ok(given) => log::info("queues have their CPUs back", &json!({"files": given})),
                Err(error) => log::warn("queues do not have their CPUs back", &json!({"error": error.to_string()})),
            }
        }
        if !self.keeping.end_other(wanted) {
            return;
        }
        self.problem.send_replace(None);
        if let Some(wanted) = wanted {
            let group = |group: &launch::PriorityGroup| Group {
                number: group.number,
                bandwidth: group.bandwidth,
                strict: group.strict,
            };
            let groups = wanted.groups.iter().map(group).collect();
            let keeper = Keeper::new(wanted.interfaces.clone(), groups, record, PROGRAM.to_owned());
            self.keeping.start(wanted.clone(), keep(keeper, root, self.problem.clone()));
        }
    }

    /// Which queues are not as they should be and why, now and later.
    pub fn problem(&self) -> watch::Receiver<Option<String>> {
        self.problem.subscribe()
    }
}

async fn keep(mut keeper: Keeper, root: Root, problem: watch::Sender<Option<String>>) {
    let mut counted = Counted::begin();
    loop {
        if counted.is_over() {
            keeper.forget_writes();
        }
        let at = root.clone();
        // It runs a program.
        let looked = spawn_blocking(move || {
            let look = keeper.look(&at);
            (keeper, look)
        });
        let Ok((kept, look)) = looked.await else { return };
        keeper = kept;
        report("queues", look, &problem);
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_interface_that_is_not_there_is_named_until_nothing_is_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let mut queues = Queues::new(Paths::below(directory.path()));
        let mut problem = queues.problem();
        let wanted = launch::Queues { interfaces: vec!["none0".into()], ..launch::Queues::default() };
        queues.follow(Some(&wanted));
        let named = problem.wait_for(Option::is_some).await.unwrap().clone().unwrap();
        assert!(named.starts_with("the node has no interface none0"), "{named}");
        queues.follow(None);
        assert_eq!(*problem.borrow(), None);
    }
}
