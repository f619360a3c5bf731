//! A Redis on the loopback address for daemons that neither speak TLS nor log in (ADR 0041): each connection is carried to a server,
//! over TLS and with the password.

use std::{fs, net::Ipv4Addr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail};
use rustls::pki_types::ServerName;
use serde_json::json;
use tf_agent_api::launch::Relay;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsConnector;

use super::wire::{Connection, Reply};
use crate::{log, paths::Paths, probe::Stream, tls};

/// Connections at a time. Each process of the web UI has some ten.
const CONNECTIONS: usize = 256;
/// For a connection to the server, until it is logged in.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between attempts to get the port.
const RETRY: Duration = Duration::from_secs(2);

/// Carries connections until it is dropped, and what it carries with it.
pub async fn run(relay: Relay, paths: Paths) {
    let shared = Arc::new((relay, paths));
    let listener = listen(shared.0.port.get()).await;
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    let mut carried = JoinSet::new();
    let mut trouble: Option<String> = None;
    loop {
        let free = Arc::clone(&connections);
        let accepted = async {
            let permit = free.acquire_owned().await.ok()?;
            Some((listener.accept().await.ok()?.0, permit))
        };
        tokio::select! {
            Some(ended) = carried.join_next(), if !carried.is_empty() => {
                let now = ended.ok().flatten();
                if now.is_some() && now != trouble {
                    log::warn("a connection was not carried to Redis", &json!({"error": now}));
                }
                trouble = now;
            }
            accepted = accepted => match accepted {
                Some((stream, permit)) => {
                    let shared = Arc::clone(&shared);
                    carried.spawn(async move {
                        let error = carry(stream, &shared.0, &shared.1).await.err();
                        drop(permit);
                        error.map(|error| format!("{error:#}"))
                    });
                }
                // Out of file descriptors, say.
                None => sleep(RETRY).await,
            },
        }
    }
}

async fn listen(port: u16) -> TcpListener {
    let mut told = false;
    loop {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            Ok(listener) => return listener,
            Err(error) if !told => {
                log::warn("the port for Redis is not to be had", &json!({"error": error.to_string(), "port": port}));
            }
            Err(_) => {}
        }
        told = true;
        sleep(RETRY).await;
    }
}

/// Carries one connection. That it ends, however, is no error.
async fn carry(mut client: TcpStream, relay: &Relay, paths: &Paths) -> Result<()> {
    let mut server = timeout(PATIENCE, open(relay, paths)).await.context("no answer")??.into_stream();
    let _ = copy_bidirectional(&mut client, &mut server).await;
    Ok(())
}

/// Whether the server lets in whoever is carried to it, and answers.
pub async fn serves(relay: &Relay, paths: &Paths) -> Result<()> {
    match open(relay, paths).await?.ask(&["PING"]).await? {
        Reply::Word(word) if word == "PONG" => Ok(()),
        other => bail!("the server answers PING with {other}"),
    }
}

async fn open(relay: &Relay, paths: &Paths) -> Result<Connection> {
    let read = |file: &String| fs::read_to_string(paths.run_dir().join(file)).with_context(|| format!("read {file}"));
    let stream = TcpStream::connect((relay.host.as_str(), relay.server.get())).await.context("connect")?;
    stream.set_nodelay(true)?;
    let stream: Box<dyn Stream> = if relay.tls {
        let config = match &relay.authorities {
            Some(file) => tls::anonymous(read(file)?.as_bytes())?,
            None => tls::client(paths)?,
        };
        let name = ServerName::try_from(relay.host.clone()).context("neither a name nor an address")?;
        Box::new(TlsConnector::from(Arc::new(config)).connect(name, stream).await.context("TLS")?)
    } else {
        Box::new(stream)
    };
    let password = relay.password.as_ref().map(read).transpose()?;
    let login: Vec<&str> = password.as_deref().into_iter().collect();
    Connection::over(stream, &login).await
}
