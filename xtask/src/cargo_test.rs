//! One run of `cargo test`, shown as it goes and counted.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    num::NonZero,
    path::Path,
    process::Stdio,
};

use anyhow::{Context, Result, ensure};
use tf_testing::{operators, real::image::RELEASES, sample, seed, walks};

use crate::{build, test::Summary};

/// Variable with the file that takes a line from each test which found that this machine lacks what it needs. libtest has
/// no such verdict and calls it passed.
const SKIPS: &str = "TF_TEST_SKIPS";

/// What tests learn from their environment.
#[derive(Default)]
pub struct Environment<'a> {
    /// Seed of what is sampled.
    pub seed: u64,
    /// Folder of the operators' executables, for tests that run them.
    pub operators: Option<&'a Path>,
    /// Folder of images, for tests that look into them or have nodes run them.
    pub images: Option<&'a Path>,
    /// How many cases a test tries that has many of them, or `all`. Each has a default of its own.
    pub sample: Option<String>,
    /// How many tests run at once; libtest has as many as there are cores.
    pub threads: Option<usize>,
    /// Images of stores in place of the usual ones of the same stores.
    pub releases: &'a [String],
    /// Operators whose cases alone are tried; of all if there are none.
    pub of: &'a [String],
    /// How many times as long as usual models are walked through.
    pub walks: Option<NonZero<u32>>,
}

/// Runs `cargo test` with these arguments.
pub fn run(arguments: &[&str], environment: &Environment<'_>) -> Result<Summary> {
    let mut command = crate::cargo();
    command.args(["test", "--no-fail-fast"]).args(arguments).current_dir(crate::root()?);
    command.env(seed::VARIABLE, environment.seed.to_string());
    if let Some(sample) = &environment.sample {
        command.env(sample::VARIABLE, sample);
    }
    if let Some(threads) = environment.threads {
        command.env("RUST_TEST_THREADS", threads.to_string());
    }
    if let Some(times) = environment.walks {
        command.env(walks::VARIABLE, times.to_string());
    }
    for (variable, words) in [(RELEASES, environment.releases), (operators::NAMED, environment.of)] {
        if !words.is_empty() {
            command.env(variable, words.join(" "));
        }
    }
    for (variable, folder) in [(build::OPERATORS, environment.operators), (build::IMAGES, environment.images)] {
        if let Some(folder) = folder {
            command.env(variable, folder);
        }
    }
    let skips = tempfile::NamedTempFile::new()?;
    command.env(SKIPS, skips.path());
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
    skip(&mut summary, &fs::read_to_string(skips.path())?);
    Ok(summary)
}

/// Counts the tests that such a run would have as skipped, by name and with the reason.
pub fn skip_all(arguments: &[&str], reason: &str) -> Result<Summary> {
    let skipped = names(arguments)?.into_iter().map(|name| format!("{name}: {reason}"));
    Ok(Summary { skipped: skipped.collect(), ..Summary::default() })
}

/// The tests that such a run would have.
pub fn names(arguments: &[&str]) -> Result<Vec<String>> {
    let mut command = crate::cargo();
    let divider = (!arguments.contains(&"--")).then_some("--");
    command.args(["test", "--quiet"]).args(arguments).args(divider).args(["--list", "--format", "terse"]);
    let output = command.current_dir(crate::root()?).stderr(Stdio::inherit()).output().context("running cargo test")?;
    ensure!(output.status.success(), "cargo test {} -- --list failed", arguments.join(" "));
    let names = String::from_utf8(output.stdout).context("names of tests")?;
    Ok(names.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
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

/// Moves tests that passed without having checked anything to where they belong.
fn skip(summary: &mut Summary, lines: &str) {
    for line in lines.lines() {
        summary.passed = summary.passed.saturating_sub(1);
        summary.skipped.push(line.to_owned());
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

    #[test]
    fn a_test_that_missed_something_is_skipped_and_has_not_passed() {
        let mut summary = Summary::default();
        count(&mut summary, "test files::python ... ok");
        count(&mut summary, "test files::ours ... ok");
        skip(&mut summary, "files::python: python3 is not installed\n");
        assert_eq!(summary.passed, 1);
        assert_eq!(summary.skipped, ["files::python: python3 is not installed"]);
    }
}
