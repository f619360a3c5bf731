//! Writes of operators after which something happens: some of them, or all.

use anyhow::{Context as _, Result, ensure};
use tf_testing::{
    operators,
    sample::{self, Sample, has_turn},
};

use crate::stage::{Course, Disturbance, Happens, Stage};

/// Writes for each operator if nothing else is said.
const DEFAULT: usize = 1;

/// Operators whose resources are changed at every step. Those of stores are on real nodes, where it shows whether something is lost.
const CHANGED: [&str; 7] =
    ["analytics-op", "config-op", "control-op", "kubemanager-op", "manager-op", "vrouter-op", "webui-op"];

/// Operators, and what happens to each.
type Cases = Vec<(&'static str, Happens)>;

/// What happens to each of these operators; of those alone that the environment names, if it names any.
fn cases(of: &[&'static str], what: &[Happens]) -> Result<Cases> {
    let named = operators::named()?;
    let is_meant = |operator: &&&str| named.as_ref().is_none_or(|named| named.contains(**operator));
    let of = of.iter().filter(is_meant);
    Ok(of.flat_map(|operator| what.iter().map(|happens| (*operator, *happens))).collect())
}

/// Cases to try: so many if nothing is said about the sample, else all.
fn drawn(sample: Sample, all: Cases, count: usize, salt: u64) -> Cases {
    match sample {
        Sample::Some { seed, .. } if !sample::is_asked_for() => {
            Sample::Some { count, seed }.draw(all.len(), salt).into_iter().map(|index| all[index]).collect()
        }
        _ => all,
    }
}

/// After which of so many writes it happens. Where all are tried it goes on until there is none any more.
fn points(sample: Sample, writes: usize, number: usize) -> Box<dyn Iterator<Item = u64>> {
    match sample {
        Sample::All => Box::new(1..),
        Sample::Some { .. } => Box::new(sample.draw(writes, number as u64).into_iter().map(|index| index as u64 + 1)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_is_killed_after_any_of_its_writes_leaves_the_same_cluster_in_the_end() -> Result<()> {
    wherever(Course::BringUp, cases(&operators::ALL, &[Happens::Killed])?, 1, 11).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_is_killed_after_any_of_its_writes_replaces_every_member_once() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    wherever(Course::Change, cases(&operators::ALL, &[Happens::Killed])?, 1, 7).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wish_that_changes_after_any_write_becomes_the_cluster_that_heard_the_last_one_only() -> Result<()> {
    if !has_turn()? {
        return Ok(());
    }
    wherever(Course::Change, cases(&CHANGED, &[Happens::SetBack, Happens::SetAside, Happens::Deleted])?, 1, 13).await
}

/// Disturbs what each operator does after some of its writes, or all: in this many cases if nothing is said.
async fn wherever(course: Course, all: Cases, count: usize, salt: u64) -> Result<()> {
    let sample = Sample::from_environment(DEFAULT)?;
    let cases = drawn(sample, all, count, salt);
    if cases.is_empty() {
        println!("none of the operators that are meant has a case here");
        return Ok(());
    }
    let mut stage = Stage::set().await?;
    let undisturbed = stage.play(course, None, None).await.context("undisturbed")?;
    let (mut reached, mut failures) = (0, Vec::new());
    for (number, (operator, happens)) in cases.iter().copied().enumerate() {
        let writes = undisturbed.writes_of(operator, happens);
        ensure!(writes > 0, "{operator} has nothing to do");
        let mut points_of_case = 0;
        for mut after in points(sample, writes as usize, number) {
            let mut disturbance = Disturbance { operator, after, happens };
            let mut outcome = stage.play(course, Some(disturbance), Some(&undisturbed)).await;
            // How statuses and events are merged differs a little from one bring-up to the next: the last writes may not come.
            while sample != Sample::All && after > 1 && outcome.as_ref().is_ok_and(|it| it.disturbed.is_none()) {
                println!("{operator} did not write {after} times");
                after -= 1;
                disturbance.after = after;
                outcome = stage.play(course, Some(disturbance), Some(&undisturbed)).await;
            }
            let label = format!("{disturbance} of {writes}");
            match outcome {
                Err(error) => {
                    println!("{label}: {error:#}");
                    failures.push(format!("{label}{sample}: {error:#}"));
                }
                Ok(outcome) => match &outcome.disturbed {
                    None => {
                        println!("{label}: it wrote only {} times", outcome.writes_of(operator, happens));
                        if after > writes {
                            break;
                        }
                    }
                    Some(answered) => {
                        let (took, request) = (outcome.took.as_secs_f64(), &answered.request);
                        println!("{label}: the same after {took:.1} s ({:?} {})", request.verb, request.path);
                        points_of_case += 1;
                    }
                },
            }
        }
        println!("{operator}: {happens} after {points_of_case} writes");
        reached += points_of_case;
    }
    println!("{reached} times it became the same cluster, {} times not{sample}", failures.len());
    ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
    ensure!(reached >= cases.len() as u64, "it happened only {reached} times{sample}");
    Ok(())
}
