//! Tests that have nothing to do on this machine or in this run. `cargo xtask test` names them.

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::thread;

use anyhow::Result;

/// Has the test of this thread, which returns next, counted as skipped for this reason.
pub fn this_test(reason: &str) -> Result<()> {
    let line = format!("{}: {reason}\n", thread::current().name().unwrap_or_default());
    // Not `eprint!`, which the test harness captures.
    write!(io::stderr(), "SKIP {line}")?;
    if let Some(file) = env::var_os("TF_TEST_SKIPS") {
        OpenOptions::new().append(true).open(file)?.write_all(line.as_bytes())?;
    }
    Ok(())
}
