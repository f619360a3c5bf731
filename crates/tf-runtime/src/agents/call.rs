//! One connection to a node agent: HTTP/1.1 over mutual TLS 1.3.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    body::Bytes,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName};
use serde::{Deserialize, de::DeserializeOwned};
use tokio::{net::TcpStream, task::JoinHandle, time::timeout};
use tokio_rustls::TlsConnector;

/// No answer of an agent comes near it.
const LARGEST_ANSWER: usize = 256 * 1024;

/// A call that failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No connection, no TLS, or no HTTP.
    #[error("{0}")]
    Unreachable(String),
    /// No answer in time.
    #[error("no answer within {} s", .0.as_secs_f32())]
    Slow(Duration),
    /// The agent says no.
    #[error("{1} ({0})")]
    Refused(StatusCode, String),
    /// The agent speaks another language.
    #[error("the answer cannot be read: {0}")]
    Malformed(serde_json::Error),
    /// Nothing is known of the pod's agent.
    #[error("its agent was never heard of")]
    Unknown,
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

impl Connection {
    /// Connects. The agent's certificate has to be good for the address.
    pub async fn open(address: SocketAddr, tls: Arc<ClientConfig>) -> Result<Self, CallError> {
        let unreachable = |error: &dyn std::fmt::Display| CallError::Unreachable(error.to_string());
        let stream = TcpStream::connect(address).await.map_err(|error| unreachable(&error))?;
        let name = ServerName::IpAddress(address.ip().into());
        let stream = TlsConnector::from(tls).connect(name, stream).await.map_err(|error| unreachable(&error))?;
        let handshake = http1::handshake::<_, Full<Bytes>>(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| unreachable(&error))?;
        let task = tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Self { sender, task })
    }

    /// Asks, and waits for the answer for so long.
    pub async fn call<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        patience: Duration,
    ) -> Result<T, CallError> {
        let exchange = async {
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header(header::HOST, "tf-node")
                .header(header::CONTENT_TYPE, "application/json")
                .body(Full::new(Bytes::from(body)))
                .map_err(|error| CallError::Unreachable(error.to_string()))?;
            let gone = |error: &dyn std::fmt::Display| CallError::Unreachable(error.to_string());
            self.sender.ready().await.map_err(|error| gone(&error))?;
            let answer = self.sender.send_request(request).await.map_err(|error| gone(&error))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), LARGEST_ANSWER).collect().await;
            let body = body.map_err(|error| gone(&error))?.to_bytes();
            if status.is_success() {
                serde_json::from_slice(&body).map_err(CallError::Malformed)
            } else {
                Err(CallError::Refused(status, refusal(&body)))
            }
        };
        timeout(patience, exchange).await.map_err(|_| CallError::Slow(patience))?
    }
}

fn refusal(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
    }
    serde_json::from_slice::<Refusal>(body).map_or_else(|_| "no reason was given".into(), |refusal| refusal.error)
}
