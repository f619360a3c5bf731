//! `kubectl-tf`, asked as people and scripts do.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};

/// Starts the program, which finds the cluster by `KUBECONFIG`: its code, and what it says where.
pub async fn program(kubeconfig: &Path, arguments: &[&str], input: &str) -> Result<(i32, String, String)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_e2e-kubectl-tf"));
    command.args(arguments).env_clear().env("HOME", "/nonexistent").env("KUBECONFIG", kubeconfig);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let input = input.to_owned();
    let ended = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn()?;
        // Who reads nothing has closed it.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
        child.wait_with_output()
    });
    let output = ended.await??;
    let code = output.status.code().context("it was killed")?;
    Ok((code, String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?))
}
