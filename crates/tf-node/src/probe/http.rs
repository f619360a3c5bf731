//! Asks a daemon by HTTP.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result, bail};
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::{runtime::Handle, task::AbortHandle, time::sleep};

use super::{Target, connect};
use crate::paths::Paths;

/// Of an answer's body.
const LARGEST_BODY: usize = 1024 * 1024;

/// `GET`s a path. The answer has a status of 200 to 399, and a body with the text if there is one to look for.
pub(super) async fn probe(target: &Target, path: &str, contains: Option<&str>, paths: &Paths) -> Result<String> {
    let (status, body) = Connection::open(target, paths).await?.get(path, None).await?;
    // A pod has several daemons: which one it is shows by the port.
    let scheme = if target.tls { "https" } else { "http" };
    let what = format!("GET {scheme}://{}{path}", SocketAddr::new(target.host, target.port));
    if !status.is_success() && !status.is_redirection() {
        bail!("{what}: status {}", status.as_u16());
    }
    if let Some(text) = contains
        && !String::from_utf8_lossy(&body).contains(text)
    {
        bail!("{what}: the answer does not contain {text:?}");
    }
    Ok(format!("{what}: status {}", status.as_u16()))
}

/// For the end of a connection that is in order: TLS says so to the daemon.
const CLOSING: Duration = Duration::from_secs(2);

/// A connection for several questions: a TLS handshake is dearer than any of them. It ends with this.
pub struct Connection {
    host: String,
    sender: http1::SendRequest<Empty<Bytes>>,
    task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // It ends by itself when there is nothing more to send.
        let task = self.task.clone();
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move {
                sleep(CLOSING).await;
                task.abort();
            })),
            Err(_) => task.abort(),
        }
    }
}

impl Connection {
    /// Connects to a daemon.
    ///
    /// # Errors
    /// When it does not take the connection.
    pub async fn open(target: &Target, paths: &Paths) -> Result<Self> {
        let stream = connect(target, paths).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let task = tokio::spawn(async move { drop(connection.await) }).abort_handle();
        Ok(Self { host: SocketAddr::new(target.host, target.port).to_string(), sender, task })
    }

    /// `GET`s a path, with this `Authorization`. Status and body of the answer.
    ///
    /// # Errors
    /// When there is none in the form of HTTP, or it is longer than 1 MiB.
    pub async fn get(&mut self, path: &str, authorization: Option<&HeaderValue>) -> Result<(StatusCode, Bytes)> {
        let mut request = Request::get(path).header(header::HOST, &self.host);
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = request.body(Empty::<Bytes>::new())?;
        let response = self.sender.send_request(request).await.with_context(|| format!("GET {path}"))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LARGEST_BODY).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("GET {path}: {error}"))?.to_bytes();
        Ok((status, body))
    }
}
