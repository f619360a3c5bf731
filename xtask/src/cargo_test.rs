//! One run of `cargo test`, shown as it goes and counted.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader},
    num::NonZero,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use tf_testing::{model_runs, operators, real::image::RELEASES, sample, seed};

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
    match environment.walks {
        Some(times) => command.env(model_runs::VARIABLE, times.to_string()),
        // What fails would be written into the checkout, and images that are built afterwards would be of a changed one.
        None => command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1"),
    };
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
    let (mut summary, mut failures, mut long) = (Summary::default(), Failures::default(), Long::default());
    if let Some(out) = child.stdout.take() {
        for line in BufReader::new(out).lines() {
            let line = line?;
            count(&mut summary, &line);
            failures.collect(&line);
            long.collect(&line, Instant::now());
            println!("{line}");
        }
    }
    if !child.wait()?.success() && summary.failed.is_empty() {
        summary.failed.push(format!("cargo test {}", arguments.join(" ")));
    }
    summary.printed = failures.printed;
    summary.long = long.took;
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

/// How many lines of what a failed test printed are repeated at the end.
const REPEATED: usize = 12;

/// What failed tests printed, which libtest prints after all tests.
#[derive(Default)]
struct Failures {
    /// The name of each, and the first lines.
    printed: Vec<Vec<String>>,
    /// Whether the lines that come now are of the last one.
    goes_on: bool,
}

impl Failures {
    fn collect(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            self.printed.push(vec![name.to_owned()]);
            self.goes_on = true;
        } else if line == "failures:" || line.starts_with("stack backtrace:") {
            self.goes_on = false;
        } else if self.goes_on
            && !line.trim().is_empty()
            && let Some(printed) = self.printed.last_mut().filter(|printed| printed.len() <= REPEATED)
        {
            printed.push(line.chars().take(500).collect());
        }
    }
}

/// Tests that took longer than a minute. libtest names each of them when that minute is over, and has no times of its own without `-Z`.
#[derive(Default)]
struct Long {
    /// Those that run, and when they had run for a minute.
    running: BTreeMap<String, Instant>,
    /// Those that have ended, and how long each took.
    took: Vec<(String, Duration)>,
}

impl Long {
    const NAMED_AFTER: Duration = Duration::from_mins(1);

    fn collect(&mut self, line: &str, now: Instant) {
        let Some(rest) = line.strip_prefix("test ") else { return };
        if let Some(name) = rest.strip_suffix(" has been running for over 60 seconds") {
            self.running.insert(name.to_owned(), now);
        } else if let Some((name, since)) =
            rest.rsplit_once(" ... ").and_then(|(name, _)| self.running.remove_entry(name))
        {
            self.took.push((name, now.duration_since(since) + Self::NAMED_AFTER));
        }
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
    fn what_failed_tests_printed_is_collected_without_backtraces() {
        let mut failures = Failures::default();
        let printed = ["", "panicked at b.rs:1:2:", "left is 1", "stack backtrace:", "   0: main"];
        let lines = ["test a::c ... FAILED", "failures:", "", "---- a::c stdout ----"].into_iter().chain(printed);
        for line in lines.chain(["---- d stdout ----", "Error: it is away", "", "failures:", "    a::c", "    d"]) {
            failures.collect(line);
        }
        let expected = [vec!["a::c", "panicked at b.rs:1:2:", "left is 1"], vec!["d", "Error: it is away"]];
        assert_eq!(failures.printed, expected);
    }

    #[test]
    fn tests_of_more_than_a_minute_are_timed() {
        let (mut long, begun) = (Long::default(), Instant::now());
        long.collect("test a::b has been running for over 60 seconds", begun);
        long.collect("test a::c ... ok", begun + Duration::from_secs(1));
        long.collect("test a::b ... ok", begun + Duration::from_secs(7));
        assert_eq!(long.took, [("a::b".to_owned(), Duration::from_secs(67))]);
    }

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
