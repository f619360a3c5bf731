//! Exchanges with a daemon that end in order, whether or not the answer is still waited for.
//!
//! A connection that is dropped in the TLS handshake is a traceback of 18 lines in the log of a Python daemon (ADR 0066), so a look that waits no
//! longer leaves its exchange to itself: the handshake is completed, the answer is read, and the connection is closed as TLS has it.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::Semaphore,
    time::timeout,
};

use super::{Target, connect};
use crate::paths::Paths;

/// For an exchange that is not waited for any more. Then its connection is dropped as it is.
const LONGEST: Duration = Duration::from_secs(30);
/// Exchanges with one daemon at a time. A daemon that hangs does not get more connections than these.
const AT_A_TIME: usize = 4;
/// For the other side to close, too.
const CLOSING: Duration = Duration::from_secs(1);

/// The exchanges with one daemon.
#[derive(Clone, Debug)]
pub struct Exchanges(Arc<Semaphore>);

impl Default for Exchanges {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_A_TIME)))
    }
}

/// What became of a TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// It was completed, and the connection closed in order.
    Completed,
    /// The connection was refused, or the handshake failed.
    Refused,
    /// There was no answer in time.
    Silent,
}

impl Exchanges {
    /// What an exchange results in, if that is within this time. It goes on to its end in any case.
    pub async fn within<T: Send + 'static>(
        &self,
        patience: Duration,
        exchange: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let result = async {
            let permit = Arc::clone(&self.0).acquire_owned().await.ok()?;
            let task = tokio::spawn(async move {
                let result = timeout(LONGEST, exchange).await;
                drop(permit);
                result.ok()
            });
            task.await.ok().flatten()
        };
        timeout(patience, result).await.ok().flatten()
    }

    /// What becomes of a TLS handshake with a server within this time. No request is sent.
    pub async fn greet(&self, patience: Duration, target: Target, paths: &Paths) -> Greeting {
        let paths = paths.clone();
        let greeting = async move {
            let Ok(mut stream) = connect(&target, &paths).await else { return Greeting::Refused };
            // What the other side has sent after the handshake (session tickets) is read, so that the kernel does not reset the connection.
            tokio::spawn(timeout(CLOSING, async move {
                let _ = stream.shutdown().await;
                let mut rest = [0; 1024];
                while stream.read(&mut rest).await.is_ok_and(|length| length > 0) {}
            }));
            Greeting::Completed
        };
        self.within(patience, greeting).await.unwrap_or(Greeting::Silent)
    }
}
