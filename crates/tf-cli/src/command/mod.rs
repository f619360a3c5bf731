//! What `kubectl tf` can be asked, and where it asks.

pub mod plan;
pub mod status;

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};

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
    async fn config(&self) -> Result<Config> {
        let how = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let config = match &self.kubeconfig {
            Some(file) => {
                let read = Kubeconfig::read_from(file).with_context(|| file.display().to_string())?;
                Config::from_custom_kubeconfig(read, &how).await
            }
            None if self.context.is_some() => Config::from_kubeconfig(&how).await,
            None => return Config::infer().await.context("neither a kubeconfig nor a cluster around this program"),
        };
        config.context("the kubeconfig")
    }
}
