//! `cargo xtask soak`: tests that are too long for each change, in full.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::{
    build,
    cargo_test::{self, Environment},
    test,
};

/// What can be run in full.
#[derive(Subcommand)]
pub enum Soak {
    /// Kill each operator after each of its writes of a bring-up, one at a time, and compare the cluster in the end
    CrashPoints(Cases),
    /// Grow, shrink and change a real ZooKeeper ensemble in every way, and a RabbitMQ cluster, under writers, and what takes minutes of Cassandra and Redis; needs root
    Life(Cases),
    /// Let members and nodes of a real ZooKeeper ensemble fail in every way and order, under a writer; needs root
    Faults(Cases),
    /// Kill the operator, and change its resource, after each write of growing, changing and shrinking a real ZooKeeper
    /// ensemble, a RabbitMQ cluster, a Cassandra ring and Redis servers, under clients; needs root
    Procedures(Cases),
}

/// Which cases.
#[derive(Args)]
pub struct Cases {
    /// Only so many; of crash points, for each operator
    #[arg(long)]
    sample: Option<usize>,
    /// Seed of the sample; chosen and printed if none is given
    #[arg(long, requires = "sample")]
    seed: Option<u64>,
}

/// What is disturbed in the middle of something, of every store.
const PROCEDURES: &str = "::crash::";

/// The long tests of stores that are not disturbed in the middle of something.
const LIFE: [&str; 22] = [
    "-p",
    "e2e",
    "--test",
    "real",
    "--",
    "--nocapture",
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
    "whole::",
];

/// Runs the command.
pub fn run(soak: &Soak) -> Result<ExitCode> {
    let (cases, test): (_, &[&str]) = match soak {
        Soak::CrashPoints(cases) => (cases, &["-p", "e2e", "--test", "crash", "--", "--nocapture"]),
        Soak::Life(cases) => (cases, &LIFE),
        Soak::Faults(cases) => (cases, &["-p", "e2e", "--test", "real", "zookeeper::faults", "--", "--nocapture"]),
        Soak::Procedures(cases) => (cases, &["-p", "e2e", "--test", "real", PROCEDURES, "--", "--nocapture"]),
    };
    let operators = test::prepare()?;
    let images = (!matches!(soak, Soak::CrashPoints(_))).then(build::images).transpose()?;
    let environment = Environment {
        seed: cases.seed.unwrap_or_else(rand::random),
        operators: Some(operators.folder()),
        images: images.as_ref().map(build::Built::folder),
        sample: Some(cases.sample.map_or_else(|| "all".to_owned(), |count| count.to_string())),
        threads: None,
    };
    let summary = cargo_test::run(test, &environment)?;
    Ok(if summary.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
