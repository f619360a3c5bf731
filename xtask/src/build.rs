//! Building the operators for the lab, once and visibly.

use std::{path::PathBuf, process::Command, time::Instant};

use anyhow::{Result, ensure};
use tf_testing::operators;

/// Builds every operator in the lab's profile and returns the folder of the executables.
pub fn operators() -> Result<PathBuf> {
    let begun = Instant::now();
    println!("building {} operators (the first time takes minutes, later ones seconds)", operators::ALL.len());
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--profile", "lab"]).current_dir(crate::root()?);
    for operator in operators::ALL {
        command.args(["-p", operator]);
    }
    ensure!(command.status()?.success(), "building the operators failed");
    println!("built in {:.0} s", begun.elapsed().as_secs_f64());
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| crate::root().map(|root| root.join("target")), |t| Ok(t.into()))?;
    Ok(target.join("lab"))
}
