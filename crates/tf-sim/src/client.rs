//! A client of the config API, as everything in Python is one (upstream `vnc_api.py`): it asks for the first page without a token and fetches one
//! when something else is refused.
//!
//! It asks one server of its list, the next one with each question, and the others in turn where that one is not there. A server that is there and
//! says nothing is no reason to ask another one: neither the library nor most daemons catch that exception.

use std::{sync::Arc, time::Duration};

use anyhow::anyhow;
use hyper::{Request, StatusCode, body::Bytes};
use rustls::ClientConfig;
use tokio::time::sleep;

use crate::{
    exit::{Exit, exception},
    http::{self, Patience, ReadTimeout},
    keystone::{Login, Refused, TOKEN},
    library::{Brought, Library},
    log,
    options::ApiServer,
    status::{Peer, State, Status},
    tls,
};

/// Between two questions to the API.
const PERIOD: Duration = Duration::from_secs(2);
/// Before the library asks again where no server is there, or it serves not yet, and how often it does.
const RETRY: Duration = Duration::from_secs(1);
const TRIES: u32 = 30;
/// Before a daemon makes another client where no server is there.
const ANOTHER: Duration = Duration::from_secs(3);
/// For a look at the API, which no real daemon takes: a late answer is one.
const LOOK: Patience = Patience { connection: Duration::from_secs(30), answer: Duration::from_secs(30) };
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
    patience: Patience,
}

/// Why the first question has no answer.
enum Halt {
    /// A server says nothing.
    Silent(Exit),
    /// It is refused, or nobody is there.
    Refused(Exit),
}

impl From<Halt> for Exit {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Silent(exit) | Halt::Refused(exit) => exit,
        }
    }
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
        Ok(Self { copied, login: library.login(brought)?, api, patience: library.patience() })
    }

    /// Looks every now and then whether one of the APIs answers.
    pub async fn watch(&self, status: &Status) {
        loop {
            status.set(Peer::ApiServer, self.state(self.ask(FIRST, None, 0, LOOK).await));
            sleep(PERIOD).await;
        }
    }

    fn state(&self, answer: anyhow::Result<(StatusCode, &str)>) -> State {
        match answer {
            Ok((code, host)) if code.is_success() => State::Up(format!("{host}:{}", self.api.port)),
            Ok((code, host)) => State::Down(format!("{host}: status {code}")),
            Err(error) => State::Down(format!("{error:#}")),
        }
    }

    /// Does what a daemon does to have a client: it asks the first server of its list for the first page, the next ones only where that one is not
    /// there, again and again where none is or the one serves not yet (upstream `VncApi.__init__`, and around it `to_bgp.py`, `svc_monitor.py`,
    /// `device_manager.py`, `vnc_kubernetes.py`).
    ///
    /// # Errors
    /// What ends the daemon: the server is there and says nothing.
    pub async fn connect(&self, status: &Status) -> Result<(), Exit> {
        loop {
            let answer = self.ask(FIRST, None, 0, self.patience).await;
            let pause = match &answer {
                Ok((code, _)) if code.is_success() => None,
                Ok((StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE, _)) => Some(RETRY),
                Ok((code, host)) => return Err(exception(format!("HttpError: config API: {host}: status {code}"))),
                Err(error) if error.is::<ReadTimeout>() => {
                    return Err(exception(format!("requests.exceptions.{error:#}")));
                }
                Err(_) => Some(ANOTHER),
            };
            status.set(Peer::ApiServer, self.state(answer));
            match pause {
                Some(pause) => sleep(pause).await,
                None => return Ok(()),
            }
        }
    }

    /// Does what the daemon does first, once an API is there, and gives back the token that it needed.
    ///
    /// # Errors
    /// When it is not let in, Keystone does not answer, a server says nothing, or none is there for half a minute. Most daemons end then.
    pub async fn begin(&self) -> Result<Option<String>, Exit> {
        Ok(self.first().await?)
    }

    async fn first(&self) -> Result<Option<String>, Halt> {
        let refused = |why: String| Err(Halt::Refused(exception(why)));
        let mut token: Option<String> = None;
        let mut missing = 0;
        // The client has asked the first one of its list when it was made.
        for turn in 1.. {
            match self.ask(USED, token.as_deref(), turn, self.patience).await {
                Ok((StatusCode::OK, _)) => break,
                Ok((StatusCode::UNAUTHORIZED, _)) if token.is_none() => {
                    token = Some(self.log_in().await.map_err(Halt::Refused)?);
                }
                Ok((StatusCode::UNAUTHORIZED, _)) => return refused("AuthFailed: config API: status 401".into()),
                Ok((StatusCode::FORBIDDEN, _)) => return refused("PermissionDenied: config API: status 403".into()),
                Ok((StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE, _)) => sleep(RETRY).await,
                Ok((code, _)) => return refused(format!("HttpError: config API: status {code}")),
                Err(error) if error.is::<ReadTimeout>() => {
                    return Err(Halt::Silent(exception(format!("requests.exceptions.{error:#}"))));
                }
                Err(error) if missing == TRIES => return refused(format!("ConnectionError: config API: {error:#}")),
                Err(_) => {
                    missing += 1;
                    sleep(RETRY).await;
                }
            }
        }
        log::say("config API: lets in");
        Ok(token)
    }

    /// Goes on with this token where one is needed, and says when it is not let in any more.
    pub async fn go_on(&self, mut token: Option<String>) {
        while self.login.is_some() && token.is_some() {
            sleep(USE).await;
            if let Ok((StatusCode::UNAUTHORIZED, _)) = self.ask(USED, token.as_deref(), 0, self.patience).await {
                match self.log_in().await {
                    Ok(fresh) => token = Some(fresh),
                    Err(error) => log::say(&error.why),
                }
            }
        }
    }

    /// Does what the API of analytics does for its users, who bring tokens, and says so if it is not let in.
    pub async fn lookup(&self) {
        loop {
            match self.first().await {
                Ok(token) => return self.go_on(token).await,
                Err(Halt::Silent(exit)) => log::say(&exit.why),
                Err(Halt::Refused(exit)) => return log::say(&exit.why),
            }
            sleep(ANOTHER).await;
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

    /// What an API says, and which that is: the one whose turn it is, or the next one that is there. One that is there and says nothing is the last one
    /// that is asked.
    async fn ask(
        &self,
        path: &str,
        token: Option<&str>,
        turn: usize,
        patience: Patience,
    ) -> anyhow::Result<(StatusCode, &str)> {
        let mut last = anyhow!("no server is named");
        let tls = match &self.copied {
            Some(Err(why)) => anyhow::bail!("ConnectionError: {why}"),
            None if self.api.tls => anyhow::bail!("ConnectionError: vnc_api_lib.ini names no authority"),
            Some(Ok(tls)) => Some(tls),
            None => None,
        };
        for host in in_turn(&self.api.hosts, turn) {
            let mut request = Request::get(path);
            if let Some(token) = token {
                request = request.header(TOKEN, token);
            }
            let request = request.body(Bytes::new().into())?;
            match http::ask_within(host, self.api.port, tls, request, patience).await {
                Ok(told) => return Ok((told.status, host)),
                Err(error) if error.is::<ReadTimeout>() => return Err(error),
                Err(error) => last = error.context(host.clone()),
            }
        }
        Err(last)
    }
}

/// The servers of a list, beginning with the one whose turn it is (upstream `roundrobin`).
fn in_turn(hosts: &[String], turn: usize) -> impl Iterator<Item = &String> {
    let first = turn.checked_rem(hosts.len()).unwrap_or_default();
    hosts.iter().skip(first).chain(hosts.iter().take(first))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::http::{Question, Server};

    /// A client of these servers that waits for little.
    fn client(hosts: &[&str], port: u16) -> ApiClient {
        let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
        let api = ApiServer { hosts, port, tls: false };
        let library = Library::of("[auth]\nAUTHN_TYPE = noauth\n").unwrap();
        let mut client = ApiClient::new(api, &library, &Brought::default()).unwrap();
        client.patience = Patience { connection: Duration::from_millis(200), answer: Duration::from_millis(200) };
        client
    }

    async fn listener(host: &str, port: u16) -> TcpListener {
        TcpListener::bind((host, port)).await.unwrap()
    }

    fn serve(listener: TcpListener) {
        let answer = async |_: Question| (StatusCode::OK, "text/plain", String::new());
        let answer = move |question: Question| answer(question);
        tokio::spawn(http::serve(listener, None, Server::Native, answer));
    }

    fn status() -> Status {
        Status::new("contrail-schema", "0", "n", &[Peer::ApiServer])
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_passed_over_and_one_that_says_nothing_ends_the_daemon() {
        let silent = listener("127.0.0.1", 0).await;
        let port = silent.local_addr().unwrap().port();
        serve(listener("127.0.0.2", port).await);
        let status = status();
        client(&["127.0.0.3", "127.0.0.2", "127.0.0.1"], port).connect(&status).await.unwrap();
        assert!(status.is_up(Peer::ApiServer));
        let exit = client(&["127.0.0.1", "127.0.0.2"], port).connect(&status).await.unwrap_err();
        assert_eq!(exit, exception("requests.exceptions.ReadTimeout: Read timed out. (read timeout=0.2)"));
    }

    #[tokio::test]
    async fn its_second_question_goes_to_the_second_server() {
        let silent = listener("127.0.0.1", 0).await;
        let port = silent.local_addr().unwrap().port();
        serve(listener("127.0.0.2", port).await);
        assert_eq!(client(&["127.0.0.1", "127.0.0.2"], port).begin().await, Ok(None));
        assert_eq!(client(&["127.0.0.2", "127.0.0.1"], port).begin().await.unwrap_err().code, 1);
    }

    #[test]
    fn servers_are_asked_in_turn() {
        let hosts = ["a", "b", "c"].map(str::to_owned);
        let of = |turn| in_turn(&hosts, turn).map(String::as_str).collect::<String>();
        assert_eq!([of(0), of(1), of(2), of(3)], ["abc", "bca", "cab", "abc"]);
        assert_eq!(in_turn(&[], 1).count(), 0);
    }
}
