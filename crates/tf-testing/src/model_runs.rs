//! How long models are walked through: a while in each run, and many times that in a soak.

#![expect(clippy::panic, reason = "a word that is no number is a panicking test")]

use std::env;

use proptest::test_runner::{Config, RngSeed};

/// Variable with how many times the usual walks are walked. `cargo xtask soak models` sets it.
pub const VARIABLE: &str = "TF_WALKS";

/// What part of the walks that a model names belongs to each run: the rest is for soaks, which have time.
const PART: u32 = 3;

/// How often a model is walked through: a third of so often, times what the environment asks for.
///
/// # Panics
/// When what the environment names is no number above zero.
pub fn times(usual: u32) -> u32 {
    let times = env::var(VARIABLE).ok().map_or(1, |text| match text.parse() {
        Ok(times) if times > 0 => times,
        _ => panic!("{VARIABLE}={text} is no number above zero"),
    });
    usual.saturating_mul(times).div_ceil(PART)
}

/// So many random walks, times what the environment asks for.
///
/// # Panics
/// As [`times`] does.
pub fn random(usual: u32) -> Config {
    Config { cases: times(usual), ..Config::default() }
}

/// So many walks, the same in each run; others where the environment asks for more. For models that have not been walked through for long enough: what
/// rare walks find is looked into after a soak, and no run fails for what it did not change.
///
/// # Panics
/// As [`times`] does.
pub fn same(usual: u32) -> Config {
    let config = random(usual);
    if env::var_os(VARIABLE).is_some() { config } else { Config { rng_seed: RngSeed::Fixed(2), ..config } }
}
