//! Wherever in a procedure the operator is killed or its resource is changed, the ensemble becomes as wished in the end, and
//! nothing that was acknowledged is lost. Wherever the resource is deleted, nothing of it is left, and it can be made anew.
//!
//! The operator runs as a process, so that it can be killed directly after its k-th mutating request: the API server has
//! acted, the operator does not know the answer. It runs without leader election, since a killed leader's lease takes 30 s
//! to expire. The resource is changed after each write of what is not merely told: between two of those a change makes no
//! difference to another one. `TF_SAMPLE` says how many procedures, drawn with `TF_TEST_SEED`, or `all`
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

/// Procedures that are disturbed if nothing else is said, in as many of the tests here.
const DEFAULT: usize = 1;
/// The last write that is drawn: every procedure has about so many.
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
    const ALL: [Self; 4] = [Self::Killed, Self::Reverted, Self::Changed, Self::Deleted];

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
    quorum_tls: bool,
    image: Option<&'static str>,
}

impl Wish {
    const fn members(members: usize) -> Self {
        Self { members, level: "info", quorum_tls: false, image: None }
    }

    fn spec(self) -> Value {
        let mut service = json!({"tls": {"quorum": self.quorum_tls}});
        if let Some(image) = self.image {
            service["containers"] = json!([{"name": "zookeeper", "image": image}]);
        }
        let common = json!({"replicas": self.members, "logLevel": self.level});
        json!({"commonConfiguration": common, "serviceConfiguration": service})
    }

    /// Whether the ensemble is of this size and speaks as wished, in the words of its status.
    fn is_told(self, zookeeper: &Resource) -> bool {
        zookeeper.is_ready_with(self.members) && tls::has_changed_over(zookeeper, self.quorum_tls)
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} members, log level {}", self.members, self.level)?;
        f.write_str(if self.quorum_tls { ", TLS between them" } else { "" })?;
        self.image.map_or(Ok(()), |image| write!(f, ", {image}"))
    }
}

/// Procedures one after the other. After them the ensemble is as it was before.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// What tells its tests from those of others, when some are drawn.
    number: usize,
    wishes: [Wish; 3],
    /// What is wished in between by one who changes his mind.
    other: Wish,
}

/// Grow, change the configuration, shrink.
const SIZES: Round = Round {
    number: 0,
    wishes: [Wish::members(3), Wish { level: "debug", ..Wish::members(3) }, Wish::members(1)],
    other: Wish { level: "warning", ..Wish::members(2) },
};

/// Change to TLS between the servers, to another image, and both back at once.
const CHANGES: Round = Round {
    number: 1,
    wishes: [
        Wish { quorum_tls: true, ..Wish::members(3) },
        Wish { quorum_tls: true, image: Some(rollout::FORMER.1), ..Wish::members(3) },
        Wish::members(3),
    ],
    other: Wish { level: "warning", ..Wish::members(3) },
};

impl Round {
    const ALL: usize = 2;

    /// What there is before and afterwards.
    fn rest(&self) -> Wish {
        self.wishes[self.wishes.len() - 1]
    }
}

struct Stage {
    lab: Turn,
    client: Client,
    proxy: Proxy,
    operator: Arc<std::sync::Mutex<Operator>>,
    round: Round,
    now: Wish,
    version: u64,
}

impl Stage {
    async fn set(round: Round) -> Result<Option<Self>> {
        let Some(lab) = lab(3, &["replicaCount=0"], &[rollout::FORMER.0]).await? else { return Ok(None) };
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
        let mut stage = Self { lab, client, proxy, operator, round, now: round.rest(), version: 0 };
        stage.wish(round.rest()).await?;
        stage.fulfilled(round.rest()).await?;
        Ok(Some(stage))
    }

    async fn wish(&self, wish: Wish) -> Result<()> {
        resources::apply(&self.client, ZOOKEEPER, NAMESPACE, NAME, wish.spec()).await.map(drop)
    }

    /// Waits until the ensemble is as wished, in the words of its servers, too.
    async fn fulfilled(&mut self, wish: Wish) -> Result<Vec<Ipv4Addr>> {
        let fulfilled = |zookeeper: &Resource| zookeeper.is("CertificatesReady", "True") && wish.is_told(zookeeper);
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
            let reached = |zookeeper: &Resource| wish.is_told(zookeeper);
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
                    let other = self.round.other;
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

    /// Carries out one wish after the other, each with the same disturbance. How many of these procedures were disturbed.
    async fn carry_out(&mut self, wishes: &[Wish], after: u64, disturbance: Disturbance) -> Result<usize> {
        let servers = self.lab.real_nodes()?.addresses()?;
        let keeps = disturbance != Disturbance::Deleted;
        let journal = if keeps { Some(Journal::begin(&servers).await?) } else { None };
        let mut disturbed = 0;
        for wish in wishes {
            let what = || format!("{disturbance:?} after write {after} on the way to {wish}");
            let is_disturbed = self.disturbed(*wish, after, disturbance).await.with_context(what)?;
            println!("{}: {}", what(), if is_disturbed { "as wished" } else { "there is no such write" });
            disturbed += usize::from(is_disturbed);
        }
        let serving = self.fulfilled(self.now).await?;
        if let Some(journal) = journal {
            let account = journal.end(&serving).await?;
            println!("{} writes, longest pause {:?}", account.acknowledged.len(), account.longest_pause);
        }
        Ok(disturbed)
    }
}

async fn every_round(round: Round, disturbance: Disturbance) -> Result<()> {
    let sample = Sample::from_environment(DEFAULT)?;
    let tests = Round::ALL * Disturbance::ALL.len();
    let test = round.number * Disturbance::ALL.len() + disturbance as usize;
    if !sample.draw(tests, 3).contains(&test) {
        return skip::this_test(&format!("not drawn in this run{sample}; cargo xtask soak procedures runs it"));
    }
    let Some(mut stage) = Stage::set(round).await? else { return Ok(()) };
    let mut disturbed = 0;
    match sample {
        Sample::All => {
            for after in 1.. {
                match stage.carry_out(&round.wishes, after, disturbance).await? {
                    0 => break,
                    number => disturbed += number,
                }
            }
        }
        Sample::Some { .. } => {
            let procedures = round.wishes.len();
            for case in sample.draw(procedures * DRAWN_FROM, 4 + test as u64) {
                let (procedure, after) = (case % procedures, case / procedures + 1);
                let before = round.wishes[(procedure + procedures - 1) % procedures];
                stage.wish(before).await?;
                stage.fulfilled(before).await?;
                let done = stage.carry_out(&round.wishes[procedure..=procedure], after as u64, disturbance).await;
                disturbed += done.with_context(|| sample.to_string())?;
            }
        }
    }
    println!("{disturbance:?}: {disturbed} procedures ended as wished{sample}");
    assert!(disturbed > 0 || sample != Sample::All, "no procedure was disturbed");
    Ok(())
}

/// The tests of a round, one for each disturbance.
macro_rules! tests_of {
    ($module:ident, $round:ident) => {
        mod $module {
            use super::{$round, Disturbance, Result, every_round};

            #[tokio::test(flavor = "multi_thread")]
            async fn an_operator_killed_after_any_write_ends_what_it_began_as_wished_and_loses_nothing() -> Result<()> {
                every_round($round, Disturbance::Killed).await
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_resource_set_back_at_any_step_and_wished_again_becomes_as_wished_and_loses_nothing() -> Result<()> {
                every_round($round, Disturbance::Reverted).await
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_resource_changed_at_any_step_and_wished_again_becomes_as_wished_and_loses_nothing() -> Result<()> {
                every_round($round, Disturbance::Changed).await
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_resource_deleted_at_any_step_leaves_nothing_and_is_made_anew_as_wished() -> Result<()> {
                every_round($round, Disturbance::Deleted).await
            }
        }
    };
}

tests_of!(sizes, SIZES);
tests_of!(changes, CHANGES);
