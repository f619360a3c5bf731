//! The message bus: AMQPS with login and virtual host, an exchange that tells everybody, a queue for each daemon, none of which outlives its
//! server (docs/upstream/rabbitmq.md#clients).

use std::{
    collections::BTreeSet,
    ops::RangeInclusive,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use futures::StreamExt as _;
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties, Consumer, ErrorKind, ExchangeKind,
    options::{
        BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions,
        QueueBindOptions, QueueDeclareOptions,
    },
    tcp::{OwnedIdentity, OwnedTLSConfig},
    types::FieldTable,
};
use rustls::pki_types::ServerName;
use tokio::{
    net::TcpStream,
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_rustls::TlsConnector;

use crate::{
    exit::{Exit, exception},
    log,
    notice::{Notice, Stumbling},
    options::{Rabbitmq, RabbitmqTls},
    status::{Peer, State, Status},
    tls,
};

const EXCHANGE: &str = "vnc_config.object-update";
/// For a connection, or an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Before the next server is tried.
const RETRY: Duration = Duration::from_secs(1);
/// For how many seconds a daemon is without its connection that has stumbled (seen).
const STUMBLE: RangeInclusive<f64> = 0.1..=2.0;
/// What a broker says to a login that it does not know, and to a virtual host that there is not (AMQP 0-9-1).
const REFUSED: [u16; 2] = [403, 530];

/// The message bus as a daemon uses it.
pub struct Bus {
    options: Rabbitmq,
    queue: String,
    status: Arc<Status>,
    channel: Mutex<Option<Channel>>,
    told: Mutex<BTreeSet<String>>,
    stumbling: Option<Mutex<Stumbling>>,
}

/// Why a connection is over.
enum Over {
    Ended,
    Stumbled,
}

impl Bus {
    /// One that is not connected yet. `queue` is the daemon's own.
    pub fn new(options: &Rabbitmq, queue: String, status: &Arc<Status>) -> Arc<Self> {
        Self::stumbling(options, queue, status, None)
    }

    /// The same of a daemon that stumbles over what it is told.
    pub fn stumbling(
        options: &Rabbitmq,
        queue: String,
        status: &Arc<Status>,
        stumbling: Option<Stumbling>,
    ) -> Arc<Self> {
        let (options, status, stumbling) = (options.clone(), Arc::clone(status), stumbling.map(Mutex::new));
        Arc::new(Self { options, queue, status, channel: Mutex::default(), told: Mutex::default(), stumbling })
    }

    /// Connects, again and again, and hears what others tell. Ends the daemon where the broker does not let it in.
    pub async fn run(self: Arc<Self>, exit: mpsc::Sender<Exit>) {
        let mut turn: usize = 0;
        loop {
            let Some(server) = self.options.servers.get(turn % self.options.servers.len().max(1)) else { return };
            match self.connect(server).await {
                Ok((connection, consumer)) => {
                    self.status.set(Peer::RabbitMq, State::Up(server.clone()));
                    let over = self.hear(consumer).await;
                    drop(connection);
                    *self.channel.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    if let Over::Stumbled = over {
                        log::say(
                            "Error in rabbitmq drainer greenlet: 'AnalyticsLogger' object has no attribute 'warn'",
                        );
                        self.status.set(Peer::RabbitMq, State::Initializing);
                        sleep(Duration::from_secs_f64(rand::random_range(STUMBLE))).await;
                        continue;
                    }
                    self.status.set(Peer::RabbitMq, State::Down("the connection ended".into()));
                }
                Err(error) => {
                    self.status.set(Peer::RabbitMq, State::Down(format!("{server}: {}", brief(&error))));
                    if let Some(refusal) = refusal(&error) {
                        let _ = exit.send(exception(refusal)).await;
                        return;
                    }
                }
            }
            turn = turn.wrapping_add(1);
            sleep(RETRY).await;
        }
    }

    /// Tells everybody of a change.
    ///
    /// # Errors
    /// When the broker does not confirm it.
    pub async fn tell(&self, notice: &str) -> Result<()> {
        let channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner).clone().context("not connected")?;
        let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
        let sent = async {
            channel.basic_publish(EXCHANGE.into(), "".into(), options, notice.as_bytes(), properties).await?.await
        };
        ensure!(timeout(PATIENCE, sent).await??.is_ack(), "not confirmed");
        Ok(())
    }

    /// Whether it was told of an object.
    pub fn was_told(&self, object: &str) -> bool {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).contains(object)
    }

    async fn hear(&self, mut consumer: Consumer) -> Over {
        while let Some(Ok(delivery)) = consumer.next().await {
            let acknowledged = delivery.ack(BasicAckOptions::default()).await;
            if let Some(notice) = Notice::read(&delivery.data) {
                if self.stumbles(&notice) {
                    return Over::Stumbled;
                }
                self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(notice.uuid);
            }
            if acknowledged.is_err() {
                break;
            }
        }
        Over::Ended
    }

    fn stumbles(&self, notice: &Notice) -> bool {
        let stumbling = self.stumbling.as_ref().map(|it| it.lock().unwrap_or_else(PoisonError::into_inner));
        stumbling.is_some_and(|mut it| it.stumbles(&notice.kind))
    }

    async fn connect(&self, server: &str) -> Result<(Connection, Consumer)> {
        let Rabbitmq { user, password, vhost, heartbeat, tls, .. } = &self.options;
        let scheme = if tls.is_some() { "amqps" } else { "amqp" };
        // The root's name is a slash, which stands for itself here and not in a URL.
        let vhost = if vhost == "/" { "%2f" } else { vhost };
        // Of a daemon that wants none this client has the server's own, which it cannot refuse.
        let uri = format!("{scheme}://{user}:{password}@{server}/{vhost}?heartbeat={heartbeat}");
        if let Some(tls) = tls {
            timeout(PATIENCE, check(tls, server)).await??;
        }
        let tls = tls.as_ref().map(configuration).transpose()?.unwrap_or_default();
        let runtime = lapin::runtime::default_runtime()?;
        let connecting = Connection::connect_with_config(&uri, ConnectionProperties::default(), tls, runtime);
        let connection = timeout(PATIENCE, connecting).await??;
        let declared = timeout(PATIENCE, self.declare(&connection)).await??;
        Ok((connection, declared))
    }

    async fn declare(&self, connection: &Connection) -> Result<Consumer> {
        let channel = connection.create_channel().await?;
        let (options, queue) = (ExchangeDeclareOptions::default(), self.queue.as_str());
        channel.exchange_declare(EXCHANGE.into(), ExchangeKind::Fanout, options, FieldTable::default()).await?;
        channel.queue_declare(queue.into(), QueueDeclareOptions::default(), FieldTable::default()).await?;
        let options = QueueBindOptions::default();
        channel.queue_bind(queue.into(), EXCHANGE.into(), "".into(), options, FieldTable::default()).await?;
        let options = BasicConsumeOptions::default();
        let consumer = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await?;
        let publisher = connection.create_channel().await?;
        publisher.confirm_select(ConfirmSelectOptions::default()).await?;
        *self.channel.lock().unwrap_or_else(PoisonError::into_inner) = Some(publisher);
        Ok(consumer)
    }
}

fn configuration(tls: &RabbitmqTls) -> Result<OwnedTLSConfig> {
    ensure!(tls.has_version, "kombu_ssl_version is none that there is");
    let authorities = tls.authorities.as_ref().context("no kombu_ssl_ca_certs to check servers by")?;
    let cert_chain = Some(String::from_utf8(tls::text(authorities)?)?);
    let identity = match &tls.pair {
        Some(pair) => Some(OwnedIdentity::PKCS8 { pem: tls::text(&pair.certificate)?, key: tls::text(&pair.key)? }),
        None => None,
    };
    Ok(OwnedTLSConfig { identity, cert_chain })
}

/// Whether a server is who the authorities say, and takes the certificate: the client below trusts the authorities of the system, too.
async fn check(tls: &RabbitmqTls, server: &str) -> Result<()> {
    let authorities = tls.authorities.as_deref().context("no kombu_ssl_ca_certs to check servers by")?;
    let config = tls::client(authorities, tls.pair.as_ref())?;
    let (host, _) = server.rsplit_once(':').context("no port")?;
    let name = ServerName::try_from(host.trim_start_matches('[').trim_end_matches(']').to_owned())?;
    TlsConnector::from(config).connect(name, TcpStream::connect(server).await?).await.map(drop).context("TLS")
}

/// What ends a daemon.
fn refusal(error: &anyhow::Error) -> Option<String> {
    let ErrorKind::ProtocolError(said) = error.downcast_ref::<lapin::Error>()?.kind() else { return None };
    let code = said.get_id();
    let name = if code == REFUSED[0] { "AccessRefused" } else { "NotAllowed" };
    REFUSED.contains(&code).then(|| format!("amqp.exceptions.{name}: ({code})"))
}

/// Without what may quote the URL.
fn brief(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    if text.contains("amqp") { "cannot connect".to_owned() } else { text }
}
