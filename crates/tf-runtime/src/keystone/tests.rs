//! Logins at a Keystone that is played, over real connections.

use std::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicUsize, Ordering},
};

use tf_api::{common::KeystoneVersion, schema::Sensitive};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    time::{self, Instant},
};

use super::*;

/// A Keystone that knows one password, which may become another one; how often it was asked.
#[derive(Clone, Default)]
struct Played {
    password: Arc<Mutex<String>>,
    asked: Arc<AtomicUsize>,
}

impl Played {
    fn of(password: &str) -> Self {
        Self { password: Arc::new(Mutex::new(password.to_owned())), asked: Arc::default() }
    }

    async fn serve(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let played = self.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut asked = Vec::new();
                while !asked.ends_with(b"}") && stream.read_buf(&mut asked).await.unwrap() > 0 {}
                played.asked.fetch_add(1, Ordering::SeqCst);
                let shown = format!("\"password\":\"{}\"", lock(&played.password));
                let is_right = String::from_utf8(asked).unwrap().contains(&shown);
                let status = if is_right { "201 Created\r\nX-Subject-Token: t" } else { "401 Unauthorized" };
                let _ = stream.write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes()).await;
            }
        });
        at
    }
}

fn logins() -> (Arc<Logins>, mpsc::UnboundedReceiver<Trigger>) {
    let (sender, triggers) = mpsc::unbounded_channel();
    (Arc::new(Logins::new(Authorities::of_nobody(), sender, None)), triggers)
}

fn key() -> Key {
    Key::new("tf", "config1")
}

fn login(at: SocketAddr, password: &str) -> Keystone {
    Keystone {
        version: KeystoneVersion::V3,
        address: at.ip().to_string(),
        port: at.port(),
        public_port: at.port(),
        tls: false,
        insecure: true,
        authority: None,
        username: "admin".into(),
        password: Sensitive::new(password),
        tenant: "admin".into(),
        domain: "Default".into(),
        region: "RegionOne".into(),
    }
}

#[tokio::test]
async fn a_login_that_is_let_in_is_asked_about_once_and_another_one_anew() {
    let keystone = Played::of("right");
    let at = keystone.serve().await;
    let (logins, mut triggers) = logins();
    for _ in 0..3 {
        assert_eq!(logins.refusal(&key(), Some(login(at, "right"))).await, None);
    }
    assert_eq!(keystone.asked.load(Ordering::SeqCst), 1);
    let refused = logins.refusal(&key(), Some(login(at, "wrong"))).await.unwrap();
    let expected = format!("POST http://{at}/v3/auth/tokens: 401 Unauthorized; correct authParameters");
    assert!(refused.starts_with(&expected) && !refused.contains("wrong"), "{refused}");
    assert_eq!(logins.refusal(&key(), Some(login(at, "right"))).await, None);
    assert_eq!(keystone.asked.load(Ordering::SeqCst), 3);
    assert_eq!(logins.refusal(&key(), None).await, None);
    assert!(triggers.try_recv().is_err(), "who waited for an answer is woken by it");
}

#[tokio::test]
async fn a_login_that_is_refused_is_asked_about_again_until_it_is_let_in() {
    let keystone = Played::of("another");
    let at = keystone.serve().await;
    let (logins, mut triggers) = logins();
    assert!(logins.refusal(&key(), Some(login(at, "mine"))).await.is_some());
    "mine".clone_into(&mut lock(&keystone.password));
    time::pause();
    time::advance(RETRY.0 * 2).await;
    time::resume();
    triggers.recv().await.unwrap();
    assert_eq!(logins.refusal(&key(), Some(login(at, "mine"))).await, None);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_answer_refuses_nothing_and_is_asked_again() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = silent.local_addr().unwrap();
    let (logins, mut triggers) = logins();
    let begun = Instant::now();
    assert_eq!(logins.refusal(&key(), Some(login(at, "mine"))).await, None);
    assert!(begun.elapsed() <= PATIENCE + Duration::from_secs(1), "{:?}", begun.elapsed());
    drop(silent);
    assert_eq!(logins.refusal(&key(), Some(login(at, "mine"))).await, None);
    assert!(triggers.try_recv().is_err());
    logins.forget(&key());
    assert!(lock(&logins.asked).is_empty());
}

#[tokio::test]
async fn a_keystone_that_is_busy_refuses_nothing() {
    for (status, is_refused) in [
        ("429 Too Many Requests", false),
        ("503 Service Unavailable", false),
        ("403 Forbidden", true),
        ("404 Not Found", true),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes()).await;
        });
        let refusal = logins().0.refusal(&key(), Some(login(at, "mine"))).await;
        assert_eq!(refusal.is_some(), is_refused, "{status}: {refusal:?}");
    }
}

#[tokio::test]
async fn where_no_keystone_listens_at_port_35357_the_message_names_the_field_to_set() {
    // Nothing has an address of its own in the loopback network.
    let nowhere: SocketAddr = "127.35.3.57:35357".parse().unwrap();
    let error = token(&login(nowhere, "mine"), || Err(String::new()), None).await.unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, TokenError::Silent(_)), "{message}");
    assert!(message.starts_with("POST http://127.35.3.57:35357/v3/auth/tokens: "), "{message}");
    assert!(message.ends_with("set keystoneAuthParameters.adminPort to 5000"), "{message}");

    // A server is there, and says nothing that can be understood.
    let [high, low] = (std::process::id() as u16).to_be_bytes();
    let own = IpAddr::from([127, 36, high, low]);
    let listener = TcpListener::bind((own, 35357)).await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move { listener.accept().await.map(drop) });
    let message = token(&login(at, "mine"), || Err(String::new()), None).await.unwrap_err().to_string();
    assert!(!message.contains("adminPort"), "{message}");
}
