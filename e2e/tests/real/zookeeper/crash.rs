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
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::Value;
use tf_testing::cert_manager;
use tf_testing::kubeconfig::Endpoint;
use tf_testing::operators::{Operator, Run};
use tf_testing::process::Process;
use tf_testing::proxy::{Match, Point, Proxy};
use tokio::sync::oneshot;

use super::host_files::Administrator;
use super::journal::Journal;
use super::watchman::HONEST_WITHIN;
use super::*;

/// Procedures that are disturbed if nothing else is said, in as many of the tests here.
const DEFAULT: usize = 1;
/// The last write that is drawn: every procedure has about so many.
const DRAWN_FROM: usize = 8;
/// For a procedure that is disturbed once. One authority takes minutes to replace another.
const LIMIT: Duration = tls::ROTATION;
/// Of cert-manager.
const ISSUER: &str = "corp";

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

/// Who signs the servers' certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signer {
    Operators,
    Issuer,
    /// Files on the nodes.
    Administrator,
}

impl Signer {
    /// Not an empty object: the API server makes that null where a former one had fields.
    fn spec(self) -> Option<Value> {
        match self {
            Self::Operators => None,
            Self::Issuer => Some(json!({"issuer": format!("ClusterIssuer/{ISSUER}")})),
            Self::Administrator => Some(json!({"hostFiles": {}})),
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
    signer: Signer,
    /// Whether a node is gone for good meanwhile, and another one with another address takes its place.
    replaces_node: bool,
}

impl Wish {
    const fn members(members: usize) -> Self {
        let signer = Signer::Operators;
        Self { members, level: "info", quorum_tls: false, image: None, signer, replaces_node: false }
    }

    const fn signed_by(signer: Signer) -> Self {
        Self { quorum_tls: true, signer, ..Self::members(3) }
    }

    const fn on_another_node(level: &'static str) -> Self {
        Self { level, replaces_node: true, ..Self::members(3) }
    }

    fn spec(self) -> Value {
        let mut service = json!({"tls": {"quorum": self.quorum_tls, "clientPort": tls::TLS_PORT}});
        if let Some(image) = self.image {
            service["containers"] = json!([{"name": "zookeeper", "image": image}]);
        }
        let mut common = json!({"replicas": self.members, "logLevel": self.level});
        if let Some(certificates) = self.signer.spec() {
            common["certificates"] = certificates;
        }
        json!({"commonConfiguration": common, "serviceConfiguration": service})
    }

    /// Whether the ensemble is of this size and speaks as wished, in the words of its status.
    fn is_told(self, zookeeper: &Resource) -> bool {
        zookeeper.is_ready_with(self.members)
            && zookeeper.is("CertificatesReady", "True")
            && tls::has_changed_over(zookeeper, self.quorum_tls)
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} members, log level {}", self.members, self.level)?;
        f.write_str(if self.quorum_tls { ", TLS between them" } else { "" })?;
        f.write_str(match self.signer {
            Signer::Operators => "",
            Signer::Issuer => ", an issuer's certificates",
            Signer::Administrator => ", certificates of the nodes",
        })?;
        f.write_str(if self.replaces_node { ", one of them on another node" } else { "" })?;
        self.image.map_or(Ok(()), |image| write!(f, ", {image}"))
    }
}

/// Procedures one after the other. After them the ensemble is as it was before.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// What tells its tests from those of others, when some are drawn.
    number: usize,
    wishes: &'static [Wish],
    /// What is wished in between by one who changes his mind.
    other: Wish,
}

/// Grow, change the configuration, shrink.
const SIZES: Round = Round {
    number: 0,
    wishes: &[Wish::members(3), Wish { level: "debug", ..Wish::members(3) }, Wish::members(1)],
    other: Wish { level: "warning", ..Wish::members(2) },
};

/// Change to TLS between the servers, to another image, and both back at once.
const CHANGES: Round = Round {
    number: 1,
    wishes: &[
        Wish { quorum_tls: true, ..Wish::members(3) },
        Wish { quorum_tls: true, image: Some(rollout::FORMER.1), ..Wish::members(3) },
        Wish::members(3),
    ],
    other: Wish { level: "warning", ..Wish::members(3) },
};

/// An issuer's authority instead of the operators' own, then certificates of the nodes, then the operators' own authority again.
const SIGNERS: Round = Round {
    number: 2,
    wishes: &[
        Wish::signed_by(Signer::Issuer),
        Wish::signed_by(Signer::Administrator),
        Wish::signed_by(Signer::Operators),
    ],
    other: Wish { level: "warning", ..Wish::signed_by(Signer::Operators) },
};

/// A node is replaced while the configuration changes, and another one while it changes back.
const NODES: Round = Round {
    number: 3,
    wishes: &[Wish::on_another_node("debug"), Wish::on_another_node("info")],
    other: Wish { level: "warning", ..Wish::members(3) },
};

impl Round {
    /// Rounds of which a run draws a test. The others take minutes for one procedure, and soaks run them.
    const DRAWN_FROM: usize = 2;

    /// What there is before and afterwards.
    fn rest(&self) -> Wish {
        self.wishes[self.wishes.len() - 1]
    }

    /// Whether others than the operators sign certificates.
    fn has_other_signers(&self) -> bool {
        self.wishes.iter().any(|wish| wish.signer != Signer::Operators)
    }
}

/// Those who sign certificates in the operators' stead.
struct Others {
    _cert_manager: Process,
    /// A client that trusts the issuer's root alone.
    root: Arc<ClientConfig>,
    administrator: Administrator,
}

impl Others {
    async fn begin(lab: &Lab) -> Result<Self> {
        let running = cert_manager::start(lab).await?;
        let root = CertificateDer::from_pem_slice(cert_manager::cluster_issuer(lab, ISSUER).await?.as_bytes())?;
        let root = Arc::new(tls::trusting_these(vec![root])?.with_no_client_auth());
        let administrator = Administrator::new()?;
        for node in lab.real_nodes()?.all()? {
            administrator.supply(&node).await?;
        }
        Ok(Self { _cert_manager: running, root, administrator })
    }

    /// Who signed the certificate that a server shows.
    async fn signer(&self, address: Ipv4Addr) -> Signer {
        if tls::connect(&self.root, address, tls::TLS_PORT).await.is_ok() {
            Signer::Issuer
        } else if self.administrator.shown(address, tls::TLS_PORT).await.is_ok() {
            Signer::Administrator
        } else {
            Signer::Operators
        }
    }
}

struct Stage {
    lab: Turn,
    client: Client,
    proxy: Proxy,
    operator: Arc<std::sync::Mutex<Operator>>,
    others: Option<Others>,
    round: Round,
    now: Wish,
    version: u64,
}

impl Stage {
    async fn set(round: Round) -> Result<Option<Self>> {
        let Some(lab) = STORE.lab(3, &["replicaCount=0"], &[rollout::FORMER.0]).await? else { return Ok(None) };
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
        let others = if round.has_other_signers() { Some(Others::begin(&lab).await?) } else { None };
        let mut stage = Self { lab, client, proxy, operator, others, round, now: round.rest(), version: 0 };
        stage.wish(round.rest()).await?;
        stage.fulfilled(round.rest()).await?;
        Ok(Some(stage))
    }

    async fn wish(&self, wish: Wish) -> Result<()> {
        resources::apply(&self.client, ZOOKEEPER, NAMESPACE, NAME, wish.spec()).await.map(drop)
    }

    /// Puts another node in the place of the one that has been there for the longest time.
    async fn replace_node(&self) -> Result<()> {
        let lost = self.lab.real_nodes()?.all()?.into_iter().next().context("a node")?;
        STORE.replace_node(&self.lab, &self.client, &lost).await.map(drop)
    }

    /// Waits until the ensemble is told to be as wished, on nodes that there are, with certificates of whom was wished.
    async fn told(&self, wish: Wish) -> Result<Resource> {
        eventually(&wish.to_string(), LIMIT, async || {
            let zookeeper = resources::get(&self.client, ZOOKEEPER, NAMESPACE, NAME).await?.context("it is gone")?;
            if !wish.is_told(&zookeeper) || tls::is_rotating(&zookeeper) {
                return Ok(None);
            }
            let nodes = self.lab.real_nodes()?.addresses()?;
            for member in members(&zookeeper) {
                let address = member.address.parse()?;
                if !nodes.contains(&address) {
                    return Ok(None);
                }
                if let Some(others) = &self.others
                    && others.signer(address).await != wish.signer
                {
                    return Ok(None);
                }
            }
            Ok(Some(zookeeper))
        })
        .await
    }

    /// Waits until the ensemble is as wished, in the words of its servers, too.
    async fn fulfilled(&mut self, wish: Wish) -> Result<Vec<Ipv4Addr>> {
        let zookeeper = self.told(wish).await?;
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
        if wish.replaces_node {
            self.replace_node().await?;
        }
        let is_sprung = tokio::select! {
            biased;
            sprung = sprung => sprung.is_ok(),
            done = self.told(wish) => done.map(|_| false)?,
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
        let directory = store::directory(pods(&self.client).await?.values().next().context("no pod")?)?;
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
        let mut disturbed = 0;
        for wish in wishes {
            let what = || format!("{disturbance:?} after write {after} on the way to {wish}");
            // Of the servers that there are before, a majority is there afterwards.
            let servers = self.lab.real_nodes()?.addresses()?;
            let keeps = disturbance != Disturbance::Deleted;
            let journal = if keeps { Some(Journal::begin(&servers).await?) } else { None };
            let is_disturbed = self.disturbed(*wish, after, disturbance).await.with_context(what)?;
            println!("{}: {}", what(), if is_disturbed { "as wished" } else { "there is no such write" });
            disturbed += usize::from(is_disturbed);
            if let Some(journal) = journal {
                let serving = self.fulfilled(*wish).await?;
                let account = journal.end(&serving).await.with_context(what)?;
                println!("{} writes, longest pause {:?}", account.acknowledged.len(), account.longest_pause);
            }
        }
        Ok(disturbed)
    }
}

async fn every_round(round: Round, disturbance: Disturbance) -> Result<()> {
    let sample = Sample::from_environment(DEFAULT)?;
    let tests = Round::DRAWN_FROM * Disturbance::ALL.len();
    let test = round.number * Disturbance::ALL.len() + disturbance as usize;
    if sample != Sample::All && !sample.draw(tests, 3).contains(&test) {
        return skip::this_test(&format!("not drawn in this run{sample}; cargo xtask soak procedures runs it"));
    }
    let Some(mut stage) = Stage::set(round).await? else { return Ok(()) };
    let mut disturbed = 0;
    match sample {
        Sample::All => {
            for after in 1.. {
                match stage.carry_out(round.wishes, after, disturbance).await? {
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
tests_of!(signers, SIGNERS);
tests_of!(nodes, NODES);
