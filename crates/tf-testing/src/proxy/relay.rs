//! The body of an answer on its way to the client: passed on frame by frame, unless it is to break or end.

use std::io;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::broadcast;

use super::WatchEnd;
use super::rule::Answer;

/// A body the proxy sends. An error in it resets the connection.
pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Time for what was sent before a reset to leave this process; a reset discards what is still queued.
const FLUSH: Duration = Duration::from_millis(50);

/// Runs a hook when it is dropped. The end of a body is no place for that: a server that has sent as many bytes as it
/// announced does not ask for the end any more.
struct AtEnd(Option<BoxFuture<'static, ()>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        if let (Some(hook), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(hook);
        }
    }
}

pub(super) struct Relay {
    upstream: Incoming,
    /// Orders to watches; `None` for other answers.
    orders: Option<broadcast::Receiver<WatchEnd>>,
    /// Bytes left before the connection is reset.
    limit: Option<u64>,
    /// Begins when the body is no longer needed.
    _at_end: AtEnd,
    /// True behind a complete event of a watch: only there an event can be put in.
    between_events: bool,
    /// An order that waits for the end of an event.
    order: Option<WatchEnd>,
    done: bool,
}

impl Relay {
    pub(super) fn new(
        upstream: Incoming,
        orders: Option<broadcast::Receiver<WatchEnd>>,
        limit: Option<u64>,
        at_end: Option<BoxFuture<'static, ()>>,
    ) -> Self {
        Self { upstream, orders, limit, _at_end: AtEnd(at_end), between_events: true, order: None, done: false }
    }

    pub(super) fn into_body(self) -> Body {
        // When the client goes away the body is dropped and with it the connection to the API server.
        let frames = stream::unfold(self, async |mut relay| relay.next().await.map(|frame| (frame, relay)));
        StreamBody::new(frames).boxed_unsync()
    }

    async fn next(&mut self) -> Option<io::Result<Frame<Bytes>>> {
        if self.done {
            return None;
        }
        if self.limit == Some(0) {
            tokio::time::sleep(FLUSH).await;
            return Some(Err(self.broken(io::Error::other("reset on purpose"))));
        }
        loop {
            if self.between_events
                && let Some(order) = self.order
            {
                self.done = true;
                return match order {
                    WatchEnd::Closed => None,
                    WatchEnd::Expired => Some(Ok(Frame::data(expired_event().into()))),
                };
            }
            let frame = tokio::select! {
                order = next_order(&mut self.orders), if self.order.is_none() => {
                    self.order = Some(order);
                    continue;
                }
                frame = self.upstream.frame() => frame,
            };
            return match frame {
                Some(Ok(frame)) => Some(Ok(self.pass(frame))),
                Some(Err(error)) => Some(Err(self.broken(io::Error::other(error)))),
                None => {
                    self.done = true;
                    None
                }
            };
        }
    }

    fn pass(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        frame.map_data(|mut data| {
            if let Some(limit) = &mut self.limit {
                data.truncate(usize::try_from(*limit).unwrap_or(usize::MAX));
                *limit -= data.len() as u64;
            }
            if let Some(last) = data.last() {
                self.between_events = *last == b'\n';
            }
            data
        })
    }

    fn broken(&mut self, error: io::Error) -> io::Error {
        self.done = true;
        error
    }
}

/// The next order to this watch; never for answers that are not watches.
async fn next_order(orders: &mut Option<broadcast::Receiver<WatchEnd>>) -> WatchEnd {
    match orders {
        Some(orders) => loop {
            match orders.recv().await {
                Ok(order) => return order,
                // Older orders were overwritten; the oldest that is left is as good.
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                // The proxy is gone, and this connection with it in a moment.
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        },
        None => std::future::pending().await,
    }
}

/// The event with which the API server ends a watch whose resource version is too old.
pub(super) fn expired_event() -> String {
    format!("{}\n", json!({ "type": "ERROR", "object": Answer::expired().status() }))
}
