//! The connection of a daemon to a collector. Nothing is said over it.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use tokio::time::{sleep, timeout};

use crate::{
    options::Tls,
    status::{Peer, State, Status},
    tls,
};

/// For a connection.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two of them.
const PERIOD: Duration = Duration::from_secs(2);

/// Connects to a collector, again and again, and tells how that goes.
pub async fn report(collector: String, tls: Tls, status: Arc<Status>) {
    loop {
        let connected = timeout(PATIENCE, tls::connect(&collector, tls.as_ref())).await;
        status.set(
            Peer::Collector,
            match connected.context("no answer").flatten() {
                Ok(_) => State::Up(collector.clone()),
                Err(error) => State::Down(format!("{error:#}")),
            },
        );
        sleep(PERIOD).await;
    }
}
