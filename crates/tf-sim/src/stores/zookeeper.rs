//! Elections and locks: a session, and a node in line for the lead (the recipe of kazoo).

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
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
    rest::identifier,
    status::{Peer, State, Status},
};

/// The session that those ask for who have no say in it (upstream `zkclient.py`). Servers allow as much as they are set to.
pub const SESSION: Duration = Duration::from_secs(400);
/// For a connection.
const PATIENCE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(1);
/// What ends the name of a node in line; a number follows.
const CONTENDER: &str = "__lock__";

/// Connects, again and again (docs/upstream/observed.md#stores). `servers`: none where the list makes no sense.
pub async fn connect(servers: Option<&str>, session: Duration, status: &Status) -> Client {
    let Some(servers) = servers else {
        status.set(Peer::Zookeeper, State::Down("Port could not be cast to integer value".into()));
        return pending().await;
    };
    loop {
        let connecting = Client::connector().with_session_timeout(session).connect(servers);
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

/// Whether somebody waits for its turn in an election.
#[derive(Clone, Debug, Default)]
pub struct Line(Arc<AtomicBool>);

impl Line {
    /// One who waits from now on.
    pub fn standing() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// Its turn has come.
    pub fn leave(&self) {
        self.0.store(false, Ordering::Release);
    }

    fn is_standing(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What a session has come to that was suspended or not.
///
/// A session that is lost ends every daemon with 2. One that comes back cancels an election that has no result yet, and a daemon that waited for
/// nothing else has nothing more to do (upstream `_zk_listener`, `master_election`): it ends with 0.
fn end(state: SessionState, was_suspended: bool, line: &Line) -> Option<Exit> {
    match state {
        SessionState::SyncConnected | SessionState::ConnectedReadOnly => (was_suspended && line.is_standing())
            .then(|| Exit { code: 0, why: "ZooKeeper: the connection is back, and the election is cancelled".into() }),
        SessionState::Disconnected => None,
        lost => Some(Exit { code: 2, why: format!("ZooKeeper: session {lost:?}") }),
    }
}

/// Tells how the session is, and ends the daemon as [`end`] says.
pub async fn watch(client: Client, servers: String, status: Arc<Status>, exit: mpsc::Sender<Exit>, line: Line) {
    let mut watcher = client.state_watcher();
    let mut was_suspended = false;
    loop {
        let state = watcher.changed().await;
        match state {
            SessionState::SyncConnected | SessionState::ConnectedReadOnly => {
                status.set(Peer::Zookeeper, State::Up(servers.clone()));
            }
            _ => status.set(Peer::Zookeeper, State::Down("connection lost".into())),
        }
        if let Some(end) = end(state, was_suspended, &line) {
            let _ = exit.send(end).await;
            return;
        }
        was_suspended = state == SessionState::Disconnected;
    }
}

/// Stands in line for the lead below a path and returns when it has come; the node in line, which goes with the session.
///
/// # Errors
/// When the session does not last.
pub async fn lead(client: &Client, path: &str, name: &str) -> Result<String> {
    first(client, path, name, name).await
}

/// The same with a node that is called differently from what is in it.
async fn first(client: &Client, path: &str, name: &str, content: &str) -> Result<String> {
    for (end, _) in path.match_indices('/').skip(1) {
        make(client, &path[..end]).await?;
    }
    make(client, path).await?;
    let mode = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let own = format!("{name}{CONTENDER}");
    let (_, sequence) =
        client.create(&format!("{path}/{own}"), content.as_bytes(), &mode).await.context("standing in line")?;
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

/// Waits for a lock as for a lead, but not longer than this; the node to delete when the work is done, or none.
///
/// # Errors
/// When the session does not last.
pub async fn lock(client: &Client, path: &str, name: &str, patience: Duration) -> Result<Option<String>> {
    let own = identifier()?;
    if let Ok(own) = timeout(patience, first(client, path, &own, name)).await {
        return own.map(Some);
    }
    // Who gives up leaves the line.
    let (children, _) = client.get_children(path).await?;
    let beginning = format!("{own}{CONTENDER}");
    for own in children.iter().filter(|child| child.starts_with(&beginning)) {
        release(client, &format!("{path}/{own}")).await?;
    }
    Ok(None)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_ends_when_its_connection_comes_back_and_who_is_elected_goes_on() {
        let (standing, elected) = (Line::standing(), Line::standing());
        elected.leave();
        let code = |state, was_suspended, line: &Line| end(state, was_suspended, line).map(|exit| exit.code);
        for (line, back) in [(&standing, Some(0)), (&elected, None), (&Line::default(), None)] {
            assert_eq!(code(SessionState::SyncConnected, false, line), None);
            assert_eq!(code(SessionState::Disconnected, false, line), None);
            assert_eq!(code(SessionState::SyncConnected, true, line), back);
            for was_suspended in [false, true] {
                assert_eq!(code(SessionState::Expired, was_suspended, line), Some(2));
            }
        }
    }
}
