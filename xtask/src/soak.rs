//! `cargo xtask soak`: tests that are too long for each change, in full.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::{
    cargo_test::{self, CrashPoints, Environment},
    test,
};

/// What can be run in full.
#[derive(Subcommand)]
pub enum Soak {
    /// Kill each operator after each of its writes of a bring-up, one at a time, and compare the cluster in the end
    CrashPoints(Points),
}

/// Options of `cargo xtask soak crash-points`.
#[derive(Args)]
pub struct Points {
    /// Only so many for each operator
    #[arg(long)]
    sample: Option<u64>,
    /// Seed of the sample; chosen and printed if none is given
    #[arg(long, requires = "sample")]
    seed: Option<u64>,
}

/// Runs the command.
pub fn run(soak: &Soak) -> Result<ExitCode> {
    let Soak::CrashPoints(points) = soak;
    let operators = test::prepare()?;
    let environment = Environment {
        seed: points.seed.unwrap_or_else(rand::random),
        operators: Some(operators.folder()),
        images: None,
        crash_points: points.sample.map_or(CrashPoints::All, CrashPoints::Sample),
    };
    let summary = cargo_test::run(&["-p", "e2e", "--test", "crash", "--", "--nocapture"], &environment)?;
    Ok(if summary.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
