//! Base layers of Debian's packages, made by mmdebstrap. They are for the lab: what the archive holds today is in them, so
//! they are not the same bytes tomorrow.

use std::{
    fs,
    io::{self, Write},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use tempfile::NamedTempFile;
use tf_agent_api::node::USER;

use super::{cache, layer::Layer};

/// A small Debian with packages.
#[derive(Clone, Copy, Debug)]
pub struct Base {
    /// What its layer is called in the cache and in the image's history.
    pub name: &'static str,
    /// Debian's release.
    pub suite: &'static str,
    /// Packages besides the essential ones.
    pub packages: &'static [&'static str],
}

/// What has not become a release of Debian. Its lists are valid for a week, which is less than some mirrors need.
pub const UNSTABLE: &str = "sid";

/// Time of files that the installation wrote. Those of packages keep their own.
const EPOCH: &str = "1767225600";

impl Base {
    /// The layer: from the cache, else from Debian's archive in about a minute.
    pub fn layer(&self) -> Result<Layer> {
        let arguments = self.arguments();
        let recipe: Vec<_> = arguments.iter().map(String::as_str).collect();
        cache::layer(self.name, &recipe, |out| self.make(out))
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<_> = [
            "--quiet",
            "--variant=essential",
            "--format=tar",
            // Nothing is lost when a machine fails half-way: it is made anew.
            "--dpkgopt=force-unsafe-io",
            "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-exclude=/usr/share/info/*",
            "--dpkgopt=path-exclude=/usr/share/locale/*",
            // Not the folders: installation scripts put links there.
            "--dpkgopt=path-exclude=/usr/share/man/man*/*",
            // These tell of the machine it was made on; the kubelet brings its own.
            r#"--customize-hook=rm -f "$1/etc/hostname" "$1/etc/resolv.conf""#,
        ]
        .map(str::to_owned)
        .into();
        // As in the images of the release (docs/upstream/images.md#user).
        let account = format!("contrail:x:{USER}:{USER}::/var/lib/contrail:/usr/sbin/nologin");
        arguments.push(format!(r#"--customize-hook=echo {account} >> "$1/etc/passwd""#));
        arguments.push(format!(r#"--customize-hook=echo contrail:x:{USER}: >> "$1/etc/group""#));
        if self.suite == UNSTABLE {
            arguments.push(r#"--aptopt=Acquire::Check-Valid-Until "false""#.to_owned());
        }
        arguments.push(format!("--include={}", self.packages.join(",")));
        arguments.push(self.suite.to_owned());
        arguments
    }

    fn make(&self, out: &mut dyn Write) -> Result<()> {
        eprintln!("installing {} into a Debian of its own: a minute or two, once", self.packages.join(", "));
        let said = NamedTempFile::new()?;
        let mut child = Command::new("mmdebstrap")
            .args(self.arguments())
            .arg("-")
            .env("SOURCE_DATE_EPOCH", EPOCH)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(said.reopen()?)
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => anyhow::anyhow!("store images need mmdebstrap: install that package"),
                _ => anyhow::Error::new(error).context("running mmdebstrap"),
            })?;
        let copied = io::copy(&mut child.stdout.take().context("output of mmdebstrap")?, out);
        ensure_success(child.wait()?.success(), &said)?;
        ensure!(copied? > 0, "mmdebstrap wrote nothing");
        Ok(())
    }
}

fn ensure_success(success: bool, said: &NamedTempFile) -> Result<()> {
    if !success {
        let said = fs::read_to_string(said.path())?;
        let lines: Vec<_> = said.lines().collect();
        bail!("mmdebstrap failed:\n{}", lines[lines.len().saturating_sub(20)..].join("\n"));
    }
    Ok(())
}
