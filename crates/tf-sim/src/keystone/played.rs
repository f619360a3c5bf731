//! A Keystone that knows one user, or takes everybody who brings a password. A file says so:
//!
//! ```ini
//! [keystone]
//! listen = 0.0.0.0
//! port = 35357
//! certificate = /etc/keystone/tls.crt
//! key = /etc/keystone/tls.key
//! url = https://192.0.2.35:35357
//! region = RegionOne
//! user = admin
//! password = …
//! project = admin
//! domain = Default
//! role = admin
//! ```
//!
//! Without `certificate` it speaks no TLS. `url` is where its list of services says that it is.

use std::{
    collections::BTreeSet,
    fs,
    sync::{Arc, Mutex, PoisonError},
};

use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};

use super::{Identity, TOKEN, Version};
use crate::{
    exit::{Exit, exception, usage},
    http::{self, Question, Reply},
    ini::Ini,
    log,
    options::{Pair, Values},
    rest,
};

/// Name of the program.
pub const NAME: &str = "keystone";

const JSON: &str = "application/json";

/// Who is let in, and as what.
#[derive(Clone)]
pub struct Account {
    /// The one who is; none if everybody is who brings a name and a password.
    pub who: Option<Identity>,
    /// The role.
    pub role: String,
    /// Region of this Keystone.
    pub region: String,
    /// Where it says that it is.
    pub url: String,
}

/// A Keystone.
pub struct Played {
    account: Account,
    tokens: Mutex<BTreeSet<String>>,
}

impl Played {
    /// One that lets in whom an account says.
    pub fn new(account: Account) -> Self {
        Self { account, tokens: Mutex::default() }
    }

    /// Opens its port and answers there until the task ends.
    pub async fn serve(self, listener: TcpListener, pair: Option<Pair>) {
        let played = Arc::new(self);
        let answer = move |question: Question| {
            let played = Arc::clone(&played);
            async move { played.answer(&question) }
        };
        http::serve(listener, pair, http::Server::Native, answer).await;
    }

    /// Answers a question.
    pub fn answer(&self, question: &Question) -> Reply {
        let path = question.path.split_once('?').map_or(question.path.as_str(), |(path, _)| path);
        match (question.method.as_str(), path) {
            ("POST", "/v3/auth/tokens") => self.give(Version::V3, &question.body),
            ("POST", "/v2.0/tokens") => self.give(Version::V2, &question.body),
            ("GET", "/v3/auth/tokens") => self.judge(Version::V3, question, question.header("x-subject-token")),
            ("GET", path) if path.starts_with("/v2.0/tokens/") => {
                self.judge(Version::V2, question, path.strip_prefix("/v2.0/tokens/"))
            }
            _ => told(StatusCode::NOT_FOUND, &json!({})),
        }
    }

    fn give(&self, version: Version, body: &[u8]) -> Reply {
        // What is no JSON in UTF-8 is no question.
        let Ok(asked) = serde_json::from_slice::<Value>(body) else { return told(StatusCode::BAD_REQUEST, &json!({})) };
        if !self.is_let_in(version, &asked) {
            return told(StatusCode::UNAUTHORIZED, &json!({}));
        }
        let Ok(token) = rest::identifier() else { return told(StatusCode::INTERNAL_SERVER_ERROR, &json!({})) };
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).insert(token.clone());
        match version {
            Version::V2 => told(StatusCode::OK, &self.state(version, &token)),
            Version::V3 => {
                Reply { token: Some(token.clone()), ..told(StatusCode::CREATED, &self.state(version, &token)) }
            }
        }
    }

    fn is_let_in(&self, version: Version, asked: &Value) -> bool {
        if let Some(who) = &self.account.who {
            return *asked == who.question(version);
        }
        let user = match version {
            Version::V2 => asked.pointer("/auth/passwordCredentials"),
            Version::V3 => asked.pointer("/auth/identity/password/user"),
        };
        let is_given = |field: &str| user.and_then(|user| user[field].as_str()).is_some_and(|text| !text.is_empty());
        (is_given("name") || is_given("username")) && is_given("password")
    }

    /// What a token is worth, to who has one.
    fn judge(&self, version: Version, question: &Question, token: Option<&str>) -> Reply {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if !question.header(TOKEN).is_some_and(|shown| tokens.contains(shown)) {
            return told(StatusCode::UNAUTHORIZED, &json!({}));
        }
        match token.filter(|token| tokens.contains(*token)) {
            Some(token) => told(StatusCode::OK, &self.state(version, token)),
            None => told(StatusCode::NOT_FOUND, &json!({})),
        }
    }

    fn state(&self, version: Version, token: &str) -> Value {
        let Account { role, region, url, .. } = &self.account;
        let roles = json!([{"name": role}]);
        match version {
            Version::V2 => json!({"access": {"token": {"id": token}, "user": {"roles": roles}}}),
            Version::V3 => {
                let endpoints = ["admin", "internal", "public"]
                    .map(|interface| json!({"interface": interface, "region": region, "url": url}));
                json!({"token": {
                    "methods": ["password"],
                    "roles": roles,
                    "catalog": [{"type": "identity", "name": "keystone", "endpoints": endpoints}],
                }})
            }
        }
    }
}

fn told(status: StatusCode, body: &Value) -> Reply {
    (status, JSON, body.to_string()).into()
}

/// Answers whoever is at the other end of a connection, which somebody else has secured.
pub async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, played: Arc<Played>) {
    http::converse(stream, move |question: Question| {
        let played = Arc::clone(&played);
        async move { played.answer(&question) }
    })
    .await;
}

/// Plays one until somebody ends it.
///
/// # Errors
/// What ends it.
pub async fn run(arguments: &[String]) -> Result<(), Exit> {
    let [file] = arguments else { return Err(usage("keystone FILE")) };
    let text = fs::read_to_string(file).map_err(|error| exception(format!("{file}: {error}")))?;
    let mut ini = Ini::default();
    ini.read(&text)?;
    let values = Values::of(&ini, &[NAME])?;
    let domain = values.or("domain", "Default");
    let who = values.given("password").map(|password| Identity {
        user: values.or("user", "admin"),
        password,
        project: values.or("project", "admin"),
        user_domain: domain.clone(),
        project_domain: domain,
    });
    let address = (values.address("listen")?, values.port("port", "35357")?);
    let pair = values
        .given("certificate")
        .zip(values.given("key"))
        .map(|(certificate, key)| Pair { certificate: certificate.into(), key: key.into() });
    let account = Account {
        who,
        role: values.or("role", "admin"),
        region: values.or("region", "RegionOne"),
        url: values.given("url").ok_or_else(|| exception("ValueError: url"))?,
    };
    let listener = http::listen(address).await?;
    log::say(&format!("listens on port {}", address.1));
    tokio::spawn(Played::new(account).serve(listener, pair));
    Ok(())
}
