//! A client as Tungsten Fabric's are: CQL over TLS, without a certificate of its own, and everything with a quorum. A driver would
//! choose servers by itself; here it is said which one is asked.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::CQL_PORT;
use crate::tls::Access;

/// For a connection, or an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// For the schema to be agreed upon.
const SLOW: Duration = Duration::from_secs(30);
/// For a server to turn away what it does not understand.
const REFUSAL: Duration = Duration::from_secs(3);
const ONE: u16 = 1;
const QUORUM: u16 = 4;

impl Access {
    /// A session with one server.
    pub async fn connect(&self, address: IpAddr) -> Result<Session<TlsStream<TcpStream>>> {
        let login = self.login.as_ref();
        timeout(PATIENCE, async { Session::begin(self.stream(address, CQL_PORT).await?, login).await }).await?
    }
}

/// Whether a server answers a client that does not speak TLS.
pub async fn answers_without_tls(address: IpAddr) -> Result<bool> {
    let stream = TcpStream::connect((address, CQL_PORT)).await?;
    Ok(timeout(REFUSAL, Session::begin(stream, None)).await.is_ok_and(|session| session.is_ok()))
}

/// A session with a server.
pub struct Session<S> {
    stream: S,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    async fn begin(stream: S, login: Option<&(String, String)>) -> Result<Self> {
        let mut session = Self { stream };
        let mut body = 1_u16.to_be_bytes().to_vec();
        for text in ["CQL_VERSION", "3.0.0"] {
            body.extend((text.len() as u16).to_be_bytes());
            body.extend(text.as_bytes());
        }
        let (opcode, _) = session.ask(1, &body).await?;
        if opcode == 3 {
            let (user, password) = login.context("a password is asked for")?;
            let token = format!("\0{user}\0{password}");
            let mut body = (token.len() as u32).to_be_bytes().to_vec();
            body.extend(token.as_bytes());
            let (opcode, _) = session.ask(15, &body).await?;
            ensure!(opcode == 16, "a password is answered with message {opcode}");
            return Ok(session);
        }
        ensure!(opcode == 2, "the session begins with message {opcode}");
        Ok(session)
    }

    /// A statement with a quorum.
    pub async fn execute(&mut self, statement: &str) -> Result<()> {
        self.within(PATIENCE, statement).await.map(drop)
    }

    /// A statement that changes the schema of this server. The others learn of it afterwards.
    pub async fn define(&mut self, statement: &str) -> Result<()> {
        self.within(SLOW, statement).await.map(drop)
    }

    /// How many rows there are, with a quorum, of `lab.journal WHERE ...`.
    pub async fn count(&mut self, which: &str) -> Result<i64> {
        let answer = self.within(PATIENCE, &format!("SELECT count(*) FROM {which}")).await?;
        Ok(i64::from_be_bytes(last(&answer)?))
    }

    /// The same in the words of one server.
    pub async fn count_at_one(&mut self, which: &str) -> Result<i64> {
        let answer = self.asking(ONE, PATIENCE, &format!("SELECT count(*) FROM {which}")).await?;
        Ok(i64::from_be_bytes(last(&answer)?))
    }

    /// On how many servers each row of a keyspace is to be.
    pub async fn factor(&mut self, keyspace: &str) -> Result<String> {
        let which = format!("system_schema.keyspaces WHERE keyspace_name = '{keyspace}'");
        let answer = self.within(PATIENCE, &format!("SELECT replication FROM {which}")).await?;
        let text = String::from_utf8_lossy(&answer).into_owned();
        let (_, rest) = text.split_once("replication_factor").context("no factor")?;
        Ok(rest.chars().filter(char::is_ascii_digit).take(1).collect())
    }

    /// Version of the schema that the server goes by.
    pub async fn schema(&mut self) -> Result<[u8; 16]> {
        last(&self.within(PATIENCE, "SELECT schema_version FROM system.local").await?)
    }

    async fn within(&mut self, limit: Duration, statement: &str) -> Result<Vec<u8>> {
        self.asking(QUORUM, limit, statement).await
    }

    async fn asking(&mut self, servers: u16, limit: Duration, statement: &str) -> Result<Vec<u8>> {
        let mut body = (statement.len() as u32).to_be_bytes().to_vec();
        body.extend(statement.as_bytes());
        body.extend(servers.to_be_bytes());
        body.push(0);
        let (opcode, body) = timeout(limit, self.ask(7, &body)).await??;
        ensure!(opcode == 8, "{statement}: message {opcode}");
        Ok(body)
    }

    async fn ask(&mut self, opcode: u8, body: &[u8]) -> Result<(u8, Vec<u8>)> {
        let mut frame = vec![4, 0, 0, 0, opcode];
        frame.extend((body.len() as u32).to_be_bytes());
        frame.extend(body);
        self.stream.write_all(&frame).await?;
        self.stream.flush().await?;
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await.context("no answer")?;
        let [_, _, _, _, opcode, length @ ..] = head;
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut body).await?;
        if opcode == 0 {
            bail!("{}", String::from_utf8_lossy(body.get(6..).unwrap_or_default()));
        }
        Ok((opcode, body))
    }
}

/// The one value of one row, which is the last thing in an answer.
fn last<const LENGTH: usize>(answer: &[u8]) -> Result<[u8; LENGTH]> {
    Ok(*answer.last_chunk().context("no value")?)
}
