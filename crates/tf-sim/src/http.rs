//! Servers of pages, over TLS or not, and a client that asks for one.

use std::{convert::Infallible, future::Future, net::IpAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Method, Request, Response, StatusCode, body::Bytes, client, server, service::service_fn};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::{
    exit::{Exit, exception},
    options::Pair,
    tls,
};

/// For a handshake, and for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Of a body, in bytes.
const LARGEST: usize = 1024 * 1024;

/// What is asked: method, path with query, body, as whom.
pub struct Question {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The body.
    pub body: Bytes,
    /// The header `Authorization`, if there is one.
    pub authorization: Option<String>,
}

/// What is answered: status, type, text.
pub type Answer = (StatusCode, &'static str, String);

/// Opens a port.
///
/// # Errors
/// Where the daemon would end: the address is not one of the machine, or the port is taken.
pub async fn listen(address: (IpAddr, u16)) -> Result<TcpListener, Exit> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| exception(format!("OSError: bind {}:{}: {error}", address.0, address.1)))
}

/// Answers whoever connects. A certificate that cannot be read costs the connection, not the daemon (config-daemons-observed).
pub async fn serve<F, A>(listener: TcpListener, pair: Option<Pair>, answer: F)
where
    F: Fn(Question) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of files, say.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (pair, answer) = (pair.clone(), answer.clone());
        tokio::spawn(async move {
            match pair {
                None => converse(stream, answer).await,
                Some(pair) => {
                    let Ok(config) = tls::server(&pair) else { return };
                    let accepted = timeout(PATIENCE, TlsAcceptor::from(config).accept(stream)).await;
                    if let Ok(Ok(stream)) = accepted {
                        converse(stream, answer).await;
                    }
                }
            }
        });
    }
}

/// Answers whoever is at the other end of a connection.
pub async fn converse<S, F, A>(stream: S, answer: F)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(Question) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let answer = answer.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = Limited::new(body, LARGEST).collect().await.map(http_body_util::Collected::to_bytes);
            let path = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
            let authorization = head.headers.get(hyper::header::AUTHORIZATION).and_then(|value| value.to_str().ok());
            let question = Question {
                method: head.method.to_string(),
                path,
                body: body.unwrap_or_default(),
                authorization: authorization.map(str::to_owned),
            };
            // To the end, also where nobody listens any more: daemons do not stop half-way either.
            let answered = tokio::spawn(answer(question)).await;
            let (status, kind, text) =
                answered.unwrap_or((StatusCode::INTERNAL_SERVER_ERROR, "text/plain", "no answer".to_owned()));
            let mut response = Response::new(Full::new(Bytes::from(text)));
            *response.status_mut() = status;
            response.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static(kind));
            Ok::<_, Infallible>(response)
        }
    });
    let _ = server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// What is asked of a Kubernetes API.
pub struct Call<'a> {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub path: &'a str,
    /// The token that is shown; without one TLS is not spoken.
    pub token: Option<&'a str>,
    /// The body, JSON or nothing.
    pub body: String,
}

/// Asks a Kubernetes API, whoever it is, and gives back the status.
pub async fn call(host: &str, port: u16, call: &Call<'_>) -> Result<StatusCode> {
    let asked = async {
        let mut request = Request::builder().method(call.method.clone()).uri(call.path).header("host", host);
        if !call.body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        if let Some(token) = call.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from(call.body.clone())))?;
        let stream = TcpStream::connect((host, port)).await?;
        if call.token.is_none() {
            return send(stream, request).await;
        }
        let name = ServerName::try_from(host.to_owned())?;
        send(TlsConnector::from(tls::unchecked()?).connect(name, stream).await?, request).await
    };
    timeout(PATIENCE, asked).await.context("no answer")?
}

/// Asks for a page and gives back its status.
pub async fn get(host: &str, port: u16, tls: Option<&Arc<ClientConfig>>, path: &str) -> Result<StatusCode> {
    let asked = async {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((bare, port)).await?;
        match tls {
            None => ask(stream, host, path).await,
            Some(tls) => {
                let name = ServerName::try_from(bare.to_owned())?;
                ask(TlsConnector::from(Arc::clone(tls)).connect(name, stream).await?, host, path).await
            }
        }
    };
    timeout(PATIENCE, asked).await.context("no answer")?
}

/// Asks for a page without TLS, with this header `Authorization`, and gives back its status. `server`: host and port.
pub async fn get_as(server: &str, authorization: &str, path: &str) -> Result<StatusCode> {
    let request = Request::get(path).header("host", server).header("authorization", authorization);
    let request = request.body(Full::default())?;
    let asked = async { send(TcpStream::connect(server).await?, request).await };
    timeout(PATIENCE, asked).await.context("no answer")?
}

async fn ask<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    host: &str,
    path: &str,
) -> Result<StatusCode> {
    send(stream, Request::get(path).header("host", host).body(Full::default())?).await
}

async fn send<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<StatusCode> {
    let (mut sender, connection) = client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let task = tokio::spawn(async move { drop(connection.await) });
    let response = sender.send_request(request).await;
    task.abort();
    let status = response?.status();
    ensure!(status.as_u16() > 0, "no status");
    Ok(status)
}
