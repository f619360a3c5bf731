//! Redis as the daemons of analytics find it: every server of the list, and for queries the one on the loopback address, without TLS. Each
//! is asked whether it lets the daemon in and answers.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};

use super::options::Redis;
use crate::{
    status::{Peer, Status},
    tls,
};

/// For an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks.
const PERIOD: Duration = Duration::from_secs(2);

/// Asks, again and again, and tells how that goes: each server that is named has to answer.
pub async fn ask(redis: Redis, queries: Option<u16>, status: Arc<Status>) {
    let plain = Redis { tls: None, ..redis.clone() };
    loop {
        let asked = async {
            ensure!(!redis.servers.is_empty(), "no server is named");
            for server in &redis.servers {
                one(server, &redis).await.with_context(|| server.clone())?;
            }
            if let Some(port) = queries {
                let server = format!("127.0.0.1:{port}");
                one(&server, &plain).await.with_context(|| server.clone())?;
            }
            Ok(redis.servers.join(" "))
        };
        super::tell(&status, Peer::Redis, timeout(PATIENCE, asked).await.context("no answer").flatten());
        sleep(PERIOD).await;
    }
}

async fn one(server: &str, redis: &Redis) -> Result<()> {
    let stream = TcpStream::connect(server).await?;
    let Some((authorities, pair)) = &redis.tls else { return talk(stream, redis.password.as_deref()).await };
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host).to_owned();
    let connector = TlsConnector::from(tls::client(authorities, pair.as_ref())?);
    talk(connector.connect(ServerName::try_from(host)?, stream).await?, redis.password.as_deref()).await
}

/// Logs in where there is a password, and asks for a sign of life.
async fn talk(mut stream: impl AsyncRead + AsyncWrite + Unpin, password: Option<&str>) -> Result<()> {
    if let Some(password) = password {
        let answer = call(&mut stream, &["AUTH", password]).await?;
        ensure!(answer == "+OK", "AUTH: {answer}");
    }
    let answer = call(&mut stream, &["PING"]).await?;
    ensure!(answer == "+PONG", "PING: {answer}");
    Ok(())
}

/// A request, and the line that answers it.
async fn call(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), words: &[&str]) -> Result<String> {
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        write!(request, "${}\r\n{word}\r\n", word.len())?;
    }
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        ensure!(line.len() < 512, "a long answer");
        line.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_has_another_password_is_told_so() {
        let (client, mut server) = tokio::io::duplex(1024);
        let answering = async {
            let mut buffer = [0; 256];
            let read = server.read(&mut buffer).await.unwrap();
            assert_eq!(&buffer[..read], b"*2\r\n$4\r\nAUTH\r\n$1\r\nx\r\n");
            server.write_all(b"-WRONGPASS\r\n").await.unwrap();
        };
        let (asked, ()) = tokio::join!(talk(client, Some("x")), answering);
        assert!(format!("{:#}", asked.unwrap_err()).contains("WRONGPASS"));
    }
}
