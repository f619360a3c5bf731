//! One member of a config API, asked over a few connections.

use std::sync::Mutex;
use std::time::Duration;

use http::{Request as HttpRequest, header};
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::Value;
use tf_config_api::{
    call::Request,
    decide::{Scope, Seen, Wanted},
};
use tf_config_files::url::authority;
use tokio::time::Instant;

use crate::{
    http_client::{Answer, Connection, ExchangeError, Route},
    keystone::token::TokenError,
    leader::Permit,
    lock::lock,
};

/// For a connection.
const CONNECT: Duration = Duration::from_secs(3);
/// For an answer. A member of the API whose ZooKeeper is away takes longer for a list (docs/upstream/observed.md#stores).
const PATIENCE: Duration = Duration::from_secs(10);
/// Of an answer, in bytes: what is listed of an object is less than a kilobyte, and there are 5,000 vRouters at most.
const LARGEST_ANSWER: usize = 8 * 1024 * 1024;
/// So much of what an answer says is repeated, in characters.
const REPEATED: usize = 200;

/// Why a member of the API is of no use at the moment.
#[derive(Debug, thiserror::Error)]
pub enum Unable {
    /// It does not answer, or says that it cannot.
    #[error("{0}")]
    Silent(String),
    /// It does not let the operator in.
    #[error("{0}")]
    Unauthorised(String),
    /// Another process leads, which goes on.
    #[error("another process leads")]
    NotLeader,
}

impl From<TokenError> for Unable {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Silent(why) => Self::Silent(why),
            TokenError::Refused(why) => Self::Unauthorised(why),
        }
    }
}

/// A member of the API.
pub struct Client<'a> {
    /// Its address or name.
    pub host: &'a str,
    /// Its port.
    pub port: u16,
    /// How it is reached.
    pub way: Route,
    /// What Keystone gave the operator for it.
    pub token: Option<String>,
    /// Whether this process leads.
    pub permit: &'a Permit,
    /// Connections that are open and not used.
    pub idle: Mutex<Vec<Connection>>,
}

impl Client<'_> {
    /// Where it is, for people.
    pub fn url(&self) -> String {
        let scheme = if self.way.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", authority(self.host, self.port))
    }

    /// Everything of a scope. `seen`: what is in earlier ones.
    pub async fn list(&self, wanted: &Wanted, scope: &Scope, seen: &[Seen]) -> Result<Vec<Seen>, Unable> {
        let Some(request) = wanted.listing(scope, seen) else { return Ok(Vec::new()) };
        let answer = self.send(&request).await?;
        let what = || format!("GET {}/{}", self.url(), scope.kind.collection());
        match answer.status.as_u16() {
            200 => {
                let read = serde_json::from_slice::<Value>(&answer.body).ok().and_then(|value| scope.read(value));
                read.ok_or_else(|| Unable::Silent(format!("{}: the answer cannot be read", what())))
            }
            401 | 403 => Err(Unable::Unauthorised(format!(
                "{}: {}; set authParameters to a user with the cloud-admin role, as Config has them",
                what(),
                answer.status
            ))),
            _ => Err(Unable::Silent(format!("{}: {}: {}", what(), answer.status, text(&answer)))),
        }
    }

    /// Sends a request and waits for the answer, whatever it says.
    pub async fn send(&self, request: &Request) -> Result<Answer, Unable> {
        let until = self.permit.until().ok_or(Unable::NotLeader)?;
        let patience = PATIENCE.min(until.saturating_duration_since(Instant::now()));
        let silent = |error: &dyn std::fmt::Display| {
            let path = request.path.split('?').next().unwrap_or_default();
            Unable::Silent(format!("{} {}{path}: {error}", request.method, self.url()))
        };
        let idle = lock(&self.idle).pop();
        let is_new = idle.is_none();
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.connect().await.map_err(|error| silent(&error))?,
        };
        let mut answer = connection.send(self.message(request)?, LARGEST_ANSWER, patience).await;
        // The other end lets go of connections that nobody uses. What was asked for may have been done: everything can be asked for twice.
        if !is_new && matches!(answer, Err(ExchangeError::Unreachable(_))) {
            connection = self.connect().await.map_err(|error| silent(&error))?;
            answer = connection.send(self.message(request)?, LARGEST_ANSWER, patience).await;
        }
        let answer = answer.map_err(|error| silent(&error))?;
        lock(&self.idle).push(connection);
        Ok(answer)
    }

    async fn connect(&self) -> Result<Connection, ExchangeError> {
        Connection::open(self.host, self.port, &self.way, CONNECT).await
    }

    fn message(&self, request: &Request) -> Result<HttpRequest<Full<Bytes>>, Unable> {
        let mut message = HttpRequest::builder()
            .method(request.method)
            .uri(&request.path)
            .header(header::HOST, authority(self.host, self.port))
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            message = message.header("X-Auth-Token", token);
        }
        let body = request.body.as_ref().map(Value::to_string).unwrap_or_default();
        message.body(Full::new(Bytes::from(body))).map_err(|error| Unable::Silent(error.to_string()))
    }
}

/// What an answer says, shortened and on one line.
pub fn text(answer: &Answer) -> String {
    let text = String::from_utf8_lossy(&answer.body);
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|char| !char.is_control()).take(REPEATED).collect()
}
