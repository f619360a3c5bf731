//! The seed of everything that a test draws.

use std::env;

use anyhow::{Context, Result};

/// Variable with the seed. `cargo xtask test` sets it and says which it was.
pub const VARIABLE: &str = "TF_TEST_SEED";

/// The seed that the environment names, else a random one. A test says which it was, in its failures at least.
///
/// # Errors
/// When what the environment names is not a number.
pub fn from_environment() -> Result<u64> {
    match env::var(VARIABLE) {
        Ok(seed) => seed.parse().with_context(|| format!("{VARIABLE}={seed} is not a number")),
        Err(_) => Ok(rand::random()),
    }
}
