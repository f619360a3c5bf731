//! The API client: every request that changes something needs the leader's permit, and no request hangs for ever.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{Method, Request};
use kube::{Client, Config, client::Body, client::ClientBuilder};
use tokio::time::{Instant, timeout_at};
use tower::{BoxError, Layer, Service};

use crate::{leader::Permit, metrics::Metrics};

/// How long a request may take, retries by the client included. Watches are exempt: they live as long as they live.
const REQUEST_LIMIT: Duration = Duration::from_secs(15);

/// A request was not sent, or given up, because this process may not write any more.
#[derive(Debug, thiserror::Error)]
#[error("this process does not hold the leader lease")]
pub struct NotLeader;

/// A request took too long.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not answer within {} s", REQUEST_LIMIT.as_secs())]
pub struct TooSlow;

/// A client for the election itself and for reads: it needs no permit.
///
/// # Errors
/// When the configuration of the client cannot be used.
pub fn plain(config: Config, metrics: Arc<Metrics>) -> kube::Result<Client> {
    guarded(config, Permit::forever(), metrics)
}

/// A client whose changing requests need the permit.
///
/// # Errors
/// When the configuration of the client cannot be used.
pub fn guarded(config: Config, permit: Permit, metrics: Arc<Metrics>) -> kube::Result<Client> {
    Ok(ClientBuilder::try_from(config)?.with_layer(&GuardLayer { permit, metrics }).build())
}

#[derive(Clone)]
struct GuardLayer {
    permit: Permit,
    metrics: Arc<Metrics>,
}

impl<S> Layer<S> for GuardLayer {
    type Service = Guard<S>;

    fn layer(&self, inner: S) -> Guard<S> {
        Guard { inner, permit: self.permit.clone(), metrics: self.metrics.clone() }
    }
}

#[derive(Clone)]
struct Guard<S> {
    inner: S,
    permit: Permit,
    metrics: Arc<Metrics>,
}

impl<S, R> Service<Request<Body>> for Guard<S>
where
    S: Service<Request<Body>, Response = R, Error = BoxError>,
    S::Future: Send + 'static,
    R: Send + 'static,
{
    type Response = R;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<R, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let reads = request.method() == Method::GET;
        let watches = request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"));
        let verb = if watches { "watch" } else { verb(request.method()) };
        self.metrics.requests.with_label_values(&[verb]).inc();
        if watches {
            return Box::pin(self.inner.call(request));
        }
        let limit = Instant::now() + REQUEST_LIMIT;
        if reads {
            let answer = self.inner.call(request);
            return Box::pin(async move { timeout_at(limit, answer).await.map_err(|_| TooSlow)? });
        }
        let Some(mut until) = self.permit.until() else { return Box::pin(async { Err(NotLeader.into()) }) };
        let permit = self.permit.clone();
        let mut answer = Box::pin(self.inner.call(request));
        Box::pin(async move {
            loop {
                match timeout_at(limit.min(until), &mut answer).await {
                    Ok(answer) => return answer,
                    Err(_) if limit <= until => return Err(TooSlow.into()),
                    // The permit that the request began with is over. A leader has renewed it meanwhile.
                    Err(_) => until = permit.until().ok_or(NotLeader)?,
                }
            }
        })
    }
}

fn verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}

/// Whether an error means that the request was not sent for want of the permit.
pub fn is_not_leader(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Service(source) if source.is::<NotLeader>())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn guard(
        permit: Permit,
        delay: Duration,
        sent: &Arc<AtomicUsize>,
    ) -> Guard<impl Service<Request<Body>, Response = (), Error = BoxError, Future: Send + 'static> + use<>> {
        let sent = sent.clone();
        let inner = tower::service_fn(move |_: Request<Body>| {
            sent.fetch_add(1, Ordering::SeqCst);
            async move {
                tokio::time::sleep(delay).await;
                Ok::<_, BoxError>(())
            }
        });
        Guard { inner, permit, metrics: Arc::new(Metrics::new("test").unwrap()) }
    }

    fn request(method: Method) -> Request<Body> {
        Request::builder().method(method).uri("/api/v1/namespaces/tf/pods?limit=1").body(Body::empty()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn without_the_permit_nothing_that_changes_is_sent_and_reads_go_on() {
        let sent = Arc::new(AtomicUsize::new(0));
        let mut guard = guard(Permit::ended(), Duration::ZERO, &sent);
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert!(guard.call(request(method)).await.unwrap_err().is::<NotLeader>());
        }
        assert_eq!(sent.load(Ordering::SeqCst), 0);
        guard.call(request(Method::GET)).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_under_way_is_given_up_at_the_deadline() {
        let sent = Arc::new(AtomicUsize::new(0));
        let mut guard = guard(Permit::ending_in(Duration::from_secs(3)), Duration::from_secs(10), &sent);
        let begun = Instant::now();
        assert!(guard.call(request(Method::PATCH)).await.unwrap_err().is::<NotLeader>());
        assert_eq!(begun.elapsed(), Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_outlives_the_permit_it_began_with_when_the_lease_is_renewed_meanwhile() {
        let sent = Arc::new(AtomicUsize::new(0));
        let (renewal, permit) = Permit::renewable(Duration::from_secs(3));
        let slow = Duration::from_secs(10);
        let mut answered = guard(permit.clone(), slow, &sent);
        let mut hung = guard(permit, Duration::from_secs(3600), &sent);
        let renew = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            renewal.send_replace(Some(Instant::now() + Duration::from_secs(20)));
        };
        let (answer, silence, ()) =
            tokio::join!(answered.call(request(Method::PATCH)), hung.call(request(Method::PATCH)), renew);
        answer.unwrap();
        assert!(silence.unwrap_err().is::<TooSlow>(), "a leader that was not answered has not lost the lease");
    }

    #[tokio::test(start_paused = true)]
    async fn a_hung_request_ends() {
        let sent = Arc::new(AtomicUsize::new(0));
        let mut guard = guard(Permit::forever(), Duration::from_secs(3600), &sent);
        for method in [Method::GET, Method::PATCH] {
            assert!(guard.call(request(method)).await.unwrap_err().is::<TooSlow>());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_may_last() {
        let sent = Arc::new(AtomicUsize::new(0));
        let mut guard = guard(Permit::ended(), Duration::from_secs(3600), &sent);
        let watch = Request::builder().uri("/api/v1/pods?&watch=true&timeoutSeconds=1800").body(Body::empty()).unwrap();
        guard.call(watch).await.unwrap();
    }
}
