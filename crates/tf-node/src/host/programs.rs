//! Programs of the host, which a container has at the directory where the host's `/` is mounted.
//!
//! One is started by this program again, which makes that directory its root first (`tf-node in-root`): images need no program for it.

use std::{
    env,
    ffi::OsString,
    io,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};
use tf_host::{Root, managers::HostPrograms, program};

/// The command of this program that starts another one.
pub const IN_ROOT: &str = "in-root";
/// Where programs of a host are.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Programs of the host with this root.
pub struct HostRoot<'a>(pub &'a Root);

impl HostPrograms for HostRoot<'_> {
    fn call(&self, program: &str, arguments: &[&str]) -> io::Result<()> {
        let root = self.0.at("/");
        let mut command = if root == Path::new("/") {
            Command::new(program)
        } else {
            let mut command = Command::new(env::current_exe()?);
            command.arg(IN_ROOT).arg(root).arg(program);
            command
        };
        program::run(command.args(arguments)).map(drop)
    }
}

/// Becomes a program that sees a directory as its root: the directory, the program, its arguments.
///
/// # Errors
/// When it cannot.
pub fn in_root(words: &[OsString]) -> Result<ExitCode> {
    let [root, program, arguments @ ..] = words else {
        anyhow::bail!("write tf-node {IN_ROOT} DIR PROGRAM [ARGUMENT]...")
    };
    rustix::process::chroot(root).with_context(|| format!("{} as the root", root.display()))?;
    env::set_current_dir("/").context("the root")?;
    let error = Command::new(program).args(arguments).env_clear().env("PATH", PATH).exec();
    Err(error).with_context(|| program.display().to_string())
}
