//! As much of the native protocol as questions to system tables need (Cassandra, `native_protocol_v4.spec`): version 4, which
//! every server since 3.0 speaks.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::login::Login;
use crate::{
    paths::Paths,
    probe::{self, Stream, Target},
};

const REQUEST: u8 = 0x04;
const RESPONSE: u8 = 0x84;
/// Of a frame's body. System tables have a row for each member.
const LARGEST_BODY: u32 = 1024 * 1024;
/// Of the local server alone.
const CONSISTENCY_ONE: u16 = 1;
/// Of most members that are to have it.
const CONSISTENCY_QUORUM: u16 = 4;
/// Where a server listens that nobody else is to reach.
const BESIDE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// What frames are about.
mod opcode {
    pub(super) const ERROR: u8 = 0x00;
    pub(super) const STARTUP: u8 = 0x01;
    pub(super) const READY: u8 = 0x02;
    pub(super) const AUTHENTICATE: u8 = 0x03;
    pub(super) const OPTIONS: u8 = 0x05;
    pub(super) const SUPPORTED: u8 = 0x06;
    pub(super) const QUERY: u8 = 0x07;
    pub(super) const RESULT: u8 = 0x08;
    pub(super) const AUTH_RESPONSE: u8 = 0x0f;
    pub(super) const AUTH_SUCCESS: u8 = 0x10;
}

/// A row: its values as the protocol has them, absent where there is none.
pub(super) type Row = Vec<Option<Vec<u8>>>;

/// A connection to a server.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
}

impl Connection {
    /// Connects, and makes sure that the server answers.
    pub(super) async fn open(target: &Target, paths: &Paths) -> Result<Self> {
        Self::over(probe::connect(target, paths).await?).await
    }

    /// The same with a server that nobody else is to reach.
    pub(super) async fn open_beside(target: &Target, paths: &Paths) -> Result<Self> {
        Self::over(probe::connect_at(BESIDE, target, paths).await?).await
    }

    async fn over(stream: Box<dyn Stream>) -> Result<Self> {
        let mut connection = Self { stream };
        let (opcode, _) = connection.ask(opcode::OPTIONS, &[]).await?;
        ensure!(
            opcode == opcode::SUPPORTED,
            "the server answers with message {opcode} where it has to answer SUPPORTED"
        );
        Ok(connection)
    }

    /// Begins a session. Gives back whether the server asked who begins it.
    pub(super) async fn start(&mut self, login: Option<&Login>) -> Result<bool> {
        let mut options = 1_u16.to_be_bytes().to_vec();
        string(&mut options, "CQL_VERSION");
        string(&mut options, "3.0.0");
        match self.ask(opcode::STARTUP, &options).await? {
            (opcode::READY, _) => Ok(false),
            (opcode::AUTHENTICATE, _) => {
                let login = login.context("the server wants a password, and the agent has none")?;
                let (opcode, _) = self.ask(opcode::AUTH_RESPONSE, &bytes(&login.token())).await?;
                ensure!(opcode == opcode::AUTH_SUCCESS, "the server answers a password with message {opcode}");
                Ok(true)
            }
            (other, _) => bail!("the server answers the beginning of a session with message {other}"),
        }
    }

    /// The rows that a query finds. Its columns are of simple types, or maps of them.
    pub(super) async fn query(&mut self, query: &str) -> Result<Vec<Row>> {
        rows(&self.execute(query).await?).context("the answer to a query")
    }

    /// What a statement results in.
    pub(super) async fn execute(&mut self, query: &str) -> Result<Vec<u8>> {
        self.execute_with(CONSISTENCY_ONE, query).await
    }

    /// Has most of the members know something.
    pub(super) async fn tell(&mut self, statement: &str) -> Result<()> {
        self.execute_with(CONSISTENCY_QUORUM, statement).await.map(drop)
    }

    async fn execute_with(&mut self, consistency: u16, query: &str) -> Result<Vec<u8>> {
        let mut body = bytes(query.as_bytes());
        body.extend(consistency.to_be_bytes());
        // No flags.
        body.push(0);
        let (opcode, body) = self.ask(opcode::QUERY, &body).await?;
        ensure!(opcode == opcode::RESULT, "the server answers a query with message {opcode}");
        Ok(body)
    }

    /// One request and its answer: opcode and body.
    async fn ask(&mut self, opcode: u8, body: &[u8]) -> Result<(u8, Vec<u8>)> {
        self.stream.write_all(&frame(opcode, body)).await?;
        self.stream.flush().await?;
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await.context("the server does not answer")?;
        let [version, _, _, _, opcode, length @ ..] = head;
        ensure!(version == RESPONSE, "the server does not speak version 4 of the native protocol");
        let length = u32::from_be_bytes(length);
        ensure!(length <= LARGEST_BODY, "an answer of {length} bytes");
        let mut body = vec![0; length as usize];
        self.stream.read_exact(&mut body).await.context("the server does not end its answer")?;
        if opcode == opcode::ERROR {
            bail!("the server refuses: {}", refusal(&body)?);
        }
        Ok((opcode, body))
    }
}

fn frame(opcode: u8, body: &[u8]) -> Vec<u8> {
    // No flags, and one request at a time.
    let mut frame = vec![REQUEST, 0, 0, 0, opcode];
    frame.extend((body.len() as u32).to_be_bytes());
    frame.extend(body);
    frame
}

/// A long string, or bytes, which are alike.
fn bytes(value: &[u8]) -> Vec<u8> {
    let mut bytes = (value.len() as u32).to_be_bytes().to_vec();
    bytes.extend(value);
    bytes
}

fn string(to: &mut Vec<u8>, text: &str) {
    to.extend((text.len() as u16).to_be_bytes());
    to.extend(text.as_bytes());
}

fn refusal(body: &[u8]) -> Result<String> {
    let mut reader = Reader(body);
    let code = reader.int()?;
    Ok(format!("{} ({code:#06x})", reader.string()?))
}

fn rows(body: &[u8]) -> Result<Vec<Row>> {
    const ROWS: i32 = 2;
    const ONE_TABLE: i32 = 1;
    const HAS_MORE: i32 = 2;
    const NO_COLUMNS: i32 = 4;
    let mut reader = Reader(body);
    ensure!(reader.int()? == ROWS, "there are no rows");
    let flags = reader.int()?;
    let columns = reader.int()?;
    ensure!(flags & (HAS_MORE | NO_COLUMNS) == 0, "it is not complete");
    if flags & ONE_TABLE != 0 {
        reader.string()?;
        reader.string()?;
    }
    for _ in 0..columns {
        if flags & ONE_TABLE == 0 {
            reader.string()?;
            reader.string()?;
        }
        let name = reader.string()?;
        reader.kind().with_context(|| format!("column {name}"))?;
    }
    let count = reader.int()?;
    (0..count).map(|_| (0..columns).map(|_| reader.value()).collect()).collect()
}

/// What is left of a body.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).context("it ends too early")?;
        self.0 = rest;
        Ok(taken)
    }

    fn short(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.take(2)?.try_into()?))
    }

    fn int(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.take(4)?.try_into()?))
    }

    fn string(&mut self) -> Result<String> {
        let length = self.short()?.into();
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    /// A type: a simple one, or a map of them.
    fn kind(&mut self) -> Result<()> {
        /// The first type that has others in it.
        const LIST: u16 = 0x20;
        const MAP: u16 = 0x21;
        match self.short()? {
            MAP => {
                ensure!((1..LIST).contains(&self.short()?) && (1..LIST).contains(&self.short()?), "no simple map");
                Ok(())
            }
            kind => {
                ensure!((1..LIST).contains(&kind), "no simple type");
                Ok(())
            }
        }
    }

    /// A negative length stands for none.
    fn value(&mut self) -> Result<Option<Vec<u8>>> {
        let length = self.int()?;
        usize::try_from(length).ok().map(|length| Ok(self.take(length)?.to_vec())).transpose()
    }
}

/// A map of texts.
pub(super) fn texts(value: &[u8]) -> Result<BTreeMap<String, String>> {
    let mut reader = Reader(value);
    let count = reader.int()?;
    let text = |value: Option<Vec<u8>>| String::from_utf8_lossy(&value.unwrap_or_default()).into_owned();
    (0..count).map(|_| Ok((text(reader.value()?), text(reader.value()?)))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `SELECT schema_version, release_version FROM system.local` as Cassandra 5.0.9 answers it, with another version of the schema.
    fn answer() -> Vec<u8> {
        let mut body = [2_i32, 1, 2].map(i32::to_be_bytes).concat();
        string(&mut body, "system");
        string(&mut body, "local");
        string(&mut body, "schema_version");
        body.extend(0x000c_u16.to_be_bytes());
        string(&mut body, "release_version");
        body.extend(0x000d_u16.to_be_bytes());
        body.extend(1_i32.to_be_bytes());
        body.extend((-1_i32).to_be_bytes());
        body.extend(5_i32.to_be_bytes());
        body.extend(b"5.0.9");
        body
    }

    #[test]
    fn rows_are_read_with_values_that_are_absent() {
        assert_eq!(rows(&answer()).unwrap(), [vec![None, Some(b"5.0.9".to_vec())]]);
    }

    #[test]
    fn a_map_of_texts_is_read_and_half_of_one_is_none() {
        let mut value = 2_i32.to_be_bytes().to_vec();
        for text in ["class", "org.apache.cassandra.locator.SimpleStrategy", "replication_factor", "3"] {
            value.extend((text.len() as i32).to_be_bytes());
            value.extend(text.as_bytes());
        }
        assert_eq!(texts(&value).unwrap()["replication_factor"], "3");
        assert!((0..value.len()).all(|length| texts(&value[..length]).is_err()));
    }

    #[test]
    fn half_an_answer_is_none() {
        let whole = answer();
        for length in 0..whole.len() {
            assert!(rows(&whole[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn a_frame_has_its_length_before_its_body() {
        assert_eq!(frame(opcode::OPTIONS, b"ab"), [4, 0, 0, 0, 5, 0, 0, 0, 2, b'a', b'b']);
    }

    #[test]
    fn a_refusal_is_told_in_the_servers_words() {
        let mut body = 0x2200_i32.to_be_bytes().to_vec();
        string(&mut body, "table gossip_info does not exist");
        assert_eq!(refusal(&body).unwrap(), "table gossip_info does not exist (0x2200)");
    }

    proptest! {
        #[test]
        fn whatever_comes_is_rows_or_an_error(body: Vec<u8>) {
            let _ = rows(&body);
            let _ = texts(&body);
            let _ = refusal(&body);
        }
    }
}
