//! A client that writes all the time and keeps a journal of every write that was acknowledged, to compare with at the end.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tf_testing::wait::eventually;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use zookeeper_client::{Acls, Client, CreateMode, Error};

use super::CLIENT_PORT;

/// Between two writes, if nothing else is said.
const PACE: Duration = Duration::from_millis(50);
/// As Tungsten Fabric's short-lived clients ask for.
const SESSION: Duration = Duration::from_secs(10);
/// For two more writes, when the ensemble serves.
const GOES_ON: Duration = Duration::from_secs(30);

/// Writers who together write more than a hundred times in a second, and the time that each lets pass between two writes.
const WRITERS: usize = 4;
const BUSY: Duration = Duration::from_millis(20);

/// What was written, and how it went.
#[derive(Debug, Default)]
pub struct Account {
    /// Content of every node whose creation was acknowledged.
    pub acknowledged: BTreeMap<String, String>,
    /// Longest time between two acknowledgements.
    pub longest_pause: Duration,
    /// Sessions that ended although the client lived.
    pub lost_sessions: u32,
}

/// The client.
pub struct Journal {
    account: Arc<Mutex<Account>>,
    addresses: Vec<IpAddr>,
    task: JoinHandle<()>,
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Journal {
    /// Begins to write to whichever of these servers serves.
    pub async fn begin(addresses: &[IpAddr]) -> Result<Self> {
        Self::begin_at(PACE, addresses).await
    }

    async fn begin_at(pace: Duration, addresses: &[IpAddr]) -> Result<Self> {
        let client = connect(addresses).await?;
        match client.create("/journal", b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await {
            Ok(_) | Err(Error::NodeExists) => {}
            Err(error) => return Err(error).context("creating /journal"),
        }
        let account = Arc::new(Mutex::new(Account::default()));
        let task = tokio::spawn(write(client, pace, addresses.to_vec(), Arc::clone(&account)));
        Ok(Self { account, addresses: addresses.to_vec(), task })
    }

    /// Number of writes that were acknowledged so far.
    pub fn written(&self) -> usize {
        self.account.lock().unwrap().acknowledged.len()
    }

    /// Waits until two more writes are acknowledged. The first may have been on its way before.
    pub async fn goes_on(&self) -> Result<()> {
        let written = self.written();
        eventually("writes to go on", GOES_ON, async || Ok((self.written() > written + 1).then_some(()))).await
    }

    /// Ends. What was written is to be compared later.
    pub fn stop(self) -> Account {
        self.task.abort();
        std::mem::take(&mut *self.account.lock().unwrap())
    }

    /// Ends, and compares with what each of these servers has.
    pub async fn end(self, serving: &[IpAddr]) -> Result<Account> {
        ensure!(!serving.is_empty() && self.addresses.len() >= serving.len());
        let account = self.stop();
        account.is_kept_by(serving).await?;
        Ok(account)
    }
}

/// Several clients with a journal each.
pub struct Writers {
    journals: Vec<Journal>,
    begun: Instant,
}

impl Writers {
    /// Begin to write more than a hundred times in a second.
    pub async fn begin(addresses: &[IpAddr]) -> Result<Self> {
        let mut journals = Vec::new();
        for _ in 0..WRITERS {
            journals.push(Journal::begin_at(BUSY, addresses).await?);
        }
        Ok(Self { journals, begun: Instant::now() })
    }

    /// Waits until each has written something more.
    pub async fn go_on(&self) -> Result<()> {
        for journal in &self.journals {
            journal.goes_on().await?;
        }
        Ok(())
    }

    /// End, and compare with what each of these servers has. Nobody has lost a session. The longest pause of any of them.
    pub async fn end(self, serving: &[IpAddr]) -> Result<Duration> {
        let (mut writes, mut pause, took) = (0, Duration::ZERO, self.begun.elapsed());
        for journal in self.journals {
            let account = journal.end(serving).await?;
            ensure!(account.lost_sessions == 0, "{:?}", account.longest_pause);
            writes += account.acknowledged.len();
            pause = pause.max(account.longest_pause);
        }
        let rate = writes as u128 * 1000 / took.as_millis().max(1);
        println!("{writes} writes in {took:.1?}, {rate} a second, longest pause {pause:.1?}");
        Ok(pause)
    }
}

impl Account {
    /// Reads everything back from one server at a time. A server without a vote is no harm; one that lacks what was acknowledged
    /// is.
    pub async fn is_kept_by(&self, servers: &[IpAddr]) -> Result<()> {
        for address in servers {
            let client = connect(std::slice::from_ref(address)).await?;
            // What the server has heard of last.
            client.sync("/journal").await?;
            for (path, content) in &self.acknowledged {
                let (found, _) = client.get_data(path).await.with_context(|| format!("{path} on {address} is lost"))?;
                ensure!(found == content.as_bytes(), "{path} on {address} is {found:?}, not {content:?}");
            }
        }
        Ok(())
    }
}

async fn write(mut client: Client, pace: Duration, addresses: Vec<IpAddr>, account: Arc<Mutex<Account>>) {
    let mode = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let mut last = Instant::now();
    // Another journal may have written there before.
    let run: u32 = rand::random();
    for number in 0_u64.. {
        let (path, content) = (format!("/journal/{run:08x}-{number:08}"), format!("content {number}"));
        loop {
            match client.create(&path, content.as_bytes(), &mode).await {
                // One that was not acknowledged may have been carried out all the same.
                Ok(_) | Err(Error::NodeExists) => break,
                Err(Error::SessionExpired | Error::ClientClosed) => {
                    account.lock().unwrap().lost_sessions += 1;
                    client = loop {
                        if let Ok(client) = connect(&addresses).await {
                            break client;
                        }
                        sleep(PACE).await;
                    };
                }
                Err(_) => sleep(PACE).await,
            }
        }
        acknowledged(&account, path, content, last.elapsed());
        last = Instant::now();
        sleep(pace).await;
    }
}

fn acknowledged(account: &Mutex<Account>, path: String, content: String, pause: Duration) {
    let mut account = account.lock().unwrap();
    account.acknowledged.insert(path, content);
    account.longest_pause = account.longest_pause.max(pause);
}

/// A session with whichever of these servers serves.
pub async fn connect(addresses: &[IpAddr]) -> Result<Client> {
    let cluster: Vec<String> =
        addresses.iter().map(|address| SocketAddr::new(*address, CLIENT_PORT).to_string()).collect();
    let cluster = cluster.join(",");
    timeout(SESSION, Client::connector().with_session_timeout(SESSION).connect(&cluster))
        .await
        .context("no server answers in time")?
        .context("connecting")
}
