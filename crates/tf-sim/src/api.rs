//! contrail-api: members and their workers come to the database one after the other (upstream `VncDbClient.__init__`), and say nothing of more than
//! ZooKeeper before. It serves once all stores are there, says 503 until its database is in order, one member after the other again (`db_resync`), and
//! 200 from then on.
//!
//! Objects and their names are in the database with a quorum, so that they are seen through every member, and in ZooKeeper is who makes one
//! ([`rest`]). A bgp-router is in the database by its node's name, too, where the control node of that name looks for it. Of every
//! change each member is told over the message bus: a virtual network that is created with `POST /virtual-networks` is read from any of them with
//! `GET /virtual-network/ID`, and deleted with `DELETE`.

use std::{
    net::IpAddr,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::sleep};
use zookeeper_client::Client;

use crate::{
    client::ApiClient,
    control,
    exit::{Exit, exception},
    http::{self, Answer, Question},
    introspect,
    keystone::{Guard, TOKEN},
    library::Library,
    log,
    notice::Notice,
    options::{ApiServer, Options},
    rest::{self, Rest, Store},
    status::{Peer, State, Status},
    stores::{cassandra::Database, rabbitmq::Bus, zookeeper},
    tables, unkind,
};

/// Where objects are.
pub const KEYSPACE: &str = "config_db_uuid";
const NAMES: &str = "/fq-name-to-uuid";
/// Number of the first worker.
const FIRST: &str = "0";
/// Where members stand in line to put it in order (upstream `_DEFAULT_ZK_DB_RESYNC_PATH_PREFIX`).
const RESYNC: &str = "/vnc_api_server_locks/dbe_resync";
/// How long a name is kept for who is about to make something of it (upstream `stale_lock_seconds`).
const STALE: Duration = Duration::from_secs(5);
const JSON: &str = "application/json; charset=UTF-8";
const RETRY: Duration = Duration::from_secs(1);
/// Between two looks at Keystone's projects, which upstream takes a minute for.
const SYNC: Duration = Duration::from_secs(10);

/// One that has its stores.
pub struct Api {
    database: Arc<Database>,
    bus: Arc<Bus>,
    notices: mpsc::UnboundedSender<Notice>,
    zookeeper: Client,
    status: Arc<Status>,
    is_in_order: AtomicBool,
    rest: Rest<Shared>,
    guard: Option<Arc<Guard>>,
}

/// What all members share.
struct Shared {
    database: Arc<Database>,
    zookeeper: Client,
}

impl Store for Shared {
    async fn get(&self, key: &str) -> Result<Option<String>> {
        self.database.get(KEYSPACE, key).await
    }

    async fn put(&self, key: &str, text: &str) -> Result<()> {
        self.database.put(KEYSPACE, key, text).await?;
        match router(key, text) {
            Some(alias) => self.database.put(KEYSPACE, &alias, text).await,
            None => Ok(()),
        }
    }

    async fn remove(&self, key: &str) -> Result<()> {
        let text = self.get(key).await?.unwrap_or_default();
        if let Some(alias) = router(key, &text) {
            self.database.remove(KEYSPACE, &alias).await?;
        }
        self.database.remove(KEYSPACE, key).await
    }

    async fn all(&self, beginning: &str) -> Result<Vec<String>> {
        self.database.all(KEYSPACE, beginning).await
    }

    async fn claim(&self, name: &str, uuid: &str) -> Result<bool> {
        zookeeper::claim_anew(&self.zookeeper, &format!("{NAMES}/{name}"), uuid, STALE).await
    }

    async fn release(&self, name: &str) -> Result<()> {
        zookeeper::release(&self.zookeeper, &format!("{NAMES}/{name}")).await
    }
}

/// Under which key control nodes look for an object, if they do.
fn router(key: &str, text: &str) -> Option<String> {
    let kind = key.strip_prefix("object:")?.split(':').next()?;
    let kind = [control::BGP_ROUTER, control::VIRTUAL_ROUTER].into_iter().find(|known| *known == kind)?;
    let object: Value = serde_json::from_str(text).ok()?;
    control::key(kind, object["fq_name"].as_array()?.last()?.as_str()?)
}

/// Plays it until it ends by itself. The session with ZooKeeper ends with the caller's `zookeeper`.
///
/// # Errors
/// What ends it.
pub async fn run(options: &Options, status: &Arc<Status>, node: &str, exit: &mpsc::Sender<Exit>) -> Result<(), Exit> {
    let api = load(options, status, node, exit).await?;
    let listener = http::listen(options.listen).await?;
    let answering = Arc::clone(&api);
    let answer = move |question: Question| {
        let api = Arc::clone(&answering);
        async move { api.answer(&question).await }
    };
    tokio::spawn(http::serve(listener, options.rest.clone(), http::Server::Rest, answer));
    log::say(&format!("listens on port {}", options.listen.1));
    serve(options, &api, node).await
}

/// Connects to everything that it does not serve without.
///
/// # Errors
/// What ends it.
pub async fn load(
    options: &Options,
    status: &Arc<Status>,
    node: &str,
    exit: &mpsc::Sender<Exit>,
) -> Result<Arc<Api>, Exit> {
    introspect::open(options, status).await?;
    let client = zookeeper::connect(options.zookeeper.as_deref(), options.session, status).await;
    let (servers, line) = (options.zookeeper.clone().unwrap_or_default(), zookeeper::Line::default());
    tokio::spawn(zookeeper::watch(client.clone(), servers, Arc::clone(status), exit.clone(), line));
    let failed = |error: anyhow::Error| exception(format!("{error:#}"));
    let own = zookeeper::lead(&client, options.daemon.election(), node).await.map_err(failed)?;
    let database = Database::connect(&options.cassandra, status).await?;
    tables::make(options.daemon, &database, &client, node).await?;
    if options.worker != FIRST {
        // It reads the database once more, and the next one waits for that.
        sleep(unkind::own().loading()).await;
    }
    zookeeper::make(&client, NAMES).await.map_err(failed)?;
    zookeeper::release(&client, &own).await.map_err(failed)?;
    status.set(Peer::RabbitMq, State::Initializing);
    let bus = Bus::new(&options.rabbitmq, format!("vnc_config.{node}-{}-{}", options.listen.1, options.worker), status);
    tokio::spawn(Arc::clone(&bus).run(exit.clone()));
    status.wait_for(Peer::RabbitMq).await;
    let (notices, publishing) = mpsc::unbounded_channel();
    tokio::spawn(publish(Arc::clone(&bus), publishing));

    Ok(Arc::new(Api {
        database: Arc::clone(&database),
        bus,
        notices,
        zookeeper: client.clone(),
        status: Arc::clone(status),
        is_in_order: AtomicBool::new(false),
        rest: Rest::new(Shared { database: Arc::clone(&database), zookeeper: client.clone() }),
        guard: options.guard.clone(),
    }))
}

/// Publishes notices in their order, each again until it is confirmed: requests do not wait for the message bus.
async fn publish(bus: Arc<Bus>, mut notices: mpsc::UnboundedReceiver<Notice>) {
    while let Some(notice) = notices.recv().await {
        while let Err(error) = bus.tell(&notice.text()).await {
            log::say(&format!("RabbitMQ: {error:#}"));
            sleep(RETRY).await;
        }
    }
}

/// Puts the database in order. Until then it answers that it has not.
///
/// # Errors
/// What ends it.
pub async fn serve(options: &Options, api: &Api, node: &str) -> Result<(), Exit> {
    resync(api, node).await.map_err(|error| exception(format!("{error:#}")))?;
    let database = Arc::clone(&api.database);
    tokio::spawn(async move { database.watch(KEYSPACE).await });
    api.is_in_order.store(true, Ordering::Release);
    log::say("serves");
    if let Some(guard) = &options.guard {
        projects(options, guard, Arc::clone(&api.status))?;
    }
    Ok(())
}

/// What the API has to do with projects of Keystone (upstream `vnc_openstack`): it asks itself for those it knows, as any client would, and Keystone
/// for its own, again and again. Nothing is made of them.
fn projects(options: &Options, guard: &Guard, status: Arc<Status>) -> Result<(), Exit> {
    let library = Library::read()?;
    let (host, port) = options.listen;
    let host = if host.is_unspecified() { IpAddr::from([127, 0, 0, 1]) } else { host };
    let own = ApiServer { hosts: vec![host.to_string()], port, tls: library.authorities().is_some() };
    let client = ApiClient::new(own, &library, &options.login)?;
    let login = guard.login().clone();
    tokio::spawn(async move {
        while let Err(error) = client.begin().await {
            log::say(&format!("Connection to API server failed: {}", error.why));
            sleep(SYNC).await;
        }
        loop {
            let state = match login.token().await {
                Ok(_) => State::Up(login.url.to_string()),
                Err(error) => State::Down(format!("Error: {error:#}")),
            };
            status.set(Peer::Keystone, state);
            sleep(SYNC).await;
        }
    });
    Ok(())
}

/// Puts the database in order, one member after the other, and reads it, which they do side by side.
async fn resync(api: &Api, node: &str) -> Result<()> {
    let own = zookeeper::lead(&api.zookeeper, RESYNC, node).await?;
    api.rest.begin().await?;
    zookeeper::release(&api.zookeeper, &own).await.context("leaving the line")?;
    sleep(unkind::own().loading()).await;
    Ok(())
}

/// The first page: every type has a list, an object and a few actions in it, which makes 36 kB (seen of a real one).
static HOME: LazyLock<String> = LazyLock::new(|| {
    const TYPES: usize = 135;
    let link = |number: usize| {
        let (kind, of) = (format!("object-type-{number:03}"), number % 2);
        let (rel, end) = if of == 0 { ("collection", "s") } else { ("resource-base", "") };
        [(rel, end), ("action", "-reference")].map(|(rel, end)| {
            let name = format!("{kind}{end}");
            json!({"link": {"href": format!("https://localhost:8082/{name}"), "method": "POST", "name": name, "rel": rel}})
        })
    };
    json!({"href": "https://localhost:8082", "links": (0..TYPES).flat_map(link).collect::<Vec<_>>()}).to_string()
});

impl Api {
    /// Answers a question.
    pub(crate) async fn answer(&self, question: &Question) -> Answer {
        if let Some(guard) = &self.guard
            && let Err(refusal) = guard.admit(&question.path, question.header(TOKEN)).await
        {
            return refusal;
        }
        if !self.is_in_order.load(Ordering::Acquire) {
            let why = "Api server is Initializing:DB Resync in progress";
            return (StatusCode::SERVICE_UNAVAILABLE, "text/plain", why.into());
        }
        match (question.method.as_str(), question.path.as_str(), network(&question.path)) {
            ("GET", "/", _) => (StatusCode::OK, JSON, HOME.clone()),
            ("POST", "/virtual-networks", _) => match self.create(&question.body).await {
                Ok(answer) => answer,
                Err(error) => failed(&error),
            },
            ("GET", _, Some(id)) => self.read(id).await.unwrap_or_else(|error| failed(&error)),
            // Names are claimed there, and a list takes long without it (docs/upstream/observed.md#stores).
            (method, ..) if method != "GET" && !self.status.is_up(Peer::Zookeeper) => no_zookeeper(),
            ("DELETE", _, Some(id)) => self.delete(id).await.unwrap_or_else(|error| failed(&error)),
            (method, path, _) => {
                let answer = rest::answer(&self.rest, question).await;
                if let Some(notice) = Notice::of(method, path, &question.body, (answer.0, &answer.2)) {
                    self.tell(notice);
                }
                answer
            }
        }
    }

    /// It goes to the message bus when that is there.
    fn tell(&self, notice: Notice) {
        let _ = self.notices.send(notice);
    }

    async fn create(&self, body: &[u8]) -> Result<Answer> {
        let Ok(Value::Object(mut object)) = serde_json::from_slice::<Value>(body) else {
            return Ok((StatusCode::BAD_REQUEST, "text/plain", "no JSON object".into()));
        };
        if !self.status.is_up(Peer::Zookeeper) {
            return Ok(no_zookeeper());
        }
        let id = rest::identifier()?;
        let path = claim(&id);
        // A connection that is lost meanwhile is made anew, and the name claimed again (upstream `vnc_zk`).
        while let Err(error) = zookeeper::make(&self.zookeeper, &path).await {
            log::say(&format!("Zookeeper: {error:#}"));
            sleep(RETRY).await;
        }
        object.insert("uuid".into(), json!(id));
        let text = Value::Object(object).to_string();
        self.database.put(KEYSPACE, &id, &text).await?;
        // Those who are not told read it from the database the next time they start.
        self.tell(Notice::new("CREATE", "virtual-network", &id));
        Ok((StatusCode::OK, JSON, text))
    }

    async fn delete(&self, id: &str) -> Result<Answer> {
        if self.database.get(KEYSPACE, id).await?.is_none() {
            return Ok(no_network());
        }
        self.database.remove(KEYSPACE, id).await?;
        zookeeper::release(&self.zookeeper, &claim(id)).await?;
        self.tell(Notice::new("DELETE", "virtual-network", id));
        Ok((StatusCode::OK, JSON, "{}".into()))
    }

    /// The object, and whether this member was told of it.
    async fn read(&self, id: &str) -> Result<Answer> {
        let Some(text) = self.database.get(KEYSPACE, id).await? else {
            return Ok(no_network());
        };
        let object: Value = serde_json::from_str(&text)?;
        Ok((StatusCode::OK, JSON, json!({"virtual-network": object, "told": self.bus.was_told(id)}).to_string()))
    }
}

/// The identifier in the path of a virtual network.
fn network(path: &str) -> Option<&str> {
    path.strip_prefix("/virtual-network/").filter(|id| is_identifier(id))
}

/// Where ZooKeeper has the name of a virtual network.
fn claim(id: &str) -> String {
    format!("{NAMES}/virtual_network:{id}")
}

fn no_network() -> Answer {
    (StatusCode::NOT_FOUND, "text/plain", "No virtual-network object found".into())
}

fn no_zookeeper() -> Answer {
    (StatusCode::SERVICE_UNAVAILABLE, "text/plain", "No connection to zookeeper".into())
}

fn failed(error: &anyhow::Error) -> Answer {
    (StatusCode::INTERNAL_SERVER_ERROR, "text/plain", format!("{error:#}"))
}

fn is_identifier(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_page_is_as_long_as_a_real_one() {
        assert!((33_000..39_000).contains(&HOME.len()), "{}", HOME.len());
        assert!(serde_json::from_str::<Value>(&HOME).unwrap()["links"][0]["link"]["href"].is_string());
    }

    #[test]
    fn identifiers_are_new_and_known_as_such() {
        let (one, two) = (rest::identifier().unwrap(), rest::identifier().unwrap());
        assert!(one != two && is_identifier(&one) && is_identifier(&two));
        assert!(!is_identifier("' OR 'a' = 'a") && !is_identifier(""));
    }
}
