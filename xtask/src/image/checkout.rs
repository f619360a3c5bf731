//! One target folder for any number of checkouts: what they have in common is built once, and none is given what another
//! one has built.
//!
//! Cargo goes by flags and times. A flag that names the checkout would have everything built again in each of them, so
//! this one is added where cargo does not see it. That leaves the times of sources, by which an older checkout would take
//! for its own what a younger one has built; so what belongs to the workspace is forgotten when the checkout changes.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use cargo_metadata::Metadata;

/// What cargo runs in place of the compiler. Named by its place, it is the same for every checkout. What it adds for links rebuilds nothing that is
/// linked.
pub(super) const COMPILER: &str = r#"#!/bin/sh
# Written by cargo xtask image. The flag is the first: where folders are inside of each other, others win.
compiler=$1
shift
case "$*" in
*"--target x86_64"*)
  # Functions of the same instructions are kept once: a twentieth of an executable. LLD does it, with which Rust links for this architecture alone.
  set -- -Clink-arg=-Wl,--icf=all "$@"
  ;;
esac
exec "$compiler" "--remap-path-prefix=$TF_CHECKOUT=/src" "$@"
"#;

/// The right of one checkout to build. Others wait until it is dropped.
pub struct Turn {
    compiler: PathBuf,
    root: PathBuf,
    _lock: File,
}

impl Turn {
    /// Waits for it. `selection` are cargo's arguments that say what is built, of which `kind` is the name.
    pub fn take(metadata: &Metadata, kind: &str, selection: &[&str]) -> Result<Self> {
        let folder = metadata.target_directory.join(".images");
        fs::create_dir_all(&folder).with_context(|| format!("making {folder}"))?;
        let lock = File::create(folder.join("lock"))?;
        lock.lock()?;
        let root = PathBuf::from(&metadata.workspace_root);
        let last = folder.join(format!("checkout-{kind}"));
        if !holds(last.as_ref(), root.as_os_str().as_encoded_bytes()) {
            forget(metadata, selection)?;
            fs::write(&last, root.as_os_str().as_encoded_bytes())?;
        }
        let compiler = PathBuf::from(folder.join("rustc"));
        if !holds(&compiler, COMPILER.as_bytes()) {
            fs::write(&compiler, COMPILER)?;
            fs::set_permissions(&compiler, Permissions::from_mode(0o755))?;
        }
        Ok(Self { compiler, root, _lock: lock })
    }

    /// Has a command of cargo build what others have built, too.
    pub fn share(&self, cargo: &mut Command) {
        cargo.env("RUSTC_WRAPPER", &self.compiler).env("TF_CHECKOUT", &self.root);
    }
}

fn holds(file: &Path, content: &[u8]) -> bool {
    fs::read(file).is_ok_and(|found| found == content)
}

/// Removes what was built of the workspace's own packages.
fn forget(metadata: &Metadata, selection: &[&str]) -> Result<()> {
    let mut command = crate::cargo();
    command.args(["clean", "--quiet", "--locked"]).args(selection).current_dir(&metadata.workspace_root);
    command.arg("--target-dir").arg(&metadata.target_directory);
    for package in metadata.workspace_packages() {
        command.args(["--package", package.name.as_str()]);
    }
    ensure!(command.status().context("running cargo clean")?.success(), "cargo clean failed");
    Ok(())
}
