//! What is checked without running code.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Result, ensure};
use tf_testing::assets;

use super::{Summary, links, pages};

/// Runs every check.
pub fn run() -> Result<Summary> {
    let deny = cargo_deny()?;
    let cargo = |arguments: &[&str]| {
        let mut command = crate::cargo();
        command.args(arguments);
        command
    };
    let mut licences = Command::new(deny);
    // Advisories need a database that is fetched; everything else is decided by Cargo.lock and deny.toml alone.
    licences.args(["--locked", "check", "bans", "licenses", "sources"]);
    let checks = [
        ("format", cargo(&["fmt", "--all", "--check"])),
        ("clippy", cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])),
        ("generated files", cargo(&["xtask", "gen", "--check"])),
        ("layers of the workspace", cargo(&["xtask", "lint"])),
        ("licences, sources and bans", licences),
    ];
    let mut summary = Summary::default();
    for (name, mut command) in checks {
        println!("--- {name}");
        if command.current_dir(crate::root()?).status()?.success() {
            summary.passed += 1;
        } else {
            summary.failed.push(name.into());
        }
    }
    let root = crate::root()?;
    for (name, complaints) in
        [("links between documents", links::broken(&root)?), ("pages of the components", pages::lacking(&root)?)]
    {
        println!("--- {name}");
        for complaint in &complaints {
            eprintln!("{complaint}");
        }
        if complaints.is_empty() {
            summary.passed += 1;
        } else {
            summary.failed.push(name.into());
        }
    }
    Ok(summary)
}

/// The executable of cargo-deny: on `PATH`, else installed into the lab's cache.
fn cargo_deny() -> Result<PathBuf> {
    let on_path = PathBuf::from("cargo-deny");
    if Command::new(&on_path).arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Ok(on_path);
    }
    let root = assets::cache()?.join("cargo");
    let installed = root.join("bin/cargo-deny");
    if !installed.is_file() {
        println!("installing cargo-deny (the first time takes minutes)");
        let mut command = crate::cargo();
        // It looks at one workspace for some seconds: to optimise it takes longer than it saves.
        command.args(["install", "--quiet", "--locked", "--debug", "cargo-deny", "--root"]).arg(&root);
        // Its dependencies are of no use to this workspace.
        command.env("CARGO_TARGET_DIR", root.join("target"));
        ensure!(command.status()?.success(), "installing cargo-deny failed");
        fs::remove_dir_all(root.join("target"))?;
    }
    Ok(installed)
}
