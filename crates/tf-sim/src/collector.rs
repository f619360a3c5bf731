//! The connection of a daemon to a collector. Nothing is said over it.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    options::Tls,
    status::{Peer, State, Status},
    tls,
};

/// For a connection.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two of them.
const PERIOD: Duration = Duration::from_secs(2);

/// Connects to the first of these collectors, again and again, and tells how that goes.
pub async fn report(mut collectors: watch::Receiver<Vec<String>>, tls: Tls, status: Arc<Status>) {
    loop {
        let Some(collector) = collectors.borrow_and_update().first().cloned() else { return };
        let connected = timeout(PATIENCE, tls::connect(&collector, tls.as_ref())).await;
        status.set(
            Peer::Collector,
            match connected.context("no answer").flatten() {
                Ok(_) => State::Up(collector),
                Err(error) => State::Down(format!("{error:#}")),
            },
        );
        // Nobody reads the list of some again.
        if let Ok(Err(_)) = timeout(PERIOD, collectors.changed()).await {
            sleep(PERIOD).await;
        }
    }
}
