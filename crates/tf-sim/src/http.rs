//! Servers of pages, over TLS or not, and a client that asks for one.
//!
//! A server in Python is one thread: what is late there is late from the handshake on, and each question is a line in what the daemon says, as is a
//! handshake that does not end.

use std::{
    convert::Infallible,
    future::Future,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

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
    log,
    options::Pair,
    tls, unkind,
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

/// Who serves, and so how questions show in what the daemon says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// No daemon in Python: nothing shows.
    Native,
    /// Introspection of a daemon in Python, on this port.
    Introspect(u16),
    /// An API of a daemon in Python.
    Rest,
}

impl Server {
    /// The line about an answer.
    fn line(
        self,
        peer: SocketAddr,
        question: &str,
        status: StatusCode,
        length: usize,
        took: Duration,
    ) -> Option<String> {
        let said =
            format!("{} - - \"{question} HTTP/1.1\" {} {length} {:.6}", peer.ip(), status.as_u16(), took.as_secs_f64());
        match self {
            Self::Native => None,
            Self::Introspect(port) => Some(format!("[Introspect:{port}] {said}")),
            Self::Rest => Some(said),
        }
    }

    /// What is said of a connection whose other end was gone before TLS was agreed upon: as long as Python's traceback.
    fn traceback(self, peer: SocketAddr, error: &str) -> Option<String> {
        const FRAMES: [(&str, &str); 6] = [
            ("baseserver.py", "self._handle(*args_tuple)"),
            ("server.py", "return self.wrap_socket_and_handle(client_socket, address)"),
            ("baseserver.py", "with _closing_socket(self.wrap_socket(client_socket, **self.ssl_args)) as ssl_socket:"),
            ("ssl.py", "return self.ssl_context.wrap_socket(sock, server_side=True)"),
            ("ssl.py", "ret = self.sslsocket_class(sock=sock, server_side=server_side)"),
            ("ssl.py", "self.do_handshake()"),
        ];
        if self == Self::Native {
            return None;
        }
        let mut lines = vec!["Traceback (most recent call last):".to_owned()];
        lines.extend(FRAMES.iter().flat_map(|(file, code)| [format!("  File \"{file}\""), format!("    {code}")]));
        lines.push(format!("ssl.SSLEOFError: EOF occurred in violation of protocol: {error}"));
        lines.push(format!("<- {peer} failed with SSLEOFError"));
        Some(lines.join("\n"))
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

/// Answers whoever connects. A certificate that cannot be read costs the connection, not the daemon (docs/upstream/observed.md#certificates).
pub async fn serve<F, A>(listener: TcpListener, pair: Option<Pair>, server: Server, answer: F)
where
    F: Fn(Question) -> A + Clone + Send + Sync + 'static,
    A: Future<Output: Into<Reply> + Send> + Send + 'static,
{
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // Out of files, say.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (pair, answer) = (pair.clone(), answer.clone());
        tokio::spawn(async move {
            match pair {
                None => {
                    tokio::time::sleep(unkind::own().late()).await;
                    converse_as(server, peer, stream, answer).await;
                }
                Some(pair) => {
                    let Ok(config) = tls::server(&pair) else { return };
                    secure(server, &TlsAcceptor::from(config), peer, stream, answer).await;
                }
            }
        });
    }
}

/// Agrees upon TLS with who has connected, and answers.
pub async fn secure<F, A>(server: Server, acceptor: &TlsAcceptor, peer: SocketAddr, stream: TcpStream, answer: F)
where
    F: Fn(Question) -> A + Clone + Send + Sync + 'static,
    A: Future<Output: Into<Reply> + Send> + Send + 'static,
{
    tokio::time::sleep(unkind::own().late()).await;
    match timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => converse_as(server, peer, stream, answer).await,
        Ok(Err(error)) => {
            if let Some(block) = server.traceback(peer, &error.to_string()) {
                log::say(&block);
            }
        }
        Err(_) => {}
    }
}

/// Answers whoever is at the other end of a connection.
pub async fn converse<S, F, A>(stream: S, answer: F)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(Question) -> A + Clone + Send + Sync + 'static,
    A: Future<Output: Into<Reply> + Send> + Send + 'static,
{
    converse_as(Server::Native, SocketAddr::from(([0; 4], 0)), stream, answer).await;
}

async fn converse_as<S, F, A>(server: Server, peer: SocketAddr, stream: S, answer: F)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(Question) -> A + Clone + Send + Sync + 'static,
    A: Future<Output: Into<Reply> + Send> + Send + 'static,
{
    // The first answer was late together with the handshake.
    let is_later = Arc::new(AtomicBool::new(false));
    let service = service_fn(move |request: Request<Incoming>| {
        let (answer, is_later) = (answer.clone(), Arc::clone(&is_later));
        async move {
            let asked = Instant::now();
            let (head, body) = request.into_parts();
            let body = Limited::new(body, LARGEST).collect().await.map(http_body_util::Collected::to_bytes);
            let path = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
            let question = Question {
                method: head.method.to_string(),
                path,
                body: body.unwrap_or_default(),
                headers: head.headers,
            };
            if is_later.swap(true, Ordering::Relaxed) && server != Server::Native {
                tokio::time::sleep(unkind::own().late()).await;
            }
            let line = format!("{} {}", question.method, question.path);
            // To the end, also where nobody listens any more: daemons do not stop half-way either.
            let reply = tokio::spawn(answer(question)).await.map(Into::into);
            let broken = (StatusCode::INTERNAL_SERVER_ERROR, "text/plain", "no answer".to_owned());
            let reply: Reply = reply.unwrap_or_else(|_| broken.into());
            let (status, length) = (reply.answer.0, reply.answer.2.len());
            if let Some(line) = server.line(peer, &line, status, length, asked.elapsed()) {
                log::say(&line);
            }
            Ok::<_, Infallible>(response(reply))
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
pub struct AgentReport {
    /// The status.
    pub status: StatusCode,
    /// The token that Keystone gives, if it gives one.
    pub token: Option<String>,
    /// The body.
    pub body: Bytes,
}

/// How long a client waits (upstream `requests`: the first time counts for the handshake of TLS, too).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a connection, and then for its handshake.
    pub connection: Duration,
    /// For an answer.
    pub answer: Duration,
}

/// A server that was reached and said nothing for so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ReadTimeout: Read timed out. (read timeout={:.1})", .0.as_secs_f64())]
pub struct ReadTimeout(pub Duration);

/// Asks this, the host apart, which is that of the server, and reads what is told.
pub async fn ask(
    host: &str,
    port: u16,
    tls: Option<&Arc<ClientConfig>>,
    request: Request<Full<Bytes>>,
) -> Result<AgentReport> {
    let patience = Patience { connection: PATIENCE, answer: PATIENCE };
    timeout(PATIENCE, ask_within(host, port, tls, request, patience)).await.context("no answer")?
}

/// The same with as much patience as this client has.
///
/// # Errors
/// [`ReadTimeout`] where the server was reached.
pub async fn ask_within(
    host: &str,
    port: u16,
    tls: Option<&Arc<ClientConfig>>,
    mut request: Request<Full<Bytes>>,
    patience: Patience,
) -> Result<AgentReport> {
    request.headers_mut().insert(hyper::header::HOST, HeaderValue::from_str(host)?);
    let stream = open(host, port, tls, patience.connection).await?;
    let asked = async {
        let (response, _connection) = exchange(stream, request).await?;
        let token = response.headers().get(TOKEN).and_then(|token| token.to_str().ok()).map(str::to_owned);
        let status = response.status();
        let body = Limited::new(response.into_body(), LARGEST).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("an answer that does not end: {error}"))?.to_bytes();
        Ok(AgentReport { status, token, body })
    };
    timeout(patience.answer, asked).await.map_err(|_| ReadTimeout(patience.answer))?
}

/// Asks for a page without TLS, with this header `Authorization`, and gives back its status. `server`: host and port.
pub async fn get_as(server: &str, authorization: &str, path: &str) -> Result<StatusCode> {
    let request = Request::get(path).header("host", server).header("authorization", authorization);
    let request = request.body(Full::default())?;
    let asked = async { send(TcpStream::connect(server).await?, request).await };
    timeout(PATIENCE, asked).await.context("no answer")?
}

async fn open(
    host: &str,
    port: u16,
    tls: Option<&Arc<ClientConfig>>,
    patience: Duration,
) -> Result<Box<dyn tls::Stream>> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let stream = timeout(patience, TcpStream::connect((bare, port))).await.context("ConnectTimeout")??;
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    let name = ServerName::try_from(bare.to_owned())?;
    let secured = timeout(patience, TlsConnector::from(Arc::clone(tls)).connect(name, stream)).await;
    Ok(Box::new(secured.map_err(|_| ReadTimeout(patience))??))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_of_a_daemon_in_python_is_a_line_and_a_broken_handshake_fifteen() {
        let peer = SocketAddr::from(([10, 0, 0, 1], 50000));
        let line = |server: Server| server.line(peer, "GET /", StatusCode::OK, 36_499, Duration::from_millis(2));
        assert_eq!(line(Server::Rest).unwrap(), "10.0.0.1 - - \"GET / HTTP/1.1\" 200 36499 0.002000");
        let introspection = line(Server::Introspect(8084)).unwrap();
        assert!(introspection.starts_with("[Introspect:8084] 10.0.0.1 - - \"GET / HTTP"), "{introspection}");
        assert_eq!(Server::Rest.traceback(peer, "eof").unwrap().lines().count(), 15);
        assert_eq!((line(Server::Native), Server::Native.traceback(peer, "eof")), (None, None));
    }

    /// A server that takes connections and says nothing.
    #[tokio::test]
    async fn a_server_that_does_not_answer_is_told_apart_from_one_that_is_not_there() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let patience = Patience { connection: Duration::from_millis(50), answer: Duration::from_millis(100) };
        let ask = async |tls: Option<Arc<ClientConfig>>| {
            let request = Request::get("/").body(Full::default()).unwrap();
            ask_within("127.0.0.1", port, tls.as_ref(), request, patience).await.err().unwrap()
        };
        let silent = ask(None).await;
        assert_eq!(silent.downcast_ref(), Some(&ReadTimeout(patience.answer)), "{silent:#}");
        let silent = ask(Some(tls::unchecked().unwrap())).await;
        assert_eq!(silent.downcast_ref(), Some(&ReadTimeout(patience.connection)), "{silent:#}");
        assert_eq!(silent.to_string(), "ReadTimeout: Read timed out. (read timeout=0.1)");
        drop(listener);
        let refused = ask(None).await;
        assert!(!refused.is::<ReadTimeout>(), "{refused:#}");
    }
}
