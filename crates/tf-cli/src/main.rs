//! `kubectl-tf`, which kubectl calls for `kubectl tf`.

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use clap::{Args, Parser, Subcommand, ValueEnum};
use futures::StreamExt as _;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tf_cli::{
    cluster::{self, Found},
    status,
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
    Status(Status),
}

#[derive(Args)]
struct Status {
    /// Namespace; that of the context if none is given
    #[arg(short, long)]
    namespace: Option<String>,
    /// All namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Text for people or JSON for programs
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Go on, and show every change
    #[arg(short, long)]
    watch: bool,
    /// End with code 1 unless everything is Ready
    #[arg(long, conflicts_with = "watch")]
    check: bool,
    /// File with the cluster's address and credentials, instead of what kubectl goes by
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of that file
    #[arg(long)]
    context: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let What::Status(status) = Command::parse().what;
    match tell(&status).await {
        Ok(is_ready) => ExitCode::from(u8::from(status.check && !is_ready)),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Tells the status. Whether everything is Ready.
async fn tell(options: &Status) -> Result<bool> {
    let config = config(options).await?;
    let namespace = options.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let namespace = (!options.all_namespaces).then_some(namespace.as_str());
    let client = Client::try_from(config).context("the cluster's address and credentials")?;
    if options.watch {
        let mut changes = std::pin::pin!(cluster::watch(&client, namespace));
        let mut last = String::new();
        while let Some(found) = changes.next().await {
            let text = show(&found, options.output)?;
            if text != last {
                print(&text, true)?;
                last = text;
            }
        }
        return Ok(true);
    }
    let found = cluster::read(&client, namespace).await?;
    print(&show(&found, options.output)?, false)?;
    Ok(status::trees(&found.resources).iter().all(status::Node::is_ready) && !found.resources.is_empty())
}

async fn config(options: &Status) -> Result<Config> {
    let how = KubeConfigOptions { context: options.context.clone(), ..KubeConfigOptions::default() };
    let config = match &options.kubeconfig {
        Some(file) => {
            let read = Kubeconfig::read_from(file).with_context(|| file.display().to_string())?;
            Config::from_custom_kubeconfig(read, &how).await
        }
        None if options.context.is_some() => Config::from_kubeconfig(&how).await,
        None => return Config::infer().await.context("neither a kubeconfig nor a cluster around this program"),
    };
    config.context("the kubeconfig")
}

fn show(found: &Found, output: Output) -> Result<String> {
    let trees = status::trees(&found.resources);
    Ok(match output {
        Output::Text => status::text(&trees, &found.notes),
        Output::Json => serde_json::to_string_pretty(&trees)? + "\n",
    })
}

/// Prints; on a terminal over what was printed before, if it goes on.
fn print(text: &str, goes_on: bool) -> Result<()> {
    let mut out = io::stdout().lock();
    if goes_on && out.is_terminal() {
        write!(out, "\x1b[2J\x1b[H")?;
    }
    write!(out, "{text}")?;
    out.flush().context("writing")
}
