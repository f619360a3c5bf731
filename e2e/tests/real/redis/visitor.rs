//! Somebody who visits every server all the time, as a new client, and notes which of them serve.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::client::Login;

/// Between two rounds.
const PACE: Duration = Duration::from_millis(100);

/// What was seen.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Rounds.
    pub rounds: usize,
    /// Servers that served in the worst of them.
    pub fewest: usize,
    /// The longest that one server was seen not to serve.
    pub longest: Duration,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, fewest, longest } = self;
        write!(f, "{rounds} rounds, {fewest} servers at least, one away for {longest:.1?} at most")
    }
}

/// The visitor. It ends with this.
pub struct Visitor {
    seen: Arc<Mutex<Summary>>,
    task: JoinHandle<()>,
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Visitor {
    /// Begins to visit the servers, one after the other.
    pub fn begin(login: &Login, addresses: &[IpAddr]) -> Self {
        let summary = Summary { rounds: 0, fewest: addresses.len(), longest: Duration::ZERO };
        let seen = Arc::new(Mutex::new(summary));
        let task = tokio::spawn(visit(login.clone(), addresses.to_vec(), Arc::clone(&seen)));
        Self { seen, task }
    }

    /// What was seen until now.
    pub fn end(self) -> Result<Summary> {
        let summary = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        anyhow::ensure!(summary.rounds > 0, "nobody was visited");
        Ok(summary)
    }
}

async fn visit(login: Login, addresses: Vec<IpAddr>, seen: Arc<Mutex<Summary>>) {
    let mut away: Vec<Option<Instant>> = vec![None; addresses.len()];
    loop {
        for (address, away) in addresses.iter().zip(&mut away) {
            *away = match login.is_served(*address).await {
                Ok(()) => None,
                Err(_) => away.or_else(|| Some(Instant::now())),
            };
        }
        let longest = away.iter().flatten().map(Instant::elapsed).max().unwrap_or_default();
        let serving = away.iter().filter(|away| away.is_none()).count();
        {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.rounds += 1;
            seen.fewest = seen.fewest.min(serving);
            seen.longest = seen.longest.max(longest);
        }
        sleep(PACE).await;
    }
}
