//! What stands before the config API where Keystone knows its users (upstream `vnc_auth_keystone.py`, `vnc_rbac.py`, and the library
//! keystonemiddleware): a question needs a token that Keystone knows, for which the API needs one of its own.
//!
//! Version 2.0 is asked as releases of the library up to 6 do; later ones want version 3 beside it. Tokens are not kept: without memcached
//! the library keeps none either.

use std::fmt;

use hyper::{Request, StatusCode, body::Bytes};
use serde_json::Value;
use tokio::sync::Mutex;

use super::{Identity, Login, TOKEN, Token, Trust, Url, Version, ask};
use crate::{
    exit::{Exit, exception},
    http::{AgentReport, Answer},
    log,
    options::Values,
};

/// Everybody may ask for these, and for what is below the latter.
const OPEN: [&str; 2] = ["/", "/documentation"];
/// What those are told who show no token, or one that nobody knows.
const UNAUTHORIZED: &str = "The request you have made requires authentication.";
/// The role that counts with `cloud-admin`, whatever the file says.
const ADMIN: &str = "admin";

/// Who may do what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    CloudAdmin,
    Rbac,
}

/// Who is let in.
pub struct Guard {
    login: Login,
    identity: Url,
    interface: String,
    region: String,
    mode: Option<Mode>,
    role: String,
    own: Mutex<Option<Token>>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("login", &self.login).field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// What came of asking Keystone about a token.
enum Judged {
    Known(Vec<String>),
    Unknown,
    /// Keystone does not let the API in, or does not answer.
    Nothing(String),
}

impl Guard {
    /// What the files of contrail-api say. None where Keystone is not asked.
    ///
    /// # Errors
    /// What ends the daemon.
    pub(crate) fn of(values: &Values) -> Result<Option<Self>, Exit> {
        let mode = match values.or("aaa_mode", "cloud-admin").as_str() {
            "no-auth" => None,
            "rbac" => Some(Mode::Rbac),
            // Also what nobody knows (upstream `AAA_MODE_DEFAULT_VALUE`).
            _ => Some(Mode::CloudAdmin),
        };
        if values.or("auth", "") != "keystone" {
            return Ok(None);
        }
        let server = [values.or("auth_protocol", "http"), values.or("auth_host", "127.0.0.1")];
        let server = format!("{}://{}:{}", server[0], server[1], values.or("auth_port", "35357"));
        let url = values.given("auth_url").unwrap_or_else(|| format!("{server}/v2.0"));
        let read = |text: &str| Url::read(text).ok_or_else(|| exception("InvalidURL: [KEYSTONE]"));
        let version = if url.split('/').any(|part| part == "v2.0") { Version::V2 } else { Version::V3 };
        let (identity, path) = match version {
            Version::V2 => (read(&server)?, "/v2.0/tokens".to_owned()),
            Version::V3 => {
                let url = read(&url)?;
                let path = format!("{}/auth/tokens", url.path);
                (url, path)
            }
        };
        let project = values.or("admin_tenant_name", "");
        let project_domain = values.given("project_domain_name");
        if version == Version::V3 && project_domain.is_none() {
            // A token for a domain, in which the user has no role.
            return Err(exception("tf-sim does not play a Keystone without project_domain_name"));
        }
        let login = Identity {
            user: values.or("admin_user", ""),
            password: values.or("admin_password", ""),
            project,
            user_domain: values.or("user_domain_name", "Default"),
            project_domain: project_domain.unwrap_or_default(),
        };
        // What it does not know as a boolean ends it.
        let insecure = match values.or("insecure", "true").to_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => true,
            "false" | "0" | "no" | "off" => false,
            _ => return Err(exception("ConfigurationError: insecure")),
        };
        let authorities = values.given("cafile").filter(|_| identity.tls);
        Ok(Some(Self {
            login: Login {
                url: identity.at(&path),
                trust: Trust::of(insecure, authorities),
                version,
                question: login.question(version).to_string().into_bytes(),
            },
            identity,
            interface: values.or("interface", "admin"),
            region: values.or("region_name", "RegionOne"),
            mode,
            role: values.or("cloud_admin_role", ADMIN),
            own: Mutex::default(),
        }))
    }

    /// How the API logs in itself.
    pub fn login(&self) -> &Login {
        &self.login
    }

    /// Lets a question for this path and query pass, with the token that it shows.
    ///
    /// # Errors
    /// The answer to one that does not.
    pub async fn admit(&self, path: &str, token: Option<&str>) -> Result<(), Answer> {
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        let Some(mode) = self.mode else { return Ok(()) };
        if path == OPEN[0] || path.starts_with(OPEN[1]) {
            return Ok(());
        }
        let refused = |status, why: &str| Err((status, "text/plain", why.to_owned()));
        let Some(token) = token else { return refused(StatusCode::UNAUTHORIZED, UNAUTHORIZED) };
        let roles = match self.judge(token).await {
            Judged::Known(roles) => roles,
            Judged::Unknown => return refused(StatusCode::UNAUTHORIZED, UNAUTHORIZED),
            Judged::Nothing(why) => {
                log::say(&format!("Unable to validate token: {why}"));
                let why = "The Keystone service is temporarily unavailable.";
                return refused(StatusCode::SERVICE_UNAVAILABLE, why);
            }
        };
        match mode {
            Mode::CloudAdmin if roles.iter().any(|role| role.eq_ignore_ascii_case(ADMIN)) => Ok(()),
            Mode::CloudAdmin => refused(StatusCode::FORBIDDEN, "403 Permission Denied"),
            Mode::Rbac if roles.is_empty() => refused(StatusCode::UNAUTHORIZED, "roles empty!!"),
            Mode::Rbac if roles.contains(&self.role) => Ok(()),
            Mode::Rbac => refused(StatusCode::FORBIDDEN, "Permission Denied RBAC rule list empty"),
        }
    }

    /// The roles of a token. An own one that does not count any more is fetched anew, once.
    async fn judge(&self, token: &str) -> Judged {
        let mut own = self.own.lock().await;
        for is_last in [false, true] {
            if own.is_none() {
                match self.login.token().await {
                    Ok(token) => *own = Some(token),
                    Err(error) => return Judged::Nothing(format!("{error:#}")),
                }
            }
            let Some(shown) = own.clone() else { continue };
            match self.validate(&shown, token).await {
                Err(error) => return Judged::Nothing(format!("{error:#}")),
                Ok(told) if told.status == StatusCode::UNAUTHORIZED && !is_last => *own = None,
                Ok(told) if told.status == StatusCode::NOT_FOUND => return Judged::Unknown,
                Ok(told) if told.status.is_success() => return Judged::Known(roles(&told)),
                Ok(told) => return Judged::Nothing(format!("status {}", told.status)),
            }
        }
        Judged::Nothing("Identity server rejected authorization".into())
    }

    async fn validate(&self, own: &Token, token: &str) -> anyhow::Result<AgentReport> {
        let request = Request::get("/").header(TOKEN, &own.id);
        let (url, request) = match self.login.version {
            Version::V2 => (self.identity.at(&format!("/v2.0/tokens/{token}")), request),
            Version::V3 => {
                let found = self.endpoint(&own.told);
                let url = found.ok_or_else(|| anyhow::anyhow!("EmptyCatalog: no identity service"))?;
                let base = url.path.trim_end_matches("/v3");
                (url.at(&format!("{base}/v3/auth/tokens")), request.header("x-subject-token", token))
            }
        };
        ask(&url, &self.login.trust, request.uri(&url.path).body(Bytes::new().into())?).await
    }

    /// Where the list of services says that Keystone is.
    fn endpoint(&self, told: &Value) -> Option<Url> {
        let services = told.pointer("/token/catalog")?.as_array()?.iter().filter(|it| it["type"] == "identity");
        let mut endpoints = services.filter_map(|it| it["endpoints"].as_array()).flatten();
        let is_it = |it: &&Value| it["interface"] == self.interface.as_str() && it["region"] == self.region.as_str();
        Url::read(endpoints.find(is_it)?["url"].as_str()?)
    }
}

fn roles(told: &AgentReport) -> Vec<String> {
    let body: Value = serde_json::from_slice(&told.body).unwrap_or_default();
    let roles = body.pointer("/token/roles").or_else(|| body.pointer("/access/user/roles"));
    let names = roles.and_then(Value::as_array).into_iter().flatten().filter_map(|role| role["name"].as_str());
    names.map(str::to_owned).collect()
}
