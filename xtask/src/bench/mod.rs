//! `cargo xtask bench`: figures of a bring-up, measured on a real control plane with simulated nodes, and of the life of a
//! store on real ones.

mod bringup;
mod foreign;
mod join;
mod members;
mod peer;
mod report;
mod vrouters;

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};

use crate::build;

/// What can be measured.
#[derive(Subcommand)]
pub enum Bench {
    /// From an applied Manager to Ready: time, requests, objects, memory, CPU; then silence, and a joining node
    Bringup(Bringup),
    /// A real store of one member and of several: bring-up, changes, growth, a lost node; needs root
    Members {
        /// Which one
        #[arg(long, value_enum, default_value = "zookeeper")]
        store: members::Store,
    },
    /// A fleet of vRouters on simulated nodes: bring-up, a change in waves, all pods deleted at once, a restarted operator
    Vrouters {
        /// Simulated nodes
        #[arg(long, default_value_t = 5000)]
        nodes: u32,
        /// How many of them may be without an agent at the same time: a number or a percentage
        #[arg(long, default_value = "5%")]
        max_unavailable: String,
    },
}

/// Options of `cargo xtask bench bringup`.
#[derive(Args)]
pub struct Bringup {
    /// The manifest to apply
    #[arg(long, default_value = "examples/manager.yaml")]
    manifest: String,
    /// Simulated control-plane nodes
    #[arg(long, default_value_t = 3)]
    control_plane: u32,
    /// Simulated workers; each number is a cluster of its own
    #[arg(long, value_delimiter = ',', default_value = "3,50,500")]
    workers: Vec<u32>,
    /// Length of the window after Ready in which nothing should happen, in seconds
    #[arg(long, default_value_t = 60)]
    idle: u32,
    /// Add so many Secrets and so many Pods of strangers to the namespace and look at memory once more
    #[arg(long, default_value_t = 0)]
    foreign: u32,
    /// Print what each operator did, too
    #[arg(long)]
    full: bool,
    /// Leave out the control-plane node that joins
    #[arg(long)]
    no_join: bool,
    /// Write the figures to this file, too
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Runs the command.
pub fn run(bench: &Bench) -> Result<ExitCode> {
    match bench {
        Bench::Bringup(options) => bring_up(options),
        Bench::Members { store } => {
            let images = build::images_for_real_nodes()?;
            let figures = tokio::runtime::Runtime::new()?.block_on(members::measure(*store, images.folder()))?;
            println!("\n{}", members::table(&figures));
            Ok(ExitCode::SUCCESS)
        }
        Bench::Vrouters { nodes, max_unavailable } => {
            let binaries = build::operators()?;
            let measured = vrouters::measure(*nodes, max_unavailable, &binaries);
            let figures = tokio::runtime::Runtime::new()?.block_on(measured)?;
            println!("\n{}", vrouters::table(&figures));
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn bring_up(options: &Bringup) -> Result<ExitCode> {
    ensure!(options.idle > 0, "--idle has to be at least one second");
    let manifest = crate::root()?.join(&options.manifest);
    let manifest = fs::read_to_string(&manifest).with_context(|| format!("{}", manifest.display()))?;
    let binaries = build::operators()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let mut runs = Vec::new();
    for workers in &options.workers {
        runs.push(runtime.block_on(bringup::measure(options, *workers, &manifest, &binaries))?);
    }
    println!("\n{}", report::table(&runs, options.full));
    if let Some(file) = &options.json {
        fs::write(file, serde_json::to_vec_pretty(&runs)?).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
