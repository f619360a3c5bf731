//! Asks a name server for anything: one that hangs has its port open all the same.

use anyhow::{Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::Stream;

/// The question for the version (RFC 4892), over TCP (RFC 1035, 4.2.2): length, header, one question. Whoever does not tell it refuses.
const QUESTION: &[u8] = b"\0\x1etf\0\0\0\x01\0\0\0\0\0\0\x07version\x04bind\0\0\x10\0\x03";
/// Of a header, and where in it the flag of answers is.
const HEADER: usize = 12;
const IS_ANSWER: u8 = 0x80;

/// Waits for an answer, whatever it is.
pub(super) async fn probe(stream: &mut dyn Stream) -> Result<()> {
    stream.write_all(QUESTION).await?;
    let length: usize = stream.read_u16().await?.into();
    ensure!(length >= HEADER, "an answer of {length} octets");
    let mut header = [0; HEADER];
    stream.read_exact(&mut header).await?;
    ensure!(header[..2] == QUESTION[2..4] && header[2] & IS_ANSWER != 0, "no answer to the question");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answered(answer: &[u8]) -> Result<()> {
        let (mut client, mut server) = tokio::io::duplex(256);
        let answering = async {
            let length: usize = server.read_u16().await.unwrap().into();
            let mut question = vec![0; length];
            server.read_exact(&mut question).await.unwrap();
            assert!(question.starts_with(b"tf") && question.ends_with(b"\x07version\x04bind\0\0\x10\0\x03"));
            server.write_all(answer).await.unwrap();
            drop(server);
        };
        tokio::join!(probe(&mut client), answering).0
    }

    #[tokio::test]
    async fn a_refusal_is_an_answer_and_an_echo_is_none() {
        answered(b"\0\x0ctf\x80\x05\0\0\0\0\0\0\0\0").await.unwrap();
        assert!(answered(b"\0\x0ctf\0\0\0\0\0\0\0\0\0\0").await.is_err());
        assert!(answered(b"\0\x0cft\x80\x05\0\0\0\0\0\0\0\0").await.is_err());
        assert!(answered(b"\0\x01t").await.is_err());
        assert!(answered(b"").await.is_err());
    }
}
