//! Looks all the time whether what the status says is true.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::future::join_all;
use kube::Client;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::*;

/// How long a status may say what is no longer so (stateful-services 6.1, I4).
pub const HONEST_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(500);

/// Somebody who looks.
pub struct Watchman {
    lies: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Watchman {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watchman {
    /// Begins to compare the status with what these servers say.
    pub fn begin(client: Client, servers: Vec<Ipv4Addr>) -> Self {
        let lies = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn(watch(client, servers, Arc::clone(&lies)));
        Self { lies, task }
    }

    /// An error when the status said Ready or Available for long without a quorum.
    pub fn end(self) -> Result<()> {
        let lies = self.lies.lock().unwrap();
        ensure!(lies.is_empty(), "{}", lies.join("\n"));
        Ok(())
    }
}

async fn watch(client: Client, servers: Vec<Ipv4Addr>, lies: Arc<Mutex<Vec<String>>>) {
    let mut lost: Option<Instant> = None;
    loop {
        if has_quorum(&servers).await {
            lost = None;
        } else {
            let lost = *lost.get_or_insert_with(Instant::now);
            if let Ok(Some(zookeeper)) = resources::get(&client, ZOOKEEPER, NAMESPACE, NAME).await
                && lost.elapsed() > HONEST_WITHIN
                && (zookeeper.is("Ready", "True") || zookeeper.is("Available", "True"))
            {
                let (ready, available) = (zookeeper.explain("Ready"), zookeeper.explain("Available"));
                lies.lock()
                    .unwrap()
                    .push(format!("{:?} after the quorum was lost: {ready}; {available}", lost.elapsed()));
            }
        }
        sleep(INTERVAL).await;
    }
}

/// Whether a majority serves, as each of them says itself.
async fn has_quorum(servers: &[Ipv4Addr]) -> bool {
    let answers = servers.iter().map(|server| timeout(Duration::from_secs(1), ask(*server, "srvr")));
    let answers = join_all(answers).await.into_iter().filter_map(|answer| answer.ok()?.ok());
    2 * answers.filter(|answer| answer.contains("Mode: ")).count() > servers.len()
}
