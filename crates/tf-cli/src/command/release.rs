//! `kubectl tf release`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::Cluster;
use crate::release;

#[derive(Args)]
pub struct Options {
    /// Namespace; that of the context if none is given
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    cluster: Cluster,
}

/// Lets resources go that wait for an operator that is gone.
pub async fn tell(options: &Options) -> Result<ExitCode> {
    let (client, namespace) = options.cluster.connect(options.namespace.as_deref()).await?;
    let released = release::release(&client, &namespace).await?;
    if released.is_empty() {
        println!("no resource in namespace {namespace} is being deleted and waits for an operator");
    }
    for line in released {
        println!("{line}");
    }
    Ok(ExitCode::SUCCESS)
}
