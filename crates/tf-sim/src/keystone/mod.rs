//! OpenStack Keystone: who asks for tokens ([`Login`]), the config API that judges them ([`Guard`]), and a Keystone that is played
//! ([`Played`]). Of both versions of its API, with passwords (OpenStack Identity API v3, "Password authentication with scoped
//! authorization", "Validate and show information for token"; v2.0, "Authenticate", "Validate token").

mod guard;
mod played;
#[cfg(test)]
mod tests;

use std::{fmt, path::PathBuf, sync::Arc};

use anyhow::{Context as _, Result, bail, ensure};
use http_body_util::Full;
use hyper::{Request, StatusCode, body::Bytes};
use rustls::ClientConfig;
use serde_json::{Value, json};

pub use self::{
    guard::Guard,
    played::{Account, NAME, Played, converse, run},
};
use crate::{
    http::{self, AgentReport},
    tls,
};

/// The header in which a token is shown.
pub const TOKEN: &str = "x-auth-token";

/// A version of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Version 2.0.
    V2,
    /// Version 3.
    V3,
}

/// A server, and what paths there begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Whether TLS is spoken.
    pub tls: bool,
    /// The host; an IPv6 address with brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The beginning of paths, without a slash at its end.
    pub path: String,
}

impl Url {
    /// Reads one. None if it has no protocol that is spoken, no host, or a port that is none.
    pub fn read(text: &str) -> Option<Self> {
        let (protocol, rest) = text.split_once("://")?;
        let (tls, port) = match protocol {
            "https" => (true, 443),
            "http" => (false, 80),
            _ => return None,
        };
        let (server, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        let (host, port) = match server.rsplit_once(':') {
            Some((host, number)) if !server.ends_with(']') => (host, number.parse().ok()?),
            _ => (server, port),
        };
        // An IPv6 address without brackets is cut at its last colon.
        let is_host = !host.is_empty() && (host.starts_with('[') || !host.contains(':'));
        is_host.then(|| Self { tls, host: host.to_owned(), port, path: path.trim_end_matches('/').to_owned() })
    }

    /// The same server with another path.
    #[must_use]
    pub fn at(&self, path: &str) -> Self {
        Self { path: path.to_owned(), ..self.clone() }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = if self.tls { "https" } else { "http" };
        write!(f, "{protocol}://{}:{}{}", self.host, self.port, self.path)
    }
}

/// How the certificate of a Keystone is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Not at all.
    Anybody,
    /// By these authorities.
    Authorities(PathBuf),
    /// By those of the image, which know nobody here.
    Image,
}

impl Trust {
    /// What options say: whether every certificate is taken, and authorities, if any are named.
    pub fn of(insecure: bool, authorities: Option<String>) -> Self {
        match authorities {
            _ if insecure => Self::Anybody,
            Some(file) => Self::Authorities(file.into()),
            None => Self::Image,
        }
    }

    fn client(&self, url: &Url) -> Result<Option<Arc<ClientConfig>>> {
        match self {
            _ if !url.tls => Ok(None),
            Self::Anybody => tls::unchecked().map(Some),
            Self::Authorities(file) => tls::client(file, None).map(Some),
            Self::Image => bail!("SSLError: CERTIFICATE_VERIFY_FAILED: no authority is named"),
        }
    }
}

/// As whom somebody logs in, and in what.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
    /// The project.
    pub project: String,
    /// The domain of the user. Version 2.0 has none.
    pub user_domain: String,
    /// The domain of the project. Version 2.0 has none.
    pub project_domain: String,
}

impl Identity {
    /// The question for a token, as JSON.
    pub fn question(&self, version: Version) -> Value {
        let Self { user, password, project, user_domain, project_domain } = self;
        match version {
            Version::V2 => json!({
                "auth": {"passwordCredentials": {"username": user, "password": password}, "tenantName": project},
            }),
            Version::V3 => json!({"auth": {
                "identity": {
                    "methods": ["password"],
                    "password": {"user": {"name": user, "domain": {"name": user_domain}, "password": password}},
                },
                "scope": {"project": {"domain": {"name": project_domain}, "name": project}},
            }}),
        }
    }
}

/// How somebody gets a token.
#[derive(Clone)]
pub struct Login {
    /// Where tokens are to be had.
    pub url: Url,
    /// How the server's certificate is judged.
    pub trust: Trust,
    /// How the question is put.
    pub version: Version,
    /// The question, as it goes over the wire.
    pub question: Vec<u8>,
}

/// Without the question, which holds the password.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("url", &self.url).field("trust", &self.trust).finish_non_exhaustive()
    }
}

/// A token, and what Keystone tells with it.
#[derive(Clone)]
pub struct Token {
    /// The token.
    pub id: String,
    /// The body of the answer.
    pub told: Value,
}

impl Login {
    /// Asks for a token.
    ///
    /// # Errors
    /// When nobody answers who is to be trusted, or the login is not let in. The password is not quoted.
    pub async fn token(&self) -> Result<Token> {
        let request = Request::post(&self.url.path).header("content-type", r#"application/json; charset="UTF-8""#);
        let request = request.body(self.question.clone().into())?;
        let told = ask(&self.url, &self.trust, request).await?;
        ensure!(told.status.is_success(), Refused(told.status));
        let body: Value = serde_json::from_slice(&told.body).context("no JSON")?;
        let id = match self.version {
            Version::V2 => body.pointer("/access/token/id").and_then(Value::as_str).map(str::to_owned),
            Version::V3 => told.token,
        };
        Ok(Token { id: id.context("an answer without a token")?, told: body })
    }
}

/// A login that is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Keystone: status {0}")]
pub struct Refused(pub StatusCode);

async fn ask(url: &Url, trust: &Trust, request: Request<Full<Bytes>>) -> Result<AgentReport> {
    let tls = trust.client(url)?;
    http::ask(&url.host, url.port, tls.as_ref(), request).await
}
