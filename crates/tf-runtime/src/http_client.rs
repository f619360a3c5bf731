//! HTTP/1.1 with somebody who is no API server: a connection that stays, over TLS or not, and answers of a bounded size in a bounded time.

use std::{fmt::Display, sync::Arc, time::Duration};

use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, Full, Limited};
use hyper::{
    body::Bytes,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::TlsConnector;

/// There is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// No connection: nothing listens there, or nothing is there.
    #[error("{0}")]
    NoConnection(String),
    /// A connection without TLS, or without HTTP.
    #[error("{0}")]
    Unreachable(String),
    /// No answer in time.
    #[error("no answer within {} s", .0.as_secs_f32())]
    Slow(Duration),
}

/// An answer.
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its header.
    pub headers: HeaderMap,
    /// Its body, whole.
    pub body: Bytes,
}

/// A way to others.
#[derive(Clone, Default)]
pub struct Route {
    /// Whom to trust, and what to show; none for no TLS.
    pub tls: Option<Arc<ClientConfig>>,
    /// A proxy of HTTP, as `host:port`, which connects to the others.
    pub proxy: Option<String>,
}

/// A connection that is open.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    task: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Connection {
    /// Connects within this time. The certificate of the other has to be good for the host, a name or an address without brackets.
    ///
    /// # Errors
    /// When nobody is there, or somebody else.
    pub async fn open(host: &str, port: u16, way: &Route, patience: Duration) -> Result<Self, ExchangeError> {
        let opening = async {
            let stream: Box<dyn Stream> = match &way.proxy {
                None => Box::new(TcpStream::connect((host, port)).await.map_err(no_connection)?),
                Some(proxy) => tunnel(proxy, host, port).await?,
            };
            match &way.tls {
                None => Self::over(stream).await,
                Some(tls) => {
                    let name = ServerName::try_from(host.to_owned()).map_err(unreachable)?;
                    let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await;
                    Self::over(stream.map_err(unreachable)?).await
                }
            }
        };
        timeout(patience, opening).await.map_err(|_| ExchangeError::Slow(patience))?
    }

    async fn over(stream: impl Stream + 'static) -> Result<Self, ExchangeError> {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(unreachable)?;
        let task = tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Self { sender, task })
    }

    /// Asks, and waits for the answer for so long. One that is larger than `limit` bytes is none.
    ///
    /// # Errors
    /// When there is no answer; the connection is of no use then.
    pub async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
        limit: usize,
        patience: Duration,
    ) -> Result<Answer, ExchangeError> {
        let exchange = async {
            self.sender.ready().await.map_err(unreachable)?;
            let answer = self.sender.send_request(request).await.map_err(unreachable)?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, limit).collect().await.map_err(unreachable)?.to_bytes();
            Ok(Answer { status: head.status, headers: head.headers, body })
        };
        timeout(patience, exchange).await.map_err(|_| ExchangeError::Slow(patience))?
    }
}

/// What a proxy of HTTP connects to (RFC 9110, 9.3.6).
async fn tunnel(proxy: &str, host: &str, port: u16) -> Result<Box<dyn Stream>, ExchangeError> {
    let stream = TcpStream::connect(proxy).await.map_err(unreachable)?;
    let (mut sender, connection) =
        http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await.map_err(unreachable)?;
    tokio::spawn(connection.with_upgrades());
    let authority = tf_config_files::url::authority(host, port);
    let request = Request::connect(&authority).header(header::HOST, &authority).body(Empty::new());
    let answer = sender.send_request(request.map_err(unreachable)?).await.map_err(unreachable)?;
    if !answer.status().is_success() {
        return Err(no_connection(format!("the proxy does not connect: {}", answer.status())));
    }
    let upgraded = hyper::upgrade::on(answer).await.map_err(unreachable)?;
    Ok(Box::new(TokioIo::new(upgraded)))
}

fn no_connection(error: impl Display) -> ExchangeError {
    ExchangeError::NoConnection(error.to_string())
}

fn unreachable(error: impl Display) -> ExchangeError {
    ExchangeError::Unreachable(error.to_string())
}
