//! Tests of many cases that try some of them in each run, and long tests that have their turn in some runs; all of them in a soak.

use std::{
    collections::BTreeSet,
    env, fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    thread,
};

use anyhow::{Context, Result};
use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};

use crate::{seed, skip};

/// Variable with the number of cases, or `all`. `cargo xtask soak` sets it.
pub const VARIABLE: &str = "TF_SAMPLE";

/// Which of a test's cases are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// Every one.
    All,
    /// So many, drawn with the seed.
    Some {
        /// Number of cases.
        count: usize,
        /// What they are drawn with.
        seed: u64,
    },
}

/// Whether the environment says how many cases are tried.
pub fn is_asked_for() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// Long tests have their turn in one of so many runs.
const ONE_IN: u64 = 3;

/// Whether the long test of this thread has its turn: in one of [`ONE_IN`] runs of `cargo xtask test`, drawn with the seed and the test's name, and whenever
/// a soak or a person runs it. It is counted as skipped otherwise, and returns next.
///
/// # Errors
/// When the seed is not a number, or the test cannot be counted.
pub fn has_turn() -> Result<bool> {
    if is_asked_for() || env::var_os(seed::VARIABLE).is_none() {
        return Ok(true);
    }
    let name = thread::current().name().unwrap_or_default().to_owned();
    let has_turn = is_drawn(&name, seed::from_environment()?);
    if !has_turn {
        skip::this_test(&format!("it has its turn in one of {ONE_IN} runs; cargo xtask soak fleet runs it"))?;
    }
    Ok(has_turn)
}

fn is_drawn(name: &str, seed: u64) -> bool {
    let mut hasher = DefaultHasher::new();
    (name, seed).hash(&mut hasher);
    hasher.finish().is_multiple_of(ONE_IN)
}

impl Sample {
    /// What the environment asks for, else so many.
    ///
    /// # Errors
    /// When what the environment names is neither a number nor `all`.
    pub fn from_environment(default: usize) -> Result<Self> {
        let count = match env::var(VARIABLE) {
            Ok(text) if text == "all" => return Ok(Self::All),
            Ok(text) => text.parse().with_context(|| format!("{VARIABLE}={text} is neither a number nor all"))?,
            Err(_) => default,
        };
        Ok(Self::Some { count, seed: seed::from_environment()? })
    }

    /// Whether nothing is tried.
    pub fn is_empty(self) -> bool {
        matches!(self, Self::Some { count: 0, .. })
    }

    /// The cases of `0..number` to try, in ascending order. `salt` tells several draws of one test apart.
    pub fn draw(self, number: usize, salt: u64) -> Vec<usize> {
        match self {
            Self::All => (0..number).collect(),
            Self::Some { count, seed } => {
                let mut generator = SmallRng::seed_from_u64(seed.wrapping_add(salt));
                let mut drawn = BTreeSet::new();
                while drawn.len() < count.min(number) {
                    drawn.insert(generator.random_range(0..number));
                }
                drawn.into_iter().collect()
            }
        }
    }
}

/// How the draw is repeated, to stand behind a sentence; nothing where all is tried.
impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => Ok(()),
            Self::Some { seed, .. } => write!(f, " ({}={seed})", seed::VARIABLE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_the_same_for_the_same_seed_and_never_larger_than_what_there_is() {
        let sample = Sample::Some { count: 3, seed: 7 };
        let drawn = sample.draw(10, 0);
        assert_eq!(drawn.len(), 3);
        assert_eq!(drawn, sample.draw(10, 0));
        assert_eq!(sample.draw(2, 0), [0, 1]);
        assert!(sample.draw(0, 0).is_empty());
        let others: BTreeSet<_> = (0..20).map(|salt| sample.draw(10, salt)).collect();
        assert!(others.len() > 1, "salts tell draws apart");
        assert_eq!(Sample::All.draw(3, 1), [0, 1, 2]);
    }

    #[test]
    fn each_long_test_has_its_turn_as_often_as_it_says_and_not_all_at_once() {
        let turns = |name: &str| (0..3000).filter(|seed| is_drawn(name, *seed)).count();
        assert!((900..1100).contains(&turns("a::b")), "{}", turns("a::b"));
        assert!((0..100).any(|seed| is_drawn("a::b", seed) != is_drawn("a::c", seed)));
    }
}
