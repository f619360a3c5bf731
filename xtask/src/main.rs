//! Developer commands of this repository: `cargo xtask <command>`. One module per command.

mod bench;
mod build;
mod cargo_test;
mod demo;
mod generate;
mod image;
mod lab;
mod lint;
mod soak;
mod test;
mod tools;

use std::io::IsTerminal as _;
use std::path::PathBuf;
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
    /// Measure what the operators need
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Bring a Manager manifest up on a cluster of its own and show how
    Demo(demo::Demo),
    /// Write every file that is derived from code, or check that none has drifted
    Gen(generate::Options),
    Image(image::Images),
    /// Check the layers of the workspace, and the words of sources and pages
    Lint,
    /// A Kubernetes of your own on this machine: a real control plane with simulated nodes
    #[command(subcommand)]
    Lab(lab::Command),
    /// Run in full what is too long for each change
    #[command(subcommand)]
    Soak(soak::Soak),
    /// Run every layer of tests and say what came of each
    Test(test::Test),
}

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        match error.downcast_ref::<tools::Missing>() {
            Some(missing) => eprintln!("error: {missing}"),
            None => eprintln!("Error: {error:?}"),
        }
        ExitCode::FAILURE
    })
}

fn run() -> anyhow::Result<ExitCode> {
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
        Command::Bench(bench) => bench::run(&bench),
        Command::Demo(demo) => demo::run(&demo),
        Command::Gen(options) => generate::run(&options),
        Command::Image(images) => image::run(&images),
        Command::Lab(command) => lab::run(command),
        Command::Lint => lint::run(),
        Command::Soak(soak) => soak::run(&soak),
        Command::Test(test) => test::run(&test),
    }
}

/// Folder of the repository.
fn root() -> anyhow::Result<PathBuf> {
    // What cargo says now, before what it said when this was built: checkouts may share a target folder, and cargo takes the
    // executable of another one for fresh.
    let package =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    Ok(package.join("..").canonicalize()?)
}

/// Cargo as it is outside of `cargo run`. What that says about the package it runs is an input of build scripts (ring's), so
/// with it they, and all that depends on them, would be built again, and once more by the next command without it.
fn cargo() -> std::process::Command {
    let mut cargo = std::process::Command::new(env!("CARGO"));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
            cargo.env_remove(name);
        }
    }
    cargo
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
