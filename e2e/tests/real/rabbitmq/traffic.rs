//! Clients as Tungsten Fabric's are: each process has a queue of its own that a fanout exchange fills, and one publishes with
//! confirms (docs/upstream/rabbitmq.md#clients). Whoever loses its connection takes the next server and declares everything again.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail, ensure};
use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions,
    QueueBindOptions, QueueDeclareOptions,
};
use lapin::tcp::{OwnedIdentity, OwnedTLSConfig};
use lapin::types::FieldTable;
use lapin::uri::AMQPUri;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use tf_pki::authority::Authority;
use tf_testing::wait::eventually;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::{AMQP_PORT, NAME};
use crate::{
    store::{NAMESPACE, authorities, authority},
    tls,
};

/// Between two messages.
const PACE: Duration = Duration::from_millis(20);
/// For a connection, or an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Before the next server is tried.
const RETRY: Duration = Duration::from_millis(50);
/// For what was confirmed to arrive everywhere.
const ARRIVAL: Duration = Duration::from_secs(60);
const CONSUMERS: usize = 3;
const EXCHANGE: &str = "vnc_config.object-update";

/// What a client needs to connect.
#[derive(Clone)]
pub struct Access {
    user: String,
    password: String,
    vhost: String,
    bundle: String,
    identity: Option<(String, String)>,
}

impl Access {
    /// With a certificate that the authority of the namespace signed.
    pub async fn of(client: &Client) -> Result<Self> {
        Self::showing(client, &authority(client).await?, authorities(client).await?).await
    }

    async fn showing(client: &Client, authority: &Authority, bundle: String) -> Result<Self> {
        let own = Api::<Secret>::namespaced(client.clone(), NAMESPACE).get(&format!("{NAME}-secret")).await?;
        let data = own.data.context("an empty Secret")?;
        let text =
            |key: &str| anyhow::Ok(String::from_utf8(data.get(key).with_context(|| format!("no {key}"))?.0.clone())?);
        let pair = authority.operator("some-client", Duration::from_hours(1), Timestamp::now())?;
        Ok(Self {
            user: text("user")?,
            password: text("password")?,
            vhost: text("vhost")?,
            bundle,
            identity: Some((pair.issued.pem, pair.key)),
        })
    }

    /// By what is in the operator's Secret, with a certificate that this authority signed, before there is one of the namespace.
    pub async fn by(client: &Client, authority: &Authority) -> Result<Self> {
        Self::showing(client, authority, authority.certificates_pem()).await
    }

    /// The same without a certificate.
    pub fn without_certificate(&self) -> Self {
        Self { identity: None, ..self.clone() }
    }

    /// The same with another password.
    pub fn with_password(&self, password: &str) -> Self {
        Self { password: password.into(), ..self.clone() }
    }

    /// The same to another virtual host.
    pub fn to_vhost(&self, vhost: &str) -> Self {
        Self { vhost: vhost.into(), ..self.clone() }
    }

    /// The virtual host.
    pub fn vhost(&self) -> &str {
        &self.vhost
    }

    /// Who logs in.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// How it speaks TLS.
    pub fn tls(&self) -> Result<tls::Access> {
        tls::Access::showing(&self.bundle, self.identity.as_ref().map(|(chain, key)| (chain.as_str(), key.as_str())))
    }

    /// Connects to one server.
    pub async fn connect(&self, address: IpAddr) -> Result<Connection> {
        let Self { user, password, vhost, .. } = self;
        let mut uri: AMQPUri =
            format!("amqps://{user}:{password}@server:{AMQP_PORT}/{vhost}?heartbeat=5").parse().map_err(Error::msg)?;
        // Read from the text, an IPv6 address would keep its brackets, and not be found.
        uri.authority.host = address.to_string();
        let pem = |text: &String| text.clone().into_bytes();
        let identity = self.identity.as_ref();
        let tls = OwnedTLSConfig {
            identity: identity.map(|(chain, key)| OwnedIdentity::PKCS8 { pem: pem(chain), key: pem(key) }),
            cert_chain: Some(self.bundle.clone()),
        };
        let runtime = lapin::runtime::default_runtime()?;
        let connecting = Connection::connect_uri_with_config(uri, ConnectionProperties::default(), tls, runtime);
        Ok(timeout(PATIENCE, connecting).await??)
    }

    /// A channel to the first of these servers, from this one on, that takes it.
    async fn channel(&self, addresses: &[IpAddr], first: usize) -> Result<(Connection, Channel)> {
        for turn in 0..addresses.len() {
            let Ok(connection) = self.connect(addresses[(first + turn) % addresses.len()]).await else { continue };
            let Ok(Ok(channel)) = timeout(PATIENCE, connection.create_channel()).await else { continue };
            return Ok((connection, channel));
        }
        bail!("no server takes a client")
    }
}

/// What was confirmed and received.
#[derive(Debug, Default)]
struct Account {
    confirmed: BTreeSet<u64>,
    longest_pause: Duration,
    refused: usize,
    received: [BTreeSet<u64>; CONSUMERS],
    /// What each consumer waits for.
    waits: [&'static str; CONSUMERS],
}

impl Account {
    /// How many messages each consumer lacks, and what it waits for.
    fn lacks(&self) -> Vec<(usize, &'static str)> {
        let lacks = |received: &BTreeSet<u64>| self.confirmed.difference(received).count();
        self.received.iter().map(lacks).zip(self.waits).collect()
    }

    fn confirm(&mut self, number: u64, pause: Duration) {
        self.confirmed.insert(number);
        self.longest_pause = self.longest_pause.max(pause);
    }
}

/// The clients.
pub struct Traffic {
    account: Arc<Mutex<Account>>,
    tasks: Vec<JoinHandle<()>>,
}

/// How it went.
pub struct Summary {
    /// Messages that were confirmed.
    pub confirmed: usize,
    /// Messages that were confirmed, and not received by everybody.
    pub lost: usize,
    /// Longest time between two confirmations.
    pub longest_pause: Duration,
    /// Messages that had to be sent again.
    pub refused: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { confirmed, lost, longest_pause, refused } = self;
        write!(f, "{confirmed} messages, {lost} lost, {refused} sent again, longest pause {longest_pause:.1?}")
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Traffic {
    /// Consumers, one connected to each server, and when all are there a publisher.
    pub async fn begin(access: &Access, addresses: &[IpAddr]) -> Result<Self> {
        let account = Arc::new(Mutex::new(Account::default()));
        let mut tasks = Vec::new();
        for number in 0..CONSUMERS {
            let (access, addresses, account) = (access.clone(), addresses.to_vec(), Arc::clone(&account));
            let queue = declared(&access, &addresses, number, number).await?;
            tasks.push(tokio::spawn(consume(access, addresses, number, queue, account)));
        }
        tasks.push(tokio::spawn(publish(access.clone(), addresses.to_vec(), Arc::clone(&account))));
        let traffic = Self { account, tasks };
        traffic.goes_on().await?;
        Ok(traffic)
    }

    /// Waits until more was confirmed.
    pub async fn goes_on(&self) -> Result<()> {
        let count = || self.account.lock().unwrap().confirmed.len();
        let before = count();
        eventually("messages to be confirmed", ARRIVAL, async || Ok((count() > before + 10).then_some(()))).await
    }

    /// Ends the publisher, and the consumers when everything has arrived or nothing more can be expected.
    pub async fn end(mut self) -> Result<Summary> {
        self.goes_on().await?;
        let publisher = self.tasks.pop().context("no publisher")?;
        publisher.abort();
        let _ = publisher.await;
        let lost = || self.account.lock().unwrap().lacks().into_iter().map(|(lacks, _)| lacks).sum::<usize>();
        let _ = eventually("everything to arrive", ARRIVAL, async || Ok((lost() == 0).then_some(()))).await;
        let lost = lost();
        let account = self.account.lock().unwrap();
        if lost > 0 {
            println!("what consumers lack, and wait for: {:?}", account.lacks());
        }
        ensure!(!account.confirmed.is_empty(), "nothing was confirmed");
        Ok(Summary {
            confirmed: account.confirmed.len(),
            lost,
            longest_pause: account.longest_pause,
            refused: account.refused,
        })
    }
}

/// A consumer's connection to the first of these servers, from this one on, that takes it, with its queue bound.
async fn declared(
    access: &Access,
    addresses: &[IpAddr],
    first: usize,
    number: usize,
) -> Result<(Connection, lapin::Consumer)> {
    let (connection, channel) = access.channel(addresses, first).await?;
    let queue = format!("vnc_config.host-{number}");
    let declare = async {
        let options = ExchangeDeclareOptions::default();
        channel.exchange_declare(EXCHANGE.into(), ExchangeKind::Fanout, options, FieldTable::default()).await?;
        channel.queue_declare(queue.as_str().into(), QueueDeclareOptions::default(), FieldTable::default()).await?;
        let options = QueueBindOptions::default();
        channel.queue_bind(queue.as_str().into(), EXCHANGE.into(), "".into(), options, FieldTable::default()).await?;
        let options = BasicConsumeOptions::default();
        channel.basic_consume(queue.as_str().into(), "".into(), options, FieldTable::default()).await
    };
    let consumer = timeout(PATIENCE, declare).await??;
    Ok((connection, consumer))
}

async fn consume(
    access: Access,
    addresses: Vec<IpAddr>,
    number: usize,
    mut open: (Connection, lapin::Consumer),
    account: Arc<Mutex<Account>>,
) {
    let waits = |what| account.lock().unwrap().waits[number] = what;
    for turn in number.. {
        loop {
            waits("for messages");
            let delivery = match timeout(PATIENCE, open.1.next()).await {
                Ok(Some(Ok(delivery))) => delivery,
                Err(_) if open.0.status().connected() => continue,
                _ => break,
            };
            let message = delivery.data.as_slice().try_into().map(u64::from_be_bytes);
            account.lock().unwrap().received[number].extend(message);
            waits("to say that it has one");
            let said = timeout(PATIENCE, delivery.ack(BasicAckOptions::default())).await;
            if !matches!(said, Ok(Ok(_))) {
                break;
            }
        }
        waits("for a server");
        open = loop {
            // It ends like the task: when the test does.
            match declared(&access, &addresses, turn + 1, number).await {
                Ok(open) => break open,
                Err(_) => sleep(RETRY).await,
            }
        };
    }
}

async fn publish(access: Access, addresses: Vec<IpAddr>, account: Arc<Mutex<Account>>) {
    let mut last = None;
    let mut number = 0_u64;
    for turn in 0.. {
        let Ok((_connection, channel)) = access.channel(&addresses, turn).await else {
            sleep(RETRY).await;
            continue;
        };
        let selected = timeout(PATIENCE, channel.confirm_select(ConfirmSelectOptions::default())).await;
        if !matches!(selected, Ok(Ok(()))) {
            continue;
        }
        loop {
            let sent = async {
                let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
                let message = number.to_be_bytes();
                channel.basic_publish(EXCHANGE.into(), "".into(), options, &message, properties).await?.await
            };
            let is_confirmed = matches!(timeout(PATIENCE, sent).await, Ok(Ok(confirmation)) if confirmation.is_ack());
            if !is_confirmed {
                account.lock().unwrap().refused += 1;
                break;
            }
            let now = Instant::now();
            let pause = last.replace(now).map_or(Duration::ZERO, |last| now - last);
            account.lock().unwrap().confirm(number, pause);
            number += 1;
            sleep(PACE).await;
        }
    }
}
