//! For how long nobody of those that are elected was at work: who waits for its turn opens no port.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::join_all;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Between two looks.
const PERIOD: Duration = Duration::from_millis(500);
/// For a port to open.
const PATIENCE: Duration = Duration::from_secs(1);

/// Somebody who looks all the time whether one of the members is at work.
pub struct Lookout {
    end: watch::Sender<bool>,
    task: JoinHandle<Duration>,
}

impl Lookout {
    /// Begins. `port`: the one that who is at work opens.
    pub fn begin(addresses: &[IpAddr], port: u16) -> Self {
        let (end, ended) = watch::channel(false);
        Self { end, task: tokio::spawn(look(addresses.to_vec(), port, ended)) }
    }

    /// Ends, with the longest time in which nobody was.
    ///
    /// # Errors
    /// When it could not look.
    pub async fn end(self) -> Result<Duration> {
        self.end.send_replace(true);
        Ok(self.task.await?)
    }
}

async fn look(addresses: Vec<IpAddr>, port: u16, ended: watch::Receiver<bool>) -> Duration {
    let (mut longest, mut seen) = (Duration::ZERO, Instant::now());
    while !*ended.borrow() {
        let asked = addresses.iter().map(|address| timeout(PATIENCE, TcpStream::connect((*address, port))));
        if join_all(asked).await.into_iter().any(|answer| matches!(answer, Ok(Ok(_)))) {
            seen = Instant::now();
        }
        longest = longest.max(seen.elapsed());
        tokio::time::sleep(PERIOD).await;
    }
    longest
}
