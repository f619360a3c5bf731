//! A client as Tungsten Fabric's are: TLS, a password, and requests with short answers.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufStream};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::{CONNECTION, NAME, REDIS_PORT};
use crate::{store::NAMESPACE, tls::Access};

/// Where Sentinels are asked.
pub const SENTINEL_PORT: u16 = 26_389;

/// For a connection, or an answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// What clients are given.
#[derive(Clone)]
pub struct Login {
    access: Access,
    password: Option<String>,
}

impl Login {
    /// What the operator publishes for them.
    pub async fn of(client: &Client) -> Result<Self> {
        Self::to(client, "redis", REDIS_PORT).await
    }

    /// The same, where clients ask Sentinels for the server that takes writes.
    pub async fn by_sentinel(client: &Client) -> Result<Self> {
        Self::to(client, "redis-sentinel", SENTINEL_PORT).await
    }

    async fn to(client: &Client, kind: &str, port: u16) -> Result<Self> {
        let secret = Api::<Secret>::namespaced(client.clone(), NAMESPACE).get(CONNECTION).await?;
        let data = secret.data.context("an empty Secret")?;
        let text = |key: &str| String::from_utf8(data.get(key).map(|it| it.0.clone()).unwrap_or_default());
        ensure!(text("type")? == kind && text("port")? == port.to_string(), "{:?}", data.keys());
        ensure!(kind == "redis" || text("masterName")? == NAME, "{:?}", data.keys());
        Ok(Self { access: Access::of(client).await?, password: Some(text("password")?) })
    }

    /// The same by another password, or by none.
    pub fn by(&self, password: Option<&str>) -> Self {
        Self { password: password.map(str::to_owned), ..self.clone() }
    }

    /// The same with another idea of whom to trust and what to show.
    pub fn through(&self, access: Access) -> Self {
        Self { access, ..self.clone() }
    }

    /// A session with one server.
    pub async fn connect(&self, address: IpAddr) -> Result<Session<TlsStream<TcpStream>>> {
        self.session(address, REDIS_PORT).await
    }

    /// The server that takes writes, as the first Sentinel has it that answers.
    pub async fn master(&self, addresses: &[IpAddr]) -> Result<IpAddr> {
        for address in addresses {
            let Ok(mut sentinel) = self.session(*address, SENTINEL_PORT).await else { continue };
            let answer = sentinel.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]).await?;
            let (host, port) = answer.split_once(' ').with_context(|| answer.clone())?;
            ensure!(port == REDIS_PORT.to_string(), "{answer}");
            return Ok(host.parse()?);
        }
        bail!("no Sentinel answers")
    }

    /// How many servers copy the one that takes writes, and how many Sentinels there are, as all of them have it that answer.
    pub async fn counted(&self, addresses: &[IpAddr]) -> Result<(usize, usize)> {
        let mut counts = None;
        for address in addresses {
            let Ok(mut sentinel) = self.session(*address, SENTINEL_PORT).await else { continue };
            // `master0:name=redis1,status=ok,address=192.0.2.1:6389,slaves=2,sentinels=3`
            let info = sentinel.ask(&["INFO", "sentinel"]).await?;
            let count = |name: &str| info.split([',', '\r', '\n']).find_map(|it| it.strip_prefix(name)?.parse().ok());
            let now = count("slaves=").zip(count("sentinels=")).with_context(|| info.clone())?;
            ensure!(counts.is_none_or(|before| before == now), "{address}: {now:?} and {counts:?}");
            counts = Some(now);
        }
        counts.context("no Sentinel answers")
    }

    async fn session(&self, address: IpAddr, port: u16) -> Result<Session<TlsStream<TcpStream>>> {
        let stream = timeout(PATIENCE, self.access.stream(address, port)).await??;
        let mut session = Session { stream: BufStream::new(stream) };
        if let Some(password) = &self.password {
            ensure!(session.ask(&["AUTH", password]).await? == "OK", "{address}: AUTH");
        }
        Ok(session)
    }

    /// Whether a server answers a new client.
    pub async fn is_served(&self, address: IpAddr) -> Result<()> {
        let answer = self.connect(address).await?.ask(&["PING"]).await?;
        ensure!(answer == "PONG", "{address}: {answer}");
        Ok(())
    }
}

/// Whether a server answers a client that does not speak TLS.
pub async fn answers_without_tls(address: IpAddr) -> Result<bool> {
    let mut session = Session { stream: BufStream::new(TcpStream::connect((address, REDIS_PORT)).await?) };
    Ok(session.ask(&["PING"]).await.is_ok())
}

/// A session with a server.
pub struct Session<S> {
    stream: BufStream<S>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    /// A request and its answer, which is a word, a number, a text, or several, with blanks between. A refusal is an error.
    pub async fn ask(&mut self, request: &[&str]) -> Result<String> {
        timeout(PATIENCE, self.answer(request)).await?
    }

    async fn answer(&mut self, request: &[&str]) -> Result<String> {
        let words: Vec<String> = request.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        self.stream.write_all(format!("*{}\r\n{}", request.len(), words.concat()).as_bytes()).await?;
        self.stream.flush().await?;
        let line = self.line().await?;
        let Some(count) = line.strip_prefix('*') else { return self.reply(&line).await };
        let mut words = Vec::new();
        for _ in 0..count.parse::<usize>()? {
            let line = self.line().await?;
            words.push(self.reply(&line).await?);
        }
        Ok(words.join(" "))
    }

    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).await?;
        Ok(line.strip_suffix("\r\n").context("no answer")?.to_owned())
    }

    async fn reply(&mut self, line: &str) -> Result<String> {
        match (line.get(..1), line.get(1..)) {
            (Some("+" | ":"), Some(word)) => Ok(word.to_owned()),
            (Some("$"), Some("-1")) => Ok(String::new()),
            (Some("$"), Some(length)) => {
                let mut text = vec![0; length.parse::<usize>()? + 2];
                self.stream.read_exact(&mut text).await?;
                text.truncate(text.len() - 2);
                Ok(String::from_utf8(text)?)
            }
            _ => bail!("{line}"),
        }
    }
}
