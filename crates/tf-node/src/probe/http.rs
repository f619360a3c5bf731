//! Asks a daemon by HTTP.

use anyhow::{Context as _, Result, bail};
use http::{Request, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;

use super::{Target, connect};
use crate::paths::Paths;

/// Of an answer's body.
const LARGEST_BODY: usize = 1024 * 1024;

/// `GET`s a path. The answer has a status of 200 to 399, and a body with the text if there is one to look for.
pub(super) async fn get(target: &Target, path: &str, contains: Option<&str>, paths: &Paths) -> Result<String> {
    let stream = connect(target, paths).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let exchange = async move {
        let request = Request::get(path)
            .header(header::HOST, std::net::SocketAddr::new(target.host, target.port).to_string())
            .header(header::CONNECTION, "close")
            .body(Empty::<Bytes>::new())?;
        let response = sender.send_request(request).await.with_context(|| format!("GET {path}"))?;
        let status = response.status();
        if !status.is_success() && !status.is_redirection() {
            bail!("GET {path}: status {}", status.as_u16());
        }
        if let Some(text) = contains {
            let body = Limited::new(response.into_body(), LARGEST_BODY).collect().await;
            let body = body.map_err(|error| anyhow::anyhow!("GET {path}: {error}"))?.to_bytes();
            if !String::from_utf8_lossy(&body).contains(text) {
                bail!("GET {path}: the answer does not contain {text:?}");
            }
        }
        Ok(format!("GET {path}: status {}", status.as_u16()))
    };
    // The exchange ends the connection by dropping its half.
    tokio::pin!(exchange);
    tokio::select! {
        result = &mut exchange => result,
        _ = connection => exchange.await,
    }
}
