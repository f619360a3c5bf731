//! Connections of the proxy: accept, decide, pass on.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http::header::{CONTENT_TYPE, HOST, RETRY_AFTER};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::relay::{Body, Relay, expired_event};
use super::rule::{Answer, Fault, ResetAt};
use super::{Answered, Asked, Outcome, Point, Shared, lock};
use crate::{
    kubeconfig::Endpoint,
    request::{RequestInfo, Verb},
};

/// The API server and the connections to it.
pub(super) struct Upstream {
    scheme: Scheme,
    authority: Authority,
    client: Client<HttpsConnector<HttpConnector>, Incoming>,
}

impl Upstream {
    pub(super) fn new(endpoint: &Endpoint) -> Result<Self> {
        let uri: Uri = endpoint.url.parse()?;
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(endpoint.ca.as_deref().unwrap_or_default().as_bytes()) {
            roots.add(certificate.context("the CA's certificate")?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        Ok(Self {
            scheme: uri.scheme().context("no scheme")?.clone(),
            authority: uri.authority().context("no address")?.clone(),
            client: Client::builder(TokioExecutor::new()).build(connector),
        })
    }

    async fn send(&self, mut request: Request<Incoming>) -> Result<Response<Incoming>> {
        let mut target = request.uri().clone().into_parts();
        target.scheme = Some(self.scheme.clone());
        target.authority = Some(self.authority.clone());
        *request.uri_mut() = Uri::from_parts(target)?;
        request.headers_mut().remove(HOST);
        remove_hop_by_hop(request.headers_mut());
        Ok(self.client.request(request).await?)
    }
}

/// The client gets no answer: its connection is reset.
#[derive(Debug)]
struct Abort;

impl fmt::Display for Abort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the connection is reset on purpose")
    }
}

impl std::error::Error for Abort {}

/// Accepts connections until the proxy is dropped.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>, running: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            () = running.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let (shared, running) = (Arc::clone(&shared), running.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = running.cancelled() => {}
                        () = connection(stream, shared) => {}
                    }
                });
            }
            // Out of file descriptors, for example; connections that end give some back.
            Err(error) => {
                tracing::warn!(%error, "accept");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let mut reachable = shared.reachable.subscribe();
    let service = service_fn(|request| handle(request, &shared));
    let mut connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let broken = tokio::select! {
        biased;
        _ = reachable.wait_for(|reachable| !reachable) => true,
        ended = &mut connection => ended.is_err(),
    };
    if broken {
        // Without lingering, closing is a reset.
        let _ = connection.into_parts().io.into_inner().set_zero_linger();
    }
}

async fn handle(request: Request<Incoming>, shared: &Arc<Shared>) -> Result<Response<Body>, Abort> {
    let info = RequestInfo::parse(request.method(), request.uri().path(), request.uri().query());
    let fault = lock(&shared.rules).decide(&info);
    let watches = info.verb == Verb::Watch;
    let asked = Asked { info, arrived: Timestamp::now(), begun: Instant::now() };
    match fault {
        Some(Fault::Answer(answer)) => {
            shared.record(asked, Outcome::Injected(answer.code.as_u16()));
            Ok(inject(&answer))
        }
        Some(Fault::WatchExpired) if watches => {
            shared.record(asked, Outcome::Injected(StatusCode::OK.as_u16()));
            Ok(json(StatusCode::OK, expired_event()))
        }
        Some(Fault::Hang) => {
            shared.record(asked, Outcome::Dropped);
            std::future::pending().await
        }
        Some(Fault::Reset(ResetAt::Request)) => {
            shared.record(asked, Outcome::Dropped);
            Err(Abort)
        }
        Some(Fault::Delay(delay)) => {
            tokio::time::sleep(delay).await;
            forward(request, asked, None, shared).await
        }
        Some(Fault::Reset(at)) => forward(request, asked, Some(at), shared).await,
        Some(Fault::WatchExpired) | None => forward(request, asked, None, shared).await,
    }
}

async fn forward(
    request: Request<Incoming>,
    asked: Asked,
    reset: Option<ResetAt>,
    shared: &Arc<Shared>,
) -> Result<Response<Body>, Abort> {
    // Before the request is sent: an order to end all watches must not miss this one.
    let orders = (asked.info.verb == Verb::Watch).then(|| shared.watches.subscribe());
    let answer = match shared.upstream.send(request).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::debug!(path = asked.info.path, "{error:#}");
            shared.record(asked, Outcome::Failed);
            return Err(Abort);
        }
    };
    let code = answer.status().as_u16();
    shared.record(asked.clone(), Outcome::Answered(code));

    let mut at_end = None;
    if let Some(point) = shared.reached(&asked.info) {
        let hook = (point.hook)(Answered { request: asked.info, code });
        match point.point {
            Point::BeforeDelivery => hook.await,
            Point::AfterDelivery => at_end = Some(hook),
        }
    }
    let (mut head, body) = answer.into_parts();
    remove_hop_by_hop(&mut head.headers);
    let limit = match reset {
        Some(ResetAt::Answer) => return Err(Abort),
        Some(ResetAt::Body(limit)) => Some(limit),
        Some(ResetAt::Request) | None => None,
    };
    Ok(Response::from_parts(head, Relay::new(body, orders, limit, at_end).into_body()))
}

fn inject(answer: &Answer) -> Response<Body> {
    let mut response = json(answer.code, answer.status().to_string());
    if let Some(delay) = answer.retry_after {
        response.headers_mut().insert(RETRY_AFTER, delay.as_secs().into());
    }
    response
}

fn json(code: StatusCode, body: String) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

/// Headers about one connection say nothing about the next one (RFC 9110, section 7.6.1).
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    for name in ["connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer", "proxy-connection"] {
        headers.remove(name);
    }
}
