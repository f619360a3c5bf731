//! Changes of a ring. Most of them take longer than anybody waits for an answer, so they go on afterwards, one at a time, and
//! the agent's status says what goes on and how the last one ended.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use serde_json::json;
use tf_agent_api::cassandra::{Change, Facts, Failed, backup::Found};
use tokio::time::timeout;

use super::{
    super::Failure, Release, Server, disk, gossip::Gossip, save, session, simple_keyspaces, sstables::Counts, without,
    without::RepairedWithout,
};
use crate::{command::Commands, log, materialise::RunDir, paths::Paths, process, state_file};

/// For a change of a keyspace, of which every server has to learn.
const SCHEMA_PATIENCE: Duration = Duration::from_secs(30);
/// For what moves data. Whoever needs longer finds it done, or begun anew.
const DATA_PATIENCE: Duration = Duration::from_hours(24);
/// Releases from this on refuse to let a member go whose absence leaves a keyspace short of members, of the server's own, too; for clients'
/// keyspaces that has been seen to before (`nodetool decommission --force`).
const FORCE_SINCE: Release = Release { major: 4, minor: 0 };

/// What goes on beside the server.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    state: Arc<Mutex<State>>,
    pub(super) gossip: Gossip,
    pub(super) sstables: Counts,
}

#[derive(Debug, Default)]
struct State {
    doing: Option<Change>,
    failed: Option<Failed>,
    found: Option<Found>,
    without: RepairedWithout,
}

impl Tasks {
    /// Says what goes on, and why the last change did not succeed.
    pub fn describe(&self, facts: &mut Facts) {
        let state = self.lock();
        facts.doing.clone_from(&state.doing);
        facts.failed.clone_from(&state.failed);
        facts.found.clone_from(&state.found);
        facts.repaired_without = Some(state.without.of_present(&self.gossip.counts(&facts.peers)));
    }

    /// Says of a repair from now on that members took no part in it.
    pub(super) fn has_repaired_without(&self, keyspace: String, silences: without::Silences) {
        self.lock().without.note(keyspace, silences);
    }

    /// Says what was found of a backup from now on.
    pub(super) fn has_found(&self, found: Found) {
        self.lock().found = Some(found);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a change go on, if nothing else does.
    pub(super) fn begin(
        &self,
        change: &Change,
        work: impl Future<Output = Result<()>> + Send + 'static,
    ) -> Result<(), Failure> {
        let mut state = self.lock();
        match &state.doing {
            Some(doing) if doing == change => return Ok(()),
            Some(_) => return Err(Failure::Refused("another change is being made".to_owned())),
            None => (state.doing, state.failed) = (Some(change.clone()), None),
        }
        drop(state);
        let (tasks, change) = (self.clone(), change.clone());
        tokio::spawn(async move {
            let error = work.await.err().map(|error| format!("{error:#}"));
            match &error {
                None => log::info("the ring was changed", &json!({"change": change})),
                Some(error) => log::warn("the ring was not changed", &json!({"change": change, "error": error})),
            }
            let failed = error.map(|why| Failed { of: change, why, at: Timestamp::now() });
            let mut state = tasks.lock();
            (state.doing, state.failed) = (None, failed);
        });
        Ok(())
    }
}

/// Who makes changes.
#[derive(Clone, Debug)]
pub struct Changer {
    /// The server.
    pub server: Server,
    /// Its daemon.
    pub daemon: String,
    /// Where everything is.
    pub paths: Paths,
    /// What goes on.
    pub tasks: Tasks,
    /// By which `nodetool` is run.
    pub commands: Commands,
}

impl Changer {
    /// Makes a change, or begins it.
    ///
    /// # Errors
    /// When it was not made or begun.
    pub async fn change(&self, change: &Change) -> Result<(), Failure> {
        match change {
            Change::Replicate { keyspace, from, to } => self.replicate(keyspace, *from, *to).await,
            Change::Repair { keyspace, factor, routine } => self.repair(change, keyspace, *factor, *routine).await,
            Change::RepairWithout { keyspace, factor, absent } => {
                self.holds(keyspace, *factor).await?;
                without::repair(self, change, keyspace, absent).await
            }
            Change::UpgradeSstables => self.upgrade_sstables(change),
            // It did, or is about to be stopped.
            Change::Decommission if state_file::is_draining(&self.paths, &self.daemon) => Ok(()),
            Change::Decommission => self.decommission(change).await,
            Change::Look { of } => save::look(self, of).await,
            Change::Backup { .. } | Change::RestoreSchema { .. } | Change::RestoreRows { .. } => {
                let (this, work) = (self.clone(), change.clone());
                self.tasks.begin(change, async move { save::carry_out(&this, work).await })
            }
            Change::Remove { host_id } => {
                let (this, host_id) = (self.clone(), host_id.clone());
                self.tasks.begin(change, async move { this.nodetool(&["removenode", &host_id]).await })
            }
        }
    }

    async fn replicate(&self, keyspace: &str, from: u32, to: u32) -> Result<(), Failure> {
        self.holds(keyspace, from).await?;
        if from.abs_diff(to) != 1 || to == 0 {
            let why = format!("{keyspace}: from {from} to {to} members is more than one step");
            return Err(Failure::Refused(why));
        }
        let statement = replicated(keyspace, to);
        in_time(async { session(&self.server.clients, &self.paths).await?.execute(&statement).await }).await?;
        Ok(())
    }

    async fn repair(&self, change: &Change, keyspace: &str, factor: u32, routine: bool) -> Result<(), Failure> {
        self.holds(keyspace, factor).await?;
        let (this, keyspace) = (self.clone(), keyspace.to_owned());
        self.tasks.begin(change, async move {
            // What is deleted meanwhile is not in it.
            let (data, begun) = (this.paths.at(&this.server.data), Timestamp::now());
            this.nodetool(&["repair", "-full", &keyspace]).await?;
            ensure!(disk::has_served(&data), "its data directory was emptied meanwhile");
            if !routine {
                disk::note_repaired(&data, &keyspace, factor)?;
            }
            disk::note_repaired_at(&data, &keyspace, begun)
        })
    }

    fn upgrade_sstables(&self, change: &Change) -> Result<(), Failure> {
        let this = self.clone();
        self.tasks.begin(change, async move {
            this.nodetool(&["upgradesstables"]).await?;
            let left = super::facts(&this).await.older;
            ensure!(left == 0, "{left} files are as they were; see the server's log");
            Ok(())
        })
    }

    async fn decommission(&self, change: &Change) -> Result<(), Failure> {
        let facts = in_time(super::ask(self)).await?;
        let others = facts.peers.len() as u32;
        let all = || facts.keyspaces.iter().chain(&facts.placed);
        if let Some((keyspace, factor)) = all().find(|(_, factor)| **factor > others) {
            let why = format!("{keyspace} is to be on {factor} members, and {others} would be left");
            return Err(Failure::Refused(why));
        }
        let argv = if Release::of(&facts.release) >= FORCE_SINCE {
            &["decommission", "--force"][..]
        } else {
            &["decommission"]
        };
        let this = self.clone();
        self.tasks.begin(change, async move {
            this.nodetool(argv).await?;
            // Its process runs on, and has nothing to hand over when it is stopped.
            state_file::mark_draining(&this.paths, &this.daemon)?;
            disk::note_left(&this.paths.at(&this.server.data))
        })
    }

    /// Fails if a keyspace is to be on another number of members.
    pub(super) async fn holds(&self, keyspace: &str, factor: u32) -> Result<(), Failure> {
        // That of users, too, whether clients of this server log in yet or not.
        let keyspaces = async { simple_keyspaces(&mut session(&self.server.clients, &self.paths).await?).await };
        let found = in_time(keyspaces).await?.get(keyspace).copied();
        if found == Some(factor) {
            return Ok(());
        }
        let found = found.map_or_else(|| "is not there".to_owned(), |found| format!("is to be on {found} members"));
        Err(Failure::Refused(format!("{keyspace} {found}, and not on {factor}")))
    }

    pub(super) async fn nodetool(&self, arguments: &[&str]) -> Result<()> {
        self.nodetool_says(arguments, DATA_PATIENCE).await.map(drop)
    }

    pub(super) async fn nodetool_says(&self, arguments: &[&str], patience: Duration) -> Result<String> {
        let set = RunDir::new(self.paths.run_dir()).load(&self.daemon)?.context("the server was never started")?;
        let port = self.server.jmx.to_string();
        let argv: Vec<String> =
            [&["nodetool", "-p", &port], arguments].concat().into_iter().map(str::to_owned).collect();
        self.commands.run(process::command(&argv, &set), patience).await
    }
}

/// What a server answers, unless it takes too long.
pub(super) async fn in_time<T>(answer: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(SCHEMA_PATIENCE, answer).await.context("the server does not answer in time")?
}

/// The statement by which each row of a keyspace is to be on so many members.
pub(super) fn replicated(keyspace: &str, members: u32) -> String {
    let replication = format!("{{'class': 'SimpleStrategy', 'replication_factor': {members}}}");
    format!("ALTER KEYSPACE {} WITH replication = {replication}", quoted(keyspace))
}

/// A name in CQL.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use anyhow::bail;
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn no_name_ends_its_own_quotation() {
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
    }

    #[tokio::test]
    async fn one_change_goes_on_at_a_time_and_how_it_ended_is_kept() {
        let tasks = Tasks::default();
        let (end, ended) = oneshot::channel::<()>();
        let work = async move {
            let _ = ended.await;
            bail!("no space")
        };
        assert!(tasks.begin(&Change::Decommission, work).is_ok());
        let look = || {
            let mut facts = Facts::default();
            tasks.describe(&mut facts);
            (facts.doing, facts.failed.map(|failed| failed.why))
        };
        assert_eq!(look(), (Some(Change::Decommission), None));
        assert!(tasks.begin(&Change::Decommission, async { bail!("begun twice") }).is_ok());
        let other = Change::Remove { host_id: "x".into() };
        assert!(matches!(tasks.begin(&other, async { Ok(()) }), Err(Failure::Refused(_))));
        end.send(()).unwrap();
        while look().0.is_some() {
            tokio::task::yield_now().await;
        }
        assert_eq!(look(), (None, Some("no space".to_owned())));
        assert!(tasks.begin(&other, async { Ok(()) }).is_ok());
        assert_eq!(look().1, None);
    }
}
