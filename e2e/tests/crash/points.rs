//! Crash points: some of them, or all.

use std::{collections::BTreeSet, env};

use anyhow::{Context as _, Result};
use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};
use tf_testing::{operators, seed};

use crate::stage::{Crash, Stage};

/// Variable with the number of points for each operator, or `all`.
const POINTS: &str = "TF_CRASH_POINTS";

/// Points for each operator if nothing else is said.
const DEFAULT: u64 = 2;

enum Points {
    All,
    Sample { each: u64, seed: u64 },
}

impl Points {
    fn from_environment() -> Result<Self> {
        let points = env::var(POINTS).unwrap_or_else(|_| DEFAULT.to_string());
        if points == "all" {
            return Ok(Self::All);
        }
        let each = points.parse().with_context(|| format!("{POINTS}={points} is neither a number nor all"))?;
        Ok(Self::Sample { each, seed: seed::from_environment()? })
    }

    /// The points of an operator that writes so often. All of them go on until there is none any more.
    fn of(&self, writes: u64, number: usize) -> Box<dyn Iterator<Item = u64>> {
        match self {
            Self::All => Box::new(1..),
            Self::Sample { each, seed } => {
                let mut generator = SmallRng::seed_from_u64(seed.wrapping_add(number as u64));
                let mut drawn = BTreeSet::new();
                while (drawn.len() as u64) < (*each).min(writes) {
                    drawn.insert(generator.random_range(1..=writes));
                }
                Box::new(drawn.into_iter())
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_is_killed_after_any_of_its_writes_leaves_the_same_cluster_in_the_end() -> Result<()> {
    let points = Points::from_environment()?;
    let seed =
        if let Points::Sample { seed, .. } = &points { format!(" ({}={seed})", seed::VARIABLE) } else { String::new() };
    let mut stage = Stage::set().await?;
    let undisturbed = stage.bring_up(None, None).await.context("undisturbed")?;
    let (mut reached, mut failures) = (0, Vec::new());
    for (number, operator) in operators::ALL.into_iter().enumerate() {
        let writes = undisturbed.writes.get(operator).copied().unwrap_or_default();
        assert!(writes > 0, "{operator} has nothing to do in a bring-up");
        let mut points_of_operator = 0;
        for after in points.of(writes, number) {
            let outcome = stage.bring_up(Some(Crash { operator, after }), Some(&undisturbed.snapshot)).await;
            let label = format!("{operator} killed after write {after} of {writes}");
            match outcome {
                Err(error) => {
                    println!("{label}: {error:#}");
                    failures.push(format!("{label}{seed}: {error:#}"));
                }
                // How statuses and events are merged differs a little from one bring-up to the next.
                Ok(outcome) if outcome.killed.is_none() => {
                    println!("{label}: it wrote only {} times", outcome.writes[operator]);
                    if after > writes {
                        break;
                    }
                }
                Ok(outcome) => {
                    let took = outcome.took.as_secs_f64();
                    let request = outcome.killed.map(|killed| killed.request);
                    let path =
                        request.map(|request| format!("{:?} {}", request.verb, request.path)).unwrap_or_default();
                    println!("{label}: the same after {took:.1} s ({path})");
                    points_of_operator += 1;
                }
            }
        }
        println!("{operator}: {points_of_operator} crash points");
        reached += points_of_operator;
    }
    println!("{reached} crash points led to the same cluster, {} did not{seed}", failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(reached >= operators::ALL.len() as u64, "only {reached} crash points were reached{seed}");
    Ok(())
}
