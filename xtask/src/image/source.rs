//! What an image says of where it comes from: the commit it was built of, and the one time that everything in it carries.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;

/// Variable with the time, in seconds since 1970, that what is built carries instead of the commit's
/// (reproducible-builds.org).
const EPOCH: &str = "SOURCE_DATE_EPOCH";

/// Where an image comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Modification time of every file, and when the image was created.
    pub time: Timestamp,
    /// Commit; with `-dirty` when files differ from it. None outside of a repository.
    pub revision: Option<String>,
}

impl Source {
    /// Of the repository in `root`.
    ///
    /// # Errors
    /// When neither a commit nor `SOURCE_DATE_EPOCH` gives a time.
    pub fn of(root: &Path) -> Result<Self> {
        let revision = git(root, &["rev-parse", "HEAD"]).ok().map(|commit| {
            let changed =
                git(root, &["status", "--porcelain", "--untracked-files=no"]).is_ok_and(|files| !files.is_empty());
            if changed { format!("{commit}-dirty") } else { commit }
        });
        let seconds = match std::env::var(EPOCH) {
            Ok(seconds) => seconds,
            Err(_) => git(root, &["log", "-1", "--format=%ct"]).with_context(|| {
                format!("an image carries the time of its commit; outside of a repository set {EPOCH}")
            })?,
        };
        let time = seconds.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
        Ok(Self { time: time.with_context(|| format!("{seconds:?} is no time in seconds"))?, revision })
    }

    /// [`Self::time`] as tar writes it.
    pub fn mtime(&self) -> u64 {
        u64::try_from(self.time.as_second()).unwrap_or_default()
    }
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    // Nothing is written, so that whoever works in the repository at the same time is not locked out.
    let mut command = Command::new("git");
    let output =
        command.arg("--no-optional-locks").arg("-C").arg(root).args(arguments).output().context("running git")?;
    ensure!(output.status.success(), "git: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
