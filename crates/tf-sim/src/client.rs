//! A client of the config API, as everything in Python is one (upstream `vnc_api.py`): it asks for the first page without a token and fetches one
//! when something else is refused.

use std::{sync::Arc, time::Duration};

use anyhow::anyhow;
use hyper::{Request, StatusCode, body::Bytes};
use rustls::ClientConfig;
use tokio::time::sleep;

use crate::{
    exit::{Exit, exception},
    http,
    keystone::{Login, Refused, TOKEN},
    library::{Brought, Library},
    log,
    options::ApiServer,
    status::{Peer, State, Status},
    tls,
};

/// Between two questions to the API.
const PERIOD: Duration = Duration::from_secs(2);
/// Between two questions of who has to log in.
const USE: Duration = Duration::from_secs(10);
/// What everybody may ask.
const FIRST: &str = "/";
/// What only those may ask who are let in.
const USED: &str = "/domains";

/// A client.
#[derive(Clone)]
pub struct ApiClient {
    api: ApiServer,
    /// The authorities, which are copied at the beginning, and the copy counts from then on (upstream `getCertKeyCaBundle`).
    copied: Option<Result<Arc<ClientConfig>, String>>,
    login: Option<Login>,
}

impl ApiClient {
    /// One that reads the library's file now.
    ///
    /// # Errors
    /// What ends the daemon.
    pub fn new(api: ApiServer, library: &Library, brought: &Brought) -> Result<Self, Exit> {
        let authorities = library.authorities().filter(|_| api.tls);
        let copied =
            authorities.map(|authorities| tls::client(authorities, None).map_err(|error| format!("{error:#}")));
        Ok(Self { copied, login: library.login(brought)?, api })
    }

    /// Looks every now and then whether one of the APIs answers.
    pub async fn watch(&self, status: &Status) {
        loop {
            let state = match self.ask(FIRST, None).await {
                Ok((code, host)) if code.is_success() => State::Up(format!("{host}:{}", self.api.port)),
                Ok((code, host)) => State::Down(format!("{host}: status {code}")),
                Err(error) => State::Down(format!("{error:#}")),
            };
            status.set(Peer::ApiServer, state);
            sleep(PERIOD).await;
        }
    }

    /// Does what the daemon does first, once an API is there, and gives back the token that it needed.
    ///
    /// # Errors
    /// When it is not let in, or Keystone does not answer. Most daemons end then.
    pub async fn begin(&self) -> Result<Option<String>, Exit> {
        let mut token: Option<String> = None;
        loop {
            match self.ask(USED, token.as_deref()).await {
                Ok((StatusCode::OK, _)) => {
                    log::say("config API: lets in");
                    return Ok(token);
                }
                Ok((StatusCode::UNAUTHORIZED, _)) if token.is_none() => token = Some(self.log_in().await?),
                Ok((StatusCode::UNAUTHORIZED, _)) => return Err(exception("AuthFailed: config API: status 401")),
                Ok((StatusCode::FORBIDDEN, _)) => return Err(exception("PermissionDenied: config API: status 403")),
                Ok((StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE, _)) | Err(_) => sleep(PERIOD).await,
                Ok((code, _)) => return Err(exception(format!("HttpError: config API: status {code}"))),
            }
        }
    }

    /// Goes on with this token where one is needed, and says when it is not let in any more.
    pub async fn go_on(&self, mut token: Option<String>) {
        while self.login.is_some() && token.is_some() {
            sleep(USE).await;
            if let Ok((StatusCode::UNAUTHORIZED, _)) = self.ask(USED, token.as_deref()).await {
                match self.log_in().await {
                    Ok(fresh) => token = Some(fresh),
                    Err(error) => log::say(&error.why),
                }
            }
        }
    }

    /// Does what the API of analytics does for its users, who bring tokens, and says so if it is not let in.
    pub async fn lookup(&self) {
        match self.begin().await {
            Ok(token) => self.go_on(token).await,
            Err(error) => log::say(&error.why),
        }
    }

    async fn log_in(&self) -> Result<String, Exit> {
        let Some(login) = &self.login else { return Err(exception("AuthFailed: config API: status 401")) };
        match login.token().await {
            Ok(token) => Ok(token.id),
            Err(error) if error.is::<Refused>() => {
                Err(exception(format!("RuntimeError: Authentication Failure at {}: {error:#}", login.url)))
            }
            Err(error) => {
                let why =
                    format!("Unable to connect to keystone ({}) for authentication. Exception {error:#}", login.url);
                Err(exception(format!("RuntimeError: {why}")))
            }
        }
    }

    /// What the first API says that has what is asked for, or the last one that has not, and which that is.
    async fn ask(&self, path: &str, token: Option<&str>) -> anyhow::Result<(StatusCode, &str)> {
        let mut last = anyhow!("no server is named");
        let mut refused = None;
        let tls = match &self.copied {
            Some(Err(why)) => anyhow::bail!("ConnectionError: {why}"),
            None if self.api.tls => anyhow::bail!("ConnectionError: vnc_api_lib.ini names no authority"),
            Some(Ok(tls)) => Some(tls),
            None => None,
        };
        for host in &self.api.hosts {
            let mut request = Request::get(path);
            if let Some(token) = token {
                request = request.header(TOKEN, token);
            }
            match http::ask(host, self.api.port, tls, request.body(Bytes::new().into())?).await {
                Ok(told) if told.status.is_success() => return Ok((told.status, host)),
                Ok(told) => refused = Some((told.status, host.as_str())),
                Err(error) => last = error.context(host.clone()),
            }
        }
        refused.ok_or(last)
    }
}
