//! `cargo xtask test`: every layer of tests, with one line about each at the end.

mod checks;
pub mod links;
mod pages;

use std::{
    num::NonZero,
    process::ExitCode,
    thread::{self, ScopedJoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use tf_testing::{assets, real};

use crate::{
    build::{self, Built},
    cargo_test::{self, Environment},
    tools::{self, Need},
};

/// Options of `cargo xtask test`.
#[derive(Args)]
pub struct Test {
    /// Run only these layers; all of them if none is given
    #[arg(long, value_enum)]
    layer: Vec<Layer>,
    /// Seed of what is sampled; chosen and printed if none is given
    #[arg(long)]
    seed: Option<u64>,
}

/// Layers, from quick to slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Layer {
    /// Format, lints, generated files, licences, layers of the workspace
    Checks,
    /// Pure functions, goldens, properties
    Unit,
    /// Alert rules, judged by promtool over invented time series
    Alerts,
    /// A real API server and one operator, or none
    Api,
    /// Several operators, simulated nodes, real controllers
    Fleet,
    /// Container images, built and read back
    Images,
    /// Real nodes, on which pods run; needs root
    Real,
}

impl Layer {
    /// Arguments of each run of `cargo test` that belongs to the layer.
    fn runs(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Checks => &[],
            // The same packages each time, so that nothing is compiled twice with other features.
            Self::Unit => &[
                &["--workspace", "--exclude", "e2e", "--exclude", "xtask", "--lib", "--bins"],
                &["--workspace", "--exclude", "e2e", "--exclude", "xtask", "--test", "*", "--examples"],
                &["--workspace", "--exclude", "e2e", "--exclude", "xtask", "--doc"],
                &["-p", "xtask", "--bins"],
            ],
            Self::Alerts => &[&["-p", "xtask", "--test", "alerts"]],
            Self::Api => &[&["-p", "e2e", "--test", "lab", "--test", "api"], &["-p", "e2e", "--test", "runtime"]],
            Self::Fleet => &[
                &["-p", "e2e", "--test", "bringup"],
                &["-p", "e2e", "--test", "inputs", "--test", "crash"],
                &["-p", "xtask", "--test", "commands"],
            ],
            Self::Images => &[&["-p", "xtask", "--test", "images"]],
            Self::Real => &[
                &[
                    "-p",
                    "e2e",
                    "--test",
                    "real",
                    "--",
                    "--skip",
                    "cassandra::",
                    "--skip",
                    "rabbitmq::",
                    "--skip",
                    "redis::",
                    "--skip",
                    "zookeeper::",
                ],
                &["-p", "e2e", "--test", "real", "--", "cassandra::", "rabbitmq::", "redis::", "zookeeper::"],
            ],
        }
    }

    /// Whether its runs go on beside each other: their tests wait most of the time, and while one compiles another one may wait. On real nodes three
    /// servers in Java that start take both cores from whoever counts seconds.
    fn runs_at_once(self) -> bool {
        self != Self::Real
    }

    /// How many of its tests run at once, where that is not one for each core: with one operator, and with agents, they wait most of
    /// the time, for leases to expire, for time-outs, and for nothing to happen.
    fn threads(self) -> Option<usize> {
        let cores = || thread::available_parallelism().map_or(1, NonZero::get);
        matches!(self, Self::Unit | Self::Api).then(|| 2 * cores())
    }

    /// Programs without which it does not run, or only in part. Without root no real nodes are made, whatever there is.
    fn needs(self) -> &'static [Need] {
        match self {
            Self::Unit => &[Need::Parsers],
            Self::Alerts | Self::Api | Self::Fleet => &[Need::Lab],
            Self::Images => &[Need::Stores],
            Self::Real if rustix::process::geteuid().is_root() => &[Need::Lab, Need::RealNodes, Need::Stores],
            Self::Checks | Self::Real => &[],
        }
    }

    /// Why this machine cannot run it.
    fn refusal(self) -> Option<String> {
        let refused = match self {
            Self::Alerts => assets::promtool().map(drop),
            Self::Real => real::node::supported(),
            Self::Checks | Self::Unit | Self::Api | Self::Fleet | Self::Images => return None,
        };
        refused.err().map(|error| format!("{error:#}"))
    }

    /// Whether its tests start operators.
    fn needs_operators(self) -> bool {
        matches!(self, Self::Api | Self::Fleet) || (self == Self::Real && self.refusal().is_none())
    }

    /// Whether its tests look into images, or run them on nodes.
    fn needs_images(self) -> bool {
        self == Self::Images || (self == Self::Real && self.refusal().is_none())
    }
}

/// What came of a layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub passed: u32,
    pub failed: Vec<String>,
    /// Tests that this machine or this command does not run, by name.
    pub skipped: Vec<String>,
    /// The name of each failed test, and the first lines of what it printed.
    pub printed: Vec<Vec<String>>,
    /// Tests that took longer than a minute, and how long.
    pub long: Vec<(String, Duration)>,
    pub took: Duration,
}

impl Summary {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.skipped.extend(other.skipped);
        self.printed.extend(other.printed);
        self.long.extend(other.long);
    }
}

/// Runs the command.
pub fn run(test: &Test) -> Result<ExitCode> {
    let layers: &[Layer] = if test.layer.is_empty() { Layer::value_variants() } else { &test.layer };
    let seed = test.seed.unwrap_or_else(rand::random);
    tools::ensure(&layers.iter().flat_map(|layer| layer.needs()).copied().collect::<Vec<_>>())?;
    // Without caches each takes minutes, in which the other downloads something or links.
    let (operators, images) = thread::scope(|scope| -> Result<_> {
        let images = layers.iter().any(|layer| layer.needs_images()).then(|| scope.spawn(|| build::images(&[])));
        let operators = layers.iter().any(|layer| layer.needs_operators()).then(prepare).transpose()?;
        Ok((operators, images.map(joined).transpose()?))
    })?;
    let mut summaries = Vec::new();
    for layer in layers {
        println!("\n=== {layer:?} ===");
        let begun = Instant::now();
        let mut summary = if *layer == Layer::Checks { checks::run()? } else { Summary::default() };
        let refusal = layer.refusal();
        if *layer == Layer::Real && refusal.is_none() {
            // Downloaded and built now, so that no test's time holds it.
            assets::all()?;
            real::Programs::find()?;
        }
        let environment = Environment {
            seed,
            operators: operators.as_ref().map(Built::folder),
            images: images.as_ref().map(Built::folder),
            threads: layer.threads(),
            ..Environment::default()
        };
        for outcome in outcomes(*layer, refusal.as_deref(), &environment) {
            summary.add(outcome?);
        }
        summary.took = begun.elapsed();
        summaries.push((*layer, summary));
    }
    println!("\nseed {seed} (repeat with --seed {seed})\n");
    for (layer, summary) in &summaries {
        println!("{}", line(*layer, summary));
    }
    println!("{}", longest(summaries.iter().flat_map(|(_, summary)| &summary.long)));
    for printed in summaries.iter().flat_map(|(_, summary)| &summary.printed) {
        println!("\n{}", printed.join("\n  "));
    }
    let failed = summaries.iter().any(|(_, summary)| !summary.failed.is_empty());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What comes of each run of a layer. `refusal`: why this machine runs none.
fn outcomes(layer: Layer, refusal: Option<&str>, environment: &Environment<'_>) -> Vec<Result<Summary>> {
    let run = |arguments: &&[&str]| match refusal {
        None => cargo_test::run(arguments, environment),
        Some(reason) => cargo_test::skip_all(arguments, reason),
    };
    if !layer.runs_at_once() {
        return layer.runs().iter().map(run).collect();
    }
    thread::scope(|scope| {
        let runs: Vec<_> = layer.runs().iter().map(|arguments| scope.spawn(move || run(arguments))).collect();
        runs.into_iter().map(joined).collect()
    })
}

/// What the tests with an API server need. Made first, so that no test's time holds it.
pub fn prepare() -> Result<Built> {
    thread::scope(|scope| {
        let assets = scope.spawn(assets::all);
        let operators = build::operators()?;
        joined(assets)?;
        Ok(operators)
    })
}

/// What a thread comes to.
fn joined<T>(thread: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().map_err(|_| anyhow!("a thread has panicked"))?
}

/// How many of the tests that took longest are named.
const NAMED: usize = 40;

/// The tests that took longest, one a line.
fn longest<'a>(tests: impl Iterator<Item = &'a (String, Duration)>) -> String {
    let mut tests: Vec<_> = tests.collect();
    tests.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
    let lines = tests.iter().take(NAMED).map(|(name, took)| format!("\n  {:>4.0} s  {name}", took.as_secs_f64()));
    format!("\nlongest tests:{}", lines.collect::<String>())
}

fn line(layer: Layer, summary: &Summary) -> String {
    let name = format!("{layer:?}").to_lowercase();
    let mut lines = vec![format!(
        "{name:<7} {:>4} passed  {:>3} failed  {:>3} skipped  {:>5.0} s",
        summary.passed,
        summary.failed.len(),
        summary.skipped.len(),
        summary.took.as_secs_f64()
    )];
    for (label, names) in [("failed", &summary.failed), ("skipped", &summary.skipped)] {
        lines.extend(names.iter().map(|name| format!("          {label}: {name}")));
    }
    lines.join("\n")
}
