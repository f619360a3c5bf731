//! A session with a ZooKeeper server, for one request: the client's side of its protocol (`zookeeper.jute`,
//! `ClientCnxn` of ZooKeeper 3.9).
//!
//! Client libraries for it bring a runtime of their own with a thread beside this program's only one; what is needed is four
//! messages. Numbers are big-endian; each message, text and buffer follows its length.

use anyhow::{Context as _, Result, bail, ensure};
use tf_agent_api::zookeeper::Servers;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::probe::Stream;

/// No list of members comes near it.
const LARGEST_MESSAGE: usize = 1024 * 1024;
/// Milliseconds after which the server forgets a session that was not closed.
const SESSION_TIMEOUT: i32 = 10_000;

const AUTH: i32 = 100;
const RECONFIG: i32 = 16;
const CLOSE: i32 = -11;
const AUTH_XID: i32 = -4;
const REQUEST_XID: i32 = 1;

/// An open session.
pub struct Session(Box<dyn Stream>);

/// An answer that is an error, by its number (`KeeperException.Code`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.name())]
pub struct Refusal(pub i32);

impl Refusal {
    /// Who asks may not.
    pub const NO_AUTH: Self = Self(-102);

    fn name(self) -> String {
        let name = match self.0 {
            -1 => "SystemError",
            -4 => "ConnectionLoss",
            -5 => "MarshallingError",
            -6 => "Unimplemented",
            -7 => "OperationTimeout",
            -8 => "BadArguments",
            -13 => "NewConfigNoQuorum",
            -14 => "ReconfigInProgress",
            -101 => "NoNode",
            -102 => "NoAuth",
            -103 => "BadVersion",
            -112 => "SessionExpired",
            -115 => "AuthFailed",
            -118 => "SessionMoved",
            -123 => "ReconfigDisabled",
            code => return format!("error {code}"),
        };
        name.to_owned()
    }

    /// Whether the ensemble considered the request, rather than this server, this session or this user being unable to ask.
    pub fn is_of_the_ensemble(self) -> bool {
        !matches!(self.0, -1 | -4 | -5 | -7 | -102 | -112 | -115 | -118)
    }
}

impl Session {
    /// Opens a session.
    pub async fn open(stream: Box<dyn Stream>) -> Result<Self> {
        let mut session = Self(stream);
        let mut message = Message::default();
        // Protocol version, last transaction seen, timeout, session, password.
        message.int(0).long(0).int(SESSION_TIMEOUT).long(0).buffer(&[0; 16]);
        session.send(message).await?;
        let answer = session.receive().await.context("the server takes no clients")?;
        let mut answer = Reader(&answer);
        let (_, timeout) = (answer.int()?, answer.int()?);
        ensure!(timeout > 0, "the server did not open a session");
        Ok(session)
    }

    /// Authenticates by name and password.
    pub async fn authenticate(&mut self, user: &str, password: &[u8]) -> Result<()> {
        let mut message = Message::default();
        let credentials = [user.as_bytes(), b":", password].concat();
        message.int(AUTH_XID).int(AUTH).int(0).buffer(b"digest").buffer(&credentials);
        self.send(message).await?;
        self.reply(AUTH_XID).await.context("authentication")?;
        Ok(())
    }

    /// Changes the list of members if it has this version, and gives it back. `joining` is an entry as in the list; `leaving`
    /// an identity.
    pub async fn reconfigure(&mut self, joining: Option<&str>, leaving: Option<u32>, version: i64) -> Result<Servers> {
        let leaving = leaving.map(|id| id.to_string());
        let mut message = Message::default();
        message.int(REQUEST_XID).int(RECONFIG);
        message.text(joining).text(leaving.as_deref()).text(None).long(version);
        self.send(message).await?;
        let answer = self.reply(REQUEST_XID).await?;
        let data = Reader(&answer).buffer()?;
        let text = std::str::from_utf8(data).context("the new list is no text")?;
        text.parse().context("the new list")
    }

    /// Closes the session. Without it the server would keep it until its time is up.
    pub async fn close(mut self) {
        let mut message = Message::default();
        message.int(REQUEST_XID + 1).int(CLOSE);
        let _ = self.send(message).await;
        let _ = self.0.shutdown().await;
    }

    async fn send(&mut self, message: Message) -> Result<()> {
        let length = i32::try_from(message.0.len()).context("the message is too long")?;
        self.0.write_all(&[&length.to_be_bytes()[..], &message.0].concat()).await?;
        self.0.flush().await?;
        Ok(())
    }

    async fn receive(&mut self) -> Result<Vec<u8>> {
        let length = self.0.read_i32().await?;
        let length = usize::try_from(length).ok().filter(|length| *length <= LARGEST_MESSAGE);
        let mut message = vec![0; length.context("the server sent a message of an impossible length")?];
        self.0.read_exact(&mut message).await?;
        Ok(message)
    }

    /// What follows the head of the reply to a request.
    async fn reply(&mut self, xid: i32) -> Result<Vec<u8>> {
        loop {
            let mut message = self.receive().await?;
            let mut head = Reader(&message);
            let (answered, _, error) = (head.int()?, head.long()?, head.int()?);
            if answered != xid {
                // A notification.
                continue;
            }
            if error != 0 {
                bail!(Refusal(error));
            }
            let rest = message.len() - head.0.len();
            return Ok(message.split_off(rest));
        }
    }
}

#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn int(&mut self, value: i32) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn long(&mut self, value: i64) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// None of ours comes near the largest length.
    fn buffer(&mut self, bytes: &[u8]) -> &mut Self {
        self.int(bytes.len() as i32).0.extend(bytes);
        self
    }

    fn text(&mut self, text: Option<&str>) -> &mut Self {
        match text {
            Some(text) => self.buffer(text.as_bytes()),
            None => self.int(-1),
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).context("the server's message ends too early")?;
        self.0 = rest;
        Ok(taken)
    }

    fn int(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.take(size_of::<i32>())?.try_into()?))
    }

    fn long(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.take(size_of::<i64>())?.try_into()?))
    }

    fn buffer(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.int()?).unwrap_or_default();
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn framed(body: &[u8]) -> Vec<u8> {
        [&(body.len() as i32).to_be_bytes()[..], body].concat()
    }

    fn reply(xid: i32, error: i32, body: &[u8]) -> Vec<u8> {
        framed(&[&xid.to_be_bytes()[..], &7_i64.to_be_bytes(), &error.to_be_bytes(), body].concat())
    }

    /// A session whose server says this, whatever it is asked, and then no more.
    async fn with_server(says: &[u8]) -> Result<Servers> {
        let (client, mut server) = tokio::io::duplex(1 << 16);
        let opened = framed(&[0, SESSION_TIMEOUT, 0, 0, 0].map(i32::to_be_bytes).concat());
        server.write_all(&[&opened, says].concat()).await.unwrap();
        // Only the server's half is closed.
        let (_heard, says) = tokio::io::split(server);
        let mut says = says;
        says.shutdown().await.unwrap();
        let mut session = Session::open(Box::new(client)).await?;
        session.authenticate("super", b"secret").await?;
        session.reconfigure(None, Some(2), 7).await
    }

    #[tokio::test]
    async fn the_new_list_is_read_and_notifications_are_passed_over() {
        let list = b"server.1=a:1:2:participant;a:3\nversion=8";
        let says = [reply(AUTH_XID, 0, &[]), reply(-1, 0, b"event"), reply(REQUEST_XID, 0, &framed(list))].concat();
        assert_eq!(with_server(&says).await.unwrap().version, 8);
    }

    #[tokio::test]
    async fn a_refusal_has_a_name_and_the_end_of_the_connection_is_none() {
        let says = [reply(AUTH_XID, 0, &[]), reply(REQUEST_XID, -103, &[])].concat();
        let error = with_server(&says).await.unwrap_err();
        let refusal = error.downcast_ref::<Refusal>().unwrap();
        assert_eq!((refusal.to_string().as_str(), refusal.is_of_the_ensemble()), ("BadVersion", true));
        let error = with_server(&reply(AUTH_XID, -115, &[])).await.unwrap_err();
        assert_eq!(error.downcast_ref::<Refusal>(), Some(&Refusal(-115)));
        assert!(with_server(&[]).await.unwrap_err().downcast_ref::<Refusal>().is_none());
    }

    proptest! {
        #[test]
        fn garbage_is_an_error(says: Vec<u8>) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            prop_assert!(runtime.block_on(with_server(&says)).is_err());
        }
    }
}
