//! One run of `cargo test`, shown as it goes and counted.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result};

use crate::test::Summary;

/// Variable with the seed of tests that sample.
const SEED: &str = "TF_TEST_SEED";

/// Variable with the folder of the operators' executables.
const OPERATORS: &str = "TF_OPERATORS";

/// Variable with the crash points to try for each operator.
const CRASH_POINTS: &str = "TF_CRASH_POINTS";

/// How many crash points are tried for each operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoints {
    /// Every one.
    All,
    /// So many, drawn with the seed.
    Sample(u64),
}

/// What tests learn from their environment.
pub struct Environment<'a> {
    /// Seed of what is sampled.
    pub seed: u64,
    /// Folder of the operators' executables, for tests that run them.
    pub operators: Option<&'a Path>,
    /// Crash points for each operator.
    pub crash_points: CrashPoints,
}

/// Runs `cargo test` with these arguments.
pub fn run(arguments: &[&str], environment: &Environment<'_>) -> Result<Summary> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--no-fail-fast"]).args(arguments).current_dir(crate::root()?);
    command.env(SEED, environment.seed.to_string());
    match environment.crash_points {
        CrashPoints::All => command.env(CRASH_POINTS, "all"),
        CrashPoints::Sample(number) => command.env(CRASH_POINTS, number.to_string()),
    };
    if let Some(operators) = environment.operators {
        command.env(OPERATORS, operators);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().context("running cargo test")?;
    let mut summary = Summary::default();
    if let Some(out) = child.stdout.take() {
        for line in BufReader::new(out).lines() {
            let line = line?;
            count(&mut summary, &line);
            println!("{line}");
        }
    }
    if !child.wait()?.success() && summary.failed.is_empty() {
        summary.failed.push(format!("cargo test {}", arguments.join(" ")));
    }
    Ok(summary)
}

/// Takes from a line of libtest's output what it says about a test.
fn count(summary: &mut Summary, line: &str) {
    let Some((name, verdict)) = line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... ")) else { return };
    match verdict.split([',', ' ']).next() {
        Some("ok") => summary.passed += 1,
        Some("FAILED") => summary.failed.push(name.to_owned()),
        Some("ignored") => summary.skipped.push(name.to_owned()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verdict_is_counted_and_other_output_is_not() {
        let mut summary = Summary::default();
        for line in [
            "running 3 tests",
            "test a::b ... ok",
            "test a::c ... FAILED",
            "test d - should panic ... ok",
            "test e ... ignored, needs an hour",
            "test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out",
        ] {
            count(&mut summary, line);
        }
        assert_eq!(summary.passed, 2);
        assert_eq!(summary.failed, ["a::c"]);
        assert_eq!(summary.skipped, ["e"]);
    }
}
