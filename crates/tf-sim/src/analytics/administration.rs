//! The port for administration of the API on the loopback address, and topology, which asks there (upstream `opserver_local.py`,
//! `tf_topology/analytic_client.py`).
//!
//! Topology itself tells nobody that it was not let in, and goes on with nothing. Here its NodeStatus tells.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hyper::StatusCode;
use tokio::{net::TcpListener, time::sleep};

use super::options::Administration;
use crate::{
    http::{self, Answer, Question},
    log,
    status::Status,
};

/// Between two questions.
const PERIOD: Duration = Duration::from_secs(2);
/// What topology asks first.
const PATH: &str = "/analytics";
/// What topology lacks that is not let in.
const REFUSED: &str = "the analytics API does not let it in";

/// Opens the port. Who does not get it goes on without it, as the daemon does.
pub async fn open(own: Administration) {
    for server in own.servers.clone() {
        match TcpListener::bind(&server).await {
            Ok(listener) => drop(tokio::spawn(serve(listener, own.clone()))),
            Err(error) => log::say(&format!("OSError: bind {server}: {error}")),
        }
    }
}

async fn serve(listener: TcpListener, own: Administration) {
    let own = Arc::new(own);
    let answer = move |question: Question| {
        let own = Arc::clone(&own);
        async move { answered(&own, &question) }
    };
    http::serve(listener, None, http::Server::Rest, answer).await;
}

fn answered(own: &Administration, question: &Question) -> Answer {
    match let_in(own, question.header("authorization")) {
        StatusCode::OK if question.path == PATH => (StatusCode::OK, "application/json", "[]".to_owned()),
        StatusCode::OK => (StatusCode::NOT_FOUND, "text/plain", "unknown request".to_owned()),
        refused => (refused, "text/plain", "refused".to_owned()),
    }
}

/// What the hook before each request does: an exception that it has not thought of is an error of the server.
fn let_in(own: &Administration, authorization: Option<&str>) -> StatusCode {
    let words: Vec<&str> = authorization.unwrap_or_default().split_whitespace().collect();
    let [_, encoded] = words[..] else { return StatusCode::UNAUTHORIZED };
    let text = BASE64_STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let parts: Vec<&str> = text.as_deref().map(|text| text.split(':').collect()).unwrap_or_default();
    match parts[..] {
        [user, password] if user == own.user && password == own.password => StatusCode::OK,
        [_, _] => StatusCode::UNAUTHORIZED,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Asks again and again, as topology does with each scan, and tells who refuses it.
pub async fn ask(asked: Administration, status: Arc<Status>) {
    loop {
        status.lacks(refusal(&asked).await);
        sleep(PERIOD).await;
    }
}

/// What is lacking if a server is there and none lets it in. Whether any is there is no matter of topology's.
async fn refusal(asked: &Administration) -> Option<&'static str> {
    let Some(header) = header(asked) else { return Some(REFUSED) };
    let mut refusal = None;
    for server in &asked.servers {
        match http::get_as(server, &header, PATH).await {
            Ok(StatusCode::OK) => return None,
            Ok(_) => refusal = Some(REFUSED),
            Err(_) => {}
        }
    }
    refusal
}

/// The library sends Latin-1, and has an exception for what that has not (`requests`, `_basic_auth_str`).
fn header(asked: &Administration) -> Option<String> {
    let text = format!("{}:{}", asked.user, asked.password);
    let bytes: Option<Vec<u8>> = text.chars().map(|character| u8::try_from(u32::from(character)).ok()).collect();
    Some(format!("Basic {}", BASE64_STANDARD.encode(bytes?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(user: &str, password: &str) -> Administration {
        Administration { servers: Vec::new(), user: user.into(), password: password.into() }
    }

    /// What the API answers to topology with the same login.
    fn to_itself(user: &str, password: &str) -> Option<StatusCode> {
        let login = login(user, password);
        header(&login).map(|header| let_in(&login, Some(&header)))
    }

    #[test]
    fn who_knows_the_login_is_let_in() {
        let own = login("admin", "s3cret");
        let as_whom = |user: &str, password: &str| let_in(&own, header(&login(user, password)).as_deref());
        assert_eq!(as_whom("admin", "s3cret"), StatusCode::OK);
        for (user, password) in [("admin", "other"), ("user1", "s3cret"), ("user1", "password1"), ("admin", "")] {
            assert_eq!(as_whom(user, password), StatusCode::UNAUTHORIZED, "{user}");
        }
        for header in [None, Some(""), Some("Basic"), Some("Basic a b")] {
            assert_eq!(let_in(&own, header), StatusCode::UNAUTHORIZED, "{header:?}");
        }
        assert_eq!(let_in(&own, Some("Basic ???")), StatusCode::INTERNAL_SERVER_ERROR);
    }

    #[test]
    fn colons_and_other_characters_than_ascii_do_not_arrive() {
        assert_eq!(to_itself("admin", "a%=#\"b"), Some(StatusCode::OK));
        assert_eq!(to_itself("admin", "a:b"), Some(StatusCode::INTERNAL_SERVER_ERROR));
        assert_eq!(to_itself("admin", "é"), Some(StatusCode::INTERNAL_SERVER_ERROR));
        assert_eq!(to_itself("admin", "😀"), None);
    }

    #[tokio::test]
    async fn topology_lacks_what_it_is_refused_and_not_what_is_not_there() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap().to_string();
        let task = tokio::spawn(serve(listener, login("admin", "s3cret")));
        let asked = |password: &str| Administration { servers: vec![server.clone()], ..login("admin", password) };
        assert_eq!(refusal(&asked("s3cret")).await, None);
        assert_eq!(refusal(&asked("other")).await, Some(REFUSED));
        let header = header(&asked("s3cret")).unwrap();
        assert_eq!(http::get_as(&server, &header, "/elsewhere").await.unwrap(), StatusCode::NOT_FOUND);
        task.abort();
        let _ = task.await;
        assert_eq!(refusal(&asked("other")).await, None);
    }
}
