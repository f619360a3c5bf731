//! The database: CQL (native protocol 4) over TLS, with a quorum. A driver would choose servers by itself; here the first one that answers
//! is used, and the next one when it does not any more.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    sync::Mutex,
    time::{sleep, timeout},
};
use tokio_rustls::TlsConnector;

use crate::{
    exit::{Exit, exception},
    options::Cassandra,
    status::{Peer, State, Status},
    tls,
};

/// For a connection, or an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// For a change of the schema.
const SLOW: Duration = Duration::from_secs(30);
/// Between two questions whether it is there.
const PERIOD: Duration = Duration::from_secs(2);
const QUORUM: u16 = 4;

/// Messages of the protocol.
const ERROR: u8 = 0;
const STARTUP: u8 = 1;
const READY: u8 = 2;
const AUTHENTICATE: u8 = 3;
const QUERY: u8 = 7;
const RESULT: u8 = 8;
const AUTH_RESPONSE: u8 = 15;
const AUTH_SUCCESS: u8 = 16;
/// Errors after which the next server is asked: in the server, overloaded, bootstrapping, truncating.
const ELSEWHERE: [i32; 4] = [0x0000, 0x1001, 0x1002, 0x1003];
/// A result with rows.
const ROWS: i32 = 2;

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// The database as a daemon uses it.
pub struct Database {
    options: Cassandra,
    status: Arc<Status>,
    session: Mutex<Option<Session>>,
}

impl Database {
    /// Connects once: a daemon that finds no server ends (docs/upstream/observed.md#stores).
    ///
    /// # Errors
    /// When no server lets it in, or there are no authorities where they are named.
    pub async fn connect(options: &Cassandra, status: &Arc<Status>) -> Result<Arc<Self>, Exit> {
        if options.tls
            && let Some(path) = &options.authorities
        {
            tls::text(path).map_err(|error| exception(format!("{error:#}")))?;
        }
        let database = Self::new(options, status);
        let first = database.execute("SELECT key FROM system.local").await;
        first.map_err(|error| exception(format!("cassandra.cluster.NoHostAvailable: {error:#}")))?;
        Ok(database)
    }

    /// One that is not connected yet.
    pub fn new(options: &Cassandra, status: &Arc<Status>) -> Arc<Self> {
        Arc::new(Self { options: options.clone(), status: Arc::clone(status), session: Mutex::new(None) })
    }

    /// Looks every now and then whether it is there, and connects again when it was not.
    pub async fn watch(&self, keyspace: &str) {
        // All replicas of a token are asked.
        let probe = format!("SELECT value FROM {keyspace}.sim WHERE key = 'probe'");
        loop {
            sleep(PERIOD).await;
            let _ = self.execute(&probe).await;
        }
    }

    /// Whether a keyspace has its table.
    ///
    /// # Errors
    /// When no server says.
    pub async fn has(&self, keyspace: &str) -> Result<bool> {
        let statement = "SELECT table_name FROM system_schema.tables WHERE keyspace_name =";
        Ok(!self.select(&format!("{statement} '{keyspace}' AND table_name = 'sim'")).await?.is_empty())
    }

    /// Makes a keyspace as the daemons do: on as many members as the list has entries, and never altered later.
    ///
    /// # Errors
    /// When no server does it.
    pub async fn make(&self, keyspace: &str) -> Result<()> {
        let factor = self.options.listed;
        let replication = format!("{{'class': 'SimpleStrategy', 'replication_factor': '{factor}'}}");
        self.define(&format!("CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {replication}")).await?;
        self.define(&format!("CREATE TABLE IF NOT EXISTS {keyspace}.sim (key text PRIMARY KEY, value text)")).await
    }

    /// Keeps a text under a key.
    ///
    /// # Errors
    /// When no quorum has it.
    pub async fn put(&self, keyspace: &str, key: &str, value: &str) -> Result<()> {
        let quoted = value.replace('\'', "''");
        self.execute(&format!("INSERT INTO {keyspace}.sim (key, value) VALUES ('{key}', '{quoted}')")).await.map(drop)
    }

    /// The text under a key that the caller has looked at, if there is one.
    ///
    /// # Errors
    /// When a quorum does not tell.
    pub async fn get(&self, keyspace: &str, key: &str) -> Result<Option<String>> {
        let rows = self.select(&format!("SELECT value FROM {keyspace}.sim WHERE key = '{key}'")).await?;
        Ok(rows.into_iter().next().and_then(|row| row.into_iter().next()))
    }

    /// The texts in the columns of each row that a question has for an answer.
    ///
    /// # Errors
    /// When a quorum does not tell.
    pub async fn select(&self, question: &str) -> Result<Vec<Vec<String>>> {
        rows(&self.execute(question).await?).context("an answer that cannot be read")
    }

    /// All texts whose keys begin so: the whole table is read, which is small.
    ///
    /// # Errors
    /// When a quorum does not tell.
    pub async fn all(&self, keyspace: &str, beginning: &str) -> Result<Vec<String>> {
        let rows = self.select(&format!("SELECT key, value FROM {keyspace}.sim")).await?;
        let mut those: Vec<_> = rows
            .into_iter()
            .filter_map(|row| <[String; 2]>::try_from(row).ok())
            .filter(|[key, _]| key.starts_with(beginning))
            .collect();
        those.sort();
        Ok(those.into_iter().map(|[_, value]| value).collect())
    }

    /// Removes the text under a key.
    ///
    /// # Errors
    /// When no quorum does.
    pub async fn remove(&self, keyspace: &str, key: &str) -> Result<()> {
        self.execute(&format!("DELETE FROM {keyspace}.sim WHERE key = '{key}'")).await.map(drop)
    }

    async fn define(&self, statement: &str) -> Result<()> {
        self.within(SLOW, statement).await.map(drop)
    }

    async fn execute(&self, statement: &str) -> Result<Vec<u8>> {
        self.within(PATIENCE, statement).await
    }

    /// Asks, and asks the next server when the connection ends before there is an answer, or the server says that it cannot by itself, such as
    /// one that is shutting down; as the driver does (cassandra-driver, `ResponseFuture._set_result`, `RetryPolicy.on_request_error`).
    async fn within(&self, limit: Duration, statement: &str) -> Result<Vec<u8>> {
        let mut session = self.session.lock().await;
        let mut others = self.options.hosts.len();
        let mut unable = None;
        loop {
            if session.is_none() {
                match self.open(unable.as_deref()).await {
                    Ok(opened) => *session = Some(opened),
                    Err(error) => {
                        self.status.set(Peer::Cassandra, State::Down(format!("{error:#}")));
                        return Err(error);
                    }
                }
            }
            let open = session.as_mut().context("no session")?;
            let asked = timeout(limit, open.query(statement)).await;
            match asked.unwrap_or_else(|_| Err(anyhow!("no answer in time"))) {
                Ok(answer) => {
                    self.status.set(Peer::Cassandra, State::Up(open.server.clone()));
                    return Ok(answer);
                }
                Err(error) => {
                    self.status.set(Peer::Cassandra, State::Down(format!("{error:#}")));
                    unable = session.take().map(|session| session.host);
                    if !is_for_another(&error) || others == 0 {
                        return Err(error);
                    }
                    others -= 1;
                }
            }
        }
    }

    /// `unable`: who could not answer a moment ago, and is asked last.
    async fn open(&self, unable: Option<&str>) -> Result<Session> {
        let mut last = anyhow!("no servers are named");
        let (others, itself): (Vec<_>, Vec<_>) =
            self.options.hosts.iter().partition(|host| Some(host.as_str()) != unable);
        for host in others.into_iter().chain(itself) {
            match timeout(PATIENCE, self.open_at(host)).await {
                Ok(Ok(session)) => return Ok(session),
                Ok(Err(error)) => last = error.context(host.clone()),
                Err(_) => last = anyhow!("{host}: no answer"),
            }
        }
        Err(last)
    }

    async fn open_at(&self, host: &str) -> Result<Session> {
        let port = self.options.port;
        let stream = TcpStream::connect((host, port)).await?;
        let stream: Box<dyn Stream> = if self.options.tls {
            let authorities =
                self.options.authorities.as_deref().context("no cassandra_ca_certs to check servers by")?;
            let name = ServerName::try_from(host.to_owned())?;
            Box::new(TlsConnector::from(tls::client(authorities, None)?).connect(name, stream).await?)
        } else {
            Box::new(stream)
        };
        let mut session = Session { stream, host: host.to_owned(), server: format!("{host}:{port}") };
        session.begin(self.options.login.as_ref()).await?;
        Ok(session)
    }
}

/// What a server says instead of an answer.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct AgentReport {
    code: i32,
    text: String,
}

/// Whether another server may answer the same question.
fn is_for_another(error: &anyhow::Error) -> bool {
    let is_cut_off = error.chain().any(<dyn std::error::Error>::is::<std::io::Error>);
    is_cut_off || error.downcast_ref::<AgentReport>().is_some_and(|told| ELSEWHERE.contains(&told.code))
}

struct Session {
    stream: Box<dyn Stream>,
    host: String,
    server: String,
}

impl Session {
    async fn begin(&mut self, login: Option<&(String, String)>) -> Result<()> {
        let mut body = 1_u16.to_be_bytes().to_vec();
        for text in ["CQL_VERSION", "3.0.0"] {
            body.extend((text.len() as u16).to_be_bytes());
            body.extend(text.as_bytes());
        }
        let (kind, _) = self.ask(STARTUP, &body).await?;
        if kind == AUTHENTICATE {
            let (user, password) = login.context("AuthenticationFailed: the server asks for a login")?;
            let token = format!("\0{user}\0{password}");
            let mut body = (token.len() as u32).to_be_bytes().to_vec();
            body.extend(token.as_bytes());
            let (kind, _) = self.ask(AUTH_RESPONSE, &body).await?;
            ensure!(kind == AUTH_SUCCESS, "message {kind}");
            return Ok(());
        }
        ensure!(kind == READY, "message {kind}");
        Ok(())
    }

    async fn query(&mut self, statement: &str) -> Result<Vec<u8>> {
        let mut body = (statement.len() as u32).to_be_bytes().to_vec();
        body.extend(statement.as_bytes());
        body.extend(QUORUM.to_be_bytes());
        body.push(0);
        let (kind, body) = self.ask(QUERY, &body).await?;
        ensure!(kind == RESULT, "message {kind}");
        Ok(body)
    }

    async fn ask(&mut self, kind: u8, body: &[u8]) -> Result<(u8, Vec<u8>)> {
        let mut frame = vec![4, 0, 0, 0, kind];
        frame.extend((body.len() as u32).to_be_bytes());
        frame.extend(body);
        self.stream.write_all(&frame).await?;
        self.stream.flush().await?;
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await.context("the connection ended")?;
        let [_, _, _, _, kind, length @ ..] = head;
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut body).await?;
        if kind == ERROR {
            let code = int(&mut body.as_slice()).context("half an error")?;
            bail!(AgentReport { code, text: String::from_utf8_lossy(body.get(6..).unwrap_or_default()).into_owned() });
        }
        Ok((kind, body))
    }
}

/// The texts in the columns of each row.
fn rows(answer: &[u8]) -> Option<Vec<Vec<String>>> {
    let mut rest = answer;
    if int(&mut rest)? != ROWS {
        return None;
    }
    let flags = int(&mut rest)?;
    let columns = int(&mut rest)?;
    if flags != 1 {
        return None;
    }
    // Names of keyspace and table, then the name and the type of each column.
    for _ in 0..2 {
        skip(&mut rest)?;
    }
    for _ in 0..columns {
        skip(&mut rest)?;
        let _: [u8; 2] = take(&mut rest)?;
    }
    let count = int(&mut rest)?;
    (0..count).map(|_| (0..columns).map(|_| cell(&mut rest)).collect()).collect()
}

fn skip(rest: &mut &[u8]) -> Option<()> {
    let length = usize::from(u16::from_be_bytes(take(rest)?));
    *rest = rest.get(length..)?;
    Some(())
}

fn cell(rest: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(int(rest)?).ok()?;
    let (text, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    String::from_utf8(text.to_vec()).ok()
}

fn int(rest: &mut &[u8]) -> Option<i32> {
    take(rest).map(i32::from_be_bytes)
}

fn take<const LENGTH: usize>(rest: &mut &[u8]) -> Option<[u8; LENGTH]> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use tokio::{net::TcpListener, task::JoinHandle};

    use super::*;

    fn answer(columns: &[&str], cells: &[&[&str]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [ROWS, 1, columns.len() as i32] {
            bytes.extend(number.to_be_bytes());
        }
        let text = |bytes: &mut Vec<u8>, text: &str| {
            bytes.extend((text.len() as u16).to_be_bytes());
            bytes.extend(text.as_bytes());
        };
        text(&mut bytes, "keyspace");
        text(&mut bytes, "sim");
        for column in columns {
            text(&mut bytes, column);
            bytes.extend(13_u16.to_be_bytes());
        }
        bytes.extend((cells.len() as i32).to_be_bytes());
        for cell in cells.iter().copied().flatten() {
            bytes.extend((cell.len() as i32).to_be_bytes());
            bytes.extend(cell.as_bytes());
        }
        bytes
    }

    /// A server that gives these answers over one connection after the other, each with this body. It tells how many questions it had.
    fn server(listener: TcpListener, connections: Vec<Vec<(u8, Vec<u8>)>>) -> JoinHandle<usize> {
        tokio::spawn(async move {
            let mut asked = 0;
            for answers in connections {
                let (mut stream, _) = listener.accept().await.unwrap();
                for (kind, body) in answers {
                    let mut head = [0; 9];
                    stream.read_exact(&mut head).await.unwrap();
                    let length = u32::from_be_bytes(head[5..].try_into().unwrap());
                    stream.read_exact(&mut vec![0; length as usize]).await.unwrap();
                    stream.write_all(&[4, 0, 0, 0, kind, 0, 0, 0, body.len() as u8]).await.unwrap();
                    stream.write_all(&body).await.unwrap();
                    asked += usize::from(head[4] == QUERY);
                }
            }
            asked
        })
    }

    fn database(hosts: &[&str], port: u16) -> Arc<Database> {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let options = Cassandra { listed: hosts.len(), hosts, port, tls: false, authorities: None, login: None };
        let status = Status::new("contrail-api", "0", "node-1", &[Peer::Cassandra]);
        Database::new(&options, &Arc::new(status))
    }

    fn error(code: i32) -> (u8, Vec<u8>) {
        (ERROR, [&code.to_be_bytes()[..], b"\0\x17Server is shutting down"].concat())
    }

    #[tokio::test]
    async fn a_question_whose_connection_ends_is_asked_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let database = database(&["127.0.0.1"], listener.local_addr().unwrap().port());
        let (ready, result) = ((READY, Vec::new()), (RESULT, Vec::new()));
        let server = server(listener, vec![vec![ready.clone()], vec![ready, result]]);
        assert_eq!(database.execute("SELECT key FROM system.local").await.unwrap(), Vec::<u8>::new());
        assert_eq!(server.await.unwrap(), 1);
    }

    #[tokio::test]
    async fn the_next_server_is_asked_where_one_says_that_it_cannot_by_itself() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let next = TcpListener::bind(("127.0.0.2", port)).await.unwrap();
        let (ready, result) = ((READY, Vec::new()), (RESULT, Vec::new()));
        let unable = server(listener, vec![vec![ready.clone(), error(0x1001)]]);
        let able = server(next, vec![vec![ready, result]]);
        let database = database(&["127.0.0.1", "127.0.0.2"], port);
        assert_eq!(database.execute("SELECT key FROM system.local").await.unwrap(), Vec::<u8>::new());
        assert_eq!((unable.await.unwrap(), able.await.unwrap()), (1, 1));
    }

    #[tokio::test]
    async fn what_the_question_is_to_blame_for_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let database = database(&["127.0.0.1"], listener.local_addr().unwrap().port());
        let server = server(listener, vec![vec![(READY, Vec::new()), error(0x2000)]]);
        let told = database.execute("SELECT").await.unwrap_err();
        assert_eq!(told.to_string(), "Server is shutting down");
        assert_eq!(server.await.unwrap(), 1);
    }

    #[test]
    fn every_row_is_read_and_what_is_cut_off_is_not() {
        assert_eq!(rows(&answer(&["value"], &[])), Some(Vec::new()));
        let whole = answer(&["key", "value"], &[&["a", "text"], &["b", ""]]);
        assert_eq!(rows(&whole), Some(vec![vec!["a".into(), "text".into()], vec!["b".into(), String::new()]]));
        for length in 0..whole.len() {
            assert_eq!(rows(&whole[..length]), None, "{length}");
        }
    }
}
