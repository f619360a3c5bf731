//! `tf-node reload`: has a daemon's server read what it shows and trusts anew (`identity.reload` of launch files), where that takes
//! a request in the store's own protocol.

use std::process::ExitCode;

use anyhow::{Context as _, Result};

use crate::{materialise::RunDir, paths::Paths, pod::Pod, store::Store};

/// Asks the server beside the agent.
///
/// # Errors
/// When it does not say that it did.
pub async fn reload(paths: &Paths, daemon: &str) -> Result<ExitCode> {
    let set = RunDir::new(paths.run_dir()).load(daemon)?.context("the daemon was never started")?;
    let store = Store::of(&set.launch, Pod::from_environment()?.address).context("the daemon is no store")?;
    store.reload(paths).await?;
    Ok(ExitCode::SUCCESS)
}
