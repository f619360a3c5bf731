//! Clients that write to every server all the time, wait for a copy to have it (`WAIT 1`), and keep account of what was acknowledged, by whom
//! and when.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tf_testing::wait::eventually;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::client::Login;

/// Between two writes.
const PACE: Duration = Duration::from_millis(20);
/// Before the same server is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// Milliseconds that are waited for a copy.
const COPIED: &str = "1000";
/// Who took writes before another one did, and does again so soon, did all the time: each failover takes longer.
const SOON: Duration = Duration::from_secs(2);

/// A write that was acknowledged.
#[derive(Clone, Copy, Debug)]
struct Acknowledged {
    server: IpAddr,
    begun: Instant,
    done: Instant,
}

type Account = Arc<Mutex<BTreeMap<String, Acknowledged>>>;

/// The clients.
pub struct Journal {
    login: Login,
    addresses: Vec<IpAddr>,
    account: Account,
    tasks: Vec<JoinHandle<()>>,
}

/// How it went.
pub struct Summary {
    /// Writes that were acknowledged.
    pub acknowledged: usize,
    /// Writes that were acknowledged, and are not there.
    pub lost: usize,
    /// How often a server took writes while another one did.
    pub at_once: usize,
    /// How often another server took writes.
    pub changes: usize,
    /// Longest time between two acknowledgements.
    pub longest_pause: Duration,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { acknowledged, lost, at_once, changes, longest_pause } = self;
        write!(
            f,
            "{acknowledged} writes, {lost} lost, taken by two at once {at_once} times, by another one {changes} times, \
             longest pause {longest_pause:.1?}"
        )
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Journal {
    /// Begins to write.
    pub fn begin(login: &Login, addresses: &[IpAddr]) -> Self {
        let mut journal =
            Self { login: login.clone(), addresses: Vec::new(), account: Account::default(), tasks: Vec::new() };
        for address in addresses {
            journal.also(*address);
        }
        journal
    }

    /// Writes to this server, too, from now on.
    pub fn also(&mut self, server: IpAddr) {
        let run = jiff::Timestamp::now().as_millisecond();
        self.tasks.push(tokio::spawn(write(self.login.clone(), server, run, Arc::clone(&self.account))));
        self.addresses.push(server);
    }

    fn account(&self) -> BTreeMap<String, Acknowledged> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for some more writes that begin from now on.
    pub async fn goes_on(&self, limit: Duration) -> Result<()> {
        let now = Instant::now();
        eventually("writes to be acknowledged", limit, async || {
            Ok((self.account().values().filter(|it| it.begun > now).count() > 10).then_some(()))
        })
        .await
    }

    /// The same, when these are the servers that are left.
    pub fn among(mut self, servers: &[IpAddr]) -> Self {
        self.addresses = servers.to_vec();
        self
    }

    /// Ends when more was written, and looks for every write on the server that the Sentinels name.
    pub async fn end(self) -> Result<Summary> {
        self.goes_on(Duration::from_secs(30)).await?;
        self.tasks.iter().for_each(JoinHandle::abort);
        let account = self.account();
        let master = self.login.master(&self.addresses).await?;
        let mut session = self.login.connect(master).await?;
        let mut lost = 0;
        for key in account.keys() {
            lost += usize::from(session.ask(&["EXISTS", key]).await? != "1");
        }
        let mut all: Vec<Acknowledged> = account.into_values().collect();
        ensure!(all.len() > 1, "nothing was written");
        all.sort_by_key(|it| it.begun);
        let longest_pause = all.windows(2).map(|two| two[1].done.saturating_duration_since(two[0].done)).max();
        let changes: Vec<&[Acknowledged]> = all.windows(2).filter(|two| two[0].server != two[1].server).collect();
        let is_at_once = |two: &&[&[Acknowledged]]| two[1][1].begun.saturating_duration_since(two[0][0].done) < SOON;
        Ok(Summary {
            acknowledged: all.len(),
            lost,
            at_once: changes.windows(2).filter(|two| is_at_once(two)).count(),
            changes: changes.len(),
            longest_pause: longest_pause.unwrap_or_default(),
        })
    }
}

async fn write(login: Login, server: IpAddr, run: i64, account: Account) {
    let mut number = 0;
    loop {
        let Ok(mut session) = login.connect(server).await else {
            sleep(RETRY).await;
            continue;
        };
        loop {
            number += 1;
            let key = format!("{run}-{server}-{number}");
            let begun = Instant::now();
            match session.ask(&["SET", &key, "x"]).await {
                Ok(_) => {}
                // It takes none; it may soon.
                Err(error) if error.to_string().starts_with('-') => {
                    sleep(RETRY).await;
                    continue;
                }
                Err(_) => break,
            }
            match session.ask(&["WAIT", "1", COPIED]).await {
                Ok(copies) if copies != "0" => {
                    let it = Acknowledged { server, begun, done: Instant::now() };
                    account.lock().unwrap_or_else(PoisonError::into_inner).insert(key, it);
                }
                Ok(_) => {}
                Err(_) => break,
            }
            sleep(PACE).await;
        }
        sleep(RETRY).await;
    }
}
