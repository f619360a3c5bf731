//! One connection to a node agent: JSON over mutual TLS 1.3.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use http::{Method, Request, StatusCode, header};
use http_body_util::Full;
use hyper::body::Bytes;
use rustls::ClientConfig;
use serde::{Deserialize, de::DeserializeOwned};

use crate::http_client::{self, ExchangeError, Route};

/// No answer of an agent comes near it.
const LARGEST_ANSWER: usize = 256 * 1024;

/// A call that failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// There is no answer.
    #[error(transparent)]
    Unanswered(#[from] ExchangeError),
    /// The agent says no.
    #[error("{1} ({0})")]
    Refused(StatusCode, String),
    /// The agent speaks another language.
    #[error("the answer cannot be read: {0}")]
    Malformed(serde_json::Error),
    /// Nothing is known of the pod's agent.
    #[error("its agent has not answered yet")]
    Unknown,
}

/// A connection that is open.
pub struct Connection(http_client::Connection);

impl Connection {
    /// Connects. The agent's certificate has to be good for the address.
    pub async fn open(address: SocketAddr, tls: Arc<ClientConfig>, patience: Duration) -> Result<Self, CallError> {
        let way = Route { tls: Some(tls), proxy: None };
        let open = http_client::Connection::open(&address.ip().to_string(), address.port(), &way, patience).await?;
        Ok(Self(open))
    }

    /// Asks, and waits for the answer for so long.
    pub async fn call<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        patience: Duration,
    ) -> Result<T, CallError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "tf-node")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| ExchangeError::Unreachable(error.to_string()))?;
        let answer = self.0.send(request, LARGEST_ANSWER, patience).await?;
        if answer.status.is_success() {
            serde_json::from_slice(&answer.body).map_err(CallError::Malformed)
        } else {
            Err(CallError::Refused(answer.status, refusal(&answer.body)))
        }
    }
}

fn refusal(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
    }
    serde_json::from_slice::<Refusal>(body).map_or_else(|_| "no reason was given".into(), |refusal| refusal.error)
}
