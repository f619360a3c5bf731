//! `kubectl-tf`, which kubectl calls for `kubectl tf`.

mod command;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::command::{plan, status};

/// What is asked about Tungsten Fabric in a cluster.
#[derive(Parser)]
#[command(name = "kubectl-tf", bin_name = "kubectl tf", version)]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Every resource of Tungsten Fabric below what made it, and of each that is not as wished what it waits for
    Status(status::Options),
    /// What the operators would make of a manifest: every object, and what of it differs from those in the cluster
    Plan(plan::Options),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let told = match Command::parse().what {
        What::Status(options) => status::tell(&options).await,
        What::Plan(options) => plan::tell(&options).await,
    };
    told.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}
