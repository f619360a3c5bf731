//! `/healthz`, `/readyz` and `/metrics`.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{Router, extract::State, http::StatusCode, routing::get};
use tf_plan::object::Kind;
use tokio::{
    net::{TcpListener, TcpSocket},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::watch::WatchStatuses;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Whether the process lives and is of use.
#[derive(Debug)]
pub struct Health {
    started: Instant,
    last_beat: AtomicU64,
    watch_statuses: Arc<WatchStatuses>,
    primary: Kind,
}

impl Health {
    /// The loop beats at least this often.
    pub const INTERVAL: Duration = Duration::from_secs(10);
    /// Without a beat for this long the process is stuck.
    const LIMIT: Duration = Duration::from_mins(1);

    /// Health of a process that just began.
    pub fn new(watch_statuses: Arc<WatchStatuses>, primary: Kind) -> Self {
        Self { started: Instant::now(), last_beat: AtomicU64::new(0), watch_statuses, primary }
    }

    /// The loop is alive.
    pub fn beat(&self) {
        self.last_beat.store(self.started.elapsed().as_secs(), Ordering::Relaxed);
    }

    /// Whether the loop was alive a moment ago. Nothing outside of the process counts: a restart would not help.
    pub fn is_alive(&self) -> bool {
        let silent = self.started.elapsed().as_secs().saturating_sub(self.last_beat.load(Ordering::Relaxed));
        silent < Self::LIMIT.as_secs()
    }

    /// Whether the process sees its resources; a standby does too.
    pub fn is_ready(&self) -> bool {
        self.watch_statuses.synced(self.primary) == Some(true)
    }
}

/// Makes the page with the metrics.
pub type Page = Arc<dyn Fn() -> prometheus::Result<Vec<u8>> + Send + Sync>;

#[derive(Clone)]
struct Shared {
    /// Of each component.
    healths: Arc<[Arc<Health>]>,
    page: Page,
}

impl Shared {
    fn each(&self, is_good: impl Fn(&Health) -> bool) -> bool {
        self.healths.iter().all(|health| is_good(health))
    }
}

/// Serves until `stop`. A process is as well as each of its components.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve(
    listener: TcpListener,
    healths: Vec<Arc<Health>>,
    page: Page,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let routes = Router::new()
        .route("/healthz", get(|State(shared): State<Shared>| async move { verdict(shared.each(Health::is_alive)) }))
        .route("/readyz", get(|State(shared): State<Shared>| async move { verdict(shared.each(Health::is_ready)) }))
        .route("/metrics", get(metrics_page))
        .with_state(Shared { healths: healths.into(), page });
    axum::serve(listener, routes).with_graceful_shutdown(async move { stop.cancelled().await }).await
}

/// Listens on an address. `::` stands for every address of the pod, whatever its family and whatever the machine's defaults are.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    if address.ip() != Ipv6Addr::UNSPECIFIED {
        return TcpListener::bind(address).await;
    }
    // A kernel may have no IPv6.
    let Ok(socket) = TcpSocket::new_v6() else {
        return TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await;
    };
    rustix::net::sockopt::set_ipv6_v6only(&socket, false)?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn verdict(good: bool) -> (StatusCode, &'static str) {
    if good { (StatusCode::OK, "ok\n") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ok\n") }
}

async fn metrics_page(State(shared): State<Shared>) -> Result<Vec<u8>, StatusCode> {
    (shared.page)().map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    /// Kubelets of clusters that have IPv6 alone ask at an IPv6 address.
    #[tokio::test]
    async fn every_address_is_one_of_either_family() {
        let port = listen("[::]:0".parse().unwrap()).await.unwrap().local_addr().unwrap().port();
        let listener = listen(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port)).await.unwrap();
        let has_ipv6 = std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
        for address in ["127.0.0.1", "::1"] {
            let reached = TcpStream::connect((address, port)).await;
            assert!(reached.is_ok() || address == "::1" && !has_ipv6, "{address}: {reached:?}");
        }
        drop(listener);
        let own = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        assert_eq!(own.local_addr().unwrap().ip(), Ipv4Addr::LOCALHOST);
    }
}
