//! Wherever in a procedure the operator is killed or its resource is changed, the store becomes as wished in the end, and
//! nothing that was acknowledged is lost. Wherever the resource is deleted, nothing of it is left, and it can be made anew.
//!
//! The operator runs as a process, so that it can be killed directly after its k-th mutating request: the API server has
//! acted, the operator does not know the answer. It runs without leader election, since a killed leader's lease takes 30 s
//! to expire. The resource is changed after each write of what is not merely told: between two of those a change makes no
//! difference to another one.
//!
//! A case is a write of a procedure and what happens after it, alone. A run tries one, drawn with `TF_TEST_SEED` from those that are quick
//! enough; with `TF_SAMPLE` it is so many of all. `cargo xtask soak procedures` tries every write of every procedure, one after the other:
//! operators of which each is killed after its first write carry it out together; somebody changes his mind after every write, and
//! once more after the next one; and what is deleted after a write becomes what it was before it is deleted after the next one. An
//! operator whose predecessor died when it told something may tell things: whoever begins tells that it
//! asks the members, and what they answered, and would come to nothing else.

mod stage;
mod trap;

use std::fmt;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tf_testing::proxy::Match;
use tf_testing::sample::{self, Sample};
use tf_testing::skip;

use self::stage::Stage;
pub use self::stage::{Site, Subject, servers};

/// What happens in the middle of a procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
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
    const ALL: usize = Self::Deleted as usize + 1;

    /// The requests after which it happens.
    fn counts(self) -> Match {
        match self {
            Self::Killed => Match::writes(),
            Self::Reverted | Self::Changed | Self::Deleted => Match::deeds(),
        }
    }
}

/// What is wished of a store.
pub trait Wish: Copy + fmt::Display + 'static {
    /// What can be wished of every store.
    fn common(self) -> Common;

    /// The spec that says so.
    fn spec(self) -> Value;
}

/// Configurations that differ in the level of the log, which is told to a server that runs, and where a store has one in a setting with this
/// number, for which it is started anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Configuration {
    Usual,
    Other,
    Another,
}

impl Configuration {
    pub const fn number(self) -> u32 {
        self as u32
    }

    pub const fn level(self) -> &'static str {
        match self {
            Self::Usual => "info",
            Self::Other => "debug",
            Self::Another => "warning",
        }
    }
}

/// What can be wished of every store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    pub members: usize,
    pub configuration: Configuration,
    /// Whether a node is gone for good meanwhile, and another one with another address takes its place.
    pub replaces_node: bool,
}

impl Common {
    pub const fn members(members: usize) -> Self {
        Self { members, configuration: Configuration::Usual, replaces_node: false }
    }

    pub const fn with(self, configuration: Configuration) -> Self {
        Self { configuration, ..self }
    }

    pub const fn on_another_node(self) -> Self {
        Self { replaces_node: true, ..self }
    }
}

impl fmt::Display for Common {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} members, configuration {}", self.members, self.configuration.number())?;
        f.write_str(if self.replaces_node { ", one of them on another node" } else { "" })
    }
}

impl Wish for Common {
    fn common(self) -> Common {
        self
    }

    fn spec(self) -> Value {
        json!({"commonConfiguration": {"replicas": self.members, "logLevel": self.configuration.level()}})
    }
}

/// Procedures one after the other. After them the store is as it was before.
#[derive(Clone, Copy, Debug)]
pub struct Round<W: 'static> {
    pub name: Name,
    pub wishes: &'static [W],
    /// What is wished in between by one who changes his mind.
    pub other: W,
}

impl<W: Wish> Round<W> {
    /// What there is before and afterwards.
    fn rest(&self) -> W {
        self.wishes[self.wishes.len() - 1]
    }
}

/// The rounds of all stores, in the order in which their cases are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    ZookeeperSizes,
    ZookeeperChanges,
    RabbitmqSizes,
    RabbitmqChanges,
    // What takes minutes for one procedure.
    RabbitmqNodes,
    ZookeeperSigners,
    ZookeeperNodes,
    CassandraSizes,
    CassandraChanges,
    RedisSizes,
    RedisChanges,
}

impl Name {
    /// Rounds of which every run tries a case.
    const QUICK: usize = Self::RabbitmqChanges as usize + 1;
    const ALL: usize = Self::RedisChanges as usize + 1;
}

/// Cases of a test that can be drawn: eight writes of three procedures, since every procedure has about so many.
const CASES: usize = 24;

/// Which cases of a test are tried: a number below [`CASES`] each.
fn drawn(sample: Sample, round: Name, disturbance: Disturbance) -> Vec<usize> {
    let rounds = if sample::is_asked_for() { Name::ALL } else { Name::QUICK };
    let test = round as usize * Disturbance::ALL + disturbance as usize;
    let cases = sample.draw(rounds * Disturbance::ALL * CASES, 3).into_iter();
    cases.filter(|case| case / CASES == test).map(|case| case % CASES).collect()
}

/// Tries a round with a disturbance, as far as it is drawn.
pub async fn every_round<S: Subject>(round: Round<S::Wish>, disturbance: Disturbance) -> Result<()> {
    let sample = Sample::from_environment(1)?;
    let cases = drawn(sample, round.name, disturbance);
    if cases.is_empty() {
        return skip::this_test(&format!("not drawn in this run{sample}; cargo xtask soak procedures runs it"));
    }
    let Some(mut stage) = Stage::<S>::set(round).await? else { return Ok(()) };
    let disturbed = if sample == Sample::All {
        let mut disturbed = 0;
        for wish in round.wishes {
            let number = stage.carry_out_throughout(*wish, disturbance).await?;
            ensure!(number > 0, "nothing was written on the way to {wish}");
            disturbed += number;
        }
        disturbed
    } else {
        some(&mut stage, &cases, round, disturbance).await.with_context(|| sample.to_string())?
    };
    println!("{:?}, {disturbance:?}: after {disturbed} writes, as wished in the end{sample}", round.name);
    Ok(())
}

/// Tries these cases. How many of them were disturbed.
async fn some<S: Subject>(
    stage: &mut Stage<S>,
    cases: &[usize],
    round: Round<S::Wish>,
    disturbance: Disturbance,
) -> Result<usize> {
    let (procedures, mut disturbed) = (round.wishes.len(), 0);
    for case in cases {
        let (procedure, after) = (case % procedures, case / procedures + 1);
        stage.found(round.wishes[(procedure + procedures - 1) % procedures]).await?;
        disturbed += usize::from(stage.carry_out(round.wishes[procedure], after as u64, disturbance).await?);
    }
    Ok(disturbed)
}

/// The tests of a round, one for each disturbance.
macro_rules! tests_of {
    ($module:ident, $subject:ident, $round:ident) => {
        mod $module {
            use anyhow::Result;

            use super::{$round, $subject};
            use crate::crash::{Disturbance, every_round};

            #[tokio::test(flavor = "multi_thread")]
            async fn an_operator_killed_after_any_write_ends_what_it_began_as_wished_and_loses_nothing() -> Result<()> {
                every_round::<$subject>($round, Disturbance::Killed).await
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_resource_set_back_at_any_step_and_wished_again_becomes_as_wished_and_loses_nothing() -> Result<()> {
                every_round::<$subject>($round, Disturbance::Reverted).await
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_resource_changed_at_any_step_and_wished_again_becomes_as_wished_and_loses_nothing() -> Result<()> {
                every_round::<$subject>($round, Disturbance::Changed).await
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_resource_deleted_at_any_step_leaves_nothing_and_is_made_anew_as_wished() -> Result<()> {
                every_round::<$subject>($round, Disturbance::Deleted).await
            }
        }
    };
}

pub(crate) use tests_of;
