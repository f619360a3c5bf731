//! As much of Redis's protocol as requests with short answers need (Redis, "Redis serialization protocol specification"): version 2,
//! which every server begins with.

use std::fmt;

use anyhow::{Context as _, Result, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{
    paths::Paths,
    probe::{self, Stream, Target},
};

/// Of an answer. `INFO` has some thousand bytes.
const LARGEST: usize = 256 * 1024;
/// Of a list. What a Sentinel has of a server are some forty names and values.
const LONGEST: usize = 1024;
const END: &[u8] = b"\r\n";

/// An answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// A word: `OK`, `PONG`.
    Word(String),
    /// A refusal in the server's words, beginning with its kind: `LOADING`, `NOAUTH`.
    Refusal(String),
    /// A text.
    Text(String),
    /// Texts.
    List(Vec<String>),
}

/// For messages about answers that were not expected. A text is not shown: it may be anything.
impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(said) | Self::Refusal(said) => f.write_str(said),
            Self::Text(text) => write!(f, "a text of {} bytes", text.len()),
            Self::List(texts) => write!(f, "a list of {} texts", texts.len()),
        }
    }
}

/// A connection to a server.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
}

impl Connection {
    /// Connects, and logs in with a password, or a user and a password.
    pub(super) async fn open(target: &Target, paths: &Paths, login: &[&str]) -> Result<Self> {
        Self::over(probe::connect(target, paths).await?, login).await
    }

    /// Logs in over a stream, with a password, or a user and a password.
    pub(super) async fn over(stream: Box<dyn Stream>, login: &[&str]) -> Result<Self> {
        let mut connection = Self { stream };
        if !login.is_empty() {
            connection.is_done("AUTH", &[&["AUTH"], login].concat()).await?;
        }
        Ok(connection)
    }

    /// The stream, for somebody else's requests.
    pub(super) fn into_stream(self) -> Box<dyn Stream> {
        self.stream
    }

    /// A request that is answered with `OK`. `what` stands for it in messages: it may hold a password.
    pub(super) async fn is_done(&mut self, what: &str, request: &[&str]) -> Result<()> {
        match self.ask(request).await? {
            Reply::Word(word) if word == "OK" => Ok(()),
            other => bail!("the server answers {what} with {other}"),
        }
    }

    /// One request and its answer.
    pub(super) async fn ask(&mut self, request: &[&str]) -> Result<Reply> {
        self.stream.write_all(&frame(request)).await?;
        self.stream.flush().await?;
        let mut received = Vec::new();
        loop {
            if let Some(reply) = read(&received)? {
                return Ok(reply);
            }
            ensure!(received.len() < LARGEST, "an answer of more than {LARGEST} bytes");
            let count = self.stream.read_buf(&mut received).await.context("the server does not answer")?;
            ensure!(count > 0, "the server does not end its answer");
        }
    }
}

fn frame(request: &[&str]) -> Vec<u8> {
    let mut frame = format!("*{}\r\n", request.len()).into_bytes();
    for word in request {
        frame.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
    }
    frame
}

/// The answer that was received; none if more of it is to come. There is one request at a time, so nothing follows.
fn read(received: &[u8]) -> Result<Option<Reply>> {
    let Some((reply, rest)) = reply(received)? else { return Ok(None) };
    ensure!(rest.is_empty(), "something follows the answer");
    Ok(Some(reply))
}

/// An answer and what follows it.
fn reply(received: &[u8]) -> Result<Option<(Reply, &[u8])>> {
    let Some((line, rest)) = line(received) else { return Ok(None) };
    let (kind, line) = line.split_first().context("an empty line in place of an answer")?;
    let words = || String::from_utf8_lossy(line).into_owned();
    Ok(match kind {
        b'+' => Some((Reply::Word(words()), rest)),
        b'-' => Some((Reply::Refusal(words()), rest)),
        b'$' => text(&words(), rest)?.map(|(text, rest)| (Reply::Text(text), rest)),
        b'*' => list(&words(), rest)?.map(|(texts, rest)| (Reply::List(texts), rest)),
        _ => bail!("the server does not speak Redis's protocol"),
    })
}

/// A text of this length, and what follows it.
fn text<'a>(length: &str, rest: &'a [u8]) -> Result<Option<(String, &'a [u8])>> {
    let length: usize = length.parse().ok().context("a text without a length")?;
    ensure!(length <= LARGEST, "a text of {length} bytes");
    let Some((text, rest)) = rest.split_at_checked(length) else { return Ok(None) };
    if rest.len() < END.len() && END.starts_with(rest) {
        return Ok(None);
    }
    let rest = rest.strip_prefix(END).context("a text of another length than it says")?;
    Ok(Some((String::from_utf8_lossy(text).into_owned(), rest)))
}

/// So many texts, and what follows them.
fn list<'a>(count: &str, mut rest: &'a [u8]) -> Result<Option<(Vec<String>, &'a [u8])>> {
    let count: usize = count.parse().ok().context("a list without a length")?;
    ensure!(count <= LONGEST, "a list of {count} texts");
    let mut texts = Vec::new();
    for _ in 0..count {
        let Some((line, after)) = line(rest) else { return Ok(None) };
        let length = line.strip_prefix(b"$").context("a list of other things than texts")?;
        let Some((item, after)) = text(&String::from_utf8_lossy(length), after)? else { return Ok(None) };
        texts.push(item);
        rest = after;
    }
    Ok(Some((texts, rest)))
}

/// The first line and what follows it.
fn line(received: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = received.windows(END.len()).position(|window| window == END)?;
    Some((&received[..end], &received[end + END.len()..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_is_a_list_of_words_with_their_lengths() {
        assert_eq!(frame(&["AUTH", "p w"]), b"*2\r\n$4\r\nAUTH\r\n$3\r\np w\r\n");
    }

    #[test]
    fn answers_are_read_as_redis_7_gives_them() {
        let reply = |text: &str| read(text.as_bytes()).unwrap().unwrap();
        assert_eq!(reply("+PONG\r\n"), Reply::Word("PONG".into()));
        let loading = "LOADING Redis is loading the dataset in memory";
        assert_eq!(reply(&format!("-{loading}\r\n")), Reply::Refusal(loading.into()));
        assert_eq!(reply("$6\r\na:1\r\nb\r\n"), Reply::Text("a:1\r\nb".into()));
        assert_eq!(reply("$0\r\n\r\n"), Reply::Text(String::new()));
        assert_eq!(reply("*2\r\n$1\r\na\r\n$0\r\n\r\n"), Reply::List(vec!["a".into(), String::new()]));
        assert_eq!(reply("*0\r\n"), Reply::List(Vec::new()));
    }

    #[test]
    fn half_an_answer_is_waited_for() {
        for whole in ["+PONG\r\n", "-ERR no\r\n", "$6\r\na:1\r\nb\r\n", "*2\r\n$1\r\na\r\n$2\r\nbc\r\n"] {
            for length in 0..whole.len() {
                assert_eq!(read(&whole.as_bytes()[..length]).unwrap(), None, "{whole:?} {length}");
            }
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for nonsense in [
            "HTTP/1.1 400\r\n",
            "\r\n",
            "+OK\r\n+OK\r\n",
            "$-1\r\n",
            "$x\r\n",
            "$1\r\nab\r\n",
            "$9999999999\r\n",
            "*-1\r\n",
            "*1\r\n:1\r\n",
            "*9999999\r\n",
        ] {
            assert!(read(nonsense.as_bytes()).is_err(), "{nonsense:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_an_answer_or_half_of_one_or_an_error(received: Vec<u8>) {
            let _ = read(&received);
        }

        #[test]
        fn nonsense_after_a_plausible_beginning_is_no_worse(kind in "[+$*:-]", received: Vec<u8>, length: u16) {
            let _ = read(&[kind.as_bytes(), &received].concat());
            let _ = read(&[format!("${length}\r\n").as_bytes(), &received].concat());
        }

        #[test]
        fn a_text_comes_through_whatever_it_holds(text in "\\PC{0,40}(\r\n)?\\PC{0,40}") {
            let whole = format!("${}\r\n{text}\r\n", text.len());
            prop_assert_eq!(read(whole.as_bytes()).unwrap(), Some(Reply::Text(text)));
        }
    }
}
