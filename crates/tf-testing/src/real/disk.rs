//! A node's disk: what is below its `/var`, a file system of a size of its own in a file of the lab's folder.
//!
//! The file is sparse and takes the place of what is really written, so a node's disk can be full while the machine's is
//! not. Nodes evict no pod because of it: what a program makes of a full disk is what tests look for.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::real::node::RealNode;

/// Size in bytes: more than the images and data of any test.
pub const SIZE: u64 = 20 << 30;

/// What takes the free space of a full disk. The second file has the last block, which the first cannot have: its list of
/// blocks may need one more, too.
const BALLAST: [&str; 2] = ["/var/ballast", "/var/ballast-rest"];

/// The smallest block of a file system.
const BLOCK: u64 = 1024;

impl RealNode {
    /// Fills its disk to the last block. Nothing is written: the blocks are only taken. An error while it is off.
    pub fn fill_disk(&self) -> Result<()> {
        for file in BALLAST {
            take_all(&self.machine().path(file)?).with_context(|| format!("filling the disk of {}", self.name()))?;
        }
        Ok(())
    }

    /// Frees what [`fill_disk`](Self::fill_disk) took. An error while it is off.
    pub fn free_disk(&self) -> Result<()> {
        for file in BALLAST {
            match fs::remove_file(self.machine().path(file)?) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                outcome => outcome.with_context(|| format!("freeing the disk of {}", self.name()))?,
            }
        }
        Ok(())
    }
}

/// Extends a file by all the space there is.
fn take_all(path: &Path) -> io::Result<()> {
    let file = File::options().create(true).append(true).open(path)?;
    let mut length = file.metadata()?.len();
    let mut step = SIZE / 2;
    while step >= BLOCK {
        match fallocate(&file, FallocateFlags::empty(), length, step) {
            Ok(()) => length += step,
            Err(Errno::NOSPC) => step /= 2,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
