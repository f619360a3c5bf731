//! Building the operators for the lab, once and visibly.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tf_testing::operators;

/// Executables of the operators, as they were when they were built.
pub enum Operators {
    /// Built by this command. Gone when dropped.
    Built(TempDir),
    /// Built by whoever set [`FOLDER`].
    Given(PathBuf),
}

impl Operators {
    /// Their folder.
    pub fn folder(&self) -> &Path {
        match self {
            Self::Built(folder) => folder.path(),
            Self::Given(folder) => folder,
        }
    }
}

/// Variable with the folder of operators that are built already.
pub const FOLDER: &str = "TF_OPERATORS";

/// Builds every operator in the lab's profile, unless [`FOLDER`] says where they are.
pub fn operators() -> Result<Operators> {
    if let Some(folder) = std::env::var_os(FOLDER) {
        println!("operators are those in {}", folder.display());
        return Ok(Operators::Given(folder.into()));
    }
    let begun = Instant::now();
    println!("building {} operators (the first time takes minutes, later ones seconds)", operators::ALL.len());
    let target = target()?;
    fs::create_dir_all(&target).with_context(|| format!("making {}", target.display()))?;
    // Another checkout may share the target folder: what was built is taken before it builds its own to the same place.
    let lock = File::create(target.join(".operators.lock"))?;
    lock.lock()?;
    let mut command = crate::cargo();
    command.args(["build", "--profile", "lab"]).current_dir(crate::root()?);
    for operator in operators::ALL {
        command.args(["-p", operator]);
    }
    ensure!(command.status()?.success(), "building the operators failed");
    let folder = tempfile::Builder::new().prefix("operators-").tempdir_in(&target)?;
    for operator in operators::ALL {
        fs::hard_link(target.join("lab").join(operator), folder.path().join(operator))?;
    }
    println!("built in {:.0} s", begun.elapsed().as_secs_f64());
    Ok(Operators::Built(folder))
}

fn target() -> Result<PathBuf> {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| Ok(crate::root()?.join("target")), |target| Ok(target.into()))
}
