//! `cargo xtask lab`: labs that outlive the command, taken down by name.

mod node;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use tf_testing::folder::{self, Folder, LabRecord};
use tf_testing::{IpFamily, Lab, Options, RealNodes, Tier, assets, kubeconfig, process};

/// The lab meant when no name is given.
const DEFAULT_NAME: &str = "tf";

#[derive(Subcommand)]
pub enum Command {
    /// Start a lab and leave it running
    Up(Up),
    /// End a lab and remove everything it wrote
    Down {
        /// Which one
        #[arg(long, default_value = DEFAULT_NAME, conflicts_with = "all")]
        name: String,
        /// Every lab of this user, also those that belong to running tests
        #[arg(long)]
        all: bool,
    },
    /// List the labs of this user and their processes
    Status,
    /// Do something to real nodes
    #[command(subcommand)]
    Node(node::Command),
    /// Run a command with KUBECONFIG set to the lab's administrator; kubectl is the lab's own
    Exec {
        /// Which one
        #[arg(long, default_value = DEFAULT_NAME)]
        name: String,
        /// The command and its arguments, behind --, for example: kubectl get tf -A
        #[arg(required = true, last = true)]
        command: Vec<String>,
    },
}

#[derive(Args)]
pub struct Up {
    /// Name of the lab
    #[arg(long, default_value = DEFAULT_NAME)]
    name: String,
    /// How much of a cluster
    #[arg(long, value_enum, default_value_t = TierArg::Fleet)]
    tier: TierArg,
    /// Simulated control-plane nodes (tier fleet)
    #[arg(long, default_value_t = 3)]
    control_plane: u32,
    /// Simulated workers (tier fleet)
    #[arg(long, default_value_t = 3)]
    workers: u32,
    /// So many real nodes instead: pods run. Needs root
    #[arg(long, value_name = "NODES", conflicts_with_all = ["tier", "control_plane", "workers"])]
    real: Option<u32>,
    /// Archive of images that every real node has from its start (of docker save, or an OCI layout); may be repeated
    #[arg(long, value_name = "FILE", requires = "real")]
    image: Vec<PathBuf>,
    /// Seconds a node's lease is valid: 40 for simulated nodes and 16 for real ones unless given. More costs less with
    /// thousands of nodes
    #[arg(long)]
    node_lease: Option<u32>,
    /// IPv6 for nodes, pods and Services
    #[arg(long)]
    ipv6: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum TierArg {
    /// etcd and the API server
    Api,
    /// and the controller manager
    Controllers,
    /// and the scheduler and simulated nodes
    Fleet,
}

impl From<TierArg> for Tier {
    fn from(tier: TierArg) -> Self {
        match tier {
            TierArg::Api => Self::Api,
            TierArg::Controllers => Self::Controllers,
            TierArg::Fleet => Self::Fleet,
        }
    }
}

pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Up(up) => tokio::runtime::Runtime::new()?.block_on(start(up))?,
        Command::Down { all: false, name } => Lab::remove(&name)?,
        Command::Down { all: true, .. } => {
            for (_, record) in folder::list(&folder::root()?)? {
                Lab::remove(&record.name)?;
            }
        }
        Command::Node(command) => tokio::runtime::Runtime::new()?.block_on(node::run(&command))?,
        Command::Status => status(&mut io::stdout().lock())?,
        Command::Exec { name, command } => return exec(&name, &command),
    }
    Ok(ExitCode::SUCCESS)
}

async fn start(up: Up) -> Result<()> {
    let begun = Instant::now();
    let lab = Lab::start(options(up)?).await?;
    eprintln!(
        "lab {} is up after {:.1} s; it stays until: cargo xtask lab down --name {}",
        lab.name(),
        begun.elapsed().as_secs_f32(),
        lab.name()
    );
    // On standard output and alone, so that it can be evaluated by a shell.
    println!("export KUBECONFIG={}", lab.kubeconfig().display());
    Ok(())
}

fn options(up: Up) -> Result<Options> {
    let mut options = match up.real {
        // Read when nodes are added, too, by then from another folder.
        Some(nodes) => {
            Options::real(nodes).with_images(up.image.iter().map(|file| absolute(file)).collect::<Result<Vec<_>>>()?)
        }
        None => Options { tier: up.tier.into(), ..Options::fleet(up.control_plane, up.workers) },
    };
    options.ip_family = if up.ipv6 { IpFamily::V6 } else { IpFamily::V4 };
    options.node_lease_seconds = up.node_lease.unwrap_or(options.node_lease_seconds);
    options.background = true;
    Ok(options.named(up.name))
}

fn absolute(file: &Path) -> Result<PathBuf> {
    file.canonicalize().with_context(|| format!("{}", file.display()))
}

fn exec(name: &str, command: &[String]) -> Result<ExitCode> {
    let (folder, _) = folder::find(&folder::root()?, name)?;
    let [program, arguments @ ..] = command else { bail!("no command") };
    let mut command = match program.as_str() {
        "kubectl" => assets::kubectl()?,
        _ => std::process::Command::new(program),
    };
    let status = command
        .args(arguments)
        .env("KUBECONFIG", folder.kubeconfig("admin"))
        .status()
        .with_context(|| format!("running {program}"))?;
    // A command that a signal ended has no code.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

fn status(out: &mut impl Write) -> Result<()> {
    let labs = folder::list(&folder::root()?)?;
    if labs.is_empty() {
        writeln!(out, "there is no lab")?;
    }
    for (folder, record) in labs {
        one(out, &folder, &record)?;
    }
    Ok(())
}

fn one(out: &mut impl Write, folder: &Folder, record: &LabRecord) -> Result<()> {
    let server =
        kubeconfig::endpoint(&folder.kubeconfig("admin")).map_or_else(|_| "starting".into(), |server| server.url);
    let owner = match &record.owner {
        None => "in the background".to_owned(),
        Some(owner) if owner.is_alive() => format!("owned by process {}", owner.pid),
        Some(owner) => format!("stale: process {} has ended", owner.pid),
    };
    let tier = format!("{:?}", record.options.tier).to_lowercase();
    writeln!(out, "{}  {tier}, {server}, {owner}\n  {}", record.name, folder.path().display())?;
    if let Ok(nodes) = RealNodes::of(folder, record) {
        for node in nodes.all()? {
            let state = if node.is_running()? { "on" } else { "off" };
            writeln!(out, "  {:<26} {:>15}  {state}", node.name(), node.address().to_string())?;
        }
    }
    for process in process::records(folder)? {
        let state = match process.identity.usage() {
            Some(usage) => format!("{:>5} MiB  {:>7.1} s CPU", usage.rss_bytes >> 20, usage.cpu.as_secs_f32()),
            None => "has ended".into(),
        };
        writeln!(out, "  {:<26} {:>8}  {state}", process.spec.name, process.identity.pid)?;
    }
    Ok(())
}
