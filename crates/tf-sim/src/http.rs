//! Servers of pages, over TLS or not, and a client that asks for one.

use std::{convert::Infallible, future::Future, net::IpAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    client,
    header::{CONTENT_TYPE, HeaderValue},
    server,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
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

/// The header with a token of Keystone's, as it gives one.
const TOKEN: &str = "x-subject-token";

/// What is asked: method, path with query, body, as whom.
pub struct Question {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The body.
    pub body: Bytes,
    /// The headers.
    pub headers: HeaderMap,
}

impl Question {
    /// A header, if there is one that is a text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// What is answered: status, type, text.
pub type Answer = (StatusCode, &'static str, String);

/// An answer, and the token that Keystone gives with it, if it gives one.
pub struct Reply {
    /// The answer.
    pub answer: Answer,
    /// The token.
    pub token: Option<String>,
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self { answer, token: None }
    }
}

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
    A: Future<Output: Into<Reply> + Send> + Send + 'static,
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
    A: Future<Output: Into<Reply> + Send> + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = Limited::new(body, LARGEST).collect().await.map(http_body_util::Collected::to_bytes);
            let path = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
            let question = Question {
                method: head.method.to_string(),
                path,
                body: body.unwrap_or_default(),
                headers: head.headers,
            };
            // To the end, also where nobody listens any more: daemons do not stop half-way either.
            let reply = tokio::spawn(answer(question)).await.map(Into::into);
            let broken = (StatusCode::INTERNAL_SERVER_ERROR, "text/plain", "no answer".to_owned());
            Ok::<_, Infallible>(response(reply.unwrap_or_else(|_| broken.into())))
        }
    });
    let _ = server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

fn response(reply: Reply) -> Response<Full<Bytes>> {
    let (status, kind, text) = reply.answer;
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Some(token) = reply.token.and_then(|token| HeaderValue::from_str(&token).ok()) {
        response.headers_mut().insert(TOKEN, token);
    }
    response
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

/// What is told with a status.
pub struct Told {
    /// The status.
    pub status: StatusCode,
    /// The token that Keystone gives, if it gives one.
    pub token: Option<String>,
    /// The body.
    pub body: Bytes,
}

/// Asks this, the host apart, which is that of the server, and reads what is told.
pub async fn ask(
    host: &str,
    port: u16,
    tls: Option<&Arc<ClientConfig>>,
    mut request: Request<Full<Bytes>>,
) -> Result<Told> {
    request.headers_mut().insert(hyper::header::HOST, HeaderValue::from_str(host)?);
    let asked = async {
        let (response, _connection) = exchange(open(host, port, tls).await?, request).await?;
        let token = response.headers().get(TOKEN).and_then(|token| token.to_str().ok()).map(str::to_owned);
        let status = response.status();
        let body = Limited::new(response.into_body(), LARGEST).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("an answer that does not end: {error}"))?.to_bytes();
        Ok(Told { status, token, body })
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

async fn open(host: &str, port: u16, tls: Option<&Arc<ClientConfig>>) -> Result<Box<dyn tls::Stream>> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((bare, port)).await?;
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    let name = ServerName::try_from(bare.to_owned())?;
    Ok(Box::new(TlsConnector::from(Arc::clone(tls)).connect(name, stream).await?))
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<StatusCode> {
    let (response, _connection) = exchange(stream, request).await?;
    Ok(response.status())
}

/// A connection that ends with this.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<(Response<Incoming>, Connection)> {
    let (mut sender, connection) = client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = Connection(tokio::spawn(async move { drop(connection.await) }));
    Ok((sender.send_request(request).await?, connection))
}
