//! What `kubectl tf` can be asked, and where it asks.

mod lock;
mod nodes;
mod plan;
mod release;
mod status;

use std::{fmt::Display, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Error, Result};
use clap::{Args, Parser, Subcommand, ValueEnum};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

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
    /// What each node of a vRouter has, and what stands in the way of the vRouter there
    Nodes(nodes::Options),
    /// What the operators would make of a manifest: every object, and what of it differs from those in the cluster
    Plan(plan::Options),
    /// Print Helm values that pin every operand image by the digest that runs
    Lock(lock::Options),
    /// Remove the finalizers of resources that are being deleted and whose operator is gone
    Release(release::Options),
}

/// Does what the arguments of the process ask for. 0, 1 where that is what was asked about, or 2 after an error.
///
/// # Panics
/// Where the system has no timer or poll for it.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> ExitCode {
    let told = match Command::parse().what {
        What::Status(options) => status::tell(&options).await,
        What::Nodes(options) => nodes::run(&options).await,
        What::Plan(options) => plan::tell(&options).await,
        What::Lock(options) => lock::run(&options).await,
        What::Release(options) => release::tell(&options).await,
    };
    told.unwrap_or_else(|error| {
        eprintln!("error: {}", causes(&error));
        ExitCode::from(2)
    })
}

/// What went wrong and why, each cause once: some errors say their own causes.
fn causes(error: &Error) -> String {
    let mut told = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !told.contains(&cause) {
            told += if told.is_empty() { "" } else { ": " };
            told += &cause;
        }
    }
    told
}

/// For people or for programs.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

/// What is looked at: a namespace of a cluster, or all.
#[derive(Args)]
struct Scope {
    /// Namespace; that of the context if none is given
    #[arg(short, long)]
    namespace: Option<String>,
    /// All namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    cluster: Cluster,
}

impl Scope {
    /// A client, and the namespace; none for all.
    async fn connect(&self) -> Result<(Client, Option<String>)> {
        let (client, namespace) = self.cluster.connect(self.namespace.as_deref()).await?;
        Ok((client, (!self.all_namespaces).then_some(namespace)))
    }
}

/// Where the cluster is.
#[derive(Args)]
pub struct Cluster {
    /// File with the cluster's address and credentials, instead of what kubectl goes by
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of that file
    #[arg(long)]
    context: Option<String>,
}

impl Cluster {
    /// A client, and the namespace that is meant: the stated one, else the context's.
    async fn connect(&self, namespace: Option<&str>) -> Result<(Client, String)> {
        let config = self.config().await?;
        let namespace = namespace.unwrap_or(&config.default_namespace).to_owned();
        Ok((Client::try_from(config).context("the cluster's address and credentials")?, namespace))
    }

    async fn config(&self) -> Result<Config> {
        let how = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let config = match &self.kubeconfig {
            Some(file) => {
                let read =
                    Kubeconfig::read_from(file).map_err(first_line).with_context(|| file.display().to_string())?;
                Config::from_custom_kubeconfig(read, &how).await
            }
            None if self.context.is_some() => Config::from_kubeconfig(&how).await,
            None => {
                let inferred = Config::infer().await.map_err(first_line);
                return inferred.context("neither a kubeconfig nor a cluster around this program");
            }
        };
        config.map_err(first_line).context("the kubeconfig")
    }
}

/// What is wrong with a kubeconfig, without lines of it, which may have credentials.
fn first_line(error: impl Display) -> Error {
    Error::msg(error.to_string().lines().next().unwrap_or_default().to_owned())
}
