use std::sync::Arc;

use hyper::{HeaderMap, StatusCode};
use tokio::net::TcpListener;

use super::*;
use crate::{
    client::ApiClient,
    exit::Exit,
    http::Question,
    library::{Brought, Library},
    options::{ApiServer, Daemon, Options},
    rest::{self, Memory, Rest},
};

const PASSWORD: &str = "a&b+%<c>='#;%(d)s";
const BOTH: [Version; 2] = [Version::V2, Version::V3];

/// A Keystone that knows `admin` of project `p` and domain `d`. Gives back its port.
async fn keystone(role: &str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let who = Identity {
        user: "admin".into(),
        password: PASSWORD.into(),
        project: "p".into(),
        user_domain: "d".into(),
        project_domain: "d".into(),
    };
    let url = format!("http://127.0.0.1:{port}");
    let account = Account { who: Some(who), role: role.into(), region: "R".into(), url };
    tokio::spawn(Played::new(account).serve(listener, None));
    port
}

fn written(password: &str) -> String {
    password.replace('%', "%%")
}

fn guard(port: u16, version: Version, aaa_mode: &str, more: &str) -> Arc<Guard> {
    let password = written(PASSWORD);
    let path = if version == Version::V2 { "v2.0" } else { "v3" };
    let text = format!(
        "[DEFAULTS]\nauth = keystone\naaa_mode = {aaa_mode}\n[KEYSTONE]\nauth_host = 127.0.0.1\nauth_port = {port}\nauth_protocol = http\n\
         auth_url = http://127.0.0.1:{port}/{path}\nadmin_user = admin\nadmin_password = {password}\nadmin_tenant_name = p\n\
         user_domain_name = d\nproject_domain_name = d\nregion_name = R\n"
    );
    // What a later file says counts.
    Options::read(Daemon::Api, &[text, format!("[KEYSTONE]\n{more}\n")]).unwrap().guard.unwrap()
}

fn library(port: u16, version: Version, password: &str) -> Library {
    let path = if version == Version::V2 { "/v2.0/tokens" } else { "/v3/auth/tokens" };
    let text = format!(
        "[global]\n[auth]\nAUTHN_SERVER = 127.0.0.1\nAUTHN_PORT = {port}\nAUTHN_URL = {path}\nAUTHN_DOMAIN = d\nAUTHN_USER = admin\n\
         AUTHN_PASSWORD = {}\nAUTHN_TENANT = p\n",
        written(password)
    );
    Library::of(&text).unwrap()
}

/// An API behind a guard. Gives back its port.
async fn api(guard: Arc<Guard>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let rest = Arc::new(Rest::new(Memory::default()));
    rest.begin().await.unwrap();
    let answer = move |question: Question| {
        let (guard, rest) = (Arc::clone(&guard), Arc::clone(&rest));
        async move {
            match guard.admit(&question.path, question.header(TOKEN)).await {
                Ok(()) => rest::answer(&rest, &question).await,
                Err(refusal) => refusal,
            }
        }
    };
    tokio::spawn(http::serve(listener, None, http::Server::Native, answer));
    port
}

async fn begun(api: u16, library: &Library) -> Result<Option<String>, Exit> {
    let server = ApiServer { hosts: vec!["127.0.0.1".into()], port: api, tls: false };
    ApiClient::new(server, library, &Brought::default()).unwrap().begin().await
}

async fn told(guard: &Guard, path: &str, token: Option<&str>) -> Option<StatusCode> {
    guard.admit(path, token).await.err().map(|(status, ..)| status)
}

async fn token(port: u16) -> String {
    let login = library(port, Version::V3, PASSWORD).login(&Brought::default()).unwrap().unwrap();
    login.token().await.unwrap().id
}

#[tokio::test]
async fn whoever_keystone_knows_is_let_in_and_everybody_else_says_so_without_the_password() {
    let keystone = keystone("admin").await;
    for version in BOTH {
        let api = api(guard(keystone, version, "rbac", "")).await;
        assert!(begun(api, &library(keystone, version, PASSWORD)).await.unwrap().is_some());
        let refused = begun(api, &library(keystone, version, "hunter2")).await.unwrap_err();
        assert!(refused.code == 1 && refused.why.contains("Authentication Failure"), "{}", refused.why);
        // It is no JSON any more.
        let broken = begun(api, &library(keystone, version, "hunter2é")).await.unwrap_err();
        assert!(broken.why.contains("400") && !format!("{} {}", refused.why, broken.why).contains("hunter2"));
        let gone = begun(api, &library(1, version, PASSWORD)).await.unwrap_err();
        assert!(gone.why.contains("Unable to connect to keystone (http://127.0.0.1:1/"), "{}", gone.why);
        let noauth = Library::of("[global]\n[auth]\nAUTHN_TYPE = noauth\n").unwrap();
        assert!(begun(api, &noauth).await.unwrap_err().why.contains("401"));
    }
}

#[tokio::test]
async fn without_a_mode_that_asks_nobody_needs_a_token() {
    let api = api(guard(1, Version::V3, "no-auth", "")).await;
    assert_eq!(begun(api, &library(1, Version::V3, "x")).await.unwrap(), None);
    let read = |text: &str| Options::read(Daemon::Api, &[text.to_owned()]).unwrap().guard;
    assert!(read("[DEFAULTS]\nauth = noauth\n").is_none() && read("[DEFAULTS]\naaa_mode = rbac\n").is_none());
}

#[tokio::test]
async fn the_first_page_is_open_and_another_one_for_tokens_that_are_known() {
    let keystone = keystone("admin").await;
    for version in BOTH {
        let guard = guard(keystone, version, "cloud-admin", "");
        for open in ["/", "/?exclude_hrefs=true", "/documentation/index.html"] {
            assert_eq!(told(&guard, open, None).await, None, "{open}");
        }
        assert_eq!(told(&guard, "/domains", None).await, Some(StatusCode::UNAUTHORIZED));
        assert_eq!(told(&guard, "/domains", Some("made-up")).await, Some(StatusCode::UNAUTHORIZED));
        assert_eq!(told(&guard, "/domains", Some(&token(keystone).await)).await, None);
    }
}

#[tokio::test]
async fn a_role_that_is_none_is_not_enough() {
    let keystone = keystone("member").await;
    let token = token(keystone).await;
    for version in BOTH {
        for mode in ["cloud-admin", "rbac"] {
            let guard = guard(keystone, version, mode, "");
            assert_eq!(told(&guard, "/domains", Some(&token)).await, Some(StatusCode::FORBIDDEN), "{mode}");
        }
    }
}

#[tokio::test]
async fn an_api_that_is_not_let_in_itself_lets_in_nobody() {
    let keystone = keystone("admin").await;
    let token = token(keystone).await;
    let wrong = ["admin_password = hunter2", "admin_tenant_name = q", "admin_user = operator"];
    for (version, more) in BOTH.into_iter().flat_map(|version| wrong.map(|more| (version, more))) {
        let guard = guard(keystone, version, "rbac", more);
        assert_eq!(told(&guard, "/domains", Some(&token)).await, Some(StatusCode::SERVICE_UNAVAILABLE), "{more}");
    }
    for more in ["region_name = Q", "interface = nothing", "user_domain_name = e", "project_domain_name = e"] {
        let guard = guard(keystone, Version::V3, "rbac", more);
        assert_eq!(told(&guard, "/domains", Some(&token)).await, Some(StatusCode::SERVICE_UNAVAILABLE), "{more}");
    }
}

#[tokio::test]
async fn a_keystone_without_an_account_takes_whoever_brings_a_password() {
    let account = Account { who: None, role: "admin".into(), region: "R".into(), url: "http://played".into() };
    let played = Played::new(account);
    let asked = |version: Version, password: &str| {
        let who = Identity {
            user: "u".into(),
            password: password.into(),
            project: "p".into(),
            user_domain: "d".into(),
            project_domain: "d".into(),
        };
        let path = if version == Version::V2 { "/v2.0/tokens" } else { "/v3/auth/tokens" };
        let body = who.question(version).to_string().into();
        let question = Question { method: "POST".into(), path: path.into(), body, headers: HeaderMap::new() };
        played.answer(&question).answer.0
    };
    assert_eq!((asked(Version::V2, "any"), asked(Version::V3, "any")), (StatusCode::OK, StatusCode::CREATED));
    assert_eq!((asked(Version::V2, ""), asked(Version::V3, "")), (StatusCode::UNAUTHORIZED, StatusCode::UNAUTHORIZED));
}

#[test]
fn urls_have_a_protocol_a_host_and_a_port() {
    let read = |text: &str| Url::read(text).map(|url| url.to_string());
    for (text, url) in [
        ("https://192.0.2.1:5000/v3", "https://192.0.2.1:5000/v3"),
        ("http://keystone/v2.0/", "http://keystone:80/v2.0"),
        ("https://[fd00::1]:35357/v3/auth/tokens", "https://[fd00::1]:35357/v3/auth/tokens"),
        ("https://[fd00::1]", "https://[fd00::1]:443"),
    ] {
        assert_eq!(read(text).as_deref(), Some(url));
    }
    for text in ["", "keystone:5000", "ftp://keystone", "http://", "http://k:port", "http://fd00::1:5000/v3"] {
        assert_eq!(read(text), None, "{text}");
    }
}
