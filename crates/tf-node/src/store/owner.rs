//! Whose the data of a store is.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::atomic;

/// Says whose the data is.
pub(super) const OWNER: &str = ".member";

/// Lets the data be that of this member, `<uid of the resource>/<number>`. What another member of the same resource had is put aside: the
/// others did without that one since. Data of no member, or of a resource that is gone, is taken over.
///
/// # Errors
/// When a file cannot be read, written or moved.
pub(super) fn belongs_to(member: &str, data: &Path, put_aside: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let file = data.join(OWNER);
    let owner = match fs::read_to_string(&file) {
        Ok(owner) => Some(owner),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("read {}", file.display())),
    };
    let owner = owner.as_deref().map(str::trim);
    if owner == Some(member) {
        return Ok(());
    }
    let resource = |member: &str| member.split_once('/').map(|(resource, _)| resource.to_owned());
    if owner.is_some_and(|owner| resource(owner) == resource(member)) {
        put_aside(data)?;
    }
    // Last: whoever is stopped before does the same again, and what has been put aside by then stays.
    atomic::write(&file, member.as_bytes(), 0o600)
}

/// Whether there is something of this name.
///
/// # Errors
/// When that cannot be told.
pub(super) fn exists(path: &PathBuf) -> Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("look at {}", path.display())),
    }
}
