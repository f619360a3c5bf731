//! Wherever in a procedure the operator is killed or its resource is changed, the ensemble becomes as wished in the end, and
//! nothing that was acknowledged is lost. Wherever the resource is deleted, nothing of it is left, and it can be made anew.
//!
//! The operator runs as a process, so that it can be killed directly after its k-th mutating request: the API server has
//! acted, the operator does not know the answer. It runs without leader election, since a killed leader's lease takes 30 s
//! to expire. The resource is changed after each write of what is not merely told: between two of those a change makes no
//! difference to another one. `TF_SAMPLE` says how many rounds, drawn with `TF_TEST_SEED`, or `all`
//! (`cargo xtask soak procedures`).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::ensure;
use serde_json::Value;
use tf_testing::kubeconfig::Endpoint;
use tf_testing::operators::{Operator, Run};
use tf_testing::proxy::{Match, Point, Proxy};
use tokio::sync::oneshot;

use super::journal::Journal;
use super::watchman::HONEST_WITHIN;
use super::*;

/// Rounds if nothing else is said: none, until all were seen.
const DEFAULT: usize = 0;
/// The last write that is drawn: growing always has so many.
const DRAWN_FROM: usize = 8;
/// For a procedure that is disturbed once.
const LIMIT: Duration = Duration::from_mins(4);

/// What happens in the middle of a procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disturbance {
    /// The operator is killed, and started again.
    Killed,
    /// The resource is set back to what it was, and later to what is wished.
    Reverted,
    /// The resource is set to something else, and later to what is wished.
    Changed,
    /// The resource is deleted; once nothing is left of it, members' directories are emptied, and it is made anew as wished.
    Deleted,
}

impl Disturbance {
    /// The requests after which it happens.
    fn counts(self) -> Match {
        match self {
            Self::Killed => Match::writes(),
            Self::Reverted | Self::Changed | Self::Deleted => Match::writes()
                .and(Match::when(|request| request.subresource != "status" && request.resource != "events")),
        }
    }
}

/// What is wished of an ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wish {
    members: usize,
    level: &'static str,
}

impl Wish {
    fn spec(self) -> Value {
        json!({"commonConfiguration": {"replicas": self.members, "logLevel": self.level}})
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} members, log level {}", self.members, self.level)
    }
}

/// Grow, change the configuration, shrink: after one round it is as it was before.
const ROUND: [Wish; 3] =
    [Wish { members: 3, level: "info" }, Wish { members: 3, level: "debug" }, Wish { members: 1, level: "info" }];

struct Stage {
    lab: Turn,
    client: Client,
    proxy: Proxy,
    operator: Arc<std::sync::Mutex<Operator>>,
    now: Wish,
    version: u64,
}

impl Stage {
    async fn set() -> Result<Option<Self>> {
        let Some(lab) = lab(3, &["replicaCount=0"], &[]).await? else { return Ok(None) };
        let proxy = lab.proxy().await?;
        let how = Run {
            endpoint: Some(Endpoint { url: proxy.url(), ca: None }),
            env: vec![("LEADER_ELECTION".into(), "false".into())],
            ..Run::default()
        };
        let operator = lab.operate(OPERATOR, NAMESPACE, &how).await?;
        operator.ready().await?;
        let client = lab.client().await?;
        let operator = Arc::new(std::sync::Mutex::new(operator));
        let mut stage = Self { lab, client, proxy, operator, now: ROUND[2], version: 0 };
        stage.wish(ROUND[2]).await?;
        stage.fulfilled(ROUND[2]).await?;
        Ok(Some(stage))
    }

    async fn wish(&self, wish: Wish) -> Result<()> {
        resources::apply(&self.client, ZOOKEEPER, NAMESPACE, NAME, wish.spec()).await.map(drop)
    }

    /// Waits until the ensemble is as wished, in the words of its servers, too.
    async fn fulfilled(&mut self, wish: Wish) -> Result<Vec<Ipv4Addr>> {
        let fulfilled =
            |zookeeper: &Resource| zookeeper.is("CertificatesReady", "True") && zookeeper.is_ready_with(wish.members);
        let zookeeper =
            resources::until(&self.client, ZOOKEEPER, NAMESPACE, NAME, &wish.to_string(), LIMIT, fulfilled).await?;
        // What is set back at once was said to be so by a server that was told to restart meanwhile.
        let what = format!("{wish}, in the words of the servers");
        let voting = eventually(&what, HONEST_WITHIN, async || Ok(membership::voting(&zookeeper).await.ok()));
        let (addresses, version) = voting.await?;
        ensure!(version >= self.version, "the version of the list fell from {:x} to {version:x}", self.version);
        self.version = version;
        self.now = wish;
        Ok(addresses)
    }

    /// Carries a wish out, with a disturbance after a write. Whether there was that write.
    async fn disturbed(&mut self, wish: Wish, after: u64, disturbance: Disturbance) -> Result<bool> {
        let former = self.now;
        let armed = Arc::new(AtomicBool::new(true));
        let (send, sprung) = oneshot::channel();
        let (is_armed, operator) = (Arc::clone(&armed), Arc::clone(&self.operator));
        self.proxy.after_nth(disturbance.counts(), after, Point::BeforeDelivery, move |_| async move {
            if is_armed.load(Ordering::SeqCst) {
                if disturbance == Disturbance::Killed {
                    let _ = operator.lock().unwrap().process.kill();
                }
                let _ = send.send(());
            }
        });
        self.wish(wish).await?;
        let done = async {
            let reached = |zookeeper: &Resource| zookeeper.is_ready_with(wish.members);
            resources::until(&self.client, ZOOKEEPER, NAMESPACE, NAME, "done before", LIMIT, reached).await.map(drop)
        };
        let is_sprung = tokio::select! {
            biased;
            sprung = sprung => sprung.is_ok(),
            done = done => done.map(|()| false)?,
        };
        armed.store(false, Ordering::SeqCst);
        if is_sprung {
            match disturbance {
                Disturbance::Killed => self.operator.lock().unwrap().process.restart()?,
                Disturbance::Reverted => {
                    self.wish(former).await?;
                    self.fulfilled(former).await?;
                    self.wish(wish).await?;
                }
                Disturbance::Deleted => {
                    self.delete().await.with_context(|| self.log())?;
                    self.wish(wish).await?;
                }
                Disturbance::Changed => {
                    let other = Wish { members: 2, level: "warning" };
                    self.wish(other).await?;
                    self.fulfilled(other).await?;
                    self.wish(wish).await?;
                }
            }
        }
        self.fulfilled(wish).await.with_context(|| self.log())?;
        Ok(is_sprung)
    }

    /// Deletes the resource, waits until nothing of it is left, and empties the directories of its members.
    async fn delete(&mut self) -> Result<()> {
        let directory = disaster::directory(pods(&self.client).await?.values().next().context("no pod")?)?;
        deleted(&self.client).await?;
        for node in self.lab.real_nodes()?.all()? {
            node.run("rm", &["-rf", &directory]).await?;
        }
        self.version = 0;
        Ok(())
    }

    /// The operator's last lines.
    fn log(&self) -> String {
        let operator = self.operator.lock().unwrap();
        let state = if operator.process.is_running() { "runs" } else { "does not run" };
        format!("the operator {state}; its log ends with\n{}", operator.process.tail(20))
    }

    /// Once around, with the same disturbance in each procedure. How many procedures were disturbed.
    async fn round(&mut self, after: u64, disturbance: Disturbance) -> Result<usize> {
        let servers = self.lab.real_nodes()?.addresses()?;
        let keeps = disturbance != Disturbance::Deleted;
        let journal = if keeps { Some(Journal::begin(&servers).await?) } else { None };
        let mut disturbed = 0;
        for wish in ROUND {
            let what = || format!("{disturbance:?} after write {after} on the way to {wish}");
            let is_disturbed = self.disturbed(wish, after, disturbance).await.with_context(what)?;
            println!("{}: {}", what(), if is_disturbed { "as wished" } else { "there is no such write" });
            disturbed += usize::from(is_disturbed);
        }
        let serving = self.fulfilled(ROUND[2]).await?;
        if let Some(journal) = journal {
            let account = journal.end(&serving).await?;
            println!("{} writes, longest pause {:?}", account.acknowledged.len(), account.longest_pause);
        }
        Ok(disturbed)
    }
}

async fn every_round(disturbance: Disturbance) -> Result<()> {
    let sample = Sample::from_environment(DEFAULT)?;
    if sample.is_empty() {
        return skip::this_test("none of its cases is drawn; cargo xtask soak runs them");
    }
    let Some(mut stage) = Stage::set().await? else { return Ok(()) };
    let mut disturbed = 0;
    match sample {
        Sample::All => {
            for after in 1.. {
                match stage.round(after, disturbance).await? {
                    0 => break,
                    number => disturbed += number,
                }
            }
        }
        Sample::Some { .. } => {
            for after in sample.draw(DRAWN_FROM, 1 + disturbance as u64) {
                let round = stage.round(after as u64 + 1, disturbance).await;
                disturbed += round.with_context(|| sample.to_string())?;
            }
        }
    }
    println!("{disturbance:?}: {disturbed} procedures ended as wished{sample}");
    assert!(disturbed > 0, "no procedure was disturbed{sample}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_killed_after_any_write_ends_what_it_began_as_wished_and_loses_nothing() -> Result<()> {
    every_round(Disturbance::Killed).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_set_back_at_any_step_and_wished_again_becomes_as_wished_and_loses_nothing() -> Result<()> {
    every_round(Disturbance::Reverted).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_changed_at_any_step_and_wished_again_becomes_as_wished_and_loses_nothing() -> Result<()> {
    every_round(Disturbance::Changed).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_deleted_at_any_step_leaves_nothing_and_is_made_anew_as_wished() -> Result<()> {
    every_round(Disturbance::Deleted).await
}
