//! Mounted volumes as they are at one moment.
//!
//! The kubelet replaces all files of a volume at once: it writes a new directory and then lets the symbolic link `..data`
//! point to it. So a reading counts only if the links were the same before and after it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

/// The link of a volume that the kubelet swaps.
pub const DATA: &str = "..data";
/// Readings before giving up until the next change.
const ATTEMPTS: usize = 20;

/// Reads volumes. `once` gets the directory with the files of each, none where the pod has no such volume, and fails or
/// succeeds as it likes while the files change.
pub fn read<T, const N: usize>(volumes: &[PathBuf; N], once: impl Fn([Option<PathBuf>; N]) -> Result<T>) -> Result<T> {
    for _ in 0..ATTEMPTS {
        let before = targets(volumes)?;
        let result = once(before.clone());
        if targets(volumes)? == before {
            return result;
        }
    }
    bail!("the mounted files change faster than they can be read")
}

fn targets<const N: usize>(volumes: &[PathBuf; N]) -> Result<[Option<PathBuf>; N]> {
    let mut targets = [const { None }; N];
    for (target, volume) in targets.iter_mut().zip(volumes) {
        *target = directory(volume)?;
    }
    Ok(targets)
}

/// The directory that holds a volume's files at the moment; none if there is no such volume.
fn directory(volume: &Path) -> Result<Option<PathBuf>> {
    match fs::read_link(volume.join(DATA)) {
        Ok(target) => Ok(Some(volume.join(target))),
        // Not written by a kubelet: the files are in the directory itself.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(volume.is_dir().then(|| volume.to_owned())),
        Err(error) => Err(error).with_context(|| format!("read {}", volume.join(DATA).display())),
    }
}
