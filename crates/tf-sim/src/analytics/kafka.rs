//! Kafka as collectors and alarm generators find it: what a collector tells is acknowledged by every copy in sync, and generators read it.
//! Of the topics of upstream `kafka_processor.cc`, one for each share of the state, the first.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result};
use rskafka::{
    chrono::{DateTime, Utc},
    client::{
        ClientBuilder,
        partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling},
    },
    record::Record,
};
use tokio::time::{Instant, sleep, timeout};

use super::{PATIENCE, PERIOD, options::Daemon};
use crate::{
    log,
    options::Tls,
    status::{Peer, State, Status},
    tls,
};

/// The topic of the first share. Brokers make it when somebody asks for it.
const TOPIC: &str = "-uve-topic-0";
/// For how long an answer counts (upstream `kActivityCheckPeriod_ms_`): partitions may be without a leader for a while.
const COUNTS: Duration = Duration::from_secs(30);
/// Bytes of records that an answer may have, and how long a broker may wait for the first, in milliseconds.
const BYTES: std::ops::Range<i32> = 1..1 << 20;
const WAIT_MS: i32 = 500;

/// What a daemon does with Kafka.
pub struct Kafka {
    /// Who it is: collectors tell, the others read.
    pub daemon: Daemon,
    /// Its address, by which readers tell who told.
    pub address: String,
    /// Brokers with port.
    pub brokers: Vec<String>,
    /// TLS to them, if it is spoken.
    pub tls: Tls,
    /// Where it says how that goes.
    pub status: Arc<Status>,
}

impl Kafka {
    /// Tells or reads, again and again.
    pub async fn run(self) {
        let mut answered = None;
        loop {
            let Err(error) = self.session(&mut answered).await;
            if answered.is_none_or(|last: Instant| last.elapsed() > COUNTS) {
                self.status.set(Peer::Kafka, State::Down(format!("{error:#}")));
            }
            sleep(PERIOD).await;
        }
    }

    /// Until something goes wrong.
    async fn session(&self, answered: &mut Option<Instant>) -> Result<Infallible> {
        let partition = in_time(self.open()).await?;
        if self.daemon == Daemon::Collector {
            return self.tell(&partition, answered).await;
        }
        self.read(&partition, answered).await
    }

    async fn open(&self) -> Result<PartitionClient> {
        let mut builder = ClientBuilder::new(self.brokers.clone());
        if let Some((pair, authorities)) = &self.tls {
            builder = builder.tls_config(tls::client(authorities, Some(pair))?);
        }
        Ok(builder.build().await?.partition_client(TOPIC, 0, UnknownTopicHandling::Retry).await?)
    }

    async fn tell(&self, partition: &PartitionClient, answered: &mut Option<Instant>) -> Result<Infallible> {
        loop {
            let record = Record {
                key: Some(self.address.clone().into_bytes()),
                value: Some(b"{}".to_vec()),
                headers: BTreeMap::new(),
                timestamp: now()?,
            };
            in_time(async { Ok(partition.produce(vec![record], Compression::NoCompression).await?) }).await?;
            self.answered(answered);
            sleep(PERIOD).await;
        }
    }

    async fn read(&self, partition: &PartitionClient, answered: &mut Option<Instant>) -> Result<Infallible> {
        let mut heard = BTreeSet::new();
        let mut next = in_time(async { Ok(partition.get_offset(OffsetAt::Earliest).await?) }).await?;
        loop {
            let (records, _) = in_time(async { Ok(partition.fetch_records(next, BYTES, WAIT_MS).await?) }).await?;
            for told in records {
                next = told.offset + 1;
                let who = String::from_utf8_lossy(&told.record.key.unwrap_or_default()).into_owned();
                if heard.insert(who.clone()) {
                    log::say(&format!("reads what the collector {who} tells"));
                }
            }
            self.answered(answered);
            sleep(PERIOD).await;
        }
    }

    fn answered(&self, answered: &mut Option<Instant>) {
        *answered = Some(Instant::now());
        self.status.set(Peer::Kafka, State::Up(self.brokers.join(" ")));
    }
}

async fn in_time<T>(asked: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(PATIENCE, asked).await.context("no answer").flatten()
}

fn now() -> Result<DateTime<Utc>> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    DateTime::from_timestamp_millis(since.as_millis().try_into()?).context("no such time")
}
