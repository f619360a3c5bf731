//! `kubectl tf lock`.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Args;

use super::Cluster;
use crate::lock;

#[derive(Args)]
pub struct Options {
    /// Namespace; that of the context if none is given
    #[arg(short, long)]
    namespace: Option<String>,
    /// Only the images of this operator's pods, for example config-op
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,
    #[command(flatten)]
    cluster: Cluster,
}

/// Prints the values that pin what runs. 1 if an image cannot be pinned.
pub async fn run(options: &Options) -> Result<ExitCode> {
    let (client, namespace) = options.cluster.connect(options.namespace.as_deref()).await?;
    let operator = options.operator.as_deref();
    let lock = lock::read(&client, &namespace, operator).await?;
    let whose = operator.map(|operator| format!(" of {operator}")).unwrap_or_default();
    ensure!(!lock.is_empty(), "no component{whose} has pods in namespace {namespace}");
    print!("{}", lock.yaml()?);
    for problem in &lock.problems {
        eprintln!("error: {problem}");
    }
    Ok(ExitCode::from(u8::from(!lock.problems.is_empty())))
}
