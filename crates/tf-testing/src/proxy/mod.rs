//! A reverse proxy in front of the API server, for one program under test, that makes chosen requests go wrong.
//!
//! The program gets a kubeconfig that names the proxy (plain HTTP on loopback) and holds its token; the proxy passes
//! the token on over TLS, so the API server sees the program's own identity and rights. Bodies are streamed: a watch
//! event arrives when the API server sends it. While the program runs, a test adds [rules](Proxy::add), breaks what
//! is [under way](Proxy::end_watches), makes the API [unreachable](Proxy::set_reachable), and stops the world at
//! [crash points](Proxy::after_nth).
//!
//! Limits: HTTP/1.1 only; no upgrades (exec, port-forward); a watch must be JSON to be ended by an ERROR event;
//! client-go sends no token over plain HTTP, so Go programs and kubectl cannot use it.

mod relay;
mod rule;
mod serve;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use rule::{Answer, Fault, Match, ResetAt, RuleId, Which};

use crate::{
    kubeconfig::{self, Endpoint},
    request::RequestInfo,
};
use rule::Rules;

/// A running proxy. Dropping it closes its connections.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _running: DropGuard,
}

/// A request the proxy has seen, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When it arrived.
    pub arrived: Timestamp,
    /// Time between its arrival and the answer, or the decision that there will be none.
    pub took: Duration,
    /// What was asked.
    pub request: RequestInfo,
    /// What the proxy did about it.
    pub outcome: Outcome,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The API server answered with this status. The client has the answer, unless a fault took it afterwards.
    Answered(u16),
    /// A rule answered with this status; the API server did not see the request.
    Injected(u16),
    /// The API server did not see the request and the client got no answer.
    Dropped,
    /// The API server was asked and could not be reached, or broke off before it answered.
    Failed,
}

/// How the watches under way end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// The stream ends as after the API server's own timeout.
    Closed,
    /// An ERROR event with code 410, then the end.
    Expired,
}

/// At which side of the delivery a [crash point](Proxy::after_nth) lies. The API server has acted in both cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The client does not know yet, and will not before the hook is done.
    BeforeDelivery,
    /// The whole answer was handed to the client's connection (or the client has gone); whether it has acted on it is
    /// not known.
    AfterDelivery,
}

/// What a crash point's hook is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The request.
    pub request: RequestInfo,
    /// The API server's status.
    pub code: u16,
}

/// What all connections share.
struct Shared {
    upstream: serve::Upstream,
    rules: Mutex<Rules>,
    points: Mutex<Vec<CrashPoint>>,
    seen: Mutex<Vec<Seen>>,
    reachable: watch::Sender<bool>,
    watches: broadcast::Sender<WatchEnd>,
}

/// A request that is under way.
#[derive(Clone)]
struct Asked {
    info: RequestInfo,
    arrived: Timestamp,
    begun: Instant,
}

struct CrashPoint {
    when: Match,
    left: u64,
    point: Point,
    hook: Box<dyn FnOnce(Answered) -> BoxFuture<'static, ()> + Send>,
}

impl Proxy {
    /// Listens on a free port and passes requests on to `endpoint`. Belongs to the tokio runtime it is started in.
    pub async fn start(endpoint: &Endpoint) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("listening")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream: serve::Upstream::new(endpoint)?,
            rules: Mutex::default(),
            points: Mutex::default(),
            seen: Mutex::default(),
            reachable: watch::channel(true).0,
            watches: broadcast::channel(16).0,
        });
        let running = CancellationToken::new();
        tokio::spawn(serve::accept(listener, Arc::clone(&shared), running.clone()));
        Ok(Self { address, shared, _running: running.drop_guard() })
    }

    /// `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Writes a kubeconfig beside `from` with the same token, but for this proxy.
    pub fn kubeconfig(&self, from: &Path) -> Result<PathBuf> {
        let name = from.file_name().context("a kubeconfig is a file")?.to_string_lossy();
        let to = from.with_file_name(format!("{name}.proxy-{}", self.address.port()));
        kubeconfig::redirect(from, &to, &Endpoint { url: self.url(), ca: None })?;
        Ok(to)
    }

    /// From now on, lets requests go wrong. Of several rules that hit one request, the one added first decides.
    pub fn add(&self, when: Match, which: Which, fault: Fault) -> RuleId {
        lock(&self.shared.rules).add(when, which, fault)
    }

    /// Takes a rule back; requests it holds up already stay held up.
    pub fn remove(&self, rule: RuleId) {
        lock(&self.shared.rules).remove(rule);
    }

    /// Takes all rules back.
    pub fn clear(&self) {
        lock(&self.shared.rules).clear();
    }

    /// Ends every watch under way.
    pub fn end_watches(&self, end: WatchEnd) {
        // An error only says that there is no watch.
        let _ = self.shared.watches.send(end);
    }

    /// `false`: every connection is reset, and new ones at once, until `true`.
    pub fn set_reachable(&self, reachable: bool) {
        self.shared.reachable.send_replace(reachable);
    }

    /// Runs `hook` when the API server has answered the `nth` (from 1, counted from now on) request that matches, faults
    /// not counted. With [`Match::writes`] and n = 1, 2, 3, ... this visits every point at which a program can crash
    /// between two writes; the hook kills it there.
    pub fn after_nth<F>(&self, when: Match, nth: u64, point: Point, hook: impl FnOnce(Answered) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let hook = Box::new(move |answered| hook(answered).boxed());
        lock(&self.shared.points).push(CrashPoint { when, left: nth, point, hook });
    }

    /// Every request so far, in the order in which they were answered or dropped.
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.shared.seen).clone()
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Proxy").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Shared {
    fn record(&self, Asked { info, arrived, begun }: Asked, outcome: Outcome) {
        lock(&self.seen).push(Seen { arrived, took: begun.elapsed(), request: info, outcome });
    }

    /// The crash point that an answer reaches, if any. All points count it.
    fn reached(&self, request: &RequestInfo) -> Option<CrashPoint> {
        let mut points = lock(&self.points);
        for point in points.iter_mut().filter(|point| point.when.matches(request)) {
            point.left = point.left.saturating_sub(1);
        }
        let reached = points.iter().position(|point| point.left == 0)?;
        Some(points.remove(reached))
    }
}

/// A panicked test thread leaves these lists whole: each change is one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
