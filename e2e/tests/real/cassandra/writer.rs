//! A client that writes all the time with a quorum and keeps account of every row that was acknowledged, and one that reads what was acknowledged last,
//! with a quorum, too, by whichever server takes it: what is not there is stale.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kube::Client;
use tf_testing::wait::eventually;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::tls::Access;

/// Between two writes.
const PACE: Duration = Duration::from_millis(20);
/// Reads by one server before the next one is asked.
const READS: usize = 20;
/// Before the next server is tried.
const RETRY: Duration = Duration::from_millis(50);
/// For more writes.
const GOES_ON: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct Account {
    acknowledged: BTreeSet<i64>,
    refused: usize,
    longest_pause: Duration,
    read: usize,
    stale: usize,
}

impl Account {
    fn acknowledge(&mut self, number: i64, pause: Duration) {
        self.acknowledged.insert(number);
        self.longest_pause = self.longest_pause.max(pause);
    }
}

/// Whom a client trusts.
#[derive(Clone)]
enum Trust {
    Own(Access),
    Namespace(Client),
}

impl Trust {
    async fn access(&self) -> Result<Access> {
        match self {
            Self::Own(access) => Ok(access.clone()),
            Self::Namespace(client) => Access::of(client).await,
        }
    }
}

/// The client.
pub struct Writer {
    access: Access,
    addresses: Vec<IpAddr>,
    account: Arc<Mutex<Account>>,
    tasks: [JoinHandle<()>; 2],
}

/// How it went.
pub struct Summary {
    /// Rows that were acknowledged.
    pub acknowledged: usize,
    /// Rows that were acknowledged, and are not there.
    pub lost: usize,
    /// Rows that had to be written again.
    pub refused: usize,
    /// Longest time between two acknowledgements.
    pub longest_pause: Duration,
    /// Answers to the one who reads.
    pub read: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { acknowledged, lost, refused, longest_pause, read } = self;
        write!(
            f,
            "{acknowledged} rows, {lost} lost, {refused} written again, longest pause {longest_pause:.1?}, {read} read"
        )
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Writer {
    /// Begins to write to the table, by whichever of these servers takes it.
    pub fn begin(access: &Access, addresses: &[IpAddr]) -> Self {
        Self::trusting(access.clone(), &Trust::Own(access.clone()), addresses)
    }

    /// The same of one that reads for each connection whom the namespace trusts.
    pub async fn following(client: &Client, addresses: &[IpAddr]) -> Result<Self> {
        Ok(Self::trusting(Access::of(client).await?, &Trust::Namespace(client.clone()), addresses))
    }

    fn trusting(access: Access, trust: &Trust, addresses: &[IpAddr]) -> Self {
        let account = Arc::<Mutex<Account>>::default();
        let tasks = [
            tokio::spawn(write(trust.clone(), addresses.to_vec(), Arc::clone(&account))),
            tokio::spawn(read(trust.clone(), addresses.to_vec(), Arc::clone(&account))),
        ];
        Self { access, addresses: addresses.to_vec(), account, tasks }
    }

    /// Has others than the writer itself, which goes on with its session, connect like this.
    pub fn read_by(self, access: &Access) -> Self {
        let mut writer = self;
        writer.access = access.clone();
        writer
    }

    /// Has rows looked for on these servers.
    pub fn among(self, addresses: &[IpAddr]) -> Self {
        let mut writer = self;
        writer.addresses = addresses.to_vec();
        writer
    }

    /// Rows that were acknowledged up to now.
    pub fn acknowledged(&self) -> Vec<i64> {
        self.account.lock().unwrap().acknowledged.iter().copied().collect()
    }

    /// Waits until so many more were.
    pub async fn goes_on(&self, more: usize) -> Result<()> {
        let count = || self.account.lock().unwrap().acknowledged.len();
        let before = count();
        eventually("rows to be acknowledged", GOES_ON, async || Ok((count() > before + more).then_some(()))).await
    }

    /// Ends when more was written, and looks for every row by another server than the last time. Fails if somebody read what was stale.
    pub async fn end(self) -> Result<Summary> {
        self.goes_on(10).await?;
        self.tasks.iter().for_each(JoinHandle::abort);
        let mut sessions = Vec::new();
        for address in &self.addresses {
            sessions.push(self.access.connect(*address).await?);
        }
        let rows: Vec<i64> = self.account.lock().unwrap().acknowledged.iter().copied().collect();
        let mut lost = 0;
        for (turn, number) in rows.iter().enumerate() {
            let server = turn % sessions.len();
            let found = sessions[server].count(&format!("lab.journal WHERE number = {number}")).await?;
            lost += usize::from(found != 1);
        }
        let account = self.account.lock().unwrap();
        let Account { refused, longest_pause, read, stale, .. } = *account;
        ensure!(read > 0 && stale == 0, "{stale} of {read} rows that were read were stale");
        Ok(Summary { acknowledged: rows.len(), lost, refused, longest_pause, read })
    }
}

async fn write(trust: Trust, addresses: Vec<IpAddr>, account: Arc<Mutex<Account>>) {
    let mut last = None;
    // Rows of the writer before stay.
    let mut number = jiff::Timestamp::now().as_millisecond();
    for turn in 0.. {
        let connected = async { trust.access().await?.connect(addresses[turn % addresses.len()]).await };
        let Ok(mut session) = connected.await else {
            sleep(RETRY).await;
            continue;
        };
        while session.execute(&format!("INSERT INTO lab.journal (number) VALUES ({number})")).await.is_ok() {
            let now = Instant::now();
            let pause = last.replace(now).map_or(Duration::ZERO, |last| now - last);
            account.lock().unwrap().acknowledge(number, pause);
            number += 1;
            sleep(PACE).await;
        }
        account.lock().unwrap().refused += 1;
    }
}

async fn read(trust: Trust, addresses: Vec<IpAddr>, account: Arc<Mutex<Account>>) {
    let newest = || account.lock().unwrap().acknowledged.last().copied();
    // Not by the one who takes the writes.
    for turn in 1.. {
        sleep(PACE).await;
        let connected = async { trust.access().await?.connect(addresses[turn % addresses.len()]).await };
        let Ok(mut session) = connected.await else { continue };
        for _ in 0..READS {
            sleep(PACE).await;
            let Some(number) = newest() else { continue };
            let Ok(found) = session.count(&format!("lab.journal WHERE number = {number}")).await else { break };
            let mut account = account.lock().unwrap();
            account.read += 1;
            account.stale += usize::from(found != 1);
        }
    }
}
