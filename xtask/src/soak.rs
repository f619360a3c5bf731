//! `cargo xtask soak`: tests that are too long for each change, in full.

use std::{num::NonZero, process::ExitCode};

use anyhow::{Result, ensure};
use clap::{Args, Subcommand, builder::PossibleValuesParser};
use tf_testing::operators;

use crate::{
    build,
    cargo_test::{self, Environment},
    image, test,
    tools::{self, Need},
};

/// What can be run in full.
#[derive(Subcommand)]
pub enum Soak {
    /// Kill each operator after each of its writes of a bring-up and of a change, one at a time, or change or delete its resource, and compare the
    /// cluster in the end
    CrashPoints {
        #[command(flatten)]
        cases: Cases,
        /// Only this operator, for example config-op; repeatable
        #[arg(long = "operator", value_name = "NAME", value_parser = PossibleValuesParser::new(operators::ALL))]
        operators: Vec<String>,
    },
    /// Every test of operators on simulated nodes, also those that have their turn in some runs only
    Fleet {
        /// Only those whose name has this in it, for example nodes, or an_address_that
        #[arg(long, value_name = "NAME")]
        only: Option<String>,
    },
    /// Walk through the models of stores many times as long as each run of the tests does
    Models {
        /// How many times as long
        #[arg(long, default_value = "30")]
        times: NonZero<u32>,
        /// Only those whose name has this in it, for example restore, or one_server_takes_writes
        #[arg(long, value_name = "NAME")]
        only: Option<String>,
    },
    /// Grow, shrink and change a real ZooKeeper ensemble in every way, and a RabbitMQ cluster, under writers, and what takes minutes of Cassandra and Redis; needs root
    Life {
        #[command(flatten)]
        cases: Cases,
        #[command(flatten)]
        which: Which,
    },
    /// Let members and nodes of a real ZooKeeper ensemble fail in every way and order, under a writer; needs root
    Faults(Cases),
    /// Kill the operator, and change its resource, after each write of growing, changing and shrinking a real ZooKeeper
    /// ensemble, a RabbitMQ cluster, a Cassandra ring and Redis servers, under clients; needs root
    Procedures {
        #[command(flatten)]
        cases: Cases,
        #[command(flatten)]
        which: Which,
    },
}

/// Which cases.
#[derive(Args, Default)]
pub struct Cases {
    /// Only so many; of crash points, for each operator
    #[arg(long)]
    sample: Option<usize>,
    /// Seed of the sample; chosen and printed if none is given
    #[arg(long, requires = "sample")]
    seed: Option<u64>,
}

/// Which tests of stores, and with what.
#[derive(Args, Default)]
pub struct Which {
    /// Only those whose name has this in it, for example zookeeper, rabbitmq::crash::sizes, or deleted
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// With this release of a store in place of the usual one, for example cassandra-3.11.19; repeatable
    #[arg(long = "release", value_name = "IMAGE", value_parser = PossibleValuesParser::new(image::releases()))]
    releases: Vec<String>,
}

/// Operators on simulated nodes.
const FLEET: [&str; 7] = ["-p", "e2e", "--test", "bringup", "--test", "inputs", "--"];

/// The models of stores, which walk through whatever happens.
const MODELS: [&str; 10] =
    ["-p", "cassandra-op", "-p", "rabbitmq-op", "-p", "redis-op", "-p", "zookeeper-op", "--", "whatever_happens"];

/// What is disturbed in the middle of something, of every store.
const PROCEDURES: &str = "::crash::";
const DISTURBED: [&str; 6] = ["-p", "e2e", "--test", "real", "--", PROCEDURES];

/// The long tests of stores that are not disturbed in the middle of something.
const LIFE: [&str; 22] = [
    "-p",
    "e2e",
    "--test",
    "real",
    "--",
    "--skip",
    PROCEDURES,
    "zookeeper::membership",
    "zookeeper::adoption",
    "zookeeper::disaster",
    "zookeeper::host_files",
    "zookeeper::issuer",
    "zookeeper::storage",
    "zookeeper::tls",
    "zookeeper::clients",
    "zookeeper::rollout",
    "zookeeper::rest",
    "rabbitmq::",
    "cassandra::",
    "redis::",
    "ipv6::",
    "whole::",
];

/// Runs the command.
pub fn run(soak: &Soak) -> Result<ExitCode> {
    let (every, all) = (Which::default(), Cases::default());
    let (cases, which, test) = match soak {
        Soak::Models { times, only } => return models(*times, only.as_deref().unwrap_or_default()),
        Soak::CrashPoints { cases, .. } => (cases, &every, owned(&["-p", "e2e", "--test", "crash", "--"])),
        Soak::Fleet { only } => (&all, &every, exactly(&FLEET, &FLEET, only.as_deref().unwrap_or_default())?),
        Soak::Life { cases, which } => (cases, which, which.of(&LIFE)?),
        Soak::Faults(cases) => (cases, &every, owned(&["-p", "e2e", "--test", "real", "--", "zookeeper::faults"])),
        Soak::Procedures { cases, which } => (cases, which, which.of(&DISTURBED)?),
    };
    let of: &[String] = if let Soak::CrashPoints { operators, .. } = soak { operators } else { &[] };
    let has_real_nodes = !matches!(soak, Soak::CrashPoints { .. } | Soak::Fleet { .. });
    if has_real_nodes {
        tools::ensure(&[Need::RealNodes, Need::Stores])?;
    }
    let operators = test::prepare()?;
    let images = has_real_nodes.then(|| build::images(&which.releases)).transpose()?;
    let environment = Environment {
        seed: cases.seed.unwrap_or_else(rand::random),
        operators: Some(operators.folder()),
        images: images.as_ref().map(build::Built::folder),
        sample: Some(cases.sample.map_or_else(|| "all".to_owned(), |count| count.to_string())),
        releases: &which.releases,
        of,
        ..Environment::default()
    };
    tests(&test, &environment)
}

/// Walks through models of which the names have this in them, without a cluster.
fn models(times: NonZero<u32>, part: &str) -> Result<ExitCode> {
    let (packages, _) = MODELS.split_at(MODELS.len() - 1);
    let test = exactly(packages, &MODELS, part)?;
    tests(&test, &Environment { walks: Some(times), ..Environment::default() })
}

/// Runs tests and lets them say what they see.
fn tests(arguments: &[String], environment: &Environment<'_>) -> Result<ExitCode> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(["--nocapture"]).collect();
    let summary = cargo_test::run(&arguments, environment)?;
    Ok(if summary.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Which {
    /// Those of these tests that are meant, by their names.
    fn of(&self, all: &[&str]) -> Result<Vec<String>> {
        exactly(&["-p", "e2e", "--test", "real", "--"], all, self.only.as_deref().unwrap_or_default())
    }
}

/// Arguments with which these targets run those of all tests that have this in their names.
fn exactly(targets: &[&str], all: &[&str], part: &str) -> Result<Vec<String>> {
    let mut tests = cargo_test::names(all)?;
    tests.retain(|name| name.contains(part));
    ensure!(!tests.is_empty(), "no such test has {part} in its name");
    Ok([owned(targets), owned(&["--exact"]), tests].concat())
}

fn owned(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|&argument| argument.to_owned()).collect()
}
