//! Elections: a session, and a node in line for the lead (the recipe of kazoo).

use std::{
    future::pending,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use anyhow::{Context as _, Result};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use zookeeper_client::{Acls, Client, CreateMode, Error, SessionState};

use crate::{
    exit::Exit,
    status::{Peer, State, Status},
};

/// As the daemons ask for. Servers allow 20 ticks at most.
const SESSION: Duration = Duration::from_secs(120);
/// For a connection.
const PATIENCE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(1);
/// What ends the name of a node in line; a number follows.
const CONTENDER: &str = "__lock__";

/// Connects, again and again (config-daemons-observed). `servers`: none where the list makes no sense.
pub async fn connect(servers: Option<&str>, status: &Status) -> Client {
    let Some(servers) = servers else {
        status.set(Peer::Zookeeper, State::Down("Port could not be cast to integer value".into()));
        return pending().await;
    };
    loop {
        let connecting = Client::connector().with_session_timeout(SESSION).connect(servers);
        match timeout(PATIENCE, connecting).await {
            Ok(Ok(client)) => {
                status.set(Peer::Zookeeper, State::Up(servers.to_owned()));
                return client;
            }
            Ok(Err(error)) => status.set(Peer::Zookeeper, State::Down(error.to_string())),
            Err(_) => status.set(Peer::Zookeeper, State::Down("no answer".into())),
        }
        sleep(RETRY).await;
    }
}

/// Tells how the session is. A lost one ends the daemon.
pub async fn watch(client: Client, servers: String, status: Arc<Status>, exit: mpsc::Sender<Exit>) {
    let mut watcher = client.state_watcher();
    loop {
        let state = watcher.changed().await;
        match state {
            SessionState::SyncConnected | SessionState::ConnectedReadOnly => {
                status.set(Peer::Zookeeper, State::Up(servers.clone()));
            }
            SessionState::Disconnected => status.set(Peer::Zookeeper, State::Down("connection lost".into())),
            lost => {
                let why = format!("ZooKeeper: session {lost:?}");
                let _ = exit.send(Exit { code: 2, why }).await;
                return;
            }
        }
    }
}

/// Stands in line for the lead below a path and returns when it has come; the node in line, which goes with the session.
///
/// # Errors
/// When the session does not last.
pub async fn lead(client: &Client, path: &str, name: &str) -> Result<String> {
    for (end, _) in path.match_indices('/').skip(1) {
        make(client, &path[..end]).await?;
    }
    make(client, path).await?;
    let mode = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let own = format!("{name}{CONTENDER}");
    let (_, sequence) =
        client.create(&format!("{path}/{own}"), name.as_bytes(), &mode).await.context("standing in line")?;
    let own = format!("{own}{sequence}");
    loop {
        let (children, _, watcher) = client.get_and_watch_children(path).await?;
        let number = |child: &str| child.rsplit_once(CONTENDER).map(|(_, number)| number.to_owned());
        let first = children.iter().min_by_key(|child| number(child));
        if first == Some(&own) {
            return Ok(format!("{path}/{own}"));
        }
        watcher.changed().await;
    }
}

/// Makes a node that stays, with this content. False if there is one already.
///
/// # Errors
/// When the session does not last.
pub async fn claim(client: &Client, path: &str, content: &str) -> Result<bool> {
    let mode = CreateMode::Persistent.with_acls(Acls::anyone_all());
    match client.create(path, content.as_bytes(), &mode).await {
        Ok(_) => Ok(true),
        Err(Error::NodeExists) => Ok(false),
        Err(error) => Err(error).with_context(|| format!("creating {path}")),
    }
}

/// The same where one that is older than this is somebody's who did not get further.
///
/// # Errors
/// When the session does not last.
pub async fn claim_anew(client: &Client, path: &str, content: &str, stale: Duration) -> Result<bool> {
    if claim(client, path, content).await? {
        return Ok(true);
    }
    let made = match client.check_stat(path).await {
        Ok(found) => found.map(|stat| UNIX_EPOCH + Duration::from_millis(stat.ctime.unsigned_abs())),
        Err(error) => return Err(error).with_context(|| format!("looking at {path}")),
    };
    if made.is_some_and(|made| made.elapsed().is_ok_and(|age| age < stale)) {
        return Ok(false);
    }
    release(client, path).await?;
    claim(client, path, content).await
}

/// Removes a node.
///
/// # Errors
/// When the session does not last.
pub async fn release(client: &Client, path: &str) -> Result<()> {
    match client.delete(path, None).await {
        Ok(()) | Err(Error::NoNode) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("deleting {path}")),
    }
}

/// Makes a node that stays.
///
/// # Errors
/// When the session does not last.
pub async fn make(client: &Client, path: &str) -> Result<()> {
    claim(client, path, "").await.map(drop)
}
