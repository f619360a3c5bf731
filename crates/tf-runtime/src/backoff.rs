//! Back-off per resource: a failure is retried soon, a failing resource ever more rarely, and a success forgets it.

use std::{collections::HashMap, time::Duration};

use crate::{object::Key, watch::jittered};

const FIRST: Duration = Duration::from_secs(1);
/// As long as the longest pause of a watch: an API server that is back is noticed by both at about the same time, however often
/// a resource failed before.
const LONGEST: Duration = Duration::from_secs(30);

/// Consecutive failures by resource.
#[derive(Debug, Default)]
pub struct Backoff(HashMap<Key, u32>);

impl Backoff {
    /// Counts a failure. Returns when to try again.
    pub fn failed(&mut self, key: &Key) -> Duration {
        let failures = self.0.entry(key.clone()).or_default();
        *failures = failures.saturating_add(1);
        jittered(delay(*failures))
    }

    /// Forgets the failures of a resource.
    pub fn succeeded(&mut self, key: &Key) {
        self.0.remove(key);
    }

    /// Failures in a row.
    pub fn failures(&self, key: &Key) -> u32 {
        self.0.get(key).copied().unwrap_or_default()
    }

    /// Resources that failed last time.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// 1 s, 2 s, 4 s, ... up to half a minute.
fn delay(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    FIRST.saturating_mul(1 << doublings).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_a_success_resets_them() {
        let seconds: Vec<u64> = (1..=7).map(|n| delay(n).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(delay(u32::MAX), LONGEST);
        let mut backoff = Backoff::default();
        let (a, b) = (Key::new("tf", "a"), Key::new("tf", "b"));
        backoff.failed(&a);
        backoff.failed(&a);
        assert_eq!((backoff.failures(&a), backoff.failures(&b)), (2, 0));
        backoff.succeeded(&a);
        assert_eq!(backoff.failures(&a), 0);
    }
}
