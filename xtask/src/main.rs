//! Developer commands of this repository: `cargo xtask <command>`. One module per command.

mod lab;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developer commands of this repository")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A Kubernetes of your own on this machine: a real control plane with simulated nodes
    #[command(subcommand)]
    Lab(lab::Command),
}

fn main() -> anyhow::Result<ExitCode> {
    // kube calls every answer an error that a starting API server gives.
    let filter =
        tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info,kube_client=off".into());
    let terminal = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(terminal)
        .without_time()
        .init();
    match Cli::parse().command {
        Command::Lab(command) => lab::run(command),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Cli;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
