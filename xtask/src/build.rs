//! What the lab runs, built once and visibly: operators as executables, and images.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result};
use tempfile::TempDir;
use tf_testing::{operators, real::node};

use crate::{
    image::{
        self, Images,
        executable::{Profile, Workspace},
    },
    tools::{self, Need},
};

/// A folder with things as they were when they were built.
pub enum Built {
    /// By this command. Gone when dropped.
    Now(TempDir),
    /// By whoever set the variable that names it.
    Given(PathBuf),
}

impl Built {
    /// The folder.
    pub fn folder(&self) -> &Path {
        match self {
            Self::Now(folder) => folder.path(),
            Self::Given(folder) => folder,
        }
    }
}

/// Variable with the folder of operators that are built already.
pub const OPERATORS: &str = "TF_OPERATORS";

/// Variable with the folder of images that are built already.
pub const IMAGES: &str = "TF_IMAGES";

/// Builds every operator as it is in its image, unless [`OPERATORS`] says where they are.
pub fn operators() -> Result<Built> {
    tools::ensure(&[Need::Lab])?;
    let what = format!("{} operators", operators::ALL.len());
    once(OPERATORS, &what, |folder| {
        let workspace = Workspace::load()?;
        let packages: Vec<_> = operators::ALL.iter().map(|name| workspace.member(name)).collect::<Result<_>>()?;
        for (name, executable) in operators::ALL.iter().zip(workspace.build(&packages, Profile::Lab)?) {
            let file = folder.join(name);
            fs::write(&file, executable.content).with_context(|| format!("writing {}", file.display()))?;
            fs::set_permissions(&file, Permissions::from_mode(0o755))?;
        }
        Ok(())
    })
}

/// Writes the images of every program, of every store and of these other releases, unless [`IMAGES`] says where they are. Their references are
/// those that charts have.
pub fn images(releases: &[String]) -> Result<Built> {
    once(IMAGES, "images", |folder| {
        let mut names = vec![image::PROGRAMS.to_owned(), image::ALL_STORES.to_owned()];
        names.extend(releases.iter().cloned());
        image::build(&Images::lab(names, folder.to_owned()))?;
        Ok(())
    })
}

/// The same for a lab of real nodes, if this machine can have them.
///
/// # Errors
/// When it cannot, before anything is built.
pub fn images_for_real_nodes() -> Result<Built> {
    tools::ensure(&[Need::Lab, Need::RealNodes, Need::Stores])?;
    node::supported()?;
    images(&[])
}

fn once(variable: &str, what: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<Built> {
    if let Some(folder) = std::env::var_os(variable) {
        println!("{what}: those in {}", folder.display());
        return Ok(Built::Given(folder.into()));
    }
    let begun = Instant::now();
    println!("building {what} (the first time takes minutes, later ones seconds)");
    let target = target()?;
    fs::create_dir_all(&target).with_context(|| format!("making {}", target.display()))?;
    let folder = tempfile::Builder::new().prefix("built-").tempdir_in(&target)?;
    make(folder.path())?;
    println!("built in {:.0} s", begun.elapsed().as_secs_f64());
    Ok(Built::Now(folder))
}

fn target() -> Result<PathBuf> {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| Ok(crate::root()?.join("target")), |target| Ok(target.into()))
}
