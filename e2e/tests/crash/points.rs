//! Crash points: some of them, or all.

use anyhow::{Context as _, Result, ensure};
use tf_testing::{
    operators,
    sample::{self, Sample},
};

use crate::{
    snapshot::Snapshot,
    stage::{Crash, Outcome, Stage},
};

/// Points for each operator if nothing else is said.
const DEFAULT: usize = 1;
/// Operators that are killed then in a bring-up, and in a change.
const BROUGHT_UP: usize = 6;
const CHANGED: usize = 1;

/// Operators to kill: so many if nothing is said about the sample, else all.
fn drawn(sample: Sample, count: usize, salt: u64) -> Vec<&'static str> {
    match sample {
        Sample::Some { seed, .. } if !sample::is_asked_for() => {
            let few = Sample::Some { count, seed };
            few.draw(operators::ALL.len(), salt).into_iter().map(|index| operators::ALL[index]).collect()
        }
        _ => operators::ALL.to_vec(),
    }
}

/// After which of so many writes an operator is killed. Where all are tried it goes on until there is none any more.
fn points(sample: Sample, writes: usize, number: usize) -> Box<dyn Iterator<Item = u64>> {
    match sample {
        Sample::All => Box::new(1..),
        Sample::Some { .. } => Box::new(sample.draw(writes, number as u64).into_iter().map(|index| index as u64 + 1)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_is_killed_after_any_of_its_writes_leaves_the_same_cluster_in_the_end() -> Result<()> {
    let sample = Sample::from_environment(DEFAULT)?;
    let mut stage = Stage::set().await?;
    let undisturbed = stage.bring_up(None, None).await.context("undisturbed")?;
    let play = async |stage: &mut Stage, crash, expected: &Snapshot| stage.bring_up(Some(crash), Some(expected)).await;
    wherever(&mut stage, sample, &drawn(sample, BROUGHT_UP, 11), &undisturbed, play).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_is_killed_after_any_of_its_writes_replaces_every_member_once() -> Result<()> {
    let sample = Sample::from_environment(DEFAULT)?;
    let mut stage = Stage::set().await?;
    let undisturbed = stage.change(None, None).await.context("undisturbed")?;
    let play = async |stage: &mut Stage, crash, expected: &Snapshot| stage.change(Some(crash), Some(expected)).await;
    wherever(&mut stage, sample, &drawn(sample, CHANGED, 7), &undisturbed, play).await
}

/// Kills each operator after some of its writes, or all.
async fn wherever(
    stage: &mut Stage,
    sample: Sample,
    killed: &[&'static str],
    undisturbed: &Outcome,
    play: impl AsyncFn(&mut Stage, Crash, &Snapshot) -> Result<Outcome>,
) -> Result<()> {
    let (mut reached, mut failures) = (0, Vec::new());
    for (number, &operator) in killed.iter().enumerate() {
        let writes = undisturbed.writes.get(operator).copied().unwrap_or_default();
        ensure!(writes > 0, "{operator} has nothing to do");
        let mut points_of_operator = 0;
        for mut after in points(sample, writes as usize, number) {
            let mut outcome = play(stage, Crash { operator, after }, &undisturbed.snapshot).await;
            // How statuses and events are merged differs a little from one bring-up to the next: the last writes may not come.
            while sample != Sample::All && after > 1 && outcome.as_ref().is_ok_and(|it| it.killed.is_none()) {
                println!("{operator} did not write {after} times");
                after -= 1;
                outcome = play(stage, Crash { operator, after }, &undisturbed.snapshot).await;
            }
            let label = format!("{operator} killed after write {after} of {writes}");
            match outcome {
                Err(error) => {
                    println!("{label}: {error:#}");
                    failures.push(format!("{label}{sample}: {error:#}"));
                }
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
    println!("{reached} crash points led to the same cluster, {} did not{sample}", failures.len());
    ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
    ensure!(reached >= killed.len() as u64, "only {reached} crash points were reached{sample}");
    Ok(())
}
