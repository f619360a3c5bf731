//! Copies of files that a daemon wants at another place, made before each start.

use std::fs;

use anyhow::{Context as _, Result};
use tf_plan::node::launch::When;

use crate::{
    atomic,
    paths::Paths,
    set::{File, Set},
};

/// Makes the copies of a set. The directories exist: one that is missing is a volume that is not mounted, and creating it
/// would hide that.
pub fn place(set: &Set, paths: &Paths) -> Result<()> {
    for place in &set.launch.place {
        let to = paths.at(&place.to);
        let File { bytes, secret } =
            set.files.get(&place.file).with_context(|| format!("{} is missing", place.file))?;
        if place.when == When::Absent && fs::symlink_metadata(&to).is_ok() {
            continue;
        }
        atomic::write(&to, bytes, if *secret { 0o640 } else { 0o644 })?;
        if let Some(parent) = to.parent() {
            atomic::sync_directory(parent).with_context(|| format!("write {}", to.display()))?;
        }
    }
    Ok(())
}
